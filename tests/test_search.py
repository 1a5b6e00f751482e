"""Rollouts against the general simulator, fair futures, and what the search decides."""

import math

import numpy as np
import pytest

from thesis_lib._kernels import rollouts as kernels
from thesis_lib._kernels import rules
from thesis_lib.cluster import VM, Cluster
from thesis_lib.generators import etl, layered, thesis_dag
from thesis_lib.schedulers import make
from thesis_lib.schedulers.base import Scheduler
from thesis_lib.search import BASE_RULES, Rollouts
from thesis_lib.simulator import Problem, Simulator, simulate
from thesis_lib.workflow import Task, Workflow, WorkflowError
from thesis_lib.workload import Workload, duration_factors, poisson_stream

NO_RNG = np.zeros(1, np.uint64)


def without_noise(workflow: Workflow) -> Workflow:
    tasks = [
        Task(t.id, t.duration_mean_s, 0.0, t.cpu, t.memory_gb, t.bandwidth_gbps, dependencies=t.dependencies,
             data_mb=t.data_mb)
        for t in workflow.tasks
    ]  # fmt: skip
    return Workflow(tuple(tasks))


def legal_actions(simulator: Simulator) -> list:
    pairs = [tuple(pair) for pair in simulator.state.legal_pairs().tolist()]
    return pairs + [None] * simulator.state.can_wait


def act(simulator: Simulator, action) -> None:
    if action is None:
        simulator.wait()
    else:
        simulator.place(*action)


@pytest.mark.parametrize("rule", BASE_RULES)
@pytest.mark.parametrize("data_mb", [0.0, 20_000.0])
def test_a_rollout_without_noise_is_the_run_of_the_general_simulator(rule, data_mb):
    """Along a random run, every action's total completion time equals what the simulator finds."""
    flows = [without_noise(f(n, seed=n, data_mb=data_mb)) for f, n in ((etl, 30), (layered, 25), (layered, 20))]
    problem = Problem(Workload.together(flows), Cluster.stream())
    simulator, rollouts = Simulator(problem, np.ones(problem.n)), Rollouts(rule)
    rng, compared = np.random.default_rng(3), 0
    while not simulator.done:
        actions = legal_actions(simulator)
        if rng.random() < 0.3:
            open_flows = np.isnan(simulator.state.done_s)
            totals = rollouts.totals_s(simulator.state, actions, 1, seed=1)[:, 0]
            for action, total_s in zip(actions, totals):
                twin = simulator.twin()
                act(twin, action)
                if not twin.done:
                    twin.run_rule(rules.RULES.index(rule), NO_RNG)
                assert total_s == pytest.approx(twin.state.done_s[open_flows].sum(), rel=1e-12)
                compared += 1
        act(simulator, actions[rng.integers(len(actions))])
    assert compared > 50


def test_rollouts_on_one_machine_equal_the_simulator():
    problem = Problem(Workload.single(thesis_dag(40, seed=2)), Cluster.thesis())
    simulator, rollouts = Simulator(problem, np.ones(problem.n)), Rollouts()
    for task, vm in simulator.state.legal_pairs().tolist():
        twin = simulator.twin()
        twin.place(task, vm)
        twin.run_rule(rules.CRITICAL_PATH, NO_RNG)
        assert rollouts.totals_s(simulator.state, [(task, vm)], 1, 0)[0, 0] == twin.state.finish_s.max()


def test_drawn_durations_have_the_mean_and_the_deviation_of_the_task():
    rng, sigma = np.ones(1, np.uint64), math.sqrt(math.log(1 + 0.5**2))
    drawn = np.array([kernels.duration_factor(sigma, 0.0, rng) for _ in range(40_000)])
    assert drawn.mean() == pytest.approx(1, abs=0.01)
    assert drawn.std() == pytest.approx(0.5, abs=0.02)


@pytest.mark.parametrize("least", [0.6, 1.5, 3.0])
def test_a_task_that_still_runs_is_drawn_from_what_is_left_of_its_distribution(least):
    """Against the textbook mean of a lognormal variable above a bound."""
    rng, sigma = np.ones(1, np.uint64), math.sqrt(math.log(1 + 0.5**2))
    drawn = np.array([kernels.duration_factor(sigma, least, rng) for _ in range(40_000)])
    bound = (math.log(least) + sigma**2 / 2) / sigma
    above = lambda x: math.erfc(x / math.sqrt(2)) / 2  # noqa: E731
    assert drawn.min() >= least
    assert drawn.mean() == pytest.approx(above(bound - sigma) / above(bound), rel=0.01)


# --- fairness -----------------------------------------------------------------------------


def decisions(search: Scheduler, workload: Workload, factor: np.ndarray, until_s: float) -> list:
    """What the scheduler decides before `until_s`."""
    simulator = Simulator(Problem(workload, Cluster.stream()), factor)
    search.reset(workload, Cluster.stream(), 5)
    taken = []
    while simulator.state.now_s < until_s:
        before = simulator.state.fingerprint()
        taken.append((simulator.state.now_s, search.decide(simulator.state)))
        assert simulator.state.fingerprint() == before
        act(simulator, taken[-1][1])
    return taken


SEARCHES = [
    ("srw_search", {"futures": 3, "k": 3}), ("srw_search", {"futures": 3, "k": 3, "later": 2}),
    ("randomized_list", {"samples": 8}),
]  # fmt: skip


