"""How an agent is stored: one .npz of plain arrays, the weights by name and `meta`, JSON text as bytes.

Read without pickle and without torch. What is loaded is complete: a file whose weights do
not fit its own description is refused with one line that says what is wrong.
"""

from __future__ import annotations

import io
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from thesis_lib.feature_sets import feature_set
from thesis_lib.files import read_bytes, write_bytes
from thesis_lib.observation import FEATURE_VERSION, ObservationSize
from thesis_lib.set_file import npz_bytes
from thesis_lib.workflow import WorkflowError

FORMAT = 1  # raise it when the layout of the file changes
NETWORKS = ("pair_gcn", "pair_mlp", "fixed_gcn")
PROBLEMS = ("stream", "thesis", "single")
CONVOLUTIONS = {"pair_gcn": 2, "pair_mlp": 0}
LARGEST_WIDTH = 4096
LARGEST_WEIGHT = 1e6  # layers of such weights still give finite scores

# What `meta` must hold, and the kinds of value. Everything else in it (config, seed, steps, versions,
# validation) is for people and is kept as it is.
META = {
    "format": int, "name": str, "network": str, "features": str, "feature_version": int, "hidden": int,
    "score_hidden": int, "n_vms": (int, type(None)), "problem": str, "base_rule": str,
}  # fmt: skip


def write_agent(path: str | Path, meta: Mapping[str, Any], weights: Mapping[str, np.ndarray]) -> Path:
    """Write an agent file under a temporary name and rename it; return the path.

    weights: arrays under the names of the network's state_dict; they are stored as 32-bit
    numbers. Raises WorkflowError for what `read_agent` would refuse, before anything is written.
    """
    arrays = {name: np.asarray(array, dtype="<f4") for name, array in weights.items()}
    meta = {"format": FORMAT, "feature_version": FEATURE_VERSION, **meta}
    try:
        text = json.dumps(meta, allow_nan=False, ensure_ascii=True)
    except (TypeError, ValueError) as error:
        raise WorkflowError(f"{path}: the agent's meta cannot be stored as JSON: {error}") from None
    if fault := _fault_of(json.loads(text), arrays):
        raise WorkflowError(f"{path}: this agent cannot be stored: {fault}")
    return write_bytes(path, npz_bytes({"meta": np.frombuffer(text.encode("ascii"), np.uint8), **arrays}))


def read_agent(path: str | Path) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
    """(meta, weights) of an agent file; WorkflowError that names the file, the fault and the remedy."""
    path = Path(path)
    try:
        content = read_bytes(path)
    except WorkflowError as error:
        raise WorkflowError(f"{path}: {error}") from None
    if not content.startswith(b"PK"):
        raise WorkflowError(f"{path}: is not an agent file; give one that training wrote (.npz)")
    try:
        with np.load(io.BytesIO(content), allow_pickle=False) as file:
            arrays = {name: file[name] for name in file.files}
    except Exception as error:  # damaged bytes make zipfile, zlib and numpy raise errors of any class
        message = " ".join(str(error).split()) or type(error).__name__
        raise WorkflowError(f"{path}: is damaged ({message}); restore the file or train the agent again") from error
    if not isinstance(arrays.get("meta"), np.ndarray):
        raise WorkflowError(f"{path}: is not an agent file, it holds no meta; give one that training wrote")
    meta = _meta_of(path, arrays.pop("meta"))
    if fault := _fault_of(meta, arrays):
        raise WorkflowError(f"{path}: cannot be used: {fault}")
    return meta, arrays


def _meta_of(path: Path, stored: np.ndarray) -> dict[str, Any]:
    try:
        meta = json.loads(stored.astype(np.uint8).tobytes().decode("utf-8"))
    except (ValueError, TypeError, RecursionError) as error:
        raise WorkflowError(f"{path}: is damaged (its meta is no JSON text: {error}); restore the file") from None
    if not isinstance(meta, dict):
        raise WorkflowError(f"{path}: is damaged (its meta is no JSON object); restore the file")
    return meta


# --- what an agent must be ----------------------------------------------------------------


def _fault_of(meta: dict[str, Any], arrays: Mapping[str, np.ndarray]) -> str:
    """What is wrong with an agent, in words with the remedy; empty when nothing is."""
    return _meta_fault(meta) or _weights_fault(meta, arrays)


