"""The rules, each one choice of a (task, VM) pair, and the loop that lets a rule run to the end."""

from __future__ import annotations

import numpy as np

from thesis_lib._kernels.compiling import inner_kernel, kernel, small_kernel
from thesis_lib._kernels.events import jump, jump_to_opening, process_due_events, put
from thesis_lib._kernels.state import (
    DONE_COUNT,
    READY_COUNT,
    fits,
    hidden_views,
    max_free,
    may_fit,
    problem_views,
    state_views,
)  # fmt: skip

RULES = ("fcfs", "fcfs_backfill", "sjf", "tetris", "critical_path", "srw", "srw_patient", "heft_online",
         "heft_patient", "random")  # fmt: skip
FCFS, FCFS_BACKFILL, SJF, TETRIS, CRITICAL_PATH, SRW, SRW_PATIENT, HEFT_ONLINE, HEFT_PATIENT, RANDOM = range(10)


@inner_kernel
def _first_vm(p, s, t):
    for v in range(p.v):
        if fits(p, s, t, v):
            return v
    return -1


@inner_kernel
def fullest_vm(p, s, t):
    """Best fit: the VM that has the least CPU left when task t has started; -1 when none fits."""
    best, at = np.inf, -1
    for v in range(p.v):
        if s.free[v, 0] < best and fits(p, s, t, v):
            best, at = s.free[v, 0], v
    return at


@inner_kernel
def fastest_vm(p, s, t):
    """The VM that finishes task t first if it starts now; -1 when none fits."""
    best, at = np.inf, -1
    for v in range(p.v):
        if p.exec_s[t, v] < best and fits(p, s, t, v):
            best, at = p.exec_s[t, v], v
    return at


@small_kernel
def keys(rule, p, s, t):
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


@inner_kernel
def expected_start(p, s, t, v):
    """When VM v will have room for task t, if its running tasks end after their mean durations."""
    at = s.now[0]
    cpu, memory, bandwidth = s.free[v, 0], s.free[v, 1], s.free[v, 2]
    q = s.first_on[v]
    while not may_fit(p, t, (cpu, memory, bandwidth)):
        if q < 0:
            return np.inf
        at = max(at, s.start_s[q] + p.exec_s[q, v])
        cpu, memory, bandwidth = cpu + p.demand[q, 0], memory + p.demand[q, 1], bandwidth + p.demand[q, 2]
        q = s.next_on[q]
    return max(at, s.data_s[t, v]) if p.has_data else at


@inner_kernel
def earliest_finish_is_now(p, s, t, v):
    """True unless a busy VM is expected to finish task t before VM v, which is free, would."""
    finish = s.now[0] + p.exec_s[t, v]
    for u in range(p.v):
        faster = s.now[0] + p.exec_s[t, u] < finish
        if faster and expected_start(p, s, t, u) + p.exec_s[t, u] < finish:
            return False
    return True


@inner_kernel
def _choose_by_key(rule, p, s):
    """The task with the smallest key among those that may start now, and its VM.

    The patient rules pass over a task that is expected to finish earlier by waiting for
    a busy VM; the others take the free VM at hand.
    """
    most = max_free(p, s)
    patient = rule == SRW_PATIENT or rule == HEFT_PATIENT
    best_a, best_b, best_t, best_v = np.inf, np.inf, -1, -1
    for k in range(s.counts[READY_COUNT]):
        t = s.ready[k]
        if not may_fit(p, t, most):
            continue
        a, b = keys(rule, p, s, t)
        if a < best_a or (a == best_a and b < best_b):
            v = fullest_vm(p, s, t) if rule == CRITICAL_PATH else fastest_vm(p, s, t)
            if v >= 0 and (not patient or earliest_finish_is_now(p, s, t, v)):
                best_a, best_b, best_t, best_v = a, b, t, v
    return best_t, best_v


@kernel
def _choose_tetris(p, s):
    """The pair with the largest alignment sum_r demand_r x free_r, both as shares of the VM's capacity."""
    most = max_free(p, s)
    best, best_t, best_v = -1.0, -1, -1
    for k in range(s.counts[READY_COUNT]):
        t = s.ready[k]
        if not may_fit(p, t, most):
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


@inner_kernel
def next_random(rng):
    """splitmix64 (Steele, Lea and Flood, 2014): the next 64 random bits; rng is (1,) uint64."""
    rng[0] += np.uint64(0x9E3779B97F4A7C15)
    z = rng[0]
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return z ^ (z >> np.uint64(31))


@kernel
def _choose_random(p, s, rng):
    """A legal pair drawn uniformly (reservoir sampling, so one pass is enough)."""
    most = max_free(p, s)
    count, best_t, best_v = 0, -1, -1
    for k in range(s.counts[READY_COUNT]):
        t = s.ready[k]
        if not may_fit(p, t, most):
            continue
        for v in range(p.v):
            if fits(p, s, t, v):
                count += 1
                if next_random(rng) % np.uint64(count) == np.uint64(0):
                    best_t, best_v = t, v
    return best_t, best_v


@kernel
def choose_pair(rule, p, s, rng):
    """(task, vm) that the rule places now, or (-1, -1) to wait."""
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
    return choose_pair(rule, p, s, rng)


@kernel
def run_rule(rule, pi, pf, si, sf, hi, hf, rng):
    """Let one rule decide until the end; the number of tasks it placed, or -1 when stuck."""
    p = problem_views(pi, pf)
    s, h = state_views(p, si, sf), hidden_views(p, hi, hf)
    may_wait = rule == FCFS or rule == SRW_PATIENT or rule == HEFT_PATIENT
    placed = 0
    while s.counts[DONE_COUNT] < p.n:
        t, v = choose_pair(rule, p, s, rng)
        if t >= 0:
            placed += 1
            put(p, s, h, t, v)
            process_due_events(p, s, h)  # a task of zero seconds ends at once
        elif may_wait:
            if not jump(p, s, h):
                return -1
            process_due_events(p, s, h)
        elif not jump_to_opening(p, s, h):
            return -1
    return placed
