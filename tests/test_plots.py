"""Plots: layout, bar packing, fonts and text, and that figures leave no trace."""

import io
import itertools
import re
from xml.etree import ElementTree

import matplotlib as mpl
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.patches import FancyBboxPatch

from tests.learning_samples import curve
from thesis_lib import plots
from thesis_lib.cluster import VM, Cluster
from thesis_lib.curves import SpeedUp
from thesis_lib.generators import etl, layered, ml_pipeline, monte_carlo
from thesis_lib.plots import charts, dag, layout, style, texts
from thesis_lib.schedule import Schedule
from thesis_lib.schedulers import make
from thesis_lib.simulator import simulate
from thesis_lib.workflow import Task, Workflow, WorkflowError
from thesis_lib.workload import Workload


def diamond() -> Workflow:
    """A (2 s) before B (3 s) and C (4 s), both before D (1 s)."""
    return Workflow((
        Task("A", 2.0),
        Task("B", 3.0, dependencies=("A",)),
        Task("C", 4.0, dependencies=("A",)),
        Task("D", 1.0, dependencies=("B", "C")),
    ))  # fmt: skip


def two_vms() -> Cluster:
    return Cluster((VM(0, 4, 8, 1), VM(1, 4, 8, 1)))


def run(workflow: Workflow, cluster: Cluster, rule: str = "fcfs") -> Schedule:
    return simulate(make(rule), Workload.single(workflow), cluster, noise=False)


@st.composite
def workflows(draw) -> Workflow:
    """Any DAG of up to 14 tasks, edges from earlier to later tasks."""
    n = draw(st.integers(1, 14))
    pairs = list(itertools.combinations(range(n), 2))
    edges = draw(st.sets(st.sampled_from(pairs), max_size=25)) if pairs else set()
    return Workflow(tuple(Task(i, 1.0, dependencies=tuple(p for p in range(n) if (p, i) in edges)) for i in range(n)))


# --- layout ---------------------------------------------------------------------------------


@settings(max_examples=80, deadline=None)
@given(workflows(), st.sampled_from([None, 1, 3]))
def test_layout_puts_parents_first_and_no_two_tasks_at_one_place(workflow, max_width):
    placed = layout.dag_layout(workflow, max_width)
    for child in range(len(workflow)):
        assert all(placed.layer[p] < placed.layer[child] for p in workflow.parents(child))
    for i, j in itertools.combinations(range(len(workflow)), 2):
        if placed.layer[i] == placed.layer[j]:
            assert abs(placed.across[i] - placed.across[j]) >= 1 - 1e-9
    if max_width is not None:
        assert np.bincount(placed.layer).max() <= max_width


@settings(max_examples=40, deadline=None)
@given(workflows())
def test_every_edge_runs_from_its_parent_to_its_child_layer_by_layer(workflow):
    placed = layout.dag_layout(workflow)
    children = np.repeat(np.arange(len(workflow)), np.diff(workflow.parent_ptr))
    for parent, child, route in zip(workflow.parent_idx, children, placed.routes, strict=True):
        assert route[0] == (placed.layer[parent], placed.across[parent])
        assert route[-1] == (placed.layer[child], placed.across[child])
        assert [depth for depth, _ in route] == list(range(placed.layer[parent], placed.layer[child] + 1))


def test_layout_removes_crossings_that_need_not_be():
    # Two chains whose second tasks are listed the wrong way round: drawn as listed they cross.
    tasks = (Task(0, 1), Task(1, 1), Task(2, 1, dependencies=(1,)), Task(3, 1, dependencies=(0,)))
    placed = layout.dag_layout(Workflow(tasks))
    assert (placed.across[0] < placed.across[1]) == (placed.across[3] < placed.across[2])


def test_a_side_branch_gives_way_to_the_chain():
    chain = [Task(i, 1.0, dependencies=(i - 1,) if i else ()) for i in range(8)]
    placed = layout.dag_layout(Workflow((*chain, Task("checkpoint", 1.0, dependencies=(2,)))))
    assert np.ptp(placed.across[:8]) < 0.05
    assert abs(placed.across[8] - placed.across[3]) == pytest.approx(1)


