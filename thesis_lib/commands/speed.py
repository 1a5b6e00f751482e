"""`speed`: decisions per second of the rules and milliseconds of the planners on this machine."""

from __future__ import annotations

import argparse

NAME, HELP = "speed", "measure the simulator and the planners on this machine"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--repeats", type=int, default=5, metavar="N", help="the median of N runs (default 5)")


def run(arguments: argparse.Namespace) -> None:
    from thesis_lib import speed

    print("rules on one layered workflow, 16 VMs")
    print(f"{'rule':<14} {'tasks':>6} {'decisions/s in kernels':>23} {'ms step by step':>16}")
    for name, n_tasks, per_second, step_ms in speed.rule_rates(arguments.repeats):
        print(f"{name:<14} {n_tasks:>6} {per_second:>23,.0f} {step_ms:>16.1f}", flush=True)
    print("\nplanners, 1000 tasks, 10 VMs")
    for name in ("heft", "heft_single", "cpop", "peft"):
        print(f"{name:<14} {speed.plan_ms(name, repeats=arguments.repeats):>10.1f} ms", flush=True)
