"""List scheduling with randomised keys: the best of many lists, simulated on mean durations."""

from __future__ import annotations

import numpy as np

from thesis_lib._kernels.compiling import kernel
from thesis_lib._kernels.rollouts import (
    OPEN_FLOWS,
    OPEN_TASKS,
    begin,
    copy_start,
    normal,
    order_start,
    run_on,
    sample,
    try_actions,
    uniform,
)
from thesis_lib._kernels.rules import (
    CRITICAL_PATH,
    SRW_PATIENT,
    earliest_finish_is_now,
    fastest_vm,
    fullest_vm,
)
from thesis_lib._kernels.state import READY_COUNT, max_free, may_fit, problem_views, state_views


@kernel
def _perturb(p, s, from_best, spread, scene, start, rng, key, weight):
    """New keys and work in the scene: the rule's own, or those of the best list, times random factors."""
    several = scene.sizes[OPEN_FLOWS] > 1
    for f in range(scene.sizes[OPEN_FLOWS]):
        w = p.workflow_of[scene.task[scene.flow_ptr[f]]]
        factor = np.exp(spread * normal(rng)) if several else 1.0
        if from_best:
            factor *= weight[w]
        start.work_left[f] = s.work_left[w] * factor
        for i in range(scene.flow_ptr[f], scene.flow_ptr[f + 1]):
            t = scene.task[i]
            scene.work[i] = p.work[t] * factor
            own = key[t] if from_best else -p.rank_s[t]
            scene.key[i] = own * (1.0 + spread * (2.0 * uniform(rng) - 1.0))


@kernel
def _keep(p, s, scene, start, key, weight):
    """Write the scene's keys and weights down by the problem's numbers."""
    for i in range(scene.sizes[OPEN_TASKS]):
        key[scene.task[i]] = scene.key[i]
    for f in range(scene.sizes[OPEN_FLOWS]):
        w = p.workflow_of[scene.task[scene.flow_ptr[f]]]
        weight[w] = start.work_left[f] / s.work_left[w] if s.work_left[w] > 0.0 else 1.0


@kernel
def best_keys(rule, pi, pf, si, sf, samples, spread, no_sigma, given, scene, start, run, rng, key, weight):
    """Write the keys of the best list into key (n,) and weight (w,); its total completion time.

    Each list multiplies the upward rank of every task by a number of 1 +- spread and, where there
    are several, the remaining work of every workflow by exp(spread x normal). The first list is
    the rule's own; the first quarter varies that one, the others the best list so far.
    no_sigma: (n,) zeros, so that every task takes its mean duration. given: key and weight hold a
    list already, which is the first one and the one to vary.
    """
    p = problem_views(pi, pf)
    s = state_views(p, si, sf)
    begin(p, s, rule, scene, start)
    sample(p, s, rule, 0, no_sigma, scene, start, rng)
    best_s = np.inf
    for k in range(samples):
        _perturb(p, s, given or k > samples // 4, spread if k > 0 else 0.0, scene, start, rng, key, weight)
        order_start(s, rule, scene, start)
        copy_start(p, scene, start, run)
        total_s = run_on(p, scene, run, rule, scene.sizes[OPEN_FLOWS])
        if total_s < best_s:
            best_s = total_s
            _keep(p, s, scene, start, key, weight)
    return best_s


@kernel
def judge_by_lists(rule, pi, pf, si, sf, actions, count, spread, no_sigma, scene, start, run, rng, key, weight,
                   total_s, alive):  # fmt: skip
    """Total completion time after each action when one of many randomised lists goes on, on mean durations.

    actions: the first `count` rows are legal (task, VM) pairs, -1 for wait. total_s: the first `count` rows of
    (c, r) are written, column k for the k-th list, the first list being the rule's own. All actions
    meet the same lists. no_sigma: (n,) zeros. key (n,), weight (w,) and alive (c,) are scratch.
    """
    p = problem_views(pi, pf)
    s = state_views(p, si, sf)
    begin(p, s, rule, scene, start)
    sample(p, s, rule, 0, no_sigma, scene, start, rng)
    for c in range(count):
        alive[c] = 1
    for k in range(total_s.shape[1]):
        _perturb(p, s, False, spread if k > 0 else 0.0, scene, start, rng, key, weight)
        order_start(s, rule, scene, start)
        try_actions(p, rule, actions, count, True, scene, start, run, k, total_s, alive)


@kernel
def choose_by_list(rule, pi, pf, si, sf, key, weight):
    """(task, vm) that the rule places now when it goes by these keys, or (-1, -1) to wait.

    For SRW_PATIENT workflows come first by weight x remaining work, tasks by key; for CRITICAL_PATH
    by key alone.
    """
    p = problem_views(pi, pf)
    s = state_views(p, si, sf)
    most = max_free(p, s)
    best_a, best_b, best_t, best_v = np.inf, np.inf, -1, -1
    for k in range(s.counts[READY_COUNT]):
        t = s.ready[k]
        if not may_fit(p, t, most):
            continue
        w = p.workflow_of[t]
        a, b = weight[w] * s.work_left[w] if rule == SRW_PATIENT else 0.0, key[t]
        if a < best_a or (a == best_a and b < best_b):
            v = fullest_vm(p, s, t) if rule == CRITICAL_PATH else fastest_vm(p, s, t)
            if v >= 0 and (rule != SRW_PATIENT or earliest_finish_is_now(p, s, t, v)):
                best_a, best_b, best_t, best_v = a, b, t, v
    return best_t, best_v
