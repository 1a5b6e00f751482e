"""The compiled kernels against the same code run by Python."""

import ast
import os
import subprocess
import sys

from thesis_lib import _kernels
from thesis_lib._kernels.compiling import FOLDER, LENDERS

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


def test_every_file_that_lends_constants_to_kernels_is_in_the_key_of_their_cache():
    """What a kernel reads from another file is compiled in, so a change there must not find the old code."""
    imports = {
        node.module
        for path in FOLDER.glob("*.py")
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.ImportFrom) and node.module.startswith("thesis_lib.")
    }
    outside = {module for module in imports if not module.startswith("thesis_lib._kernels")}
    assert outside == {f"thesis_lib.{name.removesuffix('.py')}" for name in LENDERS}


def test_every_file_of_kernels_is_loaded_with_the_keyed_cache():
    """A file that the package's __init__ does not import would be cached under a name that no change reaches."""
    files = {path.stem for path in FOLDER.glob("*.py")} - {"__init__", "compiling"}
    assert files == set(_kernels.__all__)
