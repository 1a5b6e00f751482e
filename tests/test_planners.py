"""The list planners against plans worked out by hand, a plain reference, and their guarantees."""

import itertools
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.paper_example import CPOP_S, HEFT_S, paper_example
from tests.strategies import workloads_on_clusters
from thesis_lib._kernels import planning as kernels
from thesis_lib.cluster import VM, Cluster
from thesis_lib.formats import load_workflow
from thesis_lib.schedule import Schedule, ScheduleError
from thesis_lib.schedulers import make
from thesis_lib.schedulers.base import Plan, Scheduler
from thesis_lib.schedulers.plan import Draft, PlanScheduler, plan_in_order, plan_to_schedule, rank_order
from thesis_lib.simulator import Problem, Simulator, simulate
from thesis_lib.workflow import Task, Workflow, WorkflowError
from thesis_lib.workload import Workload, poisson_stream

PLANNERS = ("heft", "heft_single", "cpop", "peft")


def single(*tasks: Task) -> Workload:
    return Workload.single(Workflow(tasks))


def arriving(*pairs: tuple[float, Task]) -> Workload:
    """One workflow of one task per (arrival, task)."""
    return Workload(tuple(Workflow((task,)) for _, task in pairs), tuple(arrival for arrival, _ in pairs))


def one_core(count: int = 1) -> Cluster:
    return Cluster(tuple(VM(v, 1, 0, 1) for v in range(count)))


# --- insertion ---------------------------------------------------------------------------


class OneVm:
    """The reservations of one VM, made straight in the kernels."""

    def __init__(self, *capacity):
        self.book = kernels.empty_book(np.array([capacity], dtype=float), reservations=50)

    def add(self, start, end, *demand):
        kernels.reserve(self.book, 0, tuple(map(float, demand)), float(start), float(end))
        return self

    def earliest(self, ready, duration, *demand):
        return kernels.earliest_fit(self.book, 0, tuple(map(float, demand)), float(ready), float(duration))


def test_the_list_of_segments_is_the_one_drawn_in_the_module():
    book = OneVm(4, 0, 0).add(0, 20, 2, 0, 0).add(10, 30, 1, 0, 0).book
    chain = [int(book.head[0])]
    while book.after[chain[-1]] != -1:
        chain.append(int(book.after[chain[-1]]))
    assert chain == [0, 1, 3, 2, 4]
    assert book.time[chain].tolist() == [-math.inf, 0, 10, 20, 30]
    assert book.used[chain, 0].tolist() == [0, 2, 3, 1, 0]


@pytest.mark.parametrize("slots", list(itertools.permutations([(0.0, 10.0), (30.0, 40.0)])))
@pytest.mark.parametrize("ready, start", [(12, 12), (5, 10), (20, 40)])
def test_insertion_into_a_gap(slots, ready, start):
    vm = OneVm(1, 0, 0)
    for begin, end in slots:
        vm.add(begin, end, 1, 0, 0)
    assert vm.earliest(ready, 15, 1, 0, 0) == start


@pytest.mark.parametrize("ready, start", [(12, 12), (5, 10), (20, 40)])
def test_insertion_through_a_whole_plan_placed_out_of_order(ready, start):
    tasks = {0: Task("first", 10), 30: Task("late", 10), ready: Task("asked", 15)}
    arrivals = sorted(tasks)
    workload = arriving(*((a, tasks[a]) for a in arrivals))
    order = [arrivals.index(30), arrivals.index(0), arrivals.index(ready)]
    plan = plan_in_order(Problem(workload, one_core()), np.array(order))
    assert plan.start_s[arrivals.index(ready)] == start


def test_insertion_beside_other_tasks_up_to_each_capacity():
    # 4 cores and 8 GB: 3 cores and 1 GB until 10, then 2 cores and 6 GB until 20.
    vm = OneVm(4, 8, 0).add(10.0, 20.0, 2, 6, 0).add(0.0, 10.0, 3, 1, 0)
    assert vm.earliest(0, 15, 1, 0, 0) == 0  # 4 and 3 cores
    assert vm.earliest(0, 5, 2, 0, 0) == 10  # 5 cores before 10, 4 after
    assert vm.earliest(0, 5, 3, 0, 0) == 20
    assert vm.earliest(0, 10, 1, 7, 0) == 0  # 8 GB before 10
    assert vm.earliest(0, 11, 1, 3, 0) == 20  # 9 GB after 10
    assert vm.earliest(12, 1, 2, 2, 0) == 12
    assert vm.earliest(0, 1, 5, 0, 0) == math.inf


