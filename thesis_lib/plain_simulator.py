"""The simulator's model in plain Python, written to be read.

It follows the definition word by word with dictionaries and Python's heap, knows no
trick and is a hundred times slower than `simulator.Simulator`. The tests let both make
the same decisions and compare every step. To understand the model, begin here.
"""

from __future__ import annotations

import heapq
import math

import numpy as np

from thesis_lib.cluster import RESOURCE_TOLERANCE, Cluster
from thesis_lib.schedule import Schedule
from thesis_lib.workload import Workload

FINISH, DATA, ARRIVAL = 0, 1, 2  # the order of events at equal times


class PlainSimulator:
    """One run of a workload on a cluster; `duration_factor[i]` is drawn / mean duration of task i."""

    def __init__(self, workload: Workload, cluster: Cluster, duration_factor: np.ndarray):
        self.workload, self.cluster, self.factor = workload, cluster, duration_factor
        self.now_s = 0.0
        self.events: list[tuple[float, int, int]] = []  # heap of (time, kind, index)
        self.ready_s: dict[int, float] = {}  # when the workflow had arrived and all parents had finished
        self.data_s: dict[tuple[int, int], float] = {}  # (task, VM): when all its data is there
        self.vm: dict[int, int] = {}
        self.start_s: dict[int, float] = {}
        self.finish_s: dict[int, float] = {}
        for w, arrival_s in enumerate(workload.arrivals_s):
            heapq.heappush(self.events, (arrival_s, ARRIVAL, w))
        self._go_to_decision_point()

    @property
    def done(self) -> bool:
        """True when every task has finished."""
        return len(self.finish_s) == self.workload.n_tasks

    def legal_pairs(self) -> list[tuple[int, int]]:
        """Every (task, VM) that can start now: ready, its data there, its demands free; in order of number."""
        waiting = sorted(t for t in self.ready_s if t not in self.start_s)
        return [(t, v) for t in waiting for v in range(len(self.cluster)) if self._fits(t, v)]

    def place(self, task: int, vm: int) -> None:
        """Start a task now. Placing takes no time: the clock moves only if nothing more can be placed."""
        self.vm[task], self.start_s[task] = vm, self.now_s
        end_s = self.now_s + self._mean_run_s(task, vm) * self.factor[task]
        heapq.heappush(self.events, (end_s, FINISH, task))
        self._go_to_decision_point()

    def wait(self) -> None:
        """Jump to the next event, although something could be placed."""
        self._jump()
        self._go_to_decision_point()

    def schedule(self) -> Schedule:
        """The finished run."""
        tasks = range(self.workload.n_tasks)
        columns = (self.vm, self.ready_s, self.start_s, self.finish_s)
        arrays = [np.array([column[t] for t in tasks]) for column in columns]
        return Schedule(self.workload, self.cluster, *arrays, duration_factor=self.factor)

    # --- what may be placed ---------------------------------------------------------------

    def _fits(self, task: int, vm: int) -> bool:
        if self._mean_run_s(task, vm) == math.inf or self.data_s[task, vm] > self.now_s:
            return False
        running = [t for t, v in self.vm.items() if v == vm and t not in self.finish_s]
        held = sum((self._demand(t) for t in running), np.zeros(3))
        return bool((held + self._demand(task) <= self.cluster.capacity[vm] + RESOURCE_TOLERANCE).all())

    def _demand(self, task: int) -> np.ndarray:
        one = self.workload.task(task)
        return np.array([one.cpu, one.memory_gb, one.bandwidth_gbps])

    def _mean_run_s(self, task: int, vm: int) -> float:
        """Mean run time; infinite where the task can never run."""
        if (self._demand(task) > self.cluster.capacity[vm] + RESOURCE_TOLERANCE).any():
            return math.inf
        one, machine = self.workload.task(task), self.cluster.vms[vm]
        if one.runtime_s is None:
            return one.duration_mean_s / machine.speed
        return {str(vm_id): s for vm_id, s in one.runtime_s.items()}.get(str(machine.id), math.inf)

    # --- the clock ------------------------------------------------------------------------

    def _go_to_decision_point(self) -> None:
        self._handle_due_events()
        while not self.done and not self.legal_pairs():
            self._jump()
            self._handle_due_events()

    def _jump(self) -> None:
        """Move the clock to the next event that still means something."""
        while self.events[0][1] == DATA and self.events[0][2] // len(self.cluster) in self.start_s:
            heapq.heappop(self.events)  # data for a task that has been placed elsewhere meanwhile
        self.now_s = max(self.now_s, self.events[0][0])

    def _handle_due_events(self) -> None:
        while self.events and self.events[0][0] <= self.now_s:
            _, kind, index = heapq.heappop(self.events)
            if kind == FINISH:
                self.finish_s[index] = self.now_s
                self._make_ready_where_possible(int(self.workload.workflow_of[index]))
            elif kind == ARRIVAL:
                self._make_ready_where_possible(index)

    def _make_ready_where_possible(self, w: int) -> None:
        """A task is ready when its workflow has arrived and all its parents have finished."""
        first, workflow = int(self.workload.task_ptr[w]), self.workload.workflows[w]
        if self.workload.arrivals_s[w] > self.now_s:
            return
        for j in range(len(workflow)):
            parents = [first + p for p in workflow.parents(j)]
            if first + j not in self.ready_s and all(p in self.finish_s for p in parents):
                self.ready_s[first + j] = self.now_s
                self._send_data(first, j, parents)

    def _send_data(self, first: int, j: int, parents: list[int]) -> None:
        """Each parent's data left for every other VM when the parent finished; transfers do not slow each other."""
        task = self.workload.task(first + j)
        for v in range(len(self.cluster)):
            there_s = self.now_s
            for p in parents:
                mb = task.data_mb.get(self.workload.task(p).id, 0.0)
                if mb and self.vm[p] != v:
                    there_s = max(there_s, self.finish_s[p] + mb / self.cluster.link_mb_per_s[self.vm[p], v])
            self.data_s[first + j, v] = there_s
            if there_s > self.now_s and self._mean_run_s(first + j, v) < math.inf:
                heapq.heappush(self.events, (there_s, DATA, (first + j) * len(self.cluster) + v))
