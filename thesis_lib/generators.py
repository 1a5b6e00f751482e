"""Random workflows: the article's three families, a layered DAG generator and the thesis problem.

Every function takes a seed that fixes the whole workflow and returns a `Workflow`
whose family is the function's name. Durations are rounded to 1 ms, demands to 0.01
and data to 1 kB, so that the last bit of a maths library cannot change a workflow.

What the families share (the article's three VMs can hold every task):

- standard deviation of a duration: 15 % of its mean; priority: 1 ... 5, all equally likely;
- cpu: 2, 4, 8 or 16 cores with probability .25 .35 .25 .15;
- memory: 1, 2, 4 or 6 GB per core, all equally likely;
- bandwidth: uniform 0.25 ... 2 Gbit/s per core, at most 20;
- data per edge: lognormal with sigma 1 and mean 5000 MB (`data_mb` sets another mean,
  0 none). Over the links of the article's VMs, 10 to 20 Gbit/s, that is about 2 to 4 s beside
  tasks of about 2 min: transfers are felt, they do not rule. A few edges carry most of it.
"""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable

import numpy as np

from thesis_lib.workflow import Task, Workflow, WorkflowError, finite_number

CPU_CHOICES, CPU_PROBABILITIES = (2, 4, 8, 16), (0.25, 0.35, 0.25, 0.15)
MEMORY_GB_PER_CORE = (1, 2, 4, 6)
BANDWIDTH_GBPS_PER_CORE = (0.25, 2.0)
MAX_BANDWIDTH_GBPS = 20.0
STD_SHARE = 0.15
MEAN_DATA_MB = 5000.0
DATA_SIGMA = 1.0
MAX_TASKS = 100_000

# (lowest, highest) number of tasks drawn when the caller names none.
DRAWN_TASKS = {"monte_carlo": (20, 80), "ml_pipeline": (15, 50), "etl": (30, 120), "layered": (20, 100)}
THESIS_SIZES = (10, 20, 30, 40, 50)
THESIS_MAX_OUT, THESIS_ALPHA, THESIS_BETA = (1, 2, 3, 4, 5), (0.5, 1.0, 1.5), (0.0, 0.5, 1.0, 2.0)

# First word of each family's random stream: one seed gives unrelated draws in different families.
_STREAM = {"monte_carlo": 7001, "ml_pipeline": 7002, "etl": 7003, "layered": 7004, "thesis_dag": 7005}

Parents = list[list[int]]  # the parents' positions, one list per task


def monte_carlo(n_tasks: int | None = None, seed: int = 0, data_mb: float | bool = True) -> Workflow:
    """Monte Carlo / scientific workflow: parallel layers, aggregated step by step into one exit task.

    Every task after the first layer has 3 to 5 parents in the layer before it (fewer only
    where `n_tasks` < 4 leaves fewer), every task before the exit has a child. Durations
    LogNormal(mu 4.5, sigma 0.8) s.

    n_tasks: number of tasks, at least 1; None draws 20 ... 80. seed: 0 or more.
    data_mb: mean MB per edge, True for 5000, 0 for none. Raises WorkflowError for other values.
    """
    rng, n = _start("monte_carlo", n_tasks, seed)
    widths = _monte_carlo_widths(n, rng)
    parents: Parents = [[] for _ in range(widths[0])]
    for before, width in zip(widths, widths[1:]):
        first = len(parents) - before
        wanted = np.minimum(rng.integers(3, 6, size=width), before)
        parents += [[first + p for p in picked] for picked in _pick(wanted, before, rng, cover=True)]
    return _contending("monte_carlo", parents, rng.lognormal(4.5, 0.8, n), rng, seed, data_mb)


