"""A problem and the state of a run as flat buffers, and the names that kernels give to their parts.

One buffer of integers and one of floats, so that a call passes few arrays and a copy is
two memory copies.

    problem  pi, pf   never changes
    state    si, sf   what a scheduler may see
    hidden   hi, hf   drawn durations and the event queue: the simulator's own

Sizes: n tasks, v VMs, w workflows, e edges.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from thesis_lib._kernels.compiling import inner_kernel, kernel, small_kernel
from thesis_lib.cluster import RESOURCE_TOLERANCE

BLOCKED, READY, RUNNING, DONE = 0, 1, 2, 3
FINISH, DATA = 0, 1  # kinds of events; workflow arrivals come after both at equal times
OK, ILLEGAL, STUCK = 0, 1, 2
FREE_TOLERANCE = RESOURCE_TOLERANCE  # cores, GB or Gbit/s that rounding may take away


class ProblemViews(NamedTuple):
    """The workload and the cluster; never changes."""

    n: int
    v: int
    w: int
    has_data: bool  # some edge carries data and there are VMs to send it between
    workflow_of: np.ndarray  # (n,)
    workflow_ptr: np.ndarray  # (w + 1,) tasks of workflow k: workflow_ptr[k] ... workflow_ptr[k + 1] - 1
    parent_ptr: np.ndarray  # (n + 1,)
    parent_idx: np.ndarray  # (e,)
    child_ptr: np.ndarray  # (n + 1,)
    child_idx: np.ndarray  # (e,)
    demand: np.ndarray  # (n, 3)
    exec_s: np.ndarray  # (n, v) mean run time, infinite where the task cannot run
    capacity: np.ndarray  # (v, 3)
    arrival_s: np.ndarray  # (w,) ascending
    parent_mb: np.ndarray  # (e,)
    link: np.ndarray  # (v, v) MB/s
    mean_s: np.ndarray  # (n,) mean of exec_s over the VMs that can run the task
    rank_s: np.ndarray  # (n,) upward rank
    duration_s: np.ndarray  # (n,) mean duration at speed 1
    total: np.ndarray  # (3,) cores, GB and Gbit/s of the whole cluster
    work: np.ndarray  # (n,) mean_s x share of the cluster's scarcest resource for the task
    priority: np.ndarray  # (n,) as the workflow states it
    critical: np.ndarray  # (n,) 1 on a longest path of the workflow by mean duration at speed 1, else 0


class StateViews(NamedTuple):
    """What a scheduler may see of a run."""

    counts: np.ndarray  # (6,) see DONE_COUNT ... ACTIVE below
    status: np.ndarray  # (n,) BLOCKED, READY, RUNNING or DONE
    missing: np.ndarray  # (n,) parents that have not finished
    vm: np.ndarray  # (n,) -1 before the start
    ready: np.ndarray  # (n,) the first counts[READY_COUNT] entries, in the order they became ready
    running: np.ndarray  # (n,) the first counts[RUNNING_COUNT] entries, in no particular order
    slot: np.ndarray  # (n,) position of a running task in `running`
    next_on: np.ndarray  # (n,) linked list of the tasks that run on one VM, by expected end; -1 at the end
    previous_on: np.ndarray  # (n,) the same list backwards, -1 at the head
    first_on: np.ndarray  # (v,) head of that list: the task expected to end first, -1 for none
    vm_load: np.ndarray  # (v,) running tasks per VM
    pending: np.ndarray  # (n,) 1 while a data event of the task is queued
    tasks_left: np.ndarray  # (w,) unfinished tasks
    now: np.ndarray  # (1,)
    ready_s: np.ndarray  # (n,) NaN until the task is ready
    start_s: np.ndarray  # (n,) NaN until it has started
    finish_s: np.ndarray  # (n,) NaN until it has finished
    free: np.ndarray  # (v, 3)
    work_left: np.ndarray  # (w,) work of the unfinished tasks
    done_s: np.ndarray  # (w,) when the last task finished, NaN until then
    held: np.ndarray  # (3,) cores, GB and Gbit/s that running tasks hold
    sums: np.ndarray  # (8,) running totals, see FINISHED ... FLOW_S below
    data_s: np.ndarray  # (n, v) when all data is on the VM, infinite before the task is ready; (0, v) without data


class HiddenViews(NamedTuple):
    """What only the simulator knows: the drawn durations and the event queue."""

    size: np.ndarray  # (1,) events in the heap
    kind: np.ndarray  # (2n,)
    index: np.ndarray  # (2n,)
    factor: np.ndarray  # (n,) drawn / mean duration
    time: np.ndarray  # (2n,)


# Positions in StateViews.counts: done tasks, ready tasks, arrived workflows, running tasks, queued data events,
# workflows that have arrived and are not finished.
DONE_COUNT, READY_COUNT, ARRIVED, RUNNING_COUNT, PENDING, ACTIVE = range(6)

# Positions in StateViews.sums. Over finished tasks: their number, how many took longer than allowed (SLA_FACTOR x
# mean duration from ready to finish), the seconds that were left of that allowance; over started tasks: the seconds
# between ready and start; over time: share of all cores, GB and Gbit/s held x seconds, unfinished workflows x seconds.
FINISHED, LATE, SPARE_S, WAITED_S, CPU_S, MEMORY_S, BANDWIDTH_S, FLOW_S = range(8)


@small_kernel
def state_sizes(n: int, v: int, w: int, has_data: bool) -> tuple[int, int]:
    """Lengths of the buffers si and sf: the views of `state_views` one after another."""
    return 6 + 8 * n + 2 * v + n + w, 1 + 3 * n + 3 * v + 2 * w + 3 + 8 + (n * v if has_data else 0)


@small_kernel
def hidden_sizes(n: int) -> tuple[int, int]:
    """Lengths of the buffers hi and hf."""
    return 1 + 4 * n, 3 * n


@small_kernel
def problem_views(pi, pf):
    """Names for the parts of the problem's buffers, in the order in which they lie there."""
    n, v, w, e, has_data = pi[0], pi[1], pi[2], pi[3], pi[4] == 1
    workflow_of, i = pi[5 : 5 + n], 5 + n
    workflow_ptr, i = pi[i : i + w + 1], i + w + 1
    parent_ptr, i = pi[i : i + n + 1], i + n + 1
    parent_idx, i = pi[i : i + e], i + e
    child_ptr, i = pi[i : i + n + 1], i + n + 1
    child_idx, i = pi[i : i + e], i + e
    demand, f = pf[0 : 3 * n], 3 * n
    exec_s, f = pf[f : f + n * v], f + n * v
    capacity, f = pf[f : f + 3 * v], f + 3 * v
    arrival_s, f = pf[f : f + w], f + w
    parent_mb, f = pf[f : f + e], f + e
    link, f = pf[f : f + v * v], f + v * v
    mean_s, f = pf[f : f + n], f + n
    rank_s, f = pf[f : f + n], f + n
    duration_s, f = pf[f : f + n], f + n
    total, f = pf[f : f + 3], f + 3
    work, f = pf[f : f + n], f + n
    priority, f = pf[f : f + n], f + n
    critical, f = pf[f : f + n], f + n
    return ProblemViews(
        n, v, w, has_data, workflow_of, workflow_ptr, parent_ptr, parent_idx, child_ptr, child_idx,
        demand.reshape((n, 3)), exec_s.reshape((n, v)), capacity.reshape((v, 3)), arrival_s, parent_mb,
        link.reshape((v, v)), mean_s, rank_s, duration_s, total, work, priority, critical,
    )  # fmt: skip


