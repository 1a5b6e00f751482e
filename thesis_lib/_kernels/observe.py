"""What a learned scheduler looks at: candidate tasks, their neighbours in the DAG, pairs and totals.

The numbers are written into arrays that the caller owns; their columns are named in
`thesis_lib.observation`. Times are divided by `scale_s`, the mean duration of the tasks
that have arrived, so that seconds and hours look alike.

Sizes: S slots of candidates, N nodes (the candidates first), E edges, v VMs.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from thesis_lib._kernels.compiling import kernel, small_kernel
from thesis_lib._kernels.rules import SRW, SRW_PATIENT, choose_pair, expected_start
from thesis_lib._kernels.state import (
    ARRIVED,
    DONE,
    READY,
    READY_COUNT,
    RUNNING,
    RUNNING_COUNT,
    can_wait,
    fits,
    fits_anywhere,
    max_free,
    may_fit,
    problem_views,
    state_views,
)

PER_WORKFLOW = 8  # candidates of one workflow at most


class ObservationViews(NamedTuple):
    """The arrays of one observation."""

    candidates: np.ndarray  # (S,) task numbers, -1 behind the last
    nodes: np.ndarray  # (N,) task numbers, the candidates first, -1 behind the last
    edges: np.ndarray  # (E, 2) positions in `nodes` of parent and child, -1 behind the last
    task_x: np.ndarray  # (N, 22), see observation.TASK_FEATURES
    pair_x: np.ndarray  # (S, v, 15), see observation.PAIR_FEATURES
    total_x: np.ndarray  # (21,), see observation.TOTAL_FEATURES
    mask: np.ndarray  # (S * v + 1,) 1 where the action is legal; the last one waits
    place_of: np.ndarray  # (n,) scratch: position of a task in `nodes`, -1 if it is not there
    rest_s: np.ndarray  # (w,) scratch: longest remaining path of each workflow


@small_kernel
def _log(x):
    return np.log1p(max(x, 0.0))


# --- who is looked at ---------------------------------------------------------------------


@small_kernel
def _goes_before(p, s, t, u):
    """SRW's order: less work left in the workflow, then the larger rank; what was ready first stays first."""
    a, b = s.work_left[p.workflow_of[t]], s.work_left[p.workflow_of[u]]
    return a < b or (a == b and p.rank_s[t] > p.rank_s[u])


@kernel
def _collect_candidates(p, s, o):
    """Ready tasks that fit somewhere now, in SRW's order, at most PER_WORKFLOW of one workflow; their number.

    The first one is what SRW picks.
    """
    slots, count = o.candidates.shape[0], 0
    most = max_free(p, s)
    o.candidates[:] = -1
    for k in range(s.counts[READY_COUNT]):
        t = s.ready[k]
        if not (may_fit(p, t, most) and fits_anywhere(p, s, t)):
            continue
        same, worst = 0, -1
        for i in range(count):
            if p.workflow_of[o.candidates[i]] == p.workflow_of[t]:
                same, worst = same + 1, i
        if same == PER_WORKFLOW or count == slots:
            out = worst if same == PER_WORKFLOW else count - 1
            if not _goes_before(p, s, t, o.candidates[out]):
                continue
            for i in range(out, count - 1):
                o.candidates[i] = o.candidates[i + 1]
            count -= 1
        i = count
        while i > 0 and _goes_before(p, s, t, o.candidates[i - 1]):
            o.candidates[i] = o.candidates[i - 1]
            i -= 1
        o.candidates[i] = t
        count += 1
    for i in range(count, slots):
        o.candidates[i] = -1
    return count


@kernel
def _make_sure_of(o, t, count):
    """Give task t a slot, the last one if all are taken; the new number of candidates."""
    for i in range(count):
        if o.candidates[i] == t:
            return count
    count = min(count + 1, o.candidates.shape[0])
    o.candidates[count - 1] = t
    return count


