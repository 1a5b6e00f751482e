"""Reading and writing workflow files; the format is found by content, never by file ending."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from thesis_lib.formats import alibaba, article, dax, hetero_csv, stg, wfformat
from thesis_lib.formats.article import save_workflow
from thesis_lib.formats.hetero_csv import is_companion
from thesis_lib.formats.reading import Source, faults_named, read_source
from thesis_lib.workflow import Workflow, WorkflowError

if TYPE_CHECKING:
    from thesis_lib.workload import Workload

__all__ = ["FORMATS", "detect_format", "is_companion", "load_workflow", "load_workload", "save_workflow"]

FORMATS = (
    ("article", 'JSON {"type", "tasks": [...]}, the project\'s own format; also written by save_workflow'),
    ("wfformat", "WfCommons JSON 1.0 to 1.6 (execution traces and generated workflows)"),
    ("dax", "Pegasus DAX 2.x and 3.x XML with runtimes"),
    ("stg", "Standard Task Graph text, with or without dummies, prototype head or deadlines"),
    ("hetero-csv", "*_task_exe_time.csv of the HEFT and PEFT papers, its two companion files beside it"),
    ("alibaba", "Alibaba 2018 batch_task CSV of nine columns: a workload of many workflows"),
    ("alibaba-spar", "the same trace in the seven columns of spar"),
    ("alibaba-cloudsimpy", "the same trace in the CSV with a head line of CloudSimPy"),
)
_READERS = (article, wfformat, dax, stg, alibaba, hetero_csv)


def load_workflow(path: str | Path, *, edges_from_files: bool = False) -> Workflow:
    """Read one workflow from a file of any supported format (see FORMATS).

    edges_from_files: in WfFormat and DAX, also make an edge from the task that writes a
        file to each task that reads it. Without it such pairs only give a warning.

    Raises WorkflowError, one line that begins with the path, for anything that cannot
    be used, and for a file of several workflows (see load_workload).
    """
    path = Path(path)
    arriving = _load(path, edges_from_files)
    if len(arriving) > 1:
        raise WorkflowError(f"{path}: holds {len(arriving)} workflows, not one; load it with load_workload")
    return arriving[0][1]


def load_workload(path: str | Path, *, edges_from_files: bool = False) -> "Workload":
    """Read a workload: a file of several workflows, a single workflow (arriving at 0), or a folder.

    A folder gives one workflow per file, all arriving at 0. Raises WorkflowError as load_workflow.
    """
    from thesis_lib.workload import Workload  # here, because workload itself builds on formats

    path = Path(path)
    if path.is_dir():
        return Workload.from_dir(path, edges_from_files=edges_from_files)
    arrivals_s, workflows = zip(*_load(path, edges_from_files))
    return Workload(workflows, arrivals_s, path.stem)


def detect_format(path: str | Path) -> str:
    """Name of the file's format as in FORMATS; WfFormat with its version, such as "wfformat-1.5".

    Raises WorkflowError when the file cannot be read or its content is of no known format.
    """
    path = Path(path)
    with faults_named(path):
        return _recognise(read_source(path))[0]


def _load(path: Path, edges_from_files: bool) -> list[tuple[float, Workflow]]:
    """(arrival in seconds, Workflow) of everything in the file."""
    with faults_named(path):
        source = read_source(path)
        loaded = _recognise(source)[1].read(source, edges_from_files)
        return [(0.0, loaded)] if isinstance(loaded, Workflow) else loaded


def _recognise(source: Source) -> tuple[str, object]:
    """The format's name and the module that reads it."""
    for reader in _READERS:
        if name := reader.recognise(source):
            return name, reader
    names = ", ".join(name for name, _ in FORMATS)
    raise WorkflowError(f"unknown content{_what_it_holds(source)}; supported formats: {names}")


def _what_it_holds(source: Source) -> str:
    """Words on content that is readable but no workflow."""
    if source.starts == "<":
        return " (XML, but not a Pegasus <adag>)"
    if source.starts not in "{[":
        return ""
    data = source.json
    if isinstance(data, list):
        return ' (a JSON list; a workflow is an object with "tasks", a cluster file goes to --cluster)'
    return f' (a JSON object without "tasks" or "workflow"; its keys: {", ".join(map(repr, list(data)[:8])) or "none"})'
