"""Compiled kernels: the state of a run, its events, the rules, learned policies, rollouts, and planning."""

from thesis_lib._kernels.compiling import cache_keyed_by_sources

with cache_keyed_by_sources():
    from thesis_lib._kernels import (
        episodes,
        events,
        network,
        observe,
        planning,
        policies,
        randomised,
        rollouts,
        rules,
        state,
    )

__all__ = [
    "episodes", "events", "network", "observe", "planning", "policies", "randomised", "rollouts", "rules", "state",
]  # fmt: skip
