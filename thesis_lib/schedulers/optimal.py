"""Exact planning with the CP-SAT solver of OR-tools, on mean durations.

Model: an optional interval per task and VM, one chosen per task; per VM a cumulative
constraint for each resource that can run short, or no overlap where no two tasks fit
together; data adds its transfer time when parent and child are on different VMs. The
solver starts from the best list plan. Durations on no exact grid are searched on a fine grid,
for a while on a coarse one that soon gives most of the bound, and on the fine one again
from what that found. The solver's answer is re-timed with the real numbers, so
that the plan obeys the same rules as any other and its makespan is measured, not reported.
"""

from __future__ import annotations

import math
from time import perf_counter
from typing import NamedTuple

import numpy as np

from thesis_lib.cluster import Cluster
from thesis_lib.generators import whole_number
from thesis_lib.ranks import lower_bound_s
from thesis_lib.schedulers.base import Plan
from thesis_lib.schedulers.cpop import Cpop
from thesis_lib.schedulers.cpsat_model import CpSatModel
from thesis_lib.schedulers.heft import Heft
from thesis_lib.schedulers.integer_grid import LONGEST_ROUNDED, IntegerProblem, idle_shift_s
from thesis_lib.schedulers.peft import Peft
from thesis_lib.schedulers.plan import PlanScheduler, plan_in_order, rank_order, replay_order, topological_position
from thesis_lib.simulator import Problem
from thesis_lib.workflow import WorkflowError, finite_number
from thesis_lib.workload import Workload

OBJECTIVES = ("makespan", "mean_completion")
LARGEST_MODEL = 300_000  # task-VM pairs + edge-VM pairs beyond which no search is tried
LARGEST_SEED = 2**31 - 1  # the solver's parameters are 32-bit integers
MOST_WORKERS = 1000
BOUND_TOLERANCE = 1e-9  # relative: plans this near their bound are optimal, the rest is rounding
COARSE = 10**4  # steps of the horizon on a grid that gives a bound soon, but no proof
ROUNDED_SEARCHES = ((LONGEST_ROUNDED, 0.25), (COARSE, 0.5), (LONGEST_ROUNDED, 1.0))  # steps, share of the time left
LARGEST_SLACK = 1e-6  # of the objective: with more rounding than this nothing counts as proved


class Optimal(PlanScheduler):
    """The best plan that CP-SAT finds within a time limit, with a proved bound.

    Parameters
    ----------
    time_limit_s: wall-clock seconds for list plans, building and solving the model, above 0. One
        list plan (HEFT) is made whatever the limit; once it is spent, the others are left out.
    workers: threads of the solver, at least 1. With one, the same seed gives the same plan on every
        machine as long as the searches end with a proof; when the time limit ends it, the
        plan is the best one found so far, which depends on the machine's speed. With
        more, a proved value is the same too, but which plan reaches it may change from
        run to run.
    objective: "makespan" (last finish - first arrival) or "mean_completion" (mean over
        workflows of last finish - arrival).
    seed: of the solver's random choices, a whole number from 0 to LARGEST_SEED.

    The plan's `bound_s` is a true lower bound of the objective on mean durations;
    `optimal` is True when the plan reaches it, up to the rounding of durations that lie on
    no exact grid and of floating-point times, and only while these are at most 1e-6 of the
    objective. All arrivals are known beforehand: for a stream of workflows this is a
    clairvoyant reference, not a fair rival. The plan is never worse than that of HEFT nor,
    when the time limit allows for them, those of PEFT and CPOP. Tasks of zero duration need
    room only in the plan, not in the bound. Beyond LARGEST_MODEL the best list plan is
    returned with a simple bound. Raises WorkflowError for other values of the parameters,
    and when a task fits no VM.
    """

    name = "optimal"
    clairvoyant = True

    def __init__(self, time_limit_s: float = 10.0, workers: int = 1, objective: str = "makespan", seed: int = 0):
        self.time_limit_s = finite_number(time_limit_s, "time_limit_s (seconds, above 0)", minimum=-math.inf)
        if self.time_limit_s <= 0:
            raise WorkflowError(f"time_limit_s must be a number of seconds above 0, got {time_limit_s!r}")
        self.workers = whole_number(workers, "workers", 1, MOST_WORKERS)
        if objective not in OBJECTIVES:
            raise WorkflowError(f"objective must be one of {', '.join(OBJECTIVES)}, got {objective!r}")
        self.objective = objective
        self.seed = whole_number(seed, "seed", 0, LARGEST_SEED)

    def plan(self, workload: Workload, cluster: Cluster) -> Plan:
        """The best plan found, `bound_s` and `optimal` set."""
        until = perf_counter() + self.time_limit_s
        problem = Problem(workload, cluster)
        value = _makespan_s if self.objective == "makespan" else _mean_completion_s
        best = min(_list_plans(problem, until), key=lambda plan: value(plan, workload))
        bound_s = _simple_bound_s(problem, self.objective)
        optimal = _reached(value(best, workload), bound_s, _float_slack_s(best))
        for longest, share in ROUNDED_SEARCHES:
            if optimal or _model_size(problem) > LARGEST_MODEL or perf_counter() >= until:
                break
            found = self._search(problem, best, bound_s, (until, share), longest)
            best = min([best, *found.plans], key=lambda plan: value(plan, workload))
            bound_s = max(bound_s, found.bound_s)
            value_s, float_s = value(best, workload), _float_slack_s(best)
            optimal = _reached(value_s, bound_s, float_s) or _reached(value_s, bound_s, float_s + found.slack_s)
            if found.final:
                break
        return Plan(best.vm, best.start_s, best.finish_s, bound_s=min(bound_s, value(best, workload)), optimal=optimal)

    def _search(self, problem: Problem, start: Plan, bound_s: float, time: tuple[float, float], longest: int) -> _Found:
        """One model, solved from the plan `start` with a bound that is known already.

        time: (end of the time limit, share of what is left that may be used if the grid is
        a rounded one). longest: steps of the horizon on a rounded grid.
        """
        from ortools.sat.python import cp_model

        ends = np.maximum.reduceat(start.finish_s, problem.workload.task_ptr[:-1])
        shift_s = idle_shift_s(problem.views.arrival_s, ends + _float_slack_s(start))
        whole = IntegerProblem(problem, float((ends - shift_s).max()), shift_s, longest)
        model = CpSatModel(whole, start, self.objective, bound_s)
        solver = cp_model.CpSolver()
        until, share = time
        left_s = (until - perf_counter()) * (1.0 if whole.exact else share)
        solver.parameters.max_time_in_seconds = max(left_s, 0.01)
        solver.parameters.num_workers = self.workers
        solver.parameters.random_seed = self.seed
        status = solver.solve(model.cp)
        if status == cp_model.MODEL_INVALID:
            raise WorkflowError(f"the solver refused the model: {model.cp.validate()}")
        solved = status in (cp_model.OPTIMAL, cp_model.FEASIBLE)
        plans = [_retimed(problem, *model.solution(solver))] if solved else []
        proved_s = model.seconds(solver.best_objective_bound) - whole.slack_s
        final = whole.exact or (longest == LONGEST_ROUNDED and status == cp_model.OPTIMAL)
        return _Found(plans, proved_s, whole.slack_s, final)


