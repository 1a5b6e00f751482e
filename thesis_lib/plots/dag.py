"""The DAG of a workflow: layers, critical path, heat map.

`plot_dag` returns a whole figure with labels; `draw_dag` draws points and lines
into axes that the caller has made within `figure_style`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING
from unicodedata import east_asian_width

import matplotlib as mpl
import numpy as np
from matplotlib.collections import LineCollection
from matplotlib.colors import Normalize
from matplotlib.lines import Line2D
from matplotlib.patches import FancyArrowPatch, FancyBboxPatch
from matplotlib.path import Path as Outline

from thesis_lib.plots.layout import DagLayout, dag_layout
from thesis_lib.plots.style import BLACK, DOUBLE_IN, EDGE_GREY, HEAT_MAP, RED, figure_style, new_figure
from thesis_lib.plots.texts import number, text
from thesis_lib.ranks import critical_path
from thesis_lib.workflow import Workflow, WorkflowError

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

CHARACTER_IN, WIDE_IN = 0.062, 0.1  # mean width of a letter and of a Chinese character of 7 points
SMALL_PT = 7.0
MAX_HEIGHT_IN = 9.0  # of a DAG with labels: a page
CRITICAL_FILL = "#FBE3C0"
WRAPS = (10, 14, 18)  # tasks in a column, where layers have to be wrapped
MAX_BOXES = 150  # beyond so many tasks boxes with labels help nobody
FOOT_IN = 0.32  # strip below a DAG for its legend


def plot_dag(
    workflow: Workflow,
    *,
    heat: Sequence[float] | None = None,
    heat_label: str = "",
    width_in: float = DOUBLE_IN,
    lang: str = "en",
) -> Figure:
    """The DAG in layers, with ids and mean durations as far as there is room.

    The critical path has square boxes, thick borders and thick arrows. heat: (n,)
    one value per task, shown by colour with a scale (an explanation, a slack, ...).
    Up to about 60 tasks are labelled; larger workflows become points and lines.
    Raises WorkflowError when heat has another length.
    """
    if heat is not None and len(heat) != len(workflow):
        raise WorkflowError(f"heat holds {len(heat)} values for {len(workflow)} tasks; give one for each")
    with figure_style(lang):
        layout, form = _choose_form(workflow, width_in, lang)
        figure = new_figure(width_in, form.height_in + FOOT_IN)
        figure.set_layout_engine("none")
        share = FOOT_IN / (form.height_in + FOOT_IN)
        ax = figure.add_axes((0, share, 1, 1 - share))
        ax.set(xlim=(0, width_in), ylim=(0, form.height_in))
        ax.set_axis_off()
        colours, scale = _task_colours(workflow, heat)
        if form.lines:
            _draw_boxes(ax, workflow, layout, form, colours, lang)
        else:
            draw_dag(ax, workflow, layout=layout, heat=heat)
        _dag_legend(figure, workflow, form, lang, centre=share / 2, heat=heat is not None)
        if scale is not None:
            _heat_scale(figure, scale, heat_label, share)
        return figure


class _Form:
    """How a DAG is drawn at a given width, all in inches.

    lines: lines of text in a box: 2 (id, duration), 1 (id) or 0 (points).
    across_first: True when the layers run down the page, False when they run to the right.
    """

    def __init__(self, layout: DagLayout, width_in: float, lines: int, across_first: bool, label_in: float):
        self.lines, self.across_first = lines, across_first
        self.box_h = 0.13 * lines + 0.06
        columns, rows = (layout.span, layout.n_layers) if across_first else (layout.n_layers, layout.span)
        row_in = self.box_h + (0.3 if across_first else 0.09)
        self.margin = 0.08
        self.column_in = (width_in - 2 * self.margin) / columns
        gap = 0.06 if across_first else 0.16
        self.box_w = min(self.column_in - gap, max(label_in + 0.1, 0.42))
        self.height_in = rows * row_in + 2 * self.margin
        self.row_in = row_in
        self.fits = len(layout.layer) <= MAX_BOXES and self.box_w >= label_in + 0.02 and self.height_in <= MAX_HEIGHT_IN
        self.top = layout.reach[0]

    def place(self, layer: float, across: float) -> tuple[float, float]:
        """Centre of a task in inches from the lower left corner."""
        column, row = (across - self.top, layer) if self.across_first else (layer, across - self.top)
        return self.margin + (column + 0.5) * self.column_in, self.height_in - self.margin - (row + 0.5) * self.row_in


def _choose_form(workflow: Workflow, width_in: float, lang: str) -> tuple[DagLayout, _Form]:
    """The layout and form that show most: id and duration, else the id, else points.

    Layers that are too wide for the page are wrapped into columns before anything is left out.
    """
    labels = short_labels(workflow)
    id_in = max(map(_width_in, labels))
    both_in = max(id_in, *(_width_in(_seconds(s, lang)) for s in workflow.mean_s))
    plain = dag_layout(workflow)
    layouts = [plain] + [dag_layout(workflow, wrap) for wrap in WRAPS if len(workflow) <= MAX_BOXES]
    for layout in layouts:
        for lines, label_in in ((2, both_in), (1, id_in)):
            forms = [_Form(layout, width_in, lines, flag, label_in) for flag in (False, True)]
            if fitting := [form for form in forms if form.fits]:
                return layout, min(fitting, key=lambda form: form.height_in)
    form = _Form(plain, width_in, 0, False, 0.0)
    form.height_in = min(max(0.5 * width_in, 1.5), 4.0)
    return plain, form


def short_labels(workflow: Workflow) -> list[str]:
    """A short label for each task: the id, or its last number where ids are long and those differ."""
    labels = [task.label for task in workflow.tasks]
    if max(map(len, labels)) <= 4:
        return labels
    tails = [label[len(label.rstrip("0123456789")) :].lstrip("0") or "0" for label in labels]
    if len(set(tails)) == len(tails) and max(map(len, tails)) <= 5:
        return tails
    return [label if len(label) <= 9 else f"{label[:3]}…{label[-5:]}" for label in labels]


def critical_edges(workflow: Workflow) -> tuple[set[int], set[tuple[int, int]]]:
    """Positions of the tasks and (parent, child) pairs along the critical path."""
    path = [workflow.index(i) for i in critical_path(workflow)[1]]
    return set(path), set(zip(path, path[1:]))


def _edge_pairs(workflow: Workflow) -> list[tuple[int, int]]:
    children = np.repeat(np.arange(len(workflow)), np.diff(workflow.parent_ptr))
    return list(zip(workflow.parent_idx.tolist(), children.tolist()))


def _task_colours(workflow: Workflow, heat: Sequence[float] | None):
    """((n, 4) face colours, the scale or None)."""
    if heat is None:
        critical, _ = critical_edges(workflow)
        faces = [mpl.colors.to_rgba(CRITICAL_FILL if i in critical else "white") for i in range(len(workflow))]
        return np.array(faces), None
    values = np.asarray(heat, dtype=float)
    low, high = float(values.min()), float(values.max())
    scale = mpl.cm.ScalarMappable(Normalize(low, high if high > low else low + 1), HEAT_MAP)
    return scale.to_rgba(values), scale


def _draw_boxes(ax: Axes, workflow: Workflow, layout: DagLayout, form: _Form, colours: np.ndarray, lang: str) -> None:
    critical, critical_pairs = critical_edges(workflow)
    for pair, route in zip(_edge_pairs(workflow), layout.routes):
        heavy = pair in critical_pairs
        curve = _curve([form.place(*point) for point in route], form)
        ax.add_patch(FancyArrowPatch(
            path=curve, arrowstyle="-|>,head_length=0.35,head_width=0.16",
            mutation_scale=9, linewidth=1.7 if heavy else 0.6, color=RED if heavy else EDGE_GREY,
            zorder=2.5 if heavy else 2, shrinkA=0, shrinkB=0, capstyle="butt", joinstyle="miter"))  # fmt: skip
    for i, label in enumerate(short_labels(workflow)):
        x, y = form.place(layout.layer[i], layout.across[i])
        heavy = i in critical
        corner = "square,pad=0" if heavy else "round,pad=0,rounding_size=0.07"
        ax.add_patch(FancyBboxPatch(
            (x - form.box_w / 2, y - form.box_h / 2), form.box_w, form.box_h, boxstyle=corner,
            facecolor=colours[i], edgecolor=RED if heavy else BLACK, linewidth=1.7 if heavy else 0.6, zorder=3,
        ))  # fmt: skip
        if form.lines == 2:
            label += "\n" + _seconds(workflow.mean_s[i], lang)
        ax.text(x, y, label, ha="center", va="center", fontsize=SMALL_PT, color=ink(tuple(colours[i])), zorder=4,
                linespacing=1.05)  # fmt: skip


def _seconds(value: float, lang: str) -> str:
    return text("seconds", lang, value=number(value))


def _width_in(words: str) -> float:
    """About how wide the words are in the type of a box, inches."""
    return sum(WIDE_IN if east_asian_width(c) in "WF" else CHARACTER_IN for c in words)


def ink(face: object) -> str:
    """Black or white, whichever reads better on this colour."""
    return "white" if float(np.dot(mpl.colors.to_rgb(face), (0.299, 0.587, 0.114))) < 0.5 else BLACK


def _curve(points: list[tuple[float, float]], form: _Form) -> Outline:
    """A smooth line from box to box through the bends; it leaves and arrives along the layers' direction."""
    axis = 1 if form.across_first else 0
    half = (form.box_h if axis else form.box_w) / 2
    sign = -1 if axis else 1
    ends = [list(point) for point in points]
    ends[0][axis] += sign * half
    ends[-1][axis] -= sign * half
    vertices, codes = [tuple(ends[0])], [Outline.MOVETO]
    for start, stop in zip(ends, ends[1:]):
        reach = (stop[axis] - start[axis]) * 0.45
        first, second = list(start), list(stop)
        first[axis] += reach
        second[axis] -= reach
        vertices += [tuple(first), tuple(second), tuple(stop)]
        codes += [Outline.CURVE4] * 3
    return Outline(vertices, codes)


