"""Training an agent: imitate the base rule, improve by PPO, then learn from search.

    clone    behaviour cloning of the base rule                          cloning.py
    ppo      MaskablePPO with the reward of the configuration            ppo.py
    distill  rounds of labelling decisions by rollouts and learning them distill.py

With `stage_order: distill_ppo` the last two change places: PPO then improves what was learned from search.

`train` writes into one folder: NAME.npz, the agent; NAME.csv, the learning curve; NAME.yaml, the
settings; NAME.state.npz, from which `resume=True` goes on; tensorboard/NAME.
"""

from __future__ import annotations

import random
import time
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
import torch
from sb3_contrib import MaskablePPO

from thesis_lib.agents import Agent, load_agent, save_agent_file
from thesis_lib.checkpoints import (
    network_arrays,
    optimizer_arrays,
    random_arrays,
    read_arrays,
    set_network,
    set_optimizer,
    set_random,
    write_arrays,
)
from thesis_lib.cloning import clone_base_rule
from thesis_lib.comparison import mean_completions_s, paired_ratio
from thesis_lib.distill import Distillation
from thesis_lib.files import refuse_target, remove_stale, writable_folder, write_bytes
from thesis_lib.generators import whole_number
from thesis_lib.observation import FEATURE_VERSION
from thesis_lib.ppo import make_env, make_model, run_ppo
from thesis_lib.problems import validation_cases
from thesis_lib.schedulers import make
from thesis_lib.train_config import TrainConfig
from thesis_lib.training_log import REFERENCES, REMEDY, RunningRatios, TrainingLog
from thesis_lib.workflow import WorkflowError

__all__ = ["load_agent", "train"]

# What a checkpoint must say about the run.
ABOUT = ("stage", "round", "seconds", "facts", "steps", "updates", "log_rows", "running", "config", "feature_version")
SHARPNESS = 6.0  # distilled scores times this are where PPO begins: it draws actions, by scores that differ by about 1
VERSIONS_OF = ("numpy", "numba", "torch", "torch-geometric", "gymnasium", "stable-baselines3", "sb3-contrib")


def train(config: TrainConfig | None = None, out: Path | str = "runs", resume: bool = False, progress: bool = True,
          jobs: int = 1) -> Path:  # fmt: skip
    """Train an agent into the folder `out`; returns the path of its file.

    resume: go on from NAME.state.npz with the settings of that run, which must be the given
        ones; where there is no such file, begin. A run that has ended is left as it is.
    progress: show a bar with the current ratios to the reference rules.
    jobs: processes that label decisions for distillation; the number changes no result.

    Ctrl-C saves the state after the last update and raises KeyboardInterrupt. The same settings
    give the same weights on one machine and one set of library versions; a run that was cut
    off within PPO and resumed meets other episodes than one that was not. The global random
    state is what it was before, though PPO draws from it. Raises WorkflowError when the folder
    cannot be written or the settings do not fit together, before any work, and when a
    checkpoint is damaged or of other settings.
    """
    run = _Run(config or TrainConfig(), Path(out), progress, jobs)
    with _own_global_state(run.config.seed):
        run.begin(resume)
        try:
            return run.go()
        except KeyboardInterrupt:
            run.save()
            raise
        finally:
            run.model.logger.close()


@contextmanager
def _own_global_state(seed: int) -> Iterator[None]:
    """Seed the global generators, which PPO draws from, and let torch use one thread; put all back afterwards.

    The networks are small: more threads only wait for each other, and on a busy machine they
    make training several times slower.
    """
    threads = torch.get_num_threads()
    before = random.getstate(), np.random.get_state(), torch.random.get_rng_state()  # noqa: NPY002
    random.seed(seed)
    np.random.seed(seed)  # noqa: NPY002
    torch.manual_seed(seed)
    torch.set_num_threads(1)
    try:
        yield
    finally:
        random.setstate(before[0])
        np.random.set_state(before[1])  # noqa: NPY002
        torch.random.set_rng_state(before[2])
        torch.set_num_threads(threads)


def _versions() -> dict[str, str]:
    return {name: version(name) for name in VERSIONS_OF}


