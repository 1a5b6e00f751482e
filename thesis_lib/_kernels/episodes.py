"""Many environments stepped in one call: what `env.CloudWorkflowEnv` does, row by row."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from thesis_lib._kernels.compiling import kernel
from thesis_lib._kernels.events import place, wait
from thesis_lib._kernels.observe import ObservationViews, only_action, see
from thesis_lib._kernels.rules import choose, run_rule
from thesis_lib._kernels.state import DONE_COUNT, hidden_sizes, problem_views, state_sizes, state_views


class Rows(NamedTuple):
    """The buffers of b environments, one a row, each row as long as the largest one needs."""

    pi: np.ndarray
    pf: np.ndarray
    si: np.ndarray
    sf: np.ndarray
    hi: np.ndarray
    hf: np.ndarray
    candidates: np.ndarray  # (b, S)
    nodes: np.ndarray  # (b, N)
    edges: np.ndarray  # (b, E, 2)
    task_x: np.ndarray  # (b, N, features)
    pair_x: np.ndarray  # (b, S, v, features)
    total_x: np.ndarray  # (b, features)
    mask: np.ndarray  # (b, S * v + 1)
    place_of: np.ndarray  # (b, n)
    rest_s: np.ndarray  # (b, w)
    rng: np.ndarray  # (1,)


class Spare(NamedTuple):
    """One more set of state buffers, for running the base rule to the end."""

    si: np.ndarray
    sf: np.ndarray
    hi: np.ndarray
    hf: np.ndarray


@kernel
def observe_row(rows, e):
    """Write the observation of environment e."""
    p = problem_views(rows.pi[e], rows.pf[e])
    s = state_views(p, rows.si[e], rows.sf[e])
    o = ObservationViews(
        rows.candidates[e], rows.nodes[e], rows.edges[e], rows.task_x[e], rows.pair_x[e], rows.total_x[e],
        rows.mask[e], rows.place_of[e], rows.rest_s[e],
    )  # fmt: skip
    see(p, s, o, rows.rng)


@kernel
def base_completion_s(rows, spare, e, rule):
    """Total completion time of environment e's workflows if the rule took over now."""
    p = problem_views(rows.pi[e], rows.pf[e])
    si_size, sf_size = state_sizes(p.n, p.v, p.w, p.has_data)
    hi_size, hf_size = hidden_sizes(p.n)
    for k in range(si_size):
        spare.si[k] = rows.si[e, k]
    for k in range(sf_size):
        spare.sf[k] = rows.sf[e, k]
    for k in range(hi_size):
        spare.hi[k] = rows.hi[e, k]
    for k in range(hf_size):
        spare.hf[k] = rows.hf[e, k]
    run_rule(rule, rows.pi[e], rows.pf[e], spare.si, spare.sf, spare.hi, spare.hf, rows.rng)
    s = state_views(p, spare.si, spare.sf)
    total = 0.0
    for w in range(p.w):
        total += s.done_s[w] - p.arrival_s[w]
    return total


@kernel
def _act(rows, e, action):
    """Carry out a legal action of environment e."""
    v = rows.pair_x.shape[2]
    buffers = (rows.pi[e], rows.pf[e], rows.si[e], rows.sf[e], rows.hi[e], rows.hf[e])
    if action == rows.candidates.shape[1] * v:
        wait(*buffers)
    else:
        place(*buffers, rows.candidates[e, action // v], action % v)


@kernel
def base_action(rows, e, rule):
    """The number of the action that the base rule would take in environment e; -1 if it has no slot."""
    t, vm = choose(rule, rows.pi[e], rows.pf[e], rows.si[e], rows.sf[e], rows.rng)
    slots, v = rows.candidates.shape[1], rows.pair_x.shape[2]
    if t < 0:
        return slots * v
    for i in range(slots):
        if rows.candidates[e, i] == t:
            return i * v + vm
    return -1


@kernel
def base_actions(rows, rule, actions):
    """Write `base_action` of every environment to actions (b,)."""
    for e in range(len(actions)):
        actions[e] = base_action(rows, e, rule)


@kernel
def step_rows(rows, spare, actions, skip_forced, rule, illegal, base_s, done):
    """Step every environment that is not done: act, go on while forced, look.

    illegal, done: (b,) written here. rule: the base rule whose total completion time is
    written to base_s (b,), or -1 for none.
    """
    for e in range(len(actions)):
        if done[e]:
            continue
        action = actions[e]
        illegal[e] = action < 0 or action >= rows.mask.shape[1] or rows.mask[e, action] == 0
        if not illegal[e]:
            changed = rule >= 0 and action != base_action(rows, e, rule)
            _act(rows, e, action)
            observe_row(rows, e)
            n = rows.pi[e, 0]
            while skip_forced and rows.si[e, DONE_COUNT] < n:
                only = only_action(rows.mask[e])
                if only < 0:
                    break
                _act(rows, e, only)
                observe_row(rows, e)
            done[e] = rows.si[e, DONE_COUNT] == n
            if changed:  # forced moves are the base rule's too
                base_s[e] = base_completion_s(rows, spare, e, rule)
