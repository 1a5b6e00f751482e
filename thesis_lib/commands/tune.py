"""`tune`: search for good training settings with short runs."""

from __future__ import annotations

import argparse
from pathlib import Path

from thesis_lib.commands.output import note, print_json, print_table
from thesis_lib.commands.train import add_config, read_config

NAME, HELP = "tune", "search for good training settings: random trials, each a short training run"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments of the command."""
    add_config(parser)
    parser.add_argument(
        "--trials", type=int, default=128, metavar="N", help="number of trials (default 128, some hours)"
    )
    parser.add_argument("--steps", type=int, default=100_000, metavar="N", help="PPO steps of a trial (default 100000)")
    parser.add_argument("--engine", default="local", metavar="NAME", help="local (default), or ray, if it is installed")
    parser.add_argument("--jobs", type=int, metavar="N", help="trials at the same time (default: one per core)")
    parser.add_argument("--out", metavar="DIR", help="folder for trials and best settings (default: runs/NAME-tuning)")
    parser.add_argument("--resume", action="store_true", help="go on with the trials in that folder")
    parser.add_argument("--json", action="store_true", help="print one JSON object")


def run(arguments: argparse.Namespace) -> None:
    """Run the trials and print the best settings."""
    from tqdm.auto import tqdm

    from thesis_lib import tuning

    base = read_config(arguments)
    out = Path(arguments.out or f"runs/{base.name}-tuning")
    ratios: list[float] = []

    # Delayed, so that a refusal is one line without a bar above it.
    with tqdm(total=arguments.trials, desc="trials", unit="trial", delay=0.5) as bar:

        def report(trial: tuning.Trial) -> None:
            ratios.extend([] if trial.ratio is None else [trial.ratio])
            bar.set_postfix_str(f"best ratio {min(ratios):.3f}" if ratios else "", refresh=False)
            bar.update()

        try:
            result = tuning.tune(
                base, out, arguments.trials, steps=arguments.steps, engine=arguments.engine, jobs=arguments.jobs,
                resume=arguments.resume, report=report,
            )  # fmt: skip
        except KeyboardInterrupt:
            note(f"stopped; the finished trials are in {out / tuning.TRIALS_FILE}; add --resume to go on")
            raise
    failed = sum(trial.ratio is None for trial in result.trials)
    found = {name: getattr(result.config, name) for name in tuning.SPACE}
    summary = {
        "trials": len(result.trials),
        "failed": failed,
        "trial_0_ratio": result.trials[0].ratio,
        "best_trial": result.best.number,
        "best_ratio": result.best.ratio,
        "config_file": str(result.config_file),
    }
    if arguments.json:
        print_json({**summary, "settings": found})
        return
    print_table([*summary.items(), *found.items()])
    note(f"a full run with them: python -m thesis_lib train --config {result.config_file} --out runs/tuned")