def ml_pipeline(n_tasks: int | None = None, seed: int = 0, data_mb: float | bool = True) -> Workflow:
    """Machine-learning pipeline: one serial chain of stages, some of which write a checkpoint.

    A quarter of the tasks (rounded down) are checkpoints: each hangs on a stage of its
    own, drawn at random, and nothing waits for it. Tasks 0, 1, 2 ... are the chain, the
    checkpoints follow. Durations Gamma(k 3, theta 40) s.

    n_tasks: number of tasks, at least 1; None draws 15 ... 50. seed: 0 or more.
    data_mb: mean MB per edge, True for 5000, 0 for none. Raises WorkflowError for other values.
    """
    rng, n = _start("ml_pipeline", n_tasks, seed)
    stages = n - n // 4
    saved = np.sort(rng.choice(stages, size=n - stages, replace=False)).tolist()
    parents = [[]] + [[i - 1] for i in range(1, stages)] + [[stage] for stage in saved]
    return _contending("ml_pipeline", parents, rng.gamma(3.0, 40.0, n), rng, seed, data_mb)


def etl(n_tasks: int | None = None, seed: int = 0, data_mb: float | bool = True) -> Workflow:
    """ETL batch: a star of many sources (extract) into one centre (transform), then a few loads.

    One task in twenty (rounded down) is a load that follows the centre; the sources come
    first, then the centre, then the loads. Durations Weibull(lambda 100, k 1.2) s.

    n_tasks: number of tasks, at least 1; None draws 30 ... 120. seed: 0 or more.
    data_mb: mean MB per edge, True for 5000, 0 for none. Raises WorkflowError for other values.
    """
    rng, n = _start("etl", n_tasks, seed)
    loads = n // 20
    centre = n - loads - 1
    parents = [[] for _ in range(centre)] + [list(range(centre))] + [[centre] for _ in range(loads)]
    return _contending("etl", parents, 100.0 * rng.weibull(1.2, n), rng, seed, data_mb)


def layered(
    n_tasks: int | None = None,
    max_out: int = 3,
    alpha: float = 1.0,
    beta: float = 1.0,
    seed: int = 0,
    data_mb: float | bool = True,
) -> Workflow:
    """Layered random DAG in the manner of daggen, as the article's parametric data sets use it.

    floor(sqrt(n) / alpha) layers (at least 1, at most n); layer widths drawn from
    Normal(n / layers, beta), at least 1, summing to n; edges to the next layer only. Each
    task outside the last layer has 1 ... max_out children, and each task outside the
    first has a parent; only where a layer is more than max_out times as wide as the one
    before it do some tasks have more children. Durations as in `monte_carlo`, so that
    sets of these DAGs differ in shape alone.

    n_tasks: at least 1; None draws 20 ... 100. max_out: at least 1. alpha: above 0; a small
    alpha gives deep DAGs, a large one wide DAGs. beta: at least 0; 0 makes widths differ
    by 1 at most. Raises WorkflowError for other values.
    """
    rng, n = _start("layered", n_tasks, seed)
    parents = _layered_parents(n, max_out, alpha, beta, rng, cover=True)
    return _contending("layered", parents, rng.lognormal(4.5, 0.8, n), rng, seed, data_mb)


def thesis_dag(
    n_tasks: int | None = None,
    seed: int = 0,
    max_out: int | None = None,
    alpha: float | None = None,
    beta: float | None = None,
) -> Workflow:
    """A DAG of the original thesis problem, for one VM of 100 CPU and 100 memory (`Cluster.thesis()`).

    Layered as in `layered`, but a task that no task of the layer before chose stays without
    parents, as in the published test sets (nearly half of the tasks at n = 10). Durations are
    whole seconds 0 ... 29, cpu and memory uniform 25 ... 50, no bandwidth, no data, no
    noise (standard deviation 0), priority 1.

    n_tasks: at least 1; None draws 10, 20, 30, 40 or 50. max_out, alpha, beta: None draws
    from 1 ... 5, {0.5, 1, 1.5} and {0, 0.5, 1, 2}. Raises WorkflowError for other values.
    """
    rng, n = _start("thesis_dag", n_tasks, seed)
    drawn = (int(rng.choice(THESIS_MAX_OUT)), float(rng.choice(THESIS_ALPHA)), float(rng.choice(THESIS_BETA)))
    shape = [own if given is None else given for own, given in zip(drawn, (max_out, alpha, beta))]
    parents = _layered_parents(n, *shape, rng, cover=False)
    mean_s = rng.integers(0, 30, size=n).tolist()
    cpu, memory = _grid(rng.uniform(25, 50, size=(2, n)), 100).tolist()
    tasks = [
        Task(i, float(mean_s[i]), cpu=cpu[i], memory_gb=memory[i], dependencies=tuple(parents[i])) for i in range(n)
    ]
    return Workflow(tuple(tasks), family="thesis_dag", name=f"thesis_dag-n{n}-s{seed}")


