"""Learning curves: bands over seeds, stages, rewards, features, settings, and the curve as a film."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np
from matplotlib.ticker import MaxNLocator

from thesis_lib.curves import CLAIMED_SPEED_UP, Curve, SpeedUp, band
from thesis_lib.plots.animation import Film
from thesis_lib.plots.style import BLACK, DOUBLE_IN, GREY, MARKERS, PALETTE, RED, figure_style, new_figure
from thesis_lib.plots.texts import text

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

THOUSAND = 1000.0
DASHES = ("-", "--", ":", "-.")
FILM_FRAMES, FILM_HOLD = 30, 12  # frames of the curve, and of the last picture


# --- parts ------------------------------------------------------------------------------------


def _ratio_axes(ax: Axes, reference: str, lang: str, key: str = "training_ratio") -> None:
    """Label the axes and mark the ratio 1, at which the agent is as good as the rule."""
    ax.axhline(1.0, color=GREY, linewidth=0.8, linestyle=(0, (1, 2)), zorder=1)
    ax.set(xlabel=text("steps_thousand", lang), ylabel=text(key, lang, reference=reference))
    ax.xaxis.set_major_locator(MaxNLocator(5, integer=True))


def _draw_band(ax: Axes, curves: Sequence[Curve], colour: str, label: str, dashes: str = "-") -> None:
    found = band(curves)
    if len(curves) > 1:
        ax.fill_between(found.steps / THOUSAND, found.low, found.high, color=colour, alpha=0.2, linewidth=0)
    ax.plot(found.steps / THOUSAND, found.mean, color=colour, linestyle=dashes, label=label)


def _seeds(label: str, curves: Sequence[Curve], lang: str) -> str:
    return text("seeds" if len(curves) > 1 else "one_seed", lang, label=text(label, lang), n=len(curves))


def stage_name(stage: str, lang: str) -> str:
    """What the stage of a learning curve is called in a figure."""
    name, _, number = stage.partition("-")
    return text(f"stage_{name}", lang, number=number) if number else text(f"stage_{name}", lang)


# --- figures ----------------------------------------------------------------------------------


def plot_learning_curves(
    groups: Mapping[str, Sequence[Curve]], *, width_in: float = DOUBLE_IN, lang: str = "en"
) -> Figure:
    """Left: training ratio during PPO, mean and range over seeds. Right: validation ratio at the end of each stage.

    groups: label (a key of the texts, or the words themselves) -> curves of its training seeds.
    """
    first = next(iter(groups.values()))[0]
    stages = list(first.stage_ratios())
    with figure_style(lang):
        figure = new_figure(width_in, 3.1)
        left, right = figure.subplots(1, 2, width_ratios=(3, 2))
        for k, (label, curves) in enumerate(groups.items()):
            _draw_band(left, curves, PALETTE[k], _seeds(label, curves, lang), DASHES[k])
            for curve in curves:
                ratios = curve.stage_ratios()
                at = [stages.index(stage) + 0.12 * (k - (len(groups) - 1) / 2) for stage in ratios]
                right.plot(at, list(ratios.values()), color=PALETTE[k], linestyle=DASHES[k], linewidth=0.9,
                           marker=MARKERS[k])  # fmt: skip
        _ratio_axes(left, first.reference, lang)
        left.set_title(text("during_ppo", lang))
        _ratio_axes(right, first.reference, lang, "validation_ratio")
        right.set(xlabel="", title=text("after_stages", lang))
        right.set_xticks(range(len(stages)), [stage_name(stage, lang) for stage in stages])
        right.margins(x=0.1)
        figure.legend(loc="outside lower center", ncols=len(groups))
        return figure


def plot_reward_curves(
    curves: Mapping[str, Curve], *, dashed: Sequence[str] = (), width_in: float = DOUBLE_IN, lang: str = "en"
) -> Figure:
    """Left: training ratio (sampled actions). Right: validation ratio (likeliest action); the legend gives the last.

    Log axes. dashed: labels drawn with dashes and in the colour of the label before them.
    """
    with figure_style(lang):
        figure = new_figure(width_in, 3.2)
        left, right = figure.subplots(1, 2)
        reference, colour = next(iter(curves.values())).reference, -1
        for label, curve in curves.items():
            colour += label not in dashed
            look = {"color": PALETTE[colour], "linestyle": "--" if label in dashed else "-"}
            fill = "white" if label in dashed else PALETTE[colour]
            steps, ratio = curve.training_points()
            left.plot(steps / THOUSAND, ratio, **look)
            steps, ratio = curve.validation_points()
            right.plot(steps / THOUSAND, ratio, marker=MARKERS[colour], markerfacecolor=fill,
                       label=f"{label}  {ratio[-1]:.2f}", **look)  # fmt: skip
        for ax, key in ((left, "training_ratio"), (right, "validation_ratio")):
            _ratio_axes(ax, reference, lang, key)
            _log_ratio_axis(ax)
        left.set_title(text("sampled", lang))
        right.set_title(text("likeliest", lang))
        figure.legend(loc="outside right center", title=text("last_ratio", lang), title_fontsize=7.5)
        return figure


def _log_ratio_axis(ax: Axes) -> None:
    """A log axis of ratios with a few round numbers on it."""
    ax.set_yscale("log")
    low, high = ax.get_ylim()
    steps = (0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0, 20.0)
    step = next((s for s in steps if (high - low) / s <= 7), steps[-1])
    ticks = [t for t in (0.5, 1, 2, 3, 5, 7, 10, 20, 50) if low <= t <= high]
    if len(ticks) < 3:
        ticks = [t for t in np.arange(np.ceil(low / step), high / step + 1) * step if low <= t <= high]
    ax.set_yticks(ticks, [f"{t:g}" for t in np.round(ticks, 2)])
    ax.set_yticks([], minor=True)


def plot_ablation(
    groups: Mapping[str, Sequence[Curve]], target: float, steps: Mapping[str, Sequence[int]], found: SpeedUp,
    *, width_in: float = DOUBLE_IN, lang: str = "en",
) -> Figure:  # fmt: skip
    """Training ratio of two groups; the steps that each seed needs to `target`; measured beside claimed speed-up."""
    with figure_style(lang):
        figure = new_figure(width_in, 2.9)
        left, middle, right = figure.subplots(1, 3, width_ratios=(5, 3, 3))
        for k, (label, curves) in enumerate(groups.items()):
            _draw_band(left, curves, PALETTE[k], _seeds(label, curves, lang), DASHES[k])
            values = np.array(steps[label]) / THOUSAND
            middle.plot(np.full(len(values), k) + np.linspace(-0.12, 0.12, len(values)), values, linestyle="none",
                        color=PALETTE[k], marker=MARKERS[k])  # fmt: skip
        _ratio_axes(left, next(iter(groups.values()))[0].reference, lang)
        left.axhline(target, color=BLACK, linewidth=0.8, linestyle="--")
        left.legend(loc="upper right")
        middle.set(xlim=(-0.6, len(groups) - 0.4), ylabel=text("steps_to_target", lang, target=f"{target:.2f}"))
        middle.set_xticks(range(len(groups)), [text(label, lang) for label in groups])
        middle.set_ylim(bottom=0)
        _draw_speed_up(right, found, lang)
        return figure


def _draw_speed_up(ax: Axes, found: SpeedUp, lang: str) -> None:
    ax.plot([0, 0], [100 * found.low, 100 * found.high], color=BLACK, linewidth=1.4)
    ax.plot(0, 100 * found.share, marker="D", color=BLACK, linestyle="none")
    ax.plot(1, 100 * CLAIMED_SPEED_UP, marker="*", markersize=9, color=RED, linestyle="none")
    ax.axhline(0, color=GREY, linewidth=0.8, linestyle=(0, (1, 2)))
    ax.set(xlim=(-0.6, 1.6), ylabel=text("fewer_steps", lang))
    ax.set_xticks([0, 1], [text("measured", lang), text("claimed", lang)])


def plot_sensitivity(
    panels: Mapping[str, Mapping[str, Curve]], default: Curve, *, width_in: float = DOUBLE_IN, lang: str = "en"
) -> Figure:
    """One panel per setting: training ratio for each of its values, beside the default settings in black.

    The legend gives the validation ratio at the end, for which the likeliest action is taken.
    """
    with figure_style(lang):
        figure = new_figure(width_in, 4.4)
        axes = figure.subplots(2, 2, sharex=True, sharey=True).ravel()
        for ax, (setting, curves) in zip(axes, panels.items()):
            _draw_band(ax, [default], BLACK, _with_last("default_settings", default, lang))
            for k, (label, curve) in enumerate(curves.items()):
                _draw_band(ax, [curve], PALETTE[k], _with_last(label, curve, lang), DASHES[(k + 1) % len(DASHES)])
            _ratio_axes(ax, default.reference, lang)
            ax.set(title=text(setting, lang), xlabel="", ylabel="")
            ax.legend(loc="best")
        figure.supxlabel(text("steps_thousand", lang), fontsize=8)
        figure.supylabel(text("training_ratio", lang, reference=default.reference), fontsize=8)
        return figure


def _with_last(label: str, curve: Curve, lang: str) -> str:
    return text("with_last", lang, label=text(label, lang), ratio=f"{curve.validation_points()[1][-1]:.2f}")


# --- the film ---------------------------------------------------------------------------------


def film_curve(groups: Mapping[str, Sequence[Curve]], *, lang: str = "en") -> Film:
    """The training ratio during PPO, drawn from left to right, mean and range over seeds."""
    bands = [band(curves) for curves in groups.values()]
    with figure_style(lang):
        figure = new_figure(5.6, 3.2)
        ax = figure.subplots()
        lines = [
            ax.plot([], [], color=PALETTE[k], linestyle=DASHES[k], label=_seeds(label, curves, lang))[0]
            for k, (label, curves) in enumerate(groups.items())
        ]
        _ratio_axes(ax, next(iter(groups.values()))[0].reference, lang)
        low, high = min(b.low.min() for b in bands), max(b.high.max() for b in bands)
        ax.set(xlim=(0, 1.02 * max(b.steps[-1] for b in bands) / THOUSAND),
               ylim=(low - 0.05 * (high - low), high + 0.05 * (high - low)))  # fmt: skip
        ax.legend(loc="upper right")
        counter = ax.set_title(" ")
    areas: list = []

    def show(k: int) -> None:
        share = min(1.0, (k + 1) / FILM_FRAMES)
        for area in areas:
            area.remove()
        areas.clear()
        for line, found, colour in zip(lines, bands, PALETTE):
            n = max(1, round(share * len(found.steps)))
            x = found.steps[:n] / THOUSAND
            line.set_data(x, found.mean[:n])
            areas.append(ax.fill_between(x, found.low[:n], found.high[:n], color=colour, alpha=0.2, linewidth=0))
        done = max(found.steps[max(1, round(share * len(found.steps))) - 1] for found in bands)
        counter.set_text(text("after_steps", lang, steps=f"{done / THOUSAND:.0f}"))

    return Film(figure, show, FILM_FRAMES + FILM_HOLD)
