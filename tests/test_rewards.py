"""Every reward is tied to the metric it claims, step by step and in sum."""

from dataclasses import astuple

import numpy as np
import pytest

from tests.test_env import STREAM, at_random, by_rule, play
from thesis_lib.cluster import VM, Cluster
from thesis_lib.env import CloudWorkflowEnv
from thesis_lib.rewards import REWARDS, Measures, measures_of_schedule, reward_named
from thesis_lib.schedulers import make
from thesis_lib.simulator import simulate
from thesis_lib.workflow import Task, Workflow, WorkflowError
from thesis_lib.workload import Workload


def total_terms(infos) -> dict[str, float]:
    """Sum of each term over an episode."""
    terms = [info["reward_terms"] for info in infos[1:]]
    return {name: sum(step[name] for step in terms) for name in terms[0]}


@pytest.mark.parametrize("name", REWARDS)
def test_the_reward_is_the_sum_of_its_terms(name):
    rewards, infos, _ = play(CloudWorkflowEnv(reward=name, **STREAM), at_random(), seed=3)
    for reward, info in zip(rewards, infos[1:]):
        assert reward == pytest.approx(sum(info["reward_terms"].values()))
    assert sum(rewards) == pytest.approx(sum(total_terms(infos).values()))


def test_flow_time_is_minus_total_completion_time():
    for choose in (at_random(1), by_rule("srw_patient")):
        rewards, infos, _ = play(CloudWorkflowEnv(reward="flow_time", **STREAM), choose, seed=4)
        assert sum(rewards) == pytest.approx(-0.001 * infos[-1]["schedule"].completion_s.sum())


@pytest.mark.parametrize("base", ["srw", "srw_patient"])
def test_potential_telescopes_to_what_was_saved_against_the_base_rule(base):
    env = CloudWorkflowEnv(reward="potential", base_rule=base, **STREAM)
    rewards, infos, _ = play(env, at_random(2), options={"instance": 9})
    base_run = play(env, by_rule(base), options={"instance": 9})[1][-1]["schedule"]
    saved_s = base_run.completion_s.sum() - infos[-1]["schedule"].completion_s.sum()
    assert sum(rewards) == pytest.approx(0.001 * saved_s)


def test_potential_is_zero_along_the_base_rules_own_actions():
    rewards, _, _ = play(CloudWorkflowEnv(reward="potential", **STREAM), by_rule("srw_patient"), seed=6)
    assert np.allclose(rewards, 0, atol=1e-9)


def test_measures_are_those_of_the_schedule():
    env = CloudWorkflowEnv(reward="v3", **STREAM)
    _, infos, _ = play(env, at_random(3), seed=5)
    done, measures = infos[-1]["schedule"], env._begin
    n, share = len(done.vm), done.utilization
    assert measures.finished == n
    assert measures.late == pytest.approx(done.sla_violation_rate * n)
    assert measures.waited_s == pytest.approx((done.start_s - done.ready_s).sum())
    mean_s = np.concatenate([w.mean_s for w in done.workload.workflows])
    assert measures.spare_s == pytest.approx((2 * mean_s - (done.finish_s - done.ready_s)).sum())
    weighted = 0.3 * share["cpu"] + 0.5 * share["memory"] + 0.2 * share["bandwidth"]
    assert measures.used_s == pytest.approx(weighted * done.makespan_s)
    assert measures.flow_s == pytest.approx(done.completion_s.sum())


def test_measures_of_a_schedule_by_hand():
    """One core of speed 2: a (10 s) runs 0-5, b (4 s) waits and runs 5-7; deadlines 20 s and 8 s after ready."""
    two = Workload.together([Workflow([Task("a", 10, cpu=1, memory_gb=2)]), Workflow([Task("b", 4, cpu=1)])])
    one_core = Cluster([VM(0, cpu=1, memory_gb=4, bandwidth_gbps=1, speed=2.0)])
    found = measures_of_schedule(simulate(make("fcfs"), two, one_core, noise=False), base_completion_s=20)
    used_s = 0.3 * 7 + 0.5 * (2 / 4) * 5
    assert astuple(found) == pytest.approx((2, 0, 15 + 1, 5, used_s, 5 + 7, 0, 20 - 12))


@pytest.mark.parametrize("name", REWARDS)
def test_the_rewards_of_all_steps_sum_to_the_reward_of_the_schedule(name):
    env = CloudWorkflowEnv(reward=name, **STREAM)
    base_s = play(env, by_rule("srw_patient"), options={"instance": 8})[1][-1]["schedule"].completion_s.sum()
    rewards, infos, _ = play(env, by_rule("srw"), options={"instance": 8})
    expected = REWARDS[name].value(measures_of_schedule(infos[-1]["schedule"], base_s))
    assert sum(rewards) == pytest.approx(expected, abs=1e-6)


def test_the_articles_numbers():
    step = Measures(finished=3, late=1, spare_s=200, waited_s=100, used_s=50, illegal=2)
    assert REWARDS["v1"].value(step) == pytest.approx(3 - 10 - 10)
    assert REWARDS["v2"].value(step) == pytest.approx(3 - 0.2 + 2.0 - 0.5)
    assert REWARDS["v3"].value(step) == pytest.approx(3 - 0.2 + 2 * (2.0 - 0.5) + 1.5 * 0.02 * 50)


def test_the_printed_signs_reward_waiting_and_punish_utilisation():
    waiting, busy = Measures(waited_s=100), Measures(used_s=100)
    for version in ("v2", "v3"):
        assert REWARDS[version].value(waiting) < 0 < REWARDS[f"{version}_as_printed"].value(waiting)
    assert REWARDS["v3"].value(busy) > 0 > REWARDS["v3_as_printed"].value(busy)


@pytest.mark.parametrize("name", ["flow_time", "potential"])
def test_what_claims_completion_time_ranks_schedules_by_it(name):
    env = CloudWorkflowEnv(reward=name, suite="stream", suite_options={"workflows": 4})
    better = 0
    for instance in range(5):
        good, bad = (
            sum(play(env, choose, options={"instance": instance})[0])
            for choose in (by_rule("srw_patient"), at_random())
        )
        better += good > bad
    assert better == 5


def waiting_too_much(env, observation, info) -> int:
    """Wait whenever that is legal, else place the first task."""
    mask = info["action_mask"]
    return len(mask) - 1 if mask[-1] else int(mask.argmax())


@pytest.mark.parametrize("name", ["v1", "v2", "v3"])
def test_the_articles_rewards_tell_a_rule_from_needless_waiting(name):
    env = CloudWorkflowEnv(reward=name, suite="stream", suite_options={"workflows": 4})
    for instance in range(3):
        rule, idle = (
            sum(play(env, choose, options={"instance": instance})[0]) for choose in (by_rule("srw"), waiting_too_much)
        )
        assert rule > idle


def test_measures_add_and_subtract():
    one, two = Measures(*range(1, 9)), Measures(*range(8, 0, -1))
    assert astuple(one + two) == (9,) * 8
    assert (one + two) - two == one


def test_unknown_reward():
    with pytest.raises(WorkflowError, match="choose one of v1, v2"):
        reward_named("best")


def test_a_scaled_reward_is_the_same_in_other_units():
    step = Measures(finished=2, illegal=1, saved_s=30)
    for reward in REWARDS.values():
        assert reward.scaled(50).value(step) == pytest.approx(50 * reward.value(step))
        assert reward.scaled(50).needs_potential == reward.needs_potential
