"""`dataset build|check`: make the shipped workflows anew, or verify them."""

from __future__ import annotations

import argparse

from thesis_lib.commands.output import note
from thesis_lib.workflow import WorkflowError

NAME, HELP = "dataset", "build or check the shipped data set"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments of the command."""
    parser.add_argument("action", choices=("build", "check"))
    parser.add_argument(
        "--out", metavar="DIR", help="the folder (default: the shipped data set); build makes it if need be"
    )


def run(arguments: argparse.Namespace) -> None:
    """Build or check the data set; faults raise WorkflowError."""
    from thesis_lib import dataset

    if arguments.action == "build":
        build(dataset, arguments.out)
        return
    faults = dataset.check(arguments.out)
    if faults:
        raise WorkflowError(f"the data set has {len(faults)} faults: " + "; ".join(faults))
    manifest = dataset.read_manifest(arguments.out)
    print(f"all {len(manifest['sets'])} sets and {len(manifest['real'])} real workflows are as the manifest says")


def build(dataset, out: str | None) -> None:
    """Make every file anew with a progress bar; `dataset` is the module of that name."""
    from tqdm.auto import tqdm

    files = len(dataset.names()) + len(dataset.REAL) + 1
    # Delayed, so that a refusal is one line without a bar above it.
    with tqdm(total=files, desc="data set", unit="file", delay=0.5) as bar:
        folder = dataset.build(out, progress=lambda name: bar.update())
    note(f"wrote {folder}")
