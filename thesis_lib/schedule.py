"""Schedule: what was run, and the metrics computed from it.

Every number of the benchmark comes from here. The module `validate` checks a schedule
against the model.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from thesis_lib.cluster import Cluster, exec_time_s
from thesis_lib.ranks import fastest_critical_path_s
from thesis_lib.workflow import RESOURCES
from thesis_lib.workload import Workload

if TYPE_CHECKING:
    import pandas

SLA_FACTOR = 2.0  # an allowance of twice the mean, as in the article
TIME_TOLERANCE_S = 1e-6  # times that differ by less count as equal


class ScheduleError(ValueError):
    """A schedule that breaks a rule of the model; the message lists the first faults."""


@dataclass(frozen=True, eq=False)
class Schedule:
    """Who ran where and when: n tasks of a workload on v VMs.

    Attributes
    ----------
    vm: (n,) position of the VM in `cluster.vms`.
    ready_s, start_s, finish_s: (n,) seconds; ready is when the workflow has arrived
        and the last parent has finished (transfers come after it).
    duration_factor: (n,) drawn / mean duration, 1 without noise. None for a plan.
    planned_makespan_s: what the scheduler expected, if it had a plan.
    planning_s: wall-clock seconds that the scheduler took before the run (not deterministic).
    decision_latency_s: mean wall-clock seconds of one decision (not deterministic); None when
        the whole run was one compiled loop, in which decisions cannot be timed apart.
    """

    workload: Workload
    cluster: Cluster
    vm: np.ndarray
    ready_s: np.ndarray
    start_s: np.ndarray
    finish_s: np.ndarray
    scheduler: str = ""
    seed: int = 0
    duration_factor: np.ndarray | None = None
    planned_makespan_s: float | None = None
    planning_s: float = 0.0
    decision_latency_s: float | None = None

    def same_as(self, other: "Schedule") -> bool:
        """True when every task runs on the same VM at exactly the same times."""
        return all(
            np.array_equal(getattr(self, key), getattr(other, key)) for key in ("vm", "ready_s", "start_s", "finish_s")
        )

    # --- metrics ------------------------------------------------------------------------

    @cached_property
    def makespan_s(self) -> float:
        """Last finish minus first arrival, seconds."""
        return float(self.finish_s.max()) - self.workload.arrivals_s[0]

    @cached_property
    def completion_s(self) -> np.ndarray:
        """(W,) seconds from the arrival of each workflow to its last finish."""
        ends = np.maximum.reduceat(self.finish_s, self.workload.task_ptr[:-1])
        return ends - np.array(self.workload.arrivals_s)

    @property
    def mean_completion_s(self) -> float:
        """Mean over workflows of last finish - arrival, seconds."""
        return float(self.completion_s.mean())

    @cached_property
    def utilization(self) -> dict[str, float]:
        """Share of each resource held over the makespan, by all VMs together.

        Keys: cpu, memory, bandwidth, and cpu_memory (their plain mean of cpu and
        memory). A resource that the cluster does not have counts as 0.
        """
        busy = self.finish_s - self.start_s
        held = (_demand(self.workload) * busy[:, None]).sum(axis=0)
        offered = self.cluster.capacity.sum(axis=0) * self.makespan_s
        share = np.divide(held, offered, out=np.zeros(3), where=offered > 0)
        result = dict(zip(RESOURCES, share.tolist()))
        result["cpu_memory"] = (result["cpu"] + result["memory"]) / 2
        return result

    @property
    def sla_violation_rate(self) -> float:
        """Share of tasks with finish - ready > 2 x mean duration: the clock starts when the task is ready."""
        allowed = SLA_FACTOR * np.concatenate([w.mean_s for w in self.workload.workflows])
        return float(np.mean(self.finish_s - self.ready_s > allowed + TIME_TOLERANCE_S))

    @property
    def workflow_sla_violation_rate(self) -> float:
        """Share of workflows with completion > 2 x their critical path on the fastest VMs."""
        return float(np.mean(self.completion_s > SLA_FACTOR * self._fastest_path_s + TIME_TOLERANCE_S))

    @property
    def cost(self) -> float:
        """Price of the VMs, each leased from its first start to its last finish (currency of price_per_hour)."""
        total = 0.0
        for v, machine in enumerate(self.cluster.vms):
            mine = self.vm == v
            if mine.any():
                leased_s = float(self.finish_s[mine].max() - self.start_s[mine].min())
                total += machine.price_per_hour * leased_s / 3600
        return total

    @property
    def slr(self) -> float:
        """Mean over workflows of completion / critical path on the fastest VMs (schedule length ratio)."""
        path = self._fastest_path_s
        return float(np.divide(self.completion_s, path, out=np.ones(len(path)), where=path > 0).mean())

    @property
    def speedup(self) -> float:
        """Mean run time of all tasks one after another on the best single VM / makespan.

        Where no VM can run every task, each task counts with its fastest VM.
        """
        times = np.concatenate([exec_time_s(w, self.cluster) for w in self.workload.workflows])
        alone = times.sum(axis=0).min()
        sequential_s = alone if np.isfinite(alone) else times.min(axis=1).sum()
        return float(sequential_s) / self.makespan_s if self.makespan_s > 0 else 1.0

    @cached_property
    def _fastest_path_s(self) -> np.ndarray:
        return np.array([fastest_critical_path_s(w, self.cluster) for w in self.workload.workflows])

    def metrics(self) -> dict[str, object]:
        """The metrics above by name, as the command line prints them."""
        names = ("makespan_s", "planned_makespan_s", "mean_completion_s", "utilization", "sla_violation_rate",
                 "workflow_sla_violation_rate", "cost", "slr", "speedup")  # fmt: skip
        return {name: getattr(self, name) for name in names}

    # --- tables -------------------------------------------------------------------------

    def records(self) -> list[dict[str, object]]:
        """One dict per task: id, workflow (number), vm (id), ready_s, start_s, finish_s."""
        vm_ids = [vm.id for vm in self.cluster.vms]
        tasks = [task for workflow in self.workload.workflows for task in workflow.tasks]
        columns = zip(tasks, self.workload.workflow_of.tolist(), self.vm.tolist(),
                      self.ready_s.tolist(), self.start_s.tolist(), self.finish_s.tolist())  # fmt: skip
        return [
            {"id": task.id, "workflow": w, "vm": vm_ids[v], "ready_s": ready, "start_s": start, "finish_s": finish}
            for task, w, v, ready, start, finish in columns
        ]

    def to_frame(self) -> "pandas.DataFrame":
        """`records` with demands and mean durations as a pandas table, one row per task in task order."""
        import pandas

        frame = pandas.DataFrame(self.records())
        frame["duration_mean_s"] = np.concatenate([w.mean_s for w in self.workload.workflows])
        frame[["cpu", "memory_gb", "bandwidth_gbps"]] = _demand(self.workload)
        return frame

    # --- validation ---------------------------------------------------------------------

    def validate(self) -> None:
        """Check the schedule against the model (see `thesis_lib.validate`); ScheduleError says what is wrong."""
        from thesis_lib.validate import validate  # here, because it builds on this module

        validate(self)


def _demand(workload: Workload) -> np.ndarray:
    return np.concatenate([w.demand for w in workload.workflows])
