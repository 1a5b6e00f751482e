"""`schedule FILE...`: run one scheduler on one workload and print the schedule."""

from __future__ import annotations

import argparse
from pathlib import Path

from thesis_lib.commands.inputs import add_edges_from_files, choose_cluster, read_workload, refuse_overwriting
from thesis_lib.commands.output import note, print_json, print_table
from thesis_lib.files import refuse_target
from thesis_lib.schedule import Schedule
from thesis_lib.schedulers import make, names
from thesis_lib.schedulers.base import Scheduler
from thesis_lib.workflow import WorkflowError

NAME, HELP = "schedule", "schedule workflow files on a cluster"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments of the command."""
    parser.add_argument("files", nargs="+", metavar="FILE", help="workflow files; several arrive together at time 0")
    parser.add_argument("--cluster", metavar="FILE", help="JSON list of VMs (default: the article's three)")
    parser.add_argument("--scheduler", metavar="NAME", default="heft", help=f"one of {', '.join(names())}")
    parser.add_argument("--seed", type=int, default=0, metavar="N", help="fixes the drawn durations (default 0)")
    parser.add_argument("--no-noise", action="store_true", help="every task takes exactly its mean duration")
    parser.add_argument("--model", metavar="NAME|PATH", help="agent for a learned scheduler (default: the shipped one)")
    parser.add_argument("--time-limit", type=float, metavar="S", help="seconds for the scheduler optimal")
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    parser.add_argument("--gantt", metavar="OUT", help="draw the schedule to this .pdf, .png or .svg file")
    parser.add_argument("--lang", choices=("en", "zh"), default="en", help="language of the picture (default en)")
    add_edges_from_files(parser)


def run(arguments: argparse.Namespace) -> None:
    """Run the scheduler, then print and draw the schedule."""
    from thesis_lib.simulator import simulate

    scheduler = build_scheduler(arguments.scheduler, arguments.time_limit, arguments.model)
    if arguments.gantt:
        refuse_picture(arguments.gantt)
        refuse_overwriting([Path(arguments.gantt)], [*arguments.files, *filter(None, [arguments.cluster])])
    workload = read_workload(arguments.files, arguments.edges_from_files)
    cluster = choose_cluster(arguments.cluster, workload)
    schedule = simulate(scheduler, workload, cluster, seed=arguments.seed, noise=not arguments.no_noise)
    if not arguments.no_noise and not any(w.std_s.any() for w in workload.workflows):
        note("note: no task states a standard deviation, so every seed gives the mean durations")
    result = as_dict(schedule)
    if (model := getattr(scheduler, "model_name", None)) is not None:
        result |= {"model": model}
    plan = getattr(scheduler, "current", None)
    if plan is not None and plan.bound_s is not None:
        result |= {"bound_s": plan.bound_s, "proved_optimal": plan.optimal}
    if arguments.gantt:
        draw_gantt(schedule, arguments.gantt, arguments.lang)
    if arguments.json:
        print_json(result)
    else:
        print_result(result, priced=any(vm.price_per_hour for vm in cluster.vms))


def build_scheduler(name: str, time_limit_s: float | None, model: str | None = None) -> Scheduler:
    """The scheduler of that name; WorkflowError when there is none or when it does not take what is given."""
    given = {"time_limit_s": time_limit_s, "model": model}
    options = {key: value for key, value in given.items() if value is not None}
    try:
        return make(name, **options)
    except ValueError as error:
        raise WorkflowError(str(error)) from error


def as_dict(schedule: Schedule) -> dict:
    """What --json prints."""
    workload = schedule.workload
    return {
        "workflow": workload.name or ", ".join(w.name for w in workload.workflows),
        "scheduler": schedule.scheduler,
        "seed": schedule.seed,
        **schedule.metrics(),
        "tasks": schedule.records(),
    }


def print_result(result: dict, priced: bool) -> None:
    """The metrics and one line per task in the order of their starts; no cost where no VM has a price."""
    rows: list[tuple[str, object]] = []
    for key, value in result.items():
        if key == "utilization":
            rows += [(f"utilization.{resource}", share) for resource, share in value.items()]
        elif key == "cost" and not priced:
            rows.append((key, "- (no VM has a price)"))
        elif key != "tasks" and value is not None:
            rows.append((key, value))
    print_table(rows)
    print()
    print(f"{'task':<16} {'workflow':>8} {'vm':>6} {'ready_s':>12} {'start_s':>12} {'finish_s':>12}")
    for task in sorted(result["tasks"], key=lambda task: task["start_s"]):
        times = " ".join(f"{task[key]:>12.3f}" for key in ("ready_s", "start_s", "finish_s"))
        print(f"{str(task['id']):<16} {task['workflow']:>8} {str(task['vm']):>6} {times}")


def refuse_picture(path: str) -> None:
    """Raise WorkflowError, before anything runs, for a picture that could not be written afterwards."""
    if not path.lower().endswith((".pdf", ".png", ".svg")):
        raise WorkflowError(f"{path}: cannot draw this kind of file; use a name that ends in .pdf, .png or .svg")
    refuse_target(path)


def draw_gantt(schedule: Schedule, path: str, lang: str) -> None:
    """Write the Gantt chart and say so."""
    from thesis_lib.plots import plot_gantt, save_figure

    save_figure(plot_gantt(schedule, lang=lang), path)
    note(f"wrote {path}")
