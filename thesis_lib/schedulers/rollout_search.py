"""Rollout search: a base rule, improved by trying its alternatives in sampled futures.

D. P. Bertsekas, J. N. Tsitsiklis, C. Wu, "Rollout algorithms for combinatorial
optimization", J. of Heuristics 3, 1997.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from thesis_lib.cluster import Cluster
from thesis_lib.generators import whole_number
from thesis_lib.schedulers.base import Scheduler
from thesis_lib.search import LATER, Rollouts
from thesis_lib.workflow import finite_number
from thesis_lib.workload import Workload

if TYPE_CHECKING:
    from thesis_lib.simulator import State


class RolloutSearch(Scheduler):
    """Takes the base rule's action unless another one saves significantly more completion time.

    base: the rule that proposes and that the rollouts go on with, one of `search.BASE_RULES`;
    None takes `search.base_rule_for` the problem. k: actions that are
    compared, the base rule's, waiting and the next best pairs. futures: how many are sampled. z: least mean
    saving in units of its standard error. later: workflows to come in each future.

    Fair: the futures are drawn from what has arrived (see `thesis_lib.search`).
    """

    def __init__(
        self, base: str | None = None, k: int = 4, futures: int = 16, z: float = 1.0, later: int = LATER,
        name: str = "rollout_search",
    ):  # fmt: skip
        self.name = name
        self._k, self._futures = whole_number(k, "k", 1), whole_number(futures, "futures", 1)
        self._least_z = finite_number(z, "z")
        self._rollouts = Rollouts(base, later)
        self._rng = np.zeros(1, np.uint64)

    def reset(self, workload: Workload, cluster: Cluster, seed: int) -> None:
        """Start the random numbers of the futures anew."""
        self._rng[0] = np.random.SeedSequence(seed).generate_state(1, np.uint64)[0]

    def decide(self, state: "State") -> tuple[int, int] | None:
        """The base rule's action, or a better one; None to wait."""
        return self._rollouts.decide(state, self._k, self._futures, self._least_z, self._rng)


def srw_search(**options: object) -> RolloutSearch:
    """`RolloutSearch` under the name that the tables use; its options are k, futures, z, later and base."""
    return RolloutSearch(**options, name="srw_search")
