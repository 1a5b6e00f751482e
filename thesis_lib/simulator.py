"""The event-driven simulator: placing a task takes no time, waiting jumps to the next event.

At a decision point some ready task, whose data has arrived on that VM, fits some VM.
Events at equal times are handled in the order (time, kind, index) with the kinds
finish, data arrival, workflow arrival. Durations are drawn before the run from
(seed, workflow, task) alone, so that every scheduler meets the same ones.
"""

from __future__ import annotations

import hashlib
from operator import index
from time import perf_counter
from typing import TYPE_CHECKING

import numpy as np

from thesis_lib._kernels import events, policies, rules
from thesis_lib._kernels import state as layout
from thesis_lib._kernels.compiling import python_form
from thesis_lib._kernels.state import BLOCKED, DONE, READY, RUNNING
from thesis_lib.cluster import Cluster, exec_time_s
from thesis_lib.ranks import longest_path_down, mean_exec_s, mean_transfer_s, on_critical_path
from thesis_lib.schedule import Schedule
from thesis_lib.workflow import RESOURCE_UNITS, RESOURCES, Workflow, WorkflowError
from thesis_lib.workload import Workload, duration_factors

if TYPE_CHECKING:
    from thesis_lib.schedulers.base import Scheduler

__all__ = ["BLOCKED", "DONE", "READY", "RUNNING", "Problem", "SimulationError", "Simulator", "State", "simulate"]

LONGEST_RUN_S = 1e15  # thirty million years: times keep a resolution of a tenth of a second
_SCHEDULER_STREAM = 7300  # first word of the schedulers' own random streams


class SimulationError(RuntimeError):
    """A scheduler asked for something illegal; the message says what and when."""


class Problem:
    """A workload on a cluster as flat arrays; n tasks numbered through, v VMs.

    Raises WorkflowError, naming task and need, when a task fits no VM, and when data
    would have to cross a link without bandwidth.
    """

    def __init__(self, workload: Workload, cluster: Cluster):
        self.workload, self.cluster = workload, cluster
        exec_s = np.concatenate([exec_time_s(w, cluster) for w in workload.workflows])
        _refuse_misfits(workload, cluster, exec_s)
        flows, ptr = workload.workflows, workload.task_ptr
        parent_mb = np.concatenate([w.parent_mb for w in flows])
        _refuse_dead_links(cluster, bool(parent_mb.any()))
        _refuse_overflow(workload, cluster, exec_s, parent_mb)
        demand = np.concatenate([w.demand for w in flows])
        mean_s = mean_exec_s(exec_s)
        rank_s = np.concatenate(
            [
                longest_path_down(w, mean_s[ptr[k] : ptr[k + 1]], mean_transfer_s(w, cluster))
                for k, w in enumerate(flows)
            ]
        )
        self.n, self.v, self.w = workload.n_tasks, len(cluster), len(flows)
        self.has_data = bool(parent_mb.any()) and self.v > 1
        header = [self.n, self.v, self.w, len(parent_mb), int(self.has_data)]
        self.pi = np.concatenate([
            header, workload.workflow_of, ptr,
            _joined_ptr([w.parent_ptr for w in flows]), *[w.parent_idx + o for w, o in zip(flows, ptr)],
            _joined_ptr([w.child_ptr for w in flows]), *[w.child_idx + o for w, o in zip(flows, ptr)],
        ]).astype(np.int64)  # fmt: skip
        self.pf = np.concatenate([
            demand.ravel(), exec_s.ravel(), cluster.capacity.ravel(), workload.arrivals_s, parent_mb,
            cluster.link_mb_per_s.ravel(), mean_s, _on_grid(rank_s, rank_s.max(), 40),
            np.concatenate([w.mean_s for w in flows]), cluster.capacity.sum(axis=0),
            _on_grid(work := mean_s * _scarcest_share(demand, cluster), work.sum(), 50),
            [task.priority for w in flows for task in w.tasks], *[on_critical_path(w) for w in flows],
        ]).astype(np.float64)  # fmt: skip
        self.pi.flags.writeable = self.pf.flags.writeable = False
        self.views = python_form(layout.problem_views)(self.pi, self.pf)


def _joined_ptr(pointers: list[np.ndarray]) -> np.ndarray:
    """One CSR pointer for several graphs that are numbered through."""
    return np.concatenate([[0], np.cumsum(np.concatenate([np.diff(p) for p in pointers]))])


def _on_grid(values: np.ndarray, largest: float, bits: int) -> np.ndarray:
    """Values rounded to multiples of a power of two, `bits` binary digits below `largest`.

    Sums and differences of such numbers are exact, so that what is equal by hand is a tie
    here too, and ties are broken by the rule and not by rounding.
    """
    if largest <= 0:
        return values
    step = 2.0 ** (np.floor(np.log2(largest)) - bits)
    return np.round(values / step) * step


