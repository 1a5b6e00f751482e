"""How a set of workflows is stored: one .npz of plain integer arrays.

The numbers lie on the grids of `generators` (1 ms, 0.01 of a unit, 1 kB), so that storing
them as integers loses nothing. Zip entries are uncompressed and carry a fixed date, and
files are read without pickle.
"""

from __future__ import annotations

import io
import zipfile
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from thesis_lib.workflow import Task, Workflow, WorkflowError

# Every array: its kind of number (None: text), and its shape in terms of W workflows, n tasks and e edges.
ARRAYS = {
    "task_ptr": ("<i4", ("W + 1",)), "family": (None, ("W",)), "seed": ("<i8", ("W",)),
    "duration_ms": ("<i4", ("n",)), "std_ms": ("<i4", ("n",)), "demand_centi": ("<u2", ("n", "3")),
    "priority": ("|u1", ("n",)), "edge_ptr": ("<i4", ("n + 1",)), "parent": ("<u2", ("e",)), "data_kb": ("<i4", ("e",)),
}  # fmt: skip


def packed(workflows: Sequence[Workflow]) -> dict[str, np.ndarray]:
    """Workflows as plain integer arrays: W workflows, n tasks and e edges in all.

    task_ptr: (W + 1,) int32; the tasks of workflow w are rows task_ptr[w] ... task_ptr[w + 1] - 1.
    family: (W,) text. seed: (W,) int64, read from the names that the generators give.
    duration_ms, std_ms: (n,) int32. demand_centi: (n, 3) uint16, hundredths of a core, GB and Gbit/s.
    priority: (n,) uint8.
    edge_ptr: (n + 1,) int32; the edges into task i are rows edge_ptr[i] ... edge_ptr[i + 1] - 1.
    parent: (e,) uint16, position of the parent within its workflow. data_kb: (e,) int32.

    Raises WorkflowError for numbers off these grids or too large for them.
    """
    mean_s, std_s = (np.concatenate([getattr(w, key) for w in workflows]) for key in ("mean_s", "std_s"))
    parents_per_task = np.concatenate([np.diff(w.parent_ptr) for w in workflows])
    priority = np.array([t.priority for w in workflows for t in w.tasks])
    return {
        "task_ptr": _whole(_pointer([len(w) for w in workflows]), 1, np.int32, "task_ptr"),
        "family": np.array([w.family for w in workflows], dtype="<U16"),
        "seed": np.array([int(w.name.rsplit("-s", 1)[1]) for w in workflows], dtype=np.int64),
        "duration_ms": _whole(mean_s, 1000, np.int32, "duration_ms"),
        "std_ms": _whole(std_s, 1000, np.int32, "std_ms"),
        "demand_centi": _whole(np.concatenate([w.demand for w in workflows]), 100, np.uint16, "demand_centi"),
        "priority": _whole(priority, 1, np.uint8, "priority"),
        "edge_ptr": _whole(_pointer(parents_per_task), 1, np.int32, "edge_ptr"),
        "parent": _whole(np.concatenate([w.parent_idx for w in workflows]), 1, np.uint16, "parent"),
        "data_kb": _whole(np.concatenate([w.parent_mb for w in workflows]), 1000, np.int32, "data_kb"),
    }


def _pointer(counts: Sequence[int] | np.ndarray) -> np.ndarray:
    return np.concatenate([[0], np.cumsum(counts)])


def _whole(values: np.ndarray, per_unit: int, dtype: type, what: str) -> np.ndarray:
    """values * per_unit as little-endian integers of `dtype`; nothing is lost or wraps silently."""
    scaled = np.rint(values * per_unit)
    limits = np.iinfo(dtype)
    if scaled.size and (scaled.min() < limits.min or scaled.max() > limits.max):
        raise WorkflowError(f"{what}: values outside {limits.min} ... {limits.max} cannot be stored")
    if not np.array_equal(scaled / per_unit, values):
        raise WorkflowError(f"{what}: values that are no multiples of 1/{per_unit} cannot be stored")
    return scaled.astype(np.dtype(dtype).newbyteorder("<"))


