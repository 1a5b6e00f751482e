"""The CSV triple of the HEFT and PEFT papers: unrelated machines with links between them.

`*_task_exe_time.csv` (tasks x VMs), and beside it `*_task_connectivity.csv` (data from
task i to task j, 0 = no edge) and `*_resource_BW.csv` (rate between VMs).
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from thesis_lib.cluster import MB_PER_S_PER_GBPS, VM, Cluster
from thesis_lib.formats.reading import Source, checked_workflow, is_number, listed, read_source, to_number
from thesis_lib.workflow import Task, Workflow, WorkflowError, finite_number

TIMES, EDGES, RATES = "task_exe_time.csv", "task_connectivity.csv", "resource_BW.csv"


@dataclass(frozen=True)
class Table:
    """A labelled matrix: `values[i][j]` belongs to row label i and column label j."""

    rows: list[str]
    columns: list[str]
    values: list[list[float]]


def recognise(source: Source) -> str | None:
    """ "hetero-csv" for a CSV whose head line is words and whose next line is a label and numbers."""
    rows = source.rows
    if len(rows) < 2 or len(rows[0][1]) < 2 or any(is_number(cell) for cell in rows[0][1][1:]):
        return None
    label, *cells = rows[1][1]
    named = source.path.name.endswith(TIMES)  # then a bad first number gets its own error
    return "hetero-csv" if cells and not is_number(label) and (named or all(map(is_number, cells))) else None


def is_companion(path: Path) -> bool:
    """True for the two files of a triple that are read along with its `*_task_exe_time.csv`."""
    return any(path.name.endswith(end) and path.with_name(path.name.removesuffix(end) + TIMES).is_file()
               for end in (EDGES, RATES))  # fmt: skip


def read(source: Source, edges_from_files: bool = False) -> Workflow:
    """Read a triple, given the path of its `*_task_exe_time.csv`.

    A time unit is a second, a data unit a MB and a rate unit 1 MB/s (0.008 Gbit/s), so that
    sending takes data / rate seconds between different VMs. Rows and columns of the three
    files are matched by position, since their labels are spelled differently. The mean
    duration of a task is the mean over the VMs; the VMs are in Workflow.cluster.
    """
    prefix = _prefix(source.path)
    times = _table(source, "")
    edges = _companion(source.path, prefix + EDGES, len(times.rows), "task")
    rates = _companion(source.path, prefix + RATES, len(times.columns), "VM")
    tasks = [_task(i, times, edges) for i in range(len(times.rows))]
    name = prefix.rstrip("_") or source.path.parent.name
    return checked_workflow(tasks, "", name, _cluster(times.columns, rates, name))


def _prefix(path: Path) -> str:
    if not path.name.endswith(TIMES):
        raise WorkflowError(
            f"looks like one of three CSV files of a workflow; give the one named *_{TIMES}, "
            f"with *_{EDGES} and *_{RATES} beside it"
        )
    return path.name.removesuffix(TIMES)


def _companion(path: Path, name: str, n: int, of: str) -> Table:
    """Read one of the two square files, n x n."""
    try:
        table = _table(read_source(path.with_name(name)), f"{name}: ")
    except WorkflowError as error:
        message = str(error)
        raise WorkflowError(message if message.startswith(name) else f"{name} (needed beside it): {message}") from error
    if (len(table.rows), len(table.columns)) != (n, n):
        raise WorkflowError(
            f"{name} is {len(table.rows)} x {len(table.columns)}, but {path.name} has {n} {of}s; it must be {n} x {n}"
        )
    return table


def _table(source: Source, where: str) -> Table:
    if not source.rows:
        raise WorkflowError(f"{where}holds no table")
    (_, head), *lines = source.rows
    values = []
    for number, cells in lines:
        if len(cells) != len(head):
            raise WorkflowError(f"{where}line {number} has {len(cells)} columns, the head line {len(head)}")
        row = [to_number(c, f"{where}line {number}, column {h!r}") for h, c in zip(head[1:], cells[1:])]
        values.append([finite_number(v, f"{where}line {number}, column {h!r}") for h, v in zip(head[1:], row)])
    return Table([cells[0] for _, cells in lines], head[1:], values)


def _task(i: int, times: Table, edges: Table) -> Task:
    parents = {times.rows[j]: edges.values[j][i] for j in range(len(times.rows)) if edges.values[j][i] > 0}
    return Task(
        times.rows[i],
        sum(times.values[i]) / len(times.columns),
        dependencies=tuple(parents),
        data_mb=parents,
        runtime_s=dict(zip(times.columns, times.values[i])),
    )


def _cluster(vm_ids: list[str], rates: Table, name: str) -> Cluster:
    """VMs of one core; the link matrix carries the rates."""
    v = range(len(vm_ids))
    links = tuple(tuple(rates.values[i][j] / MB_PER_S_PER_GBPS if i != j else 0.0 for j in v) for i in v)
    if cut := [f"{vm_ids[i]} to {vm_ids[j]}" for i in v for j in v if i != j and links[i][j] == 0]:
        raise WorkflowError(f"*_{RATES}: the rate from {listed(cut)} is 0; give a positive one")
    return Cluster(tuple(VM(vm_ids[i], 1, 0, max(links[i])) for i in v), links, name)
