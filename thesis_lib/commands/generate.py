"""`generate FAMILY OUT`: one random workflow as the article's JSON."""

from __future__ import annotations

import argparse

from thesis_lib.commands.output import note
from thesis_lib.files import refuse_target
from thesis_lib.generators import FAMILIES, generate

NAME, HELP = "generate", "draw a random workflow of a family and write it as the article's JSON"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments of the command."""
    parser.add_argument("family", metavar="FAMILY", help=f"one of {', '.join(FAMILIES)}")
    parser.add_argument("out", metavar="OUT", help="the .json file to write")
    parser.add_argument("--tasks", type=int, dest="n_tasks", metavar="N", help="number of tasks (default: drawn)")
    parser.add_argument("--seed", type=int, default=0, metavar="N", help="fixes the whole workflow (default 0)")
    parser.add_argument("--max-out", type=int, metavar="N", help="layered, thesis_dag: most children of a task")
    parser.add_argument("--alpha", type=float, help="layered, thesis_dag: floor(sqrt(n) / alpha) layers")
    parser.add_argument("--beta", type=float, help="layered, thesis_dag: spread of the layer widths")
    parser.add_argument("--data-mb", type=float, metavar="MB", help="mean data per edge, 0 for none")


def run(arguments: argparse.Namespace) -> None:
    """Draw the workflow and write it."""
    from thesis_lib.formats import save_workflow

    refuse_target(arguments.out)
    names = ("n_tasks", "seed", "max_out", "alpha", "beta", "data_mb")
    given = {name: getattr(arguments, name) for name in names if getattr(arguments, name) is not None}
    workflow = generate(arguments.family, **given)
    save_workflow(workflow, arguments.out)
    note(f"wrote {arguments.out}: {len(workflow)} tasks, {len(workflow.parent_idx)} edges")
