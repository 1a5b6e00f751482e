"""Compiled kernels of the simulator and of the rules.

All kernels that call each other live in this one file: numba's on-disk cache does
not notice a change in another module.

A problem and a state are flat buffers, one of integers and one of floats, so that a
call passes few arrays and a copy is two memory copies. Inside a kernel the buffers
are given names through the views below.

    problem  pi, pf   never changes
    state    si, sf   what a scheduler may see
    hidden   hi, hf   drawn durations and the event queue: the simulator's own

Sizes: n tasks, v VMs, w workflows, e edges.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numba import njit

# Kernels allocate nothing, so numba need not count references to the arrays that they hand
# to each other, which would cost more than the simulation itself. The division of two
# numbers follows numpy (no check for zero).
kernel = njit(cache=True, error_model="numpy", _nrt=False)
small_kernel = njit(cache=True, error_model="numpy", _nrt=False, inline="always")

BLOCKED, READY, RUNNING, DONE = 0, 1, 2, 3
FINISH, DATA = 0, 1  # kinds of events; workflow arrivals come after both at equal times
OK, ILLEGAL, STUCK = 0, 1, 2
FREE_TOLERANCE = 1e-9  # cores, GB or Gbit/s that rounding may take away

RULES = ("fcfs", "fcfs_backfill", "sjf", "tetris", "critical_path", "srw", "srw_patient", "heft_online",
         "heft_patient", "random")  # fmt: skip
FCFS, FCFS_BACKFILL, SJF, TETRIS, CRITICAL_PATH, SRW, SRW_PATIENT, HEFT_ONLINE, HEFT_PATIENT, RANDOM = range(10)


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


def python_form(kernel):
    """The Python function behind a kernel (the kernel itself when compilation is switched off)."""
    return getattr(kernel, "py_func", kernel)


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


# --- the event queue: a binary heap ordered by (time, kind, index) ------------------------


@small_kernel
def _earlier(h, a, b):
    if h.time[a] != h.time[b]:
        return h.time[a] < h.time[b]
    if h.kind[a] != h.kind[b]:
        return h.kind[a] < h.kind[b]
    return h.index[a] < h.index[b]


@small_kernel
def _swap(h, a, b):
    h.time[a], h.time[b] = h.time[b], h.time[a]
    h.kind[a], h.kind[b] = h.kind[b], h.kind[a]
    h.index[a], h.index[b] = h.index[b], h.index[a]


@kernel
def _push(h, time, kind, index):
    i = h.size[0]
    h.size[0] = i + 1
    h.time[i], h.kind[i], h.index[i] = time, kind, index
    while i > 0 and _earlier(h, i, (i - 1) // 2):
        _swap(h, i, (i - 1) // 2)
        i = (i - 1) // 2


@kernel
def _pop(h):
    """Remove the first event; read it at position 0 before."""
    last = h.size[0] - 1
    h.size[0] = last
    _swap(h, 0, last)
    i = 0
    while True:
        child = 2 * i + 1
        if child >= last:
            return
        if child + 1 < last and _earlier(h, child + 1, child):
            child += 1
        if not _earlier(h, child, i):
            return
        _swap(h, i, child)
        i = child


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
def _max_free(p, s):
    """The largest free amount of each resource on any VM: a quick way to reject a task."""
    cpu, memory, bandwidth = s.free[0, 0], s.free[0, 1], s.free[0, 2]
    for v in range(1, p.v):
        cpu, memory = max(cpu, s.free[v, 0]), max(memory, s.free[v, 1])
        bandwidth = max(bandwidth, s.free[v, 2])
    return cpu + FREE_TOLERANCE, memory + FREE_TOLERANCE, bandwidth + FREE_TOLERANCE


@kernel
def _any_legal(p, s):
    cpu, memory, bandwidth = _max_free(p, s)
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


# --- events -------------------------------------------------------------------------------


@kernel
def _queue_next_data(p, s, h, t):
    """Queue the next moment at which task t's data is complete on one more VM."""
    soonest, at = np.inf, -1
    for v in range(p.v):
        if s.now[0] < s.data_s[t, v] < soonest and p.exec_s[t, v] < np.inf:
            soonest, at = s.data_s[t, v], v
    if at >= 0:
        _push(h, soonest, DATA, t * p.v + at)
        s.pending[t] = 1
        s.counts[PENDING] += 1


