"""Schedules over time: Gantt chart, resource use, and the two clocks.

`plot_...` returns a whole figure; `draw_gantt` draws into axes that the caller has
made within `figure_style`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING
from unicodedata import east_asian_width

import numpy as np
from matplotlib.collections import PatchCollection
from matplotlib.legend_handler import HandlerTuple
from matplotlib.lines import Line2D
from matplotlib.patches import Patch, Rectangle

from thesis_lib.cluster import Cluster, exec_time_s
from thesis_lib.plots.dag import CHARACTER_IN, SMALL_PT, WIDE_IN, critical_edges, ink, short_labels
from thesis_lib.plots.layout import Bar, pack_bars
from thesis_lib.plots.style import BLACK, DOUBLE_IN, HATCHES, LIGHT_GREY, PALETTE, figure_style, new_figure
from thesis_lib.plots.texts import number, text
from thesis_lib.schedule import Schedule
from thesis_lib.workflow import RESOURCES, Workflow, WorkflowError
from thesis_lib.workload import Workload

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

MAX_LEGEND = 12  # workflows that a legend still names one by one
MAX_NAME = 30  # characters of a workflow's name in the legend
MAX_VM_PANELS = 8  # beyond, resource use is shown for all VMs together


def vm_bars(schedule: Schedule, vm: int) -> list[Bar]:
    """The bars of one VM (by position), in cores; a task that needs no core gets a thin bar, so that it shows."""
    mine = np.flatnonzero(schedule.vm == vm).tolist()
    capacity = schedule.cluster.vms[vm].cpu
    thin = max(capacity, 1.0) / 50
    cores = [schedule.workload.task(i).cpu or thin for i in mine]
    return pack_bars(mine, schedule.start_s[mine].tolist(), schedule.finish_s[mine].tolist(), cores, capacity)


def plot_gantt(
    schedule: Schedule, *, width_in: float = DOUBLE_IN, height_in: float | None = None, lang: str = "en"
) -> Figure:
    """The schedule as a Gantt chart with one band per VM; see `draw_gantt`."""
    height = height_in or min(8.5, 1.3 + 0.6 * len(schedule.cluster))
    with figure_style(lang):
        figure = new_figure(width_in, height)
        draw_gantt(figure.subplots(), schedule, lang=lang)
        return figure


def draw_gantt(
    ax: Axes,
    schedule: Schedule,
    *,
    until_s: float | None = None,
    legend: bool = True,
    title: str = "",
    lang: str = "en",
) -> None:
    """Draw a Gantt chart into `ax`; until_s is the end of its time axis, by default the last finish.

    A bar is a task: as long as it runs, as high as the cores it holds, so tasks that
    run side by side are stacked. All bands have one scale, and each is as high as the
    most cores its VM used at once (its label says how many of how many). Several
    workflows differ by colour and hatch; in a single one the critical path does.
    """
    bands = [vm_bars(schedule, v) for v in range(len(schedule.cluster))]
    peaks = [max((bar.bottom + bar.height for bar in bars), default=0.0) for bars in bands]
    least = min(0.12, 0.4 / len(bands)) * sum(peaks)  # room for the name of an idle VM
    heights = [max(peak, least, 1e-9) for peak in peaks]
    gap = min(0.04, 0.3 / len(bands)) * sum(heights)
    tops = np.cumsum([0.0, *(height + gap for height in heights)])[:-1].tolist()
    span = float(schedule.finish_s.max()) or 1.0
    ax.set(xlim=(0, (until_s or span) * 1.005), ylim=(tops[-1] + heights[-1] + gap, -gap))
    groups = _bar_groups(schedule)
    boxes: dict[int, list[Rectangle]] = {}
    for top, height, bars in zip(tops, heights, bands):
        ax.add_patch(Rectangle((0, top), span, height, facecolor=LIGHT_GREY, edgecolor="none", zorder=0))
        for bar in bars:
            corner = (bar.start_s, top + height - bar.bottom - bar.height)
            box = Rectangle(corner, bar.finish_s - bar.start_s, bar.height)
            boxes.setdefault(groups[bar.task], []).append(box)
    _fill_bars(ax, boxes)
    _label_bars(ax, schedule, bands, boxes, groups)
    _gantt_axes(ax, schedule, tops, heights, peaks, lang)
    words = text("makespan", lang, seconds=number(schedule.makespan_s))
    ax.set_title(text("with_note", lang, title=title, note=words) if title else words, loc="left" if title else "right")
    if legend:
        _gantt_legend(ax, schedule, sorted(boxes), lang)


def _bar_groups(schedule: Schedule) -> list[int]:
    """Group number of each task: its workflow, or for a single workflow 1 on the critical path and 0 elsewhere."""
    if len(schedule.workload) > 1:
        return schedule.workload.workflow_of.tolist()
    on, _ = critical_edges(schedule.workload.workflows[0])
    return [int(i in on) for i in range(schedule.workload.n_tasks)]


def _look(group: int) -> tuple[str, str]:
    """(colour, hatch) of a group; the hatch moves on after each round of colours."""
    return PALETTE[group % len(PALETTE)], HATCHES[(group + group // len(PALETTE)) % len(HATCHES)]


def _fill_bars(ax: Axes, boxes: dict[int, list[Rectangle]]) -> None:
    # Among very many bars a white rim would hide the thin ones.
    rim = 0.5 if sum(map(len, boxes.values())) <= 500 else 0.1
    for group in sorted(boxes):
        colour, hatch = _look(group)
        ax.add_collection(PatchCollection(boxes[group], facecolor=colour, edgecolor="white", linewidth=rim, zorder=2))
        if hatch:
            ax.add_collection(PatchCollection(
                boxes[group], facecolor="none", edgecolor=(0, 0, 0, 0.4), hatch=hatch, linewidth=0, zorder=3,
            ))  # fmt: skip


def _label_bars(
    ax: Axes, schedule: Schedule, bands: list[list[Bar]], boxes: dict[int, list[Rectangle]], groups: list[int]
) -> None:
    """Write the task's id on every bar that has room for it."""
    second_in, core_in = _inches_per_unit(ax)
    labels = [label for workflow in schedule.workload.workflows for label in short_labels(workflow)]
    waiting = {group: iter(rectangles) for group, rectangles in boxes.items()}
    for bar in (bar for bars in bands for bar in bars):
        box = next(waiting[groups[bar.task]])
        label = labels[bar.task]
        if box.get_width() * second_in < len(label) * CHARACTER_IN + 0.04 or bar.height * core_in < 0.11:
            continue
        colour, hatch = _look(groups[bar.task])
        # On a hatch the text gets a plain ground of its own.
        ground = {"facecolor": colour, "edgecolor": "none", "pad": 0.6} if hatch else None
        x, y = box.get_x() + box.get_width() / 2, box.get_y() + box.get_height() / 2
        ax.text(x, y, label, ha="center", va="center", fontsize=SMALL_PT, color=ink(colour), zorder=4, bbox=ground,
                clip_on=True)  # fmt: skip


