"""The interface that every scheduler has, and the adapter that replays a plan."""

from __future__ import annotations

from dataclasses import dataclass
from time import perf_counter
from typing import TYPE_CHECKING

import numpy as np

from thesis_lib.cluster import Cluster
from thesis_lib.workload import Workload

if TYPE_CHECKING:
    from thesis_lib.simulator import Simulator, State


class Scheduler:
    """Decides, whenever some ready task fits some VM, which task goes where.

    `reset` is called once before a run. `decide` is called at every decision point
    and returns (task number, VM position), or None to wait for the next event.
    A scheduler reads the state and never changes it. It is given the whole workload at
    `reset`; a fair online scheduler uses of it only what has arrived (`state.arrived`
    workflows), as all but the ones called clairvoyant do here.
    """

    name: str = ""

    def reset(self, workload: Workload, cluster: Cluster, seed: int) -> None:
        """Prepare for a run; `seed` is for the scheduler's own random choices."""

    def decide(self, state: "State") -> tuple[int, int] | None:
        """Return (task, vm) to place now, or None to wait (legal when `state.can_wait`)."""
        raise TypeError(f"{type(self).__name__} must define decide(state)")

    @property
    def planned_makespan_s(self) -> float | None:
        """What the scheduler expects of the run it was reset for, if it has a plan."""
        return None

    def run(self, simulator: "Simulator") -> float | None:
        """Drive the simulator to the end; return the mean wall-clock seconds of one decision.

        A scheduler that runs in one compiled loop returns None: it cannot time decisions apart.
        """
        decisions, seconds = 0, 0.0
        while not simulator.done:
            began = perf_counter()
            action = self.decide(simulator.state)
            seconds += perf_counter() - began
            decisions += 1
            if action is None:
                simulator.wait()
                continue
            try:
                task, vm = action
            except (TypeError, ValueError):
                raise ValueError(f"{self.name}.decide must return (task, vm) or None, got {action!r}") from None
            simulator.place(task, vm)
        return seconds / max(decisions, 1)


@dataclass(frozen=True, eq=False)
class Plan:
    """A static schedule on mean durations: n tasks of a workload.

    vm: (n,) VM positions. start_s, finish_s: (n,) planned seconds.
    exclusive: a VM runs one task at a time, whatever its capacity.
    bound_s: a proved lower bound of the objective, if the planner has one.
    optimal: True when the plan is proved optimal for the planner's objective.
    """

    vm: np.ndarray
    start_s: np.ndarray
    finish_s: np.ndarray
    exclusive: bool = False
    bound_s: float | None = None
    optimal: bool = False

    @property
    def makespan_s(self) -> float:
        """Planned last finish in seconds (from time 0)."""
        return float(self.finish_s.max())
