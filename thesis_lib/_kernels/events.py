"""The event queue and what events do: the clock of the simulator."""

from __future__ import annotations

import numpy as np

from thesis_lib._kernels.compiling import allocating_kernel, inner_kernel, kernel, small_kernel
from thesis_lib._kernels.state import (
    ACTIVE,
    ARRIVED,
    CPU_S,
    DATA,
    DONE,
    DONE_COUNT,
    FINISH,
    FINISHED,
    FLOW_S,
    ILLEGAL,
    LATE,
    OK,
    PENDING,
    READY,
    READY_COUNT,
    RUNNING,
    RUNNING_COUNT,
    SPARE_S,
    STUCK,
    WAITED_S,
    any_legal,
    can_wait,
    fits,
    fits_anywhere,
    hidden_views,
    problem_views,
    state_views,
)
from thesis_lib.schedule import SLA_FACTOR, TIME_TOLERANCE_S

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


@inner_kernel
def push(h, time, kind, index):
    i = h.size[0]
    h.size[0] = i + 1
    h.time[i], h.kind[i], h.index[i] = time, kind, index
    while i > 0 and _earlier(h, i, (i - 1) // 2):
        _swap(h, i, (i - 1) // 2)
        i = (i - 1) // 2


@inner_kernel
def pop(h):
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


# --- events -------------------------------------------------------------------------------


@inner_kernel
def _queue_next_data(p, s, h, t):
    """Queue the next moment at which task t's data is complete on one more VM."""
    soonest, at = np.inf, -1
    for v in range(p.v):
        if s.now[0] < s.data_s[t, v] < soonest and p.exec_s[t, v] < np.inf:
            soonest, at = s.data_s[t, v], v
    if at >= 0:
        push(h, soonest, DATA, t * p.v + at)
        s.pending[t] = 1
        s.counts[PENDING] += 1


@inner_kernel
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
def _link(p, s, t, v):
    """Put task t, which starts now, into the list of VM v's running tasks, by expected end."""
    end = s.start_s[t] + p.exec_s[t, v]
    before, after = -1, s.first_on[v]
    while after >= 0 and s.start_s[after] + p.exec_s[after, v] <= end:
        before, after = after, s.next_on[after]
    s.previous_on[t], s.next_on[t] = before, after
    if before >= 0:
        s.next_on[before] = t
    else:
        s.first_on[v] = t
    if after >= 0:
        s.previous_on[after] = t


@small_kernel
def _unlink(s, t, v):
    before, after = s.previous_on[t], s.next_on[t]
    if before >= 0:
        s.next_on[before] = after
    else:
        s.first_on[v] = after
    if after >= 0:
        s.previous_on[after] = before


@inner_kernel
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
        s.held[r] = 0.0 if s.counts[RUNNING_COUNT] == 0 else s.held[r] - p.demand[t, r]
    taken_s, allowed_s = s.now[0] - s.ready_s[t], SLA_FACTOR * p.duration_s[t]
    s.sums[FINISHED] += 1.0
    s.sums[LATE] += 1.0 if taken_s > allowed_s + TIME_TOLERANCE_S else 0.0
    s.sums[SPARE_S] += allowed_s - taken_s
    w = p.workflow_of[t]
    s.tasks_left[w] -= 1
    if s.tasks_left[w] == 0:
        s.done_s[w] = s.now[0]
        s.counts[ACTIVE] -= 1
    s.work_left[w] = 0.0 if s.tasks_left[w] == 0 else s.work_left[w] - p.work[t]
    for k in range(p.child_ptr[t], p.child_ptr[t + 1]):
        child = p.child_idx[k]
        s.missing[child] -= 1
        if s.missing[child] == 0:
            _make_ready(p, s, h, child)


@inner_kernel
def _fits_on(p, s, v):
    """True when some ready task can start on VM v."""
    for k in range(s.counts[READY_COUNT]):
        if fits(p, s, s.ready[k], v):
            return True
    return False


@inner_kernel
def process_due_events(p, s, h):
    """Handle every event at or before now, in the order (time, kind, index), arrivals last.

    True when an event has made some pair legal. An event never makes a pair illegal, so
    only what changed is looked at: the VM of a finish, a task that became ready, data
    that arrived.
    """
    opened = False
    while h.size[0] > 0 and h.time[0] <= s.now[0]:
        kind, index = h.kind[0], h.index[0]
        pop(h)
        if kind == FINISH:
            before = s.counts[READY_COUNT]
            _finish(p, s, h, index)
            opened = opened or _fits_on(p, s, s.vm[index])
            for k in range(before, s.counts[READY_COUNT]):
                opened = opened or fits_anywhere(p, s, s.ready[k])
        else:
            t = index // p.v
            if s.status[t] == READY:  # otherwise it was placed before all its data was everywhere
                s.pending[t] = 0
                s.counts[PENDING] -= 1
                _queue_next_data(p, s, h, t)
                opened = opened or fits_anywhere(p, s, t)
    while s.counts[ARRIVED] < p.w and p.arrival_s[s.counts[ARRIVED]] <= s.now[0]:
        w = s.counts[ARRIVED]
        s.counts[ARRIVED] += 1
        s.counts[ACTIVE] += 1
        for t in range(p.workflow_ptr[w], p.workflow_ptr[w + 1]):
            if s.missing[t] == 0:
                _make_ready(p, s, h, t)
                opened = opened or fits_anywhere(p, s, t)
    return opened


@small_kernel
def _pass_time(p, s, moment_s):
    """Move the clock and add up what is held and who waits meanwhile."""
    seconds = moment_s - s.now[0]
    for r in range(3):
        if p.total[r] > 0.0:
            s.sums[CPU_S + r] += seconds * s.held[r] / p.total[r]
    s.sums[FLOW_S] += seconds * s.counts[ACTIVE]
    s.now[0] = moment_s


@inner_kernel
def jump(p, s, h):
    """Move the clock to the next event; False when there is none."""
    while h.size[0] > 0 and h.kind[0] == DATA and s.status[h.index[0] // p.v] != READY:
        pop(h)  # the task has been placed meanwhile
    soonest = np.inf
    if h.size[0] > 0:
        soonest = h.time[0]
    if s.counts[ARRIVED] < p.w:
        soonest = min(soonest, p.arrival_s[s.counts[ARRIVED]])
    if soonest == np.inf:
        return False
    _pass_time(p, s, max(s.now[0], soonest))
    return True


@kernel
def jump_to_opening(p, s, h):
    """From a moment without a legal pair, go on until there is one or all is done; False when stuck."""
    opened = False
    while not opened and s.counts[DONE_COUNT] < p.n:
        if not jump(p, s, h):
            return False
        opened = process_due_events(p, s, h)
    return True


@kernel
def advance(p, s, h):
    """Handle what is due and go on to the next decision point or to the end."""
    opened = process_due_events(p, s, h)
    if opened or any_legal(p, s) or jump_to_opening(p, s, h):
        return OK
    return STUCK


@inner_kernel
def put(p, s, h, t, v):
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
    _link(p, s, t, v)
    s.vm_load[v] += 1
    for r in range(3):
        s.free[v, r] -= p.demand[t, r]
        s.held[r] += p.demand[t, r]
    s.sums[WAITED_S] += s.now[0] - s.ready_s[t]
    push(h, s.now[0] + p.exec_s[t, v] * h.factor[t], FINISH, t)


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
    s.done_s[:] = np.nan
    for v in range(p.v):
        for r in range(3):
            s.free[v, r] = p.capacity[v, r]
    for t in range(p.n):
        s.missing[t] = p.parent_ptr[t + 1] - p.parent_ptr[t]
        s.tasks_left[p.workflow_of[t]] += 1
        s.work_left[p.workflow_of[t]] += p.work[t]
    if p.has_data:
        s.data_s[:] = np.inf
    return advance(p, s, h)


@kernel
def place(pi, pf, si, sf, hi, hf, t, v):
    """Start task t on VM v now and go to the next decision point."""
    p = problem_views(pi, pf)
    s, h = state_views(p, si, sf), hidden_views(p, hi, hf)
    if t < 0 or t >= p.n or v < 0 or v >= p.v or s.status[t] != READY or not fits(p, s, t, v):
        return ILLEGAL
    put(p, s, h, t, v)
    return advance(p, s, h)


@kernel
def wait(pi, pf, si, sf, hi, hf):
    """Jump from a decision point to the next event, which is a decision point too."""
    p = problem_views(pi, pf)
    s, h = state_views(p, si, sf), hidden_views(p, hi, hf)
    if not can_wait(p, s) or not jump(p, s, h):
        return ILLEGAL
    process_due_events(p, s, h)  # what was legal before is still legal
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
        push(h, max(s.now[0], s.start_s[t] + p.exec_s[t, s.vm[t]] * h.factor[t]), FINISH, t)
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


@allocating_kernel
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
