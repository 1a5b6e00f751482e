"""How fast the simulator and the planners are on this machine."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Iterator
from time import perf_counter, process_time

import numpy as np

from thesis_lib.cluster import VM, Cluster
from thesis_lib.generators import layered
from thesis_lib.schedulers import make
from thesis_lib.schedulers.base import Scheduler
from thesis_lib.schedulers.rules import Rule
from thesis_lib.simulator import Problem, Simulator
from thesis_lib.workload import Workload, duration_factors

TASKS = (50, 200, 1000, 10_000)
RULES = ("random", "fcfs", "sjf", "tetris", "critical_path", "srw", "srw_patient", "heft_online", "heft_patient")


def sixteen_vms() -> Cluster:
    """16 VMs of 16 cores, 96 GB and 20 Gbit/s, with four speeds."""
    return Cluster(tuple(VM(i, 16, 96, 20, speed=1 + 0.1 * (i % 4)) for i in range(16)), name="16 VMs")


def median_s(once: Callable[[], float], repeats: int) -> float:
    """Median of the seconds that `once` reports, after one call that warms the compiler up."""
    once()
    return statistics.median(once() for _ in range(repeats))


def _run_s(scheduler: Scheduler, problem: Problem, whole: bool) -> float:
    """Seconds of one run: wholly in kernels, or step by step through the interface."""
    simulator = Simulator(problem, duration_factors(problem.workload, 0))
    scheduler.reset(problem.workload, problem.cluster, 0)
    began = perf_counter()
    scheduler.run(simulator) if whole else Scheduler.run(scheduler, simulator)
    return perf_counter() - began


def rule_rates(repeats: int = 5) -> Iterator[tuple[str, int, float, float]]:
    """(rule, tasks, tasks placed per second in kernels, milliseconds step by step) on layered DAGs, 16 VMs."""
    for n_tasks in TASKS:
        workload = Workload.single(layered(n_tasks, max_out=3, alpha=1.0, beta=1.0, seed=1))
        problem = Problem(workload, sixteen_vms())
        for name in RULES:
            rule = Rule(name)
            kernel_s = median_s(lambda: _run_s(rule, problem, whole=True), repeats)  # noqa: B023
            steps_s = median_s(lambda: _run_s(rule, problem, whole=False), repeats)  # noqa: B023
            yield name, n_tasks, n_tasks / kernel_s, 1000 * steps_s


def plan_ms(name: str, n_tasks: int = 1000, n_vms: int = 10, repeats: int = 5) -> float:
    """Milliseconds that a planner takes for a layered DAG of `n_tasks` on `n_vms` VMs."""
    workload = Workload.single(layered(n_tasks, max_out=3, alpha=1.0, beta=1.0, seed=1))
    cluster = Cluster(sixteen_vms().vms[:n_vms])
    planner = make(name)

    def once() -> float:
        began = perf_counter()
        planner.plan(workload, cluster)
        return perf_counter() - began

    return 1000 * median_s(once, repeats)


# --- environments ---------------------------------------------------------------------------

ENV_WORKFLOWS, ENV_LOAD, BASE_SHARE = 12, 0.85, 0.8


def env_rates(reward: str, n_envs: int = 16, steps: int = 200) -> tuple[float, float]:
    """(batched, one by one) decisions per second of CPU time of `n_envs` environments on streams.

    The first is a `BatchedWorkflowEnv`, the second a DummyVecEnv of the same environments with the same seeds.
    Four of five actions are the base rule's, the others are drawn, about as in training.
    """
    from stable_baselines3.common.vec_env import DummyVecEnv

    from thesis_lib.env import CloudWorkflowEnv
    from thesis_lib.vec_env import BatchedWorkflowEnv

    options = {"suite": "stream", "suite_options": {"workflows": ENV_WORKFLOWS, "load": ENV_LOAD}, "reward": reward}
    batched = BatchedWorkflowEnv(n_envs, **options)
    single = DummyVecEnv([lambda: CloudWorkflowEnv(**options) for _ in range(n_envs)])
    actions = _actions(batched, steps)
    return tuple(n_envs * steps / _steps_s(env, actions) for env in (batched, single))


def _actions(env, steps: int) -> np.ndarray:
    """(steps, b) legal actions of one walk through `env`, which the same seeds meet again."""
    rng, taken = np.random.default_rng(0), []
    env.seed(0)
    env.reset()
    for _ in range(steps):
        base, masks = env.base_actions(), env.action_masks()
        drawn = np.array([rng.choice(np.flatnonzero(mask)) for mask in masks])
        taken.append(np.where((rng.random(len(base)) < BASE_SHARE) & (base >= 0), base, drawn))
        env.step(taken[-1])
    return np.array(taken)


def _steps_s(env, actions: np.ndarray) -> float:
    """Seconds of CPU time for taking `actions` once the kernels are compiled."""
    env.seed(0)
    env.reset()
    env.step(actions[0])
    env.seed(0)
    env.reset()
    began = process_time()
    for row in actions:
        env.step(row)
    return process_time() - began
