"""The trained agents that are shipped, how each was trained, and the one function that trains them again.

`headline` agents are the full recipe: imitate, PPO, two rounds of distillation. The other groups
change one thing in a short run from scratch, three settings of PPO among them, so that their learning
curves can be compared; they are no good agents and not meant to be.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from joblib import Parallel, delayed
from tqdm.auto import tqdm

from thesis_lib.agents import MANIFEST, MODELS, load_agent
from thesis_lib.files import write_bytes
from thesis_lib.train_config import TrainConfig
from thesis_lib.workflow import WorkflowError

_SHORT = {
    "clone_decisions": 0, "total_steps": 100_000, "distill_rounds": 0, "gamma": 0.99, "gae_lambda": 0.95,
    "score_hidden": 64, "workflows_min": 6, "workflows_max": 10, "validation_streams": 30, "validate_every": 25_000,
    "curve_streams": 10,
}  # fmt: skip
_THESIS = {
    "problem": "thesis", "base_rule": "critical_path", "hidden": 64, "stage_order": "distill_ppo",
    "labels_per_round": 50_000, "candidates": 12, "futures": 32, "distill_margin": 0.0, "distill_epochs": 8,
    "distill_learning_rate": 3e-3, "reward_scale": 50.0, "total_steps": 800_000, "n_envs": 128, "rollout_length": 128,
    "minibatch_size": 2048, "entropy": 0.04, "learning_rate": 1e-3, "gamma": 1.0, "gae_lambda": 0.95,
}  # fmt: skip
FROM_META = ("problem", "network", "features", "seed", "steps", "versions", "training")  # what the manifest repeats
DEFAULTS = {"stream": "stream", "thesis": "thesis"}  # the agents that `drl` takes for each kind of problem


@dataclass(frozen=True)
class Recipe:
    """One shipped agent. changes: settings that differ from `TrainConfig()`."""

    name: str
    group: str
    about: str
    changes: dict[str, Any] = field(default_factory=dict)

    @property
    def config(self) -> TrainConfig:
        """All settings."""
        return TrainConfig.from_mapping({**self.changes, "name": self.name})


def _short(name: str, group: str, about: str, **changes: Any) -> Recipe:
    return Recipe(name, group, about, {**_SHORT, **changes})


RECIPES: tuple[Recipe, ...] = (
    Recipe("stream", "headline", "the agent for streams: pair-scoring GCN, full recipe"),
    Recipe("stream-seed1", "headline", "the same from another training seed", {"seed": 1}),
    Recipe("stream-seed2", "headline", "the same from a third training seed", {"seed": 2}),
    Recipe("stream-ppo", "headline", "the third seed before distillation", {"distill_rounds": 0, "seed": 2}),
    Recipe("stream-mlp", "headline", "the MLP twin: the full recipe without convolutions", {"network": "pair_mlp"}),
    Recipe("thesis", "headline", "the agent for the thesis sets: one DAG on one machine", _THESIS),
    *(
        _short(f"reward-{name.replace('_', '-')}", "reward", f"short run from scratch with reward {name}", reward=name)
        for name in ("v1", "v2", "v2_as_printed", "v3", "v3_as_printed", "flow_time", "potential")
    ),
    *(
        _short(f"features-{k}-seed{seed}", "features", f"short run that sees the article's {k} features", seed=seed,
               features=f"article_{k}")
        for k in (5, 4) for seed in range(3)
    ),
    _short("fixed-head", "network", "short run of the article's network with a fixed head", network="fixed_gcn",
           hidden=128, score_hidden=128, validation_streams=2, curve_streams=1),  # it runs in torch, slowly
    _short("article", "network", "short run with the article's seven PPO settings", n_envs=20, rollout_length=200,
           minibatch_size=64, epochs=10, value_clip=10.0, entropy=0.01, learning_rate=3e-4),
    *(_short(f"entropy-{value:g}", "entropy", f"short run with entropy weight {value:g}", entropy=value)
      for value in (0.01, 0.03)),
    *(_short(f"rollout-{steps}", "rollout", f"short run with rollouts of {steps} steps", rollout_length=steps)
      for steps in (200,)),
    *(_short(f"value-clip-{value:g}", "value_clip", f"short run with value clip {value:g}", value_clip=value)
      for value in (0.2, 10.0)),
)  # fmt: skip


def recipe(name: str) -> Recipe:
    """The recipe of that name; WorkflowError with all names for another one."""
    for known in RECIPES:
        if known.name == name:
            return known
    raise WorkflowError(f"unknown agent {name!r}; choose one of {', '.join(r.name for r in RECIPES)}")


def state_of(known: Recipe, out: Path = MODELS) -> str:
    """One of "shipped", "missing" (agent or learning curve), "damaged" and "outdated" (trained by another recipe)."""
    path = out / f"{known.name}.npz"
    if not (path.is_file() and log_path(known.name, out).is_file()):
        return "missing"
    try:
        config = TrainConfig.from_mapping(_meta_of(path)["config"])
    except WorkflowError:
        return "damaged"
    return "outdated" if config != known.config else "shipped"


def _meta_of(path: Path) -> dict[str, Any]:
    """What an agent file says about its training; WorkflowError when it lacks what the manifest tells."""
    meta = load_agent(path).meta
    if missing := [key for key in ("config", *FROM_META) if key not in meta]:
        raise WorkflowError(f"{path}: is damaged, its meta lacks {', '.join(missing)}; train the agent again")
    if not isinstance(meta["config"], dict):
        raise WorkflowError(f"{path}: is damaged, its config holds no settings; train the agent again")
    return meta


def log_path(name: str, out: Path = MODELS) -> Path:
    """Where the learning curve of an agent lies."""
    return out / "logs" / f"{name}.csv"


def build(
    names: Iterable[str] | None = None, out: Path = MODELS, runs: Path = Path("runs/models"), jobs: int = 1
) -> None:
    """Train agents (all by default) and copy them, their learning curves and a manifest to `out`.

    A run that was cut off goes on, one that is complete is not trained again; a run of other settings, from
    an earlier recipe, is replaced. jobs: runs at the same time.
    """
    chosen = [recipe(name) for name in names] if names is not None else list(RECIPES)
    done = Parallel(n_jobs=jobs, return_as="generator_unordered")(delayed(_train)(r, runs, jobs == 1) for r in chosen)
    for name in tqdm(done, total=len(chosen), desc="agents"):
        _publish(name, runs, out)
        write_manifest(out)


def _train(chosen: Recipe, runs: Path, progress: bool) -> str:
    import torch

    from thesis_lib.training import train

    torch.set_num_threads(1)
    folder = runs / chosen.name
    train(chosen.config, folder, resume=not _is_of_other_settings(chosen, folder), progress=progress, jobs=1)
    return chosen.name


def _is_of_other_settings(chosen: Recipe, folder: Path) -> bool:
    """True when the folder holds a run whose settings are not the recipe's, or are none that this version knows."""
    file = folder / f"{chosen.name}.yaml"
    try:
        return file.exists() and TrainConfig.from_yaml(file) != chosen.config
    except WorkflowError:
        return True


def _publish(name: str, runs: Path, out: Path) -> None:
    for source, target in ((f"{name}.npz", out / f"{name}.npz"), (f"{name}.csv", log_path(name, out))):
        write_bytes(target, (runs / name / source).read_bytes(), make_folder=True)


def write_manifest(out: Path = MODELS) -> Path:
    """List the agents in `out` that their recipes trained: how, what they reached, and a checksum."""
    models = {}
    for known in RECIPES:
        path = out / f"{known.name}.npz"
        if state_of(known, out) == "shipped":
            meta = _meta_of(path)
            models[known.name] = {
                "group": known.group, "about": known.about, "changes": known.changes,
                **{key: meta[key] for key in FROM_META},
                "bytes": path.stat().st_size, "sha256": hashlib.sha256(path.read_bytes()).hexdigest(),
            }  # fmt: skip
    text = json.dumps({"default": DEFAULTS, "models": models}, indent=1, sort_keys=True)
    return write_bytes(out / MANIFEST, (text + "\n").encode(), make_folder=True)
