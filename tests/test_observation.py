"""Observations against what the state says, worked out anew in plain Python."""

import os
import subprocess
import sys
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.strategies import workloads_on_clusters
from thesis_lib.cluster import VM, Cluster
from thesis_lib.observation import PAIR_FEATURES, TASK_FEATURES, TOTAL_FEATURES, ObservationSize, Observer
from thesis_lib.schedulers import make
from thesis_lib.simulator import DONE, READY, RUNNING, Problem, Simulator
from thesis_lib.workflow import Task, Workflow
from thesis_lib.workload import Workload, duration_factors, poisson_stream

T, P, G = (
    {name: k for k, name in enumerate(names)} for names in (TASK_FEATURES, PAIR_FEATURES, TOTAL_FEATURES)
)  # fmt: skip


def observer_of(problem: Problem, **size) -> Observer:
    return Observer(problem.n, problem.v, problem.w, ObservationSize(**size) if size else None)


def steps(case, seed=0, rule="srw_patient"):
    """(problem, state) at every decision point of a run under a rule."""
    problem = Problem(*case)
    simulator, scheduler = Simulator(problem, duration_factors(case[0], seed)), make(rule)
    scheduler.reset(*case, seed)
    while not simulator.done:
        yield problem, simulator.state
        action = scheduler.decide(simulator.state)
        simulator.wait() if action is None else simulator.place(*action)


def candidates_by_hand(problem, state, slots) -> list[int]:
    """Ready tasks that fit somewhere, by work left of the workflow, rank, order of readiness; eight of a workflow.

    Then the pick of srw_patient, in the last slot if there is no other.
    """
    p, fitting = problem.views, {t for t, _ in state.legal_pairs().tolist()}
    in_order = [t for t in state.ready.tolist() if t in fitting]
    order = sorted(in_order, key=lambda t: (state.work_left[p.workflow_of[t]], -p.rank_s[t]))
    chosen, seen = [], {}
    for t in order:
        w = int(p.workflow_of[t])
        seen[w] = seen.get(w, 0) + 1
        if seen[w] <= 8:
            chosen.append(t)
    chosen, pick = chosen[:slots], make("srw_patient").decide(state)
    if pick is not None and pick[0] not in chosen:
        chosen = [*chosen[: slots - 1], pick[0]]
    return chosen


@settings(max_examples=40, deadline=None)
@given(case=workloads_on_clusters(max_vms=4, max_workflows=3), slots=st.sampled_from([3, 24]))
def test_candidates_mask_and_window(case, slots):
    observer = None
    for problem, state in steps(case):
        observer = observer or observer_of(problem, slots=slots, nodes=200, edges=2000)
        seen = observer.observe(state)
        chosen = candidates_by_hand(problem, state, slots)
        if slots >= 24:  # with few slots, the eight of a workflow are chosen among those that came so far
            assert observer.candidates[observer.candidates >= 0].tolist() == chosen
        kept = observer.candidates[observer.candidates >= 0].tolist()
        legal = {(t, v) for t, v in state.legal_pairs().tolist() if t in kept}
        offered = np.flatnonzero(seen["action_mask"][:-1]).tolist()
        assert {observer.action_of(a) for a in offered} == legal
        assert bool(seen["action_mask"][-1]) == state.can_wait
        assert observer.action_of(observer.wait_action) is None
        check_window(problem, state, observer, kept)


def check_window(problem, state, observer, kept) -> None:
    """Nodes: candidates, children, their other unfinished parents, grandchildren. Edges: all between them."""
    p = problem.views

    def children(t):
        return p.child_idx[p.child_ptr[t] : p.child_ptr[t + 1]].tolist()

    def parents(t):
        return p.parent_idx[p.parent_ptr[t] : p.parent_ptr[t + 1]].tolist()

    ring = {c for t in kept for c in children(t)}
    window = set(kept) | ring | {u for c in ring for u in parents(c) if state.status[u] != DONE}
    window |= {g for c in ring for g in children(c)}
    nodes = observer.nodes[observer.nodes >= 0].tolist()
    assert nodes[: len(kept)] == kept
    assert set(nodes) == window
    assert len(nodes) == len(window)
    edges = {(nodes[a], nodes[b]) for a, b in observer._edges.tolist() if a >= 0}
    assert edges == {(u, t) for t in window for u in parents(t) if u in window}


