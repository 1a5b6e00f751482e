"""Static planning: list scheduling with insertion, and the scheduler that replays a plan.

Every planner here gives the tasks an order and lets `Draft.place` put them, one after
another, where they finish first. A task may fill any gap in which its demands fit beside
what is reserved (insertion), several tasks share a VM up to its capacities, and all times
are mean durations.
"""

from __future__ import annotations

import heapq
import itertools
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from thesis_lib._kernels import planning as kernels
from thesis_lib.cluster import Cluster
from thesis_lib.schedule import Schedule
from thesis_lib.schedulers.base import Plan, Scheduler
from thesis_lib.simulator import READY, RUNNING, Problem
from thesis_lib.workflow import WorkflowError
from thesis_lib.workload import Workload

if TYPE_CHECKING:
    from thesis_lib.simulator import State


class Draft:
    """A plan in the making: what has been placed so far, on which VM and when.

    problem: the workload and the cluster as arrays; n tasks, v VMs.
    exclusive: each VM runs one task at a time, whatever its capacity.
    """

    def __init__(self, problem: Problem, exclusive: bool = False):
        self.problem, self.exclusive = problem, exclusive
        self.views, capacity, n = problem.views, problem.views.capacity, problem.n
        if exclusive:  # one core each, one core per VM
            demand, capacity = np.tile([1.0, 0.0, 0.0], (n, 1)), np.ones((problem.v, 3))
            demand.flags.writeable = False  # as in the problem: the kernels are compiled once
            self.views = self.views._replace(demand=demand)
        self.book = kernels.empty_book(capacity, n)
        self.placed = kernels.Placed(np.full(n, -1), np.full(n, np.nan), np.full(n, np.nan))

    def place(
        self, order: np.ndarray, look_ahead_s: np.ndarray | None = None, fixed_vm: np.ndarray | None = None
    ) -> None:
        """Place the tasks of `order` (task numbers, parents first) where each finishes first.

        look_ahead_s: (n, v) seconds added to the finish time when VMs are compared.
        fixed_vm: (n,) VM position a task must go to, -1 for free choice. Ties go to the
        lowest VM position. Raises WorkflowError when a task can go nowhere.
        """
        guide = kernels.Guide(
            np.empty((0, self.problem.v)) if look_ahead_s is None else look_ahead_s,
            np.empty(0, np.int64) if fixed_vm is None else fixed_vm,
        )
        lost = kernels.fill_in_order(self.views, order, guide, self.book, self.placed)
        if lost >= 0:
            raise WorkflowError(f"{self.problem.workload.describe_task(lost)} cannot be placed on any VM it may use")

    def forget_before(self, moment_s: float) -> None:
        """Tell the draft that nothing will be placed before `moment_s` any more (keeps long streams fast)."""
        kernels.forget_before(self.book, moment_s)

    def plan(self) -> Plan:
        """The finished plan."""
        return Plan(*self.placed, exclusive=self.exclusive)


def plan_in_order(
    problem: Problem,
    order: np.ndarray,
    *,
    exclusive: bool = False,
    look_ahead_s: np.ndarray | None = None,
    fixed_vm: np.ndarray | None = None,
) -> Plan:
    """Plan all tasks in the given order (task numbers, parents first), each where it finishes first.

    The core that the list planners and the searches share; see `Draft.place`.
    """
    draft = Draft(problem, exclusive)
    draft.place(np.ascontiguousarray(order, dtype=np.int64), look_ahead_s, fixed_vm)
    return draft.plan()


def topological_position(workload: Workload) -> np.ndarray:
    """(n,) place of each task in the topological order of its workflow, the workflows one after another."""
    position = np.empty(workload.n_tasks, np.int64)
    for first, workflow in zip(workload.task_ptr.tolist(), workload.workflows):
        position[first + workflow.topological_order] = np.arange(first, first + len(workflow))
    return position


