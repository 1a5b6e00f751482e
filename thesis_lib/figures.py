"""Every figure of the thesis by name: `make_figures` computes and writes all of them.

Each figure becomes NAME.pdf and NAME.png (English), NAME.zh.pdf and NAME.zh.png
(Chinese) and NAME.csv (the data behind it); one that moves becomes NAME.gif and NAME.zh.gif.
All numbers are computed when it runs, from the shipped data, the shipped learning curves
and fixed seeds, and a second run writes the same bytes.
"""

from __future__ import annotations

import csv
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from io import StringIO
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from thesis_lib import dataset, learning_figures
from thesis_lib.cluster import Cluster
from thesis_lib.files import refuse_target, write_bytes
from thesis_lib.ranks import critical_path, lower_bound_s, on_critical_path
from thesis_lib.rewards import REWARDS, measures_of_schedule
from thesis_lib.schedule import Schedule
from thesis_lib.schedulers import make
from thesis_lib.simulator import simulate
from thesis_lib.workflow import RESOURCES, Workflow, WorkflowError
from thesis_lib.workload import Workload, poisson_stream

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from thesis_lib.plots import Film

HOME = Path(__file__).resolve().parents[1] / "figures"
LANGUAGES = ("en", "zh")
INDEX, INDEX_HEADING = "README.md", "# Figures\n\nWritten by `python -m thesis_lib figures`"

Rows = Iterable[Sequence[object]]
Draw = Callable[[str], "Figure | Film"]

FAMILIES = ("monte_carlo", "ml_pipeline", "etl")
DAG_EXAMPLE, GANTT_EXAMPLE = "epigenomics", "montage"
ONLINE_RULES = ("random", "fcfs", "sjf", "tetris", "critical_path", "heft_online", "heft_patient", "heft", "srw",
                "srw_patient")  # fmt: skip
REAL_RULES = ("fcfs", "sjf", "tetris", "critical_path", "heft_patient", "peft", "heft")
STREAM_DRAWS, STREAM_WORKFLOWS, STREAM_LOAD = 100, 20, 0.9
STREAM_FIRST_SEED = 5000
REFERENCE = "heft_online"
REWARD_RULES = ("random", "fcfs", "sjf", "heft_online", "srw", "srw_patient")
REWARD_BASE = "srw_patient"  # what the reward "potential" compares with
SHOWN_REWARDS = ("v1", "v2_as_printed", "v2", "v3_as_printed", "v3", "flow_time", "potential")


@dataclass(frozen=True)
class FigureSpec:
    """One figure: what it is called and says, where it is explained, and how it is made.

    caption_en, caption_zh: what a reader needs to understand it. notebook: the number of
    the notebook that explains it. columns: header of the data file. make: computes and
    returns (rows of the data file, function from language to Figure, or to Film if it moves).
    endings: of its picture files, what the index shows last.
    """

    name: str
    caption_en: str
    caption_zh: str
    notebook: str
    columns: tuple[str, ...]
    make: Callable[[], tuple[Rows, Draw]]
    endings: tuple[str, ...] = (".pdf", ".png")

    def caption(self, lang: str) -> str:
        """The caption in "en" or "zh"."""
        return self.caption_zh if lang == "zh" else self.caption_en


# --- workflows ------------------------------------------------------------------------------

SHAPE_COLUMNS = ("kind", "workflow", "tasks", "depth", "width", "work_s", "critical_path_s", "parallelism")
TASK_COLUMNS = ("workflow", "task", "layer", "duration_mean_s", "critical", "parents")


def _task_rows(workflows: Iterable[Workflow]) -> Rows:
    for w in workflows:
        path = set(critical_path(w)[1])
        for task, layer in zip(w.tasks, w.levels.tolist()):
            parents = " ".join(map(str, task.dependencies))
            yield w.name, task.id, layer, task.duration_mean_s, int(task.id in path), parents


def _dag_families() -> tuple[Rows, Draw]:
    from thesis_lib.plots import plot_families

    shown = [dataset.load_one(family, 1) for family in FAMILIES]
    return _task_rows(shown), lambda lang: plot_families(shown, lang=lang)