def _scarcest_share(demand: np.ndarray, cluster: Cluster) -> np.ndarray:
    """(n,) the largest share of the whole cluster's capacity that a task holds of any resource."""
    total = cluster.capacity.sum(axis=0)
    return np.divide(demand, total, out=np.zeros_like(demand), where=total > 0).max(axis=1)


def _refuse_misfits(workload: Workload, cluster: Cluster, exec_s: np.ndarray) -> None:
    hopeless = np.flatnonzero(~np.isfinite(exec_s).any(axis=1))
    if not len(hopeless):
        return
    i = int(hopeless[0])
    task, largest = workload.task(i), cluster.capacity.max(axis=0)
    demand = (task.cpu, task.memory_gb, task.bandwidth_gbps)
    needs = [
        f"{need:g} {unit} of {resource} (largest VM: {limit:g})"
        for need, limit, resource, unit in zip(demand, largest, RESOURCES, RESOURCE_UNITS)
        if need > limit + layout.FREE_TOLERANCE
    ]
    if not needs:
        needs = ["a VM that offers all its demands together and for which it has a run time"]
    more = f"; {len(hopeless) - 1} more tasks fit no VM either" if len(hopeless) > 1 else ""
    raise WorkflowError(
        f"{workload.describe_task(i)} fits no VM of the cluster: it needs {' and '.join(needs)}{more}; "
        "use a larger cluster or lower the demand"
    )


def _refuse_overflow(workload: Workload, cluster: Cluster, exec_s: np.ndarray, parent_mb: np.ndarray) -> None:
    """All times of a run must stay far inside the range of floating-point numbers."""
    slowest_s = np.where(np.isfinite(exec_s), exec_s, 0.0).max(axis=1)
    with np.errstate(over="ignore"):
        longest_s = workload.arrivals_s[-1] + slowest_s.sum()
        if parent_mb.any():
            longest_s += parent_mb.sum() / cluster.link_mb_per_s.min()
    if not longest_s < LONGEST_RUN_S:
        i = int(slowest_s.argmax())
        raise WorkflowError(
            f"the run could take {longest_s:g} s, more than {LONGEST_RUN_S:g} s; the longest task is "
            f"{workload.describe_task(i)} with {slowest_s[i]:g} s: check the units of durations, data and speeds"
        )


def _refuse_dead_links(cluster: Cluster, has_data: bool) -> None:
    dead = np.argwhere(cluster.link_mb_per_s == 0)
    if has_data and len(dead):
        a, b = (cluster.vms[k].id for k in dead[0])
        raise WorkflowError(
            f"the workflow sends data, but the link from VM {a!r} to VM {b!r} has no bandwidth; give it one above 0"
        )


class State:
    """What a scheduler sees: read-only arrays by task number (n) and VM position (v).

    Attributes: status, vm (-1 before the start), ready_s, start_s, finish_s (NaN until
    known), free (v, 3), vm_load (v,), data_s (n, v) when data is complete on a VM. Drawn
    durations are not in here. sums (8,) are running totals (see `_kernels.state`).
    """

    def __init__(self, problem: Problem, si: np.ndarray, sf: np.ndarray):
        self.problem, self._si, self._sf = problem, si, sf
        shown_i, shown_f = si.view(), sf.view()
        shown_i.flags.writeable = shown_f.flags.writeable = False
        views = python_form(layout.state_views)(problem.views, shown_i, shown_f)
        self._counts, self._now, self._ready, self._running = views.counts, views.now, views.ready, views.running
        self.status, self.vm, self.vm_load = views.status, views.vm, views.vm_load
        self.ready_s, self.start_s, self.finish_s = views.ready_s, views.start_s, views.finish_s
        self.free, self.data_s = views.free, views.data_s
        self._work_left, self._tasks_left, self._done_s = views.work_left, views.tasks_left, views.done_s
        self.sums = views.sums
        self.n_tasks, self.n_vms = problem.n, problem.v

    @property
    def now_s(self) -> float:
        """Seconds since the start."""
        return float(self._now[0])

    @property
    def ready(self) -> np.ndarray:
        """Ready task numbers in the order in which they became ready."""
        return self._ready[: self._counts[layout.READY_COUNT]]

    @property
    def running(self) -> np.ndarray:
        """Running task numbers, in no particular order."""
        return self._running[: self._counts[layout.RUNNING_COUNT]]

    @property
    def arrived(self) -> int:
        """How many workflows have arrived."""
        return int(self._counts[layout.ARRIVED])

    @property
    def work_left(self) -> np.ndarray:
        """Work of the unfinished tasks of each workflow that has arrived (s x share of the scarcest resource)."""
        return self._work_left[: self.arrived]

    @property
    def tasks_left(self) -> np.ndarray:
        """Number of unfinished tasks of each workflow that has arrived."""
        return self._tasks_left[: self.arrived]

    @property
    def done_s(self) -> np.ndarray:
        """When each workflow that has arrived finished its last task, NaN until then (seconds)."""
        return self._done_s[: self.arrived]

    @property
    def arguments(self) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
        """What a kernel takes: the buffers of problem and state. They are not to be written to."""
        return self.problem.pi, self.problem.pf, self._si, self._sf

    @property
    def can_wait(self) -> bool:
        """True when an event lies ahead, so that waiting is legal."""
        counts = self._counts
        return bool(counts[layout.RUNNING_COUNT] or counts[layout.PENDING] or counts[layout.ARRIVED] < self.problem.w)

    def fits(self, task: int, vm: int) -> bool:
        """True when `task` is ready and can start on `vm` now."""
        known = 0 <= task < self.n_tasks and 0 <= vm < self.n_vms
        return known and events.task_fits(*self.arguments, task, vm)

    def running_on(self, vm: int) -> int:
        """Number of tasks that run on `vm`."""
        return int(self.vm_load[vm])

    def legal_pairs(self) -> np.ndarray:
        """(k, 2) every (task, VM) that can start now, in ready order, then by VM."""
        return events.legal_pairs(*self.arguments)

    def copy(self) -> "State":
        """An independent copy (two memory copies; the problem is shared)."""
        return State(self.problem, self._si.copy(), self._sf.copy())

    def fingerprint(self) -> str:
        """A hash of everything in the state, to show that a search has not changed it."""
        return hashlib.sha256(self._si.tobytes() + self._sf.tobytes()).hexdigest()


