"""Search for good PPO settings: random trials over short runs, on one machine or on a Ray cluster.

Random search, Bergstra and Bengio, "Random search for hyper-parameter optimization", JMLR 13,
2012. Trial 0 is the given settings themselves, so the winner is never worse than they are.
Trial k depends on the settings and on k alone: every engine, number of processes and order
gives the same trials. The score is the ratio to the problem's strongest rule on validation
instances. The best of many trials looks better than it is, so confirm it with a full run on
test instances.
"""

from __future__ import annotations

import csv
import io
import math
import tempfile
import time
from collections.abc import Callable, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from thesis_lib.files import read_text, writable_folder, write_bytes
from thesis_lib.generators import whole_number
from thesis_lib.train_config import TrainConfig
from thesis_lib.tuning_engines import ENGINES
from thesis_lib.workflow import WorkflowError

TRIALS_FILE, BASE_FILE, BEST_FILE = "trials.csv", "base.yaml", "best.yaml"
TRIAL_STEPS = 100_000  # of PPO, a minute or two of one core on streams
TRIAL_INSTANCES = 100  # validation instances of a trial
_TRIAL_STREAM = 7700  # first word of the random streams that draw the trials

Objective = Callable[[TrainConfig], float]


# --- what is searched ---------------------------------------------------------------------


@dataclass(frozen=True)
class LogUniform:
    """A number whose logarithm is uniform, rounded to three digits."""

    low: float
    high: float

    def draw(self, rng: np.random.Generator) -> float:
        """One number in [low, high]."""
        return float(f"{math.exp(rng.uniform(math.log(self.low), math.log(self.high))):.3g}")


@dataclass(frozen=True)
class Choice:
    """One of some values, all equally likely."""

    values: tuple

    def draw(self, rng: np.random.Generator) -> Any:
        """One of the values."""
        return self.values[int(rng.integers(len(self.values)))]


# setting -> what is drawn; the values of the article and of stream.yaml are among them
SPACE: dict[str, LogUniform | Choice] = {
    "learning_rate": LogUniform(1e-4, 1e-2),  # below 5e-4 a short run hardly moves
    "entropy": LogUniform(1e-4, 3e-2),  # the article: below .005 it converges too early, above .02 it oscillates
    "rollout_length": Choice((64, 128, 200, 256, 512)),  # short ones update often, long ones see whole episodes
    "minibatch_size": Choice((64, 256, 1024)),  # small ones are slow and noisy; at most the batch
    "epochs": Choice((2, 4, 6, 10)),  # how often each step is used
    "clip": Choice((0.1, 0.2, 0.3)),  # how far one update may go
    "value_clip": Choice((None, 0.2, 1.0, 10.0)),  # None: any
    "gamma": Choice((0.9, 0.97, 0.99, 0.997, 1.0)),  # per decision: 0.9 looks about 10 decisions ahead, 0.99 100
    "gae_lambda": Choice((0.5, 0.8, 0.9, 0.95)),  # how far advantages trust rewards rather than the critic
}  # fmt: skip


def trial_settings(base: TrainConfig, number: int) -> TrainConfig:
    """The settings of trial `number`, for a run of full length; number 0 gives `base` itself."""
    if whole_number(number, "trial", 0) == 0:
        return base
    rng = np.random.default_rng([_TRIAL_STREAM, base.seed, number])
    drawn = {name: setting.draw(rng) for name, setting in SPACE.items()}
    drawn["minibatch_size"] = min(drawn["minibatch_size"], base.n_envs * drawn["rollout_length"])
    return replace(base, **drawn)


def short_run(config: TrainConfig, steps: int = TRIAL_STEPS) -> TrainConfig:
    """The same for a trial: fewer steps, no distillation, one validation at the end."""
    return replace(
        config,
        total_steps=min(steps, config.total_steps),
        distill_rounds=0,
        validation_streams=min(TRIAL_INSTANCES, config.validation_streams),
        curve_streams=1,
        validate_every=10 * steps,
    )