def _dag_topologies() -> tuple[Rows, Draw]:
    from thesis_lib.plots import plot_topologies

    shown = {
        (shape["alpha"], shape["beta"]): dataset.load_one(f"n50-{name}", 0) for name, shape in dataset.SHAPES.items()
    }
    return _task_rows(shown.values()), lambda lang: plot_topologies(shown, lang=lang)


def _dag_real() -> tuple[Rows, Draw]:
    from thesis_lib.plots import plot_dag

    workflow = dataset.load_real(DAG_EXAMPLE)
    return _task_rows([workflow]), lambda lang: plot_dag(workflow, lang=lang)


def _duration_distributions() -> tuple[Rows, Draw]:
    from thesis_lib.plots import plot_distributions

    drawn = {family: dataset.load(family) for family in FAMILIES}
    rows = ((family, seconds) for family, ws in drawn.items() for w in ws for seconds in w.mean_s.tolist())
    return rows, lambda lang: plot_distributions(drawn, lang=lang)


def _real_vs_synthetic() -> tuple[Rows, Draw]:
    from thesis_lib.plots import plot_real, shape_of

    real = {name: dataset.load_real(name) for name in dataset.REAL}
    synthetic = dataset.load("mix-test")
    named = [("real", name, w) for name, w in real.items()] + [(w.family, w.name, w) for w in synthetic]
    rows = [(kind, name, *shape_of(w).values()) for kind, name, w in named]
    return rows, lambda lang: plot_real(real, synthetic, lang=lang)


# --- schedules ------------------------------------------------------------------------------

SCHEDULE_COLUMNS = ("schedule", "task", "vm", "cpu", "ready_s", "start_s", "finish_s", "critical")


def _schedule_rows(name: str, schedule: Schedule) -> Rows:
    critical = np.concatenate([on_critical_path(w) for w in schedule.workload.workflows]).tolist()
    for i, r in enumerate(schedule.records()):
        cpu = schedule.workload.task(i).cpu
        yield name, r["id"], r["vm"], cpu, r["ready_s"], r["start_s"], r["finish_s"], int(critical[i])


def _run(rule: str, workflow: Workflow, cluster: Cluster) -> Schedule:
    """The rule on one workflow, every task running for its mean duration; checked before it is shown."""
    schedule = simulate(make(rule), Workload.single(workflow), cluster, noise=False)
    schedule.validate()
    return schedule


def _two_clocks() -> tuple[Rows, Draw]:
    from thesis_lib.plots import plot_clocks, serial_clock

    workflow, cluster = min(dataset.load("monte_carlo"), key=len), Cluster.default()
    rows = [
        *_schedule_rows("serial", serial_clock(workflow, cluster)),
        *_schedule_rows("event", _run("fcfs", workflow, cluster)),
    ]
    return rows, lambda lang: plot_clocks(workflow, cluster, lang=lang)


def _gantt_heft() -> tuple[Rows, Draw]:
    from thesis_lib.plots import plot_gantt

    schedule = _run("heft", dataset.load_real(GANTT_EXAMPLE), Cluster.stream())
    return _schedule_rows("heft", schedule), lambda lang: plot_gantt(schedule, height_in=3.6, lang=lang)


def _usage_heft() -> tuple[Rows, Draw]:
    from thesis_lib.plots import plot_usage, usage_steps

    schedule = _run("heft", dataset.load_one("etl", 0), Cluster.default())
    rows = []
    for v, vm in enumerate(schedule.cluster.vms):
        times, used = usage_steps(schedule, [v])
        rows += [(vm.id, seconds, *held) for seconds, held in zip(times.tolist(), used.tolist())]
    return rows, lambda lang: plot_usage(schedule, lang=lang)


# --- comparisons ----------------------------------------------------------------------------


def _rules_on_real() -> tuple[Rows, Draw]:
    from thesis_lib.plots import plot_rules

    cluster, ratios, rows = Cluster.stream(), {}, []
    for name in dataset.REAL:
        workflow = dataset.load_real(name)
        bound = lower_bound_s(workflow, cluster)
        makespans = {rule: _run(rule, workflow, cluster).makespan_s for rule in REAL_RULES}
        ratios[name] = {rule: seconds / bound for rule, seconds in makespans.items()}
        rows += [(name, rule, seconds, bound, seconds / bound) for rule, seconds in makespans.items()]
    return rows, lambda lang: plot_rules(ratios, lang=lang)


