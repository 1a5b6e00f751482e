"""`info FILE`: what a workflow file, or a folder of them, holds."""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np

from thesis_lib.commands.inputs import add_edges_from_files, print_warnings
from thesis_lib.commands.output import print_json, print_table
from thesis_lib.ranks import critical_path
from thesis_lib.workflow import Workflow
from thesis_lib.workload import Workload

NAME, HELP = "info", "count tasks, edges and the critical path of a workflow file or of a folder of them"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments of the command."""
    parser.add_argument("file", metavar="FILE")
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    add_edges_from_files(parser)


def run(arguments: argparse.Namespace) -> None:
    """Print the counts."""
    from thesis_lib.formats import detect_format, load_workload

    workload = load_workload(arguments.file, edges_from_files=arguments.edges_from_files)
    kind = "folder" if Path(arguments.file).is_dir() else detect_format(arguments.file)
    result = {"format": kind, **describe(workload)}
    if arguments.json:
        print_json(result)
        return
    print_warnings(workload.workflows)
    print_table([(key, _for_people(value)) for key, value in result.items() if key != "warnings"])


def describe(workload: Workload) -> dict:
    """Counts of one workflow, or the totals of several."""
    each = [describe_workflow(workflow) for workflow in workload.workflows]
    if len(each) == 1:
        return each[0]
    result: dict = {"workflows": len(each)}
    result |= {key: sum(one[key] for one in each) for key in ("tasks", "edges", "roots", "leaves", "total_work_s")}
    longest = max(each, key=lambda one: one["critical_path_s"])
    result |= {key: max(one[key] for one in each) for key in ("depth", "width")}
    result |= {key: longest[key] for key in ("critical_path_s", "critical_path")}
    result["last_arrival_s"] = workload.arrivals_s[-1]
    result["warnings"] = [warning for one in each for warning in one["warnings"]]
    return result


def describe_workflow(workflow: Workflow) -> dict:
    """tasks, edges, roots, leaves, depth (layers), width (largest layer), work and critical path."""
    length_s, path = critical_path(workflow)
    return {
        "tasks": len(workflow),
        "edges": len(workflow.parent_idx),
        "roots": int((np.diff(workflow.parent_ptr) == 0).sum()),
        "leaves": int((np.diff(workflow.child_ptr) == 0).sum()),
        "depth": int(workflow.levels.max()) + 1,
        "width": int(np.bincount(workflow.levels).max()),
        "total_work_s": float(workflow.mean_s.sum()),
        "critical_path_s": length_s,
        "critical_path": path,
        "warnings": list(workflow.warnings),
    }


def _for_people(value: object) -> object:
    return " -> ".join(map(str, value)) if isinstance(value, list) else value
