"""CloudWorkflow-v0: Gymnasium's rules, seeds, masks, illegal actions, and agreement with the simulator."""

import gymnasium
import numpy as np
import pytest
from gymnasium.utils.env_checker import check_env
from stable_baselines3.common.env_checker import check_env as check_env_for_sb3

import thesis_lib  # noqa: F401  registers the environment
from thesis_lib.cluster import VM, Cluster
from thesis_lib.env import CloudWorkflowEnv
from thesis_lib.schedulers import make
from thesis_lib.simulator import simulate
from thesis_lib.workflow import Task, Workflow, WorkflowError
from thesis_lib.workload import SEED_RANGES, Workload, suite_case

STREAM = {"suite": "stream", "suite_options": {"workflows": 2}}


def play(env, choose, **reset):
    """Run one episode; returns rewards, infos and whether it was truncated."""
    observation, info = env.reset(**reset)
    rewards, infos = [], [info]
    while True:
        observation, reward, terminated, truncated, info = env.step(choose(env, observation, info))
        rewards.append(reward)
        infos.append(info)
        if terminated or truncated:
            return rewards, infos, truncated


def at_random(seed=0):
    rng = np.random.default_rng(seed)
    return lambda env, observation, info: int(rng.choice(np.flatnonzero(info["action_mask"])))


def by_rule(name):
    """The rule's decision as an action of the environment."""
    rule = make(name)

    def choose(env, observation, info):
        return env.action_of(rule.decide(env.simulator.state))

    return choose


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("action", ["flat", "pair"])
@pytest.mark.parametrize("observation", ["graph", "flat"])
def test_both_checkers_find_nothing(observation, action):
    for suite in ({"suite": "single"}, STREAM, {"suite": "thesis"}):
        env = gymnasium.make("CloudWorkflow-v0", observation=observation, action=action, **suite)
        check_env(env.unwrapped, skip_render_check=True)
        check_env_for_sb3(env.unwrapped)


def test_seeds_repeat_and_go_on():
    def three():
        env = CloudWorkflowEnv(**STREAM)
        runs = [play(env, at_random(1), **options) for options in ({"seed": 5}, {}, {})]
        return [(rewards, infos[-1]["schedule"].finish_s) for rewards, infos, _ in runs]

    one, two = three(), three()
    for (rewards, finish_s), (again, finish_again_s) in zip(one, two):
        assert rewards == again
        assert np.array_equal(finish_s, finish_again_s)
    assert len({tuple(finish_s) for _, finish_s in one}) == 3


def test_an_instance_can_be_asked_for():
    env = CloudWorkflowEnv(**STREAM)
    first = play(env, by_rule("srw"), options={"instance": 12})[1][-1]
    second = play(env, by_rule("srw"), options={"instance": 12})[1][-1]
    assert first["schedule"].same_as(second["schedule"])
    assert first["instance"] == 12


def test_training_never_meets_test_instances():
    env = CloudWorkflowEnv(suite="thesis", suite_options={"n_tasks": 2})
    env.reset(seed=3)
    drawn = [env.reset()[1]["instance"] for _ in range(50)]
    assert all(instance in SEED_RANGES["train"] for instance in drawn)
    assert len(set(drawn)) == 50  # of eight million


def test_instances_are_drawn_from_the_seeds_asked_for():
    env = CloudWorkflowEnv(suite="thesis", suite_options={"n_tasks": 2}, seeds=range(7, 10))
    assert {env.reset(seed=seed)[1]["instance"] for seed in range(30)} == {7, 8, 9}


@pytest.mark.parametrize("observation", ["graph", "flat"])
@pytest.mark.parametrize("rule", ["srw", "srw_patient", "tetris", "fcfs"])
def test_playing_a_rule_gives_the_schedule_of_the_simulator(observation, rule):
    for suite, instance in (("single", 3), ("single", 4), ("thesis", 7)):
        env = CloudWorkflowEnv(suite=suite, observation=observation)
        info = play(env, by_rule(rule), options={"instance": instance})[1][-1]
        assert info["schedule"].same_as(simulate(make(rule), *suite_case(suite, instance), seed=instance))
        info["schedule"].validate()
        assert info["metrics"]["makespan_s"] == info["schedule"].makespan_s


