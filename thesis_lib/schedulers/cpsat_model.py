"""The CP-SAT model of `optimal`: whole steps of time, optional intervals per task and VM."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from thesis_lib.ranks import longest_path_down, longest_path_up
from thesis_lib.schedulers.base import Plan
from thesis_lib.schedulers.integer_grid import IntegerProblem
from thesis_lib.schedulers.plan import replay_order, topological_position

if TYPE_CHECKING:
    from ortools.sat.python import cp_model

LARGEST_COEFFICIENT_SUM = 2**60  # the solver counts in 64 bits


class CpSatModel:
    """The CP-SAT model of one integer problem, started from a plan."""

    def __init__(self, whole: IntegerProblem, start: Plan, objective: str, bound_s: float):
        from ortools.sat.python import cp_model

        self.whole, self.p, self.objective = whole, whole.problem.views, objective
        self.n, self.v = whole.problem.n, whole.problem.v
        self.cp: cp_model.CpModel = cp_model.CpModel()
        hint_start, hint_end = _whole_times(whole, start)
        self._bounds(hint_end)
        self._tasks()
        self._precedence()
        self._capacities()
        self._objective(bound_s)
        self._hint(start.vm, hint_start)

    def _bounds(self, hint_end: np.ndarray) -> None:
        """Earliest start and latest finish of each task, from the fastest run times and the start plan's value."""
        whole, workload = self.whole, self.whole.problem.workload
        fastest = np.where(whole.exec >= 0, whole.exec, np.iinfo(np.int64).max).min(axis=1)
        ptr = workload.task_ptr.tolist()
        head, tail = np.zeros(self.n, np.int64), np.zeros(self.n, np.int64)
        for w, flow in enumerate(workload.workflows):
            own, free = fastest[ptr[w] : ptr[w + 1]], np.zeros(len(flow.parent_idx))
            head[ptr[w] : ptr[w + 1]] = whole.arrival[w] + longest_path_up(flow, own, free).astype(np.int64)
            tail[ptr[w] : ptr[w + 1]] = longest_path_down(flow, own, free).astype(np.int64) - own
        soonest = np.maximum.reduceat(head + fastest, ptr[:-1])  # (W,) no workflow ends before
        ends = np.maximum.reduceat(hint_end, ptr[:-1])
        if self.objective == "makespan":
            latest = np.full(len(ends), ends.max())
        else:  # no workflow may end so late that the others cannot make up for it
            latest = ends.sum() - (soonest.sum() - soonest)
        self.earliest, self.latest = head, latest[workload.workflow_of] - tail
        self.soonest, self.latest_end = soonest, latest

    def _tasks(self) -> None:
        """Start, end and, for every VM that can run the task, a literal and an optional interval."""
        self.start, self.end, self.on, self.interval, self.whole_interval = [], [], [], [], []
        for i in range(self.n):
            able = np.flatnonzero(self.whole.exec[i] >= 0).tolist()
            on = {v: self.cp.new_bool_var(f"on{i}_{v}") for v in able}
            self.cp.add_exactly_one(on.values())
            self.on.append(on)
            self._intervals(i, {v: int(self.whole.exec[i, v]) for v in able})

    def _intervals(self, i: int, steps: dict[int, int]) -> None:
        """The intervals of task i, which takes steps[v] on VM v."""
        cp, least, on = self.cp, min(steps.values()), self.on[i]
        start = cp.new_int_var(int(self.earliest[i]), int(self.latest[i]) - least, f"start{i}")
        if max(steps.values()) == least:
            size, end = least, start + least
        else:
            end = cp.new_int_var(int(self.earliest[i]) + least, int(self.latest[i]), f"end{i}")
            size = cp.new_int_var(least, max(steps.values()), f"size{i}")
            cp.add(size == sum(s * on[v] for v, s in steps.items()))
        self.interval.append({
            v: cp.new_optional_interval_var(start, s, end, on[v], f"run{i}_{v}") for v, s in steps.items()
        })  # fmt: skip
        self.whole_interval.append(cp.new_interval_var(start, size, end, f"task{i}"))
        self.start.append(start)
        self.end.append(end)

    def _precedence(self) -> None:
        p, transfer = self.p, self.whole.transfer
        child_of_edge = np.repeat(np.arange(self.n), np.diff(p.parent_ptr)).tolist()
        for e, (parent, child) in enumerate(zip(p.parent_idx.tolist(), child_of_edge)):
            self.cp.add(self.start[child] >= self.end[parent])
            if transfer[e].any():
                self._transfer(parent, child, transfer[e])

    def _transfer(self, parent: int, child: int, steps: np.ndarray) -> None:
        """The data of one edge: steps[q, v] from VM q to VM v.

        For each VM of the child one constraint holds from all other VMs (the fastest
        link into it), and one for each sender whose link is slower.
        """
        for v, child_on in self.on[child].items():
            senders = {q: int(steps[q, v]) for q in self.on[parent] if q != v}
            if not senders:
                continue
            least = min(senders.values())
            away = [child_on, self.on[parent][v].negated()] if v in self.on[parent] else [child_on]
            if least:
                self.cp.add(self.start[child] >= self.end[parent] + least).only_enforce_if(away)
            for q, delay in senders.items():
                if delay > least:
                    both = [child_on, self.on[parent][q]]
                    self.cp.add(self.start[child] >= self.end[parent] + delay).only_enforce_if(both)

    def _capacities(self) -> None:
        """Capacities per VM, and for the bound's sake of all VMs together."""
        times, demand, capacity = self.whole.exec, self.whole.demand, self.whole.capacity
        self.loads: list[tuple[int, np.ndarray, int]] = []  # (VM, demand per task, capacity) that can run short
        alone = [self._alone(np.flatnonzero(times[:, v] > 0), v) for v in range(self.v)]
        for v in range(self.v):
            tasks = np.flatnonzero(times[:, v] > 0)
            if len(tasks) < 2:
                continue
            if alone[v]:
                self.cp.add_no_overlap([self.interval[i][v] for i in tasks])
                self.loads.append((v, np.ones(self.n, np.int64), 1))
                continue
            for r in range(3):
                if demand[tasks, r].sum() > capacity[v, r]:
                    users = [i for i in tasks if demand[i, r]]
                    intervals = [self.interval[i][v] for i in users]
                    self.cp.add_cumulative(intervals, demand[users, r].tolist(), int(capacity[v, r]))
                    self.loads.append((v, demand[:, r], int(capacity[v, r])))
        if self.v > 1:
            if all(alone):
                self._together(np.ones(self.n, np.int64), self.v)
            for r in range(3):
                self._together(demand[:, r], int(capacity[:, r].sum()))

    def _alone(self, tasks: np.ndarray, v: int) -> bool:
        """True when no two of the tasks fit on VM v together."""
        lightest = np.sort(self.whole.demand[tasks], axis=0)[:2].sum(axis=0)
        return len(tasks) < 2 or bool((lightest > self.whole.capacity[v]).any())

    def _together(self, demand: np.ndarray, capacity: int) -> None:
        users = [i for i in range(self.n) if demand[i] and self.whole.exec[i].max() > 0]
        if demand[users].sum() > capacity:
            self.cp.add_cumulative([self.whole_interval[i] for i in users], demand[users].tolist(), capacity)

    def _objective(self, bound_s: float) -> None:
        """Minimise the last end, or the sum of the workflows' last ends; bound_s is known already."""
        cp, whole = self.cp, self.whole
        if self.objective == "makespan":
            last = cp.new_int_var(int(self.soonest.max()), int(self.latest_end.max()), "last")
            self.last = [last] * len(self.soonest)
            cp.minimize(last)
            floor = (bound_s - self._idle_s() + whole.arrival_s[0]) * whole.steps_per_s
            cp.add(last >= min(int(np.ceil(floor * (1 - 1e-12) - 1e-6)), int(self.latest_end.max())))
            self._load_bounds(last - int(whole.arrival[0]))
        else:
            self.last = [
                cp.new_int_var(int(low), int(high), f"last{w}")
                for w, (low, high) in enumerate(zip(self.soonest, self.latest_end))
            ]
            cp.minimize(sum(self.last))
        workload = whole.problem.workload
        p = self.p
        for i in np.flatnonzero(np.diff(p.child_ptr) == 0).tolist():
            cp.add(self.last[int(workload.workflow_of[i])] >= self.end[i])

    def _load_bounds(self, span: "cp_model.LinearExpr") -> None:
        """What runs on a VM cannot hold more than its capacity over the whole span."""
        for v, demand, capacity in self.loads:
            tasks = np.flatnonzero((self.whole.exec[:, v] > 0) & (demand > 0)).tolist()
            held = [int(self.whole.exec[i, v]) * int(demand[i]) for i in tasks]
            if sum(held) + capacity * int(self.latest_end.max()) < LARGEST_COEFFICIENT_SUM:
                self.cp.add(sum(h * self.on[i][v] for h, i in zip(held, tasks)) <= capacity * span)

    def _hint(self, vm: np.ndarray, start: np.ndarray) -> None:
        for i in range(self.n):
            self.cp.add_hint(self.start[i], int(start[i]))
            for v, literal in self.on[i].items():
                self.cp.add_hint(literal, v == vm[i])

    def seconds(self, objective: float) -> float:
        """The solver's objective (or its bound) as seconds of makespan or mean completion."""
        arrival_s = self.whole.arrival_s
        if self.objective == "makespan":
            return objective / self.whole.steps_per_s - arrival_s[0] + self._idle_s()
        return (objective / self.whole.steps_per_s - arrival_s.sum()) / len(arrival_s)

    def _idle_s(self) -> float:
        """Seconds of idle gaps that the shift took from the makespan."""
        return float(self.whole.shift_s[-1] - self.whole.shift_s[0])

    def solution(self, solver: "cp_model.CpSolver") -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """(n,) VM positions, starts and ends in steps."""
        vm = [next(v for v, literal in on.items() if solver.boolean_value(literal)) for on in self.on]
        starts, ends = ([solver.value(x) for x in values] for values in (self.start, self.end))
        return np.array(vm), np.array(starts), np.array(ends)


def _whole_times(whole: IntegerProblem, plan: Plan) -> tuple[np.ndarray, np.ndarray]:
    """(n,) integer starts and ends with the VMs and the order of `plan`: all that ended before it starts still does."""
    p, n = whole.problem.views, whole.problem.n
    order = replay_order(plan.start_s, plan.finish_s, topological_position(whole.problem.workload))
    start, end = np.zeros(n, np.int64), np.zeros(n, np.int64)
    for k, i in enumerate(order.tolist()):
        v, earlier = plan.vm[i], order[:k]
        before = earlier[(plan.vm[earlier] == v) & (plan.finish_s[earlier] <= plan.start_s[i])]
        moments = [int(whole.arrival[p.workflow_of[i]]), *end[before].tolist()]
        for e in range(p.parent_ptr[i], p.parent_ptr[i + 1]):
            parent = p.parent_idx[e]
            moments.append(int(end[parent] + whole.transfer[e, plan.vm[parent], v]))
        start[i] = max(moments)
        end[i] = start[i] + whole.exec[i, v]
    return start, end
