"""The forward pass of the pair-scoring networks (`thesis_lib.policy`), compiled, for one observation.

All weights lie in one flat buffer of 32-bit numbers. Matrices are stored as (inputs, outputs), so
that the inner loop runs over outputs that lie side by side. Only what can reach a score is
computed: no padding, no illegal pairs, no critic, and in the last layer the candidates alone.

Sizes: L graph convolutions (0: the MLP twin), H hidden, K score hidden; Ft, Fp and Fg features
of a task, a pair and the whole; S slots, N nodes, v VMs as in `observe`.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from thesis_lib._kernels.compiling import fast_kernel, kernel, small_kernel

FEATURE_LIMIT = 10.0  # as observation.FEATURE_LIMIT: what the networks see in training is cut there
ILLEGAL = -np.inf  # logit of an action that is not legal
NOUGHT, ONE = np.float32(0.0), np.float32(1.0)


class NetworkViews(NamedTuple):
    """The weights that decide, as matrices (inputs, outputs) and biases (outputs,)."""

    layers: int  # L
    task_1: np.ndarray  # (Ft, H)
    task_1_bias: np.ndarray  # (H,)
    task_2: np.ndarray  # (H, H)
    task_2_bias: np.ndarray  # (H,)
    down: np.ndarray  # (L, H, H) from parents to children
    up: np.ndarray  # (L, H, H) from children to parents
    mix_bias: np.ndarray  # (L, H) both directions' biases added up
    score_task: np.ndarray  # (H, K) the parts of score_1 for what a pair's input is made of
    score_pair: np.ndarray  # (Fp, K)
    score_total: np.ndarray  # (Fg, K)
    score_1_bias: np.ndarray  # (K,)
    score_2: np.ndarray  # (K, K)
    score_2_bias: np.ndarray  # (K,)
    score_3: np.ndarray  # (K, 1)
    score_3_bias: np.ndarray  # (1,)
    wait_task: np.ndarray  # (H, K) the parts of wait_1
    wait_total: np.ndarray  # (Fg, K)
    wait_1_bias: np.ndarray  # (K,)
    wait_2: np.ndarray  # (K, 1)
    wait_2_bias: np.ndarray  # (1,)


class ForwardScratch(NamedTuple):
    """Room for one forward pass, all 32-bit; nothing in it outlives the pass."""

    h: np.ndarray  # (N, H) what is known of each node
    down: np.ndarray  # (N, H) sums over parents
    up: np.ndarray  # (N, H) sums over children
    scale: np.ndarray  # (2, N) 1 / sqrt(1 + incoming edges), down and up
    row: np.ndarray  # (H,) one node
    total: np.ndarray  # (K,) what the total features add to every pair
    task: np.ndarray  # (K,) the same and the task's
    hidden: np.ndarray  # (2, K) one pair


@small_kernel
def network_views(sizes, weights):
    """Names for the parts of the flat weights. sizes: (6,) L, H, K, Ft, Fp, Fg."""
    n_layers, h, k, ft, fp, fg = sizes[0], sizes[1], sizes[2], sizes[3], sizes[4], sizes[5]
    task_1, i = weights[0 : ft * h], ft * h
    task_1_bias, i = weights[i : i + h], i + h
    task_2, i = weights[i : i + h * h], i + h * h
    task_2_bias, i = weights[i : i + h], i + h
    down, i = weights[i : i + n_layers * h * h], i + n_layers * h * h
    up, i = weights[i : i + n_layers * h * h], i + n_layers * h * h
    mix_bias, i = weights[i : i + n_layers * h], i + n_layers * h
    score_task, i = weights[i : i + h * k], i + h * k
    score_pair, i = weights[i : i + fp * k], i + fp * k
    score_total, i = weights[i : i + fg * k], i + fg * k
    score_1_bias, i = weights[i : i + k], i + k
    score_2, i = weights[i : i + k * k], i + k * k
    score_2_bias, i = weights[i : i + k], i + k
    score_3, i = weights[i : i + k], i + k
    score_3_bias, i = weights[i : i + 1], i + 1
    wait_task, i = weights[i : i + h * k], i + h * k
    wait_total, i = weights[i : i + fg * k], i + fg * k
    wait_1_bias, i = weights[i : i + k], i + k
    wait_2, i = weights[i : i + k], i + k
    wait_2_bias, i = weights[i : i + 1], i + 1
    return NetworkViews(
        n_layers, task_1.reshape((ft, h)), task_1_bias, task_2.reshape((h, h)), task_2_bias,
        down.reshape((n_layers, h, h)), up.reshape((n_layers, h, h)), mix_bias.reshape((n_layers, h)),
        score_task.reshape((h, k)), score_pair.reshape((fp, k)), score_total.reshape((fg, k)), score_1_bias,
        score_2.reshape((k, k)), score_2_bias, score_3.reshape((k, 1)), score_3_bias,
        wait_task.reshape((h, k)), wait_total.reshape((fg, k)), wait_1_bias, wait_2.reshape((k, 1)), wait_2_bias,
    )  # fmt: skip


def forward_scratch(sizes: np.ndarray, n_nodes: int) -> ForwardScratch:
    """Room for passes over windows of up to `n_nodes` nodes."""
    h, k, rows = int(sizes[1]), int(sizes[2]), n_nodes
    shapes = ((rows, h), (rows, h), (rows, h), (2, rows), (h,), (k,), (k,), (2, k))
    return ForwardScratch(*(np.zeros(shape, np.float32) for shape in shapes))


# --- dense layers -------------------------------------------------------------------------


@fast_kernel
def _add_product(x, matrix, out):
    """out (m,) += x (k,) @ matrix (k, m)."""
    for k in range(matrix.shape[0]):
        factor = x[k]
        if factor != NOUGHT:
            for j in range(matrix.shape[1]):
                out[j] += factor * matrix[k, j]


@fast_kernel
def _add_features(x, matrix, out):
    """out (m,) += x (k,) @ matrix (k, m) for features, which are 64-bit and cut as in training."""
    for k in range(matrix.shape[0]):
        factor = np.float32(min(max(x[k], -FEATURE_LIMIT), FEATURE_LIMIT))
        if factor != NOUGHT:
            for j in range(matrix.shape[1]):
                out[j] += factor * matrix[k, j]


@fast_kernel
def _add_scaled(x, factor, out):
    """out += factor * x."""
    for j in range(out.shape[0]):
        out[j] += factor * x[j]


@fast_kernel
def _copy(source, out):
    for j in range(out.shape[0]):
        out[j] = source[j]


@fast_kernel
def _cut_below_0(x):
    for j in range(x.shape[0]):
        x[j] = x[j] if x[j] > NOUGHT else NOUGHT


# --- graph convolutions -------------------------------------------------------------------


@kernel
def _scale(o, n_edges, n_nodes, scratch):
    """1 / sqrt(1 + incoming edges) of every node, for messages down and up."""
    scale = scratch.scale
    for i in range(n_nodes):
        scale[0, i], scale[1, i] = ONE, ONE
    for e in range(n_edges):
        parent, child = o.edges[e, 0], o.edges[e, 1]
        scale[0, child] += ONE
        scale[1, parent] += ONE
    for i in range(n_nodes):
        scale[0, i] = ONE / np.sqrt(scale[0, i])
        scale[1, i] = ONE / np.sqrt(scale[1, i])


@kernel
def _convolve(net, layer, o, n_edges, n_targets, scratch):
    """h += relu(GCN along the edges + GCN against them) for the first `n_targets` nodes.

    Kipf and Welling's normalisation with self loops: a message is divided by the square
    roots of both ends' 1 + incoming edges. Sums first, then one product for each node.
    """
    h, down, up, scale, row = scratch.h, scratch.down, scratch.up, scratch.scale, scratch.row
    for i in range(n_targets):
        for j in range(h.shape[1]):
            down[i, j] = h[i, j] * (scale[0, i] * scale[0, i])
            up[i, j] = h[i, j] * (scale[1, i] * scale[1, i])
    for e in range(n_edges):
        parent, child = o.edges[e, 0], o.edges[e, 1]
        if child < n_targets:
            _add_scaled(h[parent], scale[0, parent] * scale[0, child], down[child])
        if parent < n_targets:
            _add_scaled(h[child], scale[1, parent] * scale[1, child], up[parent])
    for i in range(n_targets):
        _copy(net.mix_bias[layer], row)
        _add_product(down[i], net.down[layer], row)
        _add_product(up[i], net.up[layer], row)
        _cut_below_0(row)
        _add_scaled(row, ONE, h[i])


@kernel
def _embed(net, o, n_candidates, scratch):
    """scratch.h of the candidates: what the network knows of each after message passing."""
    n_nodes, n_edges = n_candidates, 0
    if net.layers > 0:
        while n_nodes < o.nodes.shape[0] and o.nodes[n_nodes] >= 0:
            n_nodes += 1
        while n_edges < o.edges.shape[0] and o.edges[n_edges, 0] >= 0:
            n_edges += 1
    first = scratch.row
    for i in range(n_nodes):
        _copy(net.task_1_bias, first)
        _add_features(o.task_x[i], net.task_1, first)
        _cut_below_0(first)
        _copy(net.task_2_bias, scratch.h[i])
        _add_product(first, net.task_2, scratch.h[i])
        _cut_below_0(scratch.h[i])
    _scale(o, n_edges, n_nodes, scratch)
    for layer in range(net.layers):
        # The last layer's output is read at the candidates only, and they are the first nodes.
        is_last = layer == net.layers - 1
        _convolve(net, layer, o, n_edges, n_candidates if is_last else n_nodes, scratch)


# --- scores -------------------------------------------------------------------------------


@kernel
def _score_pairs(net, o, n_candidates, scratch, logits):
    """Logit of every legal pair; the parts of the first layer that pairs share are computed once."""
    n_vms, first, second = o.pair_x.shape[1], scratch.hidden[0], scratch.hidden[1]
    _copy(net.score_1_bias, scratch.total)
    _add_features(o.total_x, net.score_total, scratch.total)
    for i in range(n_candidates):
        _copy(scratch.total, scratch.task)
        _add_product(scratch.h[i], net.score_task, scratch.task)
        for v in range(n_vms):
            if o.mask[i * n_vms + v] == 0:
                continue
            _copy(scratch.task, first)
            _add_features(o.pair_x[i, v], net.score_pair, first)
            _cut_below_0(first)
            _copy(net.score_2_bias, second)
            _add_product(first, net.score_2, second)
            _cut_below_0(second)
            score = net.score_3_bias[0]
            for j in range(second.shape[0]):
                score += second[j] * net.score_3[j, 0]
            logits[i * n_vms + v] = score


@kernel
def _score_waiting(net, o, n_candidates, scratch):
    """Logit of waiting, from the mean of the candidates (0 without any) and the total features."""
    mean, first = scratch.row, scratch.hidden[0]
    for j in range(mean.shape[0]):
        mean[j] = NOUGHT
    for i in range(n_candidates):
        _add_scaled(scratch.h[i], ONE / np.float32(n_candidates), mean)
    _copy(net.wait_1_bias, first)
    _add_product(mean, net.wait_task, first)
    _add_features(o.total_x, net.wait_total, first)
    _cut_below_0(first)
    score = net.wait_2_bias[0]
    for j in range(first.shape[0]):
        score += first[j] * net.wait_2[j, 0]
    return score


@kernel
def forward(net, o, n_candidates, scratch, logits):
    """Write the logit of every action of the observation `o` (S * v + 1,), ILLEGAL where the mask is 0."""
    for a in range(logits.shape[0]):
        logits[a] = ILLEGAL
    _embed(net, o, n_candidates, scratch)
    _score_pairs(net, o, n_candidates, scratch, logits)
    if o.mask[-1]:
        logits[-1] = _score_waiting(net, o, n_candidates, scratch)