class _Run:
    """One training run: its stage, its counters and its files."""

    def __init__(self, config: TrainConfig, out: Path, progress: bool, jobs: int):
        self.config, self.progress = config, progress
        whole_number(jobs, "jobs", 1)
        self.agent_path = out / f"{config.name}.npz"
        self.state_path = out / f"{config.name}.state.npz"
        self.config_path = out / f"{config.name}.yaml"
        self._files = (self.agent_path, self.state_path, self.config_path, out / f"{config.name}.csv")
        self.distillation = Distillation(config, out, jobs, progress)
        for path in self._files:
            refuse_target(path, make_folder=True)
        writable_folder(out)
        self.stage, self.round, self.seconds = "clone", 0, 0.0
        self.facts: dict[str, Any] = {}  # what the stages report
        self.ratios = RunningRatios(config.problem)
        references = REFERENCES[config.problem]
        columns = ("stage", "steps", "seconds", "episodes", *(f"training_ratio_{n}" for n in references),
                   *(f"validation_ratio_{n}" for n in references))  # fmt: skip
        self.log = TrainingLog(out / f"{config.name}.csv", columns)
        self._tensorboard = out / "tensorboard" / config.name
        self._kept: tuple[dict[str, np.ndarray], dict[str, Any]]  # the checkpoint that `save` writes
        self._reference_s: dict[int, dict[str, np.ndarray]] = {}

    # --- beginning, going on, saving -------------------------------------------------------

    def begin(self, resume: bool) -> None:
        """A new model, or the one of the checkpoint."""
        self._clock = self._saved_at = time.monotonic()
        checkpoint = self._read_checkpoint() if resume and self.state_path.exists() else None
        if not checkpoint:
            for path in self._tensorboard.glob("events.out.tfevents.*"):  # of an earlier run, which begins anew
                path.unlink()
        self.model: MaskablePPO = make_model(self.config, self._tensorboard)
        for path in self._files:
            remove_stale(path)
        if checkpoint:
            self._restore(*checkpoint)
            self._keep()
        else:
            self.state_path.unlink(missing_ok=True)
            self.log.path.unlink(missing_ok=True)
            self.distillation.clear()
            write_bytes(self.config_path, self.config.to_yaml().encode())
            self._keep()
            self.save()

    def _read_checkpoint(self) -> tuple[dict[str, np.ndarray], dict[str, Any]]:
        """The arrays and facts of the checkpoint; WorkflowError when it is not one of this run."""
        try:
            arrays, about = read_arrays(self.state_path)
            if missing := [key for key in ABOUT if key not in about]:
                raise WorkflowError(f"{self.state_path}: is no checkpoint of a run, it lacks {', '.join(missing)}")
            config = TrainConfig.from_mapping(about["config"])
        except WorkflowError as error:
            raise WorkflowError(f"{error}; {REMEDY}") from None
        if about["feature_version"] != FEATURE_VERSION:
            raise WorkflowError(
                f"{self.state_path}: was made with observations of version {about['feature_version']}, "
                f"this version makes {FEATURE_VERSION}; {REMEDY}"
            )
        if changed := config.differences(self.config):
            raise WorkflowError(
                f"{self.state_path}: was made with other settings ({changed}); resume with its own, "
                f"{self.config_path}, or {REMEDY}"
            )
        return arrays, about

    def _restore(self, arrays: dict[str, np.ndarray], about: dict[str, Any]) -> None:
        try:
            set_network(self.model.policy.network, arrays)
            set_optimizer(self.model.policy.optimizer, arrays)
            set_random(arrays, about)
            self.ratios.restore(about["running"])
        except (WorkflowError, KeyError, ValueError, TypeError, RuntimeError) as error:
            raise WorkflowError(f"{self.state_path}: is damaged ({error}); {REMEDY}") from error
        self.stage, self.round = about["stage"], about["round"]
        self.seconds, self.facts = about["seconds"], about["facts"]
        self.model.num_timesteps, self.model._n_updates = about["steps"], about["updates"]
        if about["steps"]:
            self.model.env.seed(int(np.random.SeedSequence([self.config.seed, about["steps"]]).generate_state(1)[0]))
        self.log.resume(about["log_rows"])

    def _keep(self) -> None:
        """Take the checkpoint, in memory: a moment from which the run can go on, between two updates or stages."""
        random_state, about = random_arrays()
        arrays = network_arrays(self.model.policy.network) | optimizer_arrays(self.model.policy.optimizer)
        self._kept = arrays | random_state, about | {
            "stage": self.stage, "round": self.round, "seconds": self._elapsed_s(), "facts": dict(self.facts),
            "steps": self.model.num_timesteps, "updates": self.model._n_updates, "log_rows": len(self.log.rows),
            "running": self.ratios.state(), "config": self.config.as_dict(), "feature_version": FEATURE_VERSION,
            "versions": _versions(),
        }  # fmt: skip

    def save(self) -> None:
        """Write the checkpoint that was taken last."""
        write_arrays(self.state_path, *self._kept)
        self._saved_at = time.monotonic()

    def _elapsed_s(self) -> float:
        return self.seconds + time.monotonic() - self._clock

    # --- the stages ------------------------------------------------------------------------

    def go(self) -> Path:
        """Run the stages that are left, then validate and write the agent."""
        work = {"clone": self._clone, "ppo": self._ppo, "distill": self._distill_rounds}
        order = ["clone", *self.config.stage_order.split("_"), "done"]
        for stage, following in zip(order, order[1:]):
            if self.stage == stage:
                work[stage]()
                self._enter(following)
        if not self.agent_path.exists():
            self._write_agent()
        self.distillation.clear()
        return self.agent_path

    def _enter(self, stage: str) -> None:
        self.stage = stage
        self._write_agent()
        self._keep()
        self.save()

    def _clone(self) -> None:
        if not self.config.clone_decisions:
            return
        env = make_env(self.config)
        env.seed(self.config.seed)
        rng = np.random.default_rng([self.config.seed, 1])  # as it is: the shipped agents were made with this stream
        self.facts["clone_agreement"] = clone_base_rule(
            self.model.policy, env, self.config.clone_decisions, self.config.clone_epochs, self.config.learning_rate,
            rng,
        )  # fmt: skip
        self._log_validation("clone", self.config.curve_streams)

    def _ppo(self) -> None:
        began_s = self._elapsed_s()
        if self.round and not self.model.num_timesteps:
            self.model.policy.network.sharpen(SHARPNESS)
        run_ppo(self.model, self.config, self.ratios, self._after_update, self.progress)
        self._log_validation("ppo", self.config.validation_streams)
        self.facts["ppo_s"] = self._elapsed_s() - (began_s if self.round else 0.0)

    def _distill_rounds(self) -> None:
        while self.round < self.config.distill_rounds:
            self._distill(self.round + 1)

    def _after_update(self, model: MaskablePPO, ratios: dict[str, float]) -> None:
        """After an update of PPO: log, sometimes validate, sometimes save."""
        steps, batch = model.num_timesteps, self.config.batch_size
        row = {f"training_ratio_{name}": ratios[name] for name in REFERENCES[self.config.problem]}
        if steps // self.config.validate_every > (steps - batch) // self.config.validate_every:
            row |= self._validate(self.config.curve_streams)
        self.log.add(stage="ppo", steps=steps, seconds=self._elapsed_s(), episodes=int(ratios["episodes"]), **row)
        self._keep()
        if time.monotonic() - self._saved_at >= self.config.checkpoint_every:
            self.save()

    def _distill(self, round_number: int) -> None:
        explained = self.distillation.run_round(round_number, self.model.policy, self.agent())
        self.facts[f"explained_variance_{round_number}"] = explained  # of the labels just learned, see `learn`
        self._log_validation(f"distill-{round_number}", self.config.validation_streams)
        self.round = round_number
        self._enter("distill")  # a round that is cut off begins again from here, with the labels that it has made

    # --- validation and the agent's file ---------------------------------------------------

    def _log_validation(self, stage: str, count: int) -> None:
        values = self._validate(count)
        self.facts[f"validation_{stage}"] = {"instances": count, **values}
        self.log.add(stage=stage, steps=self.model.num_timesteps, seconds=self._elapsed_s(), **values)

    def _validate(self, count: int) -> dict[str, float]:
        """Ratios to the references on the first `count` validation instances."""
        cases = validation_cases(self.config, count)
        if count not in self._reference_s:
            self._reference_s[count] = {n: mean_completions_s(make(n), cases) for n in REFERENCES[self.config.problem]}
        own_s = mean_completions_s(make("drl", model=self.agent()), cases)
        return {f"validation_ratio_{n}": paired_ratio(own_s, s).mean for n, s in self._reference_s[count].items()}

    def agent(self) -> Agent:
        """The network as it is now, as an agent."""
        config = self.config
        weights = network_arrays(self.model.policy.network, "")
        meta = {
            "name": config.name, "network": config.network, "features": config.features, "hidden": config.hidden,
            "score_hidden": config.score_hidden, "problem": config.problem, "base_rule": config.base_rule,
            "n_vms": self.model.env.n_vms if config.network == "fixed_gcn" else None,
            "config": config.as_dict(), "seed": config.seed, "steps": self.model.num_timesteps,
            "versions": _versions(), "training": dict(self.facts),
        }  # fmt: skip
        return Agent(meta, weights)

    def _write_agent(self) -> None:
        agent = self.agent()
        save_agent_file(self.agent_path, agent.meta, agent.weights)
