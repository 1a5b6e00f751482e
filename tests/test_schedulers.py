"""Every scheduler: valid schedules on anything, ties without luck, and each rule's own idea by hand."""

import inspect
import os
import re
import subprocess
import sys

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.strategies import workloads_on_clusters
from thesis_lib.cluster import VM, Cluster
from thesis_lib.generators import layered
from thesis_lib.schedulers import describe, make, names
from thesis_lib.schedulers.base import Scheduler
from thesis_lib.schedulers.rules import Rule, fcfs
from thesis_lib.simulator import Problem, SimulationError, Simulator, simulate
from thesis_lib.workflow import Task, Workflow
from thesis_lib.workload import Workload, duration_factors, poisson_stream

RULES = [
    "random", "fcfs", "sjf", "tetris", "critical_path", "srw", "srw_patient", "heft_online", "heft_patient",
]  # fmt: skip
LEARNED = ("drl", "drl_search")  # need an agent: tests/test_learned.py
FAST = [name for name in names() if name not in ("optimal", *LEARNED)]


def single(*tasks: Task) -> Workload:
    return Workload.single(Workflow(tasks))


def start_order(name_or_scheduler, workload, cluster) -> list:
    scheduler = make(name_or_scheduler) if isinstance(name_or_scheduler, str) else name_or_scheduler
    done = simulate(scheduler, workload, cluster, noise=False)
    return [workload.task(i).id for i in np.argsort(done.start_s, kind="stable")]


ONE_CORE = Cluster((VM(0, 1, 8, 8),))


# --- what all have in common -------------------------------------------------------------


def test_names():
    article_and_classics = {"random", "fcfs", "sjf", "tetris", "critical_path", "srw", "cpop", "peft", "optimal"}
    assert article_and_classics | {"heft", "heft_single", "heft_online"} <= set(names())
    assert all(describe(name) for name in names())


def test_descriptions_list_the_options_that_there_are():
    for name in names():
        listed = re.search(r"\(options?: (.*)\)", describe(name))
        if listed and name != "fcfs":
            known = set(inspect.signature(type(make(name)).__init__).parameters) - {"self", "name"}
            assert set(listed[1].split(", ")) == known, name
    assert "(option: backfill)" in describe("fcfs") and make("fcfs", backfill=True).name


def test_unknown_names_and_options_list_what_there_is():
    with pytest.raises(ValueError, match=r"unknown scheduler 'best'; choose one of random, fcfs"):
        make("best")
    with pytest.raises(ValueError, match="does not take colour"):
        make("fcfs", colour=1)


@settings(max_examples=60, deadline=None)
@given(case=workloads_on_clusters(), seed=st.integers(0, 99), noise=st.booleans())
def test_every_scheduler_gives_a_valid_schedule(case, seed, noise):
    for name in FAST:
        done = simulate(make(name), *case, seed=seed, noise=noise)
        done.validate()
        assert done.scheduler == name


@settings(max_examples=60, deadline=None)
@given(case=workloads_on_clusters(), seed=st.integers(0, 99))
def test_a_rule_run_in_one_kernel_equals_the_same_rule_step_by_step(case, seed):
    problem, factor = Problem(*case), duration_factors(case[0], seed)
    for rule in [*map(Rule, RULES), fcfs(backfill=True)]:
        schedules = []
        for run in (rule.run, lambda simulator: Scheduler.run(rule, simulator)):  # noqa: B023
            simulator = Simulator(problem, factor)
            rule.reset(*case, seed)
            run(simulator)
            schedules.append(simulator.schedule())
        assert schedules[0].same_as(schedules[1]), rule.name


@pytest.mark.parametrize("name", FAST)
def test_same_seed_same_schedule(name):
    workload = poisson_stream(workflows=3, seed=5)
    runs = [simulate(make(name), workload, Cluster.stream(), seed=2) for _ in range(2)]
    assert runs[0].same_as(runs[1])