def test_zero_duration_needs_room_only_at_its_instant():
    vm = OneVm(1, 0, 0).add(10.0, 20.0, 1, 0, 0)
    assert vm.earliest(10, 0, 1, 0, 0) == 10  # before the task that starts then
    assert vm.earliest(15, 0, 1, 0, 0) == 20
    assert vm.earliest(20, 0, 1, 0, 0) == 20
    vm.add(25.0, 25.0, 1, 0, 0)
    assert vm.earliest(20, 6, 1, 0, 0) == 25  # must not span the instant 25
    assert vm.earliest(20, 5, 1, 0, 0) == 20
    assert vm.earliest(25, 0, 1, 0, 0) == 25  # two instants follow one another


RESERVATION = st.tuples(st.integers(0, 30), st.integers(1, 8), st.tuples(*[st.integers(0, 4)] * 3))


@settings(max_examples=150, deadline=None)
@given(st.lists(RESERVATION, max_size=12), RESERVATION)
def test_insertion_equals_a_search_second_by_second(reservations, asked):
    used, vm = np.zeros((400, 3)), OneVm(4, 4, 4)

    def first_fit(ready, duration, demand):
        return next(t for t in range(ready, 300) if (used[t : t + duration] + demand <= 4).all())

    for ready, duration, demand in [*reservations, asked]:
        start = first_fit(ready, duration, demand)
        assert vm.earliest(ready, duration, *demand) == start
        vm.add(start, start + duration, *demand)
        used[start : start + duration] += demand


# --- transfers, arrivals, choice of VM -----------------------------------------------------


def two_vms(second_speed: float) -> Cluster:
    return Cluster((VM("a", 1, 0, 1), VM("b", 1, 0, 1, speed=second_speed)), ((0, 0.08), (0.08, 0)))  # 10 MB/s


def chain(megabytes: float) -> Workload:
    return single(
        Task("A", 5, runtime_s={"a": 5.0}), Task("B", 20, dependencies=("A",), data_mb={"A": megabytes})
    )  # fmt: skip


@pytest.mark.parametrize("name", ["heft", "heft_single"])
def test_transfer_is_charged_once_and_only_between_vms(name):
    # b is four times as fast: 5 + 10 + 5 = 20 there against 5 + 20 = 25 on a.
    plan = make(name).plan(chain(100), two_vms(4))
    assert (plan.vm[1], plan.start_s[1], plan.finish_s[1]) == (1, 15, 20)
    # 1000 MB take 100 s, so B stays where its data is.
    plan = make(name).plan(chain(1000), two_vms(4))
    assert (plan.vm[1], plan.start_s[1], plan.finish_s[1]) == (0, 5, 25)


def test_transfer_needs_its_data_and_not_a_longer_task():
    workload = chain(100)
    before = workload.workflows[0].tasks
    done = simulate(make("heft"), workload, two_vms(4), noise=False)
    assert workload.workflows[0].tasks == before
    assert done.finish_s.tolist() == [5, 20]


def test_equal_finish_times_go_to_the_first_vm():
    plan = make("heft").plan(single(Task(0, 3)), one_core(3))
    assert plan.vm.tolist() == [0]


@pytest.mark.parametrize("name", ["heft", "heft_single", "peft"])
def test_together_means_one_merged_order_and_apart_means_no_foresight(name):
    short, long = Task("short", 3), Task("long", 7)
    together = make(name).plan(arriving((0, short), (0, long)), one_core())
    # PEFT's table is 0 for exit tasks, so there both rank the same and file order decides.
    assert together.start_s.tolist() == ([0, 3] if name == "peft" else [7, 0])
    apart = make(name).plan(arriving((0, short), (1, long)), one_core())
    assert apart.start_s.tolist() == [0, 3]


