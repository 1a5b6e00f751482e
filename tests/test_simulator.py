"""The simulator against schedules worked out by hand, and its guarantees."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.strategies import workloads_on_clusters
from thesis_lib._kernels import state as layout
from thesis_lib._kernels.compiling import python_form
from thesis_lib.cluster import VM, Cluster
from thesis_lib.plain_simulator import PlainSimulator
from thesis_lib.schedulers import make
from thesis_lib.schedulers.base import Scheduler
from thesis_lib.simulator import READY, Problem, SimulationError, Simulator, simulate
from thesis_lib.workflow import Task, Workflow, WorkflowError
from thesis_lib.workload import Workload, duration_factors


def single(*tasks: Task) -> Workload:
    return Workload.single(Workflow(tasks))


class Script(Scheduler):
    """Plays a fixed list of actions."""

    name = "script"

    def __init__(self, actions):
        self.actions = list(actions)

    def reset(self, workload, cluster, seed):
        self.left = list(self.actions)

    def decide(self, state):
        return self.left.pop(0)


class AnyPair(Scheduler):
    """Any legal pair, or sometimes a wait; draws from its own generator."""

    name = "any"

    def reset(self, workload, cluster, seed):
        self.rng = np.random.default_rng(seed)

    def decide(self, state):
        pairs = state.legal_pairs()
        if state.can_wait and self.rng.random() < 0.3:
            return None
        return tuple(pairs[self.rng.integers(len(pairs))].tolist())


# --- freed resources ---------------------------------------------------------------------


def test_four_tasks_on_two_cores():
    done = simulate(make("fcfs"), single(*[Task(i, 10) for i in range(4)]), Cluster((VM(0, 2, 0, 0),)), noise=False)
    assert done.finish_s.tolist() == [10, 10, 20, 20]


def test_two_tasks_that_fill_the_vm():
    wide = single(Task(0, 10, cpu=4), Task(1, 10, cpu=4))
    assert simulate(make("fcfs"), wide, Cluster((VM(0, 4, 0, 0),)), noise=False).finish_s.tolist() == [10, 20]


def test_memory_and_bandwidth_are_capacities_too():
    cluster = Cluster((VM(0, 8, 4, 1),))
    heavy = single(Task(0, 10, memory_gb=3), Task(1, 10, memory_gb=3), Task(2, 5, bandwidth_gbps=1))
    assert simulate(make("fcfs", backfill=True), heavy, cluster, noise=False).start_s.tolist() == [0, 10, 0]
    chatty = single(Task(0, 10, bandwidth_gbps=0.7), Task(1, 10, bandwidth_gbps=0.7))
    assert simulate(make("fcfs"), chatty, cluster, noise=False).start_s.tolist() == [0, 10]


def test_work_conservation_on_one_core():
    thousand = single(*[Task(i, 1) for i in range(1000)])
    for name in ("fcfs", "sjf", "tetris", "critical_path", "srw", "heft_online", "random"):
        done = simulate(make(name), thousand, Cluster((VM(0, 1, 0, 0),)), noise=False)
        assert done.makespan_s == pytest.approx(1000, abs=1e-6)


def test_rounding_does_not_eat_capacity():
    """Ten tasks of a tenth of a core always fit one core together, again and again."""
    tenths = single(*[Task(i, 1, cpu=0.1) for i in range(1000)])
    assert simulate(make("fcfs"), tenths, Cluster((VM(0, 1, 0, 0),)), noise=False).makespan_s == 100


# --- transfers ---------------------------------------------------------------------------


def transfer_case() -> tuple[Workload, Cluster]:
    """A (5 s) sends 100 MB to B (5 s); the link carries 10 MB/s."""
    return (
        single(Task("A", 5), Task("B", 5, dependencies=("A",), data_mb={"A": 100})),
        Cluster((VM(0, 1, 0, 0.08), VM(1, 1, 0, 0.08))),
    )


def test_transfer_costs_nothing_on_the_same_vm():
    workload, cluster = transfer_case()
    done = simulate(Script([(0, 0), (1, 0)]), workload, cluster, noise=False)
    assert done.start_s.tolist() == [0, 5]


def test_transfer_to_another_vm_is_paid_once():
    workload, cluster = transfer_case()
    done = simulate(Script([(0, 0), None, (1, 1)]), workload, cluster, noise=False)
    assert done.start_s.tolist() == [0, 15]  # 5 + exactly 10
    assert done.ready_s.tolist() == [0, 5]
    assert workload.workflows[0].tasks[1].duration_mean_s == 5  # the workflow is as before
    done.validate()


def test_placing_before_the_data_is_there_is_illegal():
    workload, cluster = transfer_case()
    with pytest.raises(SimulationError, match="data arrives there at 15 s"):
        simulate(Script([(0, 0), (1, 1)]), workload, cluster, noise=False)


def test_transfers_of_several_parents_run_side_by_side():
    tasks = (Task(0, 1), Task(1, 4), Task(2, 1, dependencies=(0, 1), data_mb={0: 100, 1: 10}))
    cluster = Cluster((VM(0, 2, 0, 0.08), VM(1, 1, 0, 0.08)))
    done = simulate(Script([(0, 0), (1, 0), None, (2, 1)]), single(*tasks), cluster, noise=False)
    assert done.start_s[2] == 11  # max(1 + 10, 4 + 1), not their sum


# --- clock, arrivals, ties ---------------------------------------------------------------


def test_placing_takes_no_time_and_wait_jumps_to_the_next_event():
    workload = single(Task(0, 4), Task(1, 6), Task(2, 1))
    simulator = Simulator(Problem(workload, Cluster((VM(0, 2, 0, 0),))), np.ones(3))
    simulator.place(0, 0)
    assert simulator.state.now_s == 0
    simulator.place(1, 0)  # both cores are taken: on to the first finish
    assert simulator.state.now_s == 4
    simulator.wait()  # past a legal pair
    assert simulator.state.now_s == 6


def test_wait_is_illegal_when_nothing_can_happen():
    simulator = Simulator(Problem(single(Task(0, 1)), Cluster.default()), np.ones(1))
    assert not simulator.state.can_wait
    with pytest.raises(SimulationError, match="nothing runs"):
        simulator.wait()


def test_workflows_are_not_seen_before_they_arrive():
    flows = (Workflow((Task(0, 5),)), Workflow((Task(0, 5),)))
    workload = Workload(flows, (3.0, 100.0))
    done = simulate(make("fcfs"), workload, Cluster.default(), noise=False)
    assert done.start_s.tolist() == [3, 100]
    assert done.completion_s.tolist() == [5, 5]
    assert done.makespan_s == 102  # from the first arrival


def test_zero_durations_take_no_time_and_free_their_share_at_once():
    chain = single(Task(0, 0), Task(1, 0, dependencies=(0,)), Task(2, 3, dependencies=(1,)), Task(3, 0))
    done = simulate(make("fcfs"), chain, Cluster((VM(0, 1, 0, 0),)), noise=False)
    assert done.finish_s.tolist() == [0, 0, 3, 0]
    done.validate()


def test_renamed_tasks_give_the_same_schedule():
    plain = single(*[Task(i, 7, cpu=2, dependencies=(i - 3,) if i > 2 else ()) for i in range(30)])
    name_of = [f"t{97 * i % 31}" for i in range(30)]
    other = single(*[Task(name_of[i], 7, cpu=2, dependencies=(name_of[i - 3],) if i > 2 else ()) for i in range(30)])
    for name in ("fcfs", "sjf", "tetris", "critical_path", "srw", "heft_online", "heft_patient", "random"):
        one, two = (simulate(make(name), w, Cluster.default(), seed=4) for w in (plain, other))
        assert one.same_as(two)


def test_an_arrival_that_adds_nothing_to_decide_changes_nothing():
    """A dummy workflow of zero work arrives in the middle: the real tasks run as before."""
    real = Workflow(tuple(Task(i, 3 + i % 4, cpu=2, dependencies=(i - 2,) if i > 1 else ()) for i in range(20)))
    alone = simulate(make("critical_path"), Workload.single(real), Cluster.default(), noise=False)
    both = Workload((real, Workflow((Task(0, 0, cpu=0),))), (0.0, 5.0))
    with_dummy = simulate(make("critical_path"), both, Cluster.default(), noise=False)
    assert np.array_equal(alone.start_s, with_dummy.start_s[:20])
    assert np.array_equal(alone.vm, with_dummy.vm[:20])


# --- speeds and unrelated machines -------------------------------------------------------


def test_speed_divides_and_runtime_replaces():
    cluster = Cluster((VM(0, 1, 0, 0, speed=2), VM(1, 1, 0, 0)))
    workload = single(Task(0, 10), Task(1, 10, runtime_s={0: 7, 1: 9}))
    done = simulate(Script([(0, 0), (1, 1)]), workload, cluster, noise=False)
    assert done.finish_s.tolist() == [5, 9]


def test_a_vm_without_a_runtime_cannot_run_the_task():
    workload = single(Task(0, 10, runtime_s={1: 9}))
    done = simulate(make("fcfs"), workload, Cluster.default(), noise=False)
    assert done.vm.tolist() == [1]
    with pytest.raises(SimulationError):
        simulate(Script([(0, 0)]), workload, Cluster.default(), noise=False)


# --- common random numbers ---------------------------------------------------------------


def noisy() -> Workload:
    return single(*[Task(i, 100, 15, dependencies=(i - 5,) if i > 4 else ()) for i in range(300)])


def test_every_scheduler_meets_the_same_durations():
    runs = [simulate(make(name), noisy(), Cluster.default(), seed=3) for name in ("fcfs", "srw", "random", "tetris")]
    drawn = [(r.finish_s - r.start_s) for r in runs]
    for other in drawn[1:]:
        assert np.allclose(drawn[0], other, rtol=1e-9)
    assert not np.allclose(drawn[0], 100)


def test_draws_have_the_stated_mean_and_deviation():
    factor = duration_factors(Workload.single(Workflow(tuple(Task(i, 10, 1.5) for i in range(20000)))), seed=1)
    assert factor.mean() == pytest.approx(1, abs=4 * 0.15 / math.sqrt(20000))
    assert factor.std() == pytest.approx(0.15, rel=0.03)
    assert (factor > 0).all()


def test_seed_repeats_and_differs():
    one, again, other = (simulate(make("fcfs"), noisy(), Cluster.default(), seed=s) for s in (1, 1, 2))
    assert one.same_as(again)
    assert not one.same_as(other)


def test_zero_deviation_and_zero_mean_are_exact():
    factor = duration_factors(single(Task(0, 5, 0), Task(1, 0, 3)), seed=8)
    assert factor.tolist() == [1, 1]


def test_global_random_state_is_never_read_or_changed():
    np.random.seed(1)  # noqa: NPY002
    before = np.random.get_state()[1].copy()  # noqa: NPY002
    one = simulate(make("random"), noisy(), Cluster.default(), seed=5)
    assert np.array_equal(before, np.random.get_state()[1])  # noqa: NPY002
    np.random.seed(2)  # noqa: NPY002
    assert one.same_as(simulate(make("random"), noisy(), Cluster.default(), seed=5))


def test_the_state_does_not_hold_drawn_durations():
    """Until the first finish, the states of two different draws are the same bytes."""
    problem = Problem(noisy(), Cluster.default())
    prints = []
    for seed in (1, 2):
        simulator = Simulator(problem, duration_factors(problem.workload, seed))
        simulator.place(0, 2)
        simulator.place(1, 1)
        assert np.isnan(simulator.state.finish_s).all()
        prints.append(simulator.state.fingerprint())
    assert prints[0] == prints[1]


def test_a_scheduler_cannot_write_to_the_state():
    simulator = Simulator(Problem(single(Task(0, 1)), Cluster.default()), np.ones(1))
    for array in (simulator.state.free, simulator.state.status, simulator.state.ready):
        with pytest.raises(ValueError):
            array[...] = 0


# --- refusals ----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("task", "words"),
    [
        (Task("big", 1, cpu=33), "33 cores of cpu .largest VM: 32"),
        (Task("fat", 1, memory_gb=500), "500 GB of memory"),
        (Task("odd", 1, runtime_s={"gone": 3}), "a run time"),
    ],
)
def test_work_that_fits_nowhere_is_refused_before_the_run(task, words):
    workload = single(Task("ok", 1), task)
    for name in ("fcfs", "random", "heft", "heft_single", "cpop", "peft", "optimal", "srw", "heft_online"):
        with pytest.raises(WorkflowError, match=words) as caught:
            simulate(make(name), workload, Cluster.default())
        assert repr(task.id) in str(caught.value)


def test_demands_that_no_single_vm_offers_together():
    cluster = Cluster((VM(0, 8, 1, 1), VM(1, 1, 8, 1)))
    with pytest.raises(WorkflowError, match="together"):
        simulate(make("fcfs"), single(Task(0, 1, cpu=4, memory_gb=4)), cluster)


def test_data_over_a_link_without_bandwidth_is_refused():
    cluster = Cluster((VM(0, 1, 0, 0), VM(1, 1, 0, 0)))
    with pytest.raises(WorkflowError, match="no bandwidth"):
        simulate(make("fcfs"), single(Task(0, 1), Task(1, 1, dependencies=(0,), data_mb={0: 1})), cluster)
    simulate(make("fcfs"), single(Task(0, 1), Task(1, 1, dependencies=(0,))), cluster)  # nothing to send: fine


@pytest.mark.parametrize("seed", [-1, 1.5, "1", None, True])
def test_bad_seeds_are_refused(seed):
    with pytest.raises(WorkflowError, match="seed"):
        simulate(make("fcfs"), single(Task(0, 1)), Cluster.default(), seed=seed)


@pytest.mark.parametrize("action", [(-1, 0), (9, 0), (0, -1), (0, 3), (1, 0)])
def test_illegal_actions_say_why(action):
    with pytest.raises(SimulationError, match="cannot place task"):
        simulate(Script([action]), single(Task(0, 1), Task(1, 1, dependencies=(0,))), Cluster.default())


@pytest.mark.parametrize("pair", [(-1, 0), (0, -1), (10**9, 0), (0, 10**7)])
def test_fits_knows_its_bounds(pair):
    simulator = Simulator(Problem(single(Task(0, 1)), Cluster.default()), np.ones(1))
    assert simulator.state.fits(0, 0)
    assert not simulator.state.fits(*pair)


@pytest.mark.parametrize("factor", [[1.0], [1.0, -0.5], [1.0, float("nan")], [1.0, float("inf")]])
def test_bad_factors_are_refused_by_run_and_branch(factor):
    problem = Problem(single(Task(0, 1), Task(1, 1)), Cluster.default())
    with pytest.raises(SimulationError, match="duration_factor"):
        Simulator(problem, np.array(factor))
    with pytest.raises(SimulationError, match="duration_factor"):
        Simulator.branch(Simulator(problem, np.ones(2)).state, np.array(factor))


def test_times_that_leave_the_range_of_numbers_are_refused():
    with pytest.raises(WorkflowError, match="'tiny' has a standard deviation of .* times its mean"):
        simulate(make("fcfs"), single(Task("tiny", 1e-155, 1)), Cluster.default())
    for task in (Task("long", 8e307, 8e307), Task("long", 1e16)):
        with pytest.raises(WorkflowError, match="'long'.*check the units"):
            simulate(make("fcfs"), single(task, Task("b", 8e307)) if task.duration_std_s else single(task),
                     Cluster.default())  # fmt: skip


def test_streams_of_random_numbers_do_not_meet():
    """The draws of durations are not those that a generator or a scheduler makes with related seeds."""
    flows = tuple(Workflow(tuple(Task(i, 1, 1) for i in range(8))) for _ in range(7))
    drawn = duration_factors(Workload.together(flows), 7001)
    for words in ([7001, 5], [7001], [7100, 5], [7300, 7001]):
        z = np.random.default_rng(words).standard_normal(8)
        factor = np.exp(np.sqrt(np.log(2)) * z - np.log(2) / 2)
        assert not any(np.allclose(factor, drawn[8 * w : 8 * w + 8]) for w in range(7))


# --- properties --------------------------------------------------------------------------


@settings(max_examples=60, deadline=None)
@given(case=workloads_on_clusters(max_vms=4, max_workflows=3), seed=st.integers(0, 9))
def test_every_step_equals_that_of_the_plain_simulator(case, seed):
    factor, rng = duration_factors(case[0], seed), np.random.default_rng(seed)
    plain, fast = PlainSimulator(*case, factor), Simulator(Problem(*case), factor)
    while not plain.done:
        pairs = plain.legal_pairs()
        assert plain.now_s == fast.state.now_s
        assert pairs == sorted(map(tuple, fast.state.legal_pairs().tolist()))
        if fast.state.can_wait and rng.random() < 0.3:
            plain.wait(), fast.wait()
        else:
            pair = pairs[rng.integers(len(pairs))]
            plain.place(*pair), fast.place(*pair)
    assert fast.done
    assert plain.schedule().same_as(fast.schedule())
    plain.schedule().validate()


def test_views_cover_the_buffers_exactly():
    problem = Problem(noisy(), Cluster.default())
    for has_data in (True, False):
        views = problem.views._replace(has_data=has_data)
        si, sf = (np.zeros(size) for size in layout.state_sizes(problem.n, problem.v, problem.w, has_data))
        state = python_form(layout.state_views)(views, si, sf)
        assert sum(view.size for view in state) == si.size + sf.size
    hi, hf = (np.zeros(size) for size in layout.hidden_sizes(problem.n))
    assert sum(view.size for view in python_form(layout.hidden_views)(problem.views, hi, hf)) == hi.size + hf.size
    named = [view for view in problem.views if isinstance(view, np.ndarray)]
    assert sum(view.size for view in named) + 5 == problem.pi.size + problem.pf.size


def brute_force_pairs(problem: Problem, state) -> list[tuple[int, int]]:
    """Legal pairs from first principles: what runs where, whose parents are done, whose data has arrived."""
    workload, cluster = problem.workload, problem.cluster
    pairs = []
    for t in range(problem.n):
        w = int(workload.workflow_of[t])
        offset, workflow = int(workload.task_ptr[w]), workload.workflows[w]
        task = workload.task(t)
        parents = [offset + workflow.index(p) for p in task.dependencies]
        finished = all(not math.isnan(state.finish_s[p]) for p in parents)
        if state.vm[t] >= 0 or workload.arrivals_s[w] > state.now_s or not finished:
            continue
        for v, vm in enumerate(cluster.vms):
            running = [i for i in range(problem.n) if state.vm[i] == v and math.isnan(state.finish_s[i])]
            used = np.sum([problem.views.demand[i] for i in running], axis=0) if running else np.zeros(3)
            room = (used + problem.views.demand[t] <= cluster.capacity[v] + 1e-9).all()
            runs = task.runtime_s is None or vm.id in task.runtime_s
            arrived = all(
                state.vm[p] == v
                or not task.data_mb.get(workload.task(p).id, 0)
                or state.finish_s[p] + task.data_mb[workload.task(p).id] / cluster.link_mb_per_s[state.vm[p], v]
                <= state.now_s
                for p in parents
            )
            if room and runs and arrived:
                pairs.append((t, v))
    return pairs


@settings(max_examples=60, deadline=None)
@given(case=workloads_on_clusters(max_vms=4, max_workflows=2), seed=st.integers(0, 9))
def test_legal_pairs_equal_a_brute_force_list_at_every_step(case, seed):
    problem = Problem(*case)
    simulator = Simulator(problem, duration_factors(case[0], seed))
    scheduler = AnyPair()
    scheduler.reset(*case, seed)
    while not simulator.done:
        pairs = simulator.state.legal_pairs()
        assert len(pairs)  # a decision point always offers something
        assert sorted(map(tuple, pairs.tolist())) == brute_force_pairs(problem, simulator.state)
        assert all(simulator.state.fits(t, v) for t, v in pairs)
        action = scheduler.decide(simulator.state)
        simulator.wait() if action is None else simulator.place(*action)
    simulator.schedule().validate()


@settings(max_examples=40, deadline=None)
@given(case=workloads_on_clusters(), seed=st.integers(0, 9))
def test_a_branch_goes_on_like_the_run_itself_and_leaves_it_alone(case, seed):
    problem, factor = Problem(*case), duration_factors(case[0], seed)
    simulator = Simulator(problem, factor)
    scheduler = AnyPair()
    scheduler.reset(*case, seed)
    while not simulator.done:
        before = simulator.state.fingerprint()
        twin = Simulator.branch(simulator.state, factor)
        make("srw").run(twin)
        assert simulator.state.fingerprint() == before
        action = scheduler.decide(simulator.state)
        simulator.wait() if action is None else simulator.place(*action)
    simulator = Simulator(problem, factor)
    twin = Simulator.branch(simulator.state, factor)
    make("srw").run(simulator)
    make("srw").run(twin)
    assert simulator.schedule().same_as(twin.schedule())


def test_branch_from_the_middle_equals_the_original_future():
    problem, factor = Problem(noisy(), Cluster.default()), duration_factors(noisy(), 3)
    simulator, rule = Simulator(problem, factor), make("srw")
    rule.reset(problem.workload, problem.cluster, 0)
    while (simulator.state.status == READY).sum() and np.isnan(simulator.state.finish_s).sum() > 150:
        action = rule.decide(simulator.state)
        simulator.wait() if action is None else simulator.place(*action)
    twin = Simulator.branch(simulator.state, factor)
    rule.run(simulator)
    rule.run(twin)
    assert simulator.schedule().same_as(twin.schedule())


def test_a_copied_state_is_independent():
    problem = Problem(noisy(), Cluster.default())
    simulator = Simulator(problem, np.ones(problem.n))
    kept = simulator.state.copy()
    before = kept.fingerprint()
    assert before == simulator.state.fingerprint()
    simulator.place(0, 0)
    assert kept.fingerprint() == before != simulator.state.fingerprint()


@pytest.mark.parametrize(
    ("scheduler", "workload", "cluster", "words"),
    [
        ("heft", single(Task(1, 1)), Cluster.default(), r"use make\('heft'\)"),
        (None, single(Task(1, 1)), Cluster.default(), "such as make.'heft'. gives, got None"),
        (Script, single(Task(1, 1)), Cluster.default(), "such as make.'heft'. gives, got <class"),
        (Script([]), Workflow((Task(1, 1),)), Cluster.default(), r"use Workload.single\(workflow\)"),
        (Script([]), [Workflow((Task(1, 1),))], Cluster.default(), r"got list; use Workload.together\(workflows\)"),
        (Script([]), single(Task(1, 1)), [VM(0, 1, 1, 1)], "takes a Cluster, got list"),
        (Script([]), Cluster.default(), single(Task(1, 1)), "takes a Workload, got Cluster"),
    ],
)
def test_arguments_of_another_kind_are_named_with_the_remedy(scheduler, workload, cluster, words):
    with pytest.raises(WorkflowError, match=words):
        simulate(scheduler, workload, cluster)
