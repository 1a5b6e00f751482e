"""What every format shares: reading text safely, checking values, naming the file in errors."""

from __future__ import annotations

import csv
import io
import math
import re
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from thesis_lib.cluster import Cluster
from thesis_lib.files import read_text
from thesis_lib.strict_json import MAX_DIGITS, parse_json
from thesis_lib.workflow import Task, Workflow, WorkflowError

MAX_MESSAGE = 600  # characters of one error line
NAMED = 8  # ids that a message spells out
NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?", re.ASCII)
INTEGER = re.compile(r"[+-]?\d+", re.ASCII)
CANONICAL_INTEGER = re.compile(r"0|-?[1-9]\d*", re.ASCII)


@dataclass(frozen=True)
class Source:
    """One file: its path and its text. Parsed forms are made on first use and kept."""

    path: Path
    text: str

    @cached_property
    def json(self) -> object:
        """The parsed JSON; WorkflowError when it is not valid JSON."""
        return parse_json(self.text)

    @cached_property
    def rows(self) -> list[tuple[int, list[str]]]:
        """(line number, cells without blanks around them) of every CSV line that is not empty.

        None at all for JSON and XML, so that these are never taken apart at their commas.
        """
        return [] if self.starts in "{[<" else parse_csv(self.text)

    @property
    def starts(self) -> str:
        """The first character that is not blank."""
        return self.text.lstrip()[0]


def read_source(path: Path) -> Source:
    """Read a UTF-8 text file (a byte order mark is dropped) or raise WorkflowError saying why not."""
    text = read_text(path)
    if not text.strip():
        raise WorkflowError("is empty; a workflow needs at least one task")
    return Source(path, text)


@contextmanager
def faults_named(path: Path) -> Iterator[None]:
    """Turn every fault found inside into one line that begins with the path."""
    try:
        yield
    except RecursionError:
        raise WorkflowError(f"{path}: nested too deeply; a workflow file needs only a few levels") from None
    except WorkflowError as error:
        message = " ".join(str(error).split())
        raise WorkflowError(f"{path}: {shortened(message)}") from error


def shortened(message: str) -> str:
    """The message with its middle left out when it is longer than a line should be."""
    if len(message) <= MAX_MESSAGE:
        return message
    return f"{message[: MAX_MESSAGE * 2 // 3]} ... {message[-MAX_MESSAGE // 3 :]}"


# --- JSON ------------------------------------------------------------------------------


def as_dict(value: object, what: str) -> dict:
    """`value` if it is a JSON object, else WorkflowError."""
    if not isinstance(value, dict):
        raise WorkflowError(f"{what} must be an object, got {type(value).__name__}")
    return value


def as_list(value: object, what: str) -> list:
    """`value` if it is a JSON list, else WorkflowError."""
    if not isinstance(value, list):
        raise WorkflowError(f"{what} must be a list, got {type(value).__name__}")
    return value


# --- text and CSV ----------------------------------------------------------------------


def parse_csv(text: str) -> list[tuple[int, list[str]]]:
    """(line number, cells) of every line that is not empty; any of the usual line ends."""
    reader = csv.reader(io.StringIO(text, newline=None))
    try:
        return [(reader.line_num, [c.strip() for c in row]) for row in reader if any(c.strip() for c in row)]
    except csv.Error as error:
        raise WorkflowError(f"line {reader.line_num}: not a CSV line: {error}") from None


def is_number(text: str) -> bool:
    """True for a plain decimal number; words, blanks and digits of other scripts are none."""
    return len(text) <= MAX_DIGITS and NUMBER.fullmatch(text) is not None


def to_number(text: str, what: str) -> float:
    """A decimal text as a float, or WorkflowError naming `what` and the text seen."""
    if not is_number(text):
        raise WorkflowError(f"{what} must be a number, got {text!r}")
    return float(text)


def to_integer(text: str, what: str) -> int:
    """A decimal text as an int, or WorkflowError naming `what` and the text seen."""
    if len(text) > MAX_DIGITS or not INTEGER.fullmatch(text):
        raise WorkflowError(f"{what} must be an integer, got {text!r}")
    return int(text)


def is_canonical_integer(text: str) -> bool:
    """True when str(int(text)) gives the text back, so that "7" counts but "07" and "+7" do not."""
    return len(text) <= MAX_DIGITS and CANONICAL_INTEGER.fullmatch(text) is not None


# --- words and mending ------------------------------------------------------------------


def listed(items: Iterable[object], limit: int = NAMED) -> str:
    """The items with commas, at most `limit` of them spelled out: '1, 2 and 5 more'."""
    texts = [str(i) for i in items]
    rest = len(texts) - limit
    return ", ".join(texts) if rest <= 0 else f"{', '.join(texts[:limit])} and {rest} more"


def without_repeats(task_id: object, ids: Sequence, warnings: list[str]) -> tuple:
    """The ids, each kept once in order (7 and "7" are one id); a warning names what was repeated."""
    kept = {}
    for i in ids:
        kept.setdefault(str(i), i)
    if len(kept) < len(ids):
        texts = [str(i) for i in ids]
        twice = [repr(i) for text, i in kept.items() if texts.count(text) > 1]
        warnings.append(f"task {task_id!r} lists a dependency more than once: {listed(twice)}; each counts once")
    return tuple(kept.values())


def checked_workflow(
    tasks: Sequence[Task], family: str, name: str, cluster: Cluster | None = None, warnings: Sequence[str] = ()
) -> Workflow:
    """A validated Workflow whose durations and data also add up to finite numbers."""
    workflow = Workflow(tuple(tasks), family, name, cluster, tuple(warnings))
    totals = {
        "durations": sum(
            t.duration_mean_s + t.duration_std_s + sum((t.runtime_s or {}).values()) for t in workflow.tasks
        ),
        "data": sum(sum(t.data_mb.values()) for t in workflow.tasks),
    }
    for what, total in totals.items():
        if total == math.inf:
            raise WorkflowError(f"the {what} are so large that they add up to no finite number; check the units")
    return workflow
