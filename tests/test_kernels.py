"""The compiled kernels against the same code run by Python."""

import os
import subprocess
import sys

CODE = """
import numpy as np
from thesis_lib.cluster import Cluster
from thesis_lib.schedulers.base import Scheduler
from thesis_lib.schedulers.rules import Rule
from thesis_lib._kernels.rules import RULES
from thesis_lib.simulator import Problem, Simulator
from thesis_lib.workload import duration_factors, poisson_stream

workload = poisson_stream(workflows=3, load=0.9, seed=11)
problem, factor = Problem(workload, Cluster.stream()), duration_factors(workload, 4)
for name in RULES:
    for run in (Rule.run, Scheduler.run):
        rule = Rule(name, name)
        rule.reset(workload, Cluster.stream(), 4)
        simulator = Simulator(problem, factor)
        run(rule, simulator)
        print(name, simulator.state.fingerprint())
twin = Simulator.branch(Simulator(problem, factor).state, factor)
Rule("srw").run(twin)
print(twin.state.fingerprint())
"""


def output(**environment: str) -> str:
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", CODE], env=os.environ | environment, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_every_kernel_equals_its_python_form():
    """Both ways of running every rule, bit for bit; NUMBA_DISABLE_JIT runs the kernels as plain Python."""
    compiled, plain = output(), output(NUMBA_DISABLE_JIT="1")
    assert compiled.count("\n") == 21
    assert compiled == plain
