"""An untrained policy takes no illegal action on any path, with or without the caller's masks."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from sb3_contrib import MaskablePPO
from sb3_contrib.common.maskable.evaluation import evaluate_policy
from stable_baselines3.common.vec_env import DummyVecEnv

from tests.tiny_training import TINY
from thesis_lib.agents import Agent
from thesis_lib.checkpoints import network_arrays
from thesis_lib.env import CloudWorkflowEnv
from thesis_lib.policy import pack
from thesis_lib.ppo import make_env, make_model
from thesis_lib.schedulers.base import Scheduler
from thesis_lib.schedulers.learned import Drl
from thesis_lib.simulator import Problem, Simulator
from thesis_lib.vec_env import BatchedWorkflowEnv
from thesis_lib.workload import SEED_RANGES, duration_factors, suite_case

# Three VMs, two workflows that contend; with masks of all ones the policy would be illegal nearly always.
OPTIONS = {"suite": "stream", "suite_options": {"workflows": 2, "load": 1.2}, "reward": "flow_time"}
CONFIG = replace(TINY, problem="stream", base_rule="srw_patient", workflows_min=2, workflows_max=2, n_envs=3)


@pytest.fixture(scope="module", params=["pair_gcn", "pair_mlp", "fixed_gcn"])
def model(request) -> MaskablePPO:
    """Untrained, with weights so large that the logits differ by far more than a small mask penalty."""
    made = make_model(replace(CONFIG, network=request.param))
    generator = torch.Generator().manual_seed(1)
    for parameter in made.policy.network.parameters():
        parameter.data = torch.randn(parameter.shape, generator=generator) * 2
    return made


def is_legal(mask: np.ndarray, action) -> bool:
    return bool(mask[int(action)])


@pytest.mark.parametrize("deterministic", [True, False])
@pytest.mark.parametrize("masks", ["given", "forgotten", "stale"])
def test_predict_in_a_single_environment(model, deterministic, masks):
    env, stale = CloudWorkflowEnv(**OPTIONS), None
    seen, _ = env.reset(seed=4)
    for _ in range(60):
        mask = env.action_masks()
        stale = mask if stale is None else stale
        given = {"given": mask, "forgotten": None, "stale": stale}[masks]
        action, _ = model.predict(seen, action_masks=given, deterministic=deterministic)
        assert is_legal(mask, action)
        seen, _, terminated, truncated, _ = env.step(action)
        if terminated or truncated:
            seen, _ = env.reset()


@pytest.mark.parametrize("deterministic", [True, False])
@pytest.mark.parametrize("masks", ["given", "forgotten"])
def test_predict_in_batched_environments(model, deterministic, masks):
    env = BatchedWorkflowEnv(3, **OPTIONS)
    env.seed(5)
    seen = env.reset()
    for _ in range(60):
        mask = env.action_masks()
        actions, _ = model.predict(seen, action_masks=mask if masks == "given" else None, deterministic=deterministic)
        assert mask[np.arange(3), actions].all()
        seen, *_ = env.step(actions)


@pytest.mark.parametrize("use_masking", [True, False])
@pytest.mark.parametrize("batched", [True, False])
def test_evaluate_policy_of_sb3_contrib(model, use_masking, batched):
    """An illegal action costs 1 under this reward; the environments count them."""
    options = OPTIONS | {"reward": "v1"}
    env = BatchedWorkflowEnv(2, **options) if batched else DummyVecEnv([lambda: CloudWorkflowEnv(**options)])
    illegal, ended = [], []

    def note(local, _):
        illegal.append(env._total_illegal.sum() if batched else env.envs[0]._total_illegal)
        if local["done"]:
            ended.append(local["info"]["TimeLimit.truncated"])

    env.seed(6)
    evaluate_policy(model, env, n_eval_episodes=2, use_masking=use_masking, callback=note, warn=False)
    assert max(illegal) == 0 and len(ended) >= 2 and not any(ended)


def test_rollouts_of_ppo(model):
    taken: list[bool] = []
    step = model.env.step

    def note(actions):
        taken.extend(model.env.action_masks()[np.arange(3), actions])
        return step(actions)

    model.env.step = note
    try:
        model.learn(96)
    finally:
        del model.env.step
    assert len(taken) == 96 and all(taken)
    buffer = model.rollout_buffer
    legal = buffer.action_masks.reshape(-1, int(model.action_space.n))
    assert legal[np.arange(len(legal)), buffer.actions.reshape(-1).astype(int)].all()


def test_the_scheduler_drl_step_by_step_and_compiled(model):
    """Simulator.place refuses what is illegal; that both ways run the same is what `test_learned` tests."""
    network = type(model.policy.network).__name__
    kind = "fixed_gcn" if network == "FixedGcn" else "pair_gcn" if len(model.policy.network.down) else "pair_mlp"
    meta = {"name": "a", "network": kind, "features": "full", "hidden": CONFIG.hidden,
            "score_hidden": CONFIG.score_hidden, "n_vms": 3 if kind == "fixed_gcn" else None}  # fmt: skip
    drl = Drl(Agent(meta, network_arrays(model.policy.network, "")))
    case = suite_case("stream", SEED_RANGES["train"].start, workflows=2)
    problem, schedules = Problem(*case), []
    for run in (drl.run, lambda simulator: Scheduler.run(drl, simulator)):
        simulator = Simulator(problem, duration_factors(case[0], 1))
        drl.reset(*case, 0)
        run(simulator)
        schedules.append(simulator.schedule())
        schedules[-1].validate()
    assert schedules[0].same_as(schedules[1])


def test_save_and_load_of_maskable_ppo(model, tmp_path):
    model.save(tmp_path / "model")
    loaded = MaskablePPO.load(tmp_path / "model", device="cpu")
    env = make_env(CONFIG)
    env.seed(7)
    seen = env.reset()
    for _ in range(30):
        actions, _ = model.predict(seen, deterministic=True)
        assert np.array_equal(actions, loaded.predict(seen, deterministic=True)[0])
        observations = model.policy.obs_to_tensor(seen)[0]
        with torch.no_grad():
            one, two = (m.policy.evaluate_actions(observations, torch.as_tensor(actions)) for m in (model, loaded))
        assert all(torch.equal(a, b) for a, b in zip(one, two))
        seen, *_ = env.step(actions)


def test_probabilities_are_those_of_the_legal_actions_alone(model):
    """log_prob against a softmax by hand over the legal logits, entropy too."""
    env = make_env(CONFIG)
    env.seed(8)
    observations, _ = model.policy.obs_to_tensor(env.reset())
    masks = env.action_masks()
    with torch.no_grad():
        distribution = model.policy.get_distribution(observations)
        logits = model.policy.network(pack(observations, 3))[0].numpy().astype(float)
    for e, mask in enumerate(masks):
        weight = np.exp(logits[e, mask] - logits[e, mask].max())
        p = weight / weight.sum()
        assert distribution.distribution.probs[e].numpy()[mask] == pytest.approx(p, abs=1e-5)
        assert distribution.distribution.probs[e].numpy()[~mask].sum() == 0
        entropy = -(p[p > 0] * np.log(p[p > 0])).sum()
        assert float(distribution.entropy()[e]) == pytest.approx(entropy, abs=1e-4)


def test_masks_narrow_the_choice_but_never_widen_it(model):
    """Masks that leave one legal action force it; masks that allow illegal actions only are not followed."""
    env = make_env(CONFIG)
    env.seed(9)
    seen, masks = env.reset(), env.action_masks()
    last = masks.shape[1] - 1 - masks[:, ::-1].argmax(axis=1)
    only_last = np.zeros_like(masks)
    only_last[np.arange(3), last] = True
    assert np.array_equal(model.predict(seen, action_masks=only_last)[0], last)
    for deterministic in (True, False):
        actions, _ = model.predict(seen, action_masks=~masks, deterministic=deterministic)
        assert masks[np.arange(3), actions].all()
