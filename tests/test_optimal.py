"""CP-SAT plans against brute force, known optima and numbers worked out by hand."""

import csv
import itertools
import math

import numpy as np
import pytest
from hypothesis import given, settings

from tests.paper_example import OPTIMUM_S, paper_example
from tests.strategies import workloads_on_clusters
from thesis_lib._kernels.state import FREE_TOLERANCE
from thesis_lib.cluster import VM, Cluster, exec_time_s
from thesis_lib.formats import load_workflow
from thesis_lib.ranks import lower_bound_s
from thesis_lib.schedulers import make
from thesis_lib.schedulers.base import Plan
from thesis_lib.schedulers.cpop import Cpop
from thesis_lib.schedulers.integer_grid import IntegerProblem, exact_steps, idle_shift_s, steps_down, steps_up
from thesis_lib.schedulers.optimal import Optimal
from thesis_lib.schedulers.peft import Peft
from thesis_lib.schedulers.plan import plan_to_schedule
from thesis_lib.simulator import Problem, simulate
from thesis_lib.workflow import Task, Workflow, WorkflowError
from thesis_lib.workload import Workload


def single(*tasks: Task) -> Workload:
    return Workload.single(Workflow(tasks))


# --- whole numbers ---------------------------------------------------------------------------


@pytest.mark.parametrize(
    "values, steps",
    [([3, 0, 12], 1), ([0.5, 0.1], 10), ([0.25, 2], 100), ([0.00001], 100_000), ([1 / 3, 0.5], 6), ([math.pi], None)],
)
def test_exact_steps(values, steps):
    assert exact_steps(np.array(values, dtype=float), 10, 1e9) == steps


def test_rounding_goes_the_safe_way_and_leaves_whole_numbers_alone():
    values = np.array([0.1 + 0.2, 0.31, math.inf])
    assert steps_up(values, 10).tolist() == [3, 4, -1]
    assert steps_down(values[:2], 10).tolist() == [3, 3]


def test_rounded_times_are_never_shorter_and_the_slack_covers_them():
    tasks = [Task(i, math.pi * (i + 1), dependencies=(i - 1,) if i else (), data_mb={i - 1: math.e} if i else {})
             for i in range(4)]  # fmt: skip
    problem = Problem(single(*tasks), Cluster((VM(0, 1, 0, 1), VM(1, 1, 0, 1, speed=0.7))))
    whole = IntegerProblem(problem, horizon_s=100)
    excess = whole.exec / whole.steps_per_s - problem.views.exec_s
    assert not whole.exact
    assert excess.min() >= 0
    assert excess.max(axis=1).sum() <= whole.slack_s <= 7 / whole.steps_per_s  # 4 tasks and 3 transfers
    assert whole.slack_s < 1e-5


def test_idle_gaps_shrink_by_whole_seconds():
    # The second comes while the first runs; they take 4 + 3 s, so are over by 4 + 7 = 11, 89.25 s before the third.
    shift_s = idle_shift_s(np.array([2.5, 4.0, 100.25]), np.array([6.5, 7.0, 101.0]))
    assert shift_s.tolist() == [2, 2, 91]


def test_times_beyond_the_horizon_stay_out_of_the_integers():
    tasks = Task("a", 1.0), Task("b", 2.0, dependencies=("a",), data_mb={"a": 125.0}, runtime_s={0: 2.0, 1: 1e14})
    slow = 1e-13  # Gbit/s: 1e13 s for the data
    problem = Problem(single(*tasks), Cluster((VM(0, 1, 0, 0), VM(1, 1, 0, 0)), ((0, slow), (8, 0))))
    whole = IntegerProblem(problem, horizon_s=3.0)
    assert whole.exact
    assert (whole.exec / whole.steps_per_s).tolist() == [[1, 1], [2, -1 / whole.steps_per_s]]
    assert whole.transfer[0, 1, 0] / whole.steps_per_s == 0.125
    assert 3 < whole.transfer[0, 0, 1] / whole.steps_per_s < 10


# --- by hand ---------------------------------------------------------------------------------


def test_mean_completion_is_another_objective_than_makespan():
    # 10 s and 2 s on one core: (10 + 12) / 2 = 11 or (2 + 12) / 2 = 7, both with makespan 12.
    flows = tuple(Workflow((Task(0, seconds),)) for seconds in (10, 2))
    for arrival in (0.0, 100.0):
        workload = Workload(flows, (arrival, arrival))
        scheduler = Optimal(objective="mean_completion")
        done = simulate(scheduler, workload, Cluster((VM(0, 1, 0, 0),)), noise=False)
        assert (done.mean_completion_s, scheduler.current.bound_s, scheduler.current.optimal) == (7, 7, True)
        assert simulate(make("heft"), workload, Cluster((VM(0, 1, 0, 0),)), noise=False).mean_completion_s == 11


