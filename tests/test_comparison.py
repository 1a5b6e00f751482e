"""Paired ratios by hand, and how often their interval holds the truth."""

import numpy as np
import pytest

from thesis_lib.cluster import Cluster
from thesis_lib.comparison import Ratio, mean_completions_s, paired_ratio
from thesis_lib.schedulers import make
from thesis_lib.simulator import simulate
from thesis_lib.workflow import WorkflowError
from thesis_lib.workload import poisson_stream


def test_the_mean_is_that_of_the_ratios_not_the_ratio_of_the_means():
    ratio = paired_ratio(np.array([1.0, 30.0, 8.0]), np.array([2.0, 20.0, 4.0]))
    assert ratio.mean == pytest.approx((0.5 + 1.5 + 2.0) / 3)
    assert 0.5 <= ratio.low < ratio.mean < ratio.high <= 2.0


def test_equal_ratios_leave_no_doubt():
    ratio = paired_ratio(np.array([2.0, 4.0, 8.0]), np.array([4.0, 8.0, 16.0]))
    assert ratio == Ratio(0.5, 0.5, 0.5)
    assert str(ratio) == "0.500 [0.500, 0.500]"


def test_the_interval_of_two_instances_by_hand():
    """Resampling 0 and 1 gives means 0, 1/2, 1 with probability 1/4, 1/2, 1/4: the 2.5 % quantiles are 0 and 1."""
    ratio = paired_ratio(np.array([0.0, 1.0]), np.ones(2))
    assert (ratio.mean, ratio.low, ratio.high) == (0.5, 0.0, 1.0)


def test_the_interval_is_as_wide_as_the_normal_one_for_many_instances():
    values = np.random.default_rng(1).normal(1.0, 0.2, 400)
    ratio, error = paired_ratio(values, np.ones(400)), values.std() / 20
    assert ratio.high - ratio.mean == pytest.approx(1.96 * error, rel=0.12)
    assert ratio.mean - ratio.low == pytest.approx(1.96 * error, rel=0.12)


def test_it_covers_the_truth_about_as_often_as_it_says():
    """300 samples of 40 lognormal ratios of mean 1; 95 % claimed, skewed ratios and 40 instances cost a little."""
    rng, covered = np.random.default_rng(2), 0
    for _ in range(300):
        ratio = paired_ratio(rng.lognormal(-0.02, 0.2, 40), np.ones(40))
        covered += ratio.low <= 1.0 <= ratio.high
    assert 0.90 <= covered / 300 <= 0.98


def test_the_same_numbers_have_the_same_interval():
    values = np.random.default_rng(3).uniform(1, 2, 30)
    assert paired_ratio(values, np.ones(30)) == paired_ratio(values, np.ones(30))
    assert paired_ratio(values, np.ones(30)) != paired_ratio(values, np.ones(30), seed=1)


@pytest.mark.parametrize(
    ("values", "reference"), [([], []), ([1.0, 2.0], [1.0]), ([[1.0]], [[1.0]]), ([1.0], [0.0]), ([np.nan], [1.0])]
)
def test_what_cannot_be_compared_is_refused(values, reference):
    with pytest.raises(WorkflowError, match="paired ratio"):
        paired_ratio(np.array(values), np.array(reference))


def test_completions_are_those_of_the_same_draws():
    case = poisson_stream(workflows=2, seed=1), Cluster.stream()
    values = mean_completions_s(make("srw"), [(5, *case), (6, *case)])
    assert values.tolist() == [simulate(make("srw"), *case, seed=seed).mean_completion_s for seed in (5, 6)]
    assert values[0] != values[1]
