"""Figures of workflows, schedules and results, for notebooks, slides and print.

Every `plot_...` returns a matplotlib Figure; `save_figure` writes it as PDF, PNG or
SVG with the same bytes each time. `lang="zh"` gives Chinese labels.
"""

from thesis_lib.plots.animation import Film, save_film
from thesis_lib.plots.charts import (
    mean_interval,
    plot_completion,
    plot_distributions,
    plot_real,
    plot_rewards,
    plot_rules,
    rank_agreement,
    shape_of,
)
from thesis_lib.plots.dag import draw_dag, plot_dag, plot_dags, plot_families, plot_topologies
from thesis_lib.plots.gantt import draw_gantt, plot_clocks, plot_gantt, plot_usage, serial_clock, usage_steps, vm_bars
from thesis_lib.plots.layout import Bar, DagLayout, dag_layout, pack_bars
from thesis_lib.plots.learning import (
    film_curve,
    plot_ablation,
    plot_learning_curves,
    plot_reward_curves,
    plot_sensitivity,
    stage_name,
)
from thesis_lib.plots.style import DOUBLE_IN, PALETTE, SINGLE_IN, figure_style, new_figure, save_figure

__all__ = [
    "DOUBLE_IN", "PALETTE", "SINGLE_IN", "Bar", "DagLayout", "Film", "dag_layout", "draw_dag", "draw_gantt",
    "figure_style", "film_curve", "mean_interval", "new_figure", "pack_bars", "plot_ablation", "plot_clocks",
    "plot_completion", "plot_dag", "plot_dags", "plot_distributions", "plot_families", "plot_gantt",
    "plot_learning_curves", "plot_real", "plot_reward_curves", "plot_rewards", "plot_rules", "plot_sensitivity",
    "plot_topologies", "plot_usage", "rank_agreement", "save_figure", "save_film", "serial_clock", "shape_of",
    "stage_name", "usage_steps", "vm_bars",
]  # fmt: skip