def gap_case(duration_s: float, arrival_s: float) -> tuple[Workload, Cluster]:
    """A (on a, 10 s) -> B (on b, 10 s) -> D (on a, 5 s), and C (on a), which arrives while a is busy or idle."""
    first = Workflow((
        Task("A", 10, runtime_s={"a": 10.0}),
        Task("B", 10, runtime_s={"b": 10.0}, dependencies=("A",)),
        Task("D", 5, runtime_s={"a": 5.0}, dependencies=("B",)),
    ))  # fmt: skip
    second = Workflow((Task("C", duration_s, runtime_s={"a": float(duration_s)}),))
    return Workload((first, second), (0.0, arrival_s)), two_vms(1)


@pytest.mark.parametrize("duration, start", [(10, 10), (11, 25)])
@pytest.mark.parametrize("name", PLANNERS)
def test_a_later_workflow_fills_the_gaps_that_the_earlier_one_left(name, duration, start):
    workload, cluster = gap_case(duration, arrival_s=5)
    assert make(name).plan(workload, cluster).start_s.tolist() == [0, 10, 20, start]
    assert simulate(make(name), workload, cluster, noise=False).start_s.tolist() == [0, 10, 20, start]


def test_textbook_form_runs_one_task_per_vm():
    workload, cluster = single(Task(0, 10), Task(1, 10)), Cluster((VM(0, 2, 0, 0),))
    for name, makespan in (("heft", 10), ("heft_single", 20)):
        done = simulate(make(name), workload, cluster, noise=False)
        assert (done.makespan_s, done.planned_makespan_s) == (makespan, makespan)


def test_planned_makespan_counts_from_the_first_arrival():
    done = simulate(make("heft"), arriving((100, Task(0, 10)), (105, Task(1, 10))), one_core(), noise=False)
    assert (done.planned_makespan_s, done.makespan_s) == (20, 20)


def test_cpop_keeps_the_critical_path_on_the_vm_that_is_fastest_for_all_of_it():
    # a takes 10 + 1 for the path, b 2 + 6: b, although the second task alone is faster on a.
    cluster = Cluster((VM("a", 1, 0, 1), VM("b", 1, 0, 1)))
    workload = single(
        Task("A", 6, runtime_s={"a": 10.0, "b": 2.0}),
        Task("B", 3.5, runtime_s={"a": 1.0, "b": 6.0}, dependencies=("A",)),
        Task("side", 1, runtime_s={"a": 1.0, "b": 1.0}),
    )  # fmt: skip
    assert make("cpop").plan(workload, cluster).vm.tolist() == [1, 1, 0]
    assert make("heft").plan(workload, cluster).vm.tolist()[:2] == [1, 0]


def test_peft_looks_ahead_where_heft_does_not():
    # A: 2 s on a, 3 s on b. B runs on b only, 100 MB = 10 s away from a: 3 + 5 = 8 s against 2 + 10 + 5 = 17 s.
    workload = single(
        Task("A", 2.5, runtime_s={"a": 2.0, "b": 3.0}),
        Task("B", 5, runtime_s={"b": 5.0}, dependencies=("A",), data_mb={"A": 100.0}),
    )  # fmt: skip
    assert make("heft").plan(workload, two_vms(1)).makespan_s == 17
    assert make("peft").plan(workload, two_vms(1)).makespan_s == 8


# --- a plain reference: one task per VM ------------------------------------------------------