def unpacked(arrays: dict[str, np.ndarray], w: int, name: str, path: Path) -> Workflow:
    """Workflow number `w` of the arrays of `packed`; `name` and `path` are for names and messages."""
    first, end = arrays["task_ptr"][w : w + 2].tolist()
    rows = slice(first, end)
    mean_s, std_s = ((arrays[key][rows] / 1000).tolist() for key in ("duration_ms", "std_ms"))
    demand, priority = (arrays["demand_centi"][rows] / 100).tolist(), arrays["priority"][rows].tolist()
    edge_ptr = arrays["edge_ptr"][first : end + 1].tolist()
    edges = slice(edge_ptr[0], edge_ptr[-1])
    parent, data_mb = arrays["parent"][edges].tolist(), (arrays["data_kb"][edges] / 1000).tolist()
    tasks = []
    try:
        for i, mean in enumerate(mean_s):
            mine = slice(edge_ptr[i] - edge_ptr[0], edge_ptr[i + 1] - edge_ptr[0])
            parents = tuple(parent[mine])
            tasks.append(Task(i, mean, std_s[i], *demand[i], priority=priority[i], dependencies=parents,
                              data_mb=dict(zip(parents, data_mb[mine]))))  # fmt: skip
        return Workflow(tuple(tasks), family=str(arrays["family"][w]), name=f"{name}-{w:03d}")
    except WorkflowError as error:
        raise WorkflowError(f"{path}: workflow {w}: {error}") from error


def read_arrays(path: Path) -> dict[str, np.ndarray]:
    """The arrays of one set file; WorkflowError when it cannot be read or they are not those of `packed`."""
    try:
        with np.load(path, allow_pickle=False) as file:
            arrays = {key: file[key] for key in file.files}
    except Exception as error:  # damaged bytes make zipfile, zlib and numpy raise errors of any class
        message = " ".join(str(error).split()) or type(error).__name__
        raise WorkflowError(f"{path}: is damaged ({message}); restore the file or build the data set again") from error
    if missing := [key for key in ARRAYS if key not in arrays]:
        raise WorkflowError(f"{path}: lacks the arrays {', '.join(missing)}; build the data set again")
    if unknown := [key for key in arrays if key not in ARRAYS]:
        raise WorkflowError(f"{path}: holds the unknown arrays {', '.join(unknown)}; build the data set again")
    if fault := _array_fault(arrays):
        raise WorkflowError(f"{path}: is damaged ({fault}); restore the file or build the data set again")
    return arrays


def _array_fault(arrays: dict[str, np.ndarray]) -> str:
    """What is wrong with the kinds, shapes or pointers of the arrays, in words; empty when nothing is."""
    for key, (kind, shape) in ARRAYS.items():
        array = arrays[key]
        if array.dtype.kind != "U" if kind is None else array.dtype != np.dtype(kind):
            return f"{key} holds {array.dtype}, not {kind or 'text'}"
        if array.ndim != len(shape):
            return f"{key} has {array.ndim} dimensions, not {len(shape)}"
    for key in ("task_ptr", "edge_ptr"):
        if len(arrays[key]) < 2 or arrays[key][0] != 0 or (arrays[key][1:] < arrays[key][:-1]).any():
            return f"{key} does not rise from 0"
    w, n, e = len(arrays["task_ptr"]) - 1, int(arrays["task_ptr"][-1]), int(arrays["edge_ptr"][-1])
    lengths = {"W": w, "W + 1": w + 1, "n": n, "n + 1": n + 1, "e": e, "3": 3}
    for key, (_, shape) in ARRAYS.items():
        if arrays[key].shape != (expected := tuple(lengths[length] for length in shape)):
            return f"{key} has the shape {arrays[key].shape}, not {expected}"
    return ""


def npz_bytes(arrays: dict[str, np.ndarray]) -> bytes:
    """The bytes of an uncompressed .npz file with fixed dates: a function of the arrays alone."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_STORED) as archive:
        for name, array in arrays.items():
            entry = zipfile.ZipInfo(f"{name}.npy", date_time=(1980, 1, 1, 0, 0, 0))
            entry.create_system = 3  # the same on every operating system
            entry.external_attr = 0o644 << 16
            content = io.BytesIO()
            np.lib.format.write_array(content, np.ascontiguousarray(array), version=(1, 0), allow_pickle=False)
            archive.writestr(entry, content.getvalue())
    return buffer.getvalue()
