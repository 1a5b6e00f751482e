"""`train`: train an agent as a settings file says."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING

from thesis_lib.commands.output import note, print_json
from thesis_lib.files import refuse_target, writable_folder
from thesis_lib.generators import whole_number
from thesis_lib.workflow import WorkflowError

if TYPE_CHECKING:
    from thesis_lib.train_config import TrainConfig

MOST_JOBS = 4  # processes, unless the user wants more: each one loads torch
NAME, HELP = "train", "train an agent; the settings are explained in dataset/configs/stream.yaml"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments of the command."""
    add_config(parser)
    parser.add_argument("--out", metavar="DIR", help="folder for agent, checkpoint and curve (default: runs/NAME)")
    parser.add_argument("--resume", action="store_true", help="go on with the run in that folder where it stopped")
    parser.add_argument(
        "--jobs", type=int, metavar="N", help="processes that label decisions (default: one per core, at most 4)"
    )
    parser.add_argument("--json", action="store_true", help="print one JSON object")


def add_config(parser: argparse.ArgumentParser) -> None:
    """The options that state the settings."""
    parser.add_argument("--config", metavar="FILE", help="YAML file of settings (default: streams, as in stream.yaml)")
    parser.add_argument(
        "--set", action="append", default=[], dest="changes", metavar="KEY=VALUE",
        help="change one setting; may be given several times",
    )  # fmt: skip


def run(arguments: argparse.Namespace) -> None:
    """Train and say where the agent is; everything that can be refused is refused before it begins."""
    config = read_config(arguments)
    jobs = None if arguments.jobs is None else whole_number(arguments.jobs, "--jobs", 1)
    out = Path(arguments.out or f"runs/{config.name}")
    if arguments.resume and not arguments.config and not arguments.changes:
        config = only_run(out)
    else:
        refuse_other_run(config, out)
    if not arguments.resume:
        refuse_unfinished_run(config, out)
    for file in (f"{config.name}.npz", f"{config.name}.yaml"):
        refuse_target(out / file, make_folder=True)
    writable_folder(out)
    import joblib

    from thesis_lib.training import train  # loads torch, so only now

    jobs = jobs or min(joblib.cpu_count(), MOST_JOBS)
    try:
        agent = train(config, out, resume=arguments.resume, progress=True, jobs=jobs)
    except KeyboardInterrupt:
        note(f"stopped; to go on: python -m thesis_lib train --resume --out {out}")
        raise
    if arguments.json:
        print_json({"agent": str(agent), "out": str(out), "config": config.as_dict()})
    else:
        print(f"agent  {agent}")


def read_config(arguments: argparse.Namespace) -> "TrainConfig":
    """The settings of --config, or the default, changed by --set."""
    from thesis_lib.train_config import TrainConfig

    config = TrainConfig() if arguments.config is None else TrainConfig.from_yaml(arguments.config)
    return config.with_changes(arguments.changes)


def only_run(out: Path) -> "TrainConfig":
    """The settings of the one run in `out`, which training writes to NAME.yaml beside NAME.state.npz."""
    from thesis_lib.train_config import TrainConfig

    states = sorted(out.glob("*.state.npz")) if out.is_dir() else []
    files = [str(state).removesuffix(".state.npz") + ".yaml" for state in states]
    if not files:
        raise WorkflowError(f"{out}: holds no run to resume; name its folder with --out, or start without --resume")
    if len(files) > 1:
        raise WorkflowError(f"{out}: holds {len(files)} runs; choose one with --config: {', '.join(files)}")
    return TrainConfig.from_yaml(files[0])


def refuse_other_run(config: "TrainConfig", out: Path) -> None:
    """Raise WorkflowError when `out` holds a run of that name with other settings, which would be overwritten."""
    from thesis_lib.train_config import TrainConfig

    file = out / f"{config.name}.yaml"
    if file.is_file() and (changed := TrainConfig.from_yaml(file).differences(config)):
        raise WorkflowError(
            f"{file}: this run has other settings ({changed}); choose another --out, or --set name=NAME"
        )


def refuse_unfinished_run(config: "TrainConfig", out: Path) -> None:
    """Raise WorkflowError when `out` holds a run of that name that --resume can go on with; it would be deleted."""
    state = out / f"{config.name}.state.npz"
    if not state.exists():
        return
    from thesis_lib.checkpoints import read_arrays  # loads torch, so only now
    from thesis_lib.observation import FEATURE_VERSION

    try:
        about = read_arrays(state)[1]
    except WorkflowError:
        return  # damaged: nothing can go on from it
    if about.get("stage", "done") != "done" and about.get("feature_version") == FEATURE_VERSION:
        raise WorkflowError(
            f"{state}: this run is not finished and would be lost; go on with --resume, choose another --out, "
            "or remove this file"
        )
