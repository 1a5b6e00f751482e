"""Randomised list scheduling: the best of many lists with perturbed priorities.

A control for everything that learns or searches: it uses no more than random numbers and
the simulator. Sampling of priority rules is old; see Kolisch and Hartmann, "Heuristic
algorithms for the resource-constrained project scheduling problem", in Weglarz (ed.),
Project Scheduling, 1999.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from thesis_lib._kernels import randomised as kernels
from thesis_lib._kernels.rollouts import scratch
from thesis_lib._kernels.rules import CRITICAL_PATH, SRW_PATIENT
from thesis_lib.cluster import Cluster
from thesis_lib.generators import whole_number
from thesis_lib.schedulers.base import Scheduler
from thesis_lib.workflow import finite_number
from thesis_lib.workload import Workload

if TYPE_CHECKING:
    from thesis_lib.simulator import Problem, State


class RandomizedList(Scheduler):
    """Follows the best of `samples` lists until the next workflow arrives, then samples anew.

    The lists are those of critical_path (one workflow on one VM) or of srw_patient, with
    randomised ranks and, for several workflows, randomised remaining work; the first one is
    the rule itself. Each is simulated on mean durations from the state at hand with the
    workflows that have arrived, and judged by their total completion time (for one workflow
    the makespan). The best one is kept as priorities, not as times.

    spread: how far a factor goes from 1.
    """

    name = "randomized_list"

    def __init__(self, samples: int = 64, spread: float = 0.3):
        self._samples, self._spread = whole_number(samples, "samples", 1), finite_number(spread, "spread")
        self._problem: Problem | None = None
        self._rng = np.zeros(1, np.uint64)
        self._known = 0
        self._planned_s: float | None = None

    def reset(self, workload: Workload, cluster: Cluster, seed: int) -> None:
        """Forget the list and start the random numbers anew."""
        self._rng[0] = np.random.SeedSequence(seed).generate_state(1, np.uint64)[0]
        self._known, self._planned_s = 0, None

    def decide(self, state: "State") -> tuple[int, int] | None:
        """What the best list places now, or None to wait."""
        if self._problem is not state.problem:
            self._prepare(state.problem)
        if state.arrived != self._known:
            self._known = state.arrived
            total_s = self._search(False, state)
            if self._problem.w == 1:
                self._planned_s = total_s
        task, vm = kernels.choose_by_list(self._rule, *state.arguments, self._key, self._weight)
        return None if task < 0 else (task, vm)

    def _search(self, given: bool, state: "State") -> float:
        """Find the best list, from the one at hand if `given`; its total completion time in seconds."""
        return kernels.best_keys(self._rule, *state.arguments, self._samples, self._spread, self._no_sigma, given,
                                 *self._scratch, self._rng, self._key, self._weight)  # fmt: skip

    def improve(self, state: "State", start_s: np.ndarray) -> float:
        """Follow the best list near the one that starts tasks in the order of start_s (n,); its makespan (seconds).

        For one workflow.
        """
        if self._problem is not state.problem:
            self._prepare(state.problem)
        self._known = state.arrived
        self._key[:] = start_s - start_s.max() - 1.0  # below 0 like ranks, so that a factor moves early tasks most
        self._planned_s = self._search(True, state)
        return self._planned_s

    def _prepare(self, problem: "Problem") -> None:
        self._rule = CRITICAL_PATH if problem.w == problem.v == 1 else SRW_PATIENT
        self._key, self._weight, self._no_sigma = np.zeros(problem.n), np.ones(problem.w), np.zeros(problem.n)
        self._scratch = scratch(problem.n, problem.v, len(problem.views.parent_idx), problem.w)
        self._problem = problem

    @property
    def planned_makespan_s(self) -> float | None:
        """Makespan of the best list for one workflow; None for several, which are planned as they arrive."""
        return self._planned_s
