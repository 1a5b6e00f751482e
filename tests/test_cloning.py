"""Behaviour cloning: the labels are the rule's own choices, and a network learns them."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from tests.tiny_training import TINY
from thesis_lib.cloning import STRIDE, _collect, _smoothed_loss, clone_base_rule
from thesis_lib.env import CloudWorkflowEnv
from thesis_lib.policy import ILLEGAL_LOGIT, pack
from thesis_lib.ppo import make_env, make_model
from thesis_lib.schedulers import make
from thesis_lib.vec_env import BatchedWorkflowEnv


@pytest.mark.parametrize(
    ("rule", "options"),
    [
        ("critical_path", {"suite": "thesis", "suite_options": {"n_tasks": 12}}),
        ("srw_patient", {"suite": "stream", "suite_options": {"workflows": 2, "load": 1.2}}),
        ("heft_online", {"suite": "single"}),
    ],
)
def test_base_actions_are_what_the_scheduler_of_that_name_decides(rule, options):
    """A single environment walks along; the scheduler is asked, its decision translated by the observed slots."""
    batched = BatchedWorkflowEnv(1, base_rule=rule, **options)
    single, scheduler, compared = CloudWorkflowEnv(base_rule=rule, **options), make(rule), 0
    batched.seed(3)
    batched.reset(), single.reset(seed=3)
    scheduler.reset(single.simulator.problem.workload, single.simulator.problem.cluster, 0)
    while not single.simulator.done:
        decision = scheduler.decide(single.simulator.state)
        (action,) = batched.base_actions()
        slots = single._slots.tolist()
        if decision is None:
            assert action == len(single._mask) - 1
        else:
            assert action == slots.index(decision[0]) * single.n_vms + decision[1]
        assert single.action_masks()[action]
        compared += 1
        batched.step([action]), single.step(action)
    assert compared > 10


def test_collected_decisions_are_those_of_every_fourth_step():
    config = replace(TINY, n_tasks_min=10, n_tasks_max=10)
    env, twin = make_env(config), make_env(config)
    env.seed(5), twin.seed(5)
    observations, actions = _collect(env, 30)
    seen, k = twin.reset(), 0
    for step in range(STRIDE * 15):
        wanted = twin.base_actions()
        assert (wanted >= 0).all()
        if step % STRIDE == 0:
            assert np.array_equal(actions[k : k + 2].numpy(), wanted)
            assert all(np.array_equal(observations[key][k : k + 2].numpy(), seen[key]) for key in seen)
            k += 2
        seen, *_ = twin.step(wanted)
    assert k == len(actions) == 30


def test_the_loss_by_hand():
    """Three legal actions, logits 0, ln 2, ln 5: probabilities 1/8, 2/8, 5/8; the rule took the last."""
    logits = torch.tensor([[0.0, np.log(2), ILLEGAL_LOGIT, np.log(5)]])
    own, spread = np.log(5 / 8), (np.log(1 / 8) + np.log(2 / 8) + np.log(5 / 8)) / 3
    assert float(_smoothed_loss(logits, torch.tensor([3]))) == pytest.approx(-(0.9 * own + 0.1 * spread), rel=1e-6)


def test_a_network_learns_the_rule():
    """At least 95 % agreement, also on episodes that it has not seen."""
    config = replace(TINY, n_tasks_min=10, n_tasks_max=14, hidden=16, score_hidden=32, n_envs=8)
    model, env = make_model(config), make_env(config)
    env.seed(1)
    agreement = clone_base_rule(model.policy, env, 2000, 25, 5e-3, np.random.default_rng(0))
    assert agreement >= 0.95
    env.seed(2)
    observations, actions = _collect(env, 500)
    with torch.no_grad():
        chosen = model.policy.network(pack(observations, env.n_vms))[0].argmax(dim=1)
    assert (chosen == actions).float().mean() >= 0.95