def _stream_completion() -> tuple[Rows, Draw]:
    from thesis_lib.plots import plot_completion

    cluster, rows = Cluster.stream(), []
    completion: dict[str, list[float]] = {rule: [] for rule in ONLINE_RULES}
    for seed in range(STREAM_FIRST_SEED, STREAM_FIRST_SEED + STREAM_DRAWS):
        workload = poisson_stream(workflows=STREAM_WORKFLOWS, load=STREAM_LOAD, cluster=cluster, seed=seed)
        for rule in ONLINE_RULES:
            seconds = simulate(make(rule), workload, cluster, seed=seed).mean_completion_s
            completion[rule].append(seconds)
            rows.append((seed, rule, seconds))
    return rows, lambda lang: plot_completion(completion, REFERENCE, lang=lang)


def _reward_iterations() -> tuple[Rows, Draw]:
    from thesis_lib.plots import plot_rewards

    cluster, rows = Cluster.stream(), []
    completion: dict[str, list[float]] = {rule: [] for rule in REWARD_RULES}
    returns = {name: {rule: [] for rule in REWARD_RULES} for name in SHOWN_REWARDS}
    for seed in range(STREAM_FIRST_SEED, STREAM_FIRST_SEED + STREAM_DRAWS):
        workload = poisson_stream(workflows=STREAM_WORKFLOWS, load=STREAM_LOAD, cluster=cluster, seed=seed)
        runs = {rule: simulate(make(rule), workload, cluster, seed=seed) for rule in REWARD_RULES}
        base_s = float(runs[REWARD_BASE].completion_s.sum())
        for rule, run in runs.items():
            measures = measures_of_schedule(run, base_s)
            gained = [REWARDS[name].value(measures) for name in SHOWN_REWARDS]
            for name, value in zip(SHOWN_REWARDS, gained):
                returns[name][rule].append(value)
            completion[rule].append(run.mean_completion_s)
            rows.append((seed, rule, run.mean_completion_s, *gained))
    return rows, lambda lang: plot_rewards(returns, completion, lang=lang)


# --- registry -------------------------------------------------------------------------------