def test_a_chain_is_straight_and_the_layout_repeats_exactly():
    chain = Workflow(tuple(Task(i, 1.0, dependencies=(i - 1,) if i else ()) for i in range(5)))
    assert layout.dag_layout(chain).across.tolist() == [0.0] * 5
    workflow = monte_carlo(60, seed=3)
    first, second = layout.dag_layout(workflow), layout.dag_layout(workflow)
    assert first.routes == second.routes


# --- bars -----------------------------------------------------------------------------------


def overlap(a: layout.Bar, b: layout.Bar) -> bool:
    return (
        a.start_s < b.finish_s and b.start_s < a.finish_s
        and a.bottom < b.bottom + b.height - 1e-9 and b.bottom < a.bottom + a.height - 1e-9
    )  # fmt: skip


@settings(max_examples=150, deadline=None)
@given(st.lists(st.tuples(st.integers(0, 20), st.integers(0, 9), st.integers(0, 6)), min_size=1, max_size=14))
def test_bars_never_overlap_and_keep_their_height(tasks):
    start = [float(s) for s, _, _ in tasks]
    finish = [float(s + d) for s, d, _ in tasks]
    height = [h / 2 for _, _, h in tasks]
    bars = layout.pack_bars(range(len(tasks)), start, finish, height, capacity=4.0)
    assert not any(overlap(a, b) for a, b in itertools.combinations(bars, 2))
    for k in range(len(tasks)):
        drawn = sum(bar.height for bar in bars if bar.task == k)
        assert drawn == pytest.approx(height[k] if finish[k] > start[k] else 0.0)
    used = max((sum(h for s, f, h in zip(start, finish, height) if s <= t < f) for t in start), default=0.0)
    top = max((bar.bottom + bar.height for bar in bars), default=0.0)
    assert top <= 4.0 + 1e-9 or used > 4.0  # nothing goes above the capacity unless the tasks exceed it


def test_a_task_is_split_only_when_no_strip_is_tall_enough():
    # Three 1-core tasks stack to 0, 1, 2; at 5 s the outer two have ended and a 2-core task comes.
    bars = layout.pack_bars([0, 1, 2, 3], [0, 1, 2, 5], [5, 10, 5, 8], [1, 1, 1, 2], capacity=3)
    assert [(bar.task, bar.bottom, bar.height) for bar in bars] == [
        (0, 0, 1), (1, 1, 1), (2, 2, 1), (3, 0, 1), (3, 2, 1),
    ]  # fmt: skip


def test_a_schedule_above_capacity_shows_above_the_capacity():
    bars = layout.pack_bars([0, 1], [0, 0], [10, 9], [2, 2], capacity=3)
    assert [(bar.task, bar.bottom, bar.height) for bar in bars] == [(0, 0, 2), (1, 2, 1), (1, 3, 1)]


@pytest.mark.parametrize("rule", ["fcfs", "heft", "srw"])
def test_gantt_bars_of_one_vm_never_overlap(rule):
    workload = Workload((monte_carlo(40, seed=1), etl(50, seed=2), ml_pipeline(20, seed=3)), (0.0, 100.0, 200.0))
    schedule = simulate(make(rule), workload, Cluster.stream(), seed=4)
    shown = set()
    for v, vm in enumerate(schedule.cluster.vms):
        bars = plots.vm_bars(schedule, v)
        assert not any(overlap(a, b) for a, b in itertools.combinations(bars, 2))
        assert max((bar.bottom + bar.height for bar in bars), default=0) <= vm.cpu + 1e-9
        shown |= {bar.task for bar in bars}
    assert shown == set(range(workload.n_tasks))


# --- numbers --------------------------------------------------------------------------------


def test_usage_steps_by_hand():
    workflow = Workflow((Task(0, 10.0, cpu=2, memory_gb=3), Task(1, 4.0, cpu=1, bandwidth_gbps=0.5)))
    zero = np.zeros(2)
    schedule = Schedule(Workload.single(workflow), two_vms(), np.array([0, 0]), zero, np.array([0.0, 2.0]),
                        np.array([10.0, 6.0]))  # fmt: skip
    times, used = plots.usage_steps(schedule)
    assert times.tolist() == [0, 2, 6, 10]
    assert used.tolist() == [[2, 3, 0], [3, 3, 0.5], [2, 3, 0], [0, 0, 0]]
    assert plots.usage_steps(schedule, [1])[1].tolist() == [[0, 0, 0], [0, 0, 0]]


