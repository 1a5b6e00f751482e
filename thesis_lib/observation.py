"""What a learned scheduler sees, as fixed-size arrays with named columns.

An observation looks at the *candidates*: ready tasks that fit some VM now, in SRW's order,
at most eight of one workflow, and what the rule srw_patient picks. Around them lies a window
of the DAG: their children, the children's other unfinished parents, and the grandchildren,
all that two rounds of message passing can reach. Each legal (candidate, VM) pair has features of its own, and a few
totals describe the rest. Drawn durations are nowhere in it, and times are divided by the
mean duration of the tasks that have arrived, so that seconds and hours look alike.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from thesis_lib._kernels import observe as kernels
from thesis_lib.simulator import State

TASK_FEATURES = (
    "log_duration", "cpu_of_largest_vm", "memory_of_largest_vm", "bandwidth_of_largest_vm", "log_work", "log_rank",
    "rank_of_rest", "log_workflow_work_left", "log_workflow_tasks_left", "log_workflow_age", "srw_position",
    "least_work_ratio", "log_ready_siblings", "log_waited", "ready", "running", "log_run_left", "hosts",
    "log_children", "missing_parents", "priority", "on_critical_path",
)  # fmt: skip
PAIR_FEATURES = (
    "speed_of_fastest", "log_run_time", "cpu_left", "memory_left", "bandwidth_left", "least_left", "largest_demand",
    "alignment", "fastest_free_vm", "srw_picks", "srw_patient_picks", "log_vm_busy", "log_beyond_busy",
    "log_later_than_waiting", "vm_load",
)  # fmt: skip
TOTAL_FEATURES = (
    "log_active_workflows", "log_ready", "log_candidates", "log_unfinished_tasks", "log_backlog", "mean_free_cpu",
    "mean_free_memory", "mean_free_bandwidth", "most_free_cpu", "most_free_memory", "most_free_bandwidth",
    "srw_patient_waits", "log_next_finish", "least_work_1", "least_work_2", "least_work_3", "least_work_4",
    "least_work_5", "log_vms", "can_wait", "running_per_vm",
)  # fmt: skip
# Raise it whenever a feature or its meaning changes: an agent is only good for the features it was trained on.
FEATURE_VERSION = 1
FEATURE_LIMIT = 10.0  # every feature is cut to [-10, 10]; usual values lie far inside


@dataclass(frozen=True)
class ObservationSize:
    """Slots of candidates, nodes of the DAG window, and edges in it; what exceeds them is left out."""

    slots: int = 24
    nodes: int = 64
    edges: int = 160


class Observer:
    """Turns states of problems of one size into observations."""

    def __init__(self, n_tasks: int, n_vms: int, n_workflows: int, size: ObservationSize | None = None):
        self.size, self.n_vms = size or ObservationSize(), n_vms
        slots, nodes, edges = self.size.slots, self.size.nodes, self.size.edges
        self.candidates, self.nodes = np.full(slots, -1), np.full(nodes, -1)  # task numbers of the last observation
        self._edges = np.full((edges, 2), -1)
        self._task_x = np.zeros((nodes, len(TASK_FEATURES)))
        self._pair_x = np.zeros((slots, n_vms, len(PAIR_FEATURES)))
        self._total_x = np.zeros(len(TOTAL_FEATURES))
        self._mask = np.zeros(slots * n_vms + 1, np.int8)
        self._scratch = (np.full(n_tasks, -1), np.zeros(n_workflows), np.zeros(1, np.uint64))

    @property
    def wait_action(self) -> int:
        """The last action: wait for the next event."""
        return len(self._mask) - 1

    @property
    def views(self) -> kernels.ObservationViews:
        """The arrays that the next observation is written to, for kernels."""
        place_of, rest_s, _ = self._scratch
        return kernels.ObservationViews(
            self.candidates, self.nodes, self._edges, self._task_x, self._pair_x, self._total_x, self._mask,
            place_of, rest_s,
        )  # fmt: skip

    def observe(self, state: State) -> dict[str, np.ndarray]:
        """The observation of a state, as copies of fixed shape; the state is not changed.

        task_x (nodes, 22) float32; edges (edges, 2) int64, positions of parent and child in
        `nodes`, -1 where there is none; pair_x (slots, v, 15) float32; total_x (21,) float32;
        action_mask (slots x v + 1,) int8: action `slot x v + vm` places, the last one waits.
        """
        kernels.observe(
            *state.arguments, self.candidates, self.nodes, self._edges, self._task_x, self._pair_x, self._total_x,
            self._mask, *self._scratch,
        )  # fmt: skip
        return {
            "task_x": cut(self._task_x),
            "edges": self._edges.copy(),
            "pair_x": cut(self._pair_x),
            "total_x": cut(self._total_x),
            "action_mask": self._mask.copy(),
        }

    def action_of(self, action: int) -> tuple[int, int] | None:
        """(task, vm) that an action means after the last observation, or None for waiting."""
        if action == self.wait_action:
            return None
        return int(self.candidates[action // self.n_vms]), action % self.n_vms

    def number_of(self, task: int, vm: int) -> int:
        """The action that places `task` on `vm` as last observed; task < 0 waits; -1 for a task without slot."""
        if task < 0:
            return self.wait_action
        slots = np.flatnonzero(self.candidates == task)
        return int(slots[0]) * self.n_vms + vm if len(slots) else -1


def cut(features: np.ndarray) -> np.ndarray:
    """Features as float32 in [-FEATURE_LIMIT, FEATURE_LIMIT]."""
    return np.clip(features, -FEATURE_LIMIT, FEATURE_LIMIT).astype(np.float32)