_SPECS = (
    FigureSpec(
        "dag_families",
        "One workflow of each family of the article: Monte Carlo (parallel layers, aggregated at the end), ML pipeline "
        "(a chain with checkpoints) and ETL batch (many sources, one centre). Layers run to the right.",
        "文章中三类工作流各一例：蒙特卡洛（并行分层，末端汇聚）、机器学习流水线（带检查点的链）、"
        "ETL 批处理（多个数据源汇入一个中心）。各层自左向右排列。",
        "01", TASK_COLUMNS, _dag_families,
    ),
    FigureSpec(
        "dag_topologies",
        "Layered random DAGs of 50 tasks for the four topology settings of the data sets: alpha sets the number of "
        "layers, beta the spread of their widths.",
        "数据集四种拓扑参数下的 50 任务分层随机图：alpha 决定层数，beta 决定各层宽度的离散程度。",
        "01", TASK_COLUMNS, _dag_topologies,
    ),
    FigureSpec(
        "dag_real",
        f"The workflow {DAG_EXAMPLE}, derived from real traces. Square boxes and thick arrows: the critical path by "
        "mean duration.",
        f"由真实轨迹导出的工作流 {DAG_EXAMPLE}。方框与粗箭头表示按平均时长计算的关键路径。",
        "01", TASK_COLUMNS, _dag_real,
    ),
    FigureSpec(
        "duration_distributions",
        f"Mean durations of all tasks in {dataset.WORKFLOWS_PER_SET} workflows of each family beside the distribution "
        "they are drawn from. Above: histogram up to the 99.5 % quantile and density; below: cumulative share, with "
        "the largest gap between the two.",
        f"每类 {dataset.WORKFLOWS_PER_SET} 个工作流中全部任务的平均时长与其理论分布。"
        "上：直方图（截至 99.5% 分位数）与密度；"
        "下：累计占比，并标出二者的最大偏差。",
        "01", ("family", "duration_mean_s"), _duration_distributions,
    ),
    FigureSpec(
        "real_vs_synthetic",
        f"Shape of the {len(dataset.REAL)} workflows derived from real traces and of {dataset.WORKFLOWS_PER_SET} "
        "synthetic ones (set mix-test). Left: depth and width; right: size and work / critical path, the speedup that "
        "unlimited VMs would allow.",
        f"{len(dataset.REAL)} 个源自真实轨迹的工作流与 {dataset.WORKFLOWS_PER_SET} 个合成工作流（mix-test 集）的形状。"
        "左：深度与宽度；"
        "右：规模与“总工作量 / 关键路径”，即虚拟机不受限时的加速比。",
        "01", SHAPE_COLUMNS, _real_vs_synthetic,
    ),
    FigureSpec(
        "two_clocks",
        "First come, first served on the article's three VMs, mean durations. Above: the article's clock, which adds a "
        "task's duration at every placement, so nothing runs in parallel. Below: the event-driven clock. A bar is as "
        "high as the cores that the task holds.",
        "文章的三台虚拟机上的先来先服务，按平均时长执行。上：文章的时钟，每放置一个任务就加上其时长，因此没有任何并行；"
        "下：事件驱动时钟。条的高度为任务占用的核数。",
        "02", SCHEDULE_COLUMNS, _two_clocks,
    ),
    FigureSpec(
        "gantt_heft",
        f"HEFT on the workflow {GANTT_EXAMPLE}, VMs of speed 1.5, 1.2 and 1.0, mean durations. A bar is as high as the "
        "cores that the task holds.",
        f"HEFT 在工作流 {GANTT_EXAMPLE} 上的调度，虚拟机速度为 1.5、1.2 和 1.0，按平均时长执行。"
        "条的高度为任务占用的核数。",
        "03", SCHEDULE_COLUMNS, _gantt_heft,
    ),
    FigureSpec(
        "usage_heft",
        "Cores, memory and bandwidth held over time under HEFT: an ETL workflow on the article's three VMs, mean "
        "durations.",
        "HEFT 调度下各资源随时间的占用：ETL 工作流运行在文章的三台虚拟机上，按平均时长执行。",
        "03", ("vm", "from_s", *RESOURCES), _usage_heft,
    ),
    FigureSpec(
        "rules_on_real",
        f"Makespan of {len(REAL_RULES)} rules on the {len(dataset.REAL)} workflows derived from real traces, divided "
        "by a lower bound that no schedule can beat; VMs of speed 1.5, 1.2 and 1.0, mean durations.",
        f"{len(REAL_RULES)} 种规则在 {len(dataset.REAL)} 个源自真实轨迹的工作流上的完工时间与下界之比"
        "（任何调度都不可能低于下界）；虚拟机速度为 1.5、1.2 和 1.0，按平均时长执行。",
        "03", ("workflow", "rule", "makespan_s", "lower_bound_s", "ratio"), _rules_on_real,
    ),
    FigureSpec(
        "stream_completion",
        f"Mean completion time of a workflow under rules that know only what has arrived: {STREAM_DRAWS} draws of "
        f"{STREAM_WORKFLOWS} workflows arriving as a Poisson process at load {STREAM_LOAD:g}, the same draws and "
        "durations for every rule; heft plans each workflow when it arrives. "
        f"Right: ratio to {REFERENCE} draw by draw. Intervals: 95 % bootstrap over draws.",
        f"在只知道已到达工作流的各规则下，工作流的平均完成时间：{STREAM_DRAWS} 次抽样，每次 {STREAM_WORKFLOWS} 个工作流"
        f"按泊松过程到达，负载 {STREAM_LOAD:g}，各规则使用相同的抽样与时长；heft 在每个工作流到达时为其制定计划。"
        f"右：逐次抽样与 {REFERENCE} 之比。区间为对抽样的 95% 自助法区间。",
        "03", ("seed", "rule", "mean_completion_s"), _stream_completion,
    ),
    FigureSpec(
        "reward_iterations",
        f"Return (sum of rewards) of {len(REWARD_RULES)} rules under each reward against their mean completion time; "
        f"means over the {STREAM_DRAWS} draws of stream_completion. A reward for completion time lets the points fall "
        "from left to right. Rank correlation: Spearman's, of return and minus completion time over the rules, mean "
        f"over draws. The article's v1 to v3 as printed and with corrected signs; potential compares with "
        f"{REWARD_BASE}.",
        f"{len(REWARD_RULES)} 种规则在各奖励下的回报（奖励之和）与平均完成时间；"
        f"取 stream_completion 的 {STREAM_DRAWS} 次抽样的均值。"
        "若奖励以完成时间为目标，各点应自左向右下降。秩相关为各规则的回报与负完成时间的斯皮尔曼系数，对抽样取均值。"
        f"v1 至 v3 为文章的奖励（原样与修正符号）；potential 以 {REWARD_BASE} 为基准。",
        "04", ("seed", "rule", "mean_completion_s", *SHOWN_REWARDS), _reward_iterations,
    ),
    FigureSpec(
        "learned_rewards",
        f"What agents learn from each reward: completion time divided by that of {REWARD_BASE} on the same draws (1: "
        "dotted), log axes. Left: the last 64 training episodes, in which actions are sampled. Right: validation "
        "streams, on which the likeliest action is taken, few along the way and more for the last point. Short runs "
        "from scratch, one training seed each, equal but for the reward. Dashed: the article's signs as printed.",
        f"智能体从各奖励中学到什么：完成时间与 {REWARD_BASE} 在相同抽样上之比（虚点线为 1），对数轴。"
        "左：最近 64 个训练回合，动作按概率采样；"
        "右：验证流，取概率最大的动作，途中各点只取少量验证流，最后一点取更多。"
        "均为从零开始的短训练，每种奖励一个种子，除奖励外设置相同。虚线为文章印出的符号。",
        "04", learning_figures.CURVE_COLUMNS, learning_figures.learned_rewards,
    ),
    FigureSpec(
        "learning_curves",
        f"Learning curves on streams, completion time divided by that of {REWARD_BASE} on the same draws. Left: mean "
        "of the last 64 training episodes during PPO, line and band: mean and range of the training seeds. Right: "
        "held-out validation streams after imitation, after PPO and after each round of distillation, a line for each "
        "seed. The MLP is the same network without graph convolutions.",
        f"流问题上的学习曲线：完成时间与 {REWARD_BASE} 在相同抽样上之比。"
        "左：PPO 期间最近 64 个训练回合的均值，线与带为各种子的均值与范围；"
        "右：模仿之后、PPO 之后与每轮蒸馏之后在验证流上的比值，每个种子一条线。MLP 为去掉图卷积的同一网络。",
        "05", learning_figures.CURVE_COLUMNS, learning_figures.learning_curves,
    ),
    FigureSpec(
        "training_curve",
        "The PPO stage of learning_curves as a film: the training ratio while decisions are collected.",
        "learning_curves 中 PPO 阶段的动画：训练比值随决策数的变化。",
        "05", learning_figures.CURVE_COLUMNS, learning_figures.training_curve, (".gif",),
    ),
    FigureSpec(
        "feature_ablation",
        "Does the article's fifth feature, on the critical path or not, speed up learning? Left: training ratio of "
        "short runs (pair_gcn, reward potential, on streams) with four and with five features, mean and range "
        "of three seeds each. Middle: decisions until a "
        "seed first reaches the lowest ratio that all of them reach (dashed). Right: decisions that the feature saves, "
        "with Student's 95 % interval over the seeds, beside the 32 % that the article claims.",
        "文章的第五个特征（是否在关键路径上）能否加快学习？左：使用四个与五个特征的短训练的训练比值，"
        "各三个种子的均值与范围；"
        "中：各种子首次达到全部种子都能达到的最低比值（虚线）所需的决策数；"
        "右：该特征节省的决策数及对种子的学生氏 95% 区间，旁为文章声称的 32%。",
        "05", learning_figures.SEED_COLUMNS, learning_figures.feature_ablation,
    ),
    FigureSpec(
        "ppo_sensitivity",
        f"Short runs that change one setting of PPO: completion time divided by that of {REWARD_BASE}, mean of the "
        "last 64 training episodes, in which actions are sampled; in brackets the ratio on validation streams at the "
        "end, for which the likeliest action is taken. Black: the run that the others change (from scratch, "
        "gamma 0.99, "
        "lambda 0.95). article: its seven settings of PPO, with a learning rate of 3e-4, which it does not state; "
        "fixed_head: its network. One training seed each, so that only differences larger than the band of "
        "feature_ablation say anything.",
        f"只改变 PPO 一项设置的短训练：完成时间与 {REWARD_BASE} 之比，取最近 64 个训练回合（动作按概率采样）的均值；"
        "括号内为训练结束时取概率最大动作的验证比值。黑线为其余各项所改变的基准短训练（从零开始，"
        "gamma 0.99，lambda 0.95）。article 为文章的七项 PPO 设置（学习率 3e-4 文中未给出），fixed_head 为其网络。"
        "每种设置只有一个种子，因此只有大于 feature_ablation 中带宽的差异才有意义。",
        "05", learning_figures.CURVE_COLUMNS, learning_figures.ppo_sensitivity,
    ),
    FigureSpec(
        "agents_on_streams",
        "Mean completion time of a workflow on 200 test streams that neither training nor validation met (20 "
        "workflows, load 0.9): the agents (drl; behind @ other training seeds, the MLP twin, PPO without "
        "distillation) beside "
        f"rules. Right: ratio to {REWARD_BASE} draw by draw. Intervals: 95 % bootstrap over draws.",
        "在训练与验证均未见过的 200 条测试流（20 个工作流，负载 0.9）上，工作流的平均完成时间："
        "各智能体（drl；@ 之后为其他训练种子、MLP 孪生与未蒸馏的 PPO）与规则。"
        f"右：逐次抽样与 {REWARD_BASE} 之比。区间为对抽样的 95% 自助法区间。",
        "05", learning_figures.RESULT_COLUMNS, learning_figures.agents_on_streams,
    ),
    FigureSpec(
        "search_on_streams",
        "The first 100 of the same streams with search at run time: the same rollouts on top of a rule (srw_search) "
        "and of the agent (drl_search), and randomised lists. Right: ratio to srw_search draw by draw.",
        "同样的测试流的前 100 条，运行时加入搜索：同样的推演分别以规则（srw_search）与智能体（drl_search）为基础，"
        "另有随机化列表。右：逐次抽样与 srw_search 之比。",
        "05", learning_figures.RESULT_COLUMNS, learning_figures.search_on_streams,
    ),
    FigureSpec(
        "agents_transfer",
        f"The agent on other streams and clusters: mean ratio to {REWARD_BASE}. It was trained on 8 to 20 workflows at "
        "loads 0.8 to 0.98 on three VMs, so 30 workflows and other numbers of VMs are new to it. More VMs "
        "repeat the three of the training cluster; the data holds the intervals.",
        f"智能体在其他流与集群上的表现：与 {REWARD_BASE} 的平均比值。"
        f"训练只用 8 至 20 个工作流、负载 0.8 至 0.98、三台虚拟机，"
        f"因此 30 个工作流与其他虚拟机数均为新情形。更多的虚拟机为训练集群三台虚拟机的重复；"
        "区间见数据文件。",
        "05", ("trial", "scheduler", "ratio", "low", "high"), learning_figures.agents_transfer,
    ),
    FigureSpec(
        "agents_on_thesis",
        "The original thesis's problem, one DAG of 30 tasks on one machine, 100 test DAGs: makespan of the agent "
        "(drl), of the agent with search, of randomised lists with 64, 320 and 1024 samples, and of rules. "
        "Right: ratio to "
        "critical_path DAG by DAG.",
        "原论文的问题：一台机器上含 30 个任务的单个 DAG，共 100 个测试 DAG：智能体（drl）、加搜索的智能体、"
        "64、320 与 1024 个样本的随机化列表以及各规则的完工时间。右：逐个 DAG 与 critical_path 之比。",
        "05", learning_figures.RESULT_COLUMNS, learning_figures.agents_on_thesis,
    ),
)  # fmt: skip
FIGURES: dict[str, FigureSpec] = {spec.name: spec for spec in _SPECS}