def test_the_serial_clock_adds_up_all_durations():
    schedule = plots.serial_clock(diamond(), two_vms())
    assert schedule.start_s.tolist() == [0, 2, 5, 9]
    assert schedule.finish_s.tolist() == [2, 5, 9, 10]
    assert schedule.vm.tolist() == [0, 1, 0, 1]
    assert run(diamond(), two_vms()).makespan_s == 7  # A, then B and C side by side, then D
    schedule.validate()


def test_the_serial_clock_refuses_a_task_that_fits_no_vm():
    with pytest.raises(WorkflowError, match="'big' fits no VM"):
        plots.serial_clock(Workflow((Task("big", 1.0, cpu=99),)), two_vms())


def test_shape_of_the_diamond():
    assert plots.shape_of(diamond()) == {
        "tasks": 4, "depth": 3, "width": 2, "work_s": 10.0, "critical_path_s": 7.0, "parallelism": 10 / 7,
    }  # fmt: skip


def test_bootstrap_interval_agrees_with_the_normal_one():
    values = np.random.default_rng(1).normal(50, 5, size=400)
    mean, low, high = plots.mean_interval(values)
    half = 1.96 * values.std() / 20
    assert mean == pytest.approx(values.mean())
    assert (mean - low, high - mean) == pytest.approx((half, half), rel=0.1)
    assert plots.mean_interval([3.0, 3.0, 3.0]) == (3.0, 3.0, 3.0)


def test_rank_agreement_by_hand():
    """Ranks (1, 2, 3) and (1, 3, 2): 1 - 6 x 2 / (3 x 8) = 0.5; the second draw is the reverse, -1."""
    completion_s = {"a": [10, 1], "b": [20, 2], "c": [30, 3]}
    returns = {"a": [5, 0], "b": [3, 10], "c": [4, 20]}
    assert plots.rank_agreement(returns, completion_s) == pytest.approx((0.5 - 1) / 2)
    assert plots.rank_agreement({k: [-x for x in v] for k, v in completion_s.items()}, completion_s) == 1


@pytest.mark.parametrize("family", ["monte_carlo", "ml_pipeline", "etl"])
def test_largest_gap_of_the_laws_own_quantiles(family):
    n = 50
    values = charts.duration_law(family).ppf((np.arange(n) + 0.5) / n)
    assert charts.largest_gap(values, family) == pytest.approx(0.5 / n)


def test_duration_laws_have_the_articles_means():
    assert charts.duration_law("monte_carlo").mean() == pytest.approx(np.exp(4.5 + 0.8**2 / 2))
    assert charts.duration_law("ml_pipeline").mean() == pytest.approx(120)
    assert charts.duration_law("etl").cdf(100) == pytest.approx(1 - np.exp(-1))


@pytest.mark.parametrize(
    ("value", "shown"), [(0, "0"), (12, "12"), (12.34, "12.3"), (1234.5, "1234"), (0.5, "0.50"), (-3.25, "\u22123.25")]
)
def test_numbers_for_people(value, shown):
    assert texts.number(value) == shown


def test_short_labels():
    def labels(*ids):
        return dag.short_labels(Workflow(tuple(Task(i, 1.0) for i in ids)))

    assert labels(7, "ab") == ["7", "ab"]
    assert labels("bowtie_ID0000003", "bowtie_ID0000012") == ["3", "12"]
    assert labels("align_1", "sort_1") == ["align_1", "sort_1"]
    assert labels("a_very_long_name", "another_long_one") == ["a_v…_name", "ano…g_one"]


# --- fonts and text -------------------------------------------------------------------------


@pytest.fixture(scope="module")
def chinese_font():
    from fontTools.ttLib import TTFont

    return TTFont(style.FONT_FILE)


def test_the_font_is_truetype_small_and_renamed(chinese_font):
    assert "glyf" in chinese_font and "CFF " not in chinese_font
    assert chinese_font["name"].getDebugName(1) == style.CHINESE_FAMILY
    assert style.FONT_FILE.stat().st_size < 1.5e6
    assert "SIL OPEN FONT LICENSE Version 1.1" in (style.FONT_FILE.parent / "OFL.txt").read_text(encoding="utf-8")