FAMILIES: dict[str, Callable[..., Workflow]] = {
    f.__name__: f for f in (monte_carlo, ml_pipeline, etl, layered, thesis_dag)
}


def generate(family: str, **parameters) -> Workflow:
    """Draw one workflow of `FAMILIES[family]`; `parameters` as that function takes them.

    Raises WorkflowError for an unknown family or an unknown parameter, with those there are.
    """
    if family not in FAMILIES:
        raise WorkflowError(f"unknown family {family!r}; choose one of {', '.join(FAMILIES)}")
    function = FAMILIES[family]
    known = list(inspect.signature(function).parameters)
    if unknown := [key for key in parameters if key not in known]:
        raise WorkflowError(f"{family} has no parameter {', '.join(unknown)}; it takes {', '.join(known)}")
    return function(**parameters)


# --- parameters --------------------------------------------------------------------------


def whole_number(value: object, what: str, low: int, high: int | None = None) -> int:
    """Return `value` as an int in low ... high, or raise WorkflowError with the allowed range."""
    allowed = f"a whole number from {low} to {high}" if high is not None else f"a whole number of at least {low}"
    is_whole = isinstance(value, (int, np.integer)) and not isinstance(value, bool)
    if not is_whole or value < low or (high is not None and value > high):
        raise WorkflowError(f"{what} must be {allowed}, got {value!r}")
    return int(value)


def _start(family: str, n_tasks: int | None, seed: int) -> tuple[np.random.Generator, int]:
    """The family's random stream and the number of tasks, drawn from the stream when None."""
    rng = np.random.default_rng([_STREAM[family], whole_number(seed, "seed", 0)])
    if n_tasks is not None:
        return rng, whole_number(n_tasks, f"{family}: n_tasks", 1, MAX_TASKS)
    if family == "thesis_dag":
        return rng, int(rng.choice(THESIS_SIZES))
    low, high = DRAWN_TASKS[family]
    return rng, int(rng.integers(low, high + 1))


def _mean_data_mb(data_mb: float | bool) -> float:
    """Mean MB per edge: True is the default mean, False none."""
    if isinstance(data_mb, (bool, np.bool_)):
        return MEAN_DATA_MB if data_mb else 0.0
    return finite_number(data_mb, "data_mb (mean MB per edge; 0 for none)")


# --- structure ---------------------------------------------------------------------------


def layer_widths(
    n: int, layers: int, beta: float, rng: np.random.Generator, low: int = 1, high: int | None = None
) -> list[int]:
    """Widths of `layers` layers, Normal(n / layers, beta) rounded, within low ... high, summing to n.

    What rounding and the limits leave over is mended one task at a time in layers drawn at
    random, each layer once before any twice. Needs low * layers <= n <= high * layers.
    """
    high = n if high is None else high
    widths = np.clip(np.rint(rng.normal(n / layers, beta, size=layers)), low, high).astype(int)
    while missing := n - int(widths.sum()):
        step = 1 if missing > 0 else -1
        movable = np.flatnonzero(widths < high if step > 0 else widths > low)
        widths[rng.permutation(movable)[: abs(missing)]] += step
    return widths.tolist()


def _pick(wanted: np.ndarray, n_targets: int, rng: np.random.Generator, cover: bool) -> Parents:
    """For each picker i, wanted[i] different targets of 0 ... n_targets - 1, ascending.

    With `cover` every target is picked by somebody: a shuffled deck of the targets is dealt
    out first, and a picker takes more than it wanted when its hand alone is larger.
    """
    deck = rng.permutation(n_targets).tolist() if cover else []
    picks = []
    for i, count in enumerate(wanted.tolist()):
        hand = deck[i :: len(wanted)]
        more = [t for t in rng.choice(n_targets, size=count, replace=False).tolist() if t not in hand]
        picks.append(sorted(hand + more[: max(0, count - len(hand))]))
    return picks