def training_ratio(config: TrainConfig) -> float:
    """Train in a folder that is removed afterwards; the validation ratio to the problem's strongest rule.

    One thread only, so that processes side by side neither disturb nor change each other.
    """
    import torch

    from thesis_lib.training import load_agent, train
    from thesis_lib.training_log import REFERENCES

    torch.set_num_threads(1)
    with tempfile.TemporaryDirectory(prefix="thesis-trial-", ignore_cleanup_errors=True) as folder:
        agent = load_agent(train(config, folder, progress=False))
    return float(agent.meta["training"]["validation_ppo"][f"validation_ratio_{REFERENCES[config.problem][0]}"])


# --- trials and their file ---------------------------------------------------------------------


@dataclass(frozen=True)
class Trial:
    """One trial that has run. ratio: what the objective gave, lower is better, None when it failed; error: why."""

    number: int
    ratio: float | None
    seconds: float
    error: str = ""


@dataclass(frozen=True)
class Tuning:
    """What a search found: every trial by number, the best settings, and the file that holds them."""

    trials: tuple[Trial, ...]
    best: Trial
    config: TrainConfig
    config_file: Path


def run_trial(objective: Objective, base: TrainConfig, steps: int, number: int) -> Trial:
    """Run one trial. One that breaks down (NaN, say) has failed; what not even trial 0 can do is bad input."""
    start_s, error = time.perf_counter(), ""
    try:
        ratio = float(objective(short_run(trial_settings(base, number), steps)))
        error = "" if math.isfinite(ratio) else f"the ratio is {ratio}"
    except (ArithmeticError, RuntimeError, ValueError) as fault:
        if number == 0 and isinstance(fault, WorkflowError):
            raise
        ratio, error = math.nan, f"{type(fault).__name__}: {' '.join(str(fault).split())[:200]}"
    return Trial(number, None if error else ratio, round(time.perf_counter() - start_s, 1), error)


COLUMNS = ("trial", "ratio", "seconds", *SPACE, "error")


