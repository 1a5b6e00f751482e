"""`train`: train an agent as a settings file says."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING

from thesis_lib.commands.output import note, print_json
from thesis_lib.files import refuse_target, writable_folder, write_bytes
from thesis_lib.workflow import WorkflowError

if TYPE_CHECKING:
    from thesis_lib.train_config import TrainConfig

NAME, HELP = "train", "train an agent; the settings are explained in dataset/configs/stream.yaml"
SETTINGS = "config.yaml"  # in the folder of a run: what it was started with


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments of the command."""
    add_config(parser)
    parser.add_argument("--out", metavar="DIR", help="folder for agent, checkpoint and curve (default: runs/NAME)")
    parser.add_argument("--resume", action="store_true", help="go on with the run in that folder where it stopped")
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
    out = Path(arguments.out or f"runs/{config.name}")
    if arguments.resume:
        config = settings_to_resume(config, out, given=bool(arguments.config or arguments.changes))
    else:
        refuse_other_run(config, out)
    for file in (f"{config.name}.npz", SETTINGS):
        refuse_target(out / file, make_folder=True)
    writable_folder(out)
    write_bytes(out / SETTINGS, config.to_yaml().encode())
    from thesis_lib.training import train  # loads torch, so only now

    try:
        agent = train(config, out, resume=arguments.resume, progress=True)
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

    config = TrainConfig.from_yaml(arguments.config) if arguments.config else TrainConfig()
    return config.with_changes(arguments.changes)


def settings_to_resume(config: "TrainConfig", out: Path, given: bool) -> "TrainConfig":
    """What the run in `out` was started with; WorkflowError when there is none or `given` settings differ."""
    from thesis_lib.train_config import TrainConfig

    if not (out / SETTINGS).is_file():
        raise WorkflowError(f"{out}: holds no run to resume ({SETTINGS} is missing); start it without --resume")
    started = TrainConfig.from_yaml(out / SETTINGS)
    if given and (changed := started.differences(config)):
        raise WorkflowError(f"{out}: was started with other settings ({changed}); resume it without --config and --set")
    return started


def refuse_other_run(config: "TrainConfig", out: Path) -> None:
    """Raise WorkflowError when `out` holds a run with other settings, which this one would overwrite."""
    from thesis_lib.train_config import TrainConfig

    if (out / SETTINGS).is_file() and (changed := TrainConfig.from_yaml(out / SETTINGS).differences(config)):
        raise WorkflowError(f"{out}: holds a run with other settings ({changed}); choose another folder with --out")
