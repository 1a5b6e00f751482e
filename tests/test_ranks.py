"""Ranks and bounds against numbers worked out by hand."""

import numpy as np
import pytest

from thesis_lib.cluster import VM, Cluster
from thesis_lib.ranks import (
    critical_path,
    downward_rank,
    fastest_critical_path_s,
    lower_bound_s,
    on_critical_path,
    slack,
    upward_rank,
)
from thesis_lib.workflow import Task, Workflow


def test_ranks_with_a_transfer():
    """A (2 s) -> C (10 s) with 3 s of transfer between two equal VMs: 15 up, 5 down."""
    w = Workflow((Task("A", 2), Task("C", 10, dependencies=("A",), data_mb={"A": 3})))
    cluster = Cluster((VM(0, 1, 1, 0.008), VM(1, 1, 1, 0.008)))  # 1 MB/s
    assert upward_rank(w, cluster).tolist() == [15, 10]
    assert downward_rank(w, cluster).tolist() == [0, 5]


def branching() -> Workflow:
    """a(2) -> b(3) -> d(1); a -> c(5) -> d; e(4) alone. Critical path a c d = 8 s."""
    return Workflow(
        (
            Task("a", 2),
            Task("b", 3, dependencies=("a",)),
            Task("c", 5, dependencies=("a",)),
            Task("d", 1, dependencies=("b", "c")),
            Task("e", 4),
        )
    )


def test_critical_path_and_slack():
    w = branching()
    assert critical_path(w) == (8, ["a", "c", "d"])
    assert slack(w).tolist() == [0, 2, 0, 0, 4]
    assert on_critical_path(w).tolist() == [True, False, True, True, False]


def test_both_of_two_equal_paths_are_critical():
    w = Workflow((Task(0, 0.1), Task(1, 0.2, dependencies=(0,)), Task(2, 0.3)))
    assert on_critical_path(w).tolist() == [True, True, True]


def test_fastest_critical_path_uses_the_fastest_vm_of_each_task():
    cluster = Cluster((VM(0, 1, 1, 1, speed=2), VM(1, 4, 1, 1)))
    w = Workflow((Task(0, 10), Task(1, 10, cpu=4, dependencies=(0,))))  # the second only fits VM 1
    assert fastest_critical_path_s(w, cluster) == 15


def test_lower_bound_is_the_larger_of_path_and_area():
    one_core = Cluster((VM(0, 1, 1, 1),))
    assert lower_bound_s(branching(), one_core) == 15  # all work on one core
    assert lower_bound_s(branching(), Cluster((VM(0, 9, 1, 1),))) == 8  # the path


def test_ranks_of_a_chain_sum_up():
    n = 50
    chain = Workflow(tuple(Task(i, 1, dependencies=(i - 1,) if i else ()) for i in range(n)))
    rank = upward_rank(chain, Cluster.default())
    assert np.array_equal(rank, np.arange(n, 0, -1))
    assert downward_rank(chain, Cluster.default())[-1] == pytest.approx(n - 1)


def test_no_data_takes_no_time_even_over_a_dead_link():
    w = Workflow((Task(0, 1), Task(1, 1, dependencies=(0,)), Task(2, 1, dependencies=(1,), data_mb={1: 5})))
    dead = Cluster((VM(0, 1, 1, 0), VM(1, 1, 1, 0)))
    assert upward_rank(w, dead).tolist() == [np.inf, np.inf, 1]
    assert downward_rank(w, dead).tolist() == [0, 1, np.inf]
