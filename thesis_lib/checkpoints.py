"""The state of a training run in one file, so that a run that was cut off goes on where it stood.

Beside the weights it keeps what resuming needs: the optimiser's moments, the counters, the
state of the random generators and the settings. Plain arrays and JSON, nothing that runs
code when it is read; written under a temporary name and renamed.
"""

from __future__ import annotations

import io
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import nn

from thesis_lib.files import read_bytes, write_bytes
from thesis_lib.workflow import WorkflowError

FORMAT = 1


def write_arrays(path: Path, arrays: Mapping[str, np.ndarray], about: Mapping[str, Any]) -> Path:
    """Arrays by name and one JSON object, as one .npz file."""
    buffer = io.BytesIO()
    text = json.dumps({"format": FORMAT, **about}, sort_keys=True)
    np.savez(buffer, __about__=np.frombuffer(text.encode(), np.uint8), **arrays)
    return write_bytes(path, buffer.getvalue(), make_folder=True)


def read_arrays(path: Path) -> tuple[dict[str, np.ndarray], dict[str, Any]]:
    """What `write_arrays` wrote; WorkflowError when the file is missing, damaged or of another format."""
    try:
        content = read_bytes(path)
    except WorkflowError as error:
        raise WorkflowError(f"{path}: {error}") from None
    try:
        with np.load(io.BytesIO(content), allow_pickle=False) as file:
            arrays = {name: file[name] for name in file.files}
        about = dict(json.loads(arrays.pop("__about__").tobytes()))
    except Exception as error:  # damaged bytes make zipfile, zlib, numpy and json raise errors of any class
        message = " ".join(str(error).split()) or type(error).__name__
        raise WorkflowError(f"{path}: is damaged or no checkpoint ({message})") from error
    if about.get("format") != FORMAT:
        raise WorkflowError(f"{path}: has format {about.get('format')!r}, this version reads {FORMAT}")
    return arrays, about


def network_arrays(network: nn.Module, prefix: str = "weights/") -> dict[str, np.ndarray]:
    """The parameters of a network by name."""
    return {prefix + name: tensor.detach().numpy().copy() for name, tensor in network.state_dict().items()}


def set_network(network: nn.Module, arrays: Mapping[str, np.ndarray], prefix: str = "weights/") -> None:
    """Load what `network_arrays` gave; WorkflowError when names or shapes differ."""
    found = {k.removeprefix(prefix): torch.as_tensor(a) for k, a in arrays.items() if k.startswith(prefix)}
    try:
        network.load_state_dict(found)
    except RuntimeError as error:
        raise WorkflowError(f"the weights belong to another network: {error}") from error


def optimizer_arrays(optimizer: torch.optim.Optimizer, prefix: str = "optimizer/") -> dict[str, np.ndarray]:
    """Adam's moments and step counts, numbered as the parameters are."""
    state = optimizer.state_dict()["state"]
    return {f"{prefix}{k}/{name}": np.array(value) for k, entry in state.items() for name, value in entry.items()}


def set_optimizer(
    optimizer: torch.optim.Optimizer, arrays: Mapping[str, np.ndarray], prefix: str = "optimizer/"
) -> None:
    """Load what `optimizer_arrays` gave; the learning rate stays as it is."""
    state: dict[int, dict[str, torch.Tensor]] = {}
    for key, array in arrays.items():
        if key.startswith(prefix):
            number, name = key.removeprefix(prefix).split("/")
            state.setdefault(int(number), {})[name] = torch.as_tensor(array)
    optimizer.load_state_dict({**optimizer.state_dict(), "state": state})


def random_arrays(prefix: str = "random/") -> tuple[dict[str, np.ndarray], dict[str, Any]]:
    """State of torch's and numpy's generators, which PPO draws from, as arrays and as JSON."""
    name, keys, position, has_gauss, gauss = np.random.get_state()  # noqa: NPY002
    arrays = {f"{prefix}torch": torch.random.get_rng_state().numpy().copy(), f"{prefix}numpy": keys.copy()}
    return arrays, {"numpy_random": [name, int(position), int(has_gauss), float(gauss)]}


def set_random(arrays: Mapping[str, np.ndarray], about: Mapping[str, Any], prefix: str = "random/") -> None:
    """Put the generators where `random_arrays` found them."""
    name, position, has_gauss, gauss = about["numpy_random"]
    np.random.set_state((name, arrays[f"{prefix}numpy"], position, has_gauss, gauss))  # noqa: NPY002
    torch.random.set_rng_state(torch.as_tensor(arrays[f"{prefix}torch"]))
