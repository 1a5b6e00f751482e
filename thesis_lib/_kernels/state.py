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

from thesis_lib._kernels.compiling import kernel, small_kernel

BLOCKED, READY, RUNNING, DONE = 0, 1, 2, 3
FINISH, DATA = 0, 1  # kinds of events; workflow arrivals come after both at equal times
OK, ILLEGAL, STUCK = 0, 1, 2
FREE_TOLERANCE = 1e-9  # cores, GB or Gbit/s that rounding may take away


class Problem(NamedTuple):
    n: int
    v: int
    w: int
    has_data: bool
    workflow_of: np.ndarray  # (n,)
    workflow_ptr: np.ndarray  # (w + 1,)
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
    work: np.ndarray  # (n,) mean_s x share of the cluster's scarcest resource for the task


class State(NamedTuple):
    counts: np.ndarray  # (6,) done, ready, arrived workflows, running, pending data events, unused
    status: np.ndarray  # (n,)
    missing: np.ndarray  # (n,) parents that have not finished
    vm: np.ndarray  # (n,) -1 before the start
    ready: np.ndarray  # (n,) the first counts[1] entries, in the order they became ready
    running: np.ndarray  # (n,) the first counts[3] entries, in no particular order
    slot: np.ndarray  # (n,) position in `running`
    first_on: np.ndarray  # (v,) a task that runs on the VM, -1 for none: the head of a linked list
    next_on: np.ndarray  # (n,) the next task that runs on the same VM, -1 at the end
    previous_on: np.ndarray  # (n,) the one before it, -1 at the head
    pending: np.ndarray  # (n,) 1 while a data event of the task is queued
    tasks_left: np.ndarray  # (w,)
    vm_load: np.ndarray  # (v,) running tasks per VM
    now: np.ndarray  # (1,)
    ready_s: np.ndarray  # (n,)
    start_s: np.ndarray  # (n,)
    finish_s: np.ndarray  # (n,) NaN until the task has finished
    free: np.ndarray  # (v, 3)
    work_left: np.ndarray  # (w,) work of the unfinished tasks
    data_s: np.ndarray  # (n, v) when all data has arrived; (0, v) without data


class Hidden(NamedTuple):
    size: np.ndarray  # (1,) events in the heap
    kind: np.ndarray  # (2n,)
    index: np.ndarray  # (2n,)
    factor: np.ndarray  # (n,) drawn / mean duration
    time: np.ndarray  # (2n,)


DONE_COUNT, READY_COUNT, ARRIVED, RUNNING_COUNT, PENDING = 0, 1, 2, 3, 4


def state_sizes(n: int, v: int, w: int, has_data: bool) -> tuple[int, int]:
    """Lengths of the buffers si and sf."""
    return 6 + 9 * n + w + 2 * v, 1 + 3 * n + 3 * v + w + (n * v if has_data else 0)


def hidden_sizes(n: int) -> tuple[int, int]:
    """Lengths of the buffers hi and hf."""
    return 1 + 4 * n, 3 * n


@small_kernel
def problem_views(pi, pf):
    n, v, w, e = pi[0], pi[1], pi[2], pi[3]
    a = 5
    b = a + n
    c = b + w + 1
    d = c + n + 1
    f = d + e
    g = f + n + 1
    x = 0
    y = x + 3 * n
    z = y + n * v
    k = z + 3 * v
    m = k + w
    o = m + e
    q = o + v * v
    return Problem(
        n, v, w, pi[4] == 1,
        pi[a:b], pi[b:c], pi[c:d], pi[d:f], pi[f:g], pi[g : g + e],
        pf[x:y].reshape((n, 3)), pf[y:z].reshape((n, v)), pf[z:k].reshape((v, 3)), pf[k:m], pf[m:o],
        pf[o:q].reshape((v, v)), pf[q : q + n], pf[q + n : q + 2 * n], pf[q + 2 * n : q + 3 * n],
    )  # fmt: skip


@small_kernel
def state_views(p, si, sf):
    n, v, w = p.n, p.v, p.w
    a = 6
    x = 1 + 3 * n
    y = x + 3 * v
    z = y + w
    rows = n if p.has_data else 0
    b = a + 9 * n
    c = b + w
    return State(
        si[0:6], si[a : a + n], si[a + n : a + 2 * n], si[a + 2 * n : a + 3 * n], si[a + 3 * n : a + 4 * n],
        si[a + 4 * n : a + 5 * n], si[a + 5 * n : a + 6 * n], si[c + v : c + 2 * v], si[a + 7 * n : a + 8 * n],
        si[a + 8 * n : b], si[a + 6 * n : a + 7 * n], si[b:c], si[c : c + v],
        sf[0:1], sf[1 : 1 + n], sf[1 + n : 1 + 2 * n], sf[1 + 2 * n : x], sf[x:y].reshape((v, 3)), sf[y:z],
        sf[z : z + rows * v].reshape((rows, v)),
    )  # fmt: skip


@small_kernel
def hidden_views(p, hi, hf):
    n = p.n
    return Hidden(hi[0:1], hi[1 : 1 + 2 * n], hi[1 + 2 * n : 1 + 4 * n], hf[0:n], hf[n : 3 * n])


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
    """The largest free amount of each resource on any VM: a quick way to reject a task."""
    cpu, memory, bandwidth = s.free[0, 0], s.free[0, 1], s.free[0, 2]
    for v in range(1, p.v):
        cpu, memory = max(cpu, s.free[v, 0]), max(memory, s.free[v, 1])
        bandwidth = max(bandwidth, s.free[v, 2])
    return cpu + FREE_TOLERANCE, memory + FREE_TOLERANCE, bandwidth + FREE_TOLERANCE


@kernel
def any_legal(p, s):
    cpu, memory, bandwidth = max_free(p, s)
    for k in range(s.counts[READY_COUNT]):
        t = s.ready[k]
        if p.demand[t, 0] <= cpu and p.demand[t, 1] <= memory and p.demand[t, 2] <= bandwidth:
            for v in range(p.v):
                if fits(p, s, t, v):
                    return True
    return False


@small_kernel
def can_wait(p, s):
    """True when some event lies ahead: a finish, a data arrival or a workflow arrival."""
    return s.counts[RUNNING_COUNT] > 0 or s.counts[PENDING] > 0 or s.counts[ARRIVED] < p.w
