"""Where things go on a drawing: the layers of a DAG, and the bars of a Gantt chart.

The DAG layout has the classic three steps of Sugiyama, Tagawa and Toda ("Methods
for visual understanding of hierarchical system structures", IEEE Trans. SMC
11(2), 1981): layers by longest path, order within a layer by barycentres, then
positions. All of it depends on the workflow alone, without any random choice.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from thesis_lib.workflow import Workflow

MAX_BENDS = 4000  # beyond so many bends, edges over several layers are drawn straight
ORDER_SWEEPS = 12
POSITION_SWEEPS = 8
BEND_GAP = 0.45  # room of a passing edge, in units of the room of a task


# --- DAG ------------------------------------------------------------------------------------


@dataclass(frozen=True)
class DagLayout:
    """Places of n tasks and the routes of e edges, in units of one layer and one task.

    layer: (n,) column of each task, from 0 up; a parent's is always smaller. Without
        wrapping it is the task's layer.
    across: (n,) place within the column; tasks of one column are at least 1 apart.
    routes: for each edge, in the order of `workflow.parent_idx`, its (layer, across)
        points from parent to child.
    """

    layer: np.ndarray
    across: np.ndarray
    routes: list[list[tuple[float, float]]]

    @property
    def n_layers(self) -> int:
        """Number of columns: of layers, unless wide ones are wrapped."""
        return int(self.layer.max()) + 1

    @property
    def reach(self) -> tuple[float, float]:
        """Smallest and largest place across, of tasks and of passing edges."""
        places = [across for route in self.routes for _, across in route] + self.across.tolist()
        return min(places), max(places)

    @property
    def span(self) -> float:
        """Room across the layers, in tasks (1 for a chain)."""
        low, high = self.reach
        return high - low + 1.0


@dataclass
class _Net:
    """The layered graph with bends: items 0 ... n-1 are tasks, later ones are bends of long edges."""

    layers: list[list[int]]
    above: list[list[int]]
    below: list[list[int]]
    n_tasks: int
    chains: list[list[int]]  # the items of each edge, parent first
    weight: list[float]  # how much an item resists being moved: long continuations stay straight

    def gap(self, left: int, right: int) -> float:
        """Least distance between two neighbours of a layer."""
        room = (1.0 if item < self.n_tasks else BEND_GAP for item in (left, right))
        return sum(room) / 2


def dag_layout(workflow: Workflow, max_width: int | None = None) -> DagLayout:
    """Lay the workflow out in layers; deterministic, well below a second for 1000 tasks.

    max_width: a layer with more tasks is wrapped into several columns, each shifted by
    half a task against the one before, so that edges pass between its tasks.
    """
    net = _build_net(workflow)
    _order(net)
    if max_width is not None:
        shifts = _wrap(net, max_width)
    place = _positions(net)
    if max_width is not None:
        place = [x + shift for x, shift in zip(place, shifts)]
    n = len(workflow)
    across = np.array(place[:n])
    layer_of = {item: depth for depth, items in enumerate(net.layers) for item in items}
    routes = [[(float(layer_of[item]), place[item]) for item in chain] for chain in net.chains]
    return DagLayout(np.array([layer_of[i] for i in range(n)]), across, routes)


def _build_net(workflow: Workflow) -> _Net:
    levels = workflow.levels.tolist()
    children = np.repeat(np.arange(len(workflow)), np.diff(workflow.parent_ptr)).tolist()
    edges = list(zip(workflow.parent_idx.tolist(), children))
    bends = sum(levels[c] - levels[p] - 1 for p, c in edges)
    layers: list[list[int]] = [[] for _ in range(max(levels) + 1)]
    for i in workflow.topological_order.tolist():
        layers[levels[i]].append(i)
    above: list[list[int]] = [[] for _ in levels]
    below: list[list[int]] = [[] for _ in levels]
    chains = []
    for parent, child in edges:
        chain = [parent]
        for depth in range(levels[parent] + 1, levels[child]) if bends <= MAX_BENDS else ():
            layers[depth].append(len(above))
            chain.append(len(above))
            above.append([])
            below.append([])
        chain.append(child)
        for upper, lower in zip(chain, chain[1:]):
            below[upper].append(lower)
            above[lower].append(upper)
        chains.append(chain)
    return _Net(layers, above, below, len(workflow), chains, _weights(layers, below))


def _weights(layers: list[list[int]], below: list[list[int]]) -> list[float]:
    """(1 + layers that follow) cubed, so that a side branch gives way to the chain it hangs on."""
    follow = [0] * len(below)
    for item in (item for layer in reversed(layers) for item in layer):
        follow[item] = max((1 + follow[x] for x in below[item]), default=0)
    return [(1.0 + count) ** 3 for count in follow]


def _order(net: _Net) -> None:
    """Sort each layer by the mean place of its neighbours, down and up, and keep the order with fewest crossings."""
    best, fewest = [list(layer) for layer in net.layers], _crossings(net)
    for sweep in range(ORDER_SWEEPS):
        if fewest == 0:
            break
        downwards = sweep % 2 == 0
        depths = range(1, len(net.layers)) if downwards else range(len(net.layers) - 2, -1, -1)
        for depth in depths:
            _sort_layer(net, depth, net.above if downwards else net.below)
        count = _crossings(net)
        if count < fewest:
            best, fewest = [list(layer) for layer in net.layers], count
    net.layers[:] = best


def _wrap(net: _Net, max_width: int) -> list[float]:
    """Deal the tasks of wide layers out over several columns; returns the shift of every item."""
    shifts = [0.0] * len(net.above)
    columns: list[list[int]] = []
    for layer in net.layers:
        tasks = sum(item < net.n_tasks for item in layer)
        parts: list[list[int]] = [[] for _ in range(-(-tasks // max_width) or 1)]
        turn = 0
        for item in layer:
            k = turn % len(parts)
            parts[k].append(item)
            shifts[item] = 0.5 * (k % 2)
            turn += item < net.n_tasks  # a bend stands with the task that follows it
        columns += parts
    net.layers[:] = columns
    return shifts


def _sort_layer(net: _Net, depth: int, neighbours: list[list[int]]) -> None:
    rank = _rank(net)
    layer = net.layers[depth]
    mean = {
        item: sum(rank[x] for x in neighbours[item]) / len(neighbours[item]) if neighbours[item] else rank[item]
        for item in layer
    }
    layer.sort(key=mean.__getitem__)  # stable: ties keep their order


def _rank(net: _Net) -> dict[int, float]:
    """Place of each item in its layer as a share of the layer, so that layers of any width compare."""
    return {item: (i + 0.5) / len(layer) for layer in net.layers for i, item in enumerate(layer)}


def _crossings(net: _Net) -> int:
    """Number of pairs of edges that cross between neighbouring layers."""
    rank, total = _rank(net), 0
    for layer in net.layers:
        seen: list[float] = []
        for item in layer:
            ends = sorted(rank[x] for x in net.below[item])
            total += sum(len(seen) - bisect_left(seen, end + 1e-12) for end in ends)
            for end in ends:
                insort(seen, end)
    return total


def _positions(net: _Net) -> list[float]:
    """Place of every item across its layer: near its neighbours, in the given order, never too close."""
    place = [0.0] * len(net.above)
    for layer in net.layers:
        _spread(net, layer, place, dict.fromkeys(layer, 0.0))
    for sweep in range(POSITION_SWEEPS):
        layers = net.layers if sweep % 2 == 0 else net.layers[::-1]
        for layer in layers:
            wish = {item: _mean_place(net, place, item) for item in layer}
            _spread(net, layer, place, wish)
    middle = (min(place) + max(place)) / 2
    return [x - middle for x in place]


def _mean_place(net: _Net, place: list[float], item: int) -> float:
    # Both sides count alike, however many neighbours each has.
    sides = [
        sum(net.weight[x] * place[x] for x in side) / sum(net.weight[x] for x in side)
        for side in (net.above[item], net.below[item])
        if side
    ]
    return sum(sides) / len(sides) if sides else place[item]


def _spread(net: _Net, layer: list[int], place: list[float], wish: dict[int, float]) -> None:
    """Set the places of a layer closest to the wishes (weighted least squares) that keep order and gaps.

    Without the gaps this is isotonic regression, which pooling adjacent violators solves.
    """
    offset, offsets = 0.0, []
    for left, right in zip([None, *layer], layer):
        offset += 0.0 if left is None else net.gap(left, right)
        offsets.append(offset)
    blocks: list[list[float]] = []  # [weighted sum of wishes, sum of weights, number of items]
    for item, moved in zip(layer, offsets):
        blocks.append([net.weight[item] * (wish[item] - moved), net.weight[item], 1])
        while len(blocks) > 1 and blocks[-2][0] / blocks[-2][1] >= blocks[-1][0] / blocks[-1][1]:
            last = blocks.pop()
            blocks[-1] = [a + b for a, b in zip(blocks[-1], last)]
    items = iter(zip(layer, offsets))
    for total, weight, count in blocks:
        for _ in range(int(count)):
            item, moved = next(items)
            place[item] = total / weight + moved


# --- Gantt ----------------------------------------------------------------------------------


@dataclass(frozen=True)
class Bar:
    """One rectangle of a Gantt chart: `task` from start_s to finish_s, from `bottom` up by `height` cores."""

    task: int
    start_s: float
    finish_s: float
    bottom: float
    height: float


def pack_bars(
    tasks: Sequence[int], start_s: Sequence[float], finish_s: Sequence[float], height: Sequence[float], capacity: float
) -> list[Bar]:
    """Stack the tasks of one VM so that no two bars overlap.

    tasks: numbers of the tasks; start_s, finish_s, height (cores): one entry for each.
    Each task takes the lowest free strip that is tall enough below `capacity`; if
    there is room only in pieces, the task becomes several bars of the same times.
    What does not fit below the capacity goes above it, so a schedule that breaks the
    capacity is visible. Tasks without length or height get no bar.
    """
    order = sorted(range(len(tasks)), key=lambda k: (start_s[k], -(finish_s[k] - start_s[k]), k))
    bars: list[Bar] = []
    running: list[Bar] = []
    for k in order:
        if finish_s[k] <= start_s[k] or height[k] <= 0:
            continue
        running = [bar for bar in running if bar.finish_s > start_s[k]]
        for bottom, tall in _strips(running, height[k], capacity):
            running.append(Bar(tasks[k], start_s[k], finish_s[k], bottom, tall))
            bars.append(running[-1])
    return bars


def _strips(running: list[Bar], height: float, capacity: float) -> list[tuple[float, float]]:
    """(bottom, height) of the free strips that a task of this height gets."""
    tolerance = 1e-9 * max(capacity, height, 1.0)
    gaps = list(_gaps(running, capacity))
    for bottom, room in gaps:
        if room >= height - tolerance:
            return [(bottom, min(height, room))]
    pieces, left = [], height
    for bottom, room in gaps:
        if room > tolerance and left > tolerance:
            pieces.append((bottom, min(room, left)))
            left -= min(room, left)
    if left > tolerance:
        top = max([capacity, *(bar.bottom + bar.height for bar in running)])
        pieces.append((top, left))
    return pieces


def _gaps(running: list[Bar], capacity: float) -> Iterable[tuple[float, float]]:
    """(bottom, height) of what is free below the capacity, from the bottom up."""
    at = 0.0
    for bar in sorted(running, key=lambda bar: bar.bottom):
        if bar.bottom > at:
            yield at, min(bar.bottom, capacity) - at
        at = max(at, bar.bottom + bar.height)
    if at < capacity:
        yield at, capacity - at
