"""`convert IN OUT`: any supported format to the article's JSON."""

from __future__ import annotations

import argparse
from pathlib import Path

from thesis_lib.commands.inputs import add_edges_from_files, print_warnings, refuse_overwriting
from thesis_lib.commands.output import note
from thesis_lib.files import refuse_target
from thesis_lib.workflow import WorkflowError

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
    if not target.is_dir():
        refuse_target(target)
    workload = load_workload(source, edges_from_files=arguments.edges_from_files)
    print_warnings(workload.workflows)
    targets = target_files(len(workload), source, target)
    refuse_overwriting(targets, [source])
    for path in targets:  # all of them before the first is written
        refuse_target(path)
    for workflow, path in zip(workload.workflows, targets):
        save_workflow(workflow, path)
    lost = "; the arrival times stay behind, a workflow file has none" if any(workload.arrivals_s) else ""
    note(f"wrote {targets[0] if len(targets) == 1 else f'{len(targets)} files to {target}'}{lost}")


def target_files(count: int, source: Path, target: Path) -> list[Path]:
    """The file to write, in a folder under the name of the source; numbered files for several workflows."""
    stem = source.absolute().stem
    if count == 1:
        return [target / f"{stem}.json" if target.is_dir() else target]
    if not target.is_dir():
        raise WorkflowError(f"{source}: holds {count} workflows; make a folder and name it as OUT")
    if source.is_dir() and target.samefile(source):
        raise WorkflowError(f"{target}: is the folder that is read; choose another one for OUT")
    digits = len(str(count - 1))
    return [target / f"{stem}-{w:0{digits}d}.json" for w in range(count)]
