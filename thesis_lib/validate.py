"""An independent check that a schedule obeys the model.

The rules are written down here a second time, from the fields of tasks and VMs alone:
run times, transfers, readiness and capacities share no function with the simulator, so
that an error in one shows in the other. What is not checked is the draw itself:
`Schedule.duration_factor` is taken as given, because it belongs to the run
(`workload.duration_factors(workload, seed)` gives it for a run with noise).
"""

from __future__ import annotations

import math

import numpy as np

from thesis_lib.cluster import VM, Cluster
from thesis_lib.schedule import TIME_TOLERANCE_S, Schedule, ScheduleError
from thesis_lib.workflow import RESOURCES, Task

MB_PER_GBIT = 1000 / 8
RELATIVE_ROUNDING = 1e-12  # of a time: thousands of additions stay below it
CAPACITY_TOLERANCE = 1e-8  # relative above 1: sums of many demands round
SHOWN = 5  # faults that the message spells out


def validate(schedule: Schedule) -> None:
    """Raise ScheduleError that lists the first faults; return None when there is none.

    Each task once, on a VM that exists and can run it; ready exactly when its workflow has
    arrived and its last parent has finished; not started before that and before its data is
    there; run for its mean time on that VM x its duration factor; no capacity exceeded at
    any instant.
    """
    faults = _shape_faults(schedule)
    if not faults:
        faults = _time_faults(schedule) + _capacity_faults(schedule)
    if faults:
        more = f" (and {len(faults) - SHOWN} more)" if len(faults) > SHOWN else ""
        raise ScheduleError("; ".join(faults[:SHOWN]) + more)


def _shape_faults(schedule: Schedule) -> list[str]:
    n, factor = schedule.workload.n_tasks, schedule.duration_factor
    arrays = {key: getattr(schedule, key) for key in ("vm", "ready_s", "start_s", "finish_s")}
    if factor is not None:
        arrays["duration_factor"] = factor
    faults = [f"{key} holds {len(array)} entries for {n} tasks" for key, array in arrays.items() if len(array) != n]
    if faults:
        return faults
    for i in range(n):
        name = schedule.workload.describe_task(i)
        if schedule.vm[i] not in range(len(schedule.cluster)):
            faults.append(f"{name} has no VM (position {schedule.vm[i]})")
        elif not all(math.isfinite(array[i]) for array in (schedule.ready_s, schedule.start_s, schedule.finish_s)):
            faults.append(f"{name} has no finite start or finish")
        if factor is not None and not 0 < factor[i] < math.inf:
            faults.append(f"{name} has a duration factor of {factor[i]:g}; it must be finite and above 0")
    return faults


# --- times ------------------------------------------------------------------------------


def _time_faults(schedule: Schedule) -> list[str]:
    faults, first = [], 0
    for workflow, arrival_s in zip(schedule.workload.workflows, schedule.workload.arrivals_s):
        number = {str(task.id): first + j for j, task in enumerate(workflow.tasks)}
        for i, task in enumerate(workflow.tasks, start=first):
            parents = {parent: number[str(parent)] for parent in task.dependencies}
            faults += _start_faults(schedule, i, task, arrival_s, parents)
            faults += _run_faults(schedule, i, task)
        first += len(workflow.tasks)
    return faults


def _start_faults(schedule: Schedule, i: int, task: Task, arrival_s: float, parents: dict) -> list[str]:
    """When the task was ready and started; parents: id -> task number."""
    name, faults = schedule.workload.describe_task(i), []
    ready_s, start_s, finish_s = schedule.ready_s[i], schedule.start_s[i], schedule.finish_s
    if start_s < arrival_s - _rounding_s(arrival_s):
        faults.append(f"{name} starts at {start_s:g} s before its workflow arrives")
    for parent, p in parents.items():
        there_s = finish_s[p] + _transfer_s(
            task.data_mb.get(parent, 0.0), schedule.cluster, schedule.vm[p], schedule.vm[i]
        )
        if start_s - there_s < -_rounding_s(start_s):  # there_s may be infinite
            faults.append(f"{name} starts at {start_s:g} s before parent {parent!r} and its data at {there_s:g} s")
    expected_s = max([arrival_s, *(finish_s[p] for p in parents.values())])
    if abs(ready_s - expected_s) > _rounding_s(expected_s):
        faults.append(f"{name} is called ready at {ready_s:g} s instead of {expected_s:g} s")
    return faults