class Simulator:
    """Runs one workload on one cluster; `state` is what schedulers see."""

    def __init__(self, problem: Problem, duration_factor: np.ndarray):
        """duration_factor: (n,) drawn / mean duration of each task, finite and above 0."""
        si, sf = layout.state_sizes(problem.n, problem.v, problem.w, problem.has_data)
        self._allocate(problem, np.zeros(si, np.int64), np.zeros(sf), duration_factor)
        self._check(events.start(*self._buffers))

    @classmethod
    def branch(cls, state: State, duration_factor: np.ndarray) -> "Simulator":
        """A simulator that goes on from a copy of `state` with other durations, for search.

        A running task that, by its factor, should have ended already ends now.
        """
        self = cls.__new__(cls)
        self._allocate(state.problem, state._si.copy(), state._sf.copy(), duration_factor)
        events.rebuild_events(*self._buffers)
        self._check(layout.OK)
        return self

    def _allocate(self, problem: Problem, si: np.ndarray, sf: np.ndarray, duration_factor: np.ndarray) -> None:
        factor = np.asarray(duration_factor, dtype=np.float64)
        if factor.shape != (problem.n,):
            raise SimulationError(f"duration_factor must have shape ({problem.n},), got {factor.shape}")
        if not (np.isfinite(factor).all() and (factor > 0).all()):
            raise SimulationError("duration_factor must be finite and above 0 for every task")
        self.problem, self.state = problem, State(problem, si, sf)
        hi, hf = layout.hidden_sizes(problem.n)
        self._hi, self._hf = np.zeros(hi, np.int64), np.zeros(hf)
        self._hf[: problem.n] = factor
        self._buffers = (problem.pi, problem.pf, si, sf, self._hi, self._hf)

    def twin(self) -> "Simulator":
        """An independent simulator with the same state and the same drawn durations."""
        return self.branch(self.state, self._hf[: self.problem.n])

    @property
    def buffers(self) -> tuple[np.ndarray, ...]:
        """Problem, state and hidden buffers (see `_kernels.state`), for running many simulators in one kernel."""
        return self._buffers

    def place(self, task: int, vm: int) -> None:
        """Start `task` on `vm` now, then go to the next decision point; SimulationError when illegal."""
        try:
            task, vm = index(task), index(vm)
        except TypeError:
            raise SimulationError(f"a task and a VM must be whole numbers, got {task!r} and {vm!r}") from None
        if (code := events.place(*self._buffers, task, vm)) == layout.ILLEGAL:
            where = f"task {task} on VM {vm} at {self.state.now_s:g} s"
            raise SimulationError(f"cannot place {where}: {self._why(task, vm)}")
        self._check(code)

    def wait(self) -> None:
        """Jump to the next event and on to the next decision point; SimulationError when there is none."""
        if (code := events.wait(*self._buffers)) == layout.ILLEGAL:
            raise SimulationError(f"cannot wait at {self.state.now_s:g} s: nothing runs and nothing will arrive")
        self._check(code)

    def run_rule(self, rule: int, rng: np.ndarray) -> int:
        """Let a rule of `_kernels.rules` decide to the end; returns the number of tasks placed."""
        decisions = rules.run_rule(rule, *self._buffers, rng)
        self._check(layout.STUCK if decisions < 0 else layout.OK)
        return decisions

    def run_policy(self, network: tuple, room: tuple, temperature: float, rng: np.ndarray) -> int:
        """Let a network decide to the end (see `_kernels.policies.run_policy`); returns the number of decisions."""
        decisions = policies.run_policy(*network, *self._buffers, *room, temperature, rng)
        self._check(layout.STUCK if decisions < 0 else layout.OK)
        return decisions

    def _check(self, code: int) -> None:
        if code == layout.STUCK:
            raise SimulationError(f"no task can start and no event lies ahead at {self.state.now_s:g} s")
        self.done = bool(self.state._counts[layout.DONE_COUNT] == self.problem.n)

    def _why(self, task: int, vm: int) -> str:
        state = self.state
        if not 0 <= task < state.n_tasks:
            return f"there is no such task (0 to {state.n_tasks - 1})"
        if not 0 <= vm < state.n_vms:
            return f"there is no such VM (0 to {state.n_vms - 1})"
        if state.status[task] != READY:
            return f"the task is {('not ready', 'ready', 'running', 'done')[state.status[task]]}"
        if self.problem.has_data and state.data_s[task, vm] > state.now_s:
            return f"its data arrives there at {state.data_s[task, vm]:g} s"
        return f"it needs {self.problem.views.demand[task].tolist()} and {state.free[vm].tolist()} is free"

    def schedule(self, **about: object) -> Schedule:
        """The finished run as a Schedule; `about` fills its descriptive fields."""
        if not self.done:
            done = self.state._counts[layout.DONE_COUNT]
            raise SimulationError(f"the run is not finished: {done} of {self.state.n_tasks} tasks are done")
        state, n = self.state, self.problem.n
        return Schedule(
            self.problem.workload, self.problem.cluster, state.vm.copy(), state.ready_s.copy(), state.start_s.copy(),
            state.finish_s.copy(), duration_factor=self._hf[:n].copy(), **about,
        )  # fmt: skip


