"""Rollouts: what a decision costs if a base rule goes on from there, over many sampled futures.

A rollout has a simulator of its own, an order of magnitude faster than the general one and
equal to it (the tests compare them): it holds only what is unfinished, packed together, and
keeps the ready tasks sorted by the rule's keys, so that the first one that may start is the
one to take. It knows the rules that take a task by a key (`KEY_RULES`).

    Scene    one sampled future: unfinished tasks, later workflows, drawn durations
    Rollout  the moving parts; one copy holds the state at the decision, the other one runs

Sizes: m tasks in the scene, f workflows, v VMs. Workflows that have not arrived are never
read: the later ones of a scene are copies of workflows that have arrived.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from thesis_lib._kernels.compiling import inner_kernel, kernel, small_kernel
from thesis_lib._kernels.rules import (
    CRITICAL_PATH,
    HEFT_ONLINE,
    HEFT_PATIENT,
    SJF,
    SRW,
    SRW_PATIENT,
    choose_pair,
    fastest_vm,
    fullest_vm,
    keys,
    next_random,
)
from thesis_lib._kernels.state import (
    ARRIVED,
    BLOCKED,
    DONE,
    FREE_TOLERANCE,
    READY,
    READY_COUNT,
    RUNNING,
    can_wait,
    fits_anywhere,
    max_free,
    may_fit,
    problem_views,
    state_views,
)

KEY_RULES = (SJF, CRITICAL_PATH, SRW, SRW_PATIENT, HEFT_ONLINE, HEFT_PATIENT)

# Positions in Scene.sizes: tasks and workflows of the scene, those of them that have arrived at the decision.
TASKS, FLOWS, OPEN_TASKS, OPEN_FLOWS = range(4)
# Positions in Rollout.counts: queued events, workflows in `order`, workflows arrived, ready tasks,
# 1 when the rule has passed over a task that fits, in order to wait.
EVENTS, ORDERED, ARRIVALS, WAITING, PASSED_OVER = range(5)


class Scene(NamedTuple):
    """The tasks of one sampled future, numbered through: first those that have arrived."""

    sizes: np.ndarray  # (4,) see TASKS ... OPEN_FLOWS
    local: np.ndarray  # (n,) number in the scene of each unfinished task of the problem
    task: np.ndarray  # (m,) number in the problem (of the original, for a copy)
    flow: np.ndarray  # (m,) workflow
    demand: np.ndarray  # (m, 3)
    exec_s: np.ndarray  # (m, v) mean run time
    key: np.ndarray  # (m,) the rule's key within a workflow, the smallest first
    work: np.ndarray  # (m,)
    factor: np.ndarray  # (m,) drawn / mean duration
    child_ptr: np.ndarray  # (m + 1,)
    child: np.ndarray  # (e,)
    child_mb: np.ndarray  # (e,)
    cursor: np.ndarray  # (m,) scratch: where the next child goes
    flow_ptr: np.ndarray  # (f + 1,) tasks of workflow k: flow_ptr[k] ... flow_ptr[k + 1] - 1
    arrival_s: np.ndarray  # (f,)


class Rollout(NamedTuple):
    """The moving parts of a rollout."""

    counts: np.ndarray  # (5,) see EVENTS ... PASSED_OVER
    now: np.ndarray  # (1,)
    status: np.ndarray  # (m,)
    missing: np.ndarray  # (m,) parents that have not finished
    vm: np.ndarray  # (m,) where a running task runs
    end_s: np.ndarray  # (m,) expected end of a running task
    data_s: np.ndarray  # (m, v) when the data of the finished parents is on the VM
    ready: np.ndarray  # (m,) ready tasks by key, the group of workflow k from flow_ptr[k] on
    ready_count: np.ndarray  # (f,)
    order: np.ndarray  # (f,) groups in the order in which the rule looks at them
    tasks_left: np.ndarray  # (f,)
    work_left: np.ndarray  # (f,)
    free: np.ndarray  # (v, 3)
    load: np.ndarray  # (v,) running tasks
    first_on: np.ndarray  # (v,) running tasks of a VM as a list by expected end, -1 for none
    next_on: np.ndarray  # (m,)
    event_s: np.ndarray  # (2m,) times of the queued events, the next one last
    event: np.ndarray  # (2m,) t for the finish of task t, 2^40 + t for data of task t


_DATA_EVENT = 1 << 40
BATCH = 4  # futures between two looks at which actions are still worth more
LEAST_GAIN_S = 1e-6  # a saving below this is rounding


def scratch(n: int, v: int, e: int, f: int) -> tuple[Scene, Rollout, Rollout]:
    """Room for scenes of up to n tasks, e edges and f workflows: the scene, the start and the run."""
    whole, real = (lambda *shape: np.zeros(shape, np.int64)), (lambda *shape: np.zeros(shape))
    scene = Scene(
        whole(4), whole(n), whole(n), whole(n), real(n, 3), real(n, v), real(n), real(n), real(n), whole(n + 1),
        whole(e), real(e), whole(n), whole(f + 1), real(f),
    )  # fmt: skip
    runs = [
        Rollout(
            whole(5), real(1), whole(n), whole(n), whole(n), real(n), real(n, v), whole(n), whole(f), whole(f),
            whole(f), real(f), real(v, 3), whole(v), whole(v), whole(n), real(2 * n), whole(2 * n),
        )
        for _ in range(2)
    ]  # fmt: skip
    return scene, *runs


@small_kernel
def _is_patient(rule):
    return rule == SRW_PATIENT or rule == HEFT_PATIENT


@small_kernel
def _by_flow(rule):
    """True for the rules that look at one workflow after another; the others see one group of tasks."""
    return rule == SRW or rule == SRW_PATIENT


# --- random numbers -----------------------------------------------------------------------


@inner_kernel
def uniform(rng):
    """A number in (0, 1); rng is (1,) uint64, see `rules.next_random`."""
    return (np.float64(next_random(rng) >> np.uint64(11)) + 0.5) / 9007199254740992.0


@inner_kernel
def normal(rng):
    """A standard normal number (Box and Muller, 1958)."""
    return np.sqrt(-2.0 * np.log(uniform(rng))) * np.cos(2.0 * np.pi * uniform(rng))


@kernel
def normal_above(least, rng):
    """A standard normal number given that it is above `least` (Robert, 1995, for the upper tail)."""
    if least <= 0.0:
        z = normal(rng)
        while z <= least:
            z = normal(rng)
        return z
    rate = (least + np.sqrt(least * least + 4.0)) / 2.0
    while True:
        z = least - np.log(uniform(rng)) / rate
        if uniform(rng) <= np.exp(-((z - rate) ** 2) / 2.0):
            return z


@inner_kernel
def duration_factor(sigma, least, rng):
    """Drawn / mean duration: lognormal with mean 1, given that it is above `least` (0 for no condition).

    sigma: standard deviation of the logarithm.
    """
    if sigma == 0.0:
        return 1.0
    if least <= 0.0:
        z = normal(rng)
    else:
        z = normal_above((np.log(least) + sigma * sigma / 2.0) / sigma, rng)
    return np.exp(sigma * z - sigma * sigma / 2.0)


# --- the scene ----------------------------------------------------------------------------


@inner_kernel
def _add_task(p, rule, scene, t, i, f):
    """Copy task t of the problem as task i of the scene, in workflow f."""
    scene.task[i], scene.flow[i] = t, f
    for r in range(3):
        scene.demand[i, r] = p.demand[t, r]
    for v in range(p.v):
        scene.exec_s[i, v] = p.exec_s[t, v]
    scene.key[i] = p.mean_s[t] if rule == SJF else -p.rank_s[t]
    scene.work[i] = p.work[t]
    scene.cursor[i] = scene.child_ptr[i]
    scene.child_ptr[i + 1] = scene.child_ptr[i] + p.child_ptr[t + 1] - p.child_ptr[t]


@small_kernel
def _add_child(p, scene, i, e, parent):
    """Enter task i of the scene, whose parent edge in the problem is e, among the children of `parent`."""
    at = scene.cursor[parent]
    scene.child[at], scene.child_mb[at] = i, p.parent_mb[e]
    scene.cursor[parent] = at + 1


@small_kernel
def _data_comes(p, run, i, mb, finish_s, source):
    """Note that a parent of task i has finished on VM `source` and sends its data."""
    if mb > 0.0:
        for v in range(p.v):
            if v != source:
                run.data_s[i, v] = max(run.data_s[i, v], finish_s + mb / p.link[source, v])


@small_kernel
def _offset(scene, rule, f):
    return scene.flow_ptr[f] if _by_flow(rule) else 0


@inner_kernel
def _insert_ready(scene, run, rule, i):
    """Put task i among the ready ones of its group, behind those with the same key."""
    g = scene.flow[i] if _by_flow(rule) else 0
    first = _offset(scene, rule, g)
    k = first + run.ready_count[g]
    while k > first and scene.key[run.ready[k - 1]] > scene.key[i]:
        run.ready[k] = run.ready[k - 1]
        k -= 1
    run.ready[k] = i
    run.ready_count[g] += 1
    run.status[i] = READY


@inner_kernel
def _insert_group(run, g):
    """Put group g into the order, behind those with the same work left."""
    k = run.counts[ORDERED]
    while k > 0 and run.work_left[run.order[k - 1]] > run.work_left[g]:
        run.order[k] = run.order[k - 1]
        k -= 1
    run.order[k] = g
    run.counts[ORDERED] += 1


@kernel
def _copy_present(p, s, rule, scene, start):
    """The scene and its start: the unfinished tasks of the workflows that have arrived."""
    m, f = 0, 0
    scene.child_ptr[0] = scene.flow_ptr[0] = 0
    for w in range(s.counts[ARRIVED]):
        if s.tasks_left[w] == 0:
            continue
        for t in range(p.workflow_ptr[w], p.workflow_ptr[w + 1]):
            if s.status[t] != DONE:
                _add_task(p, rule, scene, t, m, f)
                scene.local[t] = m
                start.status[m], start.missing[m], start.vm[m] = s.status[t], s.missing[t], s.vm[t]
                m += 1
        scene.arrival_s[f] = p.arrival_s[w]
        start.tasks_left[f], start.work_left[f] = s.tasks_left[w], s.work_left[w]
        f += 1
        scene.flow_ptr[f] = m
    scene.sizes[OPEN_TASKS], scene.sizes[OPEN_FLOWS] = m, f
    for i in range(m):
        t = scene.task[i]
        if p.has_data:
            for v in range(p.v):
                start.data_s[i, v] = s.data_s[t, v] if start.status[i] == READY else 0.0
        if start.status[i] != BLOCKED:
            continue
        for e in range(p.parent_ptr[t], p.parent_ptr[t + 1]):
            q = p.parent_idx[e]
            if s.status[q] != DONE:
                _add_child(p, scene, i, e, scene.local[q])
            elif p.has_data:
                _data_comes(p, start, i, p.parent_mb[e], s.finish_s[q], s.vm[q])


@kernel
def _copy_running(p, s, scene, start):
    """The VMs at the decision and what runs on them."""
    start.now[0] = s.now[0]
    for v in range(p.v):
        for r in range(3):
            start.free[v, r] = s.free[v, r]
        start.load[v] = s.vm_load[v]
        start.first_on[v] = -1
        t, last = s.first_on[v], -1
        while t >= 0:
            i = scene.local[t]
            start.end_s[i] = s.start_s[t] + p.exec_s[t, v]
            start.next_on[i] = -1
            if last >= 0:
                start.next_on[last] = i
            else:
                start.first_on[v] = i
            last, t = i, s.next_on[t]


@kernel
def begin(p, s, rule, scene, start):
    """Fill the scene's present and the start of the rollouts from the state at the decision."""
    _copy_present(p, s, rule, scene, start)
    _copy_running(p, s, scene, start)
    order_start(s, rule, scene, start)


