"""Task and Workflow: the frozen description of a DAG of tasks.

A workflow is validated once, when it is built, and then never changes. The
arrays that every algorithm needs (durations, demands, parents, children, a
topological order) are derived on first use and kept.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from types import MappingProxyType
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    import networkx

    from thesis_lib.cluster import Cluster

TaskId = int | str
RESOURCES = ("cpu", "memory", "bandwidth")
RESOURCE_UNITS = ("cores", "GB", "Gbit/s")
# What no id or name may hold: figures (XML) cannot show these. A name may have tabs and line ends.
CONTROL = re.compile("[\x00-\x1f\x7f-\x9f\ud800-\udfff\ufffe\uffff]")
CONTROL_IN_NAME = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\ufffe\uffff]")
SPELLED_OUT = 12  # tasks of a cycle that a message names in full


class WorkflowError(ValueError):
    """A workflow, workload or cluster that cannot be used: says what, where and what to do."""


def finite_number(value: object, what: str, minimum: float = 0.0) -> float:
    """Return `value` as a float, or raise WorkflowError naming `what` and the value seen."""
    if isinstance(value, bool) or not isinstance(value, (int, float, np.integer, np.floating)):
        raise WorkflowError(f"{what} must be a number, got {value!r}")
    try:
        number = float(value)
    except OverflowError:
        number = math.inf
    if not math.isfinite(number):
        raise WorkflowError(f"{what} must be finite, got {value!r}")
    if number < minimum:
        raise WorkflowError(f"{what} must be at least {minimum:g}, got {value!r}")
    return number


def valid_id(value: object, what: str) -> TaskId:
    """Return `value` if it can be an id (an integer or a non-empty text), else raise WorkflowError."""
    if isinstance(value, np.integer):
        value = int(value)
    if isinstance(value, bool) or not isinstance(value, (int, str)) or value == "":
        raise WorkflowError(f"{what} must be an integer or a non-empty text, got {value!r}")
    if isinstance(value, str) and CONTROL.search(value):
        raise WorkflowError(f"{what} must not hold control characters, got {value!r}; take them out")
    return value


def as_text(value: object, what: str) -> str:
    """Return `value` if it is a text, else raise WorkflowError naming `what` and the value seen."""
    if not isinstance(value, str):
        raise WorkflowError(f"{what} must be a text, got {value!r}")
    if CONTROL_IN_NAME.search(value):
        raise WorkflowError(f"{what} must not hold control characters, got {value!r}; take them out")
    return value


def items_of(value: object, kind: type, what: str) -> tuple:
    """`value` as a tuple whose items are all of `kind`, else WorkflowError naming `what` and the item seen."""
    try:
        items = tuple(value)
    except TypeError:
        raise WorkflowError(f"{what} must be a list of {kind.__name__}, got {type(value).__name__}") from None
    for i, item in enumerate(items):
        if not isinstance(item, kind):
            raise WorkflowError(f"{what} must be a list of {kind.__name__}, but entry {i} is {item!r}")
    return items


def pairs_by_id(value: object, what: str) -> list[tuple[TaskId, object]]:
    """The items of a mapping from ids; WorkflowError when it names one id as 7 and as "7"."""
    if not isinstance(value, Mapping):
        raise WorkflowError(f"{what} must map ids to numbers, got {value!r}")
    seen: dict[str, TaskId] = {}
    for key in value:
        valid_id(key, f"{what} key")
        if str(key) in seen:
            raise WorkflowError(f"{what} names one id twice, as {seen[str(key)]!r} and as {key!r}; keep one")
        seen[str(key)] = key
    return list(value.items())


@dataclass(frozen=True)
class Task:
    """One task of a workflow.

    Attributes
    ----------
    id: unique in its workflow; 7 and "7" count as the same id.
    duration_mean_s, duration_std_s: mean and standard deviation of the duration
        in seconds on a VM of speed 1. Zero is legal, negative is not.
    cpu, memory_gb, bandwidth_gbps: cores, GB and Gbit/s held while the task runs.
    priority: larger is more urgent; information only, no rule is forced to use it.
    dependencies: ids of the parents, which must finish before the task starts.
    data_mb: MB sent by each parent (missing parent = 0 MB).
    runtime_s: mean run time in seconds per VM id (unrelated machines). Where it
        is given it replaces duration / speed; a VM it does not name cannot run the task.
    name: a label for people; two tasks may share it.
    """

    id: TaskId
    duration_mean_s: float
    duration_std_s: float = 0.0
    cpu: float = 1.0
    memory_gb: float = 0.0
    bandwidth_gbps: float = 0.0
    priority: int = 1
    dependencies: tuple[TaskId, ...] = ()
    data_mb: Mapping[TaskId, float] = field(default_factory=dict)
    runtime_s: Mapping[TaskId, float] | None = None
    name: str = ""

    def __post_init__(self) -> None:
        set_field = object.__setattr__
        set_field(self, "id", valid_id(self.id, "task id"))
        where = f"task {self.id!r}"
        for key in ("duration_mean_s", "duration_std_s", "cpu", "memory_gb", "bandwidth_gbps"):
            set_field(self, key, finite_number(getattr(self, key), f"{where}: {key}"))
        finite_number(self.priority, f"{where}: priority", minimum=-math.inf)
        if isinstance(self.dependencies, (str, bytes)) or not isinstance(self.dependencies, Iterable):
            raise WorkflowError(f"{where}: dependencies must be a list of ids, got {self.dependencies!r}")
        parents = tuple(valid_id(p, f"{where}: dependency") for p in self.dependencies)
        set_field(self, "dependencies", parents)
        set_field(self, "data_mb", self._data_by_parent(where, parents))
        if self.runtime_s is not None:
            runtimes = {
                valid_id(vm, "VM id"): finite_number(s, f"{where}: runtime_s[{vm!r}]")
                for vm, s in pairs_by_id(self.runtime_s, f"{where}: runtime_s")
            }
            set_field(self, "runtime_s", MappingProxyType(runtimes))
        as_text(self.name, f"{where}: name")

    def _data_by_parent(self, where: str, parents: tuple[TaskId, ...]) -> Mapping[TaskId, float]:
        """data_mb with keys as the dependencies spell them, zero entries left out."""
        spelling = {str(p): p for p in parents}
        data = {}
        for parent, mb in pairs_by_id(self.data_mb, f"{where}: data_mb"):
            if str(parent) not in spelling:
                raise WorkflowError(
                    f"{where}: data_mb names {parent!r}, which is not among its dependencies {list(parents)}"
                )
            if number := finite_number(mb, f"{where}: data_mb[{parent!r}]"):
                data[spelling[str(parent)]] = number
        return MappingProxyType(data)

    @property
    def label(self) -> str:
        """What a figure writes on the task: its id."""
        return str(self.id)

    def __reduce__(self):  # mapping proxies cannot be pickled as they are
        runtime = None if self.runtime_s is None else dict(self.runtime_s)
        numbers = (self.duration_mean_s, self.duration_std_s, self.cpu, self.memory_gb, self.bandwidth_gbps)
        return (Task, (self.id, *numbers, self.priority, self.dependencies, dict(self.data_mb), runtime, self.name))

    def __hash__(self) -> int:
        return hash((str(self.id), self.duration_mean_s, self.dependencies))


@dataclass(frozen=True)
class Workflow:
    """A validated DAG of tasks.

    Attributes
    ----------
    tasks: in the order of the file; `index[id]` is the position of a task.
    family: the file's "type" (for example "etl"), free text.
    name: a label for people, by default the file name.
    cluster: the cluster that came with the file, if its format carries one.
    warnings: what the reader noticed and mended, in plain sentences.

    Raises WorkflowError for an empty list, duplicate ids, a missing dependency,
    or a cycle, with the ids concerned.
    """

    tasks: tuple[Task, ...]
    family: str = ""
    name: str = field(default="", compare=False)
    cluster: "Cluster | None" = None
    warnings: tuple[str, ...] = field(default=(), compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "tasks", items_of(self.tasks, Task, "the workflow's tasks"))
        object.__setattr__(self, "warnings", items_of(self.warnings, str, "the workflow's warnings"))
        as_text(self.name, "the workflow's name")
        as_text(self.family, "the workflow's family")
        if self.cluster is not None:
            from thesis_lib.cluster import Cluster  # here, because cluster builds on this module

            if not isinstance(self.cluster, Cluster):
                raise WorkflowError(f"the workflow's cluster must be a Cluster or None, got {self.cluster!r}")
        if not self.tasks:
            raise WorkflowError("a workflow needs at least one task, the list is empty")
        self._refuse_duplicates()
        self._refuse_missing_parents()
        if len(self.topological_order) < len(self.tasks):
            raise WorkflowError(
                f"the dependencies contain a cycle{_spelled(self._find_cycle())}; remove one of these edges"
            )

    def _refuse_duplicates(self) -> None:
        seen: dict[str, TaskId] = {}
        for task in self.tasks:
            if str(task.id) in seen:
                raise WorkflowError(
                    f"duplicate task id {task.id!r} (first used as {seen[str(task.id)]!r}); ids must be unique"
                )
            seen[str(task.id)] = task.id

    def _refuse_missing_parents(self) -> None:
        for task in self.tasks:
            for parent in task.dependencies:
                if str(parent) not in self._index_by_text:
                    raise WorkflowError(f"task {task.id!r} depends on {parent!r}, which does not exist")
            if len({str(p) for p in task.dependencies}) < len(task.dependencies):
                raise WorkflowError(f"task {task.id!r} lists a dependency twice: {list(task.dependencies)}")

    def _find_cycle(self) -> list[TaskId]:
        """The ids along one cycle, first id repeated at the end."""
        ordered = set(self.topological_order.tolist())
        # Every task left over has a parent that is left over too, so walking up must repeat.
        at = next(i for i in range(len(self.tasks)) if i not in ordered)
        position: dict[int, int] = {}  # of each task on the way, in the order of the walk
        while at not in position:
            position[at] = len(position)
            at = next(p for p in self.parents(at) if p not in ordered)
        loop = [*list(position)[position[at] :], at]
        return [self.tasks[i].id for i in reversed(loop)]

    def __len__(self) -> int:
        return len(self.tasks)

    def __reduce__(self):
        return (Workflow, (self.tasks, self.family, self.name, self.cluster, self.warnings))

    def __hash__(self) -> int:
        return hash((self.tasks, self.family))

    # --- arrays, n tasks and e edges -------------------------------------------------

    @cached_property
    def _index_by_text(self) -> dict[str, int]:
        return {str(t.id): i for i, t in enumerate(self.tasks)}

    def index(self, task_id: TaskId) -> int:
        """Position of a task in `tasks`; KeyError with the id when there is none."""
        try:
            return self._index_by_text[str(task_id)]
        except KeyError:
            raise KeyError(f"workflow {self.name!r} has no task {task_id!r}") from None

    @cached_property
    def mean_s(self) -> np.ndarray:
        """(n,) mean durations in seconds at VM speed 1."""
        return frozen(np.array([t.duration_mean_s for t in self.tasks]))

    @cached_property
    def std_s(self) -> np.ndarray:
        """(n,) standard deviations of the durations in seconds."""
        return frozen(np.array([t.duration_std_s for t in self.tasks]))

    @cached_property
    def demand(self) -> np.ndarray:
        """(n, 3) cores, GB and Gbit/s held while a task runs."""
        return frozen(np.array([[t.cpu, t.memory_gb, t.bandwidth_gbps] for t in self.tasks], dtype=float))

    @cached_property
    def parent_ptr(self) -> np.ndarray:
        """(n + 1,) the parents of task i are parent_idx[parent_ptr[i]:parent_ptr[i + 1]]."""
        counts = [len(t.dependencies) for t in self.tasks]
        return frozen(np.concatenate([[0], np.cumsum(counts)]).astype(np.int64))

    @cached_property
    def parent_idx(self) -> np.ndarray:
        """(e,) positions of the parents, grouped by child."""
        index = self._index_by_text
        return frozen(np.array([index[str(p)] for t in self.tasks for p in t.dependencies], dtype=np.int64))

    @cached_property
    def parent_mb(self) -> np.ndarray:
        """(e,) MB sent along each edge, in the order of parent_idx."""
        return frozen(np.array([t.data_mb.get(p, 0.0) for t in self.tasks for p in t.dependencies], dtype=float))

    @cached_property
    def _child_csr(self) -> tuple[np.ndarray, np.ndarray]:
        n, child_of_edge = len(self.tasks), np.repeat(np.arange(len(self.tasks)), np.diff(self.parent_ptr))
        order = np.argsort(self.parent_idx, kind="stable")
        counts = np.bincount(self.parent_idx, minlength=n)
        return (
            frozen(np.concatenate([[0], np.cumsum(counts)]).astype(np.int64)),
            frozen(child_of_edge[order].astype(np.int64)),
        )

    @property
    def child_ptr(self) -> np.ndarray:
        """(n + 1,) the children of task i are child_idx[child_ptr[i]:child_ptr[i + 1]]."""
        return self._child_csr[0]

    @property
    def child_idx(self) -> np.ndarray:
        """(e,) positions of the children, grouped by parent, ascending within a parent."""
        return self._child_csr[1]

    def parents(self, i: int) -> list[int]:
        """Positions of the parents of task i."""
        return self.parent_idx[self.parent_ptr[i] : self.parent_ptr[i + 1]].tolist()

    def children(self, i: int) -> list[int]:
        """Positions of the children of task i."""
        return self.child_idx[self.child_ptr[i] : self.child_ptr[i + 1]].tolist()

    @property
    def edges(self) -> list[tuple[TaskId, TaskId]]:
        """(parent id, child id) for every dependency."""
        spelled = {str(t.id): t.id for t in self.tasks}
        return [(spelled[str(p)], t.id) for t in self.tasks for p in t.dependencies]

    @cached_property
    def topological_order(self) -> np.ndarray:
        """(n,) positions with every parent before its children (Kahn, 1962).

        Tasks without order between them keep the order in which they become free,
        so the result depends on the graph and the file's order alone.
        """
        missing = np.diff(self.parent_ptr).tolist()
        ptr, children = self.child_ptr.tolist(), self.child_idx.tolist()
        order = [i for i, m in enumerate(missing) if m == 0]
        for i in order:  # grows while it is walked
            for child in children[ptr[i] : ptr[i + 1]]:
                missing[child] -= 1
                if missing[child] == 0:
                    order.append(child)
        return frozen(np.array(order, dtype=np.int64))

    @cached_property
    def levels(self) -> np.ndarray:
        """(n,) layer of each task: 0 for an entry task, else 1 + the deepest parent's layer."""
        level = np.zeros(len(self), dtype=np.int64)
        for i in self.topological_order.tolist():
            if parents := self.parents(i):
                level[i] = 1 + max(level[p] for p in parents)
        return frozen(level)

    def to_networkx(self) -> "networkx.DiGraph":
        """The DAG as a networkx.DiGraph keyed by id, with duration_mean_s and data_mb attributes."""
        import networkx

        graph = networkx.DiGraph(name=self.name)
        for task in self.tasks:
            graph.add_node(task.id, duration_mean_s=task.duration_mean_s, name=task.name)
        for task in self.tasks:
            for parent in task.dependencies:
                graph.add_edge(self.tasks[self.index(parent)].id, task.id, data_mb=task.data_mb.get(parent, 0.0))
        return graph


def _spelled(loop: list[TaskId]) -> str:
    """The end of a message on a cycle: all ids in order, or for a long loop its length and both ends."""
    arrows = [repr(i) for i in loop]
    if len(loop) - 1 <= SPELLED_OUT:
        return ": " + " -> ".join(arrows)
    return f" of {len(loop) - 1} tasks: " + " -> ".join([*arrows[: SPELLED_OUT // 2], "...", *arrows[-2:]])


def frozen(array: np.ndarray) -> np.ndarray:
    """The same array, made read-only."""
    array.flags.writeable = False
    return array
