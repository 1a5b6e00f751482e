"""Search by rollouts: try each action, let a rule finish the run in sampled futures, compare.

A future draws anew what nobody can know yet: the durations of all unfinished tasks (those
of running tasks given that they still run) and the workflows to come, which are copies of
workflows that have arrived. Drawn durations and workflows that have not arrived are never
read; only their number is known, so that the futures end where the stream does. All actions
meet the same futures, so that their differences are paired.

Rollouts as a one-step improvement of a rule: Bertsekas, Tsitsiklis and Wu, "Rollout
algorithms for combinatorial optimization", J. of Heuristics 3, 1997.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from thesis_lib._kernels import randomised
from thesis_lib._kernels import rollouts as kernels
from thesis_lib._kernels.rules import RULES
from thesis_lib.generators import whole_number
from thesis_lib.workflow import WorkflowError, finite_number

if TYPE_CHECKING:
    from thesis_lib.cluster import Cluster
    from thesis_lib.simulator import Problem, State
    from thesis_lib.workload import Workload

Action = tuple[int, int] | None  # (task number, VM position), or None to wait
BASE_RULES = tuple(RULES[code] for code in kernels.KEY_RULES)
# Workflows to come that a future holds. On 12 streams the ratio to srw_patient was 0.911 without them and 0.937
# to 0.954 with 3 to 6 of them.
LATER = 0


def base_rule_for(workload: "Workload", cluster: "Cluster") -> str:
    """The rule that rollouts go on with: critical_path for one workflow on one VM, else srw_patient."""
    return "critical_path" if len(workload) == len(cluster) == 1 else "srw_patient"


def log_deviation(workload: "Workload") -> np.ndarray:
    """(n,) standard deviation of the logarithm of each task's duration (see `workload.duration_factors`)."""
    mean_s, std_s = (np.concatenate([getattr(w, key) for w in workload.workflows]) for key in ("mean_s", "std_s"))
    variation = np.divide(std_s, mean_s, out=np.zeros(len(mean_s)), where=mean_s > 0)
    return np.sqrt(np.log1p(variation**2))


class Rollouts:
    """Judges actions by rollouts; one object serves one problem after another.

    rule: the base rule, one of BASE_RULES; None takes `base_rule_for` the problem.
    later: workflows to come that a future holds at most. to_end: run these to the end and count
    them too, else stop when the workflows that have arrived are done.

    spread: above 0 a future is another list instead of other durations: all tasks take their mean durations,
        and the rule goes on with ranks that are multiplied by random numbers of 1 +- spread.

    Raises WorkflowError for another rule or a negative number.
    """

    def __init__(self, rule: str | None = None, later: int = LATER, to_end: bool = True, spread: float = 0.0):
        if rule is not None and rule not in BASE_RULES:
            raise WorkflowError(f"rollouts cannot go on with {rule!r}; choose one of {', '.join(BASE_RULES)}")
        self.rule, self.later, self.to_end = rule, whole_number(later, "later", 0), bool(to_end)
        self.spread = finite_number(spread, "spread")
        self._problem: Problem | None = None
        self._rng = np.zeros(1, np.uint64)

    def prepare(self, problem: "Problem") -> None:
        """Make room for the rollouts of a problem; done by itself when a state of another problem comes."""
        views, workload = problem.views, problem.workload
        self._code = RULES.index(self.rule or base_rule_for(workload, problem.cluster))
        self._sigma = log_deviation(workload)
        tasks, edges = (int(np.diff(ptr).max()) for ptr in (views.workflow_ptr, views.parent_ptr[views.workflow_ptr]))
        later = min(self.later, problem.w)
        self._scratch = kernels.scratch(
            problem.n + later * tasks, problem.v, len(views.parent_idx) + later * edges, problem.w + later
        )
        self._key, self._weight, self._no_sigma = np.zeros(problem.n), np.ones(problem.w), np.zeros(problem.n)
        self._problem = problem

    def totals_s(self, state: "State", actions: Sequence[Action], futures: int, seed: int) -> np.ndarray:
        """(c, futures) total completion time, in seconds, of the workflows that are not done, after each action.

        actions: c legal ones. seed: any 64 bits; the same ones give the same futures.
        """
        if self._problem is not state.problem:
            self.prepare(state.problem)
        pairs, total_s = _pairs(actions), np.empty((len(actions), futures))
        alive = np.empty(len(pairs), np.int64)
        self._rng[0] = seed
        if self.spread > 0:
            randomised.judge_by_lists(self._code, *state.arguments, pairs, len(pairs), self.spread, self._no_sigma,
                                      *self._scratch, self._rng, self._key, self._weight, total_s, alive)  # fmt: skip
            return total_s
        kernels.judge(self._code, *state.arguments, self._sigma, pairs, len(pairs), self.later, self.to_end,
                      *self._scratch, self._rng, total_s, alive, False)  # fmt: skip
        return total_s

    def advantages(
        self, state: "State", actions: Sequence[Action], rng: np.random.Generator, futures: int = 8
    ) -> tuple[np.ndarray, np.ndarray]:
        """(c,) mean and (c,) standard error of the seconds that each action saves against the first one.

        Positive is better; the first entries are 0. The state is not changed.
        """
        total_s = self.totals_s(state, actions, futures, int(rng.integers(2**64, dtype=np.uint64)))
        saved_s = total_s[0] - total_s
        error_s = saved_s.std(axis=1, ddof=1) / np.sqrt(futures) if futures > 1 else np.zeros(len(saved_s))
        return saved_s.mean(axis=1), error_s

    def decide(self, state: "State", k: int, futures: int, least_z: float, rng: np.ndarray) -> Action:
        """The base rule's action, or one that saves most against it if that is significant.

        k: how many actions are compared, the rule's, waiting and the next best pairs. least_z: least mean
        saving in units of its standard error. rng: (1,) uint64, the random stream, moved on.
        """
        if self._problem is not state.problem:
            self.prepare(state.problem)
        actions, total_s, alive = np.empty((k, 2), np.int64), np.empty((k, futures)), np.empty(k, np.int64)
        task, vm = kernels.search(self._code, *state.arguments, self._sigma, actions, self.later, self.to_end,
                                  *self._scratch, rng, total_s, alive, least_z)  # fmt: skip
        return None if task < 0 else (task, vm)

    def best_of(
        self, state: "State", actions: Sequence[Action], futures: int, least_z: float, rng: np.ndarray
    ) -> Action:
        """The first of the actions, or one that saves most against it if that is significant; see `decide`."""
        if len(actions) < 2:
            return actions[0]
        if self._problem is not state.problem:
            self.prepare(state.problem)
        pairs, total_s = _pairs(actions), np.empty((len(actions), futures))
        best = kernels.race(self._code, *state.arguments, self._sigma, pairs, len(pairs), self.later, self.to_end,
                            *self._scratch, rng, total_s, np.empty(len(pairs), np.int64), least_z)  # fmt: skip
        return actions[best]


def _pairs(actions: Sequence[Action]) -> np.ndarray:
    """(c, 2) the actions as kernels take them, -1 for waiting."""
    return np.array([(-1, -1) if a is None else a for a in actions], dtype=np.int64).reshape(-1, 2)