@small_kernel
def state_views(p, si, sf):
    """Names for the parts of the state's buffers, in the order in which they lie there."""
    n, v, w = p.n, p.v, p.w
    counts, i = si[0:6], 6
    status, i = si[i : i + n], i + n
    missing, i = si[i : i + n], i + n
    vm, i = si[i : i + n], i + n
    ready, i = si[i : i + n], i + n
    running, i = si[i : i + n], i + n
    slot, i = si[i : i + n], i + n
    next_on, i = si[i : i + n], i + n
    previous_on, i = si[i : i + n], i + n
    first_on, i = si[i : i + v], i + v
    vm_load, i = si[i : i + v], i + v
    pending, i = si[i : i + n], i + n
    tasks_left, i = si[i : i + w], i + w
    now, f = sf[0:1], 1
    ready_s, f = sf[f : f + n], f + n
    start_s, f = sf[f : f + n], f + n
    finish_s, f = sf[f : f + n], f + n
    free, f = sf[f : f + 3 * v], f + 3 * v
    work_left, f = sf[f : f + w], f + w
    done_s, f = sf[f : f + w], f + w
    held, f = sf[f : f + 3], f + 3
    sums, f = sf[f : f + 8], f + 8
    rows = n if p.has_data else 0
    data_s, f = sf[f : f + rows * v], f + rows * v
    return StateViews(
        counts, status, missing, vm, ready, running, slot, next_on, previous_on, first_on, vm_load, pending,
        tasks_left, now, ready_s, start_s, finish_s, free.reshape((v, 3)), work_left, done_s, held, sums,
        data_s.reshape((rows, v)),
    )  # fmt: skip


