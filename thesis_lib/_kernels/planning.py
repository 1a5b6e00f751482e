"""Compiled kernels of the planners: insertion under cumulative capacities, and PEFT's table.

What is reserved on a VM is a step function of time, kept as a linked list of segments.
Segment k holds `used[k]` from `time[k]` until the time of its successor `after[k]`
(-1: for ever). All VMs share one pool of segments; `head[v]` is the first one of VM v.

A task of zero duration gets a segment of zero length, followed by a segment at the same
time. It reserves nothing for any length of time, but whoever later spans that instant
must leave room for it, otherwise it could not start when it was planned to.

Sizes: n tasks, v VMs, e edges; arrays are named as in `state.Problem`.
"""

from __future__ import annotations

import numpy as np

from thesis_lib._kernels.compiling import allocating_kernel, small_kernel

FITS_TOLERANCE = 1e-9  # cores, GB or Gbit/s, as in the simulator


def pool_size(n: int, v: int) -> int:
    """Segments that n reservations on v VMs need at most."""
    return v + 2 * n


@small_kernel
def _room(used, k, demand, t, limit, v):
    """True when task t fits on VM v beside what segment k holds."""
    return (
        used[k, 0] + demand[t, 0] <= limit[v, 0]
        and used[k, 1] + demand[t, 1] <= limit[v, 1]
        and used[k, 2] + demand[t, 2] <= limit[v, 2]
    )


@small_kernel
def _last_at(time, after, k, moment):
    """The last segment from k on that begins at or before `moment`."""
    while after[k] != -1 and time[after[k]] <= moment:
        k = after[k]
    return k


@allocating_kernel
def earliest_fit(time, used, after, first, demand, t, limit, v, ready, duration):
    """The earliest start >= ready at which task t fits on VM v for the whole duration.

    A zero duration fits at a boundary of segments when it fits on either side of it:
    whatever starts or ends there does not span the instant. Infinite if it never fits.
    """
    before, k = -1, first
    while after[k] != -1 and time[after[k]] <= ready:
        if time[after[k]] > time[k]:
            before = k
        k = after[k]
    start = max(ready, time[k])
    while True:
        end = start + duration
        if end <= start:
            at_boundary = before != -1 and time[k] == start
            if _room(used, k, demand, t, limit, v) or (at_boundary and _room(used, before, demand, t, limit, v)):
                return start
            blocked = k
        else:
            blocked, j = -1, k
            while j != -1 and (j == k or time[j] < end):
                if not _room(used, j, demand, t, limit, v):
                    blocked = j
                    break
                j = after[j]
            if blocked == -1:
                return start
        if after[blocked] == -1:
            return np.inf
        before, start = blocked, time[after[blocked]]
        k = _last_at(time, after, after[blocked], start)


@small_kernel
def _split(time, used, after, count, k, moment):
    """Insert a segment that begins at `moment` after k, holding the same as k."""
    new = count[0]
    count[0] += 1
    time[new] = moment
    used[new] = used[k]
    after[new] = after[k]
    after[k] = new
    return new


@small_kernel
def _reserve_instant(time, used, after, count, first, demand, t, start):
    """Mark a task of zero duration: nothing that later spans `start` may crowd it out."""
    before, k = -1, first
    while after[k] != -1 and time[after[k]] <= start:
        if time[after[k]] > time[k]:
            before = k
        k = after[k]
    if time[k] < start:
        before, k = k, _split(time, used, after, count, k, start)
    _split(time, used, after, count, k, start)  # the new one goes on, k becomes the instant
    for r in range(3):
        spanning = used[k, r] if before == -1 else min(used[before, r], used[k, r])
        used[k, r] = spanning + demand[t, r]


@allocating_kernel
def reserve(time, used, after, count, first, demand, t, start, end):
    """Hold the demand of task t from start to end on the VM whose list begins at `first`."""
    if end <= start:
        _reserve_instant(time, used, after, count, first, demand, t, start)
        return
    k = _last_at(time, after, first, start)
    if time[k] < start:
        k = _split(time, used, after, count, k, start)
    while True:
        follower = after[k]
        if follower == -1 or time[follower] > end:
            _split(time, used, after, count, k, end)
            follower = after[k]
        for r in range(3):
            used[k, r] += demand[t, r]
        if time[follower] >= end:
            return
        k = follower


@allocating_kernel
def forget_before(time, after, head, moment):
    """Drop the segments that end before `moment`: nothing will be placed there any more."""
    for v in range(len(head)):
        k = head[v]
        while after[k] != -1 and time[after[k]] < moment:
            k = after[k]
        head[v] = k


@small_kernel
def _data_there(t, v, parent_ptr, parent_idx, parent_mb, link, vm, finish):
    """When all parents of task t have finished and their data has reached VM v."""
    latest = -np.inf
    for e in range(parent_ptr[t], parent_ptr[t + 1]):
        q = parent_idx[e]
        moment = finish[q]
        if parent_mb[e] > 0.0 and vm[q] != v:
            moment += parent_mb[e] / link[vm[q], v]
        latest = max(latest, moment)
    return latest


@allocating_kernel
def fill_in_order(
    order, release, look_ahead, fixed_vm,
    exec_s, demand, limit, link, parent_ptr, parent_idx, parent_mb,
    time, used, after, head, count, vm, start, finish,
):  # fmt: skip
    """Place the tasks of `order`, one after another, where they finish first; -1, or a task that goes nowhere.

    release: (n,) earliest start. look_ahead: (n, v) seconds added to the finish time
    when VMs are compared, or (0, v) for none. fixed_vm: (n,) VM position or -1 for free
    choice, or (0,) for none fixed. Equal finish times go to the lowest VM position.
    vm, start, finish: (n,) results, also read for the parents, which come earlier.
    """
    for t in order:
        best, best_v, best_start = np.inf, -1, np.inf
        for v in range(exec_s.shape[1]):
            if exec_s[t, v] == np.inf or (len(fixed_vm) > 0 and fixed_vm[t] >= 0 and fixed_vm[t] != v):
                continue
            ready = max(release[t], _data_there(t, v, parent_ptr, parent_idx, parent_mb, link, vm, finish))
            extra = look_ahead[t, v] if len(look_ahead) > 0 else 0.0
            if ready + exec_s[t, v] + extra >= best:
                continue
            at = earliest_fit(time, used, after, head[v], demand, t, limit, v, ready, exec_s[t, v])
            if at + exec_s[t, v] + extra < best:
                best, best_v, best_start = at + exec_s[t, v] + extra, v, at
        if best_v == -1:
            return t
        vm[t], start[t], finish[t] = best_v, best_start, best_start + exec_s[t, best_v]
        reserve(time, used, after, count, head[best_v], demand, t, start[t], finish[t])
    return -1


@allocating_kernel
def optimistic_cost(order, exec_s, child_ptr, child_idx, mean_transfer_s):
    """(n, v) PEFT's table: the longest of the cheapest ways from the end of a task on a VM to the exit.

    order: topological. mean_transfer_s: (e,) per edge in the order of child_idx.
    """
    v_count = exec_s.shape[1]
    table = np.zeros(exec_s.shape)
    for i in range(len(order) - 1, -1, -1):
        t = order[i]
        for e in range(child_ptr[t], child_ptr[t + 1]):
            c = child_idx[e]
            elsewhere = np.inf
            for v in range(v_count):
                elsewhere = min(elsewhere, table[c, v] + exec_s[c, v] + mean_transfer_s[e])
            for v in range(v_count):
                table[t, v] = max(table[t, v], min(elsewhere, table[c, v] + exec_s[c, v]))
    return table