def list_figures(only: str | Sequence[str] | None = None) -> list[str]:
    """Names of all figures in the order of the index, or of those in `only`.

    Raises WorkflowError for an unknown name.
    """
    return [spec.name for spec in _chosen(only)]


def make_figures(
    out_dir: str | Path | None = None,
    only: str | Sequence[str] | None = None,
    lang: str | Sequence[str] = LANGUAGES,
) -> list[Path]:
    """Compute and write figures and their data, then the index README.md; returns the files written.

    out_dir: folder, made if need be; None is the project's `figures`. only: one name or
    several, all when None. lang: "en", "zh" or both. Progress goes to stderr. Raises
    WorkflowError for an unknown name or language, for a folder that cannot be written and
    for one whose README.md is not such an index; all before anything is computed.
    """
    from tqdm.auto import tqdm

    from thesis_lib.plots.style import check_language

    folder = HOME if out_dir is None else Path(out_dir)
    specs = _chosen(only)
    languages = [check_language(code) for code in ([lang] if isinstance(lang, str) else lang)]
    index = folder / INDEX
    refuse_target(index, make_folder=True)
    _refuse_foreign_index(index)
    written = []
    with tqdm(specs, desc="figures", unit="figure") as bar:
        for spec in bar:
            bar.set_postfix_str(spec.name)
            written += _write_figure(spec, folder, languages)
    write_bytes(index, _index(folder).encode(), make_folder=True)
    return [*written, index]