def _run_faults(schedule: Schedule, i: int, task: Task) -> list[str]:
    name, machine = schedule.workload.describe_task(i), schedule.cluster.vms[schedule.vm[i]]
    mean_s = _run_s(task, machine)
    if mean_s is None:
        return [f"{name} cannot run on VM {machine.id!r}"]
    expected_s = mean_s * (1.0 if schedule.duration_factor is None else schedule.duration_factor[i])
    lasted_s = schedule.finish_s[i] - schedule.start_s[i]
    if abs(lasted_s - expected_s) > _rounding_s(schedule.finish_s[i]):
        return [f"{name} runs {lasted_s:g} s instead of {expected_s:g} s"]
    return []


def _rounding_s(time_s: float) -> float:
    """How far a time may be off, in seconds."""
    return max(TIME_TOLERANCE_S, RELATIVE_ROUNDING * abs(time_s))


def _run_s(task: Task, machine: VM) -> float | None:
    """Mean run time of the task on the VM, or None where it cannot run."""
    needs = (task.cpu, task.memory_gb, task.bandwidth_gbps)
    if any(need > _most(limit) for need, limit in zip(needs, _capacity(machine))):
        return None
    if task.runtime_s is None:
        return task.duration_mean_s / machine.speed
    return next((s for vm, s in task.runtime_s.items() if str(vm) == str(machine.id)), None)


def _transfer_s(megabytes: float, cluster: Cluster, sender: int, receiver: int) -> float:
    """Seconds that data takes between two VMs; infinite over a link without bandwidth."""
    if megabytes == 0 or sender == receiver:
        return 0.0
    if cluster.link_gbps is not None:
        gbps = cluster.link_gbps[sender][receiver]
    else:
        gbps = min(cluster.vms[sender].bandwidth_gbps, cluster.vms[receiver].bandwidth_gbps)
    return megabytes / (gbps * MB_PER_GBIT) if gbps > 0 else math.inf


# --- capacities -------------------------------------------------------------------------


def _capacity(machine: VM) -> tuple[float, float, float]:
    return machine.cpu, machine.memory_gb, machine.bandwidth_gbps


def _most(limit: float) -> float:
    """What may be held of a capacity, rounding included."""
    return limit + CAPACITY_TOLERANCE * max(1.0, limit)


def _capacity_faults(schedule: Schedule) -> list[str]:
    """Sweep the starts and finishes of each VM; a finish frees its share before a start at the same time."""
    faults = []
    tasks = [task for workflow in schedule.workload.workflows for task in workflow.tasks]
    demand = np.array([[task.cpu, task.memory_gb, task.bandwidth_gbps] for task in tasks])
    # A finish within rounding after a start counts as before it.
    end_s = np.array([finish_s - _rounding_s(finish_s) for finish_s in schedule.finish_s])
    for v, machine in enumerate(schedule.cluster.vms):
        mine = np.flatnonzero((schedule.vm == v) & (end_s > schedule.start_s))
        times = np.concatenate([schedule.start_s[mine], end_s[mine]])
        change = np.concatenate([demand[mine], -demand[mine]])
        order = np.lexsort((np.repeat([1, 0], len(mine)), times))
        used = np.cumsum(change[order], axis=0)
        for r, (resource, limit) in enumerate(zip(RESOURCES, _capacity(machine))):
            over = np.flatnonzero(used[:, r] > _most(limit))
            if len(over):
                k = over[0]
                faults.append(
                    f"VM {machine.id!r} holds {used[k, r]:g} {resource} of {limit:g} at {times[order][k]:g} s"
                )
    return faults
