"""Search on top of a trained agent: its actions are tried out before one is taken."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from thesis_lib.agents import Agent
from thesis_lib.cluster import Cluster
from thesis_lib.generators import whole_number
from thesis_lib.schedulers.base import Scheduler
from thesis_lib.schedulers.learned import Drl
from thesis_lib.schedulers.randomized_list import RandomizedList
from thesis_lib.search import Rollouts
from thesis_lib.simulator import READY, Simulator
from thesis_lib.workflow import finite_number
from thesis_lib.workload import Workload

if TYPE_CHECKING:
    from thesis_lib.simulator import State


class DrlSearch(Scheduler):
    """A trained agent with search.

    Streams, and whatever has noise: the agent's k most probable actions are compared by rollouts
    that `search.base_rule_for` the problem finishes (as in `RolloutSearch`); the agent's first choice
    stands unless another one saves significantly more.

    One workflow whose durations are certain: the agent runs it `samples` times, once greedily and else
    drawing its actions; the best schedule is the start of `lists` randomised lists (`RandomizedList`),
    and the best of all is carried out. It finds more per schedule than lists alone, but one of the agent's
    schedules takes as long as some hundred lists: given the same time, lists alone do as well or better.
    An agent in torch (`fixed_gcn`), which is slow, runs it once, greedily.

    model: as in `Drl`. futures, z: as in `RolloutSearch`. temperature: of the drawn actions.
    """

    name = "drl_search"

    def __init__(
        self, model: Agent | str | Path | None = None, k: int = 4, futures: int = 16, z: float = 1.0,
        samples: int = 160, lists: int = 160, temperature: float = 1.0,
    ):  # fmt: skip
        self._drl = Drl(model)
        self._k, self._futures = whole_number(k, "k", 1), whole_number(futures, "futures", 1)
        self._least_z, self._temperature = finite_number(z, "z"), finite_number(temperature, "temperature")
        self._samples = whole_number(samples, "samples", 1)
        self._rollouts, self._lists = Rollouts(), RandomizedList(whole_number(lists, "lists", 1))
        self._rng = np.zeros(1, np.uint64)

    @property
    def model_name(self) -> str | None:
        """Name of the agent; None before the first reset if none was given."""
        return self._drl.model_name

    def reset(self, workload: Workload, cluster: Cluster, seed: int) -> None:
        """Find the agent and start the random numbers anew."""
        self._drl.reset(workload, cluster, seed)
        self._lists.reset(workload, cluster, seed)
        self._draws = np.random.default_rng(seed)
        self._rng[0] = self._draws.integers(2**64, dtype=np.uint64)
        self._certain = len(workload) == 1 and not workload.workflows[0].std_s.any()
        self._plan: tuple[np.ndarray, np.ndarray] | None = None
        self._planned_s: float | None = None

    @property
    def planned_makespan_s(self) -> float | None:
        """Makespan of the plan for one workflow without noise; None otherwise."""
        return self._planned_s

    def decide(self, state: "State") -> tuple[int, int] | None:
        """What the plan or the search places now, or None to wait."""
        if not self._certain:
            actions = [action for action, _ in self._drl.agent.top(state, self._k)] or [None]
            return self._rollouts.best_of(state, actions, self._futures, self._least_z, self._rng)
        if self._planned_s is None:
            self._make_plan(state)
        if self._plan is None:
            return self._lists.decide(state)
        start_s, vm = self._plan
        for task in state.ready.tolist():
            if start_s[task] <= state.now_s and state.status[task] == READY and state.fits(task, int(vm[task])):
                return task, int(vm[task])
        return None

    def _make_plan(self, state: "State") -> None:
        """Sample the agent's schedules, then lists near the best; keep the plan, or None to follow the lists."""
        best = None
        for k in range(self._samples if self._drl.agent.is_compiled else 1):
            run = Simulator.branch(state, np.ones(state.n_tasks))
            self._finish(run, self._temperature if k else 0.0)
            if best is None or run.state.finish_s.max() < best.finish_s.max():
                best = run.state
        self._planned_s = float(best.finish_s.max())
        listed_s = self._lists.improve(state, best.start_s)
        if listed_s < self._planned_s:
            self._planned_s = listed_s
        else:
            self._plan = best.start_s.copy(), best.vm.copy()

    def _finish(self, run: Simulator, temperature: float) -> None:
        """Let the agent run to the end; an agent in torch always does so greedily."""
        agent = self._drl.agent
        if agent.is_compiled:
            agent.run(run, temperature, self._draws)
            return
        while not run.done:
            action = agent.decide(run.state)
            run.wait() if action is None else run.place(*action)