def _refuse_foreign_index(index: Path) -> None:
    """Raise WorkflowError for a README.md that an earlier run did not write: a project's own, for example."""
    if not index.is_file():
        return
    try:
        head = index.read_bytes().replace(b"\r\n", b"\n")
    except OSError as error:
        raise WorkflowError(f"{index}: cannot be read: {error.strerror}") from error
    if not head.startswith(INDEX_HEADING.encode()):
        raise WorkflowError(f"{index}: is no index of figures and would be overwritten; choose another folder")


def _chosen(only: str | Sequence[str] | None) -> list[FigureSpec]:
    wanted = list(FIGURES) if only is None else [only] if isinstance(only, str) else list(only)
    if unknown := [name for name in wanted if name not in FIGURES]:
        raise WorkflowError(f"unknown figure {', '.join(map(repr, unknown))}; choose from {', '.join(FIGURES)}")
    return [FIGURES[name] for name in wanted]


def _write_figure(spec: FigureSpec, folder: Path, languages: Sequence[str]) -> list[Path]:
    from thesis_lib.plots import Film, save_figure, save_film

    rows, draw = spec.make()
    data = folder / f"{spec.name}.csv"
    write_bytes(data, _csv(spec.columns, rows).encode(), make_folder=True)
    written = [data]
    for lang in languages:
        picture = draw(lang)
        save = save_film if isinstance(picture, Film) else save_figure
        stem = spec.name if lang == "en" else f"{spec.name}.{lang}"
        written += [save(picture, folder / f"{stem}{ending}") for ending in spec.endings]
    return written


