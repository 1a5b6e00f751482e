"""Exact planning with the CP-SAT solver of OR-tools, on mean durations.

Model: an optional interval per task and VM, one chosen per task; per VM a cumulative
constraint for each resource that can run short, or no overlap where no two tasks fit
together; data adds its transfer time when parent and child are on different VMs. The
solver starts from the best list plan. Its answer is re-timed with the real numbers, so
that the plan obeys the same rules as any other and its makespan is measured, not reported.
"""

from __future__ import annotations

from time import perf_counter
from typing import TYPE_CHECKING

import numpy as np

from thesis_lib.cluster import Cluster
from thesis_lib.ranks import longest_path_down, longest_path_up, lower_bound_s
from thesis_lib.schedulers.base import Plan
from thesis_lib.schedulers.cpop import Cpop
from thesis_lib.schedulers.heft import Heft
from thesis_lib.schedulers.integer_grid import IntegerProblem
from thesis_lib.schedulers.peft import Peft
from thesis_lib.schedulers.plan import PlanScheduler, plan_in_order, rank_order, topological_position
from thesis_lib.simulator import Problem
from thesis_lib.workflow import WorkflowError, finite_number
from thesis_lib.workload import Workload

if TYPE_CHECKING:
    from ortools.sat.python import cp_model

OBJECTIVES = ("makespan", "mean_completion")
LARGEST_MODEL = 300_000  # task-VM pairs + edge-VM pairs beyond which no search is tried
LARGEST_COEFFICIENT_SUM = 2**60  # the solver counts in 64 bits
BOUND_TOLERANCE = 1e-9  # relative: plans this near their bound are optimal, the rest is rounding


class Optimal(PlanScheduler):
    """The best plan that CP-SAT finds within a time limit, with a proved bound.

    Parameters
    ----------
    time_limit_s: wall-clock seconds for building and solving the model.
    workers: threads of the solver. With one, the same seed gives the same plan on every
        machine as long as the search ends with a proof; when the time limit ends it, the
        plan is the best one found so far, which depends on the machine's speed. With
        more, a proved value is the same too, but which plan reaches it may change from
        run to run.
    objective: "makespan" (last finish - first arrival) or "mean_completion" (mean over
        workflows of last finish - arrival).
    seed: of the solver's random choices.

    The plan's `bound_s` is a true lower bound of the objective on mean durations,
    `optimal` is True when the plan reaches it. All arrivals are known beforehand: for a
    stream of workflows this is a clairvoyant reference, not a fair rival. The plan is
    never worse than those of HEFT, CPOP and PEFT. Tasks of zero duration need room only
    in the plan, not in the bound. Beyond LARGEST_MODEL the best list plan is returned
    with a simple bound. Raises WorkflowError when a task fits no VM.
    """

    name = "optimal"

    def __init__(self, time_limit_s: float = 10.0, workers: int = 1, objective: str = "makespan", seed: int = 0):
        self.time_limit_s = finite_number(time_limit_s, "time_limit_s")
        if objective not in OBJECTIVES:
            raise WorkflowError(f"objective must be one of {', '.join(OBJECTIVES)}, got {objective!r}")
        if isinstance(workers, bool) or not isinstance(workers, int) or workers < 1:
            raise WorkflowError(f"workers must be an integer of at least 1, got {workers!r}")
        self.workers, self.objective, self.seed = workers, objective, int(seed)

    def plan(self, workload: Workload, cluster: Cluster) -> Plan:
        """The best plan found, `bound_s` and `optimal` set."""
        began = perf_counter()
        problem = Problem(workload, cluster)
        value = _makespan_s if self.objective == "makespan" else _mean_completion_s
        best = min(_list_plans(problem), key=lambda plan: value(plan, workload))
        bound_s = _simple_bound_s(problem, self.objective)
        if not _reached(value(best, workload), bound_s) and _model_size(problem) <= LARGEST_MODEL:
            found, proved_s = self._search(problem, best, bound_s, began)
            best = min([best, *found], key=lambda plan: value(plan, workload))
            bound_s = max(bound_s, proved_s)
        value_s = value(best, workload)
        optimal = _reached(value_s, bound_s)
        return Plan(best.vm, best.start_s, best.finish_s, bound_s=min(bound_s, value_s), optimal=optimal)

    def _search(self, problem: Problem, start: Plan, bound_s: float, began: float) -> tuple[list[Plan], float]:
        """Plans found (none or one) and the proved lower bound of the objective in seconds."""
        from ortools.sat.python import cp_model

        whole = IntegerProblem(problem, float(start.finish_s.max()))
        model = _Model(whole, start, self.objective, bound_s)
        solver = cp_model.CpSolver()
        solver.parameters.max_time_in_seconds = max(self.time_limit_s - (perf_counter() - began), 0.01)
        solver.parameters.num_workers = self.workers
        solver.parameters.random_seed = self.seed
        status = solver.solve(model.cp)
        if status == cp_model.MODEL_INVALID:
            raise WorkflowError(f"the solver refused the model: {model.cp.validate()}")
        proved_s = model.seconds(solver.best_objective_bound) - whole.slack_s
        if status not in (cp_model.OPTIMAL, cp_model.FEASIBLE):
            return [], proved_s
        return [_retimed(problem, *model.solution(solver))], proved_s