def test_every_character_of_every_text_has_a_glyph(chinese_font):
    from fontTools.ttLib import TTFont
    from matplotlib import font_manager

    latin = TTFont(font_manager.findfont(style.LATIN_FAMILY)).getBestCmap()
    chinese = chinese_font.getBestCmap()
    assert 0x2212 in latin and 0x2212 in chinese  # the minus sign
    for english, translated in texts.TEXTS.values():
        assert [c for c in english if c != "\n" and ord(c) not in latin] == []
        assert [c for c in translated if c != "\n" and ord(c) not in chinese] == []


def test_every_text_exists_twice_with_the_same_places_to_fill():
    for key, pair in texts.TEXTS.items():
        places = [sorted(re.findall(r"\{(\w+)\}", words)) for words in pair]
        assert all(pair) and places[0] == places[1], key


@pytest.mark.filterwarnings("error")  # matplotlib warns of a missing glyph
@pytest.mark.parametrize("lang", ["en", "zh"])
def test_chinese_and_minus_render_in_both_languages(lang, tmp_path):
    with style.figure_style(lang):
        figure = style.new_figure(3, 2)
        figure.subplots().set(title="工作流 −3", xlim=(-5, 5), xlabel="完成时间（秒）")
    pdf = plots.save_figure(figure, tmp_path / "a.pdf").read_bytes()
    assert b"/Type3" not in pdf and b"/FontFile2" in pdf and b"ThesisHeiSC" in pdf
    assert b"CreationDate" not in pdf and b"Matplotlib" not in pdf


# --- whole figures --------------------------------------------------------------------------


def build_all(lang: str) -> dict:
    shown = [monte_carlo(20, seed=1), ml_pipeline(15, seed=1), etl(30, seed=1)]
    schedule = run(shown[0], Cluster.default(), "heft")
    sample = {"heft_online": [1.0, 2.0, 3.0], "srw": [0.5, 1.5, 2.0]}
    seeds, other = [curve("a", [1.4, 1.2, 1.0]), curve("b", [1.3, 1.1, 0.9])], curve("c", [1.5, 1.4, 1.3])
    steps = {"features_5": [100, 200], "features_4": [300]}
    return {
        "dag": plots.plot_dag(shown[0], lang=lang),
        "heat": plots.plot_dag(shown[0], heat=shown[0].mean_s, heat_label="s", lang=lang),
        "families": plots.plot_families(shown, lang=lang),
        "topologies": plots.plot_topologies({(0.5, 0.0): layered(20), (1.5, 2.0): layered(20, alpha=1.5)}, lang=lang),
        "gantt": plots.plot_gantt(schedule, lang=lang),
        "usage": plots.plot_usage(schedule, lang=lang),
        "clocks": plots.plot_clocks(diamond(), two_vms(), lang=lang),
        "distributions": plots.plot_distributions({w.family: [w] for w in shown}, lang=lang),
        "real": plots.plot_real({"a": diamond(), "b": shown[0]}, shown, lang=lang),
        "rules": plots.plot_rules({"a": {"fcfs": 1.2, "heft": 1.0}}, lang=lang),
        "completion": plots.plot_completion(sample, "heft_online", lang=lang),
        "rewards": plots.plot_rewards({"v1": sample, "potential": sample}, sample, lang=lang),
        "learning": plots.plot_learning_curves({"gcn": seeds, "mlp": [other]}, lang=lang),
        "validation": plots.plot_reward_curves({"v2": other, "v2_as_printed": seeds[0]}, lang=lang),
        "ablation": plots.plot_ablation(
            {"features_5": seeds, "features_4": [other]}, 1.3, steps, SpeedUp(0.1, -0.2, 0.3), lang=lang
        ),
        "sensitivity": plots.plot_sensitivity(
            {"entropy": {"0.01": seeds[0]}, "rollout": {"64": other}}, seeds[1], lang=lang
        ),
        "film": plots.film_curve({"gcn": seeds, "mlp": [other]}, lang=lang).figure,
    }


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("lang", ["en", "zh"])
def test_plots_leave_no_trace_and_have_no_text_below_seven_points(lang):
    import matplotlib.pyplot as plt

    before = dict(mpl.rcParams)
    for name, figure in build_all(lang).items():
        figure.draw_without_rendering()
        small = [t.get_text() for t in figure.findobj(mpl.text.Text) if t.get_text() and t.get_fontsize() < 7]
        assert small == [], name
    assert dict(mpl.rcParams) == before
    assert plt.get_fignums() == []