class Reference:
    """HEFT, CPOP and PEFT in plain Python for one task per VM. c[i][j] is the transfer between any two VMs."""

    def __init__(self, times, transfer):
        self.w, self.c, self.n, self.m = times, transfer, len(times), len(times[0])
        self.mean = [sum(row) / self.m for row in times]

    def children(self, i):
        return self.c.get(i, {})

    def parents(self, j):
        return [i for i in self.c if j in self.c[i]]

    def up(self, i):
        return self.mean[i] + max((x + self.up(j) for j, x in self.children(i).items()), default=0)

    def down(self, j):
        return max((self.down(i) + self.mean[i] + self.c[i][j] for i in self.parents(j)), default=0)

    def oct(self, i, p):
        options = [
            min(self.oct(j, q) + self.w[j][q] + (0 if p == q else x) for q in range(self.m))
            for j, x in self.children(i).items()
        ]
        return max(options, default=0)

    def finish(self, priority, score, fixed=()):
        """Makespan of list scheduling: largest priority first among the ready, least score(i, p, eft)."""
        busy, done = [[] for _ in range(self.m)], {}
        while len(done) < self.n:
            ready = [i for i in range(self.n) if i not in done and all(q in done for q in self.parents(i))]
            i = max(ready, key=lambda i: priority[i])
            options = []
            for p in range(self.m) if i not in fixed else [fixed[i]]:
                at = max((done[q][1] + (0 if done[q][0] == p else self.c[q][i]) for q in self.parents(i)), default=0)
                for a, b in sorted(busy[p]):
                    if at + self.w[i][p] > a:
                        at = max(at, b)
                options.append((score(i, p, at + self.w[i][p]), p, at))
            _, p, at = min(options)
            done[i] = (p, at + self.w[i][p])
            busy[p].append((at, done[i][1]))
        return max(end for _, end in done.values())

    def heft(self):
        return self.finish([self.up(i) for i in range(self.n)], lambda i, p, eft: eft)

    def peft(self):
        mean = [sum(self.oct(i, p) for p in range(self.m)) / self.m for i in range(self.n)]
        return self.finish(mean, lambda i, p, eft: eft + self.oct(i, p))

    def cpop(self):
        rank = [self.up(i) + self.down(i) for i in range(self.n)]
        critical = [i for i in range(self.n) if rank[i] > max(rank) - 1e-9]
        path = [next(i for i in critical if not self.parents(i))]
        while self.children(path[-1]):  # a child that skips part of the path has a higher number
            path.append(next(j for j in critical if j in self.children(path[-1])))
        vm = min(range(self.m), key=lambda p: sum(self.w[i][p] for i in path))
        return self.finish(rank, lambda i, p, eft: eft, dict.fromkeys(path, vm))


def reference_of(workflow: Workflow, cluster: Cluster) -> Reference:
    """All links of the cluster have the same rate."""
    rate = cluster.link_mb_per_s[0, 1]
    transfer = {}
    for j, task in enumerate(workflow.tasks):
        for parent in task.dependencies:
            transfer.setdefault(workflow.index(parent), {})[j] = task.data_mb.get(parent, 0) / rate
    return Reference([[task.runtime_s[vm.id] for vm in cluster.vms] for task in workflow.tasks], transfer)


def random_unrelated(seed: int, n: int = 9, m: int = 3) -> tuple[Workflow, Cluster]:
    rng = np.random.default_rng(seed)
    tasks = []
    for i in range(n):
        parents = [q for q in range(i) if rng.random() < 0.35]
        runtime = {v: float(rng.uniform(1, 20)) for v in range(m)}
        data = {q: float(rng.uniform(0, 200)) for q in parents}
        tasks.append(Task(i, 10, dependencies=tuple(parents), data_mb=data, runtime_s=runtime))
    return Workflow(tuple(tasks)), Cluster(tuple(VM(v, 1, 0, 1) for v in range(m)), [[0.08] * m] * m)


@pytest.mark.parametrize("seed", range(12))
def test_list_planners_equal_the_reference(seed):
    workflow, cluster = random_unrelated(seed)
    reference, workload = reference_of(workflow, cluster), Workload.single(workflow)
    for name, expected in (("heft", reference.heft()), ("heft_single", reference.heft()),
                           ("peft", reference.peft()), ("cpop", reference.cpop())):  # fmt: skip
        assert make(name).plan(workload, cluster).makespan_s == pytest.approx(expected, abs=1e-9), name


def check_paper_example(workload: Workload, cluster: Cluster) -> None:
    # PEFT comes from the reference above.
    peft_s = reference_of(workload.workflows[0], cluster).peft()
    expected = {"heft": HEFT_S, "heft_single": HEFT_S, "cpop": CPOP_S, "peft": peft_s}
    for name, makespan in expected.items():
        done = simulate(make(name), workload, cluster, noise=False)
        assert (done.planned_makespan_s, done.makespan_s) == (makespan, makespan), name


