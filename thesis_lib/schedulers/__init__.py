"""All schedulers by name: `make("heft")`, `names()`."""

from __future__ import annotations

from collections.abc import Callable

from thesis_lib.schedulers.base import Plan, Scheduler

__all__ = ["Plan", "Scheduler", "make", "names"]


def _rule(name: str) -> Callable[..., Scheduler]:
    def build(**options: object) -> Scheduler:
        from thesis_lib.schedulers.rules import Rule

        if options:
            raise TypeError("it has no options")
        return Rule(name)

    return build


def _fcfs(backfill: bool = False) -> Scheduler:
    from thesis_lib.schedulers.rules import fcfs

    return fcfs(backfill)


def _lazy(module: str, cls: str) -> Callable[..., Scheduler]:
    def build(**options: object) -> Scheduler:
        from importlib import import_module

        return getattr(import_module(f"thesis_lib.schedulers.{module}"), cls)(**options)

    return build


# name -> (what it does, how it is built)
_SCHEDULERS: dict[str, tuple[str, Callable[..., Scheduler]]] = {
    "random": ("any legal (task, VM) pair, all equally likely", _rule("random")),
    "fcfs": ("first come, first served; the head of the queue blocks (option: backfill)", _fcfs),
    "sjf": ("shortest mean duration first", _rule("sjf")),
    "tetris": ("packing: demand and free capacity that align best", _rule("tetris")),
    "critical_path": ("list scheduling: largest upward rank first, on the VM it fills best", _rule("critical_path")),
    "srw": ("the workflow with the shortest remaining work first", _rule("srw")),
    "srw_patient": ("srw that passes over a task which would finish earlier on a busy VM", _rule("srw_patient")),
    "heft": ("plan: upward rank, earliest finish with insertion, all capacities", _lazy("heft", "Heft")),
    "heft_single": ("plan: textbook HEFT, one task per VM at a time", _lazy("heft", "HeftSingle")),
    "heft_online": ("re-decides at every event: largest upward rank, earliest finish", _rule("heft_online")),
    "heft_patient": ("heft_online that waits for a busy VM where that finishes earlier", _rule("heft_patient")),
    "cpop": ("plan: the critical path on one VM", _lazy("cpop", "Cpop")),
    "peft": ("plan: optimistic cost table", _lazy("peft", "Peft")),
    "randomized_list": (
        "the best of many lists with randomised ranks, on mean durations (options: samples, spread)",
        _lazy("randomized_list", "RandomizedList"),
    ),
    "srw_search": (
        "srw_patient improved by rollouts in sampled futures (options: base, k, futures, z, later)",
        _lazy("rollout_search", "srw_search"),
    ),
    "drl_search": (
        "a trained agent improved by search (options: model, k, futures, z, samples, lists, temperature)",
        _lazy("learned_search", "DrlSearch"),
    ),
    "optimal": ("plan: CP-SAT on mean durations with a time limit and a proved bound", _lazy("optimal", "Optimal")),
    "drl": ("a trained agent that scores every (task, VM) pair (option: model)", _lazy("learned", "Drl")),
}


def names() -> list[str]:
    """Names that `make` accepts."""
    return list(_SCHEDULERS)


def describe(name: str) -> str:
    """One line on what the scheduler does."""
    return _entry(name)[0]


def make(name: str, **options: object) -> Scheduler:
    """Build the scheduler `name`; ValueError with all names for an unknown one or unknown options."""
    build = _entry(name)[1]
    try:
        return build(**options)
    except TypeError as error:
        if not options:
            raise
        raise ValueError(f"scheduler {name!r} does not take {', '.join(options)}: {error}") from error


def _entry(name: str) -> tuple[str, Callable[..., Scheduler]]:
    if name not in _SCHEDULERS:
        raise ValueError(f"unknown scheduler {name!r}; choose one of {', '.join(_SCHEDULERS)}")
    return _SCHEDULERS[name]