@small_kernel
def _add_node(o, t, count):
    """Put task t among the nodes if there is room and it is not there; the new number of nodes."""
    if o.place_of[t] < 0 and count < o.nodes.shape[0]:
        o.nodes[count], o.place_of[t] = t, count
        return count + 1
    return count


@kernel
def _collect_nodes(p, s, o, n_candidates):
    """The unfinished tasks within two edges of the candidates, nearest first; their number.

    First the candidates, then their children, then the children's other parents and the
    grandchildren: all that two rounds of message passing can reach.
    """
    count = 0
    for i in range(n_candidates):
        count = _add_node(o, o.candidates[i], count)
    first_ring = count
    for i in range(n_candidates):
        t = o.candidates[i]
        for k in range(p.child_ptr[t], p.child_ptr[t + 1]):
            count = _add_node(o, p.child_idx[k], count)
    second_ring = count
    for i in range(first_ring, second_ring):
        t = o.nodes[i]
        for e in range(p.parent_ptr[t], p.parent_ptr[t + 1]):
            if s.status[p.parent_idx[e]] != DONE:
                count = _add_node(o, p.parent_idx[e], count)
        for k in range(p.child_ptr[t], p.child_ptr[t + 1]):
            count = _add_node(o, p.child_idx[k], count)
    for i in range(count, o.nodes.shape[0]):
        o.nodes[i] = -1
    return count


@kernel
def _collect_edges(p, o, n_nodes):
    """Every dependency between two nodes, as far as there is room; their number."""
    count, room = 0, o.edges.shape[0]
    for i in range(n_nodes):
        t = o.nodes[i]
        for e in range(p.parent_ptr[t], p.parent_ptr[t + 1]):
            parent = o.place_of[p.parent_idx[e]]
            if parent >= 0 and count < room:
                o.edges[count, 0], o.edges[count, 1] = parent, i
                count += 1
    for i in range(count, room):
        o.edges[i, 0], o.edges[i, 1] = -1, -1
    return count


# --- what is seen of them -----------------------------------------------------------------


@kernel
def _mean_arrived_s(p, s):
    """Mean duration of the tasks that have arrived: the unit of all times here (1 s if they take no time)."""
    n = p.workflow_ptr[s.counts[ARRIVED]]
    total = 0.0
    for t in range(n):
        total += p.mean_s[t]
    return total / n if total > 0.0 else 1.0


@kernel
def _rest_of_workflows(p, s, o):
    """Longest remaining path of each workflow: the largest rank among its ready and running tasks."""
    o.rest_s[:] = 0.0
    for k in range(s.counts[READY_COUNT]):
        t = s.ready[k]
        o.rest_s[p.workflow_of[t]] = max(o.rest_s[p.workflow_of[t]], p.rank_s[t])
    for k in range(s.counts[RUNNING_COUNT]):
        t = s.running[k]
        o.rest_s[p.workflow_of[t]] = max(o.rest_s[p.workflow_of[t]], p.rank_s[t])


