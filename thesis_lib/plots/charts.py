"""Charts of measured data: distributions, shapes of workflows, comparisons of rules."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np
from matplotlib.lines import Line2D
from matplotlib.ticker import LogLocator, NullFormatter

from thesis_lib.comparison import bootstrap_means
from thesis_lib.plots.style import BLACK, DOUBLE_IN, GREY, MARKERS, PALETTE, RED, figure_style, new_figure
from thesis_lib.plots.texts import text
from thesis_lib.ranks import critical_path
from thesis_lib.workflow import Workflow

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

RESAMPLES = 4000
RULE_STEP_IN = 0.063  # from one rule's marker to the next in a row, inches: just above a marker of 4 points and its rim
RULE_SHARE = 0.8  # share of a row's height that its markers take
BAND_GREY = "#F3F3F3"
# Where the name of a point may stand, in points from it, the best place first.
NAME_PLACES_PT = ((5, 0), (-5, 0), (5, 7), (5, -7), (-5, 7), (-5, -7), (0, 9), (0, -9),
                  (14, 13), (14, -13), (-14, 13), (-14, -13))  # fmt: skip


# --- distributions of durations -----------------------------------------------------------------


def duration_law(family: str):
    """The distribution that a family's durations are drawn from, as a frozen scipy distribution, or None.

    Monte Carlo: LogNormal(mu 4.5, sigma 0.8); ML pipeline: Gamma(k 3, theta 40); ETL: Weibull(lambda 100, k 1.2).
    """
    from scipy import stats

    laws = {
        "monte_carlo": stats.lognorm(0.8, scale=np.exp(4.5)),
        "ml_pipeline": stats.gamma(3.0, scale=40.0),
        "etl": stats.weibull_min(1.2, scale=100.0),
    }
    return laws.get(family)


def largest_gap(values: np.ndarray, family: str) -> float:
    """Largest distance between the empirical distribution of `values` and the family's law (Kolmogorov, 1933)."""
    from scipy import stats

    return float(stats.kstest(values, duration_law(family).cdf).statistic)


def plot_distributions(
    workflows: Mapping[str, Sequence[Workflow]], *, width_in: float = DOUBLE_IN, lang: str = "en"
) -> Figure:
    """Mean durations of all tasks by family: histograms with the theoretical density, below them the ECDF.

    The histograms end at the 99.5 % quantile of what was drawn; the lower row shows all, on a log axis.
    """
    with figure_style(lang):
        figure = new_figure(width_in, 4.1)
        axes = figure.subplots(2, len(workflows), sharey="row", squeeze=False)
        for k, (family, drawn) in enumerate(workflows.items()):
            values = np.sort(np.concatenate([w.mean_s for w in drawn]))
            _draw_histogram(axes[0, k], values, family, PALETTE[k], lang)
            _draw_ecdf(axes[1, k], values, family, PALETTE[k], lang)
        axes[0, 0].set_ylabel(text("density", lang))
        axes[1, 0].set_ylabel(text("share_of_tasks", lang))
        return figure


def _draw_histogram(ax: Axes, values: np.ndarray, family: str, colour: str, lang: str) -> None:
    import seaborn

    end = float(np.quantile(values, 0.995))
    # Heights refer to all tasks, so that the tail left out does not lift the bars.
    edges = np.linspace(0.0, end, 41)
    weights = np.full(len(values), 1.0 / (len(values) * (edges[1] - edges[0])))
    seaborn.histplot(x=values, weights=weights, bins=list(edges), ax=ax, color=colour, alpha=0.45, edgecolor="white",
                     linewidth=0.3, label=text("drawn", lang, n=len(values)))  # fmt: skip
    if (law := duration_law(family)) is not None:
        x = np.linspace(0, end, 400)
        ax.plot(x, law.pdf(x), color=BLACK, linewidth=1.2, linestyle="--", label=text(f"law_{family}", lang))
    ax.set(xlim=(0, end), title=text(family, lang), ylabel="", xlabel=text("duration_s", lang))
    ax.legend(loc="upper right")


