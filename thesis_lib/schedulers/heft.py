"""HEFT: the task with the largest upward rank goes where it finishes first.

H. Topcuoglu, S. Hariri, M.-Y. Wu, "Performance-effective and low-complexity task
scheduling for heterogeneous computing", IEEE TPDS 13(3), 2002.
"""

from __future__ import annotations

from thesis_lib.schedulers.plan import ListPlanner, ListRule, rank_order
from thesis_lib.simulator import Problem


class Heft(ListPlanner):
    """HEFT with insertion under the capacities of all three resources: several tasks share a VM."""

    name = "heft"

    def rule(self, problem: Problem) -> ListRule:
        """Tasks by falling upward rank."""
        return ListRule(rank_order(problem, problem.views.rank_s))


class HeftSingle(Heft):
    """HEFT as printed: a VM runs one task at a time, whatever its capacity."""

    name = "heft_single"
    exclusive = True
