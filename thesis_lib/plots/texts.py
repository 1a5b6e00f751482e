"""Every word that a figure shows, in English and in Chinese."""

from __future__ import annotations

TEXTS: dict[str, tuple[str, str]] = {
    # axes
    "time_s": ("time (s)", "时间（秒）"),
    "duration_s": ("mean duration of a task (s)", "任务平均时长（秒）"),
    "duration_log_s": ("mean duration (s), log axis", "平均时长（秒，对数轴）"),
    "density": ("density (1/s)", "概率密度（1/秒）"),
    "share_of_tasks": ("share of tasks", "任务累计占比"),
    "tasks": ("tasks of a workflow", "工作流的任务数"),
    "depth": ("depth (layers)", "深度（层数）"),
    "width": ("width (tasks in the largest layer)", "宽度（最大层任务数）"),
    "parallelism": ("work / critical path", "总工作量 / 关键路径"),
    "vm_axis": ("VM: cores used at most / cores", "虚拟机：最多占用核数 / 总核数"),
    "vm_row": ("VM {id}\n{peak} / {all}", "虚拟机 {id}\n{peak} / {all}"),
    "vms": ("VM", "虚拟机"),
    "vm": ("VM {id}", "虚拟机 {id}"),
    "all_vms": ("all {n} VMs", "全部 {n} 台虚拟机"),
    "cpu": ("CPU (cores)", "CPU（核）"),
    "memory": ("memory (GB)", "内存（GB）"),
    "bandwidth": ("bandwidth (Gbit/s)", "带宽（Gbit/s）"),
    "ratio_to_bound": ("makespan / lower bound", "完工时间 / 下界"),
    "completion_s": ("mean completion time of a workflow (s)", "工作流平均完成时间（秒）"),
    "return": ("return (sum of rewards)", "回报（奖励之和）"),
    # learning
    "steps_thousand": ("decisions in training (thousands)", "训练中的决策数（千）"),
    "training_ratio": ("training: time / that of {reference}", "训练：时间 / {reference} 的时间"),
    "validation_ratio": ("validation: time / that of {reference}", "验证：时间 / {reference} 的时间"),
    "during_ppo": ("during PPO, training episodes", "PPO 期间的训练回合"),
    "after_stages": ("after each stage, validation", "各阶段之后的验证"),
    "after_steps": ("after {steps} thousand decisions", "{steps} 千次决策之后"),
    "stage_clone": ("imitation", "模仿"),
    "stage_ppo": ("PPO", "PPO"),
    "stage_distill": ("round {number}", "第 {number} 轮"),
    "seeds": ("{label}, {n} seeds", "{label}，{n} 个种子"),
    "one_seed": ("{label}, one seed", "{label}，1 个种子"),
    "gcn": ("GCN", "GCN"),
    "mlp": ("MLP", "MLP"),
    "last_ratio": ("reward, last validation", "奖励与最终验证比值"),
    "sampled": ("training, sampled actions", "训练：按概率采样"),
    "likeliest": ("validation, likeliest action", "验证：取概率最大的动作"),
    "with_last": ("{label} (validation {ratio})", "{label}（验证 {ratio}）"),
    "features_5": ("5 features", "5 个特征"),
    "features_4": ("4 features", "4 个特征"),
    "steps_to_target": ("decisions until {target} (thousands)", "达到 {target} 的决策数（千）"),
    "fewer_steps": ("decisions saved by the 5th feature (%)", "第 5 个特征节省的决策数（%）"),
    "end_by_start": ("ratio at the end / at the start", "结束时比值 / 开始时比值"),
    "not_learned": ("not every run learns (dashed: 5 % gain)\nno speed-up can be measured",
                    "并非每次训练都学会（虚线：改善 5%）\n无法衡量加速"),
    "measured": ("measured", "实测"),
    "claimed": ("claimed", "文章声称"),
    "default_settings": ("base run", "基准短训练"),
    "entropy": ("entropy weight", "熵系数"),
    "rollout": ("rollout length", "采样步数"),
    "value_clip": ("value clip", "价值裁剪"),
    "article_settings": ("the article's settings and network", "文章的设置与网络"),
    "article": ("its seven PPO settings", "七项 PPO 设置"),
    "fixed_head": ("its fixed-head network", "固定输出层网络"),
    # legends and notes
    "critical_path": ("critical path, {seconds} s", "关键路径，{seconds} 秒"),
    "critical_path_only": ("critical path", "关键路径"),
    "critical_task": ("task on the critical path", "关键路径上的任务"),
    "other_task": ("other task", "其他任务"),
    "dag_key": ("in a box: id, mean duration", "框内：编号、平均时长"),
    "seconds": ("{value} s", "{value} 秒"),
    "workflow": ("workflow {number}", "工作流 {number}"),
    "used": ("used", "已用"),
    "capacity": ("capacity", "容量"),
    "drawn": ("{n} tasks drawn", "抽取的 {n} 个任务"),
    "largest_gap": ("largest gap: {value}", "最大偏差：{value}"),
    "makespan": ("makespan {seconds} s", "完工时间 {seconds} 秒"),
    "one_draw": ("one draw", "单次抽样"),
    "mean_interval": ("mean, 95 % bootstrap interval", "均值与 95% 自助法区间"),
    "ratio_to_reference": ("completion time / that of {reference}", "完成时间 / {reference} 的完成时间"),
    # titles
    "with_note": ("{title} ({note})", "{title}（{note}）"),
    "serial_clock": ("The article's clock: each placement adds the task's duration",
                     "文章的时钟：每放置一个任务，时间就加上它的时长"),
    "event_clock": ("Event-driven clock: placing takes no time, tasks overlap",
                    "事件驱动时钟：放置不耗时，任务并行执行"),
    "wide": ("wide", "宽"),
    "deep": ("deep", "深"),
    "regular": ("regular", "均匀"),
    "irregular": ("irregular", "不均匀"),
    "topology": ("{shape}, {evenness}\nalpha {alpha}, beta {beta}, {layers} layers",
                 "{shape}，{evenness}\nalpha {alpha}，beta {beta}，{layers} 层"),
    "family_title": ("{family}\n{tasks} tasks, {depth} layers", "{family}\n{tasks} 个任务，{depth} 层"),
    "reward_title": ("{reward}\nrank correlation {value}", "{reward}\n秩相关 {value}"),
    # families
    "monte_carlo": ("Monte Carlo", "蒙特卡洛"),
    "ml_pipeline": ("ML pipeline", "机器学习流水线"),
    "etl": ("ETL batch", "ETL 批处理"),
    "layered": ("layered", "分层随机图"),
    "real": ("trace-derived", "源自真实轨迹"),
    "law_monte_carlo": ("LogNormal(4.5, 0.8)", "对数正态(4.5, 0.8)"),
    "law_ml_pipeline": ("Gamma(3, 40)", "伽马(3, 40)"),
    "law_etl": ("Weibull(100, 1.2)", "韦布尔(100, 1.2)"),
}  # fmt: skip


def text(key: str, lang: str, **values: object) -> str:
    """The words for `key` in "en" or "zh", with {places} filled in; a key without entry stands for itself."""
    pair = TEXTS.get(key)
    words = key if pair is None else pair[lang == "zh"]
    return words.format(**values) if values else words


def number(value: float) -> str:
    """A number for people: about three digits, no exponent, U+2212 for minus."""
    size = abs(value)
    digits = 0 if size >= 100 or value == int(value) else 1 if size >= 10 else 2
    return f"{value:.{digits}f}".replace("-", "\N{MINUS SIGN}")
