"""Behaviour cloning: before reinforcement learning, the network learns to imitate the base rule.

A second of imitation replaces the long first phase in which PPO would only find out what every rule knows.
Pomerleau, "Efficient training of artificial neural networks for autonomous navigation",
Neural Computation 3(1), 1991.
"""

from __future__ import annotations

import numpy as np
import torch

from thesis_lib.masked_policy import MaskedPolicy
from thesis_lib.policy import ILLEGAL_LOGIT, pack
from thesis_lib.vec_env import BatchedWorkflowEnv

MINIBATCH = 256
STRIDE = 4  # neighbouring decisions are much alike
SMOOTHING = 0.1  # probability that the other legal actions share, so that PPO has something to explore


def clone_base_rule(policy: MaskedPolicy, env: BatchedWorkflowEnv, decisions: int, epochs: int,
                    learning_rate: float, rng: np.random.Generator) -> float:  # fmt: skip
    """Train the policy to take the base rule's action; returns the share of decisions in which it then agrees.

    decisions: how many are collected, by running the base rule in `env`, which is reset.
    The value layers learn nothing here.
    """
    observations, actions = _collect(env, decisions)
    optimizer = torch.optim.Adam(policy.network.parameters(), lr=learning_rate)
    for _ in range(epochs):
        order = rng.permutation(len(actions))
        for start in range(0, len(order), MINIBATCH):
            rows = torch.as_tensor(order[start : start + MINIBATCH])
            logits, _ = policy.network(pack({k: x[rows] for k, x in observations.items()}, policy.n_vms))
            optimizer.zero_grad()
            _smoothed_loss(logits, actions[rows]).backward()
            optimizer.step()
    with torch.no_grad():
        logits, _ = policy.network(pack(observations, policy.n_vms))
    return float((logits.argmax(dim=1) == actions).float().mean())


def _smoothed_loss(logits: torch.Tensor, actions: torch.Tensor) -> torch.Tensor:
    """Cross entropy against 1 - SMOOTHING on the rule's action, the rest spread over all legal ones (Szegedy, 2016)."""
    log_p, legal = torch.log_softmax(logits, dim=1), logits > ILLEGAL_LOGIT
    spread = torch.where(legal, log_p, 0.0).sum(dim=1) / legal.sum(dim=1)
    own = log_p.gather(1, actions[:, None])[:, 0]
    return -((1 - SMOOTHING) * own + SMOOTHING * spread).mean()


def _collect(env: BatchedWorkflowEnv, decisions: int) -> tuple[dict[str, torch.Tensor], torch.Tensor]:
    """Observations (k, ...) and the base rule's actions (k,) at every STRIDE-th step of its runs, k >= `decisions`."""
    seen, step, taken = env.reset(), 0, 0
    rows: list[dict[str, np.ndarray]] = []
    labels: list[np.ndarray] = []
    while taken < decisions:
        actions = env.base_actions()
        has_slot = actions >= 0  # what the rule would place nearly always has one
        if step % STRIDE == 0:
            rows.append({k: x[has_slot] for k, x in seen.items()})
            labels.append(actions[has_slot])
            taken += len(labels[-1])
        seen, *_ = env.step(np.where(has_slot, actions, env.action_masks().argmax(axis=1)))
        step += 1
    observations = {k: torch.as_tensor(np.concatenate([row[k] for row in rows])) for k in rows[0]}
    return observations, torch.as_tensor(np.concatenate(labels))
