"""The problems that an agent is trained on and validated on, each drawn from its own range of seeds."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from thesis_lib.cluster import Cluster
from thesis_lib.workload import SEED_RANGES, Workload, suite_case

_SIZE_STREAM = 7500  # first word of the random stream that draws sizes and loads


def training_case(config) -> Callable[[int], tuple[Workload, Cluster]]:
    """A function of a training seed: the instance that a `TrainConfig` asks for.

    Streams vary in length and load, thesis DAGs in size, so that the agent does not learn one of them by heart.
    """

    def draw(seed: int) -> tuple[Workload, Cluster]:
        rng = np.random.default_rng([_SIZE_STREAM, seed])
        if config.problem == "stream":
            workflows = int(rng.integers(config.workflows_min, config.workflows_max + 1))
            load = float(rng.uniform(config.load_min, config.load_max))
            return suite_case("stream", seed, workflows=workflows, load=load)
        if config.problem == "thesis":
            return suite_case("thesis", seed, n_tasks=int(rng.integers(config.n_tasks_min, config.n_tasks_max + 1)))
        return suite_case("single", seed)

    return draw


def validation_cases(config, count: int, **options) -> list[tuple[int, Workload, Cluster]]:
    """`count` (seed, workload, cluster) of the validation seeds: the suite's usual instances, or as `options` say."""
    first = SEED_RANGES["validation"].start
    if config.problem == "thesis" and not options:
        sizes = (20, 30, 50)
        return [(first + i, *suite_case("thesis", first + i, n_tasks=sizes[i % 3])) for i in range(count)]
    return [(first + i, *suite_case(config.problem, first + i, **options)) for i in range(count)]