@pytest.mark.parametrize("observation", ["graph", "flat"])
def test_masks_are_the_legal_pairs_and_copies(observation):
    env = CloudWorkflowEnv(observation=observation, **STREAM)
    for reset in range(2):
        _, info = env.reset(seed=reset)
        done = False
        while not done:
            state, mask = env.simulator.state, info["action_mask"]
            slots = [t for t in env._slots.tolist() if t >= 0]
            legal = {(t, v) for t, v in state.legal_pairs().tolist() if t in slots}
            offered = {env.decision_of(a) for a in np.flatnonzero(mask[:-1]).tolist()}
            assert offered == legal
            assert mask[-1] == state.can_wait
            assert mask.any()
            assert np.array_equal(env.action_masks(), mask.astype(bool))
            chosen = int(np.flatnonzero(mask)[0])
            mask[:] = 0  # the caller's copy: the environment must not notice
            _, _, done, _, info = env.step(chosen)


def test_pair_actions_mean_the_same_and_their_mask_is_factored():
    flat, pair = CloudWorkflowEnv(action="flat", **STREAM), CloudWorkflowEnv(action="pair", **STREAM)
    rng = np.random.default_rng(3)
    (_, one), (_, two) = flat.reset(seed=2), pair.reset(seed=2)
    done = False
    while not done:
        number = int(rng.choice(np.flatnonzero(one["action_mask"])))
        slot, vm = divmod(number, flat.n_vms) if number < len(one["action_mask"]) - 1 else (0, flat.n_vms)
        allowed = pair.action_masks()
        assert allowed.shape == (pair.n_slots + pair.n_vms + 1,)
        assert allowed[slot]
        assert allowed[pair.n_slots + vm]
        _, first, done, _, one = flat.step(number)
        _, second, _, _, two = pair.step(np.array([slot, vm]))
        assert first == second
    assert one["schedule"].same_as(two["schedule"])


@pytest.mark.parametrize(("reward", "price"), [("v1", -5.0), ("v2", -0.1), ("flow_time", -1.0), ("potential", -1.0)])
def test_an_illegal_action_costs_and_changes_nothing(reward, price):
    env = CloudWorkflowEnv(reward=reward, **STREAM)
    observation, info = env.reset(seed=1)
    before = env.simulator.state.fingerprint()
    illegal = int(np.flatnonzero(info["action_mask"] == 0)[0])
    for action in (illegal, -1, len(info["action_mask"])):
        seen, value, terminated, truncated, _ = env.step(action)
        assert value == pytest.approx(price)
        assert not terminated
        assert env.simulator.state.fingerprint() == before
        assert all(np.array_equal(seen[key], observation[key]) for key in seen)


def test_an_agent_that_is_always_illegal_comes_to_an_end():
    env = CloudWorkflowEnv(**STREAM)
    rewards, infos, truncated = play(env, lambda *_: -1, seed=1)
    assert truncated
    assert len(rewards) == 5 * env.simulator.state.n_tasks + 100
    assert "schedule" not in infos[-1]


def test_actions_and_decisions_are_inverse_and_a_task_without_slot_is_named():
    env = CloudWorkflowEnv(**STREAM)
    _, info = env.reset(seed=4)
    for action in np.flatnonzero(info["action_mask"]).tolist():
        assert env.action_of(env.decision_of(action)) == action
    assert env.decision_of(env.n_slots * env.n_vms) is None
    for task in (-1, 10**6):
        with pytest.raises(WorkflowError, match=f"task {task} has no slot now; the slots hold"):
            env.action_of((task, 0))


def test_stepping_without_an_episode_is_refused():
    env = CloudWorkflowEnv(**STREAM)
    with pytest.raises(gymnasium.error.ResetNeeded):
        env.step(0)
    play(env, at_random(), seed=1)
    with pytest.raises(gymnasium.error.ResetNeeded):
        env.step(0)


