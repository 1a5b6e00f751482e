"""Rewards as sums of weighted terms: the article's three versions, as printed and corrected, and two of our own.

A step lasts from one decision to the next. `Measures` says what happened in it, a term is
a weight times one measure, and a reward is the sum of its terms, so that each can be shown alone.
Rewards are additive: the terms of all steps sum to the terms of the measures of the run.

    v1          +1 per finished task, -10 per late one, -5 per illegal action
    v2          +1 per finished task, -0.1 per illegal action, and quality of service:
                0.01 per second of spare time before the deadline, -0.005 per second of waiting
    v3          base of v2 + 2.0 x quality of service + 1.5 x 0.02 per second of weighted utilisation
    flow_time   minus the unfinished workflows, integrated over time: minus total completion time / 1000 s
    potential   what the step saves against the base rule: by how much the total completion time fell
                that the rule would reach if it took over, / 1000 s

`potential` is the difference of a potential, without discount, used as the reward itself. Its sum is
what the policy saves against the base rule in all, and the rule's own actions earn 0. PPO's default
gamma 0.9 and lambda 0.5 weigh the following steps by 0.45, 0.2, ..., so that an advantage is nearly that
of one step over the rule: what later steps save is mostly noise to this one. It is not potential-based
shaping in the strict sense of Ng, Harada and Russell, 1999, which adds gamma Phi(next) - Phi(now) to
another reward.

The article prints two signs the wrong way round: its waiting term rewards waiting and its
cost term punishes utilisation. `v2_as_printed` and `v3_as_printed` keep them, to show what
they teach. A task's deadline is twice its mean duration after it became ready.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields

import numpy as np

from thesis_lib.schedule import SLA_FACTOR, TIME_TOLERANCE_S, Schedule
from thesis_lib.workflow import RESOURCES, WorkflowError

UTILIZATION_WEIGHTS = (0.3, 0.5, 0.2)  # cpu, memory, bandwidth, as in the article's cost


@dataclass(frozen=True)
class Measures:
    """What happened during a step, or during several when added up.

    finished, late: tasks that finished, and those of them that missed their deadline.
    spare_s: seconds between finish and deadline of the finished tasks (negative when late).
    waited_s: seconds between ready and start of the tasks that started.
    used_s: weighted utilisation of the cluster x seconds.
    flow_s: unfinished workflows that have arrived x seconds.
    illegal: illegal actions, which change nothing else.
    saved_s: by how much the total completion time fell that the base rule would reach.
    """

    finished: float = 0.0
    late: float = 0.0
    spare_s: float = 0.0
    waited_s: float = 0.0
    used_s: float = 0.0
    flow_s: float = 0.0
    illegal: float = 0.0
    saved_s: float = 0.0

    def __add__(self, other: "Measures") -> "Measures":
        return Measures(*(getattr(self, f.name) + getattr(other, f.name) for f in fields(self)))

    def __sub__(self, other: "Measures") -> "Measures":
        return Measures(*(getattr(self, f.name) - getattr(other, f.name) for f in fields(self)))


def measures_of_schedule(schedule: Schedule, base_completion_s: float = 0.0) -> Measures:
    """Measures of a whole run without illegal actions, from its schedule alone: what the steps sum to.

    base_completion_s: total completion time of all workflows (s) under the base rule on the same
        durations; `saved_s` is this minus the schedule's own.
    """
    mean_s = np.concatenate([w.mean_s for w in schedule.workload.workflows])
    took_s = schedule.finish_s - schedule.ready_s
    share = sum(weight * schedule.utilization[name] for weight, name in zip(UTILIZATION_WEIGHTS, RESOURCES))
    completion_s = float(schedule.completion_s.sum())
    return Measures(
        finished=float(len(mean_s)),
        late=float((took_s > SLA_FACTOR * mean_s + TIME_TOLERANCE_S).sum()),
        spare_s=float((SLA_FACTOR * mean_s - took_s).sum()),
        waited_s=float((schedule.start_s - schedule.ready_s).sum()),
        used_s=share * schedule.makespan_s,
        flow_s=completion_s,
        saved_s=base_completion_s - completion_s,
    )


@dataclass(frozen=True)
class Reward:
    """A named reward: `weights` maps the name of a measure to its weight."""

    name: str
    weights: Mapping[str, float]

    @property
    def needs_potential(self) -> bool:
        """True when `saved_s` counts, which costs a run of the base rule per step."""
        return "saved_s" in self.weights

    def scaled(self, factor: float) -> "Reward":
        """The same reward in other units: every weight times `factor`."""
        return Reward(self.name, {measure: weight * factor for measure, weight in self.weights.items()})

    def parts(self, step: Measures) -> dict[str, float]:
        """The value of each term."""
        return {measure: weight * getattr(step, measure) for measure, weight in self.weights.items()}

    def value(self, step: Measures) -> float:
        """The reward: the sum of the terms."""
        return sum(self.parts(step).values())


def _service(name: str, as_printed: bool, quality: float, cost: float) -> Reward:
    """v2 and v3: base, `quality` x quality of service, and `cost` x the term for utilisation."""
    sign = 1.0 if as_printed else -1.0
    weights = {"finished": 1.0, "illegal": -0.1, "spare_s": 0.01 * quality, "waited_s": sign * 0.005 * quality}
    if cost:
        weights["used_s"] = -sign * 0.02 * cost
    return Reward(name, weights)


_REWARDS = (
    Reward("v1", {"finished": 1.0, "late": -10.0, "illegal": -5.0}),
    _service("v2", as_printed=False, quality=1.0, cost=0.0),
    _service("v2_as_printed", as_printed=True, quality=1.0, cost=0.0),
    _service("v3", as_printed=False, quality=2.0, cost=1.5),
    _service("v3_as_printed", as_printed=True, quality=2.0, cost=1.5),
    Reward("flow_time", {"flow_s": -0.001, "illegal": -1.0}),
    Reward("potential", {"saved_s": 0.001, "illegal": -1.0}),
)
REWARDS: dict[str, Reward] = {reward.name: reward for reward in _REWARDS}


def reward_named(name: str) -> Reward:
    """The reward of that name; WorkflowError listing the names for another one."""
    if name not in REWARDS:
        raise WorkflowError(f"unknown reward {name!r}; choose one of {', '.join(REWARDS)}")
    return REWARDS[name]