@pytest.mark.parametrize("seed", range(3))
def test_columns_say_what_they_are_called(seed):
    case = (poisson_stream(workflows=4, load=1.0, seed=seed), Cluster.stream())
    observer = None
    for k, (problem, state) in enumerate(steps(case, seed)):
        observer = observer or observer_of(problem)
        if k % 7:
            continue
        seen, p = observer.observe(state), problem.views
        arrived = p.workflow_ptr[state.arrived]
        scale_s = p.mean_s[:arrived].mean()
        for i, t in enumerate(observer.nodes[observer.nodes >= 0].tolist()):
            row, w = seen["task_x"][i], p.workflow_of[t]
            assert row[T["log_duration"]] == pytest.approx(np.log1p(p.mean_s[t] / scale_s), rel=1e-5)
            assert row[T["cpu_of_largest_vm"]] == pytest.approx(p.demand[t, 0] / 32)
            assert row[T["priority"]] == pytest.approx(case[0].task(t).priority / 10)
            assert row[T["ready"]] == (state.status[t] == READY)
            assert row[T["running"]] == (state.status[t] == RUNNING)
            assert row[T["log_workflow_tasks_left"]] == pytest.approx(np.log1p(state.tasks_left[w]) / 5, rel=1e-5)
            active = [u for u in range(state.arrived) if state.tasks_left[u]]
            ahead = sum(state.work_left[u] < state.work_left[w] for u in active)
            assert row[T["srw_position"]] == pytest.approx(ahead / len(active))
            unfinished = [u for u in range(p.workflow_ptr[w], p.workflow_ptr[w + 1]) if state.status[u] != DONE]
            assert row[T["rank_of_rest"]] == pytest.approx(p.rank_s[t] / p.rank_s[unfinished].max(), rel=1e-5)
        for a in np.flatnonzero(seen["action_mask"][:-1]).tolist():
            t, v = observer.action_of(a)
            row = seen["pair_x"][a // problem.v, v]
            left = (state.free[v] - p.demand[t]) / p.capacity[v]
            assert row[[P["cpu_left"], P["memory_left"], P["bandwidth_left"]]] == pytest.approx(left, abs=1e-5)
            assert row[P["least_left"]] == pytest.approx(left.min(), abs=1e-5)
            assert row[P["largest_demand"]] == pytest.approx((p.demand[t] / p.capacity[v]).max(), rel=1e-5)
            for rule in ("srw", "srw_patient"):
                assert row[P[f"{rule}_picks"]] == (make(rule).decide(state) == (t, v))
            free = [u for u in range(problem.v) if state.fits(t, u)]
            assert row[P["fastest_free_vm"]] == (p.exec_s[t, v] == p.exec_s[t, free].min())
        total = seen["total_x"]
        assert total[G["srw_patient_waits"]] == (make("srw_patient").decide(state) is None)
        assert total[G["mean_free_cpu"]] == pytest.approx((state.free[:, 0] / p.capacity[:, 0]).mean(), rel=1e-5)
        left = sorted(np.log1p(state.work_left[u] / scale_s) for u in range(state.arrived) if state.tasks_left[u])
        assert total[G["least_work_1"]] == pytest.approx(left[0], rel=1e-5)


def test_waiting_for_a_faster_vm_shows():
    """A task of 10 s: 1 s on the busy fast VM, free in 3 s; 10 s on the slow one: 6 s later than waiting."""
    cluster = Cluster((VM("fast", 1, 1, 1, speed=10), VM("slow", 1, 1, 1)))
    problem = Problem(Workload.single(Workflow((Task(0, 30), Task(1, 10)))), cluster)
    simulator = Simulator(problem, np.ones(2))
    simulator.place(0, 0)
    observer = observer_of(problem)
    seen = observer.observe(simulator.state)
    scale_s = np.mean([(30 / 10 + 30) / 2, (10 / 10 + 10) / 2])  # means over both VMs
    assert seen["pair_x"][0, 1, P["log_later_than_waiting"]] == pytest.approx(np.log1p(6 / scale_s), rel=1e-5)
    assert seen["total_x"][G["srw_patient_waits"]] == 1


def test_priority_and_critical_path_show():
    """Two workflows. a 4 s -> b 6 s or c 7 s -> d 1 s: the path over c is longer.

    In the other one, x 3 s -> y 2 s and z 5 s tie, so all three lie on a longest path.
    """
    diamond = Workflow((Task("a", 4, priority=5), Task("b", 6, priority=2, dependencies=("a",)),
                        Task("c", 7, priority=2, dependencies=("a",)),
                        Task("d", 1, priority=5, dependencies=("b", "c"))))  # fmt: skip
    ties = Workflow((Task("x", 3), Task("y", 2, dependencies=("x",)), Task("z", 5, priority=3)))
    # One VM of speed 0.1: ten times the seconds, the same paths.
    problem = Problem(Workload.together((diamond, ties)), Cluster((VM(0, 1, 1, 1, speed=0.1),)))
    observer = observer_of(problem)
    seen = observer.observe(Simulator(problem, np.ones(7)).state)
    rows = {problem.workload.task(t).id: seen["task_x"][i] for i, t in enumerate(observer.nodes[:7].tolist())}
    assert {name: float(row[T["on_critical_path"]]) for name, row in rows.items()} == {
        "a": 1, "b": 0, "c": 1, "d": 1, "x": 1, "y": 1, "z": 1,
    }  # fmt: skip
    assert [float(rows[name][T["priority"]]) for name in "abxz"] == pytest.approx([0.5, 0.2, 0.1, 0.3])


def test_seconds_and_hours_look_alike():
    """A stream with every time, amount of data and arrival 3600 times as large gives the same observations."""
    small = poisson_stream(workflows=3, load=1.0, seed=4)
    large = Workload(
        tuple(
            Workflow(
                tuple(
                    replace(
                        t,
                        duration_mean_s=3600 * t.duration_mean_s,
                        duration_std_s=3600 * t.duration_std_s,
                        data_mb={p: 3600 * mb for p, mb in t.data_mb.items()},
                    )  # fmt: skip
                    for t in w.tasks
                )
            )
            for w in small.workflows
        ),
        tuple(3600 * a for a in small.arrivals_s),
    )
    for (problem, one), (_, two) in zip(steps((small, Cluster.stream())), steps((large, Cluster.stream()))):
        first, second = (observer_of(problem).observe(state) for state in (one, two))
        for key in first:
            assert np.allclose(first[key], second[key], atol=1e-4), key


def test_observing_changes_nothing_and_sees_no_draw():
    workload = poisson_stream(workflows=3, seed=2)
    problem = Problem(workload, Cluster.stream())
    observer = observer_of(problem)
    seen = []
    for seed in (1, 2):
        simulator = Simulator(problem, duration_factors(workload, seed))
        simulator.place(*simulator.state.legal_pairs()[0])
        before = simulator.state.fingerprint()
        seen.append(observer.observe(simulator.state))
        again = observer.observe(simulator.state)
        assert all(np.array_equal(seen[-1][key], again[key]) for key in again)
        assert simulator.state.fingerprint() == before
    assert all(np.array_equal(seen[0][key], seen[1][key]) for key in seen[0])


def test_small_windows_keep_the_candidates_and_stay_consistent():
    case = (poisson_stream(workflows=6, load=1.3, seed=3), Cluster.stream())
    observer = None
    for problem, state in steps(case):
        observer = observer or observer_of(problem, slots=4, nodes=6, edges=3)
        seen = observer.observe(state)
        n = int((observer.nodes >= 0).sum())
        assert ((observer._edges[:, 0] >= 0) == (observer._edges[:, 1] >= 0)).all()
        assert observer._edges.max() < n
        assert (seen["task_x"][n:] == 0).all()
        kept = int((observer.candidates >= 0).sum())
        assert observer.nodes[:kept].tolist() == observer.candidates[:kept].tolist()
        assert all(np.isfinite(array).all() for array in seen.values())


CODE = """
import hashlib
from thesis_lib.cluster import Cluster
from thesis_lib.observation import Observer
from thesis_lib.schedulers import make
from thesis_lib.simulator import Problem, Simulator
from thesis_lib.workload import duration_factors, poisson_stream

workload = poisson_stream(workflows=2, load=1.0, seed=11)
problem = Problem(workload, Cluster.stream())
simulator, rule, observer = Simulator(problem, duration_factors(workload, 4)), make("srw"), Observer(problem.n, 3, 2)
digest = hashlib.sha256()
while not simulator.done:
    for array in observer.observe(simulator.state).values():
        digest.update(array.tobytes())
    simulator.place(*rule.decide(simulator.state))
print(digest.hexdigest())
"""


def test_compiled_and_plain_python_see_the_same():
    outputs = [
        subprocess.run(
            [sys.executable, "-W", "ignore", "-c", CODE], env=os.environ | extra, capture_output=True, text=True
        )
        for extra in ({}, {"NUMBA_DISABLE_JIT": "1"})
    ]
    assert outputs[0].stdout and outputs[0].stdout == outputs[1].stdout, outputs[1].stderr