def draw_dag(
    ax: Axes, workflow: Workflow, *, layout: DagLayout | None = None, heat: Sequence[float] | None = None
) -> None:
    """The DAG as points and lines, without labels, in axes of any shape; layers run to the right.

    Critical tasks are larger squares joined by thick lines. Good for small multiples
    and for thousands of tasks.
    """
    layout = layout or dag_layout(workflow)
    critical, critical_pairs = critical_edges(workflow)
    pairs = _edge_pairs(workflow)
    n, busiest = len(workflow), max(layout.span, layout.n_layers)
    size = float(np.clip(900 / busiest**1.4, 3, 24))
    thin = float(np.clip(18 / np.sqrt(max(len(pairs), 1)), 0.15, 0.6))
    light = [route for pair, route in zip(pairs, layout.routes) if pair not in critical_pairs]
    heavy = [route for pair, route in zip(pairs, layout.routes) if pair in critical_pairs]
    ax.add_collection(LineCollection(light, colors=EDGE_GREY, linewidths=thin, zorder=1))
    ax.add_collection(LineCollection(heavy, colors=RED, linewidths=1.7, zorder=2))
    colours, _ = _task_colours(workflow, heat)
    on = np.isin(np.arange(n), sorted(critical))
    for mask, marker, scale, edge, width in ((~on, "o", 1, BLACK, 0.4), (on, "s", 1.5, RED, 0.9)):
        ax.scatter(layout.layer[mask], layout.across[mask], s=size * scale, marker=marker, facecolors=colours[mask],
                   edgecolors=edge, linewidths=min(width, size / 8), zorder=3)  # fmt: skip
    low, high = layout.reach
    # A slim DAG keeps its form instead of being stretched to the height of the axes.
    room = max(0.04 * layout.span, 0.6, (0.4 * layout.n_layers - layout.span) / 2)
    ax.set(xlim=(-0.5, layout.n_layers - 0.5), ylim=(high + room, low - room))
    ax.set_axis_off()


