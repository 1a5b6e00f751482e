"""Learning curves of the shipped agents, read from their logs, and what they say about speed of learning.

A ratio is the mean completion time of the agent over that of the problem's strongest rule, on
the same instances and draws; below 1 the agent is better. Nothing is trained here.
"""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from thesis_lib.agents import MANIFEST, MODELS
from thesis_lib.files import read_text
from thesis_lib.training_log import REFERENCES
from thesis_lib.workflow import WorkflowError

LEAST_EPISODES = 16  # a mean over fewer training episodes says too little
CLAIMED_SPEED_UP = 0.32  # the article's: what its fifth feature saves of the way to convergence
LEVEL = 0.95


@dataclass(frozen=True, eq=False)
class Curve:
    """The k rows of one learning curve, in order.

    stage: "clone", "ppo" or "distill-1", ... steps: decisions of all environments so far.
    training: mean ratio of the last 64 training episodes, NaN before the first 16 have ended.
    validation: ratio on validation instances, NaN where none was measured. reference: the rule compared with.
    """

    name: str
    reference: str
    stage: tuple[str, ...]  # (k,)
    steps: np.ndarray  # (k,) int
    seconds: np.ndarray  # (k,)
    training: np.ndarray  # (k,)
    validation: np.ndarray  # (k,)

    def training_points(self) -> tuple[np.ndarray, np.ndarray]:
        """(steps, ratio) after the updates of PPO."""
        there = np.isfinite(self.training)
        return self.steps[there], self.training[there]

    def validation_points(self) -> tuple[np.ndarray, np.ndarray]:
        """(steps, ratio) of the validations up to the end of PPO, the last one of each number of steps."""
        at = {int(s): float(r) for s, r, stage in zip(self.steps, self.validation, self.stage)
              if np.isfinite(r) and not stage.startswith("distill")}  # fmt: skip
        return np.array(list(at), dtype=np.int64), np.array(list(at.values()))

    def stage_ratios(self) -> dict[str, float]:
        """The last validation ratio of each stage, in order."""
        return {stage: float(r) for stage, r in zip(self.stage, self.validation) if np.isfinite(r)}


# --- reading ----------------------------------------------------------------------------------


def read_manifest(folder: Path | None = None) -> dict[str, Any]:
    """What is known of each agent in `folder` (dataset/models when None), by name; WorkflowError without a manifest."""
    folder = folder or MODELS
    try:
        return json.loads(read_text(folder / MANIFEST))["models"]
    except (WorkflowError, ValueError, KeyError, TypeError) as error:
        raise WorkflowError(
            f"{folder / MANIFEST}: is no list of trained agents ({error}); python -m thesis_lib models trains them"
        ) from None


def read_curve(path: str | Path, problem: str = "stream") -> Curve:
    """The learning curve that a training run on `problem` has written; WorkflowError naming the file otherwise."""
    path, reference = Path(path), REFERENCES[problem][0]
    try:
        rows = list(csv.DictReader(io.StringIO(read_text(path))))
        if not rows:
            raise WorkflowError("holds no rows")

        def column(name: str) -> np.ndarray:
            return np.array([float(row[name]) if row[name] else np.nan for row in rows])

        training, episodes = column(f"training_ratio_{reference}"), column("episodes")
        training[~(episodes >= LEAST_EPISODES)] = np.nan
        stages = tuple(row["stage"] for row in rows)
        return Curve(path.stem, reference, stages, column("steps").astype(np.int64), column("seconds"), training,
                     column(f"validation_ratio_{reference}"))  # fmt: skip
    except (WorkflowError, KeyError, ValueError, TypeError, csv.Error) as error:
        raise WorkflowError(f"{path}: is no learning curve on {problem} ({error}); train the agent again") from None


def model_curves(names: Sequence[str], folder: Path | None = None) -> list[Curve]:
    """The curves of shipped agents; WorkflowError with the command that trains those that are missing."""
    folder = folder or MODELS
    models = read_manifest(folder)
    if missing := [name for name in names if name not in models]:
        options = " ".join(f"--only {name}" for name in missing)
        raise WorkflowError(f"{folder}: lacks {', '.join(missing)}; python -m thesis_lib models {options} trains them")
    return [read_curve(folder / "logs" / f"{name}.csv", models[name]["problem"]) for name in names]


# --- several seeds ----------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class Band:
    """Smallest, mean and largest training ratio of several seeds at the steps (k,) that all of them have."""

    steps: np.ndarray
    low: np.ndarray
    mean: np.ndarray
    high: np.ndarray


def band(curves: Sequence[Curve]) -> Band:
    """The band of the curves, which must share some steps."""
    points = [dict(zip(*(a.tolist() for a in curve.training_points()))) for curve in curves]
    steps = sorted(set.intersection(*(set(p) for p in points)))
    if not steps:
        raise WorkflowError(f"the curves {', '.join(c.name for c in curves)} have no steps in common; train them alike")
    ratios = np.array([[p[step] for step in steps] for p in points])
    return Band(np.array(steps), ratios.min(axis=0), ratios.mean(axis=0), ratios.max(axis=0))


def steps_until(curve: Curve, target: float) -> int | None:
    """Steps after which the training ratio is `target` or less for the first time; None if never."""
    steps, ratio = curve.training_points()
    reached = np.flatnonzero(ratio <= target)
    return int(steps[reached[0]]) if len(reached) else None


def common_target(curves: Sequence[Curve]) -> float:
    """The lowest training ratio that every one of the curves reaches."""
    return max(float(curve.training_points()[1].min()) for curve in curves)


@dataclass(frozen=True)
class SpeedUp:
    """Share of the steps that are saved, with its 95 % interval; negative when more are needed."""

    share: float
    low: float
    high: float

    def __str__(self) -> str:
        return f"{self.share:.0%} [{self.low:.0%}, {self.high:.0%}]".replace("-", "\N{MINUS SIGN}")


def speed_up(steps: Sequence[float], baseline: Sequence[float]) -> SpeedUp:
    """How much sooner the first runs get there than the baseline runs: 1 - ratio of their geometric mean steps.

    steps, baseline: one number for each training seed, at least two. The interval is Student's for the
    difference of the mean logarithms with a common variance: two or three seeds allow no bootstrap.
    """
    from scipy import stats

    new, old = np.log(np.asarray(steps, float)), np.log(np.asarray(baseline, float))
    if min(len(new), len(old)) < 2:
        raise WorkflowError("a speed-up with an interval needs two training seeds at least on either side")
    freedom = len(new) + len(old) - 2
    variance = (((new - new.mean()) ** 2).sum() + ((old - old.mean()) ** 2).sum()) / freedom
    half = stats.t.ppf((1 + LEVEL) / 2, freedom) * np.sqrt(variance * (1 / len(new) + 1 / len(old)))
    mean = new.mean() - old.mean()
    return SpeedUp(*(float(1 - np.exp(x)) for x in (mean, mean + half, mean - half)))
