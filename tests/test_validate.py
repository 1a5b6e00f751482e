"""The validator finds every planted fault, allows for rounding, and needs nothing of the simulator."""

from dataclasses import replace

import numpy as np
import pytest

import thesis_lib.cluster
from tests.test_schedule import hand_made
from thesis_lib.cluster import VM, Cluster
from thesis_lib.schedule import Schedule, ScheduleError
from thesis_lib.workflow import Task, Workflow
from thesis_lib.workload import Workload

ONE_CORE = Cluster((VM("x", 1, 0, 0),))


def one_task(task: Task, cluster: Cluster, start_s: float, finish_s: float, ready_s: float = 0, **about) -> Schedule:
    """One task on the first VM."""
    return Schedule(
        Workload.single(Workflow((task,))),
        cluster,
        np.array([0]),
        *np.array([[ready_s], [start_s], [finish_s]]),
        **about,
    )


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"vm": [0, 7, 0]}, "'b' of workflow 0 has no VM"),
        ({"vm": [0, -1, 0]}, "has no VM"),
        ({"vm": [0, 0.5, 0]}, "has no VM"),
        ({"start_s": [0, np.nan, 4]}, "no finite start"),
        ({"ready_s": [0, np.inf, 2]}, "no finite start"),
        ({"vm": [0, 1]}, "2 entries for 3 tasks"),
        ({"start_s": [0, 12, 1], "finish_s": [4, 18, 4]}, "before its workflow arrives"),
        ({"start_s": [0, 11, 4], "finish_s": [4, 17, 7]}, "before parent 'a' and its data at 12 s"),
        ({"vm": [0, 0, 1], "start_s": [0, 3, 4], "finish_s": [4, 9, 7]}, "before parent 'a'"),
        ({"finish_s": [4, 19, 7]}, "runs 7 s instead of 6 s"),
        ({"start_s": [0, 12, 3], "finish_s": [4, 18, 6]}, "holds 4 cpu of 2 at 3 s"),
        # ready: a at its arrival, b when a finishes at 4, c when its workflow arrives at 2
        ({"ready_s": [1, 4, 2]}, "'a' of workflow 0 is called ready at 1 s instead of 0 s"),
        ({"ready_s": [0, 12, 2]}, "'b' of workflow 0 is called ready at 12 s instead of 4 s"),
        ({"ready_s": [0, 4, 0]}, "'c' of workflow 1 is called ready at 0 s instead of 2 s"),
        ({"ready_s": [0, 4, 4]}, "'c' of workflow 1 is called ready at 4 s instead of 2 s"),
        ({"duration_factor": [1, 1]}, "duration_factor holds 2 entries"),
        ({"duration_factor": [1, -1, 1], "finish_s": [4, 6, 7]}, "factor of -1; it must be finite and above 0"),
        ({"duration_factor": [1, 0, 1], "finish_s": [4, 12, 7]}, "factor of 0"),
        ({"duration_factor": [1, np.nan, 1]}, "factor of nan"),
        ({"duration_factor": [1, np.inf, 1]}, "factor of inf"),
        ({"duration_factor": [1, 1.5, 1]}, "runs 6 s instead of 9 s"),
    ],
)
def test_each_fault_is_found(changes, words):
    with pytest.raises(ScheduleError, match=words):
        hand_made(**changes).validate()


def test_a_sound_schedule_passes_with_and_without_factors():
    hand_made().validate()
    hand_made(duration_factor=[1, 0.5, 1], finish_s=[4, 15, 7]).validate()


def test_at_most_five_faults_are_spelled_out():
    tasks = tuple(Task(i, 1) for i in range(8))
    zeros = np.zeros(8)
    with pytest.raises(ScheduleError) as caught:
        Schedule(Workload.single(Workflow(tasks)), Cluster.default(), zeros.astype(int), zeros, zeros, zeros).validate()
    assert str(caught.value).count("runs 0 s instead of 1 s") == 5
    assert str(caught.value).endswith("(and 3 more)")


def test_a_vm_that_cannot_run_the_task():
    for task in (Task(0, 1, cpu=2), Task(0, 1, memory_gb=0.5), Task(0, 1, runtime_s={"other": 1})):
        with pytest.raises(ScheduleError, match="task 0 cannot run on VM 'x'"):
            one_task(task, ONE_CORE, 0, 1).validate()


def test_speed_and_runtimes_per_vm_give_the_run_time():
    fast = Cluster((VM(7, 1, 0, 0, speed=4),))
    one_task(Task(0, 8), fast, 0, 2).validate()
    one_task(Task(0, 8, runtime_s={"7": 5}), fast, 0, 5).validate()  # 7 and "7" are one id
    with pytest.raises(ScheduleError, match="runs 8 s instead of 2 s"):
        one_task(Task(0, 8), fast, 0, 8).validate()


def test_a_link_matrix_replaces_the_bandwidths():
    """80 MB at 0.16 Gbit/s = 20 MB/s take 4 s from x to y, so b may start at 8."""
    schedule = hand_made(start_s=[0, 8, 4], finish_s=[4, 14, 7])
    with pytest.raises(ScheduleError, match="its data at 12 s"):
        schedule.validate()
    replace(schedule, cluster=replace(schedule.cluster, link_gbps=((0, 0.16), (0.01, 0)))).validate()
    with pytest.raises(ScheduleError, match="its data at inf s"):
        replace(schedule, cluster=replace(schedule.cluster, link_gbps=((0, 0), (1, 0)))).validate()


def in_turn(first_finish_s: float, second_start_s: float) -> Schedule:
    """Two tasks of a second each on one core; only their overlap is at stake."""
    workload = Workload.single(Workflow((Task("a", 1), Task("b", 1))))
    start_s = np.array([first_finish_s - 1, second_start_s])
    return Schedule(workload, ONE_CORE, np.zeros(2, int), np.zeros(2), start_s, start_s + 1)


def test_a_finish_frees_before_a_start_at_the_same_time():
    in_turn(1, 1).validate()


@pytest.mark.parametrize("at_s", [1.0000005, 1.0000015, 2.4999995])
def test_overlaps_within_rounding_pass_wherever_they_lie(at_s):
    in_turn(at_s + 1e-12, at_s - 1e-12).validate()


@pytest.mark.parametrize("at_s", [1.0, 1e6])
def test_overlaps_beyond_rounding_are_found(at_s):
    with pytest.raises(ScheduleError, match="holds 2 cpu of 1"):
        in_turn(at_s + 1e-5, at_s).validate()


def test_late_times_are_no_excuse():
    """A hundredth of a second is a fault after twelve days too."""
    with pytest.raises(ScheduleError, match="runs"):
        one_task(Task(0, 1), ONE_CORE, 1e6, 1e6 + 1.01).validate()
    one_task(Task(0, 1), ONE_CORE, 1e6 + 0.1, 1e6 + 1.1).validate()


def test_nothing_is_taken_from_the_functions_that_the_simulator_uses(monkeypatch):
    sound, wrong = hand_made(), hand_made(finish_s=[4, 19, 7])

    def broken(*_):
        raise AssertionError("the validator must not use this")

    monkeypatch.setattr(thesis_lib.cluster, "exec_time_s", broken)
    monkeypatch.setattr("thesis_lib.schedule.exec_time_s", broken)
    for name in ("link_mb_per_s", "capacity", "speed"):
        monkeypatch.setattr(Cluster, name, property(broken))
    for name in ("demand", "mean_s", "parent_idx", "parent_mb"):
        monkeypatch.setattr(Workflow, name, property(broken))
    sound.validate()
    with pytest.raises(ScheduleError, match="runs 7 s"):
        wrong.validate()
