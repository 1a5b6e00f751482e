"""The networks of `policy` behind the interface that MaskablePPO trains."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from gymnasium import spaces
from sb3_contrib.common.maskable.distributions import MaskableCategoricalDistribution
from sb3_contrib.common.maskable.policies import MaskableActorCriticPolicy
from torch import Tensor

from thesis_lib.policy import make_network, pack


class MaskedPolicy(MaskableActorCriticPolicy):
    """Actor and critic of MaskablePPO over graph observations and flat actions.

    network: keyword arguments of `policy.make_network`. n_vms: VMs of the training problem.
    Illegal actions are never taken, also when the caller forgets the masks or gives those of
    another moment: the observation brings its own.
    """

    def __init__(self, observation_space: spaces.Dict, action_space: spaces.Discrete, lr_schedule,
                 network: dict[str, Any] | None = None, n_vms: int = 3, **kwargs: Any):  # fmt: skip
        self._network_options, self.n_vms = network or {}, n_vms
        super().__init__(observation_space, action_space, lr_schedule, **kwargs)

    def _build(self, lr_schedule) -> None:
        self.network = make_network(**self._network_options, n_actions=int(self.action_space.n))
        self.optimizer = self.optimizer_class(self.parameters(), lr=lr_schedule(1), **self.optimizer_kwargs)

    def _get_constructor_parameters(self) -> dict[str, Any]:
        return super()._get_constructor_parameters() | {"network": self._network_options, "n_vms": self.n_vms}

    def _look(self, obs, action_masks) -> tuple[MaskableCategoricalDistribution, Tensor]:
        """Distribution over the legal actions, and values (b, 1)."""
        logits, value = self.network(pack(obs, self.n_vms))
        distribution = MaskableCategoricalDistribution(logits.shape[1]).proba_distribution(logits)
        legal = obs["action_mask"].bool()
        if action_masks is not None:
            both = legal & torch.as_tensor(np.asarray(action_masks), dtype=torch.bool).reshape(legal.shape)
            legal = torch.where(both.any(dim=1, keepdim=True), both, legal)
        distribution.apply_masking(legal)
        return distribution, value[:, None]

    def forward(self, obs, deterministic: bool = False, action_masks=None):
        """Actions (b,), values (b, 1) and log probabilities (b,)."""
        distribution, value = self._look(obs, action_masks)
        actions = distribution.get_actions(deterministic=deterministic)
        return actions, value, distribution.log_prob(actions)

    def evaluate_actions(self, obs, actions, action_masks=None):
        """Values (b, 1), log probabilities (b,) and entropies (b,) of given actions."""
        distribution, value = self._look(obs, action_masks)
        return value, distribution.log_prob(actions), distribution.entropy()

    def get_distribution(self, obs, action_masks=None) -> MaskableCategoricalDistribution:
        """Distribution over the legal actions."""
        return self._look(obs, action_masks)[0]

    def predict_values(self, obs) -> Tensor:
        """Values (b, 1)."""
        return self._look(obs, None)[1]
