"""Trained agents: found by name, loaded without torch, deciding through a compiled forward pass.

The pair-scoring networks run in numba (`_kernels.network`). `fixed_gcn`, the article's, is
kept for the lesson and runs in torch, which is loaded only when such an agent decides.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from thesis_lib._kernels import policies
from thesis_lib._kernels.network import ForwardScratch, forward_scratch
from thesis_lib._kernels.observe import ObservationViews
from thesis_lib.agent_file import CONVOLUTIONS, read_agent, write_agent
from thesis_lib.cluster import Cluster
from thesis_lib.feature_sets import feature_set
from thesis_lib.observation import PAIR_FEATURES, TASK_FEATURES, TOTAL_FEATURES, Observer
from thesis_lib.simulator import Problem, Simulator, State
from thesis_lib.workflow import WorkflowError
from thesis_lib.workload import Workload

if TYPE_CHECKING:
    from torch import nn

MODELS = Path(__file__).resolve().parents[1] / "dataset" / "models"
MANIFEST = "manifest.json"  # {"default": {"stream": NAME, "thesis": NAME}, "models": {NAME: {...}}}
Action = tuple[int, int] | None


class Packed(NamedTuple):
    """A pair-scoring network as the compiled forward pass takes it (see `packed_weights`)."""

    sizes: np.ndarray  # (6,) int64: layers, hidden, score hidden, features of task, pair and total
    weights: np.ndarray  # float32, one matrix after another


class Room(NamedTuple):
    """What a compiled decision writes to, for problems of one size."""

    o: ObservationViews
    scratch: ForwardScratch
    logits: np.ndarray  # (slots x v + 1,)


@dataclass(frozen=True, eq=False)
class Agent:
    """A trained network with what is needed to use it rightly.

    meta: format, name, network, features, feature_version, hidden, score_hidden, n_vms,
        problem, base_rule, and what training noted (config, seed, steps, versions, validation).
    weights: arrays by state_dict name.
    """

    meta: dict[str, Any]
    weights: dict[str, np.ndarray]

    @property
    def name(self) -> str:
        """The agent's name."""
        return self.meta["name"]

    @property
    def is_compiled(self) -> bool:
        """True for networks with a compiled forward pass, False for the one that runs in torch."""
        return self.meta["network"] in CONVOLUTIONS

    @cached_property
    def packed(self) -> Packed:
        """The weights for the compiled forward pass; WorkflowError for fixed_gcn, which has none."""
        if not self.is_compiled:
            raise WorkflowError(f"agent {self.name!r} is a fixed_gcn, which has no compiled forward pass")
        return packed_weights(self.meta, self.weights)

    # --- deciding -------------------------------------------------------------------------

    def logits(self, state: State) -> np.ndarray:
        """(slots x v + 1,) logit of every action, the last one waits; -inf where it is illegal.

        `action_of` says what an action means. The state is not changed.
        """
        observer, room = self._desk(state.problem)
        if not self.is_compiled:
            return self._logits_by_torch(observer, state)
        policies.score_actions(*self.packed, *state.arguments, *room, _no_random())
        return room.logits.copy()

    def decide(self, state: State) -> Action:
        """(task, vm) with the largest logit, the first of equals, or None to wait."""
        if not self.is_compiled:
            best = int(self.logits(state).argmax())
            return self._desk(state.problem)[0].action_of(best)
        _, room = self._desk(state.problem)
        task, vm = policies.decide_policy(*self.packed, *state.arguments, *room, 0.0, _no_random())
        return None if task < 0 else (task, vm)

    def top(self, state: State, k: int) -> list[tuple[Action, float]]:
        """Up to k legal actions with their probabilities, the most probable first."""
        logits = self.logits(state)
        probability = np.exp(logits - logits.max()) if np.isfinite(logits).any() else np.zeros(len(logits))
        order = [a for a in np.argsort(-logits, kind="stable")[:k].tolist() if np.isfinite(logits[a])]
        observer, _ = self._desk(state.problem)
        return [(observer.action_of(a), float(probability[a] / probability.sum())) for a in order]

    def action_of(self, state: State, action: int) -> Action:
        """What a position in the `logits` of this state means: (task, vm), or None for waiting."""
        observer, _ = self._desk(state.problem)
        observer.observe(state)  # since another state may have been seen in between
        return observer.action_of(action)

    def run(self, simulator: Simulator, temperature: float = 0.0, rng: np.random.Generator | None = None) -> int:
        """Decide to the end in one compiled call; returns the number of decisions.

        temperature: 0 takes the best action, above 0 draws one with probability
        proportional to exp(logit / temperature), for which `rng` is needed.
        """
        bits = _no_random()
        if temperature > 0:
            if rng is None:
                raise WorkflowError("a temperature above 0 draws actions: give rng, a numpy Generator")
            bits[0] = rng.integers(2**64, dtype=np.uint64)
        _, room = self._desk(simulator.problem)
        return simulator.run_policy(self.packed, room, temperature, bits)

    # --- working room ---------------------------------------------------------------------

    def _desk(self, problem: Problem) -> tuple[Observer, Room]:
        """The observer and the working room for a problem, made anew only when its size changes."""
        size = (problem.n, problem.v, problem.w)
        known = self.__dict__.get("_last_desk")
        if known is not None and known[0] == size:
            return known[1], known[2]
        if self.meta["n_vms"] not in (None, problem.v):
            raise WorkflowError(
                f"agent {self.name!r} has a fixed head for {self.meta['n_vms']} VMs, but the problem has {problem.v}; "
                "use a pair-scoring agent (pair_gcn), which serves any number"
            )
        observer = Observer(*size)
        sizes = self.packed.sizes if self.is_compiled else np.ones(6, np.int64)
        room = Room(observer.views, forward_scratch(sizes, observer.size.nodes), np.zeros(observer.wait_action + 1))
        self.__dict__["_last_desk"] = (size, observer, room)
        return observer, room

    def _logits_by_torch(self, observer: Observer, state: State) -> np.ndarray:
        import torch

        from thesis_lib.policy import pack

        seen = observer.observe(state)
        batch = pack({key: torch.from_numpy(array)[None] for key, array in seen.items()}, state.n_vms)
        with torch.no_grad():
            logits = self.network(batch)[0][0].numpy().astype(np.float64)
        return np.where(seen["action_mask"] > 0, logits, -np.inf)

    @cached_property
    def network(self) -> "nn.Module":
        """The same network in torch, in evaluation mode (loads torch)."""
        import torch

        from thesis_lib.policy import make_network

        meta = self.meta
        n_actions = len(self.weights["head_2.bias"]) if meta["network"] == "fixed_gcn" else None
        network = make_network(meta["network"], meta["features"], meta["hidden"], meta["score_hidden"], n_actions)
        network.load_state_dict({name: torch.tensor(array) for name, array in self.weights.items()})
        return network.eval()


