"""Data and pictures of the figures about learning: they read the shipped learning curves and train nothing."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np

from thesis_lib.curves import Curve, common_target, model_curves, speed_up, steps_until
from thesis_lib.model_zoo import RECIPES

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from thesis_lib.plots import Film

Rows = Iterable[Sequence[object]]

HEADLINE = {"gcn": ("stream", "stream-seed1", "stream-seed2"), "mlp": ("stream-mlp",)}
FEATURES = {
    f"features_{k}": tuple(r.name for r in RECIPES if r.changes.get("features") == f"article_{k}") for k in (4, 5)
}
PRINTED = tuple(r.changes["reward"] for r in RECIPES if r.group == "reward" and r.changes["reward"].endswith("printed"))
SHOWN_REWARDS = ("v1", "v2", "v2_as_printed", "v3", "v3_as_printed", "flow_time", "potential")
DEFAULT = "reward-potential"  # the short run that changes nothing
SETTINGS: dict[str, dict[str, str]] = {
    "entropy": {"0": "entropy-0", "0.01": "entropy-0.01", "0.03": "entropy-0.03"},
    "rollout": {"64": "rollout-64", "200": "rollout-200"},
    "value_clip": {"0.2": "value-clip-0.2", "10": "value-clip-10"},
    "article_settings": {"article": "article", "fixed_head": "fixed-head"},
}

CURVE_COLUMNS = ("agent", "stage", "steps", "training_ratio", "validation_ratio")
SEED_COLUMNS = (*CURVE_COLUMNS, "target", "steps_to_target", "saved", "saved_low", "saved_high")


def _rows(curves: Iterable[Curve]) -> list[tuple[object, ...]]:
    """Every row of the curves that holds a ratio; what was not measured stays empty."""
    return [
        (c.name, stage, steps, *("" if np.isnan(x) else x for x in ratios))
        for c in curves
        for stage, steps, *ratios in zip(c.stage, c.steps.tolist(), c.training.tolist(), c.validation.tolist())
        if not np.isnan(ratios).all()
    ]


def _read_groups(groups: Mapping[str, Sequence[str]]) -> dict[str, list[Curve]]:
    return {label: model_curves(names) for label, names in groups.items()}


def learning_curves() -> tuple[Rows, Callable[[str], Figure]]:
    """The full recipe from three seeds, and its MLP twin."""
    from thesis_lib.plots import plot_learning_curves

    groups = _read_groups(HEADLINE)
    return _rows(c for curves in groups.values() for c in curves), lambda lang: plot_learning_curves(groups, lang=lang)


def training_curve() -> tuple[Rows, Callable[[str], Film]]:
    """The same as a film of the PPO stage."""
    from thesis_lib.plots import film_curve

    groups = _read_groups(HEADLINE)
    rows = [row for curves in groups.values() for row in _rows(curves) if row[1] == "ppo"]
    return rows, lambda lang: film_curve(groups, lang=lang)


def learned_rewards() -> tuple[Rows, Callable[[str], Figure]]:
    """Short runs, one for each reward."""
    from thesis_lib.plots import plot_validation_curves

    names = [f"reward-{reward.replace('_', '-')}" for reward in SHOWN_REWARDS]
    curves = dict(zip(SHOWN_REWARDS, model_curves(names)))
    return _rows(curves.values()), lambda lang: plot_validation_curves(curves, dashed=PRINTED, lang=lang)


def feature_ablation() -> tuple[Rows, Callable[[str], Figure]]:
    """Short runs with the article's four and five features, three seeds each, and what the fifth one saves."""
    from thesis_lib.plots import plot_ablation

    groups = _read_groups(FEATURES)
    everyone = [curve for curves in groups.values() for curve in curves]
    target = common_target(everyone)
    steps = {label: [steps_until(curve, target) for curve in curves] for label, curves in groups.items()}
    found = speed_up(steps["features_5"], steps["features_4"])
    needed = {curve.name: n for label, curves in groups.items() for curve, n in zip(curves, steps[label])}
    measured = (found.share, found.low, found.high)
    rows = [(*row, target, needed[row[0]], *measured) for row in _rows(everyone)]
    return rows, lambda lang: plot_ablation(groups, target, steps, found, lang=lang)


def ppo_sensitivity() -> tuple[Rows, Callable[[str], Figure]]:
    """Short runs that change one setting of PPO, beside the one that changes none."""
    from thesis_lib.plots import plot_sensitivity

    panels = {setting: dict(zip(values, model_curves(list(values.values())))) for setting, values in SETTINGS.items()}
    default = model_curves([DEFAULT])[0]
    rows = _rows([default, *(curve for curves in panels.values() for curve in curves.values())])
    return rows, lambda lang: plot_sensitivity(panels, default, lang=lang)
