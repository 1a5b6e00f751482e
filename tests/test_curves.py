"""Learning curves: reading them, bands over seeds, steps to a target and what a feature saves, worked out by hand."""

import json
import math

import numpy as np
import pytest

from tests.learning_samples import curve, write_log
from thesis_lib import curves
from thesis_lib.curves import band, common_target, model_curves, read_curve, speed_up, steps_until
from thesis_lib.workflow import WorkflowError

ROWS = [
    {"stage": "clone", "steps": 0, "validation": 1.25},
    {"stage": "ppo", "steps": 100, "episodes": 15, "training": 1.9},
    {"stage": "ppo", "steps": 200, "episodes": 16, "training": 1.5, "validation": 1.4},
    {"stage": "ppo", "steps": 300, "episodes": 40, "training": 1.1, "validation": 1.2},
    {"stage": "ppo", "steps": 300, "validation": 1.15},
    {"stage": "distill-1", "steps": 300, "validation": 0.95},
]


def test_a_log_is_read(tmp_path):
    write_log(tmp_path / "a.csv", ROWS)
    found = read_curve(tmp_path / "a.csv")
    assert (found.name, found.reference) == ("a", "srw_patient")
    steps, ratio = found.training_points()
    assert (steps.tolist(), ratio.tolist()) == ([200, 300], [1.5, 1.1])  # 15 episodes are too few
    steps, ratio = found.validation_points()
    assert (steps.tolist(), ratio.tolist()) == ([0, 200, 300], [1.25, 1.4, 1.15])  # the last one of 300 steps
    assert found.stage_ratios() == {"clone": 1.25, "ppo": 1.15, "distill-1": 0.95}


def test_the_reference_is_that_of_the_problem(tmp_path):
    write_log(tmp_path / "a.csv", ROWS, "thesis")
    assert read_curve(tmp_path / "a.csv", "thesis").reference == "critical_path"
    with pytest.raises(WorkflowError, match=r"a\.csv: is no learning curve on stream .*; train the agent again"):
        read_curve(tmp_path / "a.csv")


@pytest.mark.parametrize("content", ["", "stage,steps\n", "stage,steps\nppo,100\n", "\0\0"])
def test_what_is_no_log_is_refused(tmp_path, content):
    (tmp_path / "a.csv").write_text(content)
    with pytest.raises(WorkflowError, match=r"a\.csv: is no learning curve"):
        read_curve(tmp_path / "a.csv")


def test_agents_that_are_missing_are_named_with_the_command_that_trains_them(tmp_path):
    with pytest.raises(WorkflowError, match="no list of trained agents .* python -m thesis_lib models trains them"):
        model_curves(["a"], tmp_path)
    write_log(tmp_path / "logs" / "a.csv", ROWS)
    (tmp_path / "manifest.json").write_text(json.dumps({"models": {"a": {"problem": "stream"}}}))
    assert [c.name for c in model_curves(["a"], tmp_path)] == ["a"]
    with pytest.raises(WorkflowError, match="lacks b, c; python -m thesis_lib models --only b --only c trains them"):
        model_curves(["a", "b", "c"], tmp_path)


def test_a_band_spans_the_seeds_at_the_steps_that_they_share():
    found = band([curve("a", [1.5, 1.2, 1.0]), curve("b", [1.1, 1.4, 1.3, 0.7])])
    assert found.steps.tolist() == [100, 200, 300]
    assert np.allclose([found.low, found.mean, found.high], [[1.1, 1.2, 1.0], [1.3, 1.3, 1.15], [1.5, 1.4, 1.3]])
    with pytest.raises(WorkflowError, match="a, b have no steps in common"):
        band([curve("a", [1.5], step=100), curve("b", [1.5], step=70)])


def test_steps_until_a_target_count_the_first_time():
    one = curve("a", [1.5, 1.2, 1.3, 1.0])
    assert [steps_until(one, t) for t in (2.0, 1.2, 1.1, 0.9)] == [100, 200, 400, None]
    assert common_target([one, curve("b", [1.4, 1.15, 1.2])]) == 1.15


def test_half_the_steps_in_every_seed_are_a_saving_of_one_half():
    found = speed_up([50, 50], [100, 100])
    assert (found.share, found.low, found.high) == pytest.approx((0.5, 0.5, 0.5))
    assert str(found) == "50% [50%, 50%]"


def test_the_interval_is_students():
    """Logarithms 0 and 2 against 1 and 3 (base e): means 1 and 2, pooled variance 2, standard error sqrt(2)."""
    found = speed_up(np.exp([0.0, 2.0]), np.exp([1.0, 3.0]))
    half = 4.302653 * math.sqrt(2)  # Student's quantile for two degrees of freedom
    expected = [1 - math.exp(x) for x in (-1, -1 + half, -1 - half)]
    assert (found.share, found.low, found.high) == pytest.approx(expected, rel=1e-5)


def test_more_steps_are_a_negative_saving_and_one_seed_has_no_interval():
    assert speed_up([200, 200], [100, 100]).share == pytest.approx(-1.0)
    assert str(speed_up([200, 200], [100, 100])).startswith("\N{MINUS SIGN}100%")
    with pytest.raises(WorkflowError, match="two training seeds"):
        speed_up([1], [1, 2])


def test_the_claim_is_the_articles():
    assert curves.CLAIMED_SPEED_UP == 0.32