class _Found(NamedTuple):
    """Plans (none or one), proved bound and slack of rounding in seconds, whether other grids can add nothing."""

    plans: list[Plan]
    bound_s: float
    slack_s: float
    final: bool


def _makespan_s(plan: Plan, workload: Workload) -> float:
    return plan.makespan_s - workload.arrivals_s[0]


def _mean_completion_s(plan: Plan, workload: Workload) -> float:
    ends = np.maximum.reduceat(plan.finish_s, workload.task_ptr[:-1])
    return float((ends - np.array(workload.arrivals_s)).mean())


def _reached(value_s: float, bound_s: float, slack_s: float) -> bool:
    """True when the value is as low as the bound, up to the slack of rounding, and the slack is small enough."""
    if value_s == bound_s == 0:
        return True
    return bool(slack_s <= LARGEST_SLACK * value_s and value_s <= bound_s + slack_s + BOUND_TOLERANCE * value_s)


def _float_slack_s(plan: Plan) -> float:
    """Seconds that floating-point sums as large as the last finish can be wrong by, one per task."""
    return len(plan.vm) * float(np.spacing(plan.finish_s.max()))


def _model_size(problem: Problem) -> int:
    edges = len(problem.views.parent_mb)
    return problem.n * problem.v + (edges * problem.v**2 if problem.has_data else edges)


def _list_plans(problem: Problem, until: float) -> list[Plan]:
    """Quick plans to start from: the list planners, one merged order, and the shortest workflow first.

    HEFT's is always made, the others as long as the time is not over.
    """
    workload, cluster = problem.workload, problem.cluster
    by_rank = rank_order(problem, problem.views.rank_s)
    makers = [planner().plan for planner in (Heft, Peft, Cpop)]
    if len(workload) > 1:
        length_s = np.maximum.reduceat(problem.views.rank_s, workload.task_ptr[:-1])[workload.workflow_of]
        shortest_first = by_rank[np.argsort(length_s[by_rank], kind="stable")]
        makers += [lambda *_: plan_in_order(problem, by_rank), lambda *_: plan_in_order(problem, shortest_first)]
    plans = [makers[0](workload, cluster)]
    plans += [make(workload, cluster) for make in makers[1:] if perf_counter() < until]
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
    return float(max((arrivals - arrivals[0] + alone).max(), area))


def _retimed(problem: Problem, vm: np.ndarray, start: np.ndarray, end: np.ndarray) -> Plan:
    """The plan with the same VMs and the same order, every task as early as the real numbers allow."""
    order = replay_order(start, end, topological_position(problem.workload))
    return plan_in_order(problem, order, fixed_vm=vm)