def _csv(columns: Sequence[str], rows: Rows) -> str:
    """The table as text; floats with nine digits, so that rounding in the last place cannot show."""
    out = StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(columns)
    for row in rows:
        writer.writerow([f"{float(x):.9g}" if isinstance(x, (float, np.floating)) else x for x in row])
    return out.getvalue()


def _index(folder: Path) -> str:
    """The index in Markdown: every figure of which the folder holds a picture."""
    lines = [
        INDEX_HEADING + ": a vector PDF, a PNG of 300 dpi and the data (CSV) of each figure, "
        "in English (`NAME.pdf`) and Chinese (`NAME.zh.pdf`); a GIF of those that move. Every number is computed when "
        "the command runs; learning curves are those of the shipped agents.",
        "",
    ]
    for spec in FIGURES.values():
        stems = {"en": spec.name, "zh": f"{spec.name}.zh"}
        present = {lang: stem for lang, stem in stems.items() if (folder / f"{stem}{spec.endings[-1]}").is_file()}
        if not present:
            continue
        links = [f"[{stem}{end}]({stem}{end})" for stem in present.values() for end in spec.endings]
        shown = next(iter(present.values())) + spec.endings[-1]
        lines += [
            f"## {spec.name}", "", f"![{spec.name}]({shown})", "", spec.caption_en, "", spec.caption_zh, "",
            f"Notebook {spec.notebook}. Files: {', '.join(links)}, [{spec.name}.csv]({spec.name}.csv)", "",
        ]  # fmt: skip
    return "\n".join(lines[:-1]) + "\n"
