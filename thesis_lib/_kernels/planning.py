"""Compiled kernels of the planners: insertion under cumulative capacities, and PEFT's table.

What is reserved on a VM is a step function of time, kept as a linked list of segments.
Segment k holds `used[k]` from `time[k]` until the time of its successor `after[k]`
(-1: for ever). All VMs share one pool of segments, the `Book`; `head[v]` is the first one
of VM v. The only VM, with 2 cores held from 0 to 20, then 1 more from 10 to 30:

    cores     3 |                     +---------+
              2 |           +---------+         |
              1 |           |                   +---------+
              0 +-----------+---------+---------+---------+------->
    time[k]    -inf         0         10        20        30
    k           0 = head[0] 1         3         2         4      in order of making
    used[k, 0]  0           2         3         1         0
    after[k]    1           3         2         4        -1

To reserve, the segments in which start and end lie are split there, and the demand is
added to all in between.

A task of zero duration gets a segment of zero length, followed by a segment at the same
time. It reserves nothing for any length of time, but whoever later spans that instant
must leave room for it, otherwise it could not start when it was planned to.

Sizes: n tasks, v VMs, e edges; p is a `state.ProblemViews`.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from thesis_lib._kernels.compiling import allocating_kernel, kernel, small_kernel
from thesis_lib._kernels.state import FREE_TOLERANCE


class Book(NamedTuple):
    """What is reserved on every VM."""

    limit: np.ndarray  # (v, 3) capacities, the tolerance included
    head: np.ndarray  # (v,) first segment of each VM
    time: np.ndarray  # (pool,) begin of each segment, seconds
    used: np.ndarray  # (pool, 3) cores, GB and Gbit/s held in it
    after: np.ndarray  # (pool,) the segment that follows, -1 for none
    count: np.ndarray  # (1,) segments in use


class Guide(NamedTuple):
    """What guides the choice of a VM besides the finish time; empty arrays for nothing."""

    look_ahead_s: np.ndarray  # (n, v) seconds added to the finish time when VMs are compared, or (0, v)
    fixed_vm: np.ndarray  # (n,) VM position a task must go to, -1 for free choice, or (0,)


class Placed(NamedTuple):
    """Where and when the tasks have been placed."""

    vm: np.ndarray  # (n,) VM positions, -1 for not placed
    start_s: np.ndarray  # (n,)
    finish_s: np.ndarray  # (n,)


def empty_book(capacity: np.ndarray, reservations: int) -> Book:
    """A book without reservations that has room for so many of them. capacity: (v, 3)."""
    v = len(capacity)
    size = v + 2 * reservations  # a reservation splits two segments at most
    return Book(
        capacity + FREE_TOLERANCE, np.arange(v), np.full(size, -np.inf), np.zeros((size, 3)), np.full(size, -1),
        np.array([v]),
    )  # fmt: skip


# --- looking for room ---------------------------------------------------------------------


@small_kernel
def _room(book, k, v, need):
    """True when `need` fits on VM v beside what segment k holds."""
    return (
        book.used[k, 0] + need[0] <= book.limit[v, 0]
        and book.used[k, 1] + need[1] <= book.limit[v, 1]
        and book.used[k, 2] + need[2] <= book.limit[v, 2]
    )


@small_kernel
def _last_at(book, k, moment):
    """The last segment from k on that begins at or before `moment`."""
    while book.after[k] != -1 and book.time[book.after[k]] <= moment:
        k = book.after[k]
    return k


@small_kernel
def _around(book, v, moment):
    """The last segment that begins at or before `moment`, and the last one of some length before it (or -1)."""
    before, k = -1, book.head[v]
    while book.after[k] != -1 and book.time[book.after[k]] <= moment:
        if book.time[book.after[k]] > book.time[k]:
            before = k
        k = book.after[k]
    return before, k


@small_kernel
def _first_full(book, k, v, need, end):
    """The first segment from k on that begins before `end` and has no room, -1 when all have; k counts always."""
    while _room(book, k, v, need):
        k = book.after[k]
        if k == -1 or book.time[k] >= end:
            return -1
    return k


@small_kernel
def _earliest_span(book, v, need, ready, duration):
    """`earliest_fit` for a duration that takes time: every segment it covers must have room."""
    start, k = ready, _last_at(book, book.head[v], ready)
    full = _first_full(book, k, v, need, start + duration)
    while full != -1:
        k = book.after[full]
        if k == -1:
            return np.inf
        start = book.time[k]
        k = _last_at(book, k, start)
        full = _first_full(book, k, v, need, start + duration)
    return start


@small_kernel
def _earliest_instant(book, v, need, ready):
    """`earliest_fit` for no duration: room on either side of a boundary will do.

    Whatever starts or ends at the boundary does not span the instant.
    """
    start = ready
    before, k = _around(book, v, ready)
    while not _room(book, k, v, need):
        if before != -1 and book.time[k] == start and _room(book, before, v, need):
            break
        before, k = k, book.after[k]
        if k == -1:
            return np.inf
        start = book.time[k]
        k = _last_at(book, k, start)
    return start


@kernel
def earliest_fit(book, v, need, ready, duration):
    """The earliest start >= ready at which `need` fits on VM v for the whole duration; infinite if never.

    need: cores, GB and Gbit/s as a tuple of three.
    """
    if ready + duration > ready:
        return _earliest_span(book, v, need, ready, duration)
    return _earliest_instant(book, v, need, ready)


# --- reserving ----------------------------------------------------------------------------


@small_kernel
def _split(book, k, moment):
    """Insert a segment that begins at `moment` after k, holding the same as k."""
    new = book.count[0]
    book.count[0] += 1
    book.time[new] = moment
    book.after[new] = book.after[k]
    book.after[k] = new
    for r in range(3):
        book.used[new, r] = book.used[k, r]
    return new


@small_kernel
def _reserve_instant(book, v, need, start):
    """Mark a task of zero duration: nothing that later spans `start` may crowd it out."""
    before, k = _around(book, v, start)
    if book.time[k] < start:
        before, k = k, _split(book, k, start)
    _split(book, k, start)  # the new one goes on, k becomes the instant
    for r in range(3):
        spanning = book.used[k, r] if before == -1 else min(book.used[before, r], book.used[k, r])
        book.used[k, r] = spanning + need[r]


@small_kernel
def _reserve_span(book, v, need, start, end):
    """Add `need` to all segments from start to end, splitting those in which they lie."""
    k = _last_at(book, book.head[v], start)
    if book.time[k] < start:
        k = _split(book, k, start)
    while True:
        follower = book.after[k]
        if follower == -1 or book.time[follower] > end:
            follower = _split(book, k, end)
        for r in range(3):
            book.used[k, r] += need[r]
        if book.time[follower] >= end:
            return
        k = follower


@kernel
def reserve(book, v, need, start, end):
    """Hold `need` (cores, GB, Gbit/s) on VM v from start to end."""
    if end > start:
        _reserve_span(book, v, need, start, end)
    else:
        _reserve_instant(book, v, need, start)


@kernel
def forget_before(book, moment):
    """Drop the segments that end before `moment`: nothing will be placed there any more."""
    for v in range(len(book.head)):
        k = book.head[v]
        while book.after[k] != -1 and book.time[book.after[k]] < moment:
            k = book.after[k]
        book.head[v] = k


# --- placing tasks ------------------------------------------------------------------------


@small_kernel
def _ready_on(p, placed, t, v):
    """When the workflow of task t has arrived, its parents have finished and their data has reached VM v."""
    latest = p.arrival_s[p.workflow_of[t]]
    for e in range(p.parent_ptr[t], p.parent_ptr[t + 1]):
        q = p.parent_idx[e]
        moment = placed.finish_s[q]
        if p.parent_mb[e] > 0.0 and placed.vm[q] != v:
            moment += p.parent_mb[e] / p.link[placed.vm[q], v]
        latest = max(latest, moment)
    return latest


@small_kernel
def _allowed(p, guide, t, v):
    """True when task t can run on VM v and is not fixed to another one."""
    if p.exec_s[t, v] == np.inf:
        return False
    return len(guide.fixed_vm) == 0 or guide.fixed_vm[t] < 0 or guide.fixed_vm[t] == v


@kernel
def _best_place(p, t, need, guide, book, placed):
    """The VM on which task t finishes first and its start there; -1 when there is none. Ties: the lowest position."""
    best, best_v, best_start = np.inf, -1, np.inf
    for v in range(p.v):
        if _allowed(p, guide, t, v):
            after_start = p.exec_s[t, v]
            extra = guide.look_ahead_s[t, v] if len(guide.look_ahead_s) > 0 else 0.0
            ready = _ready_on(p, placed, t, v)
            if ready + after_start + extra < best:  # otherwise not even an empty VM could be better
                start = earliest_fit(book, v, need, ready, after_start)
                if start + after_start + extra < best:
                    best, best_v, best_start = start + after_start + extra, v, start
    return best_v, best_start


@kernel
def fill_in_order(p, order, guide, book, placed):
    """Place the tasks of `order`, parents first, each where it finishes first; -1, or a task that goes nowhere.

    book and placed are written to; placed is also read for the parents.
    """
    for t in order:
        need = (p.demand[t, 0], p.demand[t, 1], p.demand[t, 2])
        v, start = _best_place(p, t, need, guide, book, placed)
        if v == -1:
            return t
        placed.vm[t], placed.start_s[t], placed.finish_s[t] = v, start, start + p.exec_s[t, v]
        reserve(book, v, need, start, placed.finish_s[t])
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