def _monte_carlo_widths(n: int, rng: np.random.Generator) -> list[int]:
    """Layer widths of `monte_carlo`: parallel layers, then ever narrower ones, then the exit task.

    A layer is at most five times as wide as the next, so that five parents per task are
    enough for every task to have a child, and at least 3 wide, so that three can be had.
    """
    if n <= 6:
        return [n - 1, 1] if n > 1 else [1]
    target = max(3, round(math.sqrt(n) * rng.uniform(1.2, 1.8)))
    tail, width = [], target
    while width > 5:
        width = max(3, math.ceil(width / 4))
        tail.append(width)
    parallel = n - 1 - sum(tail)
    layers = max(1, min(math.ceil(parallel / target), parallel // 3))
    widest = 5 * (tail[0] if tail else 1)
    return layer_widths(parallel, layers, 2.0, rng, low=3, high=widest) + tail + [1]


def _layered_parents(n: int, max_out: int, alpha: float, beta: float, rng: np.random.Generator, cover: bool) -> Parents:
    """Parents of a layered DAG; each layer's tasks pick children in the next layer."""
    max_out = whole_number(max_out, "max_out", 1)
    beta = finite_number(beta, "beta (spread of the layer widths)")
    if finite_number(alpha, "alpha (shape; small is deep)") == 0:
        raise WorkflowError("alpha (shape; small is deep) must be above 0, got 0")
    layers = min(n, max(1, math.floor(math.sqrt(n) / alpha)))
    widths = layer_widths(n, layers, beta, rng)
    parents: Parents = [[] for _ in range(n)]
    first = 0
    for width, below in zip(widths, widths[1:]):
        wanted = rng.integers(1, min(max_out, below) + 1, size=width)
        for i, children in enumerate(_pick(wanted, below, rng, cover)):
            for child in children:
                parents[first + width + child].append(first + i)
        first += width
    return parents


# --- numbers -----------------------------------------------------------------------------


def _grid(values: np.ndarray, per_unit: int) -> np.ndarray:
    """Round to multiples of 1 / per_unit."""
    return np.rint(values * per_unit) / per_unit


def draw_demand(n: int, rng: np.random.Generator) -> np.ndarray:
    """(n, 3) cores, GB and Gbit/s that contend for the article's VMs; the module text gives the odds."""
    cpu = rng.choice(CPU_CHOICES, size=n, p=CPU_PROBABILITIES)
    memory_gb = cpu * rng.choice(MEMORY_GB_PER_CORE, size=n)
    bandwidth_gbps = np.minimum(cpu * rng.uniform(*BANDWIDTH_GBPS_PER_CORE, size=n), MAX_BANDWIDTH_GBPS)
    return _grid(np.column_stack([cpu, memory_gb, bandwidth_gbps]), 100)


def _contending(
    family: str, parents: Parents, mean_s: np.ndarray, rng: np.random.Generator, seed: int, data_mb: float | bool
) -> Workflow:
    """Give the tasks their deviations, demands, priorities and data, and build the workflow."""
    n, mean_mb = len(parents), _mean_data_mb(data_mb)
    mean_s = np.maximum(_grid(mean_s, 1000), 0.001)
    std_s = _grid(STD_SHARE * mean_s, 1000).tolist()
    demand, priority = draw_demand(n, rng).tolist(), rng.integers(1, 6, size=n).tolist()
    sizes = rng.lognormal(-(DATA_SIGMA**2) / 2, DATA_SIGMA, size=sum(map(len, parents)))  # mean 1
    edge_mb = iter(_grid(mean_mb * sizes, 1000).tolist())
    tasks = [
        Task(
            i,
            mean,
            std_s[i],
            *demand[i],
            priority=priority[i],
            dependencies=tuple(parents[i]),
            data_mb={p: next(edge_mb) for p in parents[i]},
        )
        for i, mean in enumerate(mean_s.tolist())
    ]
    return Workflow(tuple(tasks), family=family, name=f"{family}-n{n}-s{seed}")