def test_demands_just_above_half_never_share_and_thirds_do():
    for demand, makespan in ((0.5, 10), (0.5000001, 20), (0.50001, 20)):
        plan = Optimal().plan(single(Task(0, 10, cpu=demand), Task(1, 10, cpu=demand)), Cluster((VM(0, 1, 0, 0),)))
        assert plan.makespan_s == makespan
        assert plan.bound_s <= makespan
    thirds = [Task(i, 10, cpu=1 / 3) for i in range(3)]
    assert Optimal().plan(single(*thirds), Cluster((VM(0, 1, 0, 0),))).makespan_s == 10


def waiting_case() -> tuple[Workload, Cluster]:
    """x (6 s) and y (4 s), each with 10 s of data for a join (1 s), on two equal VMs."""
    workload = single(
        Task("x", 6), Task("y", 4), Task("join", 1, dependencies=("x", "y"), data_mb={"x": 100.0, "y": 100.0})
    )  # fmt: skip
    return workload, Cluster((VM("a", 1, 0, 1), VM("b", 1, 0, 1)), ((0, 0.08), (0.08, 0)))


def test_waiting_for_the_fast_vm_beats_the_greedy_choice():
    # HEFT spreads x and y, and the join waits for 10 s of data. One after another on one VM: 6 + 4 + 1 = 11.
    workload, cluster = waiting_case()
    plan = Optimal().plan(workload, cluster)
    assert (plan.makespan_s, plan.bound_s, plan.optimal) == (11, 11, True)
    assert make("heft").plan(workload, cluster).makespan_s == 15  # x on a until 6, y on b until 4, its data at 14, join


def test_arrivals_are_respected():
    flows = (Workflow((Task(0, 5),)), Workflow((Task(0, 5),)))
    plan = Optimal().plan(Workload(flows, (3.0, 20.0)), Cluster((VM(0, 1, 0, 0),)))
    assert plan.start_s.tolist() == [3, 20]
    assert (plan.bound_s, plan.optimal) == (22, True)  # from the first arrival at 3 to 25


def test_links_that_never_deliver_do_not_spoil_the_proof():
    # a on the second VM 1.5355 s, 125 MB at 8 Gbit/s 0.125 s, b on the first 1 s.
    tasks = (
        Task("a", 1.5355, 0, 0, 0),
        Task("b", 1, 0, 1, dependencies=("a",), data_mb={"a": 125}, runtime_s={"m0": 1, "m2": 5}),
    )
    vms = VM("m0", 1, 4, 2, 0.5), VM("m1", 2, 2, 2, 1), VM("m2", 2, 4, 1, 2)
    cluster = Cluster(vms, ((0, 1e-14, 8), (8, 0, 1e-5), (1e-14, 8, 0)))
    plan = Optimal().plan(single(*tasks), cluster)
    assert (plan.makespan_s, plan.bound_s) == (pytest.approx(2.6605), pytest.approx(2.6605))
    assert plan.optimal


@pytest.mark.parametrize("gap_s", [1e7, 1e8 + 1 / 3])
def test_a_late_workflow_costs_no_precision(gap_s):
    cluster = Cluster((VM(0, 2, 8, 1), VM(1, 2, 8, 1, 1.3)))
    pairs = [[random_case(20 * k + j, 6, whole=False).workflows[0] for j in range(2)] for k in range(4)]
    for flows in pairs:
        alone = [Optimal().plan(Workload.single(flow), cluster) for flow in flows]
        together = Workload(tuple(flows), (0.0, gap_s))
        plan = Optimal(objective="mean_completion").plan(together, cluster)
        value_s = plan_to_schedule(plan, together, cluster).mean_completion_s
        assert all(one.optimal for one in alone)
        assert plan.optimal
        assert value_s == pytest.approx(sum(one.makespan_s for one in alone) / 2, rel=2e-6)
        assert plan.bound_s == pytest.approx(value_s, rel=2e-6)


def test_nothing_is_proved_where_floating_point_cannot_tell():
    flows = tuple(Workflow((Task(0, seconds),)) for seconds in (math.pi, math.e))
    for arrival_s, proved in ((1e3, True), (1e12, False)):  # 1e12 s are known to 1e-4 s
        plan = Optimal(objective="mean_completion").plan(Workload(flows, (0.0, arrival_s)), Cluster((VM(0, 1, 0, 0),)))
        assert plan.optimal is proved