def _draw_ecdf(ax: Axes, values: np.ndarray, family: str, colour: str, lang: str) -> None:
    ax.step(values, np.arange(1, len(values) + 1) / len(values), where="post", color=colour, linewidth=2.2, alpha=0.7)
    if (law := duration_law(family)) is not None:
        x = np.geomspace(max(values[0], 1e-3), values[-1], 300)
        ax.plot(x, law.cdf(x), color=BLACK, linewidth=1.0, linestyle="--")
        gap = f"{largest_gap(values, family):.3f}"
        ax.text(0.04, 0.93, text("largest_gap", lang, value=gap), transform=ax.transAxes, va="top", fontsize=7.5)
    ax.set(xscale="log", xlim=(1, values[-1] * 1.1), ylim=(0, 1.02), xlabel=text("duration_log_s", lang))
    ax.xaxis.set_major_formatter(lambda value, _: f"{value:g}")


# --- shapes of workflows ------------------------------------------------------------------------


def shape_of(workflow: Workflow) -> dict[str, float]:
    """tasks, depth (layers), width (tasks in the largest layer), work_s, critical_path_s, parallelism = work / path."""
    work, (path, _) = float(workflow.mean_s.sum()), critical_path(workflow)
    layers = np.bincount(workflow.levels)
    return {
        "tasks": len(workflow), "depth": len(layers), "width": int(layers.max()),
        "work_s": work, "critical_path_s": path, "parallelism": work / path if path > 0 else 1.0,
    }  # fmt: skip


def plot_real(
    real: Mapping[str, Workflow], synthetic: Sequence[Workflow], *, width_in: float = DOUBLE_IN, lang: str = "en"
) -> Figure:
    """Workflows derived from real traces, by name, beside synthetic ones by family.

    Left: depth against width. Right: number of tasks against work / critical path, the
    speedup that unlimited VMs would allow.
    """
    pairs = (("depth", "width"), ("tasks", "parallelism"))
    families = list(dict.fromkeys(w.family for w in synthetic))
    with figure_style(lang):
        figure = new_figure(width_in, 3.3)
        for ax, (x, y) in zip(figure.subplots(1, 2), pairs):
            for k, family in enumerate(families):
                shapes = [shape_of(w) for w in synthetic if w.family == family]
                ax.scatter([s[x] for s in shapes], [s[y] for s in shapes], s=15, marker=MARKERS[k], alpha=0.75,
                           facecolors="none", edgecolors=PALETTE[k], linewidths=0.8,
                           label=text(family, lang))  # fmt: skip
            shapes = {name: shape_of(w) for name, w in real.items()}
            ax.scatter([s[x] for s in shapes.values()], [s[y] for s in shapes.values()], s=42, marker="*", color=RED,
                       edgecolors=BLACK, linewidths=0.4, zorder=4, label=text("real", lang))  # fmt: skip
            ax.set(xscale="log", yscale="log", xlabel=text(x, lang), ylabel=text(y, lang))
            ax.margins(0.09)
            for axis in (ax.xaxis, ax.yaxis):
                axis.set_major_locator(LogLocator(subs=(1, 2, 5)))
                axis.set_major_formatter(lambda value, _: f"{value:g}")
                axis.set_minor_formatter(NullFormatter())
                axis.set_tick_params(which="minor", length=0)
            others = [(s[x], s[y]) for s in map(shape_of, synthetic)]
            _name_points(ax, {name: (s[x], s[y]) for name, s in shapes.items()}, others)
        handles, labels = ax.get_legend_handles_labels()
        figure.legend(handles, labels, loc="outside lower center", ncols=len(labels))
        return figure


