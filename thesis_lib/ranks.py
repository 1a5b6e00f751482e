"""Ranks, critical path, slack and lower bounds of one workflow on one cluster.

Upward and downward rank are those of Topcuoglu, Hariri and Wu ("Performance-effective
and low-complexity task scheduling for heterogeneous computing", IEEE TPDS 13(3), 2002).
Mean execution time is taken over the VMs that can run the task, mean transfer time over
the ordered pairs of different VMs: we average times, not rates.
"""

from __future__ import annotations

import numpy as np

from thesis_lib.cluster import Cluster, exec_time_s
from thesis_lib.workflow import TaskId, Workflow, WorkflowError


def mean_exec_s(exec_s: np.ndarray) -> np.ndarray:
    """(n,) mean of each row of `exec_time_s` over the VMs that can run the task."""
    capable = np.isfinite(exec_s)
    counts = capable.sum(axis=1)
    if not counts.all():
        raise WorkflowError(f"task at position {int(np.argmin(counts))} fits no VM of the cluster")
    return np.where(capable, exec_s, 0.0).sum(axis=1) / counts


def longest_path_down(workflow: Workflow, task_s: np.ndarray, edge_s: np.ndarray) -> np.ndarray:
    """(n,) longest path from each task to an exit task, both included.

    task_s: (n,) seconds of each task. edge_s: (e,) seconds of each edge, ordered as
    `parent_idx`. One pass in reverse topological order.
    """
    value, seconds = task_s.tolist(), edge_s.tolist()
    below = [0.0] * len(workflow)  # longest continuation after the task
    ptr, parents = workflow.parent_ptr.tolist(), workflow.parent_idx.tolist()
    for i in reversed(workflow.topological_order.tolist()):
        value[i] += below[i]
        for e in range(ptr[i], ptr[i + 1]):
            below[parents[e]] = max(below[parents[e]], seconds[e] + value[i])
    return np.array(value)


def longest_path_up(workflow: Workflow, task_s: np.ndarray, edge_s: np.ndarray) -> np.ndarray:
    """(n,) longest path from an entry task to the start of each task, the task itself not counted."""
    value, seconds, own = [0.0] * len(workflow), edge_s.tolist(), task_s.tolist()
    ptr, parents = workflow.parent_ptr.tolist(), workflow.parent_idx.tolist()
    for i in workflow.topological_order.tolist():
        for e in range(ptr[i], ptr[i + 1]):
            value[i] = max(value[i], value[parents[e]] + own[parents[e]] + seconds[e])
    return np.array(value)


def upward_rank(workflow: Workflow, cluster: Cluster) -> np.ndarray:
    """(n,) seconds: mean execution + max over children (mean transfer + the child's rank)."""
    return longest_path_down(workflow, *_means(workflow, cluster))


def downward_rank(workflow: Workflow, cluster: Cluster) -> np.ndarray:
    """(n,) seconds: max over parents (the parent's rank + its mean execution + mean transfer)."""
    return longest_path_up(workflow, *_means(workflow, cluster))


def _means(workflow: Workflow, cluster: Cluster) -> tuple[np.ndarray, np.ndarray]:
    return mean_exec_s(exec_time_s(workflow, cluster)), mean_transfer_s(workflow, cluster)


def mean_transfer_s(workflow: Workflow, cluster: Cluster) -> np.ndarray:
    """(e,) mean transfer time of each edge over the ordered pairs of different VMs; 0 without data."""
    mb = workflow.parent_mb
    # 0 MB take 0 s even where a link without bandwidth makes the mean infinite.
    return np.multiply(mb, cluster.mean_s_per_mb, out=np.zeros(len(mb)), where=mb > 0)


def critical_path(workflow: Workflow) -> tuple[float, list[TaskId]]:
    """Length in seconds and task ids of the longest path by mean duration at speed 1, without transfers."""
    down = longest_path_down(workflow, workflow.mean_s, np.zeros(len(workflow.parent_idx)))
    entries = [i for i in range(len(workflow)) if not workflow.parents(i)]
    at = max(entries, key=lambda i: (down[i], -i))
    length, path = float(down[at]), [at]
    while children := workflow.children(at):
        at = max(children, key=lambda i: (down[i], -i))
        path.append(at)
    return length, [workflow.tasks[i].id for i in path]


def slack(workflow: Workflow) -> np.ndarray:
    """(n,) seconds a task may slip without stretching the critical path (0 on it), by mean duration."""
    no_transfer = np.zeros(len(workflow.parent_idx))
    up = longest_path_up(workflow, workflow.mean_s, no_transfer)
    down = longest_path_down(workflow, workflow.mean_s, no_transfer)
    total = down.max()
    gap = total - (up + down)
    return np.where(gap <= 1e-12 * total, 0.0, gap)


def on_critical_path(workflow: Workflow) -> np.ndarray:
    """(n,) True for every task without slack (all critical paths, where several tie)."""
    return slack(workflow) == 0.0


def fastest_critical_path_s(workflow: Workflow, cluster: Cluster) -> float:
    """Critical path in seconds when each task runs on its fastest VM and transfers are free."""
    fastest = exec_time_s(workflow, cluster).min(axis=1)
    return float(longest_path_down(workflow, fastest, np.zeros(len(workflow.parent_idx))).max())


def lower_bound_s(workflow: Workflow, cluster: Cluster) -> float:
    """No schedule by mean durations has a smaller makespan (seconds).

    The larger of the fastest critical path and, for each resource, the least amount
    the tasks can hold (demand x fastest run time) over the cluster's capacity.
    """
    fastest = exec_time_s(workflow, cluster).min(axis=1)
    held = (workflow.demand * fastest[:, None]).sum(axis=0)
    capacity = cluster.capacity.sum(axis=0)
    area = max(h / c for h, c in zip(held, capacity) if c > 0) if capacity.any() else 0.0
    return max(fastest_critical_path_s(workflow, cluster), float(area))