def test_tiny_durations_are_not_optimal_by_absolute_tolerance():
    workload, cluster = waiting_case()
    tiny = [
        Task(t.id, t.duration_mean_s * 1e-10, dependencies=t.dependencies, data_mb=dict.fromkeys(t.dependencies, 1e-8))
        for t in workload.workflows[0].tasks
    ]
    plan = Optimal().plan(single(*tiny), cluster)
    assert (plan.makespan_s, plan.bound_s) == (pytest.approx(11e-10, rel=1e-6), pytest.approx(11e-10, rel=1e-6))


@pytest.mark.parametrize(
    "options, allowed",
    [
        ({"time_limit_s": 0}, "time_limit_s must be a number of seconds above 0, got 0"),
        ({"time_limit_s": -1}, "above 0, got -1"),
        ({"time_limit_s": math.nan}, r"time_limit_s \(seconds, above 0\) must be finite"),
        ({"time_limit_s": "x"}, r"time_limit_s \(seconds, above 0\) must be a number, got 'x'"),
        ({"workers": 0}, "workers must be a whole number from 1 to 1000, got 0"),
        ({"workers": 1.5}, "workers must be a whole number"),
        ({"seed": "x"}, "seed must be a whole number from 0 to 2147483647, got 'x'"),
        ({"seed": -1}, "seed must be a whole number"),
        ({"seed": 2**31}, "seed must be a whole number"),
        ({"objective": "cost"}, "objective must be one of makespan, mean_completion, got 'cost'"),
    ],
)
def test_bad_options_are_refused_with_the_allowed_values(options, allowed):
    with pytest.raises(WorkflowError, match=allowed):
        make("optimal", **options)


def test_the_largest_options_are_taken():
    plan = make("optimal", seed=2**31 - 1, workers=np.int64(2), time_limit_s=5).plan(*waiting_case())
    assert plan.optimal


def test_without_time_the_best_list_plan_and_a_true_bound_come_back():
    workload, cluster = random_case(3, 40), Cluster((VM(0, 4, 8, 1), VM(1, 2, 4, 1, speed=1.5)))
    plan = Optimal(time_limit_s=1e-6).plan(workload, cluster)
    assert plan.makespan_s <= make("heft").plan(workload, cluster).makespan_s
    assert lower_bound_s(workload.workflows[0], cluster) - 1e-9 <= plan.bound_s <= plan.makespan_s


def test_the_time_limit_covers_the_list_plans(monkeypatch):
    def refuse(*_):
        raise AssertionError("planned after the time limit")

    workload, cluster = random_case(3, 40), Cluster((VM(0, 4, 8, 1), VM(1, 2, 4, 1, speed=1.5)))
    for rival in (Peft, Cpop, Optimal):
        monkeypatch.setattr(rival, "_search" if rival is Optimal else "plan", refuse)
    plan = Optimal(time_limit_s=1e-9).plan(workload, cluster)
    assert plan.makespan_s == make("heft").plan(workload, cluster).makespan_s
    monkeypatch.undo()
    monkeypatch.setattr(Peft, "plan", refuse)
    with pytest.raises(AssertionError, match="after the time limit"):
        Optimal(time_limit_s=60).plan(workload, cluster)


def test_a_coarse_grid_helps_where_the_fine_one_finds_no_proof():
    # Every task with demands needs all of the memory or the CPU, so they run one after another at twice the speed.
    long, middle, short = 4.891002569596321, 3.5758905646947547, 0.012597333854289516
    first = (
        Task("middle", middle, cpu=1, memory_gb=2, dependencies=("long",), data_mb={"long": 2}),
        Task("other", 10.0, cpu=1, memory_gb=2),
        Task("free", 10.0, cpu=0, memory_gb=0, dependencies=("root",)),
        Task("long", long, cpu=1, memory_gb=2, bandwidth_gbps=2, dependencies=("root",), data_mb={"root": 125}),
        Task("root", 2.0, cpu=2, memory_gb=2),
    )
    workload = Workload((Workflow(first), Workflow((Task("short", short, cpu=2, memory_gb=0),))), (0.0, 1.0))
    plan = Optimal(time_limit_s=2).plan(workload, Cluster((VM(0, 2, 2, 2, speed=2),)))
    assert plan.makespan_s == pytest.approx((2 + long + middle + short + 10) / 2, rel=1e-9)
    assert plan.optimal


