"""`speed`: how fast rules, planners and environments are on this machine."""

from __future__ import annotations

import argparse

NAME, HELP = "speed", "measure the simulator and the planners on this machine"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments of the command."""
    parser.add_argument("--repeats", type=int, default=5, metavar="N", help="the median of N runs (default 5)")


def run(arguments: argparse.Namespace) -> None:
    """Measure and print, one line as soon as it is known."""
    from thesis_lib import speed
    from thesis_lib.generators import whole_number

    repeats = whole_number(arguments.repeats, "--repeats", 1)
    print("rules on one layered workflow, 16 VMs")
    print(f"{'rule':<14} {'tasks':>6} {'placed/s in kernels':>20} {'ms step by step':>16}")
    for name, n_tasks, per_second, step_ms in speed.rule_rates(repeats):
        print(f"{name:<14} {n_tasks:>6} {per_second:>20,.0f} {step_ms:>16.1f}", flush=True)
    print("\nplanners, 1000 tasks, 10 VMs")
    for name in ("heft", "heft_single", "cpop", "peft"):
        print(f"{name:<14} {speed.plan_ms(name, repeats=repeats):>10.1f} ms", flush=True)
    print("\n16 environments on streams of 12 workflows, decisions per second of CPU time")
    for reward in ("potential", "flow_time"):
        batched, single = speed.env_rates(reward)
        print(
            f"{reward:<14} batched {batched:>9,.0f}   one by one {single:>9,.0f}   ratio {batched / single:.1f}",
            flush=True,
        )
