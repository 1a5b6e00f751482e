"""`convert IN OUT`: any supported format to the article's JSON."""

from __future__ import annotations

import argparse
from pathlib import Path

from thesis_lib.commands.inputs import add_edges_from_files, print_warnings
from thesis_lib.commands.output import note
from thesis_lib.workflow import WorkflowError
from thesis_lib.workload import Workload

NAME, HELP = "convert", "write a workflow file of any supported format as the article's JSON"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments of the command."""
    parser.add_argument("source", metavar="IN")
    parser.add_argument("target", metavar="OUT", help="a .json file, or a folder (for several workflows)")
    add_edges_from_files(parser)


def run(arguments: argparse.Namespace) -> None:
    """Read IN and write OUT; several workflows become several files."""
    from thesis_lib.formats import load_workload, save_workflow

    source, target = Path(arguments.source), Path(arguments.target)
    workload = load_workload(source, edges_from_files=arguments.edges_from_files)
    print_warnings(workload.workflows)
    if len(workload) > 1:
        write_all(workload, source, target)
        return
    if target.is_dir():
        target /= f"{source.absolute().stem}.json"
    if target.exists() and target.samefile(source):
        raise WorkflowError(f"{target}: is the file that is read; choose another name for OUT")
    save_workflow(workload.workflows[0], target)
    note(f"wrote {target}")


def write_all(workload: Workload, source: Path, folder: Path) -> None:
    """One numbered file per workflow, in a folder that exists."""
    from thesis_lib.formats import save_workflow

    if not folder.is_dir():
        raise WorkflowError(f"{source}: holds {len(workload)} workflows; make a folder and name it as OUT")
    digits = len(str(len(workload) - 1))
    for w, workflow in enumerate(workload.workflows):
        save_workflow(workflow, folder / f"{source.absolute().stem}-{w:0{digits}d}.json")
    lost = "; the arrival times stay behind, a workflow file has none" if any(workload.arrivals_s) else ""
    note(f"wrote {len(workload)} files to {folder}{lost}")