@kernel
def order_start(s, rule, scene, start):
    """Sort the groups and their ready tasks by the keys as they are now."""
    start.counts[ORDERED] = start.counts[PASSED_OVER] = 0
    for f in range(scene.sizes[OPEN_FLOWS]):
        start.ready_count[f] = 0
    if _by_flow(rule):
        for g in range(scene.sizes[OPEN_FLOWS]):
            _insert_group(start, g)
    else:
        start.order[0], start.counts[ORDERED] = 0, 1
    for k in range(s.counts[READY_COUNT]):
        _insert_ready(scene, start, rule, scene.local[s.ready[k]])


@kernel
def _add_later(p, s, rule, later, scene, start, rng):
    """Add workflows to come: copies of arrived ones, drawn at random, with exponential gaps.

    The mean gap is that of the workflows so far, the time since the last one included.
    """
    m, f = scene.sizes[OPEN_TASKS], scene.sizes[OPEN_FLOWS]
    arrived = s.counts[ARRIVED]
    gap_s = (s.now[0] - p.arrival_s[0]) / max(1, arrived - 1)
    moment = s.now[0]
    for _ in range(min(later, p.w - arrived) if arrived > 1 and gap_s > 0.0 else 0):
        moment -= gap_s * np.log(uniform(rng))
        w = int(uniform(rng) * arrived)
        first = p.workflow_ptr[w]
        start.work_left[f] = 0.0
        for t in range(first, p.workflow_ptr[w + 1]):
            i = m + t - first
            _add_task(p, rule, scene, t, i, f)
            start.status[i], start.missing[i] = BLOCKED, p.parent_ptr[t + 1] - p.parent_ptr[t]
            start.work_left[f] += p.work[t]
            if p.has_data:
                for v in range(p.v):
                    start.data_s[i, v] = 0.0
        for t in range(first, p.workflow_ptr[w + 1]):
            for e in range(p.parent_ptr[t], p.parent_ptr[t + 1]):
                _add_child(p, scene, m + t - first, e, m + p.parent_idx[e] - first)
        start.tasks_left[f], start.ready_count[f] = p.workflow_ptr[w + 1] - first, 0
        scene.arrival_s[f] = moment
        m, f = m + p.workflow_ptr[w + 1] - first, f + 1
        scene.flow_ptr[f] = m
    scene.sizes[TASKS], scene.sizes[FLOWS] = m, f


