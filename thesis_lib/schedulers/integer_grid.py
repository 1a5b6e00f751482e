"""Seconds and demands as whole numbers, for exact solvers that know nothing else.

Values are counted in steps. Where a number of steps per unit makes every value whole
(decimals such as 0.1 s, or fractions such as 1/3 s), nothing is rounded. Where there is
none, durations, transfers and arrivals are rounded up, so that a schedule of the integer
problem is one of the real problem, and `slack_s` says by how much this can lengthen it.
Demands without such a number are rounded down, so that the integer problem is a
relaxation whose bound holds for the real one.
"""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np

from thesis_lib._kernels.state import FREE_TOLERANCE
from thesis_lib.simulator import Problem

DECIMAL_STEPS = (1, 10, 100, 1000, 10_000, 100_000)
MOST_STEPS = 1_000_000  # per unit
LONGEST_EXACT = 10**9  # steps of the horizon up to which an exact grid is used
LARGEST_EXACT = 10**6  # steps of the largest capacity up to which an exact grid is used
LONGEST_ROUNDED = 10**9  # steps of the horizon on a rounded grid
ROUNDED_CAPACITY = 10**5  # steps of the largest capacity on a rounded grid


def exact_steps(values: np.ndarray, largest: float, most: float) -> int | None:
    """Steps per unit that make every value whole while `largest` has at most `most` steps, or None.

    Decimal grids are tried first, then the least common denominator.
    """
    values = np.unique(values)
    for steps in DECIMAL_STEPS:
        if _whole(values, steps):
            return steps if largest * steps <= most else None
    steps = 1
    for value in values.tolist():
        steps = math.lcm(steps, Fraction(value).limit_denominator(1000).denominator)
        if steps > MOST_STEPS or largest * steps > most:
            return None
    return steps if _whole(values, steps) else None


def _whole(values: np.ndarray, steps: int) -> bool:
    scaled = values * steps
    return bool((np.abs(scaled - np.rint(scaled)) <= _rounding(scaled)).all())


def _rounding(scaled: np.ndarray) -> np.ndarray:
    """What floating point may have added to a whole number of steps."""
    return 1e-9 + 4e-16 * np.abs(scaled)


def steps_up(values: np.ndarray, steps: float) -> np.ndarray:
    """Values as whole steps, rounded up; infinite values become -1."""
    scaled = np.where(np.isfinite(values), values, 0.0) * steps
    whole = np.ceil(scaled - _rounding(scaled))
    return np.where(np.isfinite(values), whole, -1).astype(np.int64)


def steps_down(values: np.ndarray, steps: float) -> np.ndarray:
    """Values as whole steps, rounded down."""
    scaled = values * steps
    return np.floor(scaled + _rounding(scaled)).astype(np.int64)


class IntegerProblem:
    """A problem in whole steps; n tasks, v VMs, e edges.

    Attributes
    ----------
    steps_per_s: steps in a second. slack_s: how many seconds of a finish time rounding
        can account for at most (0 on an exact grid).
    exec: (n, v) run times, -1 where the task cannot run. arrival: (W,).
    transfer: (e, v, v) from the parent's VM to the task's, edges as in `parent_idx`; 0
        within a VM and without data.
    demand: (n, 3), capacity: (v, 3).
    """

    def __init__(self, problem: Problem, horizon_s: float):
        """horizon_s: no time of interest is later."""
        p = problem.views
        self.problem = problem
        with np.errstate(invalid="ignore"):
            transfer_s = p.parent_mb[:, None, None] / p.link[None, :, :]
        finite = np.isfinite(p.exec_s)
        times = np.concatenate([p.exec_s[finite], transfer_s.ravel(), p.arrival_s])
        steps = exact_steps(times, horizon_s, LONGEST_EXACT)
        self.exact = steps is not None
        self.steps_per_s = steps or 10.0 ** math.floor(math.log10(LONGEST_ROUNDED / horizon_s))
        self.exec = steps_up(p.exec_s, self.steps_per_s)
        self.transfer = steps_up(transfer_s, self.steps_per_s)
        self.arrival = steps_up(p.arrival_s, self.steps_per_s)
        self.slack_s = 0.0 if self.exact else self._slack_s(transfer_s)
        self.demand, self.capacity = _whole_demands(p.demand, p.capacity)

    def _slack_s(self, transfer_s: np.ndarray) -> float:
        """Rounding along the worst chain: each task once, one transfer into each task, one arrival."""
        p, steps = self.problem.views, self.steps_per_s
        tasks = np.where(self.exec >= 0, self.exec / steps - np.where(self.exec >= 0, p.exec_s, 0.0), 0.0).max(axis=1)
        edges = (self.transfer / steps - transfer_s).max(axis=(1, 2), initial=0.0)
        into = np.zeros(self.problem.n)
        np.maximum.at(into, np.repeat(np.arange(self.problem.n), np.diff(p.parent_ptr)), edges)
        arrival = (self.arrival / steps - p.arrival_s).max()
        return float(np.maximum(tasks, 0.0).sum() + into.sum() + max(arrival, 0.0))


def _whole_demands(demand: np.ndarray, capacity: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """(n, 3) demands and (v, 3) capacities in steps of each resource."""
    whole_demand, whole_capacity = np.zeros(demand.shape, np.int64), np.zeros(capacity.shape, np.int64)
    for r in range(demand.shape[1]):
        largest = capacity[:, r].max()
        steps = exact_steps(demand[:, r], largest, LARGEST_EXACT) or ROUNDED_CAPACITY / largest
        whole_demand[:, r] = steps_down(demand[:, r], steps)
        whole_capacity[:, r] = steps_down(capacity[:, r] + FREE_TOLERANCE, steps)
    return whole_demand, whole_capacity
