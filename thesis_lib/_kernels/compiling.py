"""How kernels are compiled, and where the compiled code is kept."""

from __future__ import annotations

import hashlib
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from numba import config, njit

FOLDER = Path(__file__).parent
LENDERS = ("cluster.py", "schedule.py")  # files outside this folder whose constants are compiled into kernels

# Kernels allocate nothing, so numba need not count references to the arrays that they hand
# to each other, which would cost more than the simulation itself. The division of two
# numbers follows numpy (no check for zero).
kernel = njit(cache=True, error_model="numpy", _nrt=False)
small_kernel = njit(cache=True, error_model="numpy", _nrt=False, inline="always")
# Every array that a call hands on is seven numbers to copy, which costs more than most of what is
# called in the inner loops. This one is compiled like a kernel, and then put in place of the call.
inner_kernel = njit(cache=True, error_model="numpy", _nrt=False, forceinline=True)

# For sums whose order does not matter and in which every number is finite: the compiler may use SIMD for them.
fast_kernel = njit(cache=True, error_model="numpy", _nrt=False, fastmath={"reassoc", "contract", "nsz"})

allocating_kernel = njit(cache=True, error_model="numpy")  # one that makes arrays, or hands parts of arrays on


def python_form(function):
    """The Python function behind a kernel (the kernel itself when compilation is switched off)."""
    return getattr(function, "py_func", function)


@contextmanager
def cache_keyed_by_sources() -> Iterator[None]:
    """While kernels are defined, point numba's cache to a folder named after all their sources.

    numba notices a change of the file a kernel stands in, but not of another file whose
    kernels it calls, and would go on with the stale code.
    """
    sources = [*sorted(FOLDER.glob("*.py")), *(FOLDER.parent / name for name in LENDERS)]
    digest = hashlib.sha256(b"".join(path.read_bytes() for path in sources)).hexdigest()[:16]
    before, folder = config.CACHE_DIR, _cache_root() / f"kernels-{digest}"
    for outdated in set(folder.parent.glob("kernels-*")) - {folder}:
        shutil.rmtree(outdated, ignore_errors=True)
    config.CACHE_DIR = str(folder)
    try:
        yield
    finally:
        config.CACHE_DIR = before


def _cache_root() -> Path:
    """NUMBA_CACHE_DIR if it is set, else beside the sources, else in the user's home."""
    if config.CACHE_DIR:
        return Path(config.CACHE_DIR)
    if os.access(FOLDER, os.W_OK):
        return FOLDER / "__pycache__"
    return Path.home() / ".cache" / "thesis_lib"