# --- brute force -----------------------------------------------------------------------------


def random_case(seed: int, n: int, whole: bool = True) -> Workload:
    rng = np.random.default_rng(seed)
    tasks = []
    for i in range(n):
        parents = [q for q in range(i) if rng.random() < 0.4][-3:]
        seconds = float(rng.integers(1, 9)) if whole else float(rng.uniform(1, 9))
        data = {q: float(rng.integers(0, 4)) * 20 for q in parents}
        tasks.append(Task(i, seconds, cpu=float(rng.integers(1, 3)), memory_gb=float(rng.uniform(0.5, 4)),
                          dependencies=tuple(parents), data_mb=data))  # fmt: skip
    return single(*tasks)


class BruteForce:
    """Every order of the tasks with every choice of VMs; each task starts as early as it fits beside those before.

    One of these schedules is optimal, because both objectives only grow with finish times.
    """

    def __init__(self, workload: Workload, cluster: Cluster):
        flows, self.ptr = workload.workflows, workload.task_ptr.tolist()
        self.n, self.cluster, self.arrivals_s = workload.n_tasks, cluster, workload.arrivals_s
        self.times = np.concatenate([exec_time_s(w, cluster) for w in flows]).tolist()
        self.demand = np.concatenate([w.demand for w in flows])
        self.release = [a for w, a in zip(flows, workload.arrivals_s) for _ in w.tasks]
        self.parents = [
            {first + w.index(parent): task.data_mb.get(parent, 0.0) for parent in task.dependencies}
            for first, w in zip(self.ptr, flows)
            for task in w.tasks
        ]

    def least(self, value) -> float:
        """The least value(ends of the workflows) of all schedules."""
        orders = [o for o in itertools.permutations(range(self.n)) if self.parents_first(o)]
        choices = itertools.product(*([v for v, s in enumerate(row) if s < math.inf] for row in self.times))
        return min(value(self.ends(order, vms)) for vms in choices for order in orders)

    def makespan_s(self) -> float:
        return self.least(max) - self.arrivals_s[0]

    def mean_completion_s(self) -> float:
        return (self.least(sum) - sum(self.arrivals_s)) / len(self.arrivals_s)

    def parents_first(self, order) -> bool:
        return all(order.index(q) < order.index(i) for i in range(self.n) for q in self.parents[i])

    def ends(self, order, vms) -> list[float]:
        """When each workflow ends."""
        start, end = {}, {}
        for i in order:
            v, ready = vms[i], self.release[i]
            for q, mb in self.parents[i].items():
                ready = max(ready, end[q] + (mb / self.cluster.link_mb_per_s[vms[q], v] if vms[q] != v else 0))
            here = [j for j in start if vms[j] == v]
            moments = sorted([ready, *(end[j] for j in here if end[j] > ready)])
            start[i] = next(t for t in moments if self.room(here, start, end, i, v, t))
            end[i] = start[i] + self.times[i][v]
        return [max(end[i] for i in range(a, b)) for a, b in itertools.pairwise(self.ptr)]

    def room(self, here, start, end, i, v, begin) -> bool:
        """What is held grows at starts only, so looking there is enough."""
        for t in [begin, *(start[j] for j in here if begin < start[j] < begin + self.times[i][v])]:
            held = sum((self.demand[j] for j in here if start[j] <= t < end[j]), self.demand[i])
            if (held > self.cluster.capacity[v] + FREE_TOLERANCE).any():
                return False
        return True


def uneven_pair() -> Cluster:
    """Two VMs that differ in memory, speed and the links to each other."""
    return Cluster((VM(0, 2, 6, 1), VM(1, 2, 4, 1, speed=1.2)), ((0, 0.08), (0.16, 0)))


def check_optimum(plan: Plan, value_s: float, best_s: float) -> None:
    assert value_s == pytest.approx(best_s, rel=1e-6)
    assert plan.bound_s <= best_s + 1e-9
    assert plan.bound_s == pytest.approx(best_s, rel=1e-6)
    assert plan.optimal


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("whole", [True, False], ids=["whole seconds", "rounded seconds"])
def test_equals_brute_force(seed, whole):
    workload, cluster = random_case(seed, 4, whole), uneven_pair()
    plan = Optimal().plan(workload, cluster)
    check_optimum(plan, plan.makespan_s, BruteForce(workload, cluster).makespan_s())


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("objective", ["makespan", "mean_completion"])
def test_equals_brute_force_with_arrivals(seed, objective):
    flows = [random_case(10 * seed + k, n).workflows[0] for k, n in enumerate((2, 2, 1))]
    workload, cluster = Workload(tuple(flows), (1.0, 3.0, 4.5)), uneven_pair()
    plan = Optimal(objective=objective).plan(workload, cluster)
    schedule = plan_to_schedule(plan, workload, cluster)
    schedule.validate()
    metric = f"{objective}_s"
    check_optimum(plan, getattr(schedule, metric), getattr(BruteForce(workload, cluster), metric)())


