"""A learned policy in one compiled call: look, score, choose; step by step or run to the end."""

from __future__ import annotations

import numpy as np

from thesis_lib._kernels.compiling import kernel
from thesis_lib._kernels.events import advance, jump, process_due_events, put
from thesis_lib._kernels.network import forward, network_views
from thesis_lib._kernels.observe import only_action, see
from thesis_lib._kernels.rules import next_random
from thesis_lib._kernels.state import DONE_COUNT, OK, can_wait, hidden_views, problem_views, state_views


@kernel
def pick(logits, temperature, rng):
    """An action: the best one (the first of equals) at temperature 0, else drawn with exp(logit / temperature).

    -1 when no action is legal.
    """
    best = -1
    for a in range(logits.shape[0]):
        if logits[a] > -np.inf and (best < 0 or logits[a] > logits[best]):
            best = a
    if best < 0 or temperature <= 0.0:
        return best
    total = 0.0
    for a in range(logits.shape[0]):
        if logits[a] > -np.inf:
            total += np.exp((logits[a] - logits[best]) / temperature)
    left = total * (next_random(rng) >> np.uint64(11)) * 2.0**-53
    drawn = best
    for a in range(logits.shape[0]):
        if logits[a] > -np.inf:
            drawn = a
            left -= np.exp((logits[a] - logits[best]) / temperature)
            if left < 0.0:
                break
    return drawn


@kernel
def score_actions(sizes, weights, pi, pf, si, sf, o, scratch, logits, rng):
    """Observe a state and write the logit of every action."""
    p = problem_views(pi, pf)
    s = state_views(p, si, sf)
    forward(network_views(sizes, weights), o, see(p, s, o, rng), scratch, logits)


@kernel
def decide_policy(sizes, weights, pi, pf, si, sf, o, scratch, logits, temperature, rng):
    """(task, vm) that the policy places now, or (-1, -1) to wait."""
    p = problem_views(pi, pf)
    s = state_views(p, si, sf)
    n_candidates, n_vms = see(p, s, o, rng), o.pair_x.shape[1]
    action = only_action(o.mask)
    if action < 0:  # there is a choice
        forward(network_views(sizes, weights), o, n_candidates, scratch, logits)
        action = pick(logits, temperature, rng)
    if action < 0 or action == logits.shape[0] - 1:
        return -1, -1
    return o.candidates[action // n_vms], action % n_vms


@kernel
def run_policy(sizes, weights, pi, pf, si, sf, hi, hf, o, scratch, logits, temperature, rng):
    """Let the policy decide from a decision point to the end; the number of decisions, or -1 when stuck.

    o: the arrays of an observation (`ObservationViews`), whose `place_of` holds -1 everywhere.
    logits: (S * v + 1,). temperature, rng: see `pick`.
    """
    p = problem_views(pi, pf)
    s, h = state_views(p, si, sf), hidden_views(p, hi, hf)
    decisions = 0
    while s.counts[DONE_COUNT] < p.n:
        t, v = decide_policy(sizes, weights, pi, pf, si, sf, o, scratch, logits, temperature, rng)
        decisions += 1
        if t >= 0:
            put(p, s, h, t, v)
            if advance(p, s, h) != OK:
                return -1
        else:
            if not can_wait(p, s) or not jump(p, s, h):
                return -1
            process_due_events(p, s, h)
    return decisions
