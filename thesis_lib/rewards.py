"""Rewards as sums of weighted terms: the article's three versions, as printed and corrected, and two of our own.

A step lasts from one decision to the next. `Measures` says what happened in it, a term
weighs one measure, and a reward is the sum of its terms, so that each can be shown alone.
Rewards are additive: the terms of all steps sum to the terms of the measures of the run.

    v1          +1 per finished task, -10 per late one, -5 per illegal action
    v2          +1 per finished task, -0.1 per illegal action, and quality of service:
                0.01 per second of spare time before the deadline, -0.005 per second of waiting
    v3          base of v2 + 2.0 x quality of service + 1.5 x 0.02 per second of weighted utilisation
    flow_time   minus the unfinished workflows, integrated over time: minus total completion time
    potential   how much total completion time the base rule would save from here on, compared
                with the step before (potential-based shaping, Ng, Harada and Russell, 1999)

The article prints two signs the wrong way round: its waiting term rewards waiting and its
cost term punishes utilisation. `v2_as_printed` and `v3_as_printed` keep them, to show what
they teach. A task's deadline is twice its mean duration after it became ready.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, fields

from thesis_lib.workflow import WorkflowError

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


@dataclass(frozen=True)
class Reward:
    """A named reward: `terms` maps a term's name to (weight, function of the step's measures)."""

    name: str
    terms: dict[str, tuple[float, Callable[[Measures], float]]]

    @property
    def needs_potential(self) -> bool:
        """True when a term reads `saved_s`, which costs one run of the base rule per step."""
        return "saved" in self.terms

    def parts(self, step: Measures) -> dict[str, float]:
        """The value of each term."""
        return {name: weight * measure(step) for name, (weight, measure) in self.terms.items()}

    def value(self, step: Measures) -> float:
        """The reward: the sum of the terms."""
        return sum(self.parts(step).values())


def _finished(m: Measures) -> float:
    return m.finished


def _late(m: Measures) -> float:
    return m.late


def _illegal(m: Measures) -> float:
    return m.illegal


def _spare(m: Measures) -> float:
    return m.spare_s


def _waited(m: Measures) -> float:
    return m.waited_s


def _used(m: Measures) -> float:
    return m.used_s


def _flow(m: Measures) -> float:
    return m.flow_s


def _saved(m: Measures) -> float:
    return m.saved_s


def _quality(weight: float, waiting_sign: float) -> dict:
    return {"spare": (0.01 * weight, _spare), "waited": (waiting_sign * 0.005 * weight, _waited)}


def _service(name: str, as_printed: bool, quality_weight: float, cost_weight: float) -> Reward:
    """v2 and v3: base, quality of service and, with a cost weight, utilisation."""
    sign = 1.0 if as_printed else -1.0
    terms = {"finished": (1.0, _finished), "illegal": (-0.1, _illegal), **_quality(quality_weight, sign)}
    if cost_weight:
        terms["used"] = (-sign * 0.02 * cost_weight, _used)
    return Reward(name, terms)


_REWARDS = (
    Reward("v1", {"finished": (1.0, _finished), "late": (-10.0, _late), "illegal": (-5.0, _illegal)}),
    _service("v2", False, 1.0, 0.0),
    _service("v2_as_printed", True, 1.0, 0.0),
    _service("v3", False, 2.0, 1.5),
    _service("v3_as_printed", True, 2.0, 1.5),
    Reward("flow_time", {"flow": (-0.001, _flow), "illegal": (-1.0, _illegal)}),
    Reward("potential", {"saved": (0.001, _saved), "illegal": (-1.0, _illegal)}),
)
REWARDS: dict[str, Reward] = {reward.name: reward for reward in _REWARDS}


def reward_named(name: str) -> Reward:
    """The reward of that name; WorkflowError listing the names for another one."""
    if name not in REWARDS:
        raise WorkflowError(f"unknown reward {name!r}; choose one of {', '.join(REWARDS)}")
    return REWARDS[name]