@small_kernel
def hidden_views(p, hi, hf):
    """Names for the parts of the hidden buffers."""
    size, i = hi[0:1], 1
    kind, i = hi[i : i + 2 * p.n], i + 2 * p.n
    index, i = hi[i : i + 2 * p.n], i + 2 * p.n
    factor, f = hf[0 : p.n], p.n
    time, f = hf[f : f + 2 * p.n], f + 2 * p.n
    return HiddenViews(size, kind, index, factor, time)


# --- what may be placed -------------------------------------------------------------------


@small_kernel
def fits(p, s, t, v):
    """True when ready task t can start on VM v now: capacity free and data there."""
    if not (
        p.demand[t, 0] <= s.free[v, 0] + FREE_TOLERANCE
        and p.demand[t, 1] <= s.free[v, 1] + FREE_TOLERANCE
        and p.demand[t, 2] <= s.free[v, 2] + FREE_TOLERANCE
    ):
        return False
    if p.exec_s[t, v] == np.inf:
        return False
    return not p.has_data or s.data_s[t, v] <= s.now[0]


@small_kernel
def max_free(p, s):
    """The largest free amount of each resource on any VM (cores, GB, Gbit/s)."""
    cpu, memory, bandwidth = s.free[0, 0], s.free[0, 1], s.free[0, 2]
    for v in range(1, p.v):
        cpu, memory = max(cpu, s.free[v, 0]), max(memory, s.free[v, 1])
        bandwidth = max(bandwidth, s.free[v, 2])
    return cpu, memory, bandwidth


@small_kernel
def may_fit(p, t, most):
    """False when task t needs more than `max_free` found: a quick way to pass over it."""
    return (
        p.demand[t, 0] <= most[0] + FREE_TOLERANCE
        and p.demand[t, 1] <= most[1] + FREE_TOLERANCE
        and p.demand[t, 2] <= most[2] + FREE_TOLERANCE
    )


@inner_kernel
def fits_anywhere(p, s, t):
    """True when ready task t can start on some VM now."""
    for v in range(p.v):
        if fits(p, s, t, v):
            return True
    return False


@kernel
def any_legal(p, s):
    """True when some ready task can start on some VM now."""
    most = max_free(p, s)
    for k in range(s.counts[READY_COUNT]):
        if may_fit(p, s.ready[k], most) and fits_anywhere(p, s, s.ready[k]):
            return True
    return False


@small_kernel
def can_wait(p, s):
    """True when some event lies ahead: a finish, a data arrival or a workflow arrival."""
    return s.counts[RUNNING_COUNT] > 0 or s.counts[PENDING] > 0 or s.counts[ARRIVED] < p.w
