"""STG, the Standard Task Graph set (Tobita and Kasahara, "A standard task graph set for fair
evaluation of multiprocessor scheduling algorithms", Journal of Scheduling 5(5), 2002)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from thesis_lib.formats.reading import (
    Source,
    checked_workflow,
    is_number,
    shortened,
    to_integer,
    to_number,
    without_repeats,
)
from thesis_lib.workflow import Task, Workflow, WorkflowError

Line = tuple[int, list[str]]  # line number in the file, columns


@dataclass(frozen=True)
class Row:
    """One row: `parents` are ids as the file states them."""

    id: int
    time: float
    parents: tuple[int, ...]


def recognise(source: Source) -> str | None:
    """ "stg" when the first line holds one or two integers and the next one numbers only."""
    lines = _lines(source.text, limit=2)
    if not lines or len(lines[0][1]) > 2:
        return None
    return "stg" if all(is_number(column) for _, columns in lines for column in columns) else None


def read(source: Source, edges_from_files: bool = False) -> Workflow:
    """Read an STG file; its unitless times are taken as seconds.

    Line 1 is the number of tasks, with or without the two dummies, or "tasks processors"
    in the older prototype set. Rows are `id time predecessors... `, preceded by their
    number; a deadline column is passed over with a warning. The entry dummy (id 0, time 0,
    no predecessor) and the exit dummy (last id, time 0, no successor) are left out.
    """
    warnings: list[str] = []
    lines = _lines(source.text)
    rows = _rows(lines[1:], warnings)
    _check_count(lines[0][1], len(rows))
    dummies = _dummies(rows)
    if dummies:
        warnings.append(_what_is_left_out(rows, dummies))
    tasks = [
        Task(
            row.id,
            row.time,
            dependencies=without_repeats(row.id, [p for p in row.parents if p not in dummies], warnings),
        )
        for row in rows
        if row.id not in dummies
    ]
    return checked_workflow(tasks, "stg", source.path.stem, None, warnings)


def _lines(text: str, limit: int | None = None) -> list[Line]:
    """The lines that are not blank, without `#` comments; at most `limit` of them."""
    found: list[Line] = []
    for number, line in enumerate(text.splitlines(), start=1):
        if columns := line.partition("#")[0].split():
            found.append((number, columns))
            if len(found) == limit:
                break
    return found


def _rows(lines: list[Line], warnings: list[str]) -> list[Row]:
    """Parse all rows in the one layout that fits them all: plain, or with a deadline column."""
    layouts: tuple[Callable[[list[str]], list[str]], ...] = (
        lambda columns: columns,
        lambda columns: columns[:2] + columns[3:],  # deadline after the time
        lambda columns: columns[:-1],  # deadline at the end
    )
    for layout in layouts:
        if all(_fits(layout(columns)) for _, columns in lines):
            if layout is not layouts[0]:
                warnings.append("the deadline column is passed over: tasks have no deadlines of their own here")
            return [_row(number, layout(columns)) for number, columns in lines]
    number, columns = next((n, c) for n, c in lines if not _fits(c))
    raise WorkflowError(
        f"line {number}: expected `id time count predecessors...` with as many predecessors as counted, "
        f"got {shortened(' '.join(columns))!r}"
    )


def _fits(columns: list[str]) -> bool:
    return len(columns) >= 3 and columns[2] == str(len(columns) - 3)


def _row(number: int, columns: list[str]) -> Row:
    where = f"line {number}"
    return Row(
        to_integer(columns[0], f"{where}: task id"),
        to_number(columns[1], f"{where}: processing time"),
        tuple(to_integer(p, f"{where}: predecessor") for p in columns[3:]),
    )


def _check_count(header: list[str], n_rows: int) -> None:
    """The header may count the dummies (all rows) or leave out one or both of them."""
    stated = to_integer(header[0], "line 1: number of tasks")
    if n_rows - stated not in (0, 1, 2):
        raise WorkflowError(
            f"the first line announces {stated} tasks (without or with two dummies) but {n_rows} rows follow; "
            "the file may be cut off"
        )


def _what_is_left_out(rows: list[Row], dummies: set[int]) -> str:
    edges = [(parent, row.id) for row in rows for parent in row.parents]
    of_dummies = sum(parent in dummies or child in dummies for parent, child in edges)
    names = " and ".join(map(str, sorted(dummies)))
    return (
        f"the dummy tasks of zero time ({names}) are left out with their {of_dummies} edges; "
        f"the file has {len(rows)} rows and {len(edges)} edges"
    )


def _dummies(rows: list[Row]) -> set[int]:
    ids = [row.id for row in rows]
    with_successors = {p for row in rows for p in row.parents}
    entry = {r.id for r in rows if r.id == 0 and r.time == 0 and not r.parents}
    last = {r.id for r in rows if r.id == max(ids) and r.time == 0 and r.id not in with_successors}
    return entry | last
