"""Workload: workflows with arrival times, and the streams that the suites draw."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property, lru_cache
from pathlib import Path

import numpy as np

from thesis_lib.cluster import Cluster
from thesis_lib.generators import generate, whole_number
from thesis_lib.workflow import RESOURCES, Workflow, WorkflowError, as_text, finite_number, frozen, items_of

# First words of the random streams, so that no two kinds of draw ever share one.
_POISSON_STREAM, _DURATION_STREAM = 7100, 7200
LARGEST_VARIATION = 1e6  # standard deviation / mean of a duration that can still be drawn


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
        workflows = items_of(self.workflows, Workflow, "the workload's workflows")
        arrivals = items_of(self.arrivals_s, object, "arrivals_s")
        as_text(self.name, "the workload's name")
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
        (workflow,) = items_of((workflow,), Workflow, "the workload's workflows")
        return cls((workflow,), (0.0,), workflow.name)

    @classmethod
    def together(cls, workflows: Sequence[Workflow], name: str = "") -> "Workload":
        """Several workflows that all arrive at 0."""
        flows = items_of(workflows, Workflow, "the workload's workflows")
        return cls(flows, (0.0,) * len(flows), name)

    @classmethod
    def from_dir(cls, path: str | Path, *, edges_from_files: bool = False) -> "Workload":
        """Every workflow file of a folder, in order of file name, all arriving at 0.

        Files that belong to another one (two of each CSV triple) are read along with it.
        edges_from_files: as in `formats.load_workflow`. Hidden files are passed over.

        Raises WorkflowError that lists every entry that cannot be used, subfolders, pipes
        and links to nothing among them; none is left out silently.
        """
        from thesis_lib.formats import is_companion, load_workflow

        path = Path(path)
        if not path.is_dir():
            raise WorkflowError(f"{path}: is not a folder")
        try:
            files = sorted(p for p in path.iterdir() if not p.name.startswith(".") and not is_companion(p))
        except OSError as error:
            raise WorkflowError(f"{path}: cannot be read: {error.strerror}") from error
        if not files:
            raise WorkflowError(f"{path}: holds no files")
        workflows, faults = [], []
        for file in files:
            try:
                workflows.append(load_workflow(file, edges_from_files=edges_from_files))
            except WorkflowError as error:
                faults.append(str(error))
        if faults:
            raise WorkflowError(f"{path}: {len(faults)} of {len(files)} files cannot be used: " + "; ".join(faults))
        return cls.together(workflows, path.name)

    # --- numbering ---------------------------------------------------------------------

    @cached_property
    def task_ptr(self) -> np.ndarray:
        """(W + 1,) the tasks of workflow w are numbers task_ptr[w] ... task_ptr[w + 1] - 1."""
        return frozen(np.concatenate([[0], np.cumsum([len(w) for w in self.workflows])]).astype(np.int64))

    @property
    def n_tasks(self) -> int:
        """Number of tasks in all workflows."""
        return int(self.task_ptr[-1])

    @cached_property
    def workflow_of(self) -> np.ndarray:
        """(n,) number of the workflow that each task belongs to."""
        return frozen(np.repeat(np.arange(len(self)), np.diff(self.task_ptr)))

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
    the scheduler nor on ids, names or the VM. Raises WorkflowError where a standard
    deviation is more than LARGEST_VARIATION times its mean.
    """
    factors = []
    for w, workflow in enumerate(workload.workflows):
        z = np.random.default_rng([_DURATION_STREAM, seed, w]).standard_normal(len(workflow))
        mean = workflow.mean_s
        with np.errstate(over="ignore"):
            variation = np.divide(workflow.std_s, mean, out=np.zeros(len(workflow)), where=mean > 0)
        if (variation > LARGEST_VARIATION).any():
            i = int(workload.task_ptr[w]) + int(variation.argmax())
            raise WorkflowError(
                f"{workload.describe_task(i)} has a standard deviation of {variation.max():g} times its mean duration; "
                f"at most {LARGEST_VARIATION:g} can be drawn"
            )
        variance = np.log1p(variation**2)
        factors.append(np.exp(np.sqrt(variance) * z - variance / 2))
    return np.concatenate(factors)


# --- what the suites draw ------------------------------------------------------------------

ARTICLE_FAMILIES = ("monte_carlo", "ml_pipeline", "etl")
SUITES = ("single", "stream", "thesis")
# Seeds of what the suites draw. The data sets use seeds above these, the reference sample above those.
SEED_RANGES = {
    "test": range(0, 1_000_000),
    "validation": range(1_000_000, 2_000_000),
    "train": range(2_000_000, 10_000_000),
}
_REFERENCE_SEED, _REFERENCE_SIZE = 900_000_000, 300


