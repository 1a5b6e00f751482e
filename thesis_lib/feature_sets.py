"""Named choices of observation columns: everything, or a selection after the article's.

The article gives a task four features, and a fifth, whether it lies on the critical path, to
which it credits 32 % faster convergence. `article_5` and `article_4` differ in that one alone,
so that an ablation measures it and nothing else.

They are close to the article's features, not the same: the share of a task's parents that are
unfinished instead of their number; the logarithm of the duration relative to the mean task of
the workflows that have arrived instead of duration / 600 s; a VM's free ratios as they would be
after the placement, and their means over all VMs; no clock.
"""

from __future__ import annotations

from dataclasses import dataclass

from thesis_lib.observation import PAIR_FEATURES, TASK_FEATURES, TOTAL_FEATURES
from thesis_lib.workflow import WorkflowError


@dataclass(frozen=True)
class FeatureSet:
    """Names of the columns of task_x, pair_x and total_x that a network reads."""

    task: tuple[str, ...]
    pair: tuple[str, ...]
    total: tuple[str, ...]

    @property
    def columns(self) -> tuple[list[int], list[int], list[int]]:
        """Positions of the columns in task_x, pair_x and total_x."""
        return (
            [TASK_FEATURES.index(name) for name in self.task],
            [PAIR_FEATURES.index(name) for name in self.pair],
            [TOTAL_FEATURES.index(name) for name in self.total],
        )


_ARTICLE_TASK = ("ready", "missing_parents", "log_duration", "priority")
_ARTICLE_VM = ("cpu_left", "memory_left", "bandwidth_left")
_ARTICLE_TOTAL = ("mean_free_cpu", "mean_free_memory", "mean_free_bandwidth")

FEATURE_SETS: dict[str, FeatureSet] = {
    "full": FeatureSet(TASK_FEATURES, PAIR_FEATURES, TOTAL_FEATURES),
    "article_5": FeatureSet((*_ARTICLE_TASK, "on_critical_path"), _ARTICLE_VM, _ARTICLE_TOTAL),
    "article_4": FeatureSet(_ARTICLE_TASK, _ARTICLE_VM, _ARTICLE_TOTAL),
}


def feature_set(name: str) -> FeatureSet:
    """The feature set of that name; WorkflowError listing the names for another one."""
    if name not in FEATURE_SETS:
        raise WorkflowError(f"unknown feature set {name!r}; choose one of {', '.join(FEATURE_SETS)}")
    return FEATURE_SETS[name]
