"""What the shipped agents reach on instances that training and validation never met, beside the rules and controls.

The results lie in dataset/models/results, one CSV per trial with a row per instance and
scheduler, so that every ratio and its interval can be computed again. `evaluate` makes them.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from joblib import Parallel, delayed
from tqdm.auto import tqdm

from thesis_lib.agents import MODELS
from thesis_lib.cluster import Cluster
from thesis_lib.comparison import Ratio, paired_ratio
from thesis_lib.files import read_text, write_bytes
from thesis_lib.schedulers import make
from thesis_lib.simulator import simulate
from thesis_lib.workflow import WorkflowError
from thesis_lib.workload import suite_case

RESULTS = MODELS / "results"
COLUMNS = ("seed", "scheduler", "mean_completion_s")
_REMEDY = "run `python -m thesis_lib models --evaluate`"
_RULES = ("srw_patient", "srw", "heft_online", "heft")
_AGENTS = ("drl", "drl@stream-seed1", "drl@stream-seed2", "drl@stream-mlp", "drl@stream-ppo")
_SEARCHES = ("srw_patient", "srw", "drl", "srw_search", "drl_search", "randomized_list")
_LISTS = ("critical_path", "tetris", "sjf", "drl", "drl_search", "randomized_list", "randomized_list@320",
          "randomized_list@1024")  # fmt: skip


@dataclass(frozen=True)
class Trial:
    """One comparison on test instances first_seed, first_seed + 1, ...

    schedulers: names of `schedulers.make`; behind an @ stands the agent, or the number of lists.
    references: what ratios refer to, the most telling first.
    vms: more VMs than the three of the stream cluster, by repeating them; None leaves it as it is.
    """

    name: str
    suite: str
    options: Mapping[str, Any]
    instances: int
    first_seed: int
    schedulers: tuple[str, ...]
    references: tuple[str, ...]
    vms: int | None = None
    about: str = ""


TRIALS: tuple[Trial, ...] = (
    Trial("stream-k20", "stream", {"workflows": 20, "load": 0.9}, 200, 20_000, (*_RULES, *_AGENTS), _RULES[:3],
          about="20 workflows, load 0.9, the usual stream"),
    Trial("stream-k20-search", "stream", {"workflows": 20, "load": 0.9}, 100, 20_000, _SEARCHES,
          ("srw_search", "srw_patient", "srw", "drl"), about="the first 100 of the same streams, with search"),
    Trial("stream-k12", "stream", {"workflows": 12, "load": 0.85}, 200, 21_000, (*_RULES, *_AGENTS), _RULES[:3],
          about="12 workflows, load 0.85"),
    Trial("stream-k30", "stream", {"workflows": 30, "load": 0.85}, 100, 22_000, (*_RULES, *_AGENTS), _RULES[:3],
          about="30 workflows, load 0.85"),
    Trial("stream-5-vms", "stream", {"workflows": 20, "load": 0.9}, 100, 23_000, (*_RULES, *_AGENTS), _RULES[:3],
          vms=5, about="20 workflows on 5 VMs, load 0.9"),
    Trial("stream-100-vms", "stream", {"workflows": 20, "load": 0.9}, 10, 24_000, (*_RULES, "drl"), _RULES[:3], vms=100,
          about="20 workflows on 100 VMs, which they hardly fill"),
    *(Trial(f"thesis-{n}", "thesis", {"n_tasks": n}, 100, 25_000 + n * 100, _LISTS,
            ("critical_path", "randomized_list", "randomized_list@320"), about=f"one DAG of {n} tasks on one machine")
      for n in (20, 30, 50)),
)  # fmt: skip


def trial(name: str) -> Trial:
    """The trial of that name; WorkflowError with all names for another one."""
    for known in TRIALS:
        if known.name == name:
            return known
    raise WorkflowError(f"unknown trial {name!r}; choose one of {', '.join(t.name for t in TRIALS)}")


# --- reading ------------------------------------------------------------------------------


def completions_s(known: Trial, folder: Path = RESULTS) -> dict[str, np.ndarray]:
    """Mean completion time by scheduler, (k,) over the trial's k instances in order of their seeds.

    Raises WorkflowError when the table is missing or lacks an instance.
    """
    path = folder / f"{known.name}.csv"
    by_seed = _read(path)
    missing = [s for s in seeds_of(known) if any(name not in by_seed.get(s, {}) for name in known.schedulers)]
    if missing:
        raise WorkflowError(
            f"{path}: lacks {len(missing)} of {known.instances} instances, {missing[0]} first; {_REMEDY}"
        )
    return {name: np.array([by_seed[s][name] for s in seeds_of(known)]) for name in known.schedulers}


def seeds_of(known: Trial) -> range:
    """The seeds of a trial's instances."""
    return range(known.first_seed, known.first_seed + known.instances)


