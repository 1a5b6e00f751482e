"""Strict JSON for workflow and cluster files: what could be misread is refused, never guessed."""

from __future__ import annotations

import json
import re

from thesis_lib.workflow import WorkflowError

MAX_DIGITS = 300  # an integer of more digits does not fit a float
SURROGATE = re.compile(r"\\u[dD][89a-fA-F]")


def parse_json(text: str) -> object:
    """Strict JSON: no NaN or Infinity, no repeated keys, no lone surrogates, no integer beyond a float.

    Raises WorkflowError that says what is wrong and where.
    """
    try:
        data = json.loads(
            text, parse_constant=_refuse_constant, parse_int=_bounded_int, object_pairs_hook=_object_without_repeats
        )
        if SURROGATE.search(text):  # a lone \ud800 could neither be printed nor saved
            json.dumps(data, ensure_ascii=False).encode()
    except json.JSONDecodeError as error:
        raise WorkflowError(f"not valid JSON: {error.msg} at line {error.lineno} column {error.colno}") from None
    except UnicodeEncodeError:
        raise WorkflowError("a text holds half of a surrogate pair (\\ud800 to \\udfff); write the character") from None
    except RecursionError:
        raise WorkflowError("nested too deeply; a workflow or cluster file needs only a few levels") from None
    return data


def _refuse_constant(name: str) -> None:
    raise WorkflowError(f"{name} is not a JSON number; give a finite number")


def _bounded_int(digits: str) -> int:
    if len(digits) > MAX_DIGITS:
        raise WorkflowError(f"an integer of {len(digits)} digits is too large; give a number of sensible size")
    return int(digits)


def _object_without_repeats(pairs: list[tuple[str, object]]) -> dict[str, object]:
    result = dict(pairs)
    if len(result) < len(pairs):
        seen: set[str] = set()
        twice = next(k for k, _ in pairs if k in seen or seen.add(k))
        raise WorkflowError(f"the key {twice!r} occurs twice in one JSON object; keep one")
    return result