def suite_case(suite: str, seed: int, **options) -> tuple[Workload, Cluster]:
    """The instance that `seed` draws from a suite, and the cluster it is meant for.

    single: one workflow of an article family (family number seed mod 3) on the article's
        VMs; options as its generator takes them.
    stream: `poisson_stream` on `Cluster.stream()`; options as it takes them.
    thesis: one `thesis_dag` on `Cluster.thesis()`; options as it takes them.

    `SEED_RANGES` states which seeds are for training, validation and testing. Raises
    WorkflowError for an unknown suite or option.
    """
    whole_number(seed, "seed", 0)
    if suite == "single":
        family = ARTICLE_FAMILIES[seed % len(ARTICLE_FAMILIES)]
        return Workload.single(generate(family, seed=seed, **options)), Cluster.default()
    if suite == "stream":
        cluster = options.pop("cluster", None) or Cluster.stream()
        return poisson_stream(cluster=cluster, seed=seed, **options), cluster
    if suite == "thesis":
        return Workload.single(generate("thesis_dag", seed=seed, **options)), Cluster.thesis()
    raise WorkflowError(f"unknown suite {suite!r}; choose one of {', '.join(SUITES)}")


def poisson_stream(
    workflows: int = 20,
    load: float = 0.9,
    cluster: Cluster | None = None,
    seed: int = 0,
    families: Sequence[str] | str = ARTICLE_FAMILIES,
    **parameters,
) -> Workload:
    """Workflows of mixed families that arrive as a Poisson process, the first at 0.

    load: mean work of a workflow on its scarcest resource (`mean_work_s`) / mean time between
        arrivals; above 1 the queue grows for as long as workflows arrive.
    cluster: what the load refers to; None is `Cluster.stream()`.
    families: drawn from with equal probability; names of `generators.FAMILIES`, a
        sequence or one text with commas.
    parameters: passed to every generator, for example n_tasks or data_mb.

    Arrival times are rounded to 1 ms. Raises WorkflowError for values out of range.
    """
    count = whole_number(workflows, "workflows", 1)
    if finite_number(load, "load") == 0:
        raise WorkflowError("load must be above 0, got 0")
    names = tuple(families.split(",")) if isinstance(families, str) else tuple(families)
    if not names:
        raise WorkflowError("families must name at least one family, the list is empty")
    rng = np.random.default_rng([_POISSON_STREAM, whole_number(seed, "seed", 0)])
    chosen = rng.integers(len(names), size=count).tolist()
    seeds = rng.integers(2**40, 2**62, size=count).tolist()  # far above every seed that a person or a set uses
    gaps = rng.exponential(size=count - 1)
    drawn = [generate(names[f], seed=s, **parameters) for f, s in zip(chosen, seeds)]
    mean_gap_s = float(mean_work_s(names, cluster, **parameters).max()) / load
    arrivals = np.round(mean_gap_s * np.concatenate([[0.0], np.cumsum(gaps)]), 3)
    return Workload(tuple(drawn), tuple(arrivals.tolist()), f"stream-s{seed}")


def mean_work_s(families: Sequence[str] = ARTICLE_FAMILIES, cluster: Cluster | None = None, **parameters) -> np.ndarray:
    """(3,) mean seconds of work of one workflow on the cluster's cores, memory and bandwidth.

    Work of a workflow on a resource: sum over its tasks of demand x mean duration / sum over
    the VMs of capacity x speed. The mean is over a reference sample of 300 workflows per
    family with seeds of its own, so that it never depends on a drawn stream.
    """
    cluster = Cluster.stream() if cluster is None else cluster
    families = families.split(",") if isinstance(families, str) else families
    held = _reference_held(tuple(families), tuple(sorted(parameters.items())))
    offered = (cluster.capacity * cluster.speed[:, None]).sum(axis=0)
    if lacking := [r for r, h, o in zip(RESOURCES, held, offered) if h > 0 and o == 0]:
        raise WorkflowError(f"the workflows need {lacking[0]}, of which the cluster has none")
    return np.divide(held, offered, out=np.zeros(3), where=offered > 0)


@lru_cache(maxsize=32)
def _reference_held(families: tuple[str, ...], parameters: tuple[tuple[str, object], ...]) -> np.ndarray:
    """(3,) mean over the reference sample of demand x mean duration, in core s, GB s and Gbit."""
    held = np.zeros(3)
    for family in families:
        for i in range(_REFERENCE_SIZE):
            workflow = generate(family, seed=_REFERENCE_SEED + i, **dict(parameters))
            held += workflow.mean_s @ workflow.demand
    held /= len(families) * _REFERENCE_SIZE
    held.flags.writeable = False
    return held
