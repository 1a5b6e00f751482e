"""Printing shared by the commands."""

from __future__ import annotations

import json
import sys


def print_json(result: dict) -> None:
    """One JSON object on stdout, in ASCII so that it is the same under every encoding; NaN is refused."""
    print(json.dumps(result, allow_nan=False, ensure_ascii=True))


def note(message: str) -> None:
    """A line for people on stderr."""
    print(message, file=sys.stderr)


def print_table(rows: list[tuple[str, object]]) -> None:
    """Aligned `name value` lines; floats with six significant digits."""
    width = max(len(name) for name, _ in rows)
    for name, value in rows:
        text = f"{value:.6g}" if isinstance(value, float) else str(value)
        print(f"{name:<{width}}  {text}")