def test_example_of_the_heft_paper():
    workload, cluster = paper_example()
    assert (len(workload.workflows[0]), len(cluster)) == (10, 3)
    check_paper_example(workload, cluster)


def test_example_of_the_heft_paper_from_a_file(shared_data):
    workflow = load_workflow(shared_data / "hetero-csv" / "canonicalgraph_task_exe_time.csv")
    check_paper_example(Workload.single(workflow), workflow.cluster)


# --- guarantees ----------------------------------------------------------------------------


@pytest.mark.parametrize("name", PLANNERS)
@settings(max_examples=40, deadline=None)
@given(case=workloads_on_clusters())
def test_every_plan_is_valid_and_its_replay_is_the_plan(name, case):
    workload, cluster = case
    scheduler = make(name)
    plan = scheduler.plan(workload, cluster)
    plan_to_schedule(plan, workload, cluster).validate()
    assert (plan.start_s >= np.array(workload.arrivals_s)[workload.workflow_of]).all()
    done = simulate(scheduler, workload, cluster, noise=False)
    done.validate()
    assert (done.vm == plan.vm).all()
    assert (done.start_s == plan.start_s).all()
    noisy = simulate(scheduler, workload, cluster, seed=1)
    noisy.validate()


@pytest.mark.parametrize("name", PLANNERS)
@settings(max_examples=25, deadline=None)
@given(case=workloads_on_clusters())
def test_no_plan_knows_the_future(name, case):
    workload, cluster = case
    now = [w for w in range(len(workload)) if workload.arrivals_s[w] == workload.arrivals_s[0]]
    first = Workload(tuple(workload.workflows[w] for w in now), (workload.arrivals_s[0],) * len(now))
    whole, alone = make(name).plan(workload, cluster), make(name).plan(first, cluster)
    assert (whole.vm[: first.n_tasks] == alone.vm).all()
    assert (whole.start_s[: first.n_tasks] == alone.start_s).all()


def starts(scheduler: Scheduler, workload: Workload, cluster: Cluster, factor: list[float]) -> list[float]:
    simulator = Simulator(Problem(workload, cluster), np.array(factor))
    scheduler.reset(workload, cluster, 0)
    scheduler.run(simulator)
    return simulator.schedule().start_s.tolist()


@pytest.mark.parametrize("name", PLANNERS)
def test_a_task_does_not_wait_for_one_that_has_not_arrived(name):
    # B takes 2 s instead of 10, so that D can start at 12: ahead of C, which is planned for 15 and starts at 17.
    workload, cluster = gap_case(4, arrival_s=15)
    assert starts(make(name), workload, cluster, [1, 1, 1, 1]) == [0, 10, 20, 15]
    assert starts(make(name), workload, cluster, [1, 0.2, 1, 1]) == [0, 10, 12, 17]


def test_a_clairvoyant_replay_keeps_the_planned_order():
    workload, cluster = gap_case(4, arrival_s=15)
    assert starts(make("optimal"), workload, cluster, [1, 1, 1, 1]) == [0, 10, 20, 15]
    assert starts(make("optimal"), workload, cluster, [1, 0.2, 1, 1]) == [0, 10, 19, 15]


def happened_before(done: Schedule, moment_s: float) -> dict[int, tuple[int, float]]:
    """VM and start of every task that started before the moment."""
    return {i: (int(done.vm[i]), float(done.start_s[i])) for i in np.flatnonzero(done.start_s < moment_s)}


def check_later_workflows_do_not_show(name: str, workload: Workload, cluster: Cluster, seed: int) -> int:
    """Cut the workload off before each arrival; returns how many starts have been compared."""
    whole, compared = simulate(make(name), workload, cluster, seed=seed), 0
    for k in range(1, len(workload)):
        arrival_s = workload.arrivals_s[k]
        if arrival_s > workload.arrivals_s[k - 1]:
            cut = Workload(workload.workflows[:k], workload.arrivals_s[:k])
            before = happened_before(whole, arrival_s)
            assert before == happened_before(simulate(make(name), cut, cluster, seed=seed), arrival_s)
            compared += len(before)
    return compared