@kernel
def sample(p, s, rule, later, sigma, scene, start, rng):
    """Draw one future: durations of all unfinished tasks, workflows to come, and queue the events."""
    _add_later(p, s, rule, later, scene, start, rng)
    start.counts[EVENTS] = 0
    start.counts[ARRIVALS] = scene.sizes[OPEN_FLOWS]
    for i in range(scene.sizes[TASKS]):
        t, least = scene.task[i], 0.0
        if start.status[i] == RUNNING:
            least = (s.now[0] - s.start_s[t]) / p.exec_s[t, start.vm[i]]
        scene.factor[i] = duration_factor(sigma[t], least, rng)
        if start.status[i] == RUNNING:
            _push(start, max(s.now[0], s.start_s[t] + p.exec_s[t, start.vm[i]] * scene.factor[i]), i)
        elif start.status[i] == READY and p.has_data:
            _queue_data(p, scene, start, i)


# --- running ------------------------------------------------------------------------------


@inner_kernel
def copy_start(p, scene, start, run):
    """Set the run back to the decision."""
    for k in range(5):
        run.counts[k] = start.counts[k]
    run.now[0] = start.now[0]
    for i in range(scene.sizes[TASKS]):
        run.status[i], run.missing[i], run.vm[i] = start.status[i], start.missing[i], start.vm[i]
        run.end_s[i], run.next_on[i], run.ready[i] = start.end_s[i], start.next_on[i], start.ready[i]
        if p.has_data:
            for v in range(p.v):
                run.data_s[i, v] = start.data_s[i, v]
    for f in range(scene.sizes[FLOWS]):
        run.ready_count[f], run.order[f] = start.ready_count[f], start.order[f]
        run.tasks_left[f], run.work_left[f] = start.tasks_left[f], start.work_left[f]
    for v in range(p.v):
        for r in range(3):
            run.free[v, r] = start.free[v, r]
        run.load[v], run.first_on[v] = start.load[v], start.first_on[v]
    for k in range(start.counts[EVENTS]):
        run.event_s[k], run.event[k] = start.event_s[k], start.event[k]