def test_skipping_forced_moves_changes_no_schedule():
    """One core: the first and the last task are forced, in between there is one choice. A reset never acts."""
    fork = Workflow((Task(0, 5), Task(1, 3, dependencies=(0,)), Task(2, 4, dependencies=(0,))))
    one_core = Cluster((VM(0, 1, 1, 1),))
    plain, quick = (CloudWorkflowEnv(Workload.single(fork), one_core, skip_forced=skip) for skip in (False, True))
    one, two = (play(env, by_rule("srw"), options={"instance": 5}) for env in (plain, quick))
    assert one[1][-1]["schedule"].same_as(two[1][-1]["schedule"])
    assert [info["action_mask"].sum() for info in one[1][:-1]] == [1, 2, 1]
    assert [info["action_mask"].sum() for info in two[1][:-1]] == [1, 2]
    assert sum(one[0]) == pytest.approx(sum(two[0]))


def test_the_articles_vector():
    """3 VMs x 3 + 50 x 5 + 1 = 260 numbers; worked out for a chain of two tasks half way through the first."""
    chain = Workflow((Task("a", 300, cpu=4, priority=5), Task("b", 900, cpu=2, dependencies=("a",), priority=1)))
    env = CloudWorkflowEnv(Workload.together((chain, Workflow((Task("c", 60, cpu=8, memory_gb=16),)))),
                           observation="flat", noise=False)  # fmt: skip
    first, _ = env.reset(seed=0)
    assert first.shape == (260,)
    assert first[:9].tolist() == [1] * 9
    # Ready tasks first: a, c; then b, which is blocked. Ready, parents / 10, s / 600, priority / 10, critical.
    assert first[9:14] == pytest.approx([1, 0, 0.5, 0.5, 1])
    assert first[14:19] == pytest.approx([1, 0, 0.1, 0.1, 1])
    assert first[19:24] == pytest.approx([0, 0.1, 1, 0.1, 1])  # 900 / 600 is cut to 1
    assert not first[24:].any()
    second, _, _, _, _ = env.step(1 * 3 + 1)  # c to VM 1
    assert second[3:5] == pytest.approx([0.5, 0.75])
    third, _, _, _, _ = env.step(0)  # a to VM 0; nothing can start until c ends at 60 s, nor then, until a ends
    assert third[-1] == pytest.approx(300 / 3600)


def test_odd_environments():
    one = CloudWorkflowEnv(Workload.single(Workflow((Task(0, 1),))), Cluster((VM("only", 1, 1, 1),)))
    assert len(play(one, at_random(), seed=0)[0]) == 1
    many = CloudWorkflowEnv(lambda seed: (suite_case("single", seed)[0],
                                          Cluster(tuple(VM(i, 32, 128, 40) for i in range(300)))))  # fmt: skip
    rewards, infos, _ = play(many, at_random(), seed=0)
    infos[-1]["schedule"].validate()


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"observation": "picture"}, "unknown observation 'picture'; choose one of graph, flat"),
        ({"action": "both"}, "unknown action"),
        ({"reward": "joy"}, "unknown reward 'joy'; choose one of v1"),
        ({"base_rule": "luck"}, "unknown base_rule"),
        ({"suite": "zoo"}, "unknown suite 'zoo'"),
        ({"cluster": Cluster.default()}, "together with a workload"),
        ({"workload": 5}, "must be a Workload or a function"),
        ({"seeds": range(5, 5)}, "seeds must be a range of step 1 from at least 0"),
        ({"seeds": range(0, 9, 2)}, "seeds must be a range of step 1"),
        ({"seeds": 4}, r"range\(0, 100\), got 4"),
    ],
)
def test_bad_options_say_what_there_is(options, words):
    with pytest.raises(WorkflowError, match=words):
        CloudWorkflowEnv(**options)


def test_another_number_of_vms_is_refused():
    env = CloudWorkflowEnv(
        lambda seed: (suite_case("single", seed)[0], Cluster(Cluster.default().vms[-1 - seed % 2 :]))
    )
    with pytest.raises(WorkflowError, match="has 2 VMs, but the environment was made for 1"):
        env.reset(options={"instance": 1})