def test_another_hash_seed_gives_the_same_schedules():
    code = (
        "from thesis_lib.schedulers import make\n"
        "from thesis_lib.simulator import simulate\n"
        "from thesis_lib.workload import poisson_stream\n"
        "from thesis_lib.cluster import Cluster\n"
        "w = poisson_stream(workflows=2, seed=1)\n"
        f"for n in {FAST}:\n"
        "    print(n, simulate(make(n), w, Cluster.stream(), seed=3).to_frame().to_json())\n"
    )
    outputs = [
        subprocess.run(
            [sys.executable, "-c", code], env=os.environ | {"PYTHONHASHSEED": seed}, capture_output=True, check=True
        ).stdout
        for seed in ("1", "2")
    ]
    assert outputs[0] == outputs[1]
    assert outputs[0].count(b"\n") == len(FAST)


class Cheater(Scheduler):
    """Takes the ready task with the shortest drawn duration: what no scheduler can know."""

    name = "cheater"

    def __init__(self, factor):
        self.factor = factor

    def decide(self, state):
        mean_s = state.problem.views.mean_s
        return tuple(min(state.legal_pairs().tolist(), key=lambda pair: mean_s[pair[0]] * self.factor[pair[0]]))


def decisions_until(scheduler, problem, factor, until_s) -> list[tuple]:
    """(time, task, VM) of every task that starts before a moment."""
    simulator = Simulator(problem, factor)
    scheduler.reset(problem.workload, problem.cluster, 5)
    scheduler.run(simulator)
    done = simulator.schedule()
    early = np.flatnonzero(done.start_s < until_s)
    return sorted(zip(done.start_s[early].tolist(), early.tolist(), done.vm[early].tolist()))


def decides_the_same_until_the_draws_show(build, problem) -> bool:
    """Change the duration of every task that has not finished at some moment: until then nothing may change."""
    factor = duration_factors(problem.workload, 1)
    first = Simulator(problem, factor)
    scheduler = build(factor)
    scheduler.reset(problem.workload, problem.cluster, 5)
    scheduler.run(first)
    finish_s = first.schedule().finish_s
    moment_s = float(np.quantile(finish_s, 0.4))
    other = np.where(finish_s > moment_s, np.roll(factor, 7) * 2, factor)
    # The moment at which the first changed task would finish under either draw.
    start_s, vm = first.schedule().start_s, first.schedule().vm
    ends_s = start_s + problem.views.exec_s[np.arange(problem.n), vm] * np.minimum(factor, other)
    until_s = min(moment_s, float(ends_s[finish_s > moment_s].min()))
    one = decisions_until(build(factor), problem, factor, until_s)
    two = decisions_until(build(other), problem, other, until_s)
    assert len(one) >= 5
    return one == two


@pytest.mark.parametrize("seed", range(4))
def test_decisions_do_not_depend_on_a_draw_before_it_shows(seed):
    workload = poisson_stream(workflows=4, load=1.2, seed=seed)
    problem = Problem(workload, Cluster.stream())
    for name in FAST:
        assert decides_the_same_until_the_draws_show(lambda factor: make(name), problem), name  # noqa: B023


def test_a_scheduler_that_knows_the_draws_is_found_out():
    problem = Problem(poisson_stream(workflows=4, load=1.2, seed=0), Cluster.stream())
    assert not decides_the_same_until_the_draws_show(Cheater, problem)


@pytest.mark.parametrize("seed", range(6))
def test_decisions_do_not_depend_on_workflows_that_have_not_arrived(seed):
    """Cutting the last workflows off a stream changes nothing that starts before they arrive, noise or not."""
    whole = poisson_stream(workflows=5, load=1.1, seed=seed)
    cut = Workload(whole.workflows[:3], whole.arrivals_s[:3])
    until_s, n = whole.arrivals_s[3], cut.n_tasks
    for name in FAST:
        if name == "random":
            continue  # it draws once per legal pair, so another task behind the cut shifts its random numbers
        one, two = (simulate(make(name), w, Cluster.stream(), seed=9) for w in (whole, cut))
        early = one.start_s[:n] < until_s
        assert np.array_equal(early, two.start_s < until_s), name
        assert np.array_equal(one.start_s[:n][early], two.start_s[early]), name
        assert np.array_equal(one.vm[:n][early], two.vm[early]), name


def test_a_scheduler_is_not_given_the_seed_of_the_draws():
    seen = []

    class Curious(Cheater):
        def reset(self, workload, cluster, seed):
            seen.append(seed)
            self.factor = duration_factors(workload, seed)

    workload = poisson_stream(workflows=2, seed=3)
    done = simulate(Curious(None), workload, Cluster.stream(), seed=12)
    assert seen != [12]
    assert not np.array_equal(duration_factors(workload, seen[0]), done.duration_factor)