def ratios(known: Trial, reference: str, folder: Path = RESULTS) -> dict[str, Ratio]:
    """Paired ratio of every scheduler of the trial to one of them, with its interval."""
    values = completions_s(known, folder)
    return {name: paired_ratio(own, values[reference]) for name, own in values.items()}


def _read(path: Path) -> dict[int, dict[str, float]]:
    """seed -> scheduler -> mean completion time."""
    found: dict[int, dict[str, float]] = {}
    try:
        text = read_text(path)
    except WorkflowError as error:
        raise WorkflowError(f"{path}: {error}; {_REMEDY}") from None
    try:
        for row in csv.DictReader(io.StringIO(text)):
            found.setdefault(int(row["seed"]), {})[row["scheduler"]] = float(row["mean_completion_s"])
    except (KeyError, TypeError, ValueError) as error:
        raise WorkflowError(f"{path}: is no table of {', '.join(COLUMNS)} ({error}); remove it and {_REMEDY}") from None
    return found


# --- making -------------------------------------------------------------------------------


def evaluate(names: Iterable[str] | None = None, folder: Path = RESULTS, jobs: int = 1, afresh: bool = False) -> None:
    """Run the trials (all by default); what a table has already is not run again unless `afresh`.

    A table does not know which agents made it: after an agent was trained again, evaluate afresh.
    """
    for known in [trial(name) for name in names] if names is not None else TRIALS:
        path = folder / f"{known.name}.csv"
        done = {} if afresh or not path.exists() else _read(path)
        seeds = seeds_of(known)
        open_work = {s: [n for n in known.schedulers if n not in done.get(s, {})] for s in seeds}
        work = (delayed(_run)(known, seed, missing) for seed, missing in open_work.items() if missing)
        bar = tqdm(Parallel(n_jobs=jobs, return_as="generator")(work), desc=known.name, unit="instance",
                   total=sum(bool(missing) for missing in open_work.values()))  # fmt: skip
        for seed, values in bar:
            done.setdefault(seed, {}).update(values)
            _write(path, known, {s: done[s] for s in seeds if s in done})


def instance(known: Trial, seed: int):
    """(workload, cluster) of one instance of a trial."""
    if known.vms is None:
        return suite_case(known.suite, seed, **known.options)
    return suite_case(known.suite, seed, **known.options, cluster=_repeated(known.vms))


def _repeated(count: int) -> Cluster:
    """`count` VMs: those of the stream cluster again and again."""
    vms = Cluster.stream().vms
    return Cluster(tuple(replace(vms[i % len(vms)], id=i) for i in range(count)))


def _run(known: Trial, seed: int, names: list[str]) -> tuple[int, dict[str, float]]:
    workload, cluster = instance(known, seed)
    return seed, {n: simulate(_scheduler(n), workload, cluster, seed=seed).mean_completion_s for n in names}


def _scheduler(name: str):
    kind, _, option = name.partition("@")
    if not option:
        return make(kind)
    return make(kind, samples=int(option)) if kind == "randomized_list" else make(kind, model=option)


def _write(path: Path, known: Trial, found: Mapping[int, Mapping[str, float]]) -> None:
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(COLUMNS)
    for seed, row in found.items():
        writer.writerows((seed, name, f"{row[name]:.6f}") for name in known.schedulers if name in row)
    write_bytes(path, text.getvalue().encode(), make_folder=True)