def rank_order(problem: Problem, rank_s: np.ndarray) -> np.ndarray:
    """All tasks by falling rank_s (n,), ties by topological position.

    Parents come first as long as no parent has a smaller rank than its child.
    """
    return np.lexsort((topological_position(problem.workload), -rank_s))


def ready_order(problem: Problem, priority: np.ndarray) -> np.ndarray:
    """All tasks as a ready list gives them out: of those whose parents are out, the largest priority (n,) first.

    Ties go by topological position. For unconnected workflows the list of some of them
    is the list of all with the others left out.
    """
    p = problem.views
    keys, position = (-priority).tolist(), topological_position(problem.workload).tolist()
    ptr, children = p.child_ptr.tolist(), p.child_idx.tolist()
    missing = np.diff(p.parent_ptr).tolist()
    heap = [(keys[t], position[t], t) for t in range(problem.n) if missing[t] == 0]
    heapq.heapify(heap)
    order = []
    while heap:
        t = heapq.heappop(heap)[2]
        order.append(t)
        for c in children[ptr[t] : ptr[t + 1]]:
            missing[c] -= 1
            if missing[c] == 0:
                heapq.heappush(heap, (keys[c], position[c], c))
    return np.array(order, dtype=np.int64)


def arrival_groups(workload: Workload) -> list[tuple[int, int]]:
    """(first task, last task + 1) for each set of workflows that arrive together, in order of arrival."""
    firsts = np.flatnonzero(np.diff(workload.arrivals_s, prepend=-1.0))
    return list(itertools.pairwise([*workload.task_ptr[firsts].tolist(), workload.n_tasks]))


def plan_to_schedule(plan: Plan, workload: Workload, cluster: Cluster, scheduler: str = "") -> Schedule:
    """The plan as a Schedule, so that its metrics and `validate` can be used before it is run."""
    ready_s = np.repeat(np.array(workload.arrivals_s), np.diff(workload.task_ptr))
    for first, workflow in zip(workload.task_ptr.tolist(), workload.workflows):
        child = first + np.repeat(np.arange(len(workflow)), np.diff(workflow.parent_ptr))
        np.maximum.at(ready_s, child, plan.finish_s[first + workflow.parent_idx])
    makespan_s = plan.makespan_s - workload.arrivals_s[0]
    return Schedule(workload, cluster, plan.vm, ready_s, plan.start_s, plan.finish_s,
                    scheduler=scheduler, planned_makespan_s=makespan_s)  # fmt: skip