def test_a_decision_of_the_wrong_form_is_named():
    class Wrong(Scheduler):
        name = "wrong"

        def __init__(self, answer):
            self.answer = answer

        def decide(self, state):
            return self.answer

    for answer, words in ((5, "must return"), ((1, 2, 3), "must return"), ((0.0, 0), "whole numbers")):
        with pytest.raises((ValueError, SimulationError), match=words):
            simulate(Wrong(answer), single(Task(0, 1)), Cluster.default())


@pytest.mark.parametrize("n_vms", [1, 2, 300])
@pytest.mark.parametrize("n_tasks", [1, 40])
def test_odd_sizes(n_tasks, n_vms):
    cluster = Cluster(tuple(VM(i, 16, 96, 20, speed=1 + i % 3) for i in range(n_vms)))
    for name in FAST:
        simulate(make(name), Workload.single(layered(n_tasks, seed=1)), cluster, seed=1).validate()


# --- each rule's own idea ----------------------------------------------------------------


def blocked_head() -> tuple[Workload, Cluster]:
    """Two cores: a (1 core, 10 s), b (2 cores, 10 s), c (1 core, 5 s), in this order."""
    return single(Task("a", 10), Task("b", 10, cpu=2), Task("c", 5)), Cluster((VM(0, 2, 8, 8),))


def test_fcfs_blocks_at_the_head():
    workload, cluster = blocked_head()
    assert simulate(make("fcfs"), workload, cluster, noise=False).start_s.tolist() == [0, 10, 20]


def test_fcfs_with_backfilling_lets_others_pass():
    workload, cluster = blocked_head()
    assert simulate(make("fcfs", backfill=True), workload, cluster, noise=False).start_s.tolist() == [0, 10, 0]


def test_fcfs_serves_in_order_of_arrival():
    flows = (Workflow((Task("late", 1),)), Workflow((Task("early", 5), Task("second", 1))))
    workload = Workload(flows, (2.0, 0.0))
    assert start_order("fcfs", workload, ONE_CORE) == ["early", "second", "late"]


def test_sjf_takes_the_shortest():
    assert start_order("sjf", single(Task("a", 3), Task("b", 1), Task("c", 2)), ONE_CORE) == ["b", "c", "a"]


def test_critical_path_takes_the_longest_tail():
    tasks = (Task("long", 5), Task("head", 1), Task("tail", 9, dependencies=("head",)))
    assert start_order("critical_path", single(*tasks), ONE_CORE) == ["head", "tail", "long"]


def test_critical_path_fills_the_fuller_vm():
    cluster = Cluster((VM(0, 8, 8, 8), VM(1, 2, 8, 8)))
    assert simulate(make("critical_path"), single(Task(0, 1)), cluster).vm.tolist() == [1]


def test_tetris_prefers_the_demand_that_matches_what_is_free():
    """Of three tasks that do not fit together, the one that uses most of what is free goes first."""
    cluster = Cluster((VM(0, 4, 16, 0),))
    wide = Task("wide", 100, cpu=3)
    cpu, memory = Task("cpu", 1, cpu=1, memory_gb=1), Task("memory", 1, cpu=2, memory_gb=12)
    # cpu: 1/4 + 1/16 = 0.3125; wide: 3/4 = 0.75; memory: 2/4 + 12/16 = 1.25, all on the empty VM
    done = simulate(make("tetris"), single(cpu, wide, memory), cluster, noise=False)
    assert done.start_s.tolist() == [0, 1, 0]  # memory first, cpu beside it, then wide


def test_tetris_compares_shares_of_each_vm():
    """The same task fills a fifth of the small VM and a tenth of the large one: alignment 0.2 against 0.1."""
    cluster = Cluster((VM(0, 10, 1, 1), VM(1, 5, 1, 1)))
    assert simulate(make("tetris"), single(Task(0, 1)), cluster).vm.tolist() == [1]