def simulate(
    scheduler: "Scheduler", workload: Workload, cluster: Cluster, seed: int = 0, noise: bool = True
) -> Schedule:
    """Run `workload` on `cluster` and return what happened.

    seed fixes the drawn durations (equal for every scheduler) and, through a stream of
    its own, the scheduler's choices. noise=False runs every task for exactly its mean
    duration. Raises WorkflowError before the run when a task fits no VM, and
    SimulationError when the scheduler asks for something illegal.
    """
    _refuse_wrong_kinds(scheduler, workload, cluster)
    if isinstance(seed, bool) or not isinstance(seed, (int, np.integer)) or seed < 0:
        raise WorkflowError(f"seed must be an integer of at least 0, got {seed!r}")
    problem = Problem(workload, cluster)
    factor = duration_factors(workload, int(seed)) if noise else np.ones(problem.n)
    simulator = Simulator(problem, factor)
    began = perf_counter()
    scheduler.reset(workload, cluster, scheduler_seed(int(seed)))
    planning_s = perf_counter() - began
    decision_latency_s = scheduler.run(simulator)
    return simulator.schedule(
        scheduler=scheduler.name,
        seed=int(seed),
        planned_makespan_s=scheduler.planned_makespan_s,
        planning_s=planning_s,
        decision_latency_s=decision_latency_s,
    )


def _refuse_wrong_kinds(scheduler: object, workload: object, cluster: object) -> None:
    """Raise WorkflowError, with the remedy, for arguments of `simulate` that are something else."""
    if isinstance(scheduler, str):
        raise WorkflowError(f"simulate takes a scheduler, got the text {scheduler!r}; use make({scheduler!r})")
    if isinstance(scheduler, type) or not all(hasattr(scheduler, name) for name in ("reset", "run", "name")):
        raise WorkflowError(f"simulate takes a scheduler such as make('heft') gives, got {scheduler!r}")
    if isinstance(workload, Workflow):
        raise WorkflowError("simulate takes a Workload, got a Workflow; use Workload.single(workflow)")
    if not isinstance(workload, Workload):
        raise WorkflowError(
            f"simulate takes a Workload, got {type(workload).__name__}; use Workload.together(workflows)"
        )
    if not isinstance(cluster, Cluster):
        raise WorkflowError(f"simulate takes a Cluster, got {type(cluster).__name__}; use Cluster.default()")


def scheduler_seed(seed: int) -> int:
    """The seed that a scheduler is given: not the one of the durations, which it must not be able to draw."""
    return int(np.random.SeedSequence([_SCHEDULER_STREAM, seed]).generate_state(1, np.uint64)[0])