def plot_dags(
    workflows: Sequence[Workflow],
    titles: Sequence[str],
    *,
    columns: int,
    panel_height_in: float = 1.9,
    width_in: float = DOUBLE_IN,
    lang: str = "en",
) -> Figure:
    """Small multiples of `draw_dag`, `columns` panels in a row, each under its title."""
    rows = -(-len(workflows) // columns)
    with figure_style(lang):
        figure = new_figure(width_in, rows * panel_height_in + 0.3)
        axes = figure.subplots(rows, columns, squeeze=False).ravel()
        for ax in axes[len(workflows) :]:
            ax.set_axis_off()
        for ax, workflow, title in zip(axes, workflows, titles):
            draw_dag(ax, workflow)
            ax.set_title(title, linespacing=1.3)
        handle = _path_handle(text("critical_path_only", lang))
        figure.legend(handles=[handle], loc="outside lower center")
        return figure


def plot_families(workflows: Sequence[Workflow], *, width_in: float = DOUBLE_IN, lang: str = "en") -> Figure:
    """One workflow of each family side by side, with its size."""
    titles = [
        text("family_title", lang, family=text(w.family, lang), tasks=len(w), depth=int(w.levels.max()) + 1)
        for w in workflows
    ]
    return plot_dags(workflows, titles, columns=len(workflows), panel_height_in=2.5, width_in=width_in, lang=lang)


def plot_topologies(
    workflows: Mapping[tuple[float, float], Workflow], *, width_in: float = DOUBLE_IN, lang: str = "en"
) -> Figure:
    """Layered DAGs by (alpha, beta): small alpha is deep, large beta makes uneven layers."""
    titles = [
        text("topology", lang, shape=text("deep" if alpha < 1 else "wide", lang), alpha=f"{alpha:g}", beta=f"{beta:g}",
             evenness=text("regular" if beta == 0 else "irregular", lang), layers=int(w.levels.max()) + 1)
        for (alpha, beta), w in workflows.items()
    ]  # fmt: skip
    return plot_dags(list(workflows.values()), titles, columns=2, width_in=width_in, lang=lang)


def _path_handle(label: str) -> Line2D:
    return Line2D([], [], color=RED, linewidth=1.7, marker="s", markersize=6, markerfacecolor=CRITICAL_FILL,
                  markeredgecolor=RED, markeredgewidth=1.4, label=label)  # fmt: skip


def _dag_legend(figure: Figure, workflow: Workflow, form: _Form, lang: str, centre: float, heat: bool) -> None:
    length, _ = critical_path(workflow)
    words = text("critical_path", lang, seconds=number(length))
    handles = [_path_handle(words)]
    if form.lines == 2 and not heat:
        handles.append(Line2D([], [], linestyle="none", label=text("dag_key", lang)))
    figure.legend(handles=handles, loc="center left", bbox_to_anchor=(0.01, centre), ncols=2, borderaxespad=0)


def _heat_scale(figure: Figure, scale, label: str, share: float) -> None:
    ax = figure.add_axes((0.62, share * 0.55, 0.36, share * 0.22))
    bar = figure.colorbar(scale, cax=ax, orientation="horizontal")
    bar.outline.set_linewidth(0.5)
    ax.tick_params(labelsize=SMALL_PT, length=2, pad=1)
    ax.text(-0.03, 0.5, label, transform=ax.transAxes, ha="right", va="center", fontsize=7.5)
