"""Workload: workflows with arrival times, and the streams that the suites draw."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

import numpy as np

from thesis_lib.workflow import Workflow, WorkflowError, finite_number


@dataclass(frozen=True)
class Workload:
    """Workflows and the seconds at which they arrive; kept in order of arrival.

    Workflows that arrive together keep the order in which they were given. Tasks
    are numbered through the whole workload: task j of workflow w is `task_ptr[w] + j`.
    """

    workflows: tuple[Workflow, ...]
    arrivals_s: tuple[float, ...]
    name: str = field(default="", compare=False)

    def __post_init__(self) -> None:
        workflows, arrivals = tuple(self.workflows), tuple(self.arrivals_s)
        if not workflows:
            raise WorkflowError("a workload needs at least one workflow, the list is empty")
        if len(workflows) != len(arrivals):
            raise WorkflowError(f"{len(workflows)} workflows but {len(arrivals)} arrival times; give one for each")
        arrivals = tuple(finite_number(a, f"arrivals_s[{w}]") for w, a in enumerate(arrivals))
        order = sorted(range(len(workflows)), key=lambda w: arrivals[w])
        object.__setattr__(self, "workflows", tuple(workflows[w] for w in order))
        object.__setattr__(self, "arrivals_s", tuple(arrivals[w] for w in order))

    def __len__(self) -> int:
        return len(self.workflows)

    @classmethod
    def single(cls, workflow: Workflow) -> "Workload":
        """One workflow that arrives at 0."""
        return cls((workflow,), (0.0,), workflow.name)

    @classmethod
    def together(cls, workflows: Sequence[Workflow], name: str = "") -> "Workload":
        """Several workflows that all arrive at 0."""
        return cls(tuple(workflows), (0.0,) * len(workflows), name)

    @classmethod
    def from_dir(cls, path: str | Path) -> "Workload":
        """Every workflow file of a folder, in order of file name, all arriving at 0.

        Raises WorkflowError that lists every file that cannot be used; none is left
        out silently. Hidden files are passed over.
        """
        from thesis_lib.formats import load_workflow

        path = Path(path)
        if not path.is_dir():
            raise WorkflowError(f"{path}: is not a folder")
        files = sorted(p for p in path.iterdir() if p.is_file() and not p.name.startswith("."))
        if not files:
            raise WorkflowError(f"{path}: holds no files")
        workflows, faults = [], []
        for file in files:
            try:
                workflows.append(load_workflow(file))
            except WorkflowError as error:
                faults.append(str(error))
        if faults:
            raise WorkflowError(f"{path}: {len(faults)} of {len(files)} files cannot be used: " + "; ".join(faults))
        return cls.together(workflows, path.name)

    # --- numbering ---------------------------------------------------------------------

    @cached_property
    def task_ptr(self) -> np.ndarray:
        """(W + 1,) the tasks of workflow w are numbers task_ptr[w] ... task_ptr[w + 1] - 1."""
        return np.concatenate([[0], np.cumsum([len(w) for w in self.workflows])]).astype(np.int64)

    @property
    def n_tasks(self) -> int:
        """Number of tasks in all workflows."""
        return int(self.task_ptr[-1])

    @cached_property
    def workflow_of(self) -> np.ndarray:
        """(n,) number of the workflow that each task belongs to."""
        return np.repeat(np.arange(len(self)), np.diff(self.task_ptr))

    def task(self, i: int):
        """The Task with number `i`."""
        w = int(self.workflow_of[i])
        return self.workflows[w].tasks[i - int(self.task_ptr[w])]

    def describe_task(self, i: int) -> str:
        """Words that name task `i` in an error message."""
        name = self.workflows[int(self.workflow_of[i])].name
        where = f" of workflow {name!r}" if name else (f" of workflow {self.workflow_of[i]}" if len(self) > 1 else "")
        return f"task {self.task(i).id!r}{where}"


def duration_factors(workload: Workload, seed: int) -> np.ndarray:
    """(n,) drawn duration / mean duration of every task: the common random numbers.

    Lognormal with mean 1 and the task's coefficient of variation, from one generator
    per (seed, workflow number), so that the draw depends on nothing else: neither on
    the scheduler nor on ids, names or the VM.
    """
    factors = []
    for w, workflow in enumerate(workload.workflows):
        z = np.random.default_rng([seed, w]).standard_normal(len(workflow))
        mean = workflow.mean_s
        variation = np.divide(workflow.std_s, mean, out=np.zeros(len(workflow)), where=mean > 0)
        variance = np.log1p(variation**2)
        factors.append(np.exp(np.sqrt(variance) * z - variance / 2))
    return np.concatenate(factors)
