"""`models`: list the shipped agents, train again what is missing, evaluate them on test instances."""

from __future__ import annotations

import argparse
from pathlib import Path

from thesis_lib.commands.output import note, print_json
from thesis_lib.files import writable_folder
from thesis_lib.generators import whole_number

NAME, HELP = "models", "train the shipped agents that are missing (hours for all of them), or list them"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments of the command."""
    parser.add_argument("--list", action="store_true", help="print names and states, train nothing")
    parser.add_argument("--only", action="append", metavar="NAME", help="this agent only; may be given several times")
    parser.add_argument("--jobs", type=int, default=1, metavar="N", help="agents trained at the same time (default 1)")
    parser.add_argument("--out", metavar="DIR", help="folder for agents, curves and manifest (default: dataset/models)")
    parser.add_argument("--evaluate", action="store_true", help="compare the shipped agents on test instances instead")
    parser.add_argument("--afresh", action="store_true", help="with --evaluate: run everything again")
    parser.add_argument("--json", action="store_true", help="print one JSON object")


def run(arguments: argparse.Namespace) -> None:
    """Train what is not shipped; runs that were cut off, in runs/models, go on."""
    from thesis_lib import model_zoo

    if arguments.evaluate:
        _evaluate(arguments)
        return
    out = Path(arguments.out) if arguments.out else model_zoo.MODELS
    jobs = whole_number(arguments.jobs, "--jobs", 1)
    chosen = [model_zoo.recipe(name) for name in arguments.only] if arguments.only else list(model_zoo.RECIPES)
    states = {known.name: model_zoo.state_of(known, out) for known in chosen}
    wanted = [name for name, state in states.items() if state != "shipped"]
    if wanted and not arguments.list:
        writable_folder(out)
        try:
            model_zoo.build(wanted, out, jobs=jobs)
        except KeyboardInterrupt:
            note("stopped; the same command goes on from there")
            raise
        states |= dict.fromkeys(wanted, "trained")
    if arguments.json:
        agents = {known.name: {"group": known.group, "state": states[known.name]} for known in chosen}
        print_json({"out": str(out), "agents": agents})
        return
    for known in chosen:
        print(f"{known.name:<18} {known.group:<10} {states[known.name]:<9} {known.about}")


def _evaluate(arguments: argparse.Namespace) -> None:
    """Run what the tables of results lack, then print every ratio with its 95 % interval. --only names trials here."""
    from thesis_lib.agent_results import RESULTS, TRIALS, evaluate, ratios, trial

    folder = Path(arguments.out) / "results" if arguments.out else RESULTS
    chosen = [trial(name) for name in arguments.only] if arguments.only else list(TRIALS)
    if not arguments.list:
        jobs = whole_number(arguments.jobs, "--jobs", 1)
        evaluate([known.name for known in chosen], folder, jobs=jobs, afresh=arguments.afresh)
    tables = {known.name: {r: ratios(known, r, folder) for r in known.references} for known in chosen}
    if arguments.json:
        print_json(
            {t: {r: {s: vars(x) for s, x in rows.items()} for r, rows in table.items()} for t, table in tables.items()}
        )
        return
    for known in chosen:
        print(f"{known.name}: {known.about}; {known.instances} instances, ratio to")
        print("  " + " " * 22 + "".join(f"{reference:<24}" for reference in known.references))
        for name in known.schedulers:
            print(f"  {name:<22}" + "".join(f"{tables[known.name][r][name]!s:<24}" for r in known.references))