def trials_text(base: TrainConfig, trials: Sequence[Trial]) -> str:
    """The CSV file: one line per trial, in order of their numbers."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(COLUMNS)
    for trial in sorted(trials, key=lambda trial: trial.number):
        ratio = "" if trial.ratio is None else repr(trial.ratio)
        writer.writerow([trial.number, ratio, trial.seconds, *_drawn(base, trial.number), trial.error])
    return text.getvalue()


def read_trials(path: Path, base: TrainConfig) -> list[Trial]:
    """What `trials_text` wrote; WorkflowError naming the line that is damaged or drawn otherwise."""
    try:
        rows = list(csv.reader(io.StringIO(read_text(path))))
        if not rows or tuple(rows[0]) != COLUMNS:
            raise WorkflowError(f"line 1 must be {','.join(COLUMNS)}; choose another folder with --out")
        trials = [_read_row(row, base, line) for line, row in enumerate(rows[1:], start=2)]
        if len({trial.number for trial in trials}) < len(trials):
            raise WorkflowError("a trial occurs twice; keep one of its lines")
    except (WorkflowError, csv.Error) as error:
        raise WorkflowError(f"{path}: {error}") from None
    return trials


def _read_row(row: list[str], base: TrainConfig, line: int) -> Trial:
    try:
        number, ratio, seconds, *drawn, error = row
        trial = Trial(int(number), float(ratio) if ratio else None, float(seconds), error)
        ok = trial.number >= 0 and (error if trial.ratio is None else math.isfinite(trial.ratio))
    except ValueError:
        ok = False
    if not ok:
        raise WorkflowError(f"line {line} is damaged; remove it, and its trial is run again")
    if drawn != _drawn(base, trial.number):
        raise WorkflowError(f"line {line} was drawn from other settings; choose another folder with --out")
    return trial


def _drawn(base: TrainConfig, number: int) -> list[str]:
    settings = trial_settings(base, number)
    return ["null" if getattr(settings, name) is None else str(getattr(settings, name)) for name in SPACE]


# --- the search -------------------------------------------------------------------------------


def tune(
    base: TrainConfig,
    out: str | Path,
    trials: int = 128,
    *,
    steps: int = TRIAL_STEPS,
    engine: str = "local",
    jobs: int | None = None,
    resume: bool = False,
    objective: Objective = training_ratio,
    report: Callable[[Trial], None] = lambda trial: None,
) -> Tuning:
    """Run the trials that are not in `out` yet and write the best settings to `out`/best.yaml.

    base: settings of a full run; what SPACE names is drawn, the rest stays.
    steps: PPO steps of a trial.
    engine, jobs: "local" (processes) or "ray"; trials at the same time, None = one per core.
    resume: go on with the trials in `out`. Finished ones are never run again, failed ones are.
    objective: settings -> ratio, lower is better; it must be importable or picklable.
    report: called with each trial that is kept, and with each new one as it ends.

    Every trial is in `out`/trials.csv as soon as it ends, so Ctrl-C loses only those that run.
    Raises WorkflowError for bad input, that of trial 0 too, and when every trial failed.
    """
    whole_number(trials, "trials", 1)
    whole_number(steps, "steps", 1)
    if jobs is not None:
        whole_number(jobs, "jobs", 1)
    if engine not in ENGINES:
        raise WorkflowError(f"unknown engine {engine!r}; choose one of {', '.join(ENGINES)}")
    out = Path(out)
    done = {trial.number: trial for trial in _earlier_trials(base, out, steps, resume)}
    open_numbers = [k for k in range(trials) if k not in done or done[k].ratio is None]
    start = ENGINES[engine]() if open_numbers else None  # a missing engine is an error before files are written
    for number in sorted(done.keys() - set(open_numbers)):
        report(done[number])
    writable_folder(out)
    write_bytes(out / BASE_FILE, _identity(base, steps).encode())
    if start is not None:
        with closing(start(partial(run_trial, objective, base, steps), open_numbers, jobs)) as ended:
            for trial in ended:
                done[trial.number] = trial
                write_bytes(out / TRIALS_FILE, trials_text(base, list(done.values())).encode())
                report(trial)
    return _result(base, out, [done[k] for k in sorted(done)])


def _earlier_trials(base: TrainConfig, out: Path, steps: int, resume: bool) -> list[Trial]:
    """The trials in the folder; WorkflowError when there are some without `resume`, or of another search."""
    if not (out / TRIALS_FILE).exists():
        if resume and not (out / BASE_FILE).exists():
            raise WorkflowError(
                f"{out}: holds no trials to resume; name their folder with --out, or leave out --resume"
            )
        return []
    if not resume:
        raise WorkflowError(f"{out / TRIALS_FILE}: holds trials; go on with --resume or choose another folder")
    if read_text(out / BASE_FILE) != _identity(base, steps):
        raise WorkflowError(f"{out / BASE_FILE}: the trials there are of other settings; choose another folder")
    return read_trials(out / TRIALS_FILE, base)


def _identity(base: TrainConfig, steps: int) -> str:
    return f"# tuning, {steps} steps per trial, starts from\n{base.to_yaml()}"


def _result(base: TrainConfig, out: Path, trials: list[Trial]) -> Tuning:
    finished = [trial for trial in trials if trial.ratio is not None]
    if not finished:
        raise WorkflowError(f"{out / TRIALS_FILE}: all {len(trials)} trials failed, the first with: {trials[0].error}")
    best = min(finished, key=lambda trial: (trial.ratio, trial.number))
    config = trial_settings(base, best.number)
    head = f"# trial {best.number} of {len(trials)}: validation ratio {best.ratio:.4f}\n\n"
    path = write_bytes(out / BEST_FILE, (head + config.to_yaml()).encode())
    return Tuning(tuple(trials), best, config, path)
