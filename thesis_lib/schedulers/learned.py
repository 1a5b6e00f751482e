"""The learned scheduler: a trained agent, greedy, behind the common interface."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from thesis_lib.agents import Agent, default_agent_for, load_agent
from thesis_lib.cluster import Cluster
from thesis_lib.schedulers.base import Scheduler
from thesis_lib.workload import Workload

if TYPE_CHECKING:
    from thesis_lib.simulator import Simulator, State


class Drl(Scheduler):
    """Takes, at every decision, the action that a trained agent scores highest.

    model: an Agent, its name in dataset/models, or the path of its file; None takes the
        shipped agent for the problem at every reset. Raises WorkflowError, with the names
        there are, when it cannot be found or used.
    """

    name = "drl"

    def __init__(self, model: Agent | str | Path | None = None):
        self._given = model if model is None or isinstance(model, Agent) else load_agent(model)
        self._agent = self._given

    @property
    def model_name(self) -> str | None:
        """Name of the agent that decides; None before the first reset if none was given."""
        return None if self._agent is None else self._agent.name

    @property
    def agent(self) -> Agent:
        """The agent that decides, known after `reset` at the latest."""
        return self._agent

    def reset(self, workload: Workload, cluster: Cluster, seed: int) -> None:
        """Find the agent for the problem; a greedy agent draws nothing, so the seed is not used."""
        self._agent = self._given or default_agent_for(workload, cluster)

    def decide(self, state: "State") -> tuple[int, int] | None:
        """What the agent places now, or None to wait."""
        return self._agent.decide(state)

    def run(self, simulator: "Simulator") -> float | None:
        """The whole run in one compiled loop, the same schedule as step by step; agents in torch go step by step."""
        if not self._agent.is_compiled:
            return super().run(simulator)
        self._agent.run(simulator)
        return None