@kernel
def _see_task(p, s, o, i, scale_s, least_work, active):
    """Row i of task_x: one node of the DAG window."""
    t, x = o.nodes[i], o.task_x[i]
    w, now = p.workflow_of[t], s.now[0]
    x[0] = _log(p.mean_s[t] / scale_s)
    for r in range(3):
        largest = 0.0
        for v in range(p.v):
            largest = max(largest, p.capacity[v, r])
        x[1 + r] = p.demand[t, r] / largest if largest > 0.0 else 0.0
    x[4] = _log(10.0 * p.work[t] / scale_s)
    x[5] = _log(p.rank_s[t] / scale_s)
    x[6] = p.rank_s[t] / o.rest_s[w] if o.rest_s[w] > 0.0 else 0.0
    x[7] = _log(s.work_left[w] / scale_s)
    x[8] = _log(s.tasks_left[w]) / 5.0
    x[9] = _log((now - p.arrival_s[w]) / scale_s) / 3.0
    smaller = 0
    for other in range(s.counts[ARRIVED]):
        if s.tasks_left[other] > 0 and s.work_left[other] < s.work_left[w]:
            smaller += 1
    x[10] = smaller / active if active > 0 else 0.0
    x[11] = least_work / s.work_left[w] if s.work_left[w] > 0.0 else 1.0
    siblings = 0
    for k in range(s.counts[READY_COUNT]):
        siblings += p.workflow_of[s.ready[k]] == w
    x[12] = _log(siblings) / 3.0
    x[13] = _log((now - s.ready_s[t]) / scale_s) if s.status[t] == READY else 0.0
    x[14] = 1.0 if s.status[t] == READY else 0.0
    x[15] = 1.0 if s.status[t] == RUNNING else 0.0
    x[16] = 0.0
    if s.status[t] == RUNNING:
        x[16] = _log((s.start_s[t] + p.exec_s[t, s.vm[t]] - now) / scale_s)
    hosts = 0
    for v in range(p.v):
        hosts += p.exec_s[t, v] < np.inf
    x[17] = hosts / p.v
    x[18] = _log(p.child_ptr[t + 1] - p.child_ptr[t]) / 3.0
    parents = p.parent_ptr[t + 1] - p.parent_ptr[t]
    x[19] = s.missing[t] / parents if parents > 0 else 0.0
    x[20], x[21] = p.priority[t] / 10.0, p.critical[t]


@kernel
def _busy_until(p, s, v):
    """Expected end of the last running task of VM v; now when it is idle."""
    latest, q = s.now[0], s.first_on[v]
    while q >= 0:
        latest = max(latest, s.start_s[q] + p.exec_s[q, v])
        q = s.next_on[q]
    return latest


@kernel
def _see_pair(p, s, o, i, v, scale_s, srw, patient):
    """Row (i, v) of pair_x: candidate i on VM v, which fits. srw, patient: what the two rules would pick."""
    t, x, now = o.candidates[i], o.pair_x[i, v], s.now[0]
    fastest, free_fastest, elsewhere = np.inf, np.inf, np.inf
    for u in range(p.v):
        fastest = min(fastest, p.exec_s[t, u])
        if fits(p, s, t, u):
            free_fastest = min(free_fastest, p.exec_s[t, u])
        elif p.exec_s[t, u] < p.exec_s[t, v]:
            elsewhere = min(elsewhere, expected_start(p, s, t, u) + p.exec_s[t, u])
    here = now + p.exec_s[t, v]
    x[0] = fastest / p.exec_s[t, v] if p.exec_s[t, v] > 0.0 else 1.0
    x[1] = _log(p.exec_s[t, v] / scale_s)
    least, most, along = 1.0, 0.0, 0.0
    for r in range(3):
        capacity = p.capacity[v, r]
        share = p.demand[t, r] / capacity if capacity > 0.0 else 0.0
        free = s.free[v, r] / capacity if capacity > 0.0 else 1.0
        x[2 + r] = free - share
        least, most, along = min(least, free - share), max(most, share), along + free * share
    x[5], x[6], x[7] = least, most, along
    x[8] = 1.0 if p.exec_s[t, v] == free_fastest else 0.0
    x[9] = 1.0 if srw[0] == t and srw[1] == v else 0.0
    x[10] = 1.0 if patient[0] == t and patient[1] == v else 0.0
    horizon = _busy_until(p, s, v)
    x[11] = _log((horizon - now) / scale_s)
    x[12] = _log((here - horizon) / scale_s)
    x[13] = min(_log((here - elsewhere) / scale_s), 3.0) if elsewhere < here else 0.0
    x[14] = s.vm_load[v] / 10.0