def _inches_per_unit(ax: Axes) -> tuple[float, float]:
    """Inches per unit of x and y before the labels take their room: a good guess, on the low side across."""
    box, (width, height) = ax.get_position(), ax.figure.get_size_inches()
    (left, right), (low, high) = ax.get_xlim(), ax.get_ylim()
    return width * box.width / abs(right - left), height * box.height / abs(high - low)


def _gantt_axes(
    ax: Axes, schedule: Schedule, tops: list[float], heights: list[float], peaks: list[float], lang: str
) -> None:
    vms = schedule.cluster.vms
    rows = range(0, len(vms), -(-len(vms) // 24))  # names of every VM up to 24, then of every second one, ...
    key = "vm_row" if len(vms) <= MAX_VM_PANELS else "vm"
    ax.set_yticks(
        [tops[v] + heights[v] / 2 for v in rows],
        [text(key, lang, id=vms[v].id, peak=number(peaks[v]), all=number(vms[v].cpu)) for v in rows],
    )
    for label in ax.get_yticklabels():
        label.set_linespacing(1.3)
    ax.set_xlabel(text("time_s", lang))
    ax.set_ylabel(text("vm_axis" if key == "vm_row" else "vms", lang))
    ax.tick_params(axis="y", length=0)
    ax.spines["left"].set_visible(False)
    ax.axvline(float(schedule.finish_s.max()), color=BLACK, linewidth=0.9, linestyle=":", zorder=5)


def _gantt_legend(ax: Axes, schedule: Schedule, groups: list[int], lang: str) -> None:
    if len(groups) > MAX_LEGEND:
        return  # so many patches would take more room than the chart
    labels = _group_names(schedule, lang)
    handles = []
    for group in groups:
        colour, hatch = _look(group)
        handles.append(Patch(facecolor=colour, edgecolor=(0, 0, 0, 0.4), hatch=hatch, linewidth=0, label=labels[group]))
    widest_in = max(_label_width_in(handle.get_label()) for handle in handles) + 0.5  # with the patch and the gap
    columns = max(1, min(len(handles), 6, int(ax.figure.get_figwidth() / widest_in)))
    ax.figure.legend(handles=handles, loc="outside lower center", ncols=columns, handlelength=1.8)


def _group_names(schedule: Schedule, lang: str) -> list[str]:
    """What the legend calls each group: workflows by name where all names differ, else by number."""
    if len(schedule.workload) == 1:
        return [text("other_task", lang), text("critical_task", lang)]
    names = [_shorten(str(workflow.name)) for workflow in schedule.workload.workflows]
    if all(names) and len(set(names)) == len(names):
        return names
    return [text("workflow", lang, number=k) for k in range(len(names))]


def _shorten(name: str) -> str:
    """The name on one line, its middle left out where it is very long."""
    name = " ".join(name.split())
    return name if len(name) <= MAX_NAME else f"{name[: MAX_NAME // 2 - 1]}…{name[-MAX_NAME // 2 :]}"


def _label_width_in(words: str) -> float:
    # The legend's type is a little larger than that of a box, and names may be full of wide letters.
    return 1.2 * sum(WIDE_IN if east_asian_width(c) in "WF" else CHARACTER_IN for c in words)


# --- resource use ---------------------------------------------------------------------------


def usage_steps(schedule: Schedule, vms: list[int] | None = None) -> tuple[np.ndarray, np.ndarray]:
    """What running tasks hold over time: ((k,) seconds, (k, 3) cores, GB, Gbit/s from that moment on).

    vms: positions of the VMs to add up, all by default. The first moment is 0, the last the end.
    """
    mine = np.ones(len(schedule.vm), bool) if vms is None else np.isin(schedule.vm, vms)
    mine &= schedule.finish_s > schedule.start_s
    demand = np.concatenate([w.demand for w in schedule.workload.workflows])[mine]
    moments = np.concatenate([[0.0, schedule.finish_s.max()], schedule.start_s[mine], schedule.finish_s[mine]])
    change = np.concatenate([np.zeros((2, 3)), demand, -demand])
    times, where = np.unique(moments, return_inverse=True)
    total = np.zeros((len(times), 3))
    np.add.at(total, where, change)
    used = np.cumsum(total, axis=0)
    used[np.abs(used) < 1e-9] = 0.0
    return times, used


def plot_usage(schedule: Schedule, *, width_in: float = DOUBLE_IN, lang: str = "en") -> Figure:
    """Cores, memory and bandwidth that running tasks hold over time, against the capacity.

    One row per VM and one column per resource; beyond 8 VMs one row for all together.
    """
    vms = schedule.cluster.vms
    rows = [[v] for v in range(len(vms))] if len(vms) <= MAX_VM_PANELS else [list(range(len(vms)))]
    with figure_style(lang):
        figure = new_figure(width_in, 0.75 + 0.95 * len(rows))
        axes = figure.subplots(len(rows), 3, sharex=True, squeeze=False)
        for row, members in zip(axes, rows):
            times, used = usage_steps(schedule, members)
            limits = schedule.cluster.capacity[members].sum(axis=0)
            for r, ax in enumerate(row):
                _draw_usage(ax, times, used[:, r], float(limits[r]), PALETTE[r])
            one = len(members) == 1
            row[0].set_ylabel(text("vm", lang, id=vms[members[0]].id) if one else text("all_vms", lang, n=len(members)))
        for ax, resource in zip(axes[0], RESOURCES):
            ax.set_title(text(resource, lang))
        for ax in axes[-1]:
            ax.set_xlabel(text("time_s", lang))
        limit = Line2D([], [], color=BLACK, linewidth=0.9, linestyle="--", label=text("capacity", lang))
        # The colour tells the resource, so the legend shows all three for "used".
        used = tuple(Patch(facecolor=PALETTE[r], alpha=0.35, linewidth=0) for r in range(3))
        figure.legend(
            [used, limit], [text("used", lang), limit.get_label()], loc="outside lower center", ncols=2,
            handler_map={tuple: HandlerTuple(ndivide=None, pad=0.2)}, handlelength=3,
        )  # fmt: skip
        return figure


def _draw_usage(ax: Axes, times: np.ndarray, used: np.ndarray, limit: float, colour: str) -> None:
    ax.fill_between(times, used, step="post", color=colour, alpha=0.35, linewidth=0)
    ax.step(times, used, where="post", color=colour, linewidth=1.0)
    ax.axhline(limit, color=BLACK, linewidth=0.9, linestyle="--")
    ax.set(xlim=(0, times[-1] or 1.0), ylim=(0, max(limit, float(used.max()), 1e-9) * 1.12))
    ax.set_yticks([0, limit / 2, limit] if limit else [0])
    ax.yaxis.set_major_formatter(lambda value, _: number(value))


# --- the two clocks ---------------------------------------------------------------------------


def serial_clock(workflow: Workflow, cluster: Cluster) -> Schedule:
    """What a clock makes of FCFS that adds a task's mean duration to the time at every placement.

    This is the article's `step`: tasks are placed in topological
    order on the VMs in turn, skipping VMs they do not fit, and nothing ever runs in
    parallel, so the makespan is the sum of all durations whatever the cluster.
    Transfers are not counted. Raises WorkflowError when a task fits no VM.
    """
    exec_s = exec_time_s(workflow, cluster)
    n, v = exec_s.shape
    vm, ready, start, finish = np.zeros(n, dtype=np.int64), np.zeros(n), np.zeros(n), np.zeros(n)
    now, turn = 0.0, 0
    for i in workflow.topological_order.tolist():
        able = [(turn + k) % v for k in range(v) if np.isfinite(exec_s[i, (turn + k) % v])]
        if not able:
            raise WorkflowError(f"task {workflow.tasks[i].id!r} fits no VM of the cluster; use a larger VM")
        vm[i], turn = able[0], able[0] + 1
        ready[i] = max((finish[p] for p in workflow.parents(i)), default=0.0)
        start[i], now = now, now + exec_s[i, able[0]]
        finish[i] = now
    return Schedule(Workload.single(workflow), cluster, vm, ready, start, finish, scheduler="fcfs, serial clock")


def plot_clocks(workflow: Workflow, cluster: Cluster, *, width_in: float = DOUBLE_IN, lang: str = "en") -> Figure:
    """The same workflow and rule (FCFS, mean durations) under the article's clock and under an event-driven one."""
    from thesis_lib.schedulers import make
    from thesis_lib.simulator import simulate

    serial = serial_clock(workflow, cluster)
    event = simulate(make("fcfs"), Workload.single(workflow), cluster, noise=False)
    with figure_style(lang):
        figure = new_figure(width_in, 4.6)
        top, bottom = figure.subplots(2, 1, sharex=True)
        end = float(max(serial.finish_s.max(), event.finish_s.max()))
        draw_gantt(top, serial, until_s=end, legend=False, title=text("serial_clock", lang), lang=lang)
        draw_gantt(bottom, event, until_s=end, title=text("event_clock", lang), lang=lang)
        top.set_xlabel("")
        return figure