@kernel
def _fits_anywhere(p, s, t):
    for v in range(p.v):
        if fits(p, s, t, v):
            return True
    return False


@kernel
def _make_ready(p, s, h, t):
    s.status[t] = READY
    s.ready_s[t] = s.now[0]
    s.ready[s.counts[READY_COUNT]] = t
    s.counts[READY_COUNT] += 1
    if p.has_data:
        for v in range(p.v):
            latest = s.now[0]
            for e in range(p.parent_ptr[t], p.parent_ptr[t + 1]):
                if p.parent_mb[e] > 0.0:
                    q = p.parent_idx[e]
                    if s.vm[q] != v:
                        latest = max(latest, s.finish_s[q] + p.parent_mb[e] / p.link[s.vm[q], v])
            s.data_s[t, v] = latest
        _queue_next_data(p, s, h, t)


@small_kernel
def _link(s, t, v):
    head = s.first_on[v]
    s.first_on[v], s.next_on[t], s.previous_on[t] = t, head, -1
    if head >= 0:
        s.previous_on[head] = t


@small_kernel
def _unlink(s, t, v):
    before, after = s.previous_on[t], s.next_on[t]
    if before >= 0:
        s.next_on[before] = after
    else:
        s.first_on[v] = after
    if after >= 0:
        s.previous_on[after] = before


@kernel
def _finish(p, s, h, t):
    v = s.vm[t]
    s.status[t] = DONE
    s.finish_s[t] = s.now[0]
    s.counts[DONE_COUNT] += 1
    s.counts[RUNNING_COUNT] -= 1
    last = s.running[s.counts[RUNNING_COUNT]]
    s.running[s.slot[t]] = last
    s.slot[last] = s.slot[t]
    _unlink(s, t, v)
    s.vm_load[v] -= 1
    for r in range(3):
        # An idle VM gets its exact capacity back, so that rounding never accumulates.
        s.free[v, r] = p.capacity[v, r] if s.vm_load[v] == 0 else s.free[v, r] + p.demand[t, r]
    w = p.workflow_of[t]
    s.tasks_left[w] -= 1
    s.work_left[w] = 0.0 if s.tasks_left[w] == 0 else s.work_left[w] - p.work[t]
    for k in range(p.child_ptr[t], p.child_ptr[t + 1]):
        child = p.child_idx[k]
        s.missing[child] -= 1
        if s.missing[child] == 0:
            _make_ready(p, s, h, child)


@kernel
def _fits_on(p, s, v):
    """True when some ready task can start on VM v."""
    for k in range(s.counts[READY_COUNT]):
        if fits(p, s, s.ready[k], v):
            return True
    return False


@kernel
def _process_due_events(p, s, h):
    """Handle every event at or before now, in the order (time, kind, index), arrivals last.

    True when an event has made some pair legal. An event never makes a pair illegal, so
    only what changed is looked at: the VM of a finish, a task that became ready, data
    that arrived.
    """
    opened = False
    while h.size[0] > 0 and h.time[0] <= s.now[0]:
        kind, index = h.kind[0], h.index[0]
        _pop(h)
        if kind == FINISH:
            before = s.counts[READY_COUNT]
            _finish(p, s, h, index)
            opened = opened or _fits_on(p, s, s.vm[index])
            for k in range(before, s.counts[READY_COUNT]):
                opened = opened or _fits_anywhere(p, s, s.ready[k])
        else:
            t = index // p.v
            if s.status[t] == READY:  # otherwise it was placed before all its data was everywhere
                s.pending[t] = 0
                s.counts[PENDING] -= 1
                _queue_next_data(p, s, h, t)
                opened = opened or _fits_anywhere(p, s, t)
    while s.counts[ARRIVED] < p.w and p.arrival_s[s.counts[ARRIVED]] <= s.now[0]:
        w = s.counts[ARRIVED]
        s.counts[ARRIVED] += 1
        for t in range(p.workflow_ptr[w], p.workflow_ptr[w + 1]):
            if s.missing[t] == 0:
                _make_ready(p, s, h, t)
                opened = opened or _fits_anywhere(p, s, t)
    return opened


