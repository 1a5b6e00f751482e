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
FURTHEST_EXACT = 10**12  # steps of the last arrival up to which its last digits can be trusted
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
    whole = np.rint(scaled)
    lost = (whole == 0) & (values > 0)  # too short for the grid, not zero
    return bool(((np.abs(scaled - whole) <= _rounding(scaled)) & ~lost).all())


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


def idle_shift_s(arrival_s: np.ndarray, end_s: np.ndarray) -> np.ndarray:
    """(W,) whole seconds by which each workflow can come earlier, because nothing need run before it.

    arrival_s: (W,) sorted. end_s: (W,) when each workflow ends in some known schedule.
    Take the workflows since the last idle gap. A best schedule of them alone has no larger
    last finish and no larger sum of completions than the known one, so it ends before
    their last arrival + the sum of their known completions. What arrives after that does
    not meet them, in this or the shifted problem, and whole seconds keep an exact grid exact.
    """
    shift_s = np.zeros(len(arrival_s))
    shift_s[0], work_s = math.floor(arrival_s[0]), 0.0
    for w in range(1, len(arrival_s)):
        work_s += end_s[w - 1] - arrival_s[w - 1]
        idle_s = math.floor(arrival_s[w] - arrival_s[w - 1] - work_s)
        shift_s[w] = shift_s[w - 1] + max(idle_s, 0)
        if idle_s > 0:
            work_s = 0.0
    return shift_s


class IntegerProblem:
    """A problem in whole steps; n tasks, v VMs, e edges.

    Attributes
    ----------
    steps_per_s: steps in a second. slack_s: how many seconds of a finish time rounding
        can account for at most (0 on an exact grid).
    shift_s: (W,) whole seconds taken from all times of a workflow (`idle_shift_s`).
    exec: (n, v) run times, -1 where the task cannot run, or not in any schedule as good as
        the one that the horizon comes from. arrival: (W,) after the shift.
    transfer: (e, v, v) from the parent's VM to the task's, edges as in `parent_idx`; 0
        within a VM and without data. Those beyond all schedules of interest are shortened.
    demand: (n, 3), capacity: (v, 3).
    """

    def __init__(
        self,
        problem: Problem,
        horizon_s: float,
        shift_s: np.ndarray | None = None,
        longest_rounded: float = LONGEST_ROUNDED,
    ):
        """horizon_s: the last finish of a known schedule, after the shift of (W,) whole seconds (none by default).

        longest_rounded: steps of the horizon on a rounded grid.
        """
        p = problem.views
        self.problem = problem
        self.shift_s = np.zeros(problem.w) if shift_s is None else shift_s
        exec_s, transfer_s = self._times_s(problem.w * horizon_s)
        steps = self._exact_steps(exec_s, transfer_s, problem.w * horizon_s, horizon_s)
        self.exact = steps is not None
        self.steps_per_s = steps or 10.0 ** math.floor(math.log10(longest_rounded / horizon_s))
        self.exec = steps_up(exec_s, self.steps_per_s)
        self.transfer = steps_up(transfer_s, self.steps_per_s)
        if self.exact:
            shift = np.rint(self.shift_s * self.steps_per_s).astype(np.int64)
            self.arrival = steps_up(p.arrival_s, self.steps_per_s) - shift
        else:
            self.arrival = steps_up(self.arrival_s, self.steps_per_s)
        self.slack_s = 0.0 if self.exact else self._slack_s(exec_s, transfer_s)
        self.demand, self.capacity = _whole_demands(p.demand, p.capacity)

    @property
    def arrival_s(self) -> np.ndarray:
        """(W,) arrivals after the shift, seconds."""
        return self.problem.views.arrival_s - self.shift_s

    def _times_s(self, limit_s: float) -> tuple[np.ndarray, np.ndarray]:
        """(n, v) run times and (e, v, v) transfers, without what no schedule of interest contains.

        A schedule in which something lasts longer than limit_s (W times the horizon) has a
        larger last finish and a larger sum of finishes than the known one, so such a VM is
        left out and such a transfer may have any length above the limit. That also
        keeps them within 64 bits.
        """
        p = self.problem.views
        with np.errstate(invalid="ignore", over="ignore"):
            transfer_s = p.parent_mb[:, None, None] / p.link[None, :, :]
        return np.where(p.exec_s > limit_s, np.inf, p.exec_s), np.minimum(transfer_s, 2 * limit_s)

    def _exact_steps(self, exec_s: np.ndarray, transfer_s: np.ndarray, limit_s: float, horizon_s: float) -> int | None:
        """Steps per second on which all times of interest are whole, or None."""
        arrival_s = self.problem.views.arrival_s
        times = [exec_s[np.isfinite(exec_s)], transfer_s[transfer_s <= limit_s], arrival_s]
        steps = exact_steps(np.concatenate(times), horizon_s, LONGEST_EXACT)
        return steps if steps is not None and arrival_s.max() * steps <= FURTHEST_EXACT else None

    def _slack_s(self, exec_s: np.ndarray, transfer_s: np.ndarray) -> float:
        """Rounding along the worst chain: each task once, one transfer into each task, one arrival."""
        p, steps = self.problem.views, self.steps_per_s
        tasks = np.where(self.exec >= 0, self.exec / steps - np.where(self.exec >= 0, exec_s, 0.0), 0.0).max(axis=1)
        edges = (self.transfer / steps - transfer_s).max(axis=(1, 2), initial=0.0)
        into = np.zeros(self.problem.n)
        np.maximum.at(into, np.repeat(np.arange(self.problem.n), np.diff(p.parent_ptr)), edges)
        arrival = (self.arrival / steps - self.arrival_s).max()
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
