"""Reading and writing files: only regular ones are read, and a reader never sees half of a written one."""

from __future__ import annotations

import os
import re
import stat
import tempfile
from contextlib import suppress
from pathlib import Path

from thesis_lib.workflow import WorkflowError

TEMPORARY = re.compile(r"\.(.+)\.\d+\.tmp", re.DOTALL)
TEMPORARY_STEM = 40  # characters of the name that a temporary name repeats, so that it is never too long
MAGIC = (
    (
        b"\x93NUMPY",
        "numpy array file, not supported because reading object arrays needs pickle, which can run code; "
        "convert it to JSON",
    ),
    (b"\x1f\x8b", "gzip file; unpack it first"),
    (b"PK\x03\x04", "zip file (or .npz, .xlsx); unpack it first"),
    (b"\x80", "pickle or other binary file, not supported because unpickling can run code; convert it to JSON"),
    (b"\xff\xfe", "UTF-16 text; save it as UTF-8"),
    (b"\xfe\xff", "UTF-16 text; save it as UTF-8"),
)


# --- reading ----------------------------------------------------------------------------


def read_text(path: Path) -> str:
    """The text of a regular UTF-8 file without its byte order mark; WorkflowError, path not named, saying why not."""
    return decode(read_bytes(path))


def read_bytes(path: Path) -> bytes:
    """The content of a regular file; WorkflowError, path not named, saying why not.

    Pipes and devices are refused before they are opened, since reading one may never end.
    """
    try:
        if path.is_dir():
            raise WorkflowError("is a folder, not a file; give a file")
        if path.is_symlink() and not path.exists():
            raise WorkflowError("is a link to a file that does not exist; mend or remove it")
        if path.exists() and not path.is_file():
            raise WorkflowError("is not a regular file; save its content to a file first")
        return path.read_bytes()
    except FileNotFoundError:
        raise WorkflowError("no such file; check the path") from None
    except (OSError, ValueError) as error:  # ValueError: a name with a null character
        if isinstance(error, WorkflowError):
            raise
        raise WorkflowError(f"cannot be read: {getattr(error, 'strerror', None) or error}") from error


def decode(data: bytes) -> str:
    """Bytes to text; WorkflowError for binary files and for encodings other than UTF-8."""
    for magic, reason in MAGIC:
        if data.startswith(magic):
            raise WorkflowError(reason)
    if b"\0" in data:
        raise WorkflowError("binary file; give text in UTF-8")
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise WorkflowError(f"not UTF-8 text (byte {error.start} cannot be read); save it as UTF-8") from None


# --- writing ----------------------------------------------------------------------------


def write_bytes(path: str | Path, content: bytes, make_folder: bool = False) -> Path:
    """Write `content` under a temporary name in the same folder and rename it; return the path.

    A symbolic link is followed, and a file that exists keeps its mode. make_folder: make
    the folder if need be. Raises WorkflowError naming the file when it cannot be written
    or is no regular file; what was there before is then still there.
    """
    path = Path(path)
    refuse_target(path, make_folder)
    try:
        target = Path(os.path.realpath(path))
        if make_folder:
            target.parent.mkdir(parents=True, exist_ok=True)
        _replace(target, content)
    except OSError as error:
        raise _unwritable(path, error.strerror or str(error)) from error
    return path


def _replace(target: Path, content: bytes) -> None:
    """Write a temporary file and rename it; whatever goes wrong, Ctrl-C too, no temporary stays."""
    temporary = target.with_name(f".{target.name[:TEMPORARY_STEM]}.{os.getpid()}.tmp")
    try:
        temporary.write_bytes(content)
        if target.exists():
            temporary.chmod(stat.S_IMODE(target.stat().st_mode))
        os.replace(temporary, target)
    except BaseException:
        with suppress(OSError):
            temporary.unlink(missing_ok=True)
        raise


def refuse_target(path: str | Path, make_folder: bool = False) -> None:
    """Raise WorkflowError for a path that `write_bytes` could not write, before any work is done.

    make_folder: as in `write_bytes`; then the nearest folder that exists must take files.
    """
    path = Path(path)
    try:
        target = Path(os.path.realpath(path))
        if os.path.lexists(target):
            _refuse_existing(path, target)
        folder = target.parent
        while make_folder and not os.path.lexists(folder):
            folder = folder.parent
    except (OSError, ValueError) as error:  # ValueError: a name with a null character
        if isinstance(error, WorkflowError):
            raise
        raise _unwritable(path, getattr(error, "strerror", None) or str(error)) from error
    if not os.path.lexists(folder):
        raise _unwritable(path, f"there is no folder {path.parent}; make it first")
    if not folder.is_dir():
        raise _unwritable(path, f"{folder} is no folder")
    if not os.access(folder, os.W_OK | os.X_OK):
        raise _unwritable(path, f"the folder {folder} is write-protected")


def _refuse_existing(path: Path, target: Path) -> None:
    mode = target.lstat().st_mode
    if stat.S_ISDIR(mode):
        raise _unwritable(path, "is a folder; add a file name")
    if not stat.S_ISREG(mode):  # a pipe, a device, a link in a circle: renaming would replace it
        raise _unwritable(path, "is not a regular file; choose another name")
    # The mode bits are asked too, because os.access says yes to root for a protected file.
    if not mode & 0o222 or not os.access(target, os.W_OK):
        raise _unwritable(path, "is write-protected; choose another name or make it writable")


def _unwritable(path: Path, reason: str) -> WorkflowError:
    return WorkflowError(f"{path}: cannot be written: {reason}")


def is_temporary(path: Path) -> bool:
    """True for a name that `write_bytes` uses until it renames; a process that was killed leaves such a file."""
    return TEMPORARY.fullmatch(path.name) is not None


def remove_stale(path: Path) -> None:
    """Remove what killed processes left of earlier attempts to write `path`; WorkflowError when that fails."""
    stem = path.name[:TEMPORARY_STEM]
    try:
        for other in path.parent.iterdir() if path.parent.is_dir() else ():
            found = TEMPORARY.fullmatch(other.name)
            if found and found[1] == stem and other.is_file():
                other.unlink()
    except OSError as error:
        raise WorkflowError(f"{path.parent}: cannot be cleared: {error.strerror}") from error


def writable_folder(path: str | Path) -> Path:
    """Make the folder if need be and prove, by writing a small file, that it takes files; WorkflowError otherwise.

    Asking for the permission is not enough: in containers and on full disks only writing tells.
    """
    path = Path(path)
    refuse_target(path / "file", make_folder=True)
    try:
        path.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=path) as file:
            file.write(b"x")
            file.flush()
    except OSError as error:
        raise _unwritable(path, error.strerror or str(error)) from error
    return path