@pytest.mark.parametrize("name, options", SEARCHES)
def test_a_search_knows_neither_workflows_to_come_nor_drawn_durations(name, options):
    """Other workflows after 150 s, at other times, and other ends of what runs then: the same decisions until then."""
    flows = tuple(layered(20, seed=s) for s in range(4))
    one = Workload(flows, (0.0, 40.0, 200.0, 300.0))
    other = Workload((*flows[:2], etl(35, seed=9), flows[0]), (0.0, 40.0, 151.0, 160.0))
    factor = duration_factors(one, 1)
    taken = decisions(make(name, **options), one, factor, 150.0)
    assert taken[-1][0] > 40 and len(taken) > 10

    simulator = Simulator(Problem(one, Cluster.stream()), factor)
    for _, action in taken:
        act(simulator, action)
    finish_s = simulator.state.finish_s[:40]
    changed = np.ones(other.n_tasks)
    changed[:40] = np.where(finish_s <= 150.0, factor[:40], 50.0)
    assert decisions(make(name, **options), other, changed, 150.0) == taken


# --- decisions ----------------------------------------------------------------------------


def test_advantages_by_hand():
    """One core, a long task that leads to nothing and a short one of another workflow: 9 s saved by going short first.

    Long first: 10 + 11 = 21 s of completion time in all, short first: 1 + 11 = 12.
    """
    cluster = Cluster((VM(0, 1, 8, 8),))
    problem = Problem(Workload.together([Workflow((Task("l", 10),)), Workflow((Task("s", 1),))]), cluster)
    simulator = Simulator(problem, np.ones(2))
    mean_s, error_s = Rollouts("srw").advantages(simulator.state, [(0, 0), (1, 0)], np.random.default_rng(0), 4)
    assert mean_s.tolist() == [0, 9]
    assert error_s.tolist() == [0, 0]


def test_a_saving_must_be_significant():
    """Savings of 0, 2, 4 s: mean 2, standard error 2 / sqrt(3) = 1.155."""
    total_s = np.array([[10.0, 10, 10], [10, 8, 6], [9, 9, 9]])
    mean_s, error_s = kernels.gain_over_first(total_s, 1, 3)
    alive = np.ones(3, np.int64)
    assert (mean_s, error_s) == (pytest.approx(2), pytest.approx(2 / math.sqrt(3)))
    assert kernels.best_action(3, total_s, 1.0, alive) == 1
    assert kernels.best_action(3, total_s, 2.0, alive) == 2
    assert kernels.best_action(1, total_s, 1.0, alive) == 0


def test_hopeless_actions_leave_the_race():
    """Savings of -1, -3: mean -2, standard error 1, out. Savings of -3, 1: mean -1, standard error 2, still in."""
    total_s, alive = np.array([[10.0, 10], [11, 13], [13, 9]]), np.ones(3, np.int64)
    assert kernels.drop_hopeless(3, total_s, 2, alive) == 2
    assert alive.tolist() == [1, 0, 1]


def test_the_search_is_deterministic_and_valid_and_beats_its_base_rule():
    ratios = []
    for seed in range(6):
        workload = poisson_stream(workflows=6, load=1.2, seed=seed)
        runs = [simulate(make(name), workload, Cluster.stream(), seed) for name in
                ("srw_search", "srw_search", "srw_patient")]  # fmt: skip
        assert np.array_equal(runs[0].finish_s, runs[1].finish_s)
        runs[0].validate()
        ratios.append(runs[0].mean_completion_s / runs[2].mean_completion_s)
    assert np.mean(ratios) < 1


# --- randomised lists ---------------------------------------------------------------------


def test_a_single_list_is_the_rule_itself():
    one = Workload.single(thesis_dag(30, seed=1))
    several = poisson_stream(workflows=4, load=1.0, seed=2)
    for workload, cluster, rule in (
        (one, Cluster.thesis(), "critical_path"),
        (several, Cluster.stream(), "srw_patient"),
    ):
        runs = [simulate(make(name, **options), workload, cluster, seed=3)
                for name, options in ((rule, {}), ("randomized_list", {"samples": 1}))]  # fmt: skip
        assert np.array_equal(runs[0].start_s, runs[1].start_s)


def test_many_lists_find_what_the_rule_misses_and_plan_what_happens():
    """Never worse than critical_path, better on most DAGs, and the makespan is as planned."""
    wins = 0
    for seed in range(20):
        workload = Workload.single(thesis_dag(30, seed=seed))
        done, rule = (simulate(make(n), workload, Cluster.thesis()) for n in ("randomized_list", "critical_path"))
        assert done.makespan_s == done.planned_makespan_s <= rule.makespan_s
        wins += done.makespan_s < rule.makespan_s
    assert wins > 10


def test_actions_judged_by_lists():
    """The first list is the rule, as the general simulator runs it; the others are no worse than the longest path."""
    simulator = Simulator(Problem(Workload.single(thesis_dag(30, seed=4)), Cluster.thesis()), np.ones(30))
    state, before = simulator.state, simulator.state.fingerprint()
    actions = [tuple(pair) for pair in state.legal_pairs().tolist()]
    judged = Rollouts("critical_path", spread=0.3)
    total_s = judged.totals_s(state, actions, 40, seed=1)
    for action, row in zip(actions, total_s):
        run = simulator.twin()
        run.place(*action)
        run.run_rule(rules.RULES.index("critical_path"), np.zeros(1, np.uint64))
        assert row[0] == run.state.finish_s.max()
    assert len(actions) > 3 and (total_s.std(axis=1) > 0).any()
    assert (total_s >= state.problem.views.rank_s.max()).all()
    assert np.array_equal(total_s, judged.totals_s(state, actions, 40, seed=1))
    assert state.fingerprint() == before


def test_bad_options():
    with pytest.raises(WorkflowError, match="rollouts cannot go on with 'fcfs'; choose one of"):
        Rollouts("fcfs")
    with pytest.raises(WorkflowError, match="futures must be a whole number of at least 1"):
        make("srw_search", futures=0)
