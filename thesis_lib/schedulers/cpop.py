"""CPOP: the tasks of the critical path go to one VM, the others where they finish first.

Same paper as HEFT: H. Topcuoglu, S. Hariri, M.-Y. Wu, IEEE TPDS 13(3), 2002.
"""

from __future__ import annotations

import numpy as np

from thesis_lib.ranks import longest_path_up, mean_transfer_s
from thesis_lib.schedulers.plan import ListPlanner, ListRule, arrival_groups, ready_order, topological_position
from thesis_lib.simulator import Problem


class Cpop(ListPlanner):
    """Critical-Path-on-a-Processor, with insertion under the capacities of all three resources.

    Priority = upward + downward rank, tasks leave a ready list by falling priority. The
    critical path goes to the VM that runs most of its tasks, then in the shortest time.
    Workflows that arrive together count as one graph with one critical path.
    """

    name = "cpop"

    def rule(self, problem: Problem) -> ListRule:
        """Tasks from the ready list, those of a critical path fixed to its VM."""
        priority = problem.views.rank_s + _downward_rank_s(problem)
        position = topological_position(problem.workload)
        fixed_vm = np.full(problem.n, -1)
        for first, last in arrival_groups(problem.workload):
            path = _critical_path(problem, np.arange(first, last), priority, position)
            able = np.isfinite(problem.views.exec_s[path])
            seconds = np.where(able, problem.views.exec_s[path], 0.0).sum(axis=0)
            vm = int(np.lexsort((seconds, -able.sum(axis=0)))[0])
            fixed_vm[path[able[:, vm]]] = vm
        return ListRule(ready_order(problem, priority), fixed_vm=fixed_vm)


def _downward_rank_s(problem: Problem) -> np.ndarray:
    """(n,) downward rank of every task of the workload."""
    ptr, mean_s, cluster = problem.workload.task_ptr, problem.views.mean_s, problem.cluster
    return np.concatenate([
        longest_path_up(w, mean_s[ptr[k] : ptr[k + 1]], mean_transfer_s(w, cluster))
        for k, w in enumerate(problem.workload.workflows)
    ])  # fmt: skip


def _critical_path(problem: Problem, tasks: np.ndarray, priority: np.ndarray, position: np.ndarray) -> np.ndarray:
    """Numbers along the path of largest priority, from an entry to an exit task, ties by topological position."""
    p = problem.views

    def most_urgent(candidates: np.ndarray) -> int:
        # Sums of the same path differ in their last bits, so equal means within rounding.
        top = priority[candidates].max()
        tied = candidates[priority[candidates] >= top - 1e-9 * abs(top)]
        return int(tied[np.argmin(position[tied])])

    at = most_urgent(tasks[p.parent_ptr[tasks] == p.parent_ptr[tasks + 1]])
    path = [at]
    while p.child_ptr[at] < p.child_ptr[at + 1]:
        at = most_urgent(p.child_idx[p.child_ptr[at] : p.child_ptr[at + 1]])
        path.append(at)
    return np.array(path)