def test_a_users_settings_do_not_change_a_figure(tmp_path):
    plain = plots.save_figure(plots.plot_dag(diamond()), tmp_path / "a.png").read_bytes()
    with mpl.rc_context({"font.size": 20, "savefig.dpi": 50, "savefig.bbox": "tight", "lines.linewidth": 9}):
        assert plots.save_figure(plots.plot_dag(diamond()), tmp_path / "b.png").read_bytes() == plain


def test_settings_are_restored_after_an_error():
    before = dict(mpl.rcParams)
    with pytest.raises(WorkflowError, match="heat holds 1 values for 4 tasks"):
        plots.plot_dag(diamond(), heat=[1.0])
    with pytest.raises(RuntimeError), style.figure_style("zh"):
        raise RuntimeError
    assert dict(mpl.rcParams) == before


@pytest.mark.parametrize("lang", ["en", "zh"])
@pytest.mark.parametrize(
    "workflow", [monte_carlo(60, seed=1), etl(60, seed=1), layered(60, seed=1), diamond()], ids=lambda w: w.name
)
def test_up_to_sixty_tasks_every_box_holds_its_label(workflow, lang):
    figure = plots.plot_dag(workflow, lang=lang)
    renderer = FigureCanvasAgg(figure).get_renderer()
    (ax,) = figure.axes
    boxes = [p.get_window_extent(renderer) for p in ax.patches if isinstance(p, mpl.patches.FancyBboxPatch)]
    labels = [label.get_window_extent(renderer) for label in ax.texts]
    assert len(boxes) == len(labels) == len(workflow)
    for box, label in zip(boxes, labels):
        assert box.x0 <= label.x0 and label.x1 <= box.x1 and box.y0 <= label.y0 and label.y1 <= box.y1
    for a, b in itertools.combinations(boxes, 2):
        assert not (a.x0 < b.x1 and b.x0 < a.x1 and a.y0 < b.y1 and b.y0 < a.y1)
    page = figure.bbox
    assert all(page.x0 <= box.x0 and box.x1 <= page.x1 and page.y0 <= box.y0 and box.y1 <= page.y1 for box in boxes)


def test_boxes_and_legend_give_seconds_in_the_same_words():
    for lang, unit, other in (("en", " s", "秒"), ("zh", " 秒", " s")):
        figure = dag.plot_dag(diamond(), lang=lang)
        boxes = [t.get_text() for t in figure.axes[0].texts]
        assert len(boxes) == 4 and all(t.endswith(unit) and other not in t for t in boxes)
        assert any(t.get_text().endswith(unit) for t in figure.legends[0].get_texts())


def test_chinese_characters_count_as_wider():
    figure = dag.plot_dag(Workflow(tuple(Task(f"数据清洗{i}", 1.0) for i in range(3))), lang="zh")
    figure.draw_without_rendering()
    (ax,) = figure.axes
    for words, box in zip(ax.texts, [p for p in ax.patches if isinstance(p, FancyBboxPatch)], strict=True):
        assert words.get_window_extent().width <= box.get_window_extent().width


def test_even_and_uneven_layers_are_not_called_rules_in_chinese():
    assert texts.text("regular", "zh") == "均匀" and texts.text("irregular", "zh") == "不均匀"


@pytest.mark.parametrize("lang", ["en", "zh"])
def test_the_legend_of_a_narrow_dag_stays_on_the_page(lang):
    figure = plots.plot_dag(monte_carlo(20, seed=1), width_in=plots.SINGLE_IN, lang=lang)
    (legend,) = figure.legends
    extent = legend.get_window_extent(FigureCanvasAgg(figure).get_renderer())
    assert extent.x0 >= 0 and extent.x1 <= figure.bbox.x1


