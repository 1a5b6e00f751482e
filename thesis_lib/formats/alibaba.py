"""Alibaba cluster-trace-v2018 `batch_task`: many jobs, each a workflow, with arrival times.

The DAG of a job is written in its task names: R4_2_3 is task 4, after tasks 2 and 3.
Three layouts: the trace's own nine columns without a head line, the seven columns of
spar, and the CSV with a head line of CloudSimPy.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, replace

from thesis_lib.formats.reading import Source, checked_workflow, is_number, listed, to_number, without_repeats
from thesis_lib.workflow import Task, Workflow, WorkflowError, finite_number

REFERENCE_MEMORY_GB = 128.0  # the trace normalises memory; we take a machine of 128 GB as 100 %
PLAN_CPU_PER_CORE = 100.0
TRACE_HEAD = ["task_name", "instance_num", "job_name", "task_type", "status",
              "start_time", "end_time", "plan_cpu", "plan_mem"]  # fmt: skip
SPAR_HEAD = ["arrival_s", "job", "task_name", "duration_s", "plan_cpu", "plan_mem", "instance_num"]
CLOUDSIMPY_NEEDS = ("task_id", "job_id", "status", "cpu", "memory", "duration", "submit_time")
DONE = "Terminated"  # the trace's word for a task that ended well
DAG_NAME = re.compile(r"[A-Za-z]*(\d{1,9})((?:_.*)?)", re.ASCII)


@dataclass(frozen=True)
class Row:
    """One task of the file. Demands are None where the file leaves them empty."""

    line: int
    job: str
    name: str
    arrival_s: float
    duration_s: float
    cpu: float | None
    memory_gb: float | None


def recognise(source: Source) -> str | None:
    """ "alibaba", "alibaba-spar" or "alibaba-cloudsimpy", by the columns of the first line."""
    if not source.rows:
        return None
    first = source.rows[0][1]
    if set(CLOUDSIMPY_NEEDS) <= set(first):
        return "alibaba-cloudsimpy"
    numbers = [is_number(cell) for cell in first]
    if first == TRACE_HEAD or (len(first) == 9 and not numbers[0] and not numbers[2] and (numbers[5] or numbers[6])):
        return "alibaba"
    if first == SPAR_HEAD or (len(first) == 7 and not numbers[1] and not numbers[2] and sum(numbers) >= 3):
        return "alibaba-spar"
    return None


def read(source: Source, edges_from_files: bool = False) -> list[tuple[float, Workflow]]:
    """Read (arrival in seconds, Workflow) of every job; the workflow's name is the job's.

    One row is one task whose id is the task name; a warning counts the rows that state
    several instances, which are not split up.
    cpu = plan_cpu / 100 cores; memory = plan_mem % of REFERENCE_MEMORY_GB; empty plans
    count as 1 core and 0 GB, with a warning. A job arrives at its first start time (or
    stated arrival); the first arrival is moved to 0. Rows that did not end well and
    dependencies on tasks that do not exist are left out, with warnings.
    """
    rows, warnings = _rows(source)
    if not rows:
        raise WorkflowError(f"no row has status {DONE}, so no task is left; {listed(warnings)}")
    jobs: dict[str, list[Row]] = {}
    for row in rows:
        jobs.setdefault(row.job, []).append(row)
    workflows = [_workflow(job, members) for job, members in jobs.items()]
    arrivals = [min(row.arrival_s for row in members) for members in jobs.values()]
    begin = min(arrivals)
    if warnings:  # on the whole file, so they go to the workflow that comes first
        first = arrivals.index(begin)
        workflows[first] = replace(workflows[first], warnings=(*warnings, *workflows[first].warnings))
    return [(arrival - begin, workflow) for arrival, workflow in zip(arrivals, workflows)]


# --- rows -------------------------------------------------------------------------------


def _rows(source: Source) -> tuple[list[Row], list[str]]:
    """The rows that count, and the warnings on the file as a whole."""
    layout = recognise(source)
    lines = source.rows
    head, parse = {
        "alibaba": (TRACE_HEAD, _trace_row),
        "alibaba-spar": (SPAR_HEAD, _spar_row),
        "alibaba-cloudsimpy": (lines[0][1], _cloudsimpy_row),
    }[layout]
    if lines[0][1] == head:
        lines = lines[1:]
    return _parsed(lines, head, parse)


def _parsed(
    lines: list[tuple[int, list[str]]], head: list[str], parse: Callable[[int, dict[str, str]], Row]
) -> tuple[list[Row], list[str]]:
    rows, warnings, skipped, repeated = [], [], Counter(), 0
    for number, cells in lines:
        if len(cells) != len(head):
            raise WorkflowError(f"line {number} has {len(cells)} columns, expected {len(head)}: {', '.join(head)}")
        cell = dict(zip(head, cells))
        status = cell.get("status", DONE)
        if status == DONE:
            rows.append(parse(number, cell))
            repeated += _instances(cell) > 1
        else:
            skipped[status or "(empty)"] += 1
    if skipped:
        counts = listed(f"{count} {status}" for status, count in sorted(skipped.items()))
        warnings.append(f"{skipped.total()} of {len(lines)} rows are not {DONE} and were left out: {counts}")
    if repeated:
        warnings.append(f"{repeated} of {len(rows)} rows state several instances; each row is one task all the same")
    return rows, warnings


def _instances(cell: dict[str, str]) -> float:
    """How many instances the row states; 1 where it states none."""
    stated = cell.get("instance_num") or cell.get("instances_num") or "1"  # CloudSimPy adds an s
    return float(stated) if is_number(stated) else 1.0


def _trace_row(line: int, cell: dict[str, str]) -> Row:
    start, end = _number(line, cell, "start_time"), _number(line, cell, "end_time")
    if end < start:
        raise WorkflowError(f"line {line}: end_time {end:g} is before start_time {start:g}; correct or remove the row")
    return _row(line, cell, "job_name", "task_name", start, end - start)


def _spar_row(line: int, cell: dict[str, str]) -> Row:
    return _row(line, cell, "job", "task_name", _number(line, cell, "arrival_s"), _number(line, cell, "duration_s"))


def _row(line: int, cell: dict[str, str], job: str, name: str, arrival_s: float, duration_s: float) -> Row:
    cpu = _number(line, cell, "plan_cpu") / PLAN_CPU_PER_CORE if cell["plan_cpu"] else None
    memory = _number(line, cell, "plan_mem") / 100 * REFERENCE_MEMORY_GB if cell["plan_mem"] else None
    return Row(line, _text(line, cell, job), _text(line, cell, name), arrival_s, duration_s, cpu, memory)


def _cloudsimpy_row(line: int, cell: dict[str, str]) -> Row:
    """cpu is in cores and memory a fraction of a machine here."""
    return Row(
        line,
        _text(line, cell, "job_id"),
        _text(line, cell, "task_id"),
        _number(line, cell, "submit_time"),
        _number(line, cell, "duration"),
        _number(line, cell, "cpu") if cell["cpu"] else None,
        _number(line, cell, "memory") * REFERENCE_MEMORY_GB if cell["memory"] else None,
    )


def _number(line: int, cell: dict[str, str], column: str) -> float:
    what = f"line {line}: {column}"
    return finite_number(to_number(cell[column], what), what)


def _text(line: int, cell: dict[str, str], column: str) -> str:
    if not cell[column]:
        raise WorkflowError(f"line {line}: {column} is empty; every row needs one")
    return cell[column]


# --- one job ----------------------------------------------------------------------------


def _workflow(job: str, rows: list[Row]) -> Workflow:
    warnings: list[str] = []
    names = _names_by_number(job, rows)
    lost: list[str] = []
    tasks = [
        Task(
            row.name,
            row.duration_s,
            cpu=1.0 if row.cpu is None else row.cpu,
            memory_gb=row.memory_gb or 0.0,
            dependencies=without_repeats(row.name, _parents(row.name, names, lost), warnings),
        )
        for row in rows
    ]
    if lost:
        warnings.append(f"dependencies on tasks that the job does not have were dropped: {listed(lost)}")
    if bare := [row.name for row in rows if row.cpu is None or row.memory_gb is None]:
        warnings.append(f"no planned cpu or memory, taken as 1 core or 0 GB: task {listed(bare)}")
    try:
        return checked_workflow(tasks, "alibaba", job, None, [f"job {job}: {w}" for w in warnings])
    except WorkflowError as error:
        raise WorkflowError(f"job {job}: {error}") from error


def _names_by_number(job: str, rows: list[Row]) -> dict[int, str]:
    """Task name by the number in it; names without one (task_<letters>) are independent tasks."""
    names: dict[int, str] = {}
    for row in rows:
        if match := DAG_NAME.fullmatch(row.name):
            number = int(match[1])
            if number in names:
                raise WorkflowError(
                    f"line {row.line}: job {job}: tasks {names[number]!r} and {row.name!r} are both number {number}, "
                    "so dependencies on it are not clear; rename or remove one"
                )
            names[number] = row.name
    return names


def _parents(name: str, names: dict[int, str], lost: list[str]) -> list[str]:
    """Names of the tasks that the name depends on; what does not exist is noted in `lost`."""
    match = DAG_NAME.fullmatch(name)
    if match is None or not match[2]:
        return []
    parents = []
    for part in match[2][1:].split("_"):
        number = int(part) if part.isascii() and part.isdigit() and len(part) < 10 else None
        if number in names:
            parents.append(names[number])
        else:
            lost.append(f"{part!r} of {name}")
    return parents