def test_srw_counts_work_by_the_share_of_the_cluster_it_holds():
    """Equal seconds, but one workflow holds four cores at a time: it has four times the work."""
    wide = Workflow((Task("wide", 10, cpu=4),))
    narrow = Workflow((Task("narrow", 12, cpu=1),))
    cluster = Cluster((VM(0, 4, 8, 8),))
    assert start_order("srw", Workload.together((wide, narrow)), cluster) == ["narrow", "wide"]


def test_srw_finishes_the_workflow_that_is_nearly_done():
    short = Workflow((Task("s1", 4), Task("s2", 4)))
    long = Workflow(tuple(Task(f"l{i}", 3) for i in range(5)))
    assert start_order("srw", Workload.together((long, short)), ONE_CORE)[:2] == ["s1", "s2"]


def test_srw_breaks_ties_by_rank():
    tasks = (Task("a", 1), Task("b", 1), Task("after b", 5, dependencies=("b",)))
    assert start_order("srw", single(*tasks), ONE_CORE)[0] == "b"


@pytest.mark.parametrize("d", [0.1, 0.2, 0.3, 0.7, 1.1, 1.3, 2.3, 1 / 3])
def test_srw_sees_a_tie_where_rounding_does_not(d):
    """After a1 both workflows have 2 d left; b1 has the larger rank, whatever 3 d - d is in binary."""
    a, b = (
        Workflow(tuple(Task(f"a{i}", d) for i in (1, 2, 3))),
        Workflow((Task("b1", d), Task("b2", d, dependencies=("b1",)))),
    )
    done = simulate(make("srw"), Workload((a, b), (0.0, d / 2)), ONE_CORE, noise=False)
    order = [row["id"] for row in sorted(done.records(), key=lambda row: row["start_s"])]
    assert order[:3] == ["a1", "b1", "b2"]


def test_ranks_that_differ_by_rounding_alone_are_a_tie():
    """0.1 + 0.2 + 0.3 and 0.3 + 0.2 + 0.1 differ in the last bit; the task that is ready first goes first."""
    chains = [
        Task(f"{name}{i}", d, dependencies=(f"{name}{i - 1}",) if i else ())
        for name, durations in (("p", (0.3, 0.2, 0.1)), ("q", (0.1, 0.2, 0.3)))
        for i, d in enumerate(durations)
    ]
    for tasks in (chains, chains[3:] + chains[:3]):
        assert start_order("heft_online", single(*tasks), ONE_CORE)[0] == tasks[0].id


def two_speeds() -> Cluster:
    return Cluster((VM("fast", 1, 8, 8, speed=10), VM("slow", 1, 8, 8)))


def test_heft_online_takes_the_free_vm_and_heft_patient_waits_for_the_fast_one():
    """Two tasks of 10 s: 1 s on the fast VM, so the second ends at 2 by waiting, at 10 by not waiting."""
    workload = single(Task(0, 10), Task(1, 10))
    greedy = simulate(make("heft_online"), workload, two_speeds(), noise=False)
    patient = simulate(make("heft_patient"), workload, two_speeds(), noise=False)
    assert greedy.finish_s.tolist() == [1, 10]
    assert patient.finish_s.tolist() == [1, 2]
    assert simulate(make("srw_patient"), workload, two_speeds(), noise=False).makespan_s == 2


def test_patience_ends_where_waiting_is_no_better():
    """Twelve tasks of 10 s: one after another on the fast VM they end at 1 ... 12, so the slow VM takes none
    until the queue's end, since each looks at its own finish alone."""
    done = simulate(make("heft_patient"), single(*[Task(i, 10) for i in range(12)]), two_speeds(), noise=False)
    assert done.makespan_s == 12
    much_work = single(Task("runs", 200), Task("waits", 10))
    done = simulate(make("heft_patient"), much_work, two_speeds(), noise=False)
    assert done.vm.tolist() == [0, 1]  # the fast VM is taken for 20 s, the slow one ends at 10
    assert done.makespan_s == 20


def test_random_is_uniform_over_legal_pairs():
    cluster = Cluster((VM(0, 1, 1, 1), VM(1, 1, 1, 1)))
    workload = single(Task(0, 1), Task(1, 1))
    first = [tuple(simulate(make("random"), workload, cluster, seed=s).vm.tolist()) for s in range(400)]
    share = first.count((0, 1)) / 400
    assert share == pytest.approx(0.5, abs=0.1)
