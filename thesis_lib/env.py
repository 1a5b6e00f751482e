"""CloudWorkflow-v0: scheduling as a Gymnasium environment, with the event-driven clock.

One step is one decision: place a task on a VM, which takes no time, or wait, which jumps to
the next event. An illegal action changes nothing but costs what the reward says; too many of
them end the episode as truncated. The drawn durations are in no observation.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import gymnasium
import numpy as np
from gymnasium import spaces

from thesis_lib._kernels import state as layout
from thesis_lib._kernels.rules import RULES
from thesis_lib.cluster import Cluster
from thesis_lib.observation import (
    FEATURE_LIMIT,
    PAIR_FEATURES,
    TASK_FEATURES,
    TOTAL_FEATURES,
    ObservationSize,
    Observer,
)
from thesis_lib.rewards import UTILIZATION_WEIGHTS, Measures, Reward, reward_named
from thesis_lib.simulator import DONE, READY, Problem, Simulator, State
from thesis_lib.workflow import WorkflowError
from thesis_lib.workload import SEED_RANGES, Workload, duration_factors, suite_case

FLAT_SLOTS = 50  # task slots of the article's observation
FLAT_TASK_FEATURES = 5
Sampler = Callable[[int], "tuple[Workload, Cluster]"]


class CloudWorkflowEnv(gymnasium.Env):
    """Schedule one workload per episode.

    Parameters
    ----------
    workload: a fixed Workload, a function seed -> (Workload, Cluster), or None to draw
        from `suite` ("single", "stream" or "thesis") with `suite_options`.
    cluster: the cluster of a fixed workload (default: the article's three VMs).
    observation: "graph", a flat Dict of padded Boxes (`observation.Observer`, each array laid
        out in one row), or "flat", the article's vector of 3 x VMs + 5 x 50 + 1 numbers, scaled into [0, 1].
    action: "flat", Discrete with a joint mask, or "pair", the article's MultiDiscrete
        [slots, VMs + 1], whose last VM means wait. Slots are the candidates ("graph") or
        the first 50 unfinished tasks ("flat").
    reward: a name of `rewards.REWARDS` or a Reward.
    base_rule: the rule whose future the reward "potential" compares with.
    skip_forced: after a step, act alone while only one action is legal.
    size: slots, nodes and edges of the graph observation.
    noise: draw the durations; otherwise every task takes its mean.
    seeds: the instances that are drawn (a range of step 1); by default those meant for training, never those
        for tests.

    `info` holds `action_mask`, `reward_terms` and, at the end of the episode, `schedule` and
    `metrics`. Every reset without a seed draws the next workload of the stream that the
    last seed began.
    """

    metadata = {"render_modes": []}

    def __init__(
        self,
        workload: Workload | Sampler | None = None,
        cluster: Cluster | None = None,
        *,
        suite: str = "single",
        suite_options: dict[str, Any] | None = None,
        observation: str = "graph",
        action: str = "flat",
        reward: str | Reward = "flow_time",
        base_rule: str = "srw_patient",
        skip_forced: bool = False,
        size: ObservationSize | None = None,
        noise: bool = True,
        seeds: range = SEED_RANGES["train"],
    ):
        self._shows_graph = _one_of("observation", observation, ("graph", "flat")) == "graph"
        _one_of("action", action, ("flat", "pair"))
        self.reward = reward if isinstance(reward, Reward) else reward_named(reward)
        self.base_rule = RULES.index(_one_of("base_rule", base_rule, tuple(rule for rule in RULES if rule != "random")))
        self.sample = _sampler(workload, cluster, suite, suite_options or {})
        self.skip_forced, self.size, self.noise = skip_forced, size or ObservationSize(), noise
        self.seeds = _checked_seeds(seeds)
        self.n_vms = len(self.sample(self.seeds.start)[1])
        self.n_slots = self.size.slots if self._shows_graph else FLAT_SLOTS
        self.observation_space = self._graph_space() if self._shows_graph else self._flat_space()
        n_actions = self.n_slots * self.n_vms + 1
        self.action_space = (
            spaces.Discrete(n_actions) if action == "flat" else spaces.MultiDiscrete([self.n_slots, self.n_vms + 1])
        )
        self.simulator: Simulator | None = None

    # --- Gymnasium's interface ------------------------------------------------------------

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None):
        """Begin an episode; options={"instance": k} takes that instance instead of drawing one."""
        super().reset(seed=seed)
        instance = self.draw_instance(self.np_random)
        if options and "instance" in options:
            instance = int(options["instance"])
        self.simulator, self.instance = self.start(instance), instance
        problem = self.simulator.problem
        self._observer = Observer(problem.n, problem.v, problem.w, self.size)
        self._total_illegal, self._patience = 0, patience(problem.n)
        self._begin = self._measure()
        self._look()
        return self._seen(), self._info({})

    def draw_instance(self, rng: np.random.Generator) -> int:
        """One of the instances of `seeds`, all equally likely."""
        return self.seeds.start + int(rng.integers(len(self.seeds)))

    def start(self, instance: int) -> Simulator:
        """A simulator at the first decision of an instance; WorkflowError when it has another number of VMs."""
        workload, cluster = self.sample(instance)
        if len(cluster) != self.n_vms:
            raise WorkflowError(
                f"instance {instance} has {len(cluster)} VMs, but the environment was made for {self.n_vms}; "
                "all instances of one environment need the same number"
            )
        problem = Problem(workload, cluster)
        return Simulator(problem, duration_factors(workload, instance) if self.noise else np.ones(problem.n))

    def step(self, action):
        """Take one decision. Returns (observation, reward, terminated, truncated, info)."""
        if self.simulator is None or self.simulator.done:
            raise gymnasium.error.ResetNeeded("call reset before step: the episode has not begun or is over")
        before = self._begin
        placed = self._decode(action)
        if placed == "illegal":
            self._total_illegal += 1
        else:
            self._act(placed)
            self._go_on()
        self._begin = self._measure()
        terms = self.reward.parts(self._begin - before)
        done = self.simulator.done
        truncated = not done and self._total_illegal >= self._patience
        terms = {name: float(value) for name, value in terms.items()}
        return self._seen(), sum(terms.values()), done, truncated, self._info(terms)

    def action_masks(self) -> np.ndarray:
        """Legal actions as booleans, as sb3-contrib asks for them.

        "flat": one entry per action. "pair": slots, then VMs and wait, each alone, so a pair
        of two allowed parts can still be illegal; that is what a factored mask can say.
        """
        if isinstance(self.action_space, spaces.Discrete):
            return self._mask.astype(bool)
        pairs = self._mask[:-1].reshape(self.n_slots, self.n_vms).astype(bool)
        slots = pairs.any(axis=1)
        if self._mask[-1]:
            slots = np.ones(self.n_slots, bool)
        return np.concatenate([slots, pairs.any(axis=0), [bool(self._mask[-1])]])

    def decision_of(self, action: int) -> tuple[int, int] | None:
        """(task number, VM) that a flat action means in the present state, or None for waiting."""
        if action == len(self._mask) - 1:
            return None
        return int(self._slots[action // self.n_vms]), action % self.n_vms

    def action_of(self, decision: tuple[int, int] | None) -> int:
        """The flat action of (task number, VM), or of None for waiting; WorkflowError when the task has no slot."""
        if decision is None:
            return len(self._mask) - 1
        task, vm = decision
        slots = np.flatnonzero(self._slots == task)
        if task < 0 or not len(slots):
            raise WorkflowError(f"task {task} has no slot now; the slots hold {self._slots[self._slots >= 0].tolist()}")
        return int(slots[0]) * self.n_vms + int(vm)

    def _seen(self):
        """The last observation, as arrays of the caller's own."""
        seen = self._observation
        return {key: array.copy() for key, array in seen.items()} if self._shows_graph else seen.copy()

    # --- one step -------------------------------------------------------------------------

    def _decode(self, action) -> "tuple[int, int] | None | str":
        """(task, vm), None for waiting, or "illegal"."""
        if isinstance(self.action_space, spaces.Discrete):
            number = int(action)
        else:
            slot, vm = (int(part) for part in action)
            number = self.n_slots * self.n_vms if vm == self.n_vms else slot * self.n_vms + vm
        if not 0 <= number < len(self._mask) or not self._mask[number]:
            return "illegal"
        return self.decision_of(number)

    def _act(self, placed: tuple[int, int] | None) -> None:
        if placed is None:
            self.simulator.wait()
        else:
            self.simulator.place(*placed)

    def _go_on(self) -> None:
        """Look at the state; with `skip_forced`, act while there is nothing to choose."""
        self._look()
        while self.skip_forced and not self.simulator.done and self._mask.sum() == 1:
            self._act(self._decode_only())
            self._look()

    def _decode_only(self) -> tuple[int, int] | None:
        """What the only legal action means."""
        return self.decision_of(int(self._mask.argmax()))

    def _look(self) -> None:
        state = self.simulator.state
        if self._shows_graph:
            self._observation = {key: array.ravel() for key, array in self._observer.observe(state).items()}
            self._slots, self._mask = self._observer.candidates, self._observation["action_mask"].copy()
        else:
            self._slots = _first_unfinished(state)
            self._mask = _joint_mask(state, self._slots)
            self._observation = self._flat_observation(state)

    def _measure(self) -> Measures:
        """Totals since the start of the episode."""
        saved_s = -self._base_completion_s() if self.reward.needs_potential else 0.0
        return measures_of(self.simulator.state.sums, self._total_illegal, saved_s)

    def _base_completion_s(self) -> float:
        """Total completion time of all workflows if the base rule took over now, with the durations as drawn."""
        future = self.simulator if self.simulator.done else self.simulator.twin()
        if not future.done:
            future.run_rule(self.base_rule, np.zeros(1, np.uint64))
        return float(future.state.done_s.sum() - sum(future.problem.workload.arrivals_s))

    def _info(self, terms: dict[str, float]) -> dict[str, Any]:
        info: dict[str, Any] = {"action_mask": self._mask.copy(), "reward_terms": terms, "instance": self.instance}
        if self.simulator.done:
            schedule = self.simulator.schedule(scheduler="env", seed=self.instance)
            info |= {"schedule": schedule, "metrics": schedule.metrics()}
        return info

    # --- observations ---------------------------------------------------------------------

    def _graph_space(self) -> spaces.Dict:
        size, v = self.size, self.n_vms

        return spaces.Dict(
            {
                "task_x": _features(size.nodes * len(TASK_FEATURES)),
                "edges": spaces.Box(-1, size.nodes - 1, (size.edges * 2,), np.int64),
                "pair_x": _features(size.slots * v * len(PAIR_FEATURES)),
                "total_x": _features(len(TOTAL_FEATURES)),
                "action_mask": spaces.Box(0, 1, (size.slots * v + 1,), np.int8),
            }
        )

    def _flat_space(self) -> spaces.Box:
        length = 3 * self.n_vms + FLAT_TASK_FEATURES * FLAT_SLOTS + 1
        return spaces.Box(0.0, 1.0, (length,), np.float32)

    def _flat_observation(self, state: State) -> np.ndarray:
        """The article's vector: free shares per VM; per slot ready, parents, duration, priority, critical; time.

        Counts and seconds are divided as the article says (duration / 600, priority / 10,
        time / 3600), the number of parents, which the article leaves as it is, by 10, and
        everything is cut to [0, 1].
        """
        p = self.simulator.problem.views
        free = np.divide(state.free, p.capacity, out=np.zeros_like(p.capacity), where=p.capacity > 0)
        tasks = np.zeros((FLAT_SLOTS, FLAT_TASK_FEATURES))
        for slot, t in enumerate(self._slots[self._slots >= 0].tolist()):
            parents = p.parent_ptr[t + 1] - p.parent_ptr[t]
            tasks[slot] = (
                state.status[t] == READY, parents / 10, p.duration_s[t] / 600,
                p.priority[t] / 10, p.critical[t],
            )  # fmt: skip
        vector = np.concatenate([free.ravel(), tasks.ravel(), [state.now_s / 3600]])
        return np.clip(vector, 0.0, 1.0).astype(np.float32)


def patience(n_tasks: int) -> int:
    """How many illegal actions an episode of `n_tasks` bears before it is truncated."""
    return 5 * n_tasks + 100


def measures_of(sums: np.ndarray, illegal: float | np.ndarray, saved_s: float | np.ndarray) -> Measures:
    """Measures from the totals of one state (8,) or of several (b, 8)."""
    used_s = sums[..., layout.CPU_S : layout.BANDWIDTH_S + 1] @ np.array(UTILIZATION_WEIGHTS)
    plain = (layout.FINISHED, layout.LATE, layout.SPARE_S, layout.WAITED_S)
    finished, late, spare_s, waited_s = (sums[..., k] + 0.0 for k in plain)
    return Measures(finished, late, spare_s, waited_s, used_s, sums[..., layout.FLOW_S] + 0.0, illegal + 0.0, saved_s)


def _features(length: int) -> spaces.Box:
    return spaces.Box(-FEATURE_LIMIT, FEATURE_LIMIT, (length,), np.float32)


def _one_of(what: str, value: str, allowed: tuple[str, ...]) -> str:
    if value not in allowed:
        raise WorkflowError(f"unknown {what} {value!r}; choose one of {', '.join(allowed)}")
    return value


def _checked_seeds(seeds: range) -> range:
    if not isinstance(seeds, range) or seeds.step != 1 or seeds.start < 0 or len(seeds) == 0:
        raise WorkflowError(f"seeds must be a range of step 1 from at least 0, such as range(0, 100), got {seeds!r}")
    return seeds


def _sampler(workload, cluster, suite: str, options: dict[str, Any]) -> Sampler:
    if workload is None:
        if cluster is not None:
            raise WorkflowError("give the cluster together with a workload; the suites bring their own")
        return lambda seed: suite_case(suite, seed, **options)
    if isinstance(workload, Workload):
        chosen = cluster or Cluster.default()
        return lambda seed: (workload, chosen)
    if callable(workload):
        return workload
    raise WorkflowError(f"workload must be a Workload or a function of a seed, got {type(workload).__name__}")


def _first_unfinished(state: State) -> np.ndarray:
    """(50,) ready tasks as they became ready, then the other unfinished ones that have arrived; -1 behind the last.

    Ready ones first, so that a task that can start is always among them when nothing runs.
    """
    arrived = int(state.problem.views.workflow_ptr[state.arrived])
    others = np.flatnonzero((state.status[:arrived] != DONE) & (state.status[:arrived] != READY))
    open_tasks = np.concatenate([state.ready, others])[:FLAT_SLOTS]
    slots = np.full(FLAT_SLOTS, -1)
    slots[: len(open_tasks)] = open_tasks
    return slots


def _joint_mask(state: State, slots: np.ndarray) -> np.ndarray:
    """(slots x v + 1,) legal actions. A legal task without a slot can be reached by waiting only."""
    mask = np.zeros(len(slots) * state.n_vms + 1, np.int8)
    slot_of = {t: k for k, t in enumerate(slots.tolist()) if t >= 0}
    for t, v in state.legal_pairs().tolist():
        if t in slot_of:
            mask[slot_of[t] * state.n_vms + v] = 1
    mask[-1] = state.can_wait
    return mask