@pytest.mark.parametrize("name", PLANNERS)
def test_with_noise_later_workflows_do_not_show_before_they_arrive(name):
    compared = 0
    for seed in range(40):
        stream = poisson_stream(workflows=5, load=1.1, seed=seed, n_tasks=12)
        compared += check_later_workflows_do_not_show(name, stream, Cluster.stream(), seed)
    assert compared > 40 * 20


@pytest.mark.parametrize("name", PLANNERS)
@settings(max_examples=40, deadline=None)
@given(case=workloads_on_clusters(max_vms=3), seed=st.integers(0, 99))
def test_with_noise_later_workflows_do_not_show_on_anything(name, case, seed):
    check_later_workflows_do_not_show(name, *case, seed)


class Given(PlanScheduler):
    """Replays a plan that it is given."""

    name = "given"

    def __init__(self, plan):
        self._plan = plan

    def plan(self, workload, cluster):
        return self._plan


def test_no_task_overtakes_an_earlier_one_on_its_vm():
    # On b the plan runs Y at 5, then X at 6. Y's parent P takes 20 s instead of 5, and X must still wait for Y.
    workload = single(
        Task("P", 20, runtime_s={"a": 20.0}), Task("Y", 1, runtime_s={"b": 1.0}, dependencies=("P",)),
        Task("X", 1, runtime_s={"b": 1.0}),
    )  # fmt: skip
    plan = Plan(np.array([0, 1, 1]), np.array([0.0, 5, 6]), np.array([5.0, 6, 7]))
    assert simulate(Given(plan), workload, two_vms(1), noise=False).start_s.tolist() == [0, 20, 21]


def test_tasks_of_zero_duration_replay_without_deadlock():
    # File order is against the dependencies, and everything is planned to start at 0.
    zeros = [Task(i, 0, dependencies=(i + 1,) if i < 5 else ()) for i in range(6)]
    workload = single(Task("long", 4, dependencies=(0,)), *zeros)
    for name in PLANNERS:
        done = simulate(make(name), workload, one_core(), noise=False)
        assert done.start_s.tolist() == [0] * 7
        assert done.makespan_s == 4


def test_the_checker_refuses_a_plan_that_overlaps():
    workload = single(Task(0, 10), Task(1, 10))
    plan = Plan(np.array([0, 0]), np.array([0.0, 5]), np.array([10.0, 15]))
    with pytest.raises(ScheduleError, match="cpu"):
        plan_to_schedule(plan, workload, one_core()).validate()


@pytest.mark.parametrize("name", PLANNERS)
def test_a_task_that_fits_nowhere_is_refused(name):
    with pytest.raises(WorkflowError, match="task 'big' fits no VM.*64 cores"):
        make(name).plan(single(Task("big", 1, cpu=64)), Cluster.default())


def test_a_task_that_its_fixed_vm_cannot_run_is_refused():
    problem = Problem(single(Task("wide", 1, cpu=2)), Cluster((VM(0, 2, 0, 0), VM(1, 1, 0, 0))))
    with pytest.raises(WorkflowError, match="task 'wide' cannot be placed"):
        plan_in_order(problem, np.array([0]), fixed_vm=np.array([1]))


def test_reset_plans_once_for_the_same_objects():
    scheduler, workload, cluster = make("heft"), single(Task(0, 3), Task(1, 4)), one_core()
    assert scheduler.planned_makespan_s is None
    scheduler.reset(workload, cluster, 0)
    first = scheduler.current
    scheduler.reset(workload, cluster, 1)
    assert scheduler.current is first
    scheduler.reset(single(Task(0, 3)), cluster, 1)
    assert scheduler.planned_makespan_s == 3


@settings(max_examples=15, deadline=None)
@given(case=workloads_on_clusters(max_vms=4, max_workflows=2))
def test_compiled_and_plain_kernels_agree(case):
    problem = Problem(*case)
    order = rank_order(problem, problem.views.rank_s)
    compiled, plain = Draft(problem), Draft(problem)
    compiled.place(order)
    guide = kernels.Guide(np.empty((0, problem.v)), np.empty(0, np.int64))
    assert kernels.fill_in_order.py_func(plain.views, order, guide, plain.book, plain.placed) == -1
    assert (compiled.placed.vm == plain.placed.vm).all()
    assert (compiled.placed.start_s == plain.placed.start_s).all()