# --- known optima ----------------------------------------------------------------------------

SLOW = "srasearch"  # rows that take seconds


def known_rows(folder, slow: bool) -> list[dict[str, str]]:
    """The rows of our model (PSPLIB has no machines), the slow ones or the others."""
    with (folder / "known_optima.csv").open(newline="") as file:
        rows = [row for row in csv.DictReader(file) if not row["file"].startswith("psplib")]
    return [row for row in rows if (SLOW in row["file"]) == slow]


def test_example_of_the_heft_paper():
    workload, cluster = paper_example()
    scheduler = Optimal(time_limit_s=60)
    done = simulate(scheduler, workload, cluster, noise=False)
    done.validate()
    assert (done.makespan_s, scheduler.current.bound_s, scheduler.current.optimal) == (OPTIMUM_S, OPTIMUM_S, True)


def known_case(folder, row) -> tuple[Workload, Cluster]:
    if row["file"].startswith("hetero"):
        workflow = load_workflow(folder / "hetero-csv" / "canonicalgraph_task_exe_time.csv")
        return Workload.single(workflow), workflow.cluster
    tasks = load_workflow(folder / row["file"]).tasks
    machines = row["machines"]
    speeds = machines.split("speed")[1].split() if "speed" in machines else ["1"] * int(machines)
    cluster = Cluster(tuple(VM(v, 1, 0, 1, float(speed)) for v, speed in enumerate(speeds)))
    return single(*(Task(t.id, t.duration_mean_s, dependencies=t.dependencies) for t in tasks)), cluster


def check_known_rows(folder, slow: bool, count: int) -> None:
    rows = known_rows(folder, slow)
    assert len(rows) == count
    for row in rows:
        workload, cluster = known_case(folder, row)
        scheduler = Optimal(time_limit_s=60)
        done = simulate(scheduler, workload, cluster, noise=False)
        done.validate()
        assert scheduler.current.optimal, row
        assert done.makespan_s == pytest.approx(float(row["optimum"]), rel=1e-6), row
        assert scheduler.current.bound_s == pytest.approx(float(row["optimum"]), rel=1e-6), row


def test_known_optima(shared_data):
    check_known_rows(shared_data, slow=False, count=19)


def test_known_optima_that_take_seconds(shared_data):
    check_known_rows(shared_data, slow=True, count=3)


# --- guarantees ------------------------------------------------------------------------------


@pytest.mark.parametrize("objective", ["makespan", "mean_completion"])
@settings(max_examples=15, deadline=None)
@given(case=workloads_on_clusters(max_vms=4, max_workflows=3))
def test_valid_never_worse_than_heft_and_above_its_bound(objective, case):
    workload, cluster = case
    scheduler = Optimal(time_limit_s=0.3, objective=objective)
    plan = scheduler.plan(workload, cluster)
    schedule = plan_to_schedule(plan, workload, cluster)
    schedule.validate()
    heft = plan_to_schedule(make("heft").plan(workload, cluster), workload, cluster)
    metric = {"makespan": "makespan_s", "mean_completion": "mean_completion_s"}[objective]
    assert plan.bound_s <= getattr(schedule, metric) <= getattr(heft, metric)
    done = simulate(scheduler, workload, cluster, noise=False)
    done.validate()
    assert (done.start_s <= scheduler.current.start_s).all()
    if len(workload) == 1 and objective == "makespan":
        assert plan.bound_s >= lower_bound_s(workload.workflows[0], cluster) * (1 - 1e-9)
    if plan.optimal:
        assert plan.bound_s == pytest.approx(getattr(schedule, metric), rel=1e-6)


def test_same_seed_same_plan():
    workload, cluster = random_case(5, 9), Cluster((VM(0, 2, 6, 1), VM(1, 2, 4, 1, speed=1.5)))
    first, second = (Optimal(time_limit_s=20, seed=7).plan(workload, cluster) for _ in range(2))
    assert first.optimal
    assert (first.vm == second.vm).all()
    assert (first.start_s == second.start_s).all()
