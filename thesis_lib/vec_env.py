"""Many environments at once: every step of all of them is one call of compiled code.

`BatchedWorkflowEnv` is a stable-baselines3 VecEnv that behaves like a DummyVecEnv of
`CloudWorkflowEnv` with the same options and seeds, number by number, and is many times
faster. Importing it loads torch, as everything of stable-baselines3 does.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from gymnasium.utils import seeding
from stable_baselines3.common.vec_env import VecEnv

from thesis_lib._kernels import episodes
from thesis_lib._kernels import state as layout
from thesis_lib._kernels.compiling import python_form
from thesis_lib.env import CloudWorkflowEnv, measures_of, patience
from thesis_lib.generators import whole_number
from thesis_lib.observation import PAIR_FEATURES, TASK_FEATURES, TOTAL_FEATURES, cut
from thesis_lib.schedule import Schedule
from thesis_lib.simulator import Problem
from thesis_lib.workflow import WorkflowError


class BatchedWorkflowEnv(VecEnv):
    """`n_envs` environments with graph observations and flat actions, stepped together.

    The other options are those of `CloudWorkflowEnv`. A finished environment begins its next
    episode by itself; the step's info then holds `terminal_observation`, `schedule`,
    `metrics`, `instance` and `TimeLimit.truncated`.
    """

    def __init__(self, n_envs: int, **options: Any):
        whole_number(n_envs, "n_envs", 1)
        self._single = single = CloudWorkflowEnv(observation="graph", action="flat", **options)
        super().__init__(n_envs, single.observation_space, single.action_space)
        self.n_vms = single.n_vms
        self._rule = single.base_rule if single.reward.needs_potential else -1
        self._generators: list[np.random.Generator | None] = [None] * n_envs
        self._problems: list[Problem | None] = [None] * n_envs
        self._views: list[layout.StateViews | None] = [None] * n_envs
        self._instances, self._patience = np.zeros(n_envs, np.int64), np.zeros(n_envs, np.int64)
        self._illegal, self._total_illegal = np.zeros(n_envs, bool), np.zeros(n_envs)
        self._base_s, self._done = np.zeros(n_envs), np.zeros(n_envs, bool)
        self._rows: episodes.Rows | None = None
        self._spare: episodes.Spare | None = None

    # --- VecEnv's interface ---------------------------------------------------------------

    def reset(self) -> dict[str, np.ndarray]:
        """Begin an episode everywhere; `seed` before it fixes what is drawn."""
        for e in range(self.num_envs):
            if self._seeds[e] is not None or self._generators[e] is None:
                self._generators[e], _ = seeding.np_random(self._seeds[e])
            self._begin(e)
        self._reset_seeds()
        self._before = self._measure()
        return self._observations()

    def step_async(self, actions: np.ndarray) -> None:
        """Take note of one action per environment."""
        actions = np.asarray(actions)
        if actions.shape != (self.num_envs,) or actions.dtype.kind not in "iu":
            raise WorkflowError(
                f"step needs one whole number per environment, shape ({self.num_envs},); "
                f"got {actions.dtype} of shape {actions.shape}"
            )
        self._actions = actions.astype(np.int64)

    def step_wait(self):
        """Step all environments; returns observations, rewards (b,), dones (b,) and infos."""
        episodes.step_rows(self._rows, self._spare, self._actions, self._single.skip_forced, self._rule,
                           self._illegal, self._base_s, self._done)  # fmt: skip
        self._total_illegal += self._illegal
        now = self._measure()
        rewards = np.asarray(self._single.reward.value(now - self._before), dtype=np.float32)
        truncated = ~self._done & (self._total_illegal >= self._patience)
        over = self._done | truncated
        infos: list[dict[str, Any]] = [{} for _ in range(self.num_envs)]
        if over.any():
            ends = self._observations()
            for e in np.flatnonzero(over).tolist():
                infos[e] = self._last_info(e, bool(truncated[e]))
                infos[e]["terminal_observation"] = {key: array[e].copy() for key, array in ends.items()}
                self._begin(e)
            now = self._measure()
        self._before = now
        return self._observations(), rewards, over, infos

    def action_masks(self) -> np.ndarray:
        """(b, actions) legal actions as booleans."""
        return self._rows.mask.astype(bool)

    def base_actions(self) -> np.ndarray:
        """(b,) the action that the base rule would take now, -1 where what it would place has no slot."""
        actions = np.empty(self.num_envs, np.int64)
        episodes.base_actions(self._rows, self._single.base_rule, actions)
        return actions

    def env_method(self, method_name: str, *args, indices=None, **kwargs) -> list[Any]:
        """Only `action_masks` can be asked of the environments, which do not exist one by one."""
        if method_name != "action_masks":
            raise AttributeError(f"a batched environment has no method {method_name!r} of its own")
        masks = self.action_masks()
        return [masks[e] for e in self._get_indices(indices)]

    def get_attr(self, attr_name: str, indices=None) -> list[Any]:
        """An attribute of the environment that all of them are like."""
        return [getattr(self._single, attr_name) for _ in self._get_indices(indices)]

    def set_attr(self, attr_name: str, value: Any, indices=None) -> None:
        """Not possible: the environments do not exist one by one."""
        raise AttributeError(f"attributes of a batched environment cannot be set ({attr_name!r})")

    def env_is_wrapped(self, wrapper_class, indices=None) -> list[bool]:
        """No environment is wrapped."""
        return [False for _ in self._get_indices(indices)]

    def close(self) -> None:
        """Nothing to close."""

    # --- one environment ------------------------------------------------------------------

    def _begin(self, e: int) -> None:
        """Draw environment e's next instance, as `CloudWorkflowEnv.reset` does, and write its row."""
        instance = self._single.draw_instance(self._generators[e])
        simulator = self._single.start(instance)
        problem = simulator.problem
        self._make_room(problem)
        for row, buffer in zip(self._rows, simulator.buffers):
            row[e, : len(buffer)] = buffer
        self._rows.place_of[e] = -1
        self._problems[e], self._instances[e] = problem, instance
        self._patience[e], self._total_illegal[e], self._done[e] = patience(problem.n), 0, False
        self._views[e] = python_form(layout.state_views)(problem.views, self._rows.si[e], self._rows.sf[e])
        episodes.observe_row(self._rows, e)
        if self._rule >= 0:
            self._base_s[e] = episodes.base_completion_s(self._rows, self._spare, e, self._rule)

    def _make_room(self, problem: Problem) -> None:
        """Let the rows grow to what the problem needs; what they hold stays."""
        n, v, w = problem.n, problem.v, problem.w
        hidden = layout.hidden_sizes(n)
        wanted = (len(problem.pi), len(problem.pf), *layout.state_sizes(n, v, w, problem.has_data), *hidden)
        old = self._rows
        if old is not None and all(row.shape[1] >= size for row, size in zip((*old[:6], old.place_of, old.rest_s),
                                                                             (*wanted, n, w))):  # fmt: skip
            return
        have = [0] * 8 if old is None else [row.shape[1] for row in (*old[:6], old.place_of, old.rest_s)]
        sizes = [max(a, b) for a, b in zip(have, (*wanted, n, w))]
        self._rows = self._allocate(v, sizes)
        self._spare = episodes.Spare(*(np.zeros(size, row.dtype) for size, row in zip(sizes[2:6], self._rows[2:6])))
        if old is not None:
            for new_row, old_row in zip(self._rows, old):
                new_row[tuple(slice(0, k) for k in old_row.shape)] = old_row
            self._rows.place_of[:] = -1
            for e, known in enumerate(self._problems):
                if known is not None:
                    rows = self._rows
                    self._views[e] = python_form(layout.state_views)(known.views, rows.si[e], rows.sf[e])

    def _allocate(self, v: int, sizes: list[int]) -> episodes.Rows:
        b, size = self.num_envs, self._single.size
        integers, floats = np.int64, np.float64
        buffers = [
            np.zeros((b, length), kind)
            for length, kind in zip(sizes, (integers, floats, integers, floats, integers, floats))
        ]
        return episodes.Rows(
            *buffers,
            candidates=np.full((b, size.slots), -1),
            nodes=np.full((b, size.nodes), -1),
            edges=np.full((b, size.edges, 2), -1),
            task_x=np.zeros((b, size.nodes, len(TASK_FEATURES))),
            pair_x=np.zeros((b, size.slots, v, len(PAIR_FEATURES))),
            total_x=np.zeros((b, len(TOTAL_FEATURES))),
            mask=np.zeros((b, size.slots * v + 1), np.int8),
            place_of=np.full((b, sizes[6]), -1),
            rest_s=np.zeros((b, sizes[7])),
            rng=np.zeros(1, np.uint64),
        )

    # --- all environments -----------------------------------------------------------------

    def _measure(self):
        """Totals of every environment since its episode began, as arrays (b,)."""
        sums = np.array([view.sums for view in self._views])
        return measures_of(sums, self._total_illegal, -self._base_s if self._rule >= 0 else 0.0)

    def _observations(self) -> dict[str, np.ndarray]:
        rows, b = self._rows, self.num_envs
        return {
            "task_x": cut(rows.task_x).reshape(b, -1),
            "edges": rows.edges.reshape(b, -1).copy(),
            "pair_x": cut(rows.pair_x).reshape(b, -1),
            "total_x": cut(rows.total_x),
            "action_mask": rows.mask.copy(),
        }

    def _last_info(self, e: int, truncated: bool) -> dict[str, Any]:
        info: dict[str, Any] = {"instance": int(self._instances[e]), "TimeLimit.truncated": truncated}
        if not truncated:
            s, problem = self._views[e], self._problems[e]
            columns = (s.vm.copy(), s.ready_s.copy(), s.start_s.copy(), s.finish_s.copy())
            schedule = Schedule(problem.workload, problem.cluster, *columns, scheduler="env", seed=info["instance"],
                                duration_factor=self._rows.hf[e, : problem.n].copy())  # fmt: skip
            info |= {"schedule": schedule, "metrics": schedule.metrics()}
        return info
