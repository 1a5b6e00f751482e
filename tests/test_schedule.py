"""Metrics worked out by hand."""

import numpy as np
import pytest

from thesis_lib.cluster import VM, Cluster
from thesis_lib.schedule import Schedule
from thesis_lib.workflow import Task, Workflow
from thesis_lib.workload import Workload


def hand_made(**changes) -> Schedule:
    """Two workflows on two VMs.

    Workflow 0 (arrives 0): a (4 s, 2 cores) on VM 0 at 0-4, b (6 s, 1 core, after a, 80 MB)
    on VM 1 at 12-18 (link 10 MB/s). Workflow 1 (arrives 2): c (3 s, 2 cores) on VM 0 at 4-7.
    """
    one = Workflow((Task("a", 4, cpu=2, memory_gb=1), Task("b", 6, dependencies=("a",), data_mb={"a": 80})))
    two = Workflow((Task("c", 3, cpu=2),))
    cluster = Cluster((VM("x", 2, 4, 0.08, price_per_hour=36), VM("y", 2, 4, 0.08, price_per_hour=72)))
    values = {
        "vm": [0, 1, 0],
        "ready_s": [0, 4, 2],
        "start_s": [0, 12, 4],
        "finish_s": [4, 18, 7],
    } | changes
    return Schedule(Workload((one, two), (0, 2)), cluster, **{k: np.array(v) for k, v in values.items()})


def test_times_and_metrics():
    done = hand_made()
    done.validate()
    assert done.makespan_s == 18
    assert done.completion_s.tolist() == [18, 5]
    assert done.mean_completion_s == 11.5
    # cpu held: 2 x 4 + 1 x 6 + 2 x 3 = 20 of (2 + 2) x 18; memory 1 x 4 of 8 x 18; no bandwidth held
    assert done.utilization == pytest.approx(
        {"cpu": 20 / 72, "memory": 4 / 144, "bandwidth": 0, "cpu_memory": (20 / 72 + 4 / 144) / 2}
    )
    # a: 4 <= 8. b: 18 - 4 = 14 > 12. c: 7 - 2 = 5 <= 6
    assert done.sla_violation_rate == pytest.approx(1 / 3)
    # paths 10 and 3: 18 <= 20, 5 <= 6
    assert done.workflow_sla_violation_rate == 0
    # VM x leased 0-7 at 0.01 per second, VM y 12-18 at 0.02
    assert done.cost == pytest.approx(0.07 + 0.12)
    assert done.slr == pytest.approx((1.8 + 5 / 3) / 2)
    assert done.speedup == pytest.approx(13 / 18)


def test_records_and_frame():
    frame = hand_made().to_frame()
    assert frame[["id", "workflow", "vm"]].values.tolist() == [["a", 0, "x"], ["b", 0, "y"], ["c", 1, "x"]]
    assert frame["start_s"].tolist() == [0, 12, 4]
    assert frame["cpu"].tolist() == [2, 1, 2]


def test_the_sla_allows_exactly_twice_the_mean():
    """c (3 s, ready at 2, its workflow's only task) finishes at 8: 6 s = 2 x 3 is kept; a hundredth more is not."""
    assert hand_made(start_s=[0, 12, 5], finish_s=[4, 18, 8]).sla_violation_rate == pytest.approx(1 / 3)  # b
    assert hand_made(start_s=[0, 12, 5], finish_s=[4, 18, 8.01]).sla_violation_rate == pytest.approx(2 / 3)
    # workflow 0 has a path of 10 s
    for last_s, late_s, violations in ((20, 8, 0), (20.01, 8, 1), (20, 8.01, 1), (20.01, 8.01, 2)):
        done = hand_made(finish_s=[4, last_s, late_s])
        assert done.workflow_sla_violation_rate == violations / 2


def test_wall_clock_times_are_no_metrics():
    done = hand_made()
    assert (done.planning_s, done.decision_latency_s) == (0.0, None)
    assert not {"planning_s", "decision_latency_s"} & set(done.metrics())


def test_an_empty_stretch_of_time_divides_nothing():
    nothing = Schedule(
        Workload.single(Workflow((Task(0, 0),))), Cluster.default(), *[np.zeros(1, int)] + [np.zeros(1)] * 3
    )
    assert nothing.utilization["cpu"] == 0
    assert nothing.speedup == nothing.slr == 1