@inner_kernel
def _push(run, moment, event):
    """Queue an event; the queue is sorted by falling (time, event), so that the next one stands last."""
    k = run.counts[EVENTS]
    while k > 0 and (run.event_s[k - 1] < moment or (run.event_s[k - 1] == moment and run.event[k - 1] < event)):
        run.event_s[k], run.event[k] = run.event_s[k - 1], run.event[k - 1]
        k -= 1
    run.event_s[k], run.event[k] = moment, event
    run.counts[EVENTS] += 1


@inner_kernel
def _queue_data(p, scene, run, i):
    """Queue the next moment at which the data of ready task i is complete on one more VM."""
    soonest = np.inf
    for v in range(p.v):
        if run.now[0] < run.data_s[i, v] < soonest and scene.exec_s[i, v] < np.inf:
            soonest = run.data_s[i, v]
    if soonest < np.inf:
        _push(run, soonest, _DATA_EVENT + i)


@small_kernel
def _has_room(scene, i, cpu, memory, bandwidth):
    return (
        scene.demand[i, 0] <= cpu + FREE_TOLERANCE
        and scene.demand[i, 1] <= memory + FREE_TOLERANCE
        and scene.demand[i, 2] <= bandwidth + FREE_TOLERANCE
    )


@small_kernel
def _fits(p, scene, run, i, v):
    return (
        _has_room(scene, i, run.free[v, 0], run.free[v, 1], run.free[v, 2])
        and scene.exec_s[i, v] < np.inf
        and (not p.has_data or run.data_s[i, v] <= run.now[0])
    )


