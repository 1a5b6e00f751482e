"""The rules. Each is one compiled choice, usable step by step or run to the end.

fcfs           first come, first served; blocks while the head of the queue fits nowhere
sjf            shortest mean duration first
tetris         the (task, VM) pair whose demand and free capacity align best
               (Grandl et al., "Multi-resource packing for cluster schedulers", SIGCOMM 2014)
critical_path  largest upward rank first (list scheduling, Graham 1969), on the VM it fills best
srw            a task of the workflow with the shortest remaining work, ties by upward rank
heft_online    largest upward rank first, on the free VM that finishes it first
srw_patient, heft_patient
               the same orders, but a task that is expected to finish earlier by waiting
               for a busy, faster VM is passed over: the rule may leave capacity idle
random         any legal pair, all equally likely
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from thesis_lib._kernels import rules as kernels
from thesis_lib.cluster import Cluster
from thesis_lib.schedulers.base import Scheduler
from thesis_lib.workload import Workload

if TYPE_CHECKING:
    from thesis_lib.simulator import Simulator, State


class Rule(Scheduler):
    """A rule of `_kernels.rules.RULES` behind the common interface."""

    def __init__(self, name: str, kernel: str | None = None):
        self.name = name
        self._code = kernels.RULES.index(kernel or name)
        self._rng = np.zeros(1, np.uint64)

    def reset(self, workload: Workload, cluster: Cluster, seed: int) -> None:
        """Start the random numbers of `random` anew; the other rules need nothing."""
        self._rng[0] = np.random.SeedSequence(seed).generate_state(1, np.uint64)[0]

    def decide(self, state: "State") -> tuple[int, int] | None:
        """What the rule places now, or None to wait."""
        task, vm = kernels.choose(self._code, *state.arguments, self._rng)
        return None if task < 0 else (task, vm)

    def run(self, simulator: "Simulator") -> None:
        """The whole run in one compiled loop; the same schedule as step by step."""
        simulator.run_rule(self._code, self._rng)


def fcfs(backfill: bool = False) -> Rule:
    """First come, first served; with `backfill` later tasks may pass a head that does not fit."""
    return Rule("fcfs", "fcfs_backfill" if backfill else "fcfs")