def _name_points(ax: Axes, points: Mapping[str, tuple[float, float]], others: Sequence[tuple[float, float]]) -> None:
    """Write a name beside each point, where it hits the fewest names and points (`others` included)."""
    ax.figure.draw_without_rendering()  # fixes the scales, so that distances can be measured
    unit = ax.figure.dpi / 72
    pixels = {name: ax.transData.transform(point) for name, point in points.items()}
    taken = [_square(x, y, 3 * unit) for x, y in pixels.values()]
    taken += [_square(x, y, 2 * unit) for x, y in map(ax.transData.transform, others)]
    frame = ax.get_window_extent()
    for name, (x, y) in pixels.items():
        candidates = []
        for dx, dy in NAME_PLACES_PT:
            wide, tall = len(name) * 4.3 * unit, 8 * unit
            left = x + dx * unit - (wide if dx < 0 else wide / 2 if dx == 0 else 0)
            box = (left, y + dy * unit - tall / 2, left + wide, y + dy * unit + tall / 2)
            outside = box[0] < frame.x0 or box[2] > frame.x1 or box[1] < frame.y0 or box[3] > frame.y1
            hits = sum(_overlap(box, other) for other in taken) + 100 * outside
            candidates.append((hits, len(candidates), dx, dy, box))
        _, _, dx, dy, box = min(candidates)
        taken.append(box)
        line = {"arrowstyle": "-", "linewidth": 0.4, "color": GREY} if abs(dx) > 10 else None
        ax.annotate(name, points[name], xytext=(dx, dy), textcoords="offset points", va="center", fontsize=7, zorder=5,
                    ha="right" if dx < 0 else "center" if dx == 0 else "left", arrowprops=line)  # fmt: skip


def _square(x: float, y: float, half: float) -> tuple[float, float, float, float]:
    return x - half, y - half, x + half, y + half


def _overlap(a: tuple[float, ...], b: tuple[float, ...]) -> bool:
    return a[0] < b[2] and b[0] < a[2] and a[1] < b[3] and b[1] < a[3]


# --- comparisons of rules -----------------------------------------------------------------------


def plot_rules(
    ratios: Mapping[str, Mapping[str, float]], *, reference: str | None = None, width_in: float = DOUBLE_IN,
    lang: str = "en",
) -> Figure:  # fmt: skip
    """A ratio of each rule (inner key) on each problem (outer key).

    reference: the scheduler that the ratios refer to; None for makespan / lower bound, of which 1 cannot be beaten.
    """
    label = text("ratio_to_reference", lang, reference=reference) if reference else text("ratio_to_bound", lang)
    rules = list(next(iter(ratios.values())))
    with figure_style(lang):
        figure = new_figure(width_in, 0.9 + max(0.42, RULE_STEP_IN / RULE_SHARE * len(rules)) * len(ratios))
        ax = figure.subplots()
        for row, values in enumerate(ratios.values()):
            if row % 2 == 0:  # every second row on a ground of its own, so that no marker seems to belong to the next
                ax.axhspan(row - 0.5, row + 0.5, color=BAND_GREY, linewidth=0, zorder=0)
            for k, rule in enumerate(rules):
                # The markers of a row stand one below the other, so that equal values stay visible.
                shift = (k - (len(rules) - 1) / 2) * RULE_SHARE / len(rules)
                ax.plot(values[rule], row + shift, marker=MARKERS[k], color=PALETTE[k], linestyle="none", markersize=4,
                        markeredgecolor=BLACK, markeredgewidth=0.4, zorder=3,
                        label=rule if row == 0 else None)  # fmt: skip
        ax.axvline(1.0, color=BLACK, linewidth=0.9, linestyle="--", zorder=1)
        ax.set(ylim=(len(ratios) - 0.5, -0.5), xlabel=label)
        ax.set_yticks(range(len(ratios)), list(ratios))
        ax.tick_params(axis="y", length=0)
        figure.legend(loc="outside lower center", ncols=len(rules), columnspacing=1.4, handletextpad=0.2)
        return figure


def mean_interval(values: Sequence[float], level: float = 0.95, seed: int = 0) -> tuple[float, float, float]:
    """(mean, low, high): the percentile bootstrap interval of the mean (Efron and Tibshirani, 1993)."""
    sample = np.asarray(values, dtype=float)
    rng = np.random.default_rng(seed)
    means = bootstrap_means(sample, RESAMPLES, rng)
    low, high = np.quantile(means, [(1 - level) / 2, (1 + level) / 2])
    return float(sample.mean()), float(low), float(high)