@kernel
def _see_totals(p, s, o, n_candidates, scale_s, patient):
    """total_x: the whole cluster and all workflows that have arrived."""
    x = o.total_x
    x[:] = 0.0
    active, blocked, backlog = 0, 0, 0.0
    x[13:18] = 10.0
    for w in range(s.counts[ARRIVED]):
        if s.tasks_left[w] > 0:
            active += 1
            blocked += s.tasks_left[w]
            backlog += s.work_left[w]
            value, k = _log(s.work_left[w] / scale_s), 13
            while k < 18:  # insert among the five smallest
                if value < x[k]:
                    value, x[k] = x[k], value
                k += 1
    x[0], x[1] = _log(active) / 3.0, _log(s.counts[READY_COUNT]) / 4.0
    x[2], x[3] = _log(n_candidates) / 3.0, _log(blocked) / 6.0
    x[4] = _log(backlog / scale_s)
    for r in range(3):
        mean, most = 0.0, 0.0
        for v in range(p.v):
            share = s.free[v, r] / p.capacity[v, r] if p.capacity[v, r] > 0.0 else 1.0
            mean, most = mean + share / p.v, max(most, share)
        x[5 + r], x[8 + r] = mean, most
    x[11] = 1.0 if patient[0] < 0 else 0.0
    soonest = np.inf
    for v in range(p.v):
        if s.first_on[v] >= 0:
            q = s.first_on[v]
            soonest = min(soonest, s.start_s[q] + p.exec_s[q, v])
    x[12] = _log((soonest - s.now[0]) / scale_s) if soonest < np.inf else 0.0
    x[18] = _log(p.v) / 3.0
    x[19] = 1.0 if can_wait(p, s) else 0.0
    x[20] = s.counts[RUNNING_COUNT] / (10.0 * p.v)


@kernel
def see(p, s, o, rng):
    """Fill one observation; returns the number of candidates."""
    srw, patient = choose_pair(SRW, p, s, rng), choose_pair(SRW_PATIENT, p, s, rng)
    n_candidates = _collect_candidates(p, s, o)
    if patient[0] >= 0:
        n_candidates = _make_sure_of(o, patient[0], n_candidates)
    n_nodes = _collect_nodes(p, s, o, n_candidates)
    _collect_edges(p, o, n_nodes)
    scale_s = _mean_arrived_s(p, s)
    _rest_of_workflows(p, s, o)
    least_work, active = np.inf, 0
    for w in range(s.counts[ARRIVED]):
        if s.tasks_left[w] > 0:
            least_work, active = min(least_work, s.work_left[w]), active + 1
    o.mask[:] = 0
    for i in range(n_nodes):
        _see_task(p, s, o, i, scale_s, least_work, active)
    for i in range(n_nodes, o.nodes.shape[0]):
        o.task_x[i] = 0.0
    for i in range(o.candidates.shape[0]):
        for v in range(p.v):
            if i < n_candidates and fits(p, s, o.candidates[i], v):
                _see_pair(p, s, o, i, v, scale_s, srw, patient)
                o.mask[i * p.v + v] = 1
            else:
                o.pair_x[i, v] = 0.0
    o.mask[-1] = can_wait(p, s)
    _see_totals(p, s, o, n_candidates, scale_s, patient)
    for i in range(n_nodes):
        o.place_of[o.nodes[i]] = -1
    return n_candidates


@kernel
def only_action(mask):
    """The only legal action of an observation, or -1 when there is a choice or none."""
    found = -1
    for a in range(mask.shape[0]):
        if mask[a]:
            if found >= 0:
                return -1
            found = a
    return found


@kernel
def observe(pi, pf, si, sf, candidates, nodes, edges, task_x, pair_x, total_x, mask, place_of, rest_s, rng):
    """Write one observation of a state; returns the number of candidates. `place_of` must hold -1 everywhere."""
    p = problem_views(pi, pf)
    s = state_views(p, si, sf)
    o = ObservationViews(candidates, nodes, edges, task_x, pair_x, total_x, mask, place_of, rest_s)
    return see(p, s, o, rng)
