"""Writing files so that a reader never sees half of one."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path

from thesis_lib.workflow import WorkflowError


def write_bytes(path: str | Path, content: bytes, make_folder: bool = False) -> Path:
    """Write `content` under a temporary name in the same folder and rename it; return the path.

    make_folder: make the folder if need be. Raises WorkflowError naming the file when it
    cannot be written; what was there before is then still there.
    """
    path = Path(path)
    temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    try:
        if make_folder:
            path.parent.mkdir(parents=True, exist_ok=True)
        temporary.write_bytes(content)
        os.replace(temporary, path)
    except (OSError, ValueError) as error:  # ValueError: a name with a null character
        with suppress(OSError, ValueError):
            temporary.unlink(missing_ok=True)
        raise WorkflowError(f"{path}: cannot be written: {getattr(error, 'strerror', None) or error}") from error
    return path