@kernel
def _jump(p, s, h):
    """Move the clock to the next event; False when there is none."""
    while h.size[0] > 0 and h.kind[0] == DATA and s.status[h.index[0] // p.v] != READY:
        _pop(h)  # the task has been placed meanwhile
    soonest = np.inf
    if h.size[0] > 0:
        soonest = h.time[0]
    if s.counts[ARRIVED] < p.w:
        soonest = min(soonest, p.arrival_s[s.counts[ARRIVED]])
    if soonest == np.inf:
        return False
    s.now[0] = max(s.now[0], soonest)
    return True


@kernel
def _jump_to_opening(p, s, h):
    """From a moment without a legal pair, go on until there is one or all is done; False when stuck."""
    opened = False
    while not opened and s.counts[DONE_COUNT] < p.n:
        if not _jump(p, s, h):
            return False
        opened = _process_due_events(p, s, h)
    return True


@kernel
def _advance(p, s, h):
    """Handle what is due and go on to the next decision point or to the end."""
    opened = _process_due_events(p, s, h)
    if opened or _any_legal(p, s) or _jump_to_opening(p, s, h):
        return OK
    return STUCK


@kernel
def _place(p, s, h, t, v):
    s.status[t] = RUNNING
    s.vm[t] = v
    s.start_s[t] = s.now[0]
    k = 0
    while s.ready[k] != t:
        k += 1
    s.counts[READY_COUNT] -= 1
    for j in range(k, s.counts[READY_COUNT]):
        s.ready[j] = s.ready[j + 1]
    if s.pending[t] == 1:
        s.pending[t] = 0
        s.counts[PENDING] -= 1
    s.slot[t] = s.counts[RUNNING_COUNT]
    s.running[s.slot[t]] = t
    s.counts[RUNNING_COUNT] += 1
    _link(s, t, v)
    s.vm_load[v] += 1
    for r in range(3):
        s.free[v, r] -= p.demand[t, r]
    _push(h, s.now[0] + p.exec_s[t, v] * h.factor[t], FINISH, t)


# --- what the Simulator calls -------------------------------------------------------------


@kernel
def start(pi, pf, si, sf, hi, hf):
    """Fill an all-zero state for time 0 and go to the first decision point."""
    p = problem_views(pi, pf)
    s, h = state_views(p, si, sf), hidden_views(p, hi, hf)
    s.vm[:] = -1
    s.first_on[:] = -1
    s.start_s[:] = np.nan
    s.ready_s[:] = np.nan
    s.finish_s[:] = np.nan
    for v in range(p.v):
        for r in range(3):
            s.free[v, r] = p.capacity[v, r]
    for t in range(p.n):
        s.missing[t] = p.parent_ptr[t + 1] - p.parent_ptr[t]
        s.tasks_left[p.workflow_of[t]] += 1
        s.work_left[p.workflow_of[t]] += p.work[t]
    if p.has_data:
        s.data_s[:] = np.inf
    return _advance(p, s, h)


@kernel
def place(pi, pf, si, sf, hi, hf, t, v):
    """Start task t on VM v now and go to the next decision point."""
    p = problem_views(pi, pf)
    s, h = state_views(p, si, sf), hidden_views(p, hi, hf)
    if t < 0 or t >= p.n or v < 0 or v >= p.v or s.status[t] != READY or not fits(p, s, t, v):
        return ILLEGAL
    _place(p, s, h, t, v)
    return _advance(p, s, h)


@kernel
def wait(pi, pf, si, sf, hi, hf):
    """Jump from a decision point to the next event, which is a decision point too."""
    p = problem_views(pi, pf)
    s, h = state_views(p, si, sf), hidden_views(p, hi, hf)
    if not can_wait(p, s) or not _jump(p, s, h):
        return ILLEGAL
    _process_due_events(p, s, h)  # what was legal before is still legal
    return OK


@kernel
def rebuild_events(pi, pf, si, sf, hi, hf):
    """Queue the events of a copied state anew from the factors in hf: finishes, then data.

    A running task whose drawn end already lies behind now ends now.
    """
    p = problem_views(pi, pf)
    s, h = state_views(p, si, sf), hidden_views(p, hi, hf)
    h.size[0] = 0
    for k in range(s.counts[RUNNING_COUNT]):
        t = s.running[k]
        _push(h, max(s.now[0], s.start_s[t] + p.exec_s[t, s.vm[t]] * h.factor[t]), FINISH, t)
    s.counts[PENDING] = 0
    for t in range(p.n):
        if s.pending[t] == 1:
            s.pending[t] = 0
            _queue_next_data(p, s, h, t)


@kernel
def task_fits(pi, pf, si, sf, t, v):
    p = problem_views(pi, pf)
    s = state_views(p, si, sf)
    return s.status[t] == READY and fits(p, s, t, v)


@njit(cache=True)
def legal_pairs(pi, pf, si, sf):
    """(k, 2) every (ready task, VM) that can start now, in ready order, VMs ascending."""
    p = problem_views(pi, pf)
    s = state_views(p, si, sf)
    pairs = np.empty((s.counts[READY_COUNT] * p.v, 2), np.int64)
    count = 0
    for k in range(s.counts[READY_COUNT]):
        for v in range(p.v):
            if fits(p, s, s.ready[k], v):
                pairs[count, 0], pairs[count, 1] = s.ready[k], v
                count += 1
    return pairs[:count]


# --- rules --------------------------------------------------------------------------------


@kernel
def _first_vm(p, s, t):
    for v in range(p.v):
        if fits(p, s, t, v):
            return v
    return -1


@kernel
def _fullest_vm(p, s, t):
    """Best fit: the VM that has the least CPU left when task t has started; -1 when none fits."""
    best, at = np.inf, -1
    for v in range(p.v):
        if s.free[v, 0] < best and fits(p, s, t, v):
            best, at = s.free[v, 0], v
    return at


@kernel
def _fastest_vm(p, s, t):
    """The VM that finishes task t first if it starts now; -1 when none fits."""
    best, at = np.inf, -1
    for v in range(p.v):
        if p.exec_s[t, v] < best and fits(p, s, t, v):
            best, at = p.exec_s[t, v], v
    return at


@small_kernel
def _keys(rule, p, s, t):
    """(first key, second key) of task t; the smallest goes first, then the one ready first."""
    if rule == SJF:
        return p.mean_s[t], 0.0
    if rule == SRW or rule == SRW_PATIENT:
        return s.work_left[p.workflow_of[t]], -p.rank_s[t]
    return -p.rank_s[t], 0.0


@kernel
def _choose_fcfs(p, s, backfill):
    for k in range(s.counts[READY_COUNT]):
        v = _first_vm(p, s, s.ready[k])
        if v >= 0:
            return s.ready[k], v
        if not backfill:
            break
    return -1, -1


@kernel
def _expected_start(p, s, t, v):
    """When VM v will have room for task t, if its running tasks end after their mean durations.

    Walks the running tasks in the order of their expected ends, ties by task number.
    """
    now, at, last = s.now[0], s.now[0], -1
    cpu, memory, bandwidth = s.free[v, 0], s.free[v, 1], s.free[v, 2]
    while (
        p.demand[t, 0] > cpu + FREE_TOLERANCE
        or p.demand[t, 1] > memory + FREE_TOLERANCE
        or p.demand[t, 2] > bandwidth + FREE_TOLERANCE
    ):
        soonest, ends = np.inf, -1
        q = s.first_on[v]
        while q >= 0:
            end = max(now, s.start_s[q] + p.exec_s[q, v])
            later = last < 0 or end > at or (end == at and q > last)
            if later and (end < soonest or (end == soonest and q < ends)):
                soonest, ends = end, q
            q = s.next_on[q]
        if ends < 0:
            return np.inf
        cpu, memory, bandwidth = cpu + p.demand[ends, 0], memory + p.demand[ends, 1], bandwidth + p.demand[ends, 2]
        at, last = soonest, ends
    if p.has_data:
        at = max(at, s.data_s[t, v])
    return at


@kernel
def _earliest_finish_is_now(p, s, t, v):
    """True unless a busy VM is expected to finish task t before VM v, which is free, would."""
    finish = s.now[0] + p.exec_s[t, v]
    for u in range(p.v):
        faster = s.now[0] + p.exec_s[t, u] < finish
        if faster and _expected_start(p, s, t, u) + p.exec_s[t, u] < finish:
            return False
    return True


@kernel
def _choose_by_key(rule, p, s):
    """The task with the smallest key among those that may start now, and its VM.

    The patient rules pass over a task that is expected to finish earlier by waiting for
    a busy VM; the others take the free VM at hand.
    """
    cpu, memory, bandwidth = _max_free(p, s)
    patient = rule == SRW_PATIENT or rule == HEFT_PATIENT
    best_a, best_b, best_t, best_v = np.inf, np.inf, -1, -1
    for k in range(s.counts[READY_COUNT]):
        t = s.ready[k]
        if p.demand[t, 0] > cpu or p.demand[t, 1] > memory or p.demand[t, 2] > bandwidth:
            continue
        a, b = _keys(rule, p, s, t)
        if a < best_a or (a == best_a and b < best_b):
            v = _fullest_vm(p, s, t) if rule == CRITICAL_PATH else _fastest_vm(p, s, t)
            if v >= 0 and (not patient or _earliest_finish_is_now(p, s, t, v)):
                best_a, best_b, best_t, best_v = a, b, t, v
    return best_t, best_v


@kernel
def _choose_tetris(p, s):
    """The pair with the largest alignment sum_r demand_r x free_r, both as shares of the VM's capacity."""
    cpu, memory, bandwidth = _max_free(p, s)
    best, best_t, best_v = -1.0, -1, -1
    for k in range(s.counts[READY_COUNT]):
        t = s.ready[k]
        if p.demand[t, 0] > cpu or p.demand[t, 1] > memory or p.demand[t, 2] > bandwidth:
            continue
        for v in range(p.v):
            if fits(p, s, t, v):
                score = 0.0
                for r in range(3):
                    if p.capacity[v, r] > 0.0:
                        score += p.demand[t, r] * s.free[v, r] / p.capacity[v, r] ** 2
                if score > best:
                    best, best_t, best_v = score, t, v
    return best_t, best_v


@kernel
def _next_random(rng):
    """splitmix64 (Steele, Lea and Flood, 2014): the next 64 random bits; rng is (1,) uint64."""
    rng[0] += np.uint64(0x9E3779B97F4A7C15)
    z = rng[0]
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return z ^ (z >> np.uint64(31))


@kernel
def _choose_random(p, s, rng):
    """A legal pair drawn uniformly (reservoir sampling, so one pass is enough)."""
    cpu, memory, bandwidth = _max_free(p, s)
    count, best_t, best_v = 0, -1, -1
    for k in range(s.counts[READY_COUNT]):
        t = s.ready[k]
        if p.demand[t, 0] > cpu or p.demand[t, 1] > memory or p.demand[t, 2] > bandwidth:
            continue
        for v in range(p.v):
            if fits(p, s, t, v):
                count += 1
                if _next_random(rng) % np.uint64(count) == np.uint64(0):
                    best_t, best_v = t, v
    return best_t, best_v


@kernel
def _choose(rule, p, s, rng):
    if rule == FCFS or rule == FCFS_BACKFILL:
        return _choose_fcfs(p, s, rule == FCFS_BACKFILL)
    if rule == TETRIS:
        return _choose_tetris(p, s)
    if rule == RANDOM:
        return _choose_random(p, s, rng)
    return _choose_by_key(rule, p, s)


@kernel
def choose(rule, pi, pf, si, sf, rng):
    """(task, vm) that the rule places now, or (-1, -1) to wait."""
    p = problem_views(pi, pf)
    s = state_views(p, si, sf)
    return _choose(rule, p, s, rng)


@kernel
def run_rule(rule, pi, pf, si, sf, hi, hf, rng):
    """Let one rule decide until the end; the number of tasks it placed, or -1 when stuck."""
    p = problem_views(pi, pf)
    s, h = state_views(p, si, sf), hidden_views(p, hi, hf)
    may_wait = rule == FCFS or rule == SRW_PATIENT or rule == HEFT_PATIENT
    placed = 0
    while s.counts[DONE_COUNT] < p.n:
        t, v = _choose(rule, p, s, rng)
        if t >= 0:
            placed += 1
            _place(p, s, h, t, v)
            _process_due_events(p, s, h)  # a task of zero seconds ends at once
        elif may_wait:
            if not _jump(p, s, h):
                return -1
            _process_due_events(p, s, h)
        elif not _jump_to_opening(p, s, h):
            return -1
    return placed