def _no_random() -> np.ndarray:
    return np.zeros(1, np.uint64)


def packed_weights(meta: Mapping[str, Any], weights: Mapping[str, np.ndarray]) -> Packed:
    """The weights that decide, one after another, in the order of `_kernels.network.network_views`.

    Torch stores a matrix as (outputs, inputs), here it is (inputs, outputs). The inputs of
    score_1 are task, pair and total features, of wait_1 task and total, each part a matrix
    of its own. Features that the agent's feature set leaves out get rows of zeros, so the
    compiled pass always takes all of them. The critic is left out.
    """
    h, k, layers = meta["hidden"], meta["score_hidden"], CONVOLUTIONS[meta["network"]]
    task, pair, total = feature_set(meta["features"]).columns
    n_task, n_pair, n_total = len(TASK_FEATURES), len(PAIR_FEATURES), len(TOTAL_FEATURES)

    def matrix(name: str) -> np.ndarray:
        return weights[f"{name}.weight"].T

    def spread(part: np.ndarray, columns: list[int], n: int) -> np.ndarray:
        rows = np.zeros((n, part.shape[1]))
        rows[columns] = part
        return rows

    score, wait = matrix("score_1"), matrix("wait_1")
    parts = [
        spread(matrix("task_1"), task, n_task), weights["task_1.bias"], matrix("task_2"), weights["task_2.bias"],
        *(matrix(f"down.{layer}.lin") for layer in range(layers)),
        *(matrix(f"up.{layer}.lin") for layer in range(layers)),
        *(weights[f"down.{layer}.bias"] + weights[f"up.{layer}.bias"] for layer in range(layers)),
        score[:h], spread(score[h : h + len(pair)], pair, n_pair), spread(score[h + len(pair) :], total, n_total),
        weights["score_1.bias"], matrix("score_2"), weights["score_2.bias"],
        matrix("score_3"), weights["score_3.bias"],
        wait[:h], spread(wait[h:], total, n_total), weights["wait_1.bias"],
        matrix("wait_2"), weights["wait_2.bias"],
    ]  # fmt: skip
    flat = np.concatenate([part.ravel() for part in parts]).astype(np.float32)
    return Packed(np.array([layers, h, k, n_task, n_pair, n_total]), flat)


# --- files and names ----------------------------------------------------------------------


def load_agent_file(path: str | Path) -> Agent:
    """The agent of a file; WorkflowError, naming file, fault and remedy, when it cannot be used."""
    return Agent(*read_agent(path))


def save_agent_file(path: str | Path, meta: Mapping[str, Any], weights: Mapping[str, np.ndarray]) -> Path:
    """Write an agent file atomically; see `agent_file.write_agent`."""
    return write_agent(path, meta, weights)


def agent_names() -> list[str]:
    """Names of the agents that lie in dataset/models."""
    return sorted(path.stem for path in MODELS.glob("*.npz")) if MODELS.is_dir() else []


def load_agent(name_or_path: str | Path) -> Agent:
    """An agent by name (a file of dataset/models) or by the path of its file; WorkflowError when there is none."""
    text = str(name_or_path)
    if text in agent_names():
        return load_agent_file(MODELS / f"{text}.npz")
    if Path(text).suffix == ".npz" or len(Path(text).parts) > 1 or os.path.exists(text):
        return load_agent_file(text)
    raise WorkflowError(f"unknown agent {text!r}; give the path of an agent file, or {_choice()}")


def default_agent_for(workload: Workload, cluster: Cluster) -> Agent:
    """The shipped agent for a problem: "thesis" for one workflow on one VM, else "stream"."""
    kind = "thesis" if len(cluster) == 1 and len(workload) == 1 else "stream"
    try:
        manifest = json.loads((MODELS / MANIFEST).read_text(encoding="utf-8"))
        name = manifest["default"][kind]
    except (OSError, ValueError, KeyError, TypeError, RecursionError):
        raise WorkflowError(
            f"{MODELS / MANIFEST} names no agent for problems of the kind {kind!r}; train one, or {_choice()}"
        ) from None
    return load_agent(name)


def _choice() -> str:
    known = agent_names()
    return f"choose one of {', '.join(known)}" if known else f"add agents to {MODELS}, where there is none yet"
