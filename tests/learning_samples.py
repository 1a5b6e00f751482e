"""Small learning curves, for tests."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from thesis_lib.curves import Curve
from thesis_lib.training_log import REFERENCES, TrainingLog


def curve(name: str, training: Sequence[float], step: int = 100) -> Curve:
    """Imitation with the ratio 1, an update of PPO every `step` steps, and a round of distillation with 0.5."""
    k = len(training)
    nan = float("nan")
    return Curve(
        name, "srw_patient", ("clone", *["ppo"] * k, "distill-1"),
        np.array([0, *range(step, step * k + 1, step), step * k]), np.arange(k + 2.0),
        np.array([nan, *training, nan]), np.array([1.0, *training, 0.5]),
    )  # fmt: skip


def write_log(path: Path, rows: Sequence[dict], problem: str = "stream") -> None:
    """The log of a training run; short keys `training` and `validation` mean the ratio to the strongest rule."""
    references = REFERENCES[problem]
    columns = ("stage", "steps", "seconds", "episodes", *(f"training_ratio_{n}" for n in references),
               *(f"validation_ratio_{n}" for n in references))  # fmt: skip
    path.parent.mkdir(parents=True, exist_ok=True)
    log = TrainingLog(path, columns)
    for row in rows:
        full = {f"{k}_ratio_{references[0]}" if k in ("training", "validation") else k: v for k, v in row.items()}
        log.add(**{"seconds": 1.0, **full})