def test_a_thousand_tasks_become_points():
    figure = plots.plot_dag(layered(1000, seed=1))
    assert len(figure.axes[0].texts) == 0
    assert sum(len(c.get_offsets()) for c in figure.axes[0].collections if hasattr(c, "get_sizes")) == 1000


def test_the_critical_path_is_told_by_shape_and_width_too():
    (ax,) = plots.plot_dag(diamond()).axes
    boxes = [p for p in ax.patches if isinstance(p, mpl.patches.FancyBboxPatch)]
    square = [type(p.get_boxstyle()).__name__ == "Square" for p in boxes]
    assert square == [True, False, True, True]  # A, C, D
    assert boxes[0].get_linewidth() > 2 * boxes[1].get_linewidth()
    arrows = [p for p in ax.patches if isinstance(p, mpl.patches.FancyArrowPatch)]
    assert sorted(p.get_linewidth() > 1 for p in arrows) == [False, False, True, True]


def test_gantt_labels_lie_within_their_bars():
    schedule = run(monte_carlo(30, seed=2), Cluster.default(), "heft")
    figure = plots.plot_gantt(schedule)
    ax, renderer = figure.axes[0], FigureCanvasAgg(figure).get_renderer()
    figure.draw_without_rendering()
    bars = [bar for v in range(3) for bar in plots.vm_bars(schedule, v)]
    spans = {str(bar.task): ax.transData.transform([(bar.start_s, 0), (bar.finish_s, 0)])[:, 0] for bar in bars}
    assert len(ax.texts) >= 5
    for label in ax.texts:
        extent, (left, right) = label.get_window_extent(renderer), spans[label.get_text()]
        assert left <= extent.x0 and extent.x1 <= right


def test_hundreds_of_vms_can_be_drawn():
    cluster = Cluster(tuple(VM(i, 8, 32, 10) for i in range(200)))
    schedule = run(Workflow(tuple(Task(i, 5.0, cpu=8) for i in range(300))), cluster)
    plots.plot_gantt(schedule).draw_without_rendering()
    assert len(plots.plot_usage(schedule).axes) == 3  # one row for all VMs together


def test_tasks_without_cores_or_length_do_no_harm():
    workflow = Workflow((Task("a", 0.0), Task("b", 5.0, cpu=0, dependencies=("a",))))
    schedule = run(workflow, two_vms())
    plots.plot_gantt(schedule).draw_without_rendering()
    drawn = [bar.task for v in range(2) for bar in plots.vm_bars(schedule, v)]
    assert drawn == [1]
    plots.plot_dag(workflow).draw_without_rendering()


def test_unknown_language_and_ending_are_refused(tmp_path):
    with pytest.raises(WorkflowError, match="lang must be one of en, zh, got 'fr'"):
        plots.plot_dag(diamond(), lang="fr")
    with pytest.raises(WorkflowError, match=r"saved as \.pdf, \.png or \.svg, got '\.jpg'"):
        plots.save_figure(plots.plot_dag(diamond()), tmp_path / "a.jpg")


def test_a_failed_save_leaves_nothing_behind(tmp_path):
    (tmp_path / "a.png").mkdir()
    with pytest.raises(WorkflowError, match="a.png: cannot be written"):
        plots.save_figure(plots.plot_dag(diamond()), tmp_path / "a.png")
    assert [p.name for p in tmp_path.iterdir()] == ["a.png"]


def test_a_notebook_shows_the_figure_as_png():
    assert plots.plot_dag(diamond())._repr_png_().startswith(b"\x89PNG")


AWKWARD = [r"$\frac$", "a $x$ b", "$", r"\$", "a_b^c", "<&>", "100 %", "任务"]


@pytest.mark.parametrize("kind", ["png", "pdf", "svg"])
@pytest.mark.parametrize("lang", ["en", "zh"])
def test_any_id_and_name_can_be_drawn(tmp_path, kind, lang):
    flow = Workflow(tuple(Task(i, 1) for i in AWKWARD), family=r"$\frac$", name=r"$\frac$")
    cluster = Cluster(tuple(VM(f"{i} ", 2, 1, 1) for i in AWKWARD))
    schedule = run(flow, cluster)
    real = {r"$\frac$": diamond()}
    for figure in (
        plots.plot_gantt(schedule, lang=lang),
        plots.plot_usage(schedule, lang=lang),
        plots.plot_dag(flow, lang=lang),
        plots.plot_dags([flow, flow], [r"$\frac$", "$"], columns=2, lang=lang),
        charts.plot_real(real, [diamond()], lang=lang),
        charts.plot_rules({r"$\frac$": {"heft": 1.0, "fcfs": 1.2}}, lang=lang),
    ):
        path = style.save_figure(figure, tmp_path / f"figure.{kind}")
        if kind == "svg":
            ElementTree.parse(path)


