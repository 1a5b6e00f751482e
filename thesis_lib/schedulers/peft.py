"""PEFT: looks ahead with a table of optimistic costs from each task and VM to the exit.

H. Arabnejad, J. G. Barbosa, "List scheduling algorithm for heterogeneous systems by an
optimistic cost table", IEEE TPDS 25(3), 2014.
"""

from __future__ import annotations

import numpy as np

from thesis_lib.ranks import mean_exec_s
from thesis_lib.schedulers.plan import ListPlanner, ListRule, ready_order, topological_position
from thesis_lib.simulator import Problem


class Peft(ListPlanner):
    """Predict Earliest Finish Time, with insertion under the capacities of all three resources.

    Tasks leave a ready list by falling mean of their row of the table (over the VMs that
    can run them), each to the VM with the least finish time + table entry.
    """

    name = "peft"

    def rule(self, problem: Problem) -> ListRule:
        """Tasks from the ready list, the table as what lies ahead."""
        table = optimistic_cost_s(problem)
        priority = mean_exec_s(np.where(np.isfinite(problem.views.exec_s), table, np.inf))
        return ListRule(ready_order(problem, priority), look_ahead_s=table)


def optimistic_cost_s(problem: Problem) -> np.ndarray:
    """(n, v) seconds from the end of a task on a VM to the exit, as the table estimates them.

    The largest over the children of the least, over the child's VMs, of its own entry +
    its run time + the mean transfer time if that VM is another one. 0 for exit tasks.
    """
    from thesis_lib._kernels.planning import optimistic_cost

    p = problem.views
    child_of_edge = np.repeat(np.arange(problem.n), np.diff(p.parent_ptr))
    by_parent = np.lexsort((child_of_edge, p.parent_idx))  # the order of child_idx
    transfer_s = (
        p.parent_mb[by_parent] * problem.cluster.mean_s_per_mb if problem.has_data else np.zeros(len(by_parent))
    )
    order = np.argsort(topological_position(problem.workload))
    return optimistic_cost(order, p.exec_s, p.child_ptr, p.child_idx, transfer_s)