@small_kernel
def _best_vm(p, scene, run, rule, i):
    """The VM that the rule gives ready task i now; -1 when it fits none."""
    best, at = np.inf, -1
    for v in range(p.v):
        value = run.free[v, 0] if rule == CRITICAL_PATH else scene.exec_s[i, v]
        if value < best and _fits(p, scene, run, i, v):
            best, at = value, v
    return at


@inner_kernel
def _expected_start(p, scene, run, i, v):
    """When VM v will have room for task i, if its running tasks end after their mean durations."""
    at = run.now[0]
    cpu, memory, bandwidth = run.free[v, 0], run.free[v, 1], run.free[v, 2]
    q = run.first_on[v]
    while not _has_room(scene, i, cpu, memory, bandwidth):
        if q < 0:
            return np.inf
        at = max(at, run.end_s[q])
        cpu, memory, bandwidth = cpu + scene.demand[q, 0], memory + scene.demand[q, 1], bandwidth + scene.demand[q, 2]
        q = run.next_on[q]
    return max(at, run.data_s[i, v]) if p.has_data else at


@inner_kernel
def _now_is_best(p, scene, run, i, v):
    """True unless a busy VM is expected to finish task i before VM v would."""
    finish = run.now[0] + scene.exec_s[i, v]
    for u in range(p.v):
        faster = run.now[0] + scene.exec_s[i, u] < finish
        if faster and _expected_start(p, scene, run, i, u) + scene.exec_s[i, u] < finish:
            return False
    return True


@inner_kernel
def place(p, scene, run, rule, g, k, v):
    """Start the ready task at place k of group g on VM v."""
    first = _offset(scene, rule, g)
    i = run.ready[first + k]
    run.ready_count[g] -= 1
    for j in range(first + k, first + run.ready_count[g]):
        run.ready[j] = run.ready[j + 1]
    run.status[i], run.vm[i] = RUNNING, v
    for r in range(3):
        run.free[v, r] -= scene.demand[i, r]
    run.load[v] += 1
    end = run.now[0] + scene.exec_s[i, v]
    run.end_s[i] = end
    before, after = -1, run.first_on[v]
    while after >= 0 and run.end_s[after] <= end:
        before, after = after, run.next_on[after]
    run.next_on[i] = after
    if before >= 0:
        run.next_on[before] = i
    else:
        run.first_on[v] = i
    _push(run, run.now[0] + scene.exec_s[i, v] * scene.factor[i], i)


@inner_kernel
def _make_ready(p, scene, run, rule, i):
    _insert_ready(scene, run, rule, i)
    if p.has_data:
        for v in range(p.v):
            run.data_s[i, v] = max(run.data_s[i, v], run.now[0])
        _queue_data(p, scene, run, i)


