"""Data and pictures of the figures about learning: they read the shipped learning curves and train nothing."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np

from thesis_lib.agent_results import completions_s, ratios, seeds_of, trial
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
REWARD_AGENTS = {r.changes["reward"]: r.name for r in RECIPES if r.group == "reward"}  # reward -> agent
PRINTED = tuple(reward for reward in REWARD_AGENTS if reward.endswith("_as_printed"))
DEFAULT = "reward-potential"  # the short run that changes nothing
SETTINGS: dict[str, dict[str, str]] = {
    setting: {f"{r.changes[key]:g}": r.name for r in RECIPES if r.group == setting}
    for setting, key in (("entropy", "entropy"), ("rollout", "rollout_length"), ("value_clip", "value_clip"))
} | {"article_settings": {"article": "article", "fixed_head": "fixed-head"}}
RESULT_COLUMNS = ("seed", "scheduler", "mean_completion_s")
TRANSFER = ("stream-k12", "stream-k20", "stream-k30", "stream-5-vms", "stream-100-vms")
SHOWN_IN_TRANSFER = ("srw", "heft", "heft_online", "drl")

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
    from thesis_lib.plots import plot_reward_curves

    curves = dict(zip(REWARD_AGENTS, model_curves(list(REWARD_AGENTS.values()))))
    return _rows(curves.values()), lambda lang: plot_reward_curves(curves, dashed=PRINTED, lang=lang)


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


def _results(name: str) -> tuple[Rows, Callable[[str], Figure]]:
    """One trial: completion time of every scheduler and its ratio to the trial's reference."""
    from thesis_lib.plots import plot_completion

    known = trial(name)
    values = completions_s(known)
    seeds = seeds_of(known)
    rows = [(seed, name, own[k]) for name, own in values.items() for k, seed in enumerate(seeds)]
    return rows, lambda lang: plot_completion(values, known.references[0], lang=lang)


def agents_on_streams() -> tuple[Rows, Callable[[str], Figure]]:
    """The agents for streams beside the rules, on streams never seen before."""
    return _results("stream-k20")


def search_on_streams() -> tuple[Rows, Callable[[str], Figure]]:
    """Agent and rule with the same rollout search."""
    return _results("stream-k20-search")


def agents_on_thesis() -> tuple[Rows, Callable[[str], Figure]]:
    """The agent for one machine beside rules and lists, on DAGs of 30 tasks."""
    return _results("thesis-30")


def agents_transfer() -> tuple[Rows, Callable[[str], Figure]]:
    """The agent on other streams and clusters than it was trained on, as ratios to srw_patient."""
    from thesis_lib.plots import plot_rules

    found = {name: ratios(trial(name), "srw_patient") for name in TRANSFER}
    rows = [(name, s, r.mean, r.low, r.high) for name, table in found.items() for s, r in table.items()]
    shown = {name: {s: table[s].mean for s in SHOWN_IN_TRANSFER} for name, table in found.items()}
    return rows, lambda lang: plot_rules(shown, reference="srw_patient", lang=lang)