def _makespan_s(plan: Plan, workload: Workload) -> float:
    return plan.makespan_s - workload.arrivals_s[0]


def _mean_completion_s(plan: Plan, workload: Workload) -> float:
    ends = np.maximum.reduceat(plan.finish_s, workload.task_ptr[:-1])
    return float((ends - np.array(workload.arrivals_s)).mean())


def _reached(value_s: float, bound_s: float) -> bool:
    return value_s <= bound_s + BOUND_TOLERANCE * max(1.0, value_s)


def _model_size(problem: Problem) -> int:
    edges = len(problem.views.parent_mb)
    return problem.n * problem.v + (edges * problem.v**2 if problem.has_data else edges)


def _list_plans(problem: Problem) -> list[Plan]:
    """Quick plans to start from: the list planners, one merged order, and the shortest workflow first."""
    workload, cluster = problem.workload, problem.cluster
    plans = [planner().plan(workload, cluster) for planner in (Heft, Peft, Cpop)]
    if len(workload) > 1:
        length_s = np.maximum.reduceat(problem.views.rank_s, workload.task_ptr[:-1])[workload.workflow_of]
        by_rank = rank_order(problem, problem.views.rank_s)
        plans.append(plan_in_order(problem, by_rank))
        plans.append(plan_in_order(problem, by_rank[np.argsort(length_s[by_rank], kind="stable")]))
    return plans


def _simple_bound_s(problem: Problem, objective: str) -> float:
    """A lower bound of the objective without search, seconds."""
    workload, cluster = problem.workload, problem.cluster
    alone = np.array([lower_bound_s(w, cluster) for w in workload.workflows])
    if objective == "mean_completion":
        return float(alone.mean())
    p, arrivals = problem.views, np.array(workload.arrivals_s)
    held = (p.demand * p.exec_s.min(axis=1)[:, None]).sum(axis=0)
    capacity = p.capacity.sum(axis=0)
    area = np.divide(held, capacity, out=np.zeros(3), where=capacity > 0).max()
    return float(max((arrivals + alone).max() - arrivals[0], area))


def _start_order(start: np.ndarray, end: np.ndarray, position: np.ndarray) -> np.ndarray:
    """Task numbers by start, zero durations first among equals, then by topological position."""
    return np.lexsort((position, end > start, start))


def _retimed(problem: Problem, vm: np.ndarray, start: np.ndarray, end: np.ndarray) -> Plan:
    """The plan with the same VMs and the same order, every task as early as the real numbers allow."""
    order = _start_order(start, end, topological_position(problem.workload))
    return plan_in_order(problem, order, fixed_vm=vm)


class _Model:
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
            floor = bound_s * whole.steps_per_s + int(whole.arrival[0])
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
        workload, whole = self.whole.problem.workload, self.whole
        if self.objective == "makespan":
            return objective / whole.steps_per_s - workload.arrivals_s[0]
        return (objective / whole.steps_per_s - sum(workload.arrivals_s)) / len(workload)

    def solution(self, solver: "cp_model.CpSolver") -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """(n,) VM positions, starts and ends in steps."""
        vm = [next(v for v, literal in on.items() if solver.boolean_value(literal)) for on in self.on]
        starts, ends = ([solver.value(x) for x in values] for values in (self.start, self.end))
        return np.array(vm), np.array(starts), np.array(ends)


def _whole_times(whole: IntegerProblem, plan: Plan) -> tuple[np.ndarray, np.ndarray]:
    """(n,) integer starts and ends with the VMs and the order of `plan`: all that ended before it starts still does."""
    p, n = whole.problem.views, whole.problem.n
    order = _start_order(plan.start_s, plan.finish_s, topological_position(whole.problem.workload))
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