@inner_kernel
def _lighten(scene, run, rule, i):
    """Take task i's work off its workflow and move that forward in the order."""
    f = scene.flow[i]
    run.tasks_left[f] -= 1
    run.work_left[f] = 0.0 if run.tasks_left[f] == 0 else run.work_left[f] - scene.work[i]
    if not _by_flow(rule):
        return
    k = 0
    while run.order[k] != f:
        k += 1
    if run.tasks_left[f] == 0:
        run.counts[ORDERED] -= 1
        for j in range(k, run.counts[ORDERED]):
            run.order[j] = run.order[j + 1]
        return
    while k > 0 and run.work_left[run.order[k - 1]] > run.work_left[f]:
        run.order[k] = run.order[k - 1]
        k -= 1
    run.order[k] = f


@inner_kernel
def _finish(p, scene, run, rule, i):
    v = run.vm[i]
    run.status[i] = DONE
    before, q = -1, run.first_on[v]
    while q != i:
        before, q = q, run.next_on[q]
    if before >= 0:
        run.next_on[before] = run.next_on[i]
    else:
        run.first_on[v] = run.next_on[i]
    run.load[v] -= 1
    for r in range(3):
        run.free[v, r] = p.capacity[v, r] if run.load[v] == 0 else run.free[v, r] + scene.demand[i, r]
    _lighten(scene, run, rule, i)
    for e in range(scene.child_ptr[i], scene.child_ptr[i + 1]):
        c = scene.child[e]
        run.missing[c] -= 1
        if p.has_data:
            _data_comes(p, run, c, scene.child_mb[e], run.now[0], v)
        if run.missing[c] == 0:
            _make_ready(p, scene, run, rule, c)


@inner_kernel
def _handle_due(p, scene, run, rule, counted):
    """Handle what is due now; (seconds to add to the total, VM that alone has changed).

    The VM is -1 when nothing can start that could not before, -2 when more than one VM
    has to be looked at. counted: workflows whose completion counts.
    """
    total, looked = 0.0, -1
    while run.counts[EVENTS] > 0 and run.event_s[run.counts[EVENTS] - 1] <= run.now[0]:
        run.counts[EVENTS] -= 1
        event = run.event[run.counts[EVENTS]]
        if event < _DATA_EVENT:
            f, v, ready = scene.flow[event], run.vm[event], 0
            _finish(p, scene, run, rule, event)
            for e in range(scene.child_ptr[event], scene.child_ptr[event + 1]):
                ready += run.missing[scene.child[e]] == 0
            looked = v if ready == 0 and (looked == -1 or looked == v) else -2
            if run.tasks_left[f] == 0 and f < counted:
                total += run.now[0] - scene.arrival_s[f]
        elif run.status[event - _DATA_EVENT] == READY:
            _queue_data(p, scene, run, event - _DATA_EVENT)
            if _best_vm(p, scene, run, rule, event - _DATA_EVENT) >= 0:
                looked = -2
    while run.counts[ARRIVALS] < scene.sizes[FLOWS] and scene.arrival_s[run.counts[ARRIVALS]] <= run.now[0]:
        f = run.counts[ARRIVALS]
        run.counts[ARRIVALS] += 1
        if _by_flow(rule):
            _insert_group(run, f)
        for i in range(scene.flow_ptr[f], scene.flow_ptr[f + 1]):
            if run.missing[i] == 0:
                _make_ready(p, scene, run, rule, i)
        looked = -2
    return total, looked


@inner_kernel
def _next_moment(scene, run):
    """Move the clock to the next event; False when there is none."""
    soonest = np.inf
    while run.counts[EVENTS] > 0:
        event = run.event[run.counts[EVENTS] - 1]
        if event < _DATA_EVENT or run.status[event - _DATA_EVENT] == READY:
            soonest = run.event_s[run.counts[EVENTS] - 1]
            break
        run.counts[EVENTS] -= 1  # the task has been placed meanwhile
    if run.counts[ARRIVALS] < scene.sizes[FLOWS]:
        soonest = min(soonest, scene.arrival_s[run.counts[ARRIVALS]])
    if soonest == np.inf:
        return False
    run.now[0] = max(run.now[0], soonest)
    return True


