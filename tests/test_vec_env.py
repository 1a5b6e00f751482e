"""The batched environment against a DummyVecEnv of the single one, number by number."""

import numpy as np
import pytest
from stable_baselines3.common.vec_env import DummyVecEnv

from thesis_lib.cluster import Cluster
from thesis_lib.env import CloudWorkflowEnv
from thesis_lib.vec_env import BatchedWorkflowEnv
from thesis_lib.workflow import WorkflowError
from thesis_lib.workload import SEED_RANGES, suite_case

STREAM = {"suite": "stream", "suite_options": {"workflows": 2}}


def both(n_envs: int, **options) -> tuple[BatchedWorkflowEnv, DummyVecEnv]:
    batched = BatchedWorkflowEnv(n_envs, **options)
    single = DummyVecEnv([lambda: CloudWorkflowEnv(**options) for _ in range(n_envs)])
    batched.seed(11), single.seed(11)
    return batched, single


def assert_equal(one: dict, two: dict) -> None:
    assert one.keys() == two.keys()
    for key in one:
        assert np.array_equal(one[key], two[key]), key
        assert one[key].dtype == two[key].dtype, key


@pytest.mark.parametrize(
    "options",
    [
        {"reward": "potential", "skip_forced": True, **STREAM},
        {"reward": "potential", "base_rule": "srw", **STREAM},
        {"reward": "v3_as_printed", **STREAM},
        {"reward": "flow_time", "suite": "thesis"},
        {"reward": "v1", "suite": "single", "noise": False, "seeds": range(4, 9)},
    ],
    ids=lambda options: f"{options['suite']}-{options['reward']}",
)
def test_every_step_equals_that_of_single_environments(options):
    """Episodes of different sizes end at different times; every twentieth action is a random, mostly illegal one."""
    batched, single = both(3, **options)
    assert_equal(batched.reset(), single.reset())
    rng, ended = np.random.default_rng(0), 0
    for step in range(700):
        masks = np.stack(single.env_method("action_masks"))
        assert np.array_equal(np.stack(batched.env_method("action_masks")), masks)
        actions = np.array([rng.choice(np.flatnonzero(mask)) for mask in masks])
        if step % 20 == 19:
            actions = rng.integers(masks.shape[1], size=3)
        first, second = batched.step(actions), single.step(actions)
        assert_equal(first[0], second[0])
        assert np.allclose(first[1], second[1], rtol=1e-6, atol=1e-6)
        assert np.array_equal(first[2], second[2])
        for one, two in zip(first[3], second[3]):
            if "schedule" in two:
                ended += 1
                assert one["schedule"].same_as(two["schedule"])
                assert one["instance"] == two["instance"]
                assert_equal(one["terminal_observation"], two["terminal_observation"])
                one["schedule"].validate()
    assert ended >= 3


def test_always_illegal_is_truncated_like_the_single_one():
    batched, single = both(2, suite="thesis", suite_options={"n_tasks": 10})
    batched.reset(), single.reset()
    actions = np.array([-1, 10**6])
    for _ in range(400):
        first, second = batched.step(actions), single.step(actions)
        assert np.array_equal(first[2], second[2])
        assert [i.get("TimeLimit.truncated", False) for i in first[3]] == [i["TimeLimit.truncated"] for i in second[3]]
        if first[2].any():
            return
    raise AssertionError("no episode ended")


def test_observations_handed_out_are_copies():
    batched, _ = both(2, **STREAM)
    first = batched.reset()
    kept = {key: array.copy() for key, array in first.items()}
    batched.step(batched.action_masks().argmax(axis=1))
    assert_equal(first, kept)


def test_what_it_cannot_do_it_says():
    batched, _ = both(1, **STREAM)
    with pytest.raises(AttributeError, match="no method 'render'"):
        batched.env_method("render")
    with pytest.raises(AttributeError, match="cannot be set"):
        batched.set_attr("reward", None)


def test_episodes_are_drawn_from_the_seeds_asked_for():
    batched, _ = both(1, suite="thesis", suite_options={"n_tasks": 2}, seeds=range(7, 10))
    batched.reset()
    met = set()
    for _ in range(200):
        *_, infos = batched.step(batched.action_masks().argmax(axis=1))
        met |= {info["instance"] for info in infos if "instance" in info}
    assert met == {7, 8, 9}


def test_another_number_of_vms_is_refused():
    vms = Cluster.default().vms

    def draw(instance):
        first = instance == SEED_RANGES["train"].start  # what the number of VMs is read from
        return suite_case("single", instance)[0], Cluster(vms if first else vms[1:])

    batched = BatchedWorkflowEnv(2, workload=draw)
    with pytest.raises(WorkflowError, match="has 2 VMs, but the environment was made for 3"):
        batched.reset()


@pytest.mark.parametrize("actions", [[0], [], list(range(9)), [[0, 0, 0]], [0.5, 0.0, 0.0]])
def test_actions_of_another_shape_or_kind_are_refused(actions):
    env = BatchedWorkflowEnv(3, suite="stream", suite_options={"workflows": 1})
    env.reset()
    with pytest.raises(WorkflowError, match=r"one whole number per environment, shape \(3,\)"):
        env.step(np.array(actions))


def test_no_environment_is_refused():
    with pytest.raises(WorkflowError, match="n_envs"):
        BatchedWorkflowEnv(0)