def test_an_id_is_written_as_it_stands():
    flow = Workflow((Task("$a$", 1), Task(r"\$", 1)))
    figure = plots.plot_dag(flow)
    figure.savefig(io.BytesIO())
    shown = [t for t in figure.findobj(mpl.text.Text) if t.get_text().split("\n")[0] in ("$a$", r"\$")]
    assert len(shown) == 2 and not any(t.get_parse_math() for t in shown)


# --- legends, axes and rows -----------------------------------------------------------------


def legend_words(figure) -> list[str]:
    return [words.get_text() for legend in figure.legends for words in legend.get_texts()]


def gantt_of(*names: str, lang: str = "en"):
    flows = [Workflow((Task("a", 1.0), Task("b", 2.0)), name=name) for name in names]
    return plots.plot_gantt(simulate(make("fcfs"), Workload.together(flows), two_vms(), noise=False), lang=lang)


def test_a_gantt_chart_names_workflows_where_their_names_differ():
    assert legend_words(gantt_of("genome", "montage")) == ["genome", "montage"]
    assert legend_words(gantt_of("genome", "genome")) == ["workflow 0", "workflow 1"]
    assert legend_words(gantt_of("genome", "")) == ["workflow 0", "workflow 1"]
    assert legend_words(gantt_of("w" * 50, "x" * 50)) == ["w" * 14 + "…" + "w" * 15, "x" * 14 + "…" + "x" * 15]


@pytest.mark.parametrize("letter", ["w", "任"])
def test_a_gantt_legend_of_long_names_stays_on_the_page(letter):
    figure = gantt_of(*(f"{letter * 24} {k}" for k in range(6)), lang="zh")
    (legend,) = figure.legends
    extent = legend.get_window_extent(FigureCanvasAgg(figure).get_renderer())
    assert extent.x0 >= 0 and extent.x1 <= figure.bbox.x1


def test_the_usage_legend_shows_the_colours_of_the_areas():
    figure = plots.plot_usage(run(diamond(), two_vms()))
    areas = {tuple(c.get_facecolor()[0]) for ax in figure.axes for c in ax.collections}
    patches = [p for p in figure.legends[0].findobj(mpl.patches.Rectangle) if p.get_width() < 100 and p.get_visible()]
    assert areas and areas <= {p.get_facecolor() for p in patches}


def test_every_axis_of_the_distributions_is_labelled():
    figure = plots.plot_distributions({"etl": [etl(30, seed=1)], "monte_carlo": [monte_carlo(20, seed=1)]})
    upper, lower = figure.axes[:2], figure.axes[2:]
    assert {ax.get_xlabel() for ax in upper} == {"mean duration of a task (s)"}
    assert {ax.get_xlabel() for ax in lower} == {"mean duration (s), log axis"}


def test_equal_rules_do_not_touch_and_every_marker_lies_nearest_to_its_own_row():
    rules = ["fcfs", "sjf", "tetris", "critical_path", "heft_patient", "peft", "heft"]
    figure = plots.plot_rules({name: dict.fromkeys(rules, 1.0) for name in "abc"})
    figure.draw_without_rendering()
    (ax,) = figure.axes
    points = [line for line in ax.lines if line.get_linestyle() == "None"]
    rows = [float(np.atleast_1d(line.get_ydata())[0]) for line in points]
    assert [round(row) for row in rows] == [row for row in range(3) for _ in rules]
    pixels = np.sort([ax.transData.transform((1.0, row))[1] for row in rows])
    assert np.diff(pixels).min() * 72 / figure.dpi >= points[0].get_markersize() * 0.95
    inside, across = (rows[1] - rows[0], rows[len(rules)] - rows[len(rules) - 1])
    assert across > 1.5 * inside