class PlanScheduler(Scheduler):
    """Base of all planners: `plan` makes the plan, `decide` replays it.

    Each VM starts the tasks that it knows of in the order of their planned starts, and
    none before all earlier ones have started. It knows the tasks of the workflows that
    have arrived, or all from the beginning if the class is `clairvoyant`. The plan is not
    remade when durations turn out otherwise. It still runs to the end then, because the
    order of planned starts never puts a child before its parent.

    With durations as planned, no task starts later than planned:

    - Clairvoyant: when a planned start comes, all tasks before it in the VM's queue have
      started, none of them late. So the parents have finished, and what runs on the VM is
      part of what the plan lets run there.
    - Not clairvoyant: the same holds unless a task slips in ahead of one that has yet to
      arrive, and then runs where the plan has no room for it. A plan is safe from this
      when every task starts as early as it fits beside those that were placed before it,
      and none of these arrives later than the task itself; `ListPlanner` makes such plans.
      For take the first task that starts before its planned start. What kept it from
      starting then in the plan is known to its VM: either runs as planned at that moment
      and leaves no room, or is planned to start after it and before the task's own planned
      start, hence stands before it in the queue. Both contradict the early start, so all
      tasks start exactly as planned and none slips in.
    """

    clairvoyant = False  # may use workflows that have not arrived
    current: Plan | None = None  # the plan of the last reset
    _workload: Workload | None = None
    _cluster: Cluster | None = None

    def plan(self, workload: Workload, cluster: Cluster) -> Plan:
        """Plan the workload on mean durations. Raises WorkflowError when a task fits no VM."""
        raise TypeError(f"{type(self).__name__} must define plan(workload, cluster)")

    def reset(self, workload: Workload, cluster: Cluster, seed: int) -> None:
        """Make the plan, unless the last one was for these very objects; `seed` does not change it."""
        if workload is not self._workload or cluster is not self._cluster:
            self.current = self.plan(workload, cluster)
            self._workload, self._cluster = workload, cluster
            order = replay_order(self.current.start_s, self.current.finish_s, topological_position(workload))
            self._order, self._place = order.tolist(), np.argsort(order).tolist()
            self._vm = self.current.vm.tolist()
        self._queues: list[list[int]] = [[] for _ in cluster.vms]  # per VM a heap of places in the order
        self._known = 0  # workflows whose tasks have been queued
        if self.clairvoyant:
            self._enqueue(len(workload))

    def _enqueue(self, arrived: int) -> None:
        """Queue the tasks of all workflows with numbers below `arrived`."""
        for t in range(*self._workload.task_ptr[[self._known, arrived]].tolist()):
            heapq.heappush(self._queues[self._vm[t]], self._place[t])
        self._known = arrived

    def decide(self, state: "State") -> tuple[int, int] | None:
        """The first VM whose next task can start now; None when there is none."""
        if self._known < (arrived := state.arrived):
            self._enqueue(arrived)
        status, order, exclusive = state.status, self._order, self.current.exclusive
        for v, queue in enumerate(self._queues):
            while queue and status[order[queue[0]]] >= RUNNING:
                heapq.heappop(queue)
            if not queue or (exclusive and state.running_on(v)):
                continue
            task = order[queue[0]]
            if status[task] == READY and state.fits(task, v):
                return task, v
        return None

    @property
    def planned_makespan_s(self) -> float | None:
        """Planned last finish minus first arrival, seconds; None before the first reset."""
        return None if self.current is None else self.current.makespan_s - self._workload.arrivals_s[0]


def replay_order(start: np.ndarray, finish: np.ndarray, position: np.ndarray) -> np.ndarray:
    """(n,) task numbers by planned start; every parent comes before its children.

    At equal starts those of zero duration come first: a task that takes time cannot be
    the parent of one that starts with it. Then by `position`, the topological one.
    """
    return np.lexsort((position, finish > start, start))


@dataclass(frozen=True)
class ListRule:
    """What a list planner decides beforehand: the order of all tasks, and what else guides `Draft.place`."""

    order: np.ndarray  # (n,) task numbers, parents first
    look_ahead_s: np.ndarray | None = None  # (n, v)
    fixed_vm: np.ndarray | None = None  # (n,) VM position or -1


class ListPlanner(PlanScheduler):
    """Base of HEFT and its kin.

    Workflows that arrive together are planned together, in one merged order. Each such
    group is planned for its arrival without knowledge of later ones, on top of what is
    reserved for earlier ones and as if these ran as planned: plans are not remade when
    durations turn out otherwise.
    """

    exclusive = False

    def rule(self, problem: Problem) -> ListRule:
        """The order in which tasks are placed, and what guides it; one group must not depend on another."""
        raise TypeError(f"{type(self).__name__} must define rule(problem)")

    def plan(self, workload: Workload, cluster: Cluster) -> Plan:
        """Plan group after group. Raises WorkflowError when a task fits no VM."""
        problem = Problem(workload, cluster)
        rule, draft = self.rule(problem), Draft(problem, self.exclusive)
        groups = arrival_groups(workload)
        group_of = np.repeat(np.arange(len(groups)), [last - first for first, last in groups])
        by_group = rule.order[np.argsort(group_of[rule.order], kind="stable")]
        for first, last in groups:
            draft.forget_before(problem.views.arrival_s[problem.views.workflow_of[first]])
            draft.place(by_group[first:last], rule.look_ahead_s, rule.fixed_vm)
        return draft.plan()
