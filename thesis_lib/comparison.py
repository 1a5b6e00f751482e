"""Paired comparison: what a scheduler reaches, divided by what another reaches on the same draws."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from thesis_lib.cluster import Cluster
from thesis_lib.schedulers.base import Scheduler
from thesis_lib.simulator import simulate
from thesis_lib.workflow import WorkflowError
from thesis_lib.workload import Workload

RESAMPLES = 2000
_BOOTSTRAP_STREAM = 7600  # first word of the bootstrap's random stream


@dataclass(frozen=True)
class Ratio:
    """Mean of paired ratios with its bootstrap 95 % interval; below 1 the first scheduler is better."""

    mean: float
    low: float
    high: float

    def __str__(self) -> str:
        return f"{self.mean:.3f} [{self.low:.3f}, {self.high:.3f}]"


def paired_ratio(values: np.ndarray, reference: np.ndarray, seed: int = 0) -> Ratio:
    """Ratio of two arrays (k,) of one metric on the same k instances; seed: of the resampling.

    Raises WorkflowError when the lengths differ, nothing is given, or a ratio is not finite.
    Percentile bootstrap over instances, Efron and Tibshirani, "An introduction to the bootstrap", 1993.
    """
    values, reference = np.asarray(values, float), np.asarray(reference, float)
    if values.ndim != 1 or values.shape != reference.shape or len(values) == 0:
        raise WorkflowError(
            f"a paired ratio needs two arrays of one length, at least 1, got {values.shape} and {reference.shape}"
        )
    if not (np.isfinite(values).all() and np.isfinite(reference).all() and (reference > 0).all()):
        raise WorkflowError("a paired ratio needs finite values and references above 0; leave out such instances")
    ratios = values / reference
    rng = np.random.default_rng([_BOOTSTRAP_STREAM, seed])
    means = bootstrap_means(ratios, RESAMPLES, rng)
    low, high = np.quantile(means, [0.025, 0.975])
    return Ratio(float(ratios.mean()), float(low), float(high))


def bootstrap_means(sample: np.ndarray, resamples: int, rng: np.random.Generator) -> np.ndarray:
    """(resamples,) means of samples as long as the given one (k,), drawn from it with replacement."""
    return sample[rng.integers(len(sample), size=(resamples, len(sample)))].mean(axis=1)


def mean_completions_s(scheduler: Scheduler, cases: Sequence[tuple[int, Workload, Cluster]]) -> np.ndarray:
    """(k,) mean completion time of a scheduler on each (seed, workload, cluster); one workflow's is its makespan."""
    return np.array([simulate(scheduler, w, c, seed=seed).mean_completion_s for seed, w, c in cases])
