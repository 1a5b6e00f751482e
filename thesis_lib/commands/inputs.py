"""Reading the files and clusters that commands are given."""

from __future__ import annotations

import argparse
import os
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path

from thesis_lib.cluster import Cluster
from thesis_lib.commands.output import note
from thesis_lib.workflow import Workflow, WorkflowError
from thesis_lib.workload import Workload


def add_edges_from_files(parser: argparse.ArgumentParser) -> None:
    """The option of every command that reads workflow files."""
    parser.add_argument(
        "--edges-from-files",
        action="store_true",
        help="also make an edge from the task that writes a file to each task that reads it",
    )


def read_workload(paths: Sequence[str], edges_from_files: bool = False) -> Workload:
    """One workload of all files; several files arrive together at 0, whatever a trace says.

    Prints the readers' warnings, and a note for each file whose arrival times are not used.
    """
    from thesis_lib.formats import load_workload

    loaded = [load_workload(path, edges_from_files=edges_from_files) for path in paths]
    for workload in loaded:
        print_warnings(workload.workflows)
    if len(loaded) == 1:
        return loaded[0]
    for path, workload in zip(paths, loaded):
        if any(workload.arrivals_s):
            note(f"{path}: its arrival times are not used, since several files arrive together at 0")
    flows = [workflow for workload in loaded for workflow in workload.workflows]
    return Workload.together(flows, ", ".join(workload.name for workload in loaded))


def refuse_overwriting(targets: Iterable[Path], sources: Iterable[str | Path]) -> None:
    """Raise WorkflowError when a file to be written is one of those that are read for `sources`, under any name."""
    read = {(info.st_dev, info.st_ino) for source in sources for info in _stats(_files_of(Path(source)))}
    for target in targets:
        if any((info.st_dev, info.st_ino) in read for info in _stats([target])):
            raise WorkflowError(f"{target}: is a file that is read; choose another name or folder")


def _files_of(source: Path) -> list[Path]:
    """The files that reading a file or a folder may touch: a CSV triple has companions beside it."""
    from thesis_lib.formats import is_companion

    if source.is_dir():
        return list(source.iterdir())
    return [source, *(p for p in source.parent.iterdir() if is_companion(p))] if source.parent.is_dir() else []


def _stats(paths: Iterable[Path]) -> Iterator[os.stat_result]:
    for path in paths:
        with suppress(OSError):  # what is not there cannot be overwritten
            yield path.stat()


def print_warnings(workflows: Sequence[Workflow]) -> None:
    """The warnings of the readers on stderr, one line each."""
    for workflow in workflows:
        for warning in workflow.warnings:
            note(f"warning: {workflow.name}: {warning}" if workflow.name else f"warning: {warning}")


def choose_cluster(path: str | None, workload: Workload) -> Cluster:
    """The cluster of --cluster, else the one the workflow file brings, else the article's three VMs."""
    if path is not None:
        return Cluster.from_json(path)
    brought = {w.cluster for w in workload.workflows if w.cluster is not None}
    if len(brought) > 1:
        raise WorkflowError(f"{workload.name}: the files bring different clusters; choose one with --cluster FILE")
    return brought.pop() if brought else Cluster.default()