@inner_kernel
def _place_all(p, scene, run, rule, only):
    """Let the rule place what it places now; True when a task of zero seconds ends at once.

    only: the VM that alone may take a task, -2 for any.
    """
    patient = _is_patient(rule)
    run.counts[PASSED_OVER] = 0
    a, k = 0, 0
    cpu = memory = bandwidth = 0.0
    stale = True
    while a < run.counts[ORDERED]:
        g = run.order[a]
        if stale:
            cpu = memory = bandwidth = 0.0
            for v in range(p.v):
                if only == -2 or v == only:
                    cpu, memory = max(cpu, run.free[v, 0]), max(memory, run.free[v, 1])
                    bandwidth = max(bandwidth, run.free[v, 2])
            stale = False
        first = _offset(scene, rule, g)
        count = run.ready_count[g]
        while k < count and not _has_room(scene, run.ready[first + k], cpu, memory, bandwidth):
            k += 1
        if k == count:
            a, k = a + 1, 0
            continue
        i = run.ready[first + k]
        v = _best_vm(p, scene, run, rule, i)
        if v < 0:
            k += 1
        elif patient and not _now_is_best(p, scene, run, i, v):
            run.counts[PASSED_OVER] = 1
            k += 1
        else:
            place(p, scene, run, rule, g, k, v)
            if run.event_s[run.counts[EVENTS] - 1] <= run.now[0]:
                return True
            stale = True
            if run.counts[PASSED_OVER] == 1:  # it may no longer pay to wait for the VM that was just taken
                run.counts[PASSED_OVER], a, k = 0, 0, 0
                only = -2
    return False


@inner_kernel
def run_on(p, scene, run, rule, counted):
    """Let the rule decide until the first `counted` workflows are done; their total completion time.

    NaN when the rule cannot go on.
    """
    total, look = 0.0, -2
    left = 0
    for f in range(counted):
        left += run.tasks_left[f]
    while True:
        more, changed = _handle_due(p, scene, run, rule, counted)
        total += more
        if changed != -1:
            look = changed if look == -1 and run.counts[PASSED_OVER] == 0 else -2
        elif run.counts[PASSED_OVER] == 1:
            look = -2
        if look != -1 and _place_all(p, scene, run, rule, look):
            look = -2
            continue
        look = -1
        unfinished = False
        for f in range(counted):
            unfinished = unfinished or run.tasks_left[f] > 0
        if not unfinished:
            return total
        if not _next_moment(scene, run):
            return np.nan


@inner_kernel
def _take(p, scene, run, rule, task, v):
    """Carry out the action to be judged: place the task, or wait for the next event if it is -1."""
    if task < 0:
        _next_moment(scene, run)
        return
    i = scene.local[task]
    g = scene.flow[i] if _by_flow(rule) else 0
    k, first = 0, _offset(scene, rule, g)
    while run.ready[first + k] != i:
        k += 1
    place(p, scene, run, rule, g, k, v)


@kernel
def try_actions(p, rule, actions, count, to_end, scene, start, run, r, total_s, alive):
    """Run the sampled future number r after each action that is alive."""
    counted = scene.sizes[FLOWS] if to_end else scene.sizes[OPEN_FLOWS]
    for c in range(count):
        if alive[c] == 1:
            copy_start(p, scene, start, run)
            _take(p, scene, run, rule, actions[c, 0], actions[c, 1])
            total_s[c, r] = run_on(p, scene, run, rule, counted)


# --- deciding -----------------------------------------------------------------------------


@kernel
def candidate_actions(rule, p, s, rng, actions):
    """Fill actions (k, 2) with what is worth judging, the rule's own action first; the number of them.

    Then waiting, if it is legal, and the pairs that a rule without patience would take: each
    task that fits now on the VM that finishes it first, in the order of the rule's keys.
    """
    actions[0, 0], actions[0, 1] = choose_pair(rule, p, s, rng)
    count = 1
    if actions[0, 0] >= 0 and can_wait(p, s) and count < len(actions):
        actions[count, 0], actions[count, 1] = -1, -1
        count += 1
    most = max_free(p, s)
    last_a, last_b, last_k = -np.inf, -np.inf, -1
    while count < len(actions):
        best_a, best_b, best_k = np.inf, np.inf, -1
        for k in range(s.counts[READY_COUNT]):
            t = s.ready[k]
            if not may_fit(p, t, most) or not fits_anywhere(p, s, t):
                continue
            a, b = keys(rule, p, s, t)
            seen = a < last_a or (a == last_a and (b < last_b or (b == last_b and k <= last_k)))
            if not seen and (a < best_a or (a == best_a and b < best_b)):
                best_a, best_b, best_k = a, b, k
        if best_k < 0:
            return count
        last_a, last_b, last_k = best_a, best_b, best_k
        t = s.ready[best_k]
        v = fullest_vm(p, s, t) if rule == CRITICAL_PATH else fastest_vm(p, s, t)
        if t != actions[0, 0] or v != actions[0, 1]:
            actions[count, 0], actions[count, 1] = t, v
            count += 1
    return count