def plot_completion(
    completion_s: Mapping[str, Sequence[float]], reference: str, *, width_in: float = DOUBLE_IN, lang: str = "en"
) -> Figure:
    """Mean completion time of each rule on the same draws: seconds (left) and, draw by draw, ratio to `reference`.

    completion_s: for each rule one value per draw, the draws in one order. Means with 95 % bootstrap intervals.
    """
    rules = sorted(completion_s, key=lambda rule: -float(np.mean(completion_s[rule])))
    base = np.asarray(completion_s[reference], dtype=float)
    with figure_style(lang):
        figure = new_figure(width_in, 0.9 + 0.28 * len(rules))
        left, right = figure.subplots(1, 2, sharey=True)
        for row, rule in enumerate(rules):
            values = np.asarray(completion_s[rule], dtype=float)
            _draw_sample(left, row, values)
            _draw_sample(right, row, values / base)
        right.axvline(1.0, color=BLACK, linewidth=0.9, linestyle="--", zorder=1)
        left.set_yticks(range(len(rules)), rules)
        left.set(ylim=(len(rules) - 0.5, -0.5), xlabel=text("completion_s", lang))
        left.set_xlim(left=0)
        right.set(xlabel=text("ratio_to_reference", lang, reference=reference))
        for ax in (left, right):
            ax.tick_params(axis="y", length=0)
        dot = Line2D([], [], marker="o", markersize=3, color=PALETTE[4], linestyle="none", label=text("one_draw", lang))
        bar = Line2D([], [], marker="D", markersize=4.5, color=BLACK, linewidth=1.4, label=text("mean_interval", lang))
        figure.legend(handles=[dot, bar], loc="outside lower center", ncols=2)
        return figure


def _draw_sample(ax: Axes, row: int, values: np.ndarray) -> None:
    mean, low, high = mean_interval(values)
    ax.plot(values, np.full(len(values), row + 0.2), marker="o", markersize=3, color=PALETTE[4], alpha=0.6,
            markeredgewidth=0, linestyle="none")  # fmt: skip
    ax.plot([low, high], [row - 0.12] * 2, color=BLACK, linewidth=1.4, solid_capstyle="butt", zorder=3)
    ax.plot(mean, row - 0.12, marker="D", markersize=4.5, color=BLACK, zorder=4)


# --- rewards ------------------------------------------------------------------------------------


def rank_agreement(returns: Mapping[str, Sequence[float]], completion_s: Mapping[str, Sequence[float]]) -> float:
    """Does a larger return mean a shorter completion time? Spearman's coefficient over the rules, mean over draws.

    Both map each rule to one value per draw, the draws in one order. 1: every draw is ranked alike; -1: reversed.
    """
    from scipy.stats import spearmanr

    rules = list(completion_s)
    gained = np.array([returns[rule] for rule in rules])
    took_s = np.array([completion_s[rule] for rule in rules])
    return float(np.mean([spearmanr(gained[:, k], -took_s[:, k]).statistic for k in range(took_s.shape[1])]))


def plot_rewards(
    returns: Mapping[str, Mapping[str, Sequence[float]]],
    completion_s: Mapping[str, Sequence[float]],
    *,
    width_in: float = DOUBLE_IN,
    lang: str = "en",
) -> Figure:
    """One panel per reward: mean return of each rule against its mean completion time, titled with `rank_agreement`.

    returns: reward -> rule -> one value per draw; completion_s: rule -> one value per draw (s).
    """
    rules, columns = list(completion_s), 4
    n_rows = -(-(len(returns) + 1) // columns)  # one place more, for the legend
    with figure_style(lang):
        figure = new_figure(width_in, 1.75 * n_rows + 0.2)
        axes = figure.subplots(n_rows, columns, squeeze=False).ravel()
        for ax, (reward, gained) in zip(axes, returns.items()):
            for k, rule in enumerate(rules):
                ax.plot(np.mean(completion_s[rule]), np.mean(gained[rule]), marker=MARKERS[k], color=PALETTE[k],
                        markersize=5.5, markeredgecolor=BLACK, markeredgewidth=0.4, linestyle="none",
                        label=rule)  # fmt: skip
            agreement = f"{rank_agreement(gained, completion_s):.2f}"
            ax.set_title(text("reward_title", lang, reward=reward, value=agreement))
            ax.margins(0.12)
            ax.tick_params(labelsize=7)
        for ax in axes[len(returns) :]:
            ax.set_axis_off()
        handles, labels = axes[0].get_legend_handles_labels()
        axes[len(returns)].legend(handles, labels, loc="center")
        figure.supxlabel(text("completion_s", lang), fontsize=8)
        figure.supylabel(text("return", lang), fontsize=8)
        return figure
