"""Edges and data volumes from the files that tasks write and read (WfFormat and DAX)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from thesis_lib.workflow import TaskId, WorkflowError, finite_number

BYTES_PER_MB = 1e6


@dataclass
class FileTask:
    """A task with its parents and its files, before it becomes a Task.

    reads: names of the files it reads. writes: bytes of each file it writes.
    """

    id: TaskId
    parents: dict[str, TaskId] = field(default_factory=dict)  # str(id) -> id, in order, without repeats
    reads: set[str] = field(default_factory=set)
    writes: dict[str, float] = field(default_factory=dict)

    def use_file(self, name: str, link: object, size_bytes: object) -> None:
        """Note one file; `link` is "input", "output" or "inout". A missing size counts as 0."""
        where = f"task {self.id!r}: file {name!r}"
        size = 0.0 if size_bytes is None else finite_number(size_bytes, f"{where}: size in bytes")
        if link not in ("input", "output", "inout"):
            raise WorkflowError(f"{where}: link must be input, output or inout, got {link!r}")
        if link != "output":
            self.reads.add(name)
        if link != "input":
            self.writes[name] = max(size, self.writes.get(name, 0.0))

    def add_parent(self, parent: TaskId) -> None:
        """Note a parent; naming it again changes nothing."""
        self.parents.setdefault(str(parent), parent)


def file_pairs(tasks: Sequence[FileTask]) -> list[tuple[FileTask, FileTask, str]]:
    """(producer, consumer, first shared file) for every pair of tasks that share a file, in file order."""
    writers: dict[str, list[FileTask]] = {}
    for task in tasks:
        for name in task.writes:
            writers.setdefault(name, []).append(task)
    pairs: dict[tuple[int, int], tuple[FileTask, FileTask, str]] = {}
    for consumer in tasks:
        for name in sorted(consumer.reads):
            for producer in writers.get(name, ()):
                if producer is not consumer:
                    pairs.setdefault((id(producer), id(consumer)), (producer, consumer, name))
    return list(pairs.values())


def settle_file_edges(tasks: Sequence[FileTask], edges_from_files: bool, warnings: list[str]) -> None:
    """Add the edges that only file names imply, or warn that they are not there."""
    unstated = [(p, c, name) for p, c, name in file_pairs(tasks) if str(p.id) not in c.parents]
    if not unstated:
        return
    producer, consumer, name = unstated[0]
    example = f"first: {producer.id!r} writes {name!r}, {consumer.id!r} reads it"
    if edges_from_files:
        for producer, consumer, _ in unstated:
            consumer.add_parent(producer.id)
        warnings.append(f"{len(unstated)} edges were added from shared files ({example})")
    else:
        warnings.append(
            f"{len(unstated)} pairs of tasks share a file but have no edge ({example}); the stated edges count; "
            "add the others with --edges-from-files (edges_from_files=True)"
        )


def data_by_parent_mb(task: FileTask, by_id: dict[str, FileTask]) -> dict[TaskId, float]:
    """MB from each parent: the files that it writes and the task reads, at the producer's size."""
    data = {}
    for text, parent in task.parents.items():
        written = by_id[text].writes
        data[parent] = sum(written[name] for name in written if name in task.reads) / BYTES_PER_MB
    return data
