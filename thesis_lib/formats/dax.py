"""Pegasus DAX, the XML of the synthetic workflows that most cloud-scheduling papers use."""

from __future__ import annotations

from typing import TYPE_CHECKING

from thesis_lib.formats.file_edges import FileTask, data_by_parent_mb, settle_file_edges
from thesis_lib.formats.reading import Source, checked_workflow, to_number
from thesis_lib.workflow import Task, Workflow, WorkflowError

if TYPE_CHECKING:
    from xml.etree.ElementTree import Element


def recognise(source: Source) -> str | None:
    """ "dax" for XML whose outermost element is <adag>."""
    if source.starts != "<":
        return None
    return "dax" if _local(_root(source).tag) == "adag" else None


def read(source: Source, edges_from_files: bool = False) -> Workflow:
    """Read DAX 2.x or 3.x, with or without a namespace.

    The <child> elements are the authority for edges. The data of an edge is what the
    parent writes and the child reads, at the size that the parent states (bytes).
    Runtimes are seconds on a reference machine and required; `cores` becomes cpu.
    The counts in the <adag> element are often wrong and not read.
    """
    root, warnings = _root(source), []
    jobs = [e for e in root if _local(e.tag) == "job"]
    if not jobs:
        raise WorkflowError("the <adag> element holds no <job>")
    files = [_file_task(job, i) for i, job in enumerate(jobs)]
    by_id = {str(f.id): f for f in files}  # Workflow refuses ids that occur twice
    _connect(root, by_id)
    settle_file_edges(files, edges_from_files, warnings)
    tasks = [_task(job, f, by_id) for job, f in zip(jobs, files)]
    namespaces = {job.get("namespace", "") for job in jobs}
    family = namespaces.pop() if len(namespaces) == 1 else ""
    return checked_workflow(tasks, family, source.path.stem, None, warnings)


def _root(source: Source) -> "Element":
    """The outermost element. Document types and entities are refused: they can blow up or read files."""
    from xml.etree.ElementTree import ParseError

    from defusedxml import DefusedXmlException
    from defusedxml.ElementTree import fromstring

    try:
        return fromstring(source.text, forbid_dtd=True)
    except DefusedXmlException:
        raise WorkflowError("XML with a document type or entities is refused; remove the <!DOCTYPE ...> part") from None
    except ParseError as error:
        raise WorkflowError(f"not valid XML: {error}") from None


def _local(tag: object) -> str:
    """The tag without its namespace."""
    return str(tag).rpartition("}")[2]


def _file_task(job: "Element", position: int) -> FileTask:
    task_id = job.get("id")
    if not task_id:
        raise WorkflowError(f"job {position} of the file has no id")
    task = FileTask(task_id)
    for use in job:
        if _local(use.tag) != "uses":
            continue
        name = use.get("file") or use.get("name")
        if not name:
            raise WorkflowError(f"job {task_id!r}: a <uses> element names no file")
        size = use.get("size")
        bytes_ = None if size is None else to_number(size, f"job {task_id!r}: size of file {name!r}")
        task.use_file(name, use.get("link"), bytes_)
    return task


def _connect(root: "Element", by_id: dict[str, FileTask]) -> None:
    for child in root:
        if _local(child.tag) != "child":
            continue
        task = _referred(child, "<child>", by_id)
        for parent in child:
            if _local(parent.tag) == "parent":
                task.add_parent(_referred(parent, f"<child ref={task.id!r}>: <parent>", by_id).id)


def _referred(element: "Element", what: str, by_id: dict[str, FileTask]) -> FileTask:
    ref = element.get("ref", "")
    if ref not in by_id:
        raise WorkflowError(f"{what} refers to job {ref!r}, which does not exist")
    return by_id[ref]


def _task(job: "Element", files: FileTask, by_id: dict[str, FileTask]) -> Task:
    where, runtime = f"job {files.id!r}", job.get("runtime")
    if runtime is None:
        raise WorkflowError(
            f"{where} has no runtime (input of a planner, not a workflow with durations); add runtime=seconds to it"
        )
    return Task(
        files.id,
        to_number(runtime, f"{where}: runtime"),
        cpu=to_number(job.get("cores", "1"), f"{where}: cores"),
        dependencies=tuple(files.parents.values()),
        data_mb=data_by_parent_mb(files, by_id),
        name=job.get("name", ""),
    )
