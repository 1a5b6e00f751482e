"""The PPO stage: MaskablePPO of sb3-contrib over the batched environment, with log, validation and checkpoints.

Schulman et al., "Proximal policy optimization algorithms", arXiv:1707.06347, 2017;
masks: Huang and Ontañón, "A closer look at invalid action masking", FLAIRS 2022.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
from sb3_contrib import MaskablePPO
from stable_baselines3.common.callbacks import BaseCallback
from stable_baselines3.common.logger import Logger, TensorBoardOutputFormat
from tqdm.auto import tqdm

from thesis_lib.masked_policy import MaskedPolicy
from thesis_lib.problems import training_case
from thesis_lib.rewards import reward_named
from thesis_lib.train_config import TrainConfig
from thesis_lib.training_log import RunningRatios
from thesis_lib.vec_env import BatchedWorkflowEnv

LAST_RATE = 0.02  # the learning rate is annealed to this share of its start


def make_env(config: TrainConfig) -> BatchedWorkflowEnv:
    """The environments that a configuration trains on; their instances come from the training seeds."""
    return BatchedWorkflowEnv(
        config.n_envs, workload=training_case(config), reward=reward_named(config.reward).scaled(config.reward_scale),
        base_rule=config.base_rule, skip_forced=True, noise=config.problem != "thesis",
    )  # fmt: skip


def make_model(config: TrainConfig, folder: Path | None = None) -> MaskablePPO:
    """An untrained MaskablePPO as the configuration says; with a folder, TensorBoard logs go there."""
    env = make_env(config)
    network = {"network": config.network, "features": config.features}
    network |= {"hidden": config.hidden, "score_hidden": config.score_hidden}
    model = MaskablePPO(
        MaskedPolicy, env, n_steps=config.rollout_length, batch_size=config.minibatch_size, n_epochs=config.epochs,
        learning_rate=lambda left: config.learning_rate * max(left, LAST_RATE), gamma=config.gamma,
        gae_lambda=config.gae_lambda, clip_range=config.clip, clip_range_vf=config.value_clip,
        ent_coef=config.entropy, vf_coef=config.value_coef, max_grad_norm=config.max_grad_norm, seed=config.seed,
        policy_kwargs={"network": network, "n_vms": env.n_vms}, device="cpu",
    )  # fmt: skip
    outputs = [TensorBoardOutputFormat(str(folder))] if folder else []
    model.set_logger(Logger(str(folder) if folder else None, outputs))
    return model


def run_ppo(model: MaskablePPO, config: TrainConfig, ratios: RunningRatios,
            on_update: Callable[[MaskablePPO, dict[str, float]], None], progress: bool) -> None:  # fmt: skip
    """Train from where the model's counters stand to `total_steps`.

    ratios: takes note of the episodes that end. on_update(model, ratios) is called after every
    update of the weights, with the mean ratios of the last episodes.
    """
    left = config.total_steps - model.num_timesteps
    if left <= 0:
        return
    watcher = _Watcher(config, ratios, on_update, progress)
    model.learn(left, callback=watcher, reset_num_timesteps=model.num_timesteps == 0)
    watcher.after_update()


class _Watcher(BaseCallback):
    """Counts episodes, moves the bar, and hands over after every update."""

    def __init__(self, config: TrainConfig, ratios: RunningRatios, on_update: Callable, progress: bool):
        super().__init__()
        self._config, self._on_update, self._progress = config, on_update, progress
        self._ratios, self._updates = ratios, 0

    def _on_training_start(self) -> None:
        self._bar = tqdm(total=self._config.total_steps, initial=self.model.num_timesteps, unit="step",
                         desc=f"PPO {self._config.name}", disable=not self._progress, unit_scale=True)  # fmt: skip

    def _on_rollout_start(self) -> None:
        if self._updates:
            self.after_update()
        self._updates += 1

    def _on_step(self) -> bool:
        for info in self.locals["infos"]:
            if "schedule" in info:
                self._ratios.add(info["schedule"])
        return True

    def _on_rollout_end(self) -> None:
        means = self._ratios.means()
        for name, value in means.items():
            self.logger.record(f"ratio/{name}", value)
        self._bar.update(self.model.num_timesteps - self._bar.n)
        self._bar.set_postfix({f"/{name}": f"{v:.3f}" for name, v in means.items() if not np.isnan(v)})

    def _on_training_end(self) -> None:
        self._bar.close()

    def after_update(self) -> None:
        """The weights have just been updated: the moment to validate and to save."""
        self._on_update(self.model, self._ratios.means() | {"episodes": self._ratios.episodes})