def _meta_fault(meta: dict[str, Any]) -> str:
    if meta.get("format") != FORMAT:
        return f"it has format {meta.get('format')!r}, this version reads {FORMAT}; train the agent again"
    for key, kind in META.items():
        if key not in meta:
            return f"its meta lacks {key!r}; train the agent again"
        if not isinstance(meta[key], kind) or isinstance(meta[key], bool):
            return f"its meta has {key} = {meta[key]!r}, of the wrong kind; train the agent again"
    if meta["feature_version"] != FEATURE_VERSION:
        return (
            f"it was trained on observations of version {meta['feature_version']}, this version makes "
            f"{FEATURE_VERSION}; train the agent again"
        )
    if meta["network"] not in NETWORKS:
        return f"unknown network {meta['network']!r}; known are {', '.join(NETWORKS)}"
    if meta["problem"] not in PROBLEMS:
        return f"unknown problem {meta['problem']!r}; known are {', '.join(PROBLEMS)}"
    try:
        feature_set(meta["features"])
    except WorkflowError as error:
        return str(error)
    for key in ("hidden", "score_hidden"):
        if not 1 <= meta[key] <= LARGEST_WIDTH:
            return f"its meta has {key} = {meta[key]}, outside 1 to {LARGEST_WIDTH}"
    fixed = meta["network"] == "fixed_gcn"
    if fixed and not (meta["n_vms"] or 0) >= 1:
        return "fixed_gcn needs n_vms, the number of VMs that it was trained for"
    if not fixed and meta["n_vms"] is not None:
        return f"n_vms must be null for {meta['network']}, which serves any number of VMs"
    return ""


def _weights_fault(meta: dict[str, Any], arrays: Mapping[str, np.ndarray]) -> str:
    expected = weight_shapes(meta)
    if missing := [name for name in expected if name not in arrays]:
        return f"it lacks the weights {', '.join(missing)}; restore the file or train the agent again"
    if unknown := [name for name in arrays if name not in expected]:
        return f"it holds weights that {meta['network']} does not have: {', '.join(unknown)}"
    for name, shape in expected.items():
        array = arrays[name]
        if not isinstance(array, np.ndarray):  # a zip entry that is no array
            return f"{name} is no array; restore the file or train the agent again"
        if array.dtype != np.dtype("<f4"):
            return f"{name} holds {array.dtype}, not 32-bit numbers"
        if array.shape != shape:
            return f"{name} has the shape {array.shape}, but {shape} follows from the meta"
        if not np.isfinite(array).all():
            return f"{name} holds numbers that are not finite; training went wrong, train the agent again"
        if np.abs(array).max(initial=0.0) > LARGEST_WEIGHT:
            return f"{name} holds numbers beyond {LARGEST_WEIGHT:g}; training went wrong, train the agent again"
    return ""


def weight_shapes(meta: Mapping[str, Any]) -> dict[str, tuple[int, ...]]:
    """Names and shapes of the weights that an agent's meta promises: those of `policy.make_network`."""
    h, k = meta["hidden"], meta["score_hidden"]
    n_task, n_pair, n_total = (len(columns) for columns in feature_set(meta["features"]).columns)
    if meta["network"] == "fixed_gcn":
        n_actions = ObservationSize().slots * meta["n_vms"] + 1
        linear = {"vm_encoder": (h, n_total), "head_1": (k, 2 * h), "head_2": (n_actions, k),
                  "value_1": (k, 2 * h), "value_2": (1, k)}  # fmt: skip
        convolutions = {"conv_1": (h, n_task), "conv_2": (h, h)}
    else:
        linear = {
            "task_1": (h, n_task), "task_2": (h, h),
            "score_1": (k, h + n_pair + n_total), "score_2": (k, k), "score_3": (1, k),
            "wait_1": (k, h + n_total), "wait_2": (1, k),
            "value_1": (k, h + n_total), "value_2": (k, k), "value_3": (1, k),
        }  # fmt: skip
        layers = range(CONVOLUTIONS[meta["network"]])
        convolutions = {f"{way}.{layer}": (h, h) for way in ("down", "up") for layer in layers}
    shapes: dict[str, tuple[int, ...]] = {}
    for name, shape in linear.items():
        shapes |= {f"{name}.weight": shape, f"{name}.bias": shape[:1]}
    for name, shape in convolutions.items():
        shapes |= {f"{name}.lin.weight": shape, f"{name}.bias": shape[:1]}
    return shapes