@kernel
def gain_over_first(total_s, c, r):
    """(mean, standard error) of the seconds that row c of total_s saves against row 0 in the first r futures."""
    mean, squares = 0.0, 0.0
    for k in range(r):
        mean += (total_s[0, k] - total_s[c, k]) / r
    for k in range(r):
        squares += (total_s[0, k] - total_s[c, k] - mean) ** 2
    return mean, np.sqrt(squares / (r - 1) / r) if r > 1 else 0.0


@kernel
def drop_hopeless(count, total_s, r, alive):
    """Take out of the race whose mean gain is below 0 by a standard error; the number of those still in it.

    alive: (k,) 1 for a row that is in the race; row 0 always is.
    """
    left = 1
    for c in range(1, count):
        if alive[c] == 1:
            gain_s, error_s = gain_over_first(total_s, c, r)
            alive[c] = gain_s + error_s > LEAST_GAIN_S
            left += alive[c]
    return left


@kernel
def best_action(count, total_s, least_z, alive):
    """The row of total_s (k, r) with the largest mean gain over row 0 among those whose gain is significant.

    A gain is significant when it is at least `least_z` of its standard errors; 0 when there is none.
    """
    best, best_gain_s = 0, LEAST_GAIN_S
    for c in range(1, count):
        if alive[c] == 1:
            gain_s, error_s = gain_over_first(total_s, c, total_s.shape[1])
            if gain_s > best_gain_s and gain_s >= least_z * error_s:
                best, best_gain_s = c, gain_s
    return best


@kernel
def judge(rule, pi, pf, si, sf, sigma, actions, count, later, to_end, scene, start, run, rng, total_s, alive, drops):
    """Total completion time, after each action, of the workflows that are not done, over sampled futures.

    rule: one of KEY_RULES, which decides after the action. sigma: (n,) standard deviation of the
    logarithm of each task's duration. actions: the first `count` rows are legal (task, VM) pairs, -1 for wait.
    later: workflows to come that a future adds. to_end: run them to the end and count them too,
    else stop when those that have arrived are done. total_s: the first `count` rows of (c, r) are written.
    drops: after every BATCH futures the hopeless actions are dropped. Returns False as soon as only the first is left.
    """
    p = problem_views(pi, pf)
    s = state_views(p, si, sf)
    begin(p, s, rule, scene, start)
    for c in range(count):
        alive[c] = 1
    for r in range(total_s.shape[1]):
        sample(p, s, rule, later, sigma, scene, start, rng)
        try_actions(p, rule, actions, count, to_end, scene, start, run, r, total_s, alive)
        if drops and (r + 1) % BATCH == 0 and drop_hopeless(count, total_s, r + 1, alive) == 1:
            return False
    return True


@kernel
def race(rule, pi, pf, si, sf, sigma, actions, count, later, to_end, scene, start, run, rng, total_s, alive, least_z):
    """The row of the best action, found by `judge` that drops the hopeless ones."""
    if not judge(rule, pi, pf, si, sf, sigma, actions, count, later, to_end, scene, start, run, rng, total_s, alive,
                 True):  # fmt: skip
        return 0
    return best_action(count, total_s, least_z, alive)


@kernel
def search(rule, pi, pf, si, sf, sigma, actions, later, to_end, scene, start, run, rng, total_s, alive, least_z):
    """The (task, VM) that the search takes, (-1, -1) to wait.

    actions (k, 2), total_s (k, r) and alive (k,) are scratch.
    """
    count = candidate_actions(rule, problem_views(pi, pf), state_views(problem_views(pi, pf), si, sf), rng, actions)
    best = 0
    if count > 1:
        best = race(rule, pi, pf, si, sf, sigma, actions, count, later, to_end, scene, start, run, rng, total_s, alive,
                    least_z)  # fmt: skip
    return actions[best, 0], actions[best, 1]
