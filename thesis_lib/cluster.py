"""VM and Cluster: the machines that workflows run on."""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path

import numpy as np

from thesis_lib.files import read_text
from thesis_lib.strict_json import parse_json
from thesis_lib.workflow import TaskId, Workflow, WorkflowError, as_text, finite_number, frozen, items_of, valid_id

MB_PER_S_PER_GBPS = 125.0  # 1 Gbit/s = 125 MB/s (decimal units)
MIN_SPEED = 1e-6  # at which one second of work takes eleven days; less can only be a wrong unit
RESOURCE_TOLERANCE = 1e-9  # cores, GB or Gbit/s by which a demand may exceed a capacity: rounding


@dataclass(frozen=True)
class VM:
    """One virtual machine: `cpu` cores, `memory_gb`, `bandwidth_gbps`, `speed`, `price_per_hour`.

    A task of duration d runs d / speed seconds here; the speed is at least MIN_SPEED.
    The bandwidth is a capacity that running tasks hold, and the rate at which the VM's
    link sends data.
    """

    id: TaskId
    cpu: float
    memory_gb: float
    bandwidth_gbps: float
    speed: float = 1.0
    price_per_hour: float = 0.0

    def __post_init__(self) -> None:
        object.__setattr__(self, "id", valid_id(self.id, "VM id"))
        where = f"VM {self.id!r}"
        for key in ("cpu", "memory_gb", "bandwidth_gbps", "speed", "price_per_hour"):
            object.__setattr__(self, key, finite_number(getattr(self, key), f"{where}: {key}"))
        if self.speed < MIN_SPEED:
            raise WorkflowError(f"{where}: speed must be at least {MIN_SPEED:g} (1 is the usual), got {self.speed:g}")


@dataclass(frozen=True)
class Cluster:
    """A list of VMs and, optionally, the link rates between them.

    link_gbps: (v, v) Gbit/s from VM i to VM j; None means the smaller bandwidth of
        the two. The diagonal is ignored, since a VM needs no transfer to itself.
    """

    vms: tuple[VM, ...]
    link_gbps: tuple[tuple[float, ...], ...] | None = None
    name: str = field(default="", compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "vms", items_of(self.vms, VM, "the cluster's vms"))
        as_text(self.name, "the cluster's name")
        if not self.vms:
            raise WorkflowError("a cluster needs at least one VM, the list is empty")
        texts = [str(vm.id) for vm in self.vms]
        if len(set(texts)) < len(texts):
            twice = next(t for t in texts if texts.count(t) > 1)
            raise WorkflowError(f"duplicate VM id {twice!r}; ids must be unique")
        if self.link_gbps is not None:
            object.__setattr__(self, "link_gbps", self._checked_links())

    def _checked_links(self) -> tuple[tuple[float, ...], ...]:
        v = len(self.vms)
        try:
            rows = [list(row) for row in self.link_gbps]
        except TypeError:  # a number, or a row that is one
            rows = []
        if len(rows) != v or any(len(row) != v for row in rows):
            raise WorkflowError(f"link_gbps must be a {v} x {v} matrix, one row per VM")
        return tuple(
            tuple(0.0 if i == j else finite_number(x, f"link_gbps[{i}][{j}]") for j, x in enumerate(row))
            for i, row in enumerate(rows)
        )

    def __len__(self) -> int:
        return len(self.vms)

    @classmethod
    def default(cls) -> "Cluster":
        """The article's three VMs: 8, 16 and 32 cores."""
        return cls((VM(0, 8, 32, 10), VM(1, 16, 64, 20), VM(2, 32, 128, 40)), name="article")

    @classmethod
    def stream(cls) -> "Cluster":
        """The article's VMs with speeds 1.5, 1.2 and 1.0 and a price: the small VM is the fastest.

        Prices are 0.05 per core and hour times the speed, so that speed costs.
        """
        speeds = (1.5, 1.2, 1.0)
        vms = tuple(
            replace(vm, speed=s, price_per_hour=round(0.05 * vm.cpu * s, 4)) for vm, s in zip(cls.default().vms, speeds)
        )
        return cls(vms, name="stream")

    @classmethod
    def thesis(cls) -> "Cluster":
        """The one VM of the original thesis: 100 CPU and 100 memory units, no bandwidth."""
        return cls((VM(0, 100, 100, 0),), name="thesis")

    @classmethod
    def from_json(cls, path: str | Path) -> "Cluster":
        """Read the article's list of VMs, or {"vms": [...], "link_gbps": [[...]]}.

        Each VM is {"id", "cpu", "mem", "bandwidth"} with optional "speed" (1) and
        "price_per_hour" (0). Raises WorkflowError naming the file and the fault, also
        for an unknown or repeated key.
        """
        path = Path(path)
        try:
            return replace(cls.from_dict(parse_json(read_text(path))), name=path.stem)
        except WorkflowError as error:
            raise WorkflowError(f"{path}: {error}") from error

    @classmethod
    def from_dict(cls, data: object) -> "Cluster":
        """Build a cluster from the parsed JSON of `from_json`."""
        links = None
        if isinstance(data, dict):
            if "vms" not in data:
                raise WorkflowError('a cluster must be a list of VMs or an object with the key "vms"')
            if unknown := [key for key in data if key not in ("vms", "link_gbps")]:
                raise WorkflowError(
                    f"the cluster has unknown keys: {', '.join(map(repr, unknown))}; it takes vms and link_gbps"
                )
            data, links = data["vms"], data.get("link_gbps")
        if not isinstance(data, list):
            raise WorkflowError(f"a cluster must be a list of VMs, got {type(data).__name__}")
        if links is not None and not (isinstance(links, list) and all(isinstance(row, list) for row in links)):
            raise WorkflowError("link_gbps must be a list of rows")
        return cls(tuple(_vm_from_dict(entry, i) for i, entry in enumerate(data)), links)

    def to_dict(self) -> object:
        """The inverse of `from_dict`: a list, or an object when links are given."""
        vms = [
            {
                "id": vm.id,
                "cpu": vm.cpu,
                "mem": vm.memory_gb,
                "bandwidth": vm.bandwidth_gbps,
                "speed": vm.speed,
                "price_per_hour": vm.price_per_hour,
            }  # fmt: skip
            for vm in self.vms
        ]
        return vms if self.link_gbps is None else {"vms": vms, "link_gbps": [list(row) for row in self.link_gbps]}

    # --- arrays, v VMs ----------------------------------------------------------------

    @cached_property
    def capacity(self) -> np.ndarray:
        """(v, 3) cores, GB and Gbit/s of each VM."""
        return frozen(np.array([[vm.cpu, vm.memory_gb, vm.bandwidth_gbps] for vm in self.vms], dtype=float))

    @cached_property
    def speed(self) -> np.ndarray:
        """(v,) speed of each VM."""
        return frozen(np.array([vm.speed for vm in self.vms]))

    @cached_property
    def link_mb_per_s(self) -> np.ndarray:
        """(v, v) MB/s from VM i to VM j; infinite on the diagonal (no transfer needed)."""
        if self.link_gbps is not None:
            rates = np.array(self.link_gbps, dtype=float)
        else:
            bandwidth = self.capacity[:, 2]
            rates = np.minimum.outer(bandwidth, bandwidth)
        rates = rates * MB_PER_S_PER_GBPS
        np.fill_diagonal(rates, math.inf)
        return frozen(rates)

    @cached_property
    def mean_s_per_mb(self) -> float:
        """Mean seconds to send one MB, over the ordered pairs of different VMs (0 for one VM)."""
        v = len(self.vms)
        if v == 1:
            return 0.0
        with np.errstate(divide="ignore"):
            return float((1.0 / self.link_mb_per_s).sum() / (v * (v - 1)))


def _vm_from_dict(entry: object, position: int) -> VM:
    if not isinstance(entry, dict):
        raise WorkflowError(f"VM {position} must be an object, got {type(entry).__name__}")
    missing = [key for key in ("id", "cpu", "mem", "bandwidth") if key not in entry]
    if missing:
        raise WorkflowError(f"VM {entry.get('id', position)!r} lacks {', '.join(missing)}")
    unknown = set(entry) - {"id", "cpu", "mem", "bandwidth", "speed", "price_per_hour"}
    if unknown:
        raise WorkflowError(f"VM {entry['id']!r} has unknown keys: {', '.join(sorted(map(str, unknown)))}")
    return VM(entry["id"], entry["cpu"], entry["mem"], entry["bandwidth"],
              entry.get("speed", 1.0), entry.get("price_per_hour", 0.0))  # fmt: skip


def exec_time_s(workflow: Workflow, cluster: Cluster) -> np.ndarray:
    """(n, v) mean run time in seconds of each task on each VM; infinite where it cannot run.

    duration / speed, or the task's own runtime_s for that VM. A VM whose capacity
    is below one of the task's demands, or which runtime_s does not name, cannot run it.
    Raises WorkflowError for a run time beyond the largest floating-point number.
    """
    with np.errstate(over="ignore"):
        times = workflow.mean_s[:, None] / cluster.speed[None, :]
    if not np.isfinite(times).all():
        i, v = np.argwhere(~np.isfinite(times))[0]
        raise WorkflowError(
            f"task {workflow.tasks[i].id!r} of {workflow.mean_s[i]:g} s would run longer than any number on VM "
            f"{cluster.vms[v].id!r} of speed {cluster.speed[v]:g}; check the units"
        )
    for i, task in enumerate(workflow.tasks):
        if task.runtime_s is not None:
            by_text = {str(vm): seconds for vm, seconds in task.runtime_s.items()}
            times[i] = [by_text.get(str(vm.id), math.inf) for vm in cluster.vms]
    fits = (workflow.demand[:, None, :] <= cluster.capacity[None, :, :] + RESOURCE_TOLERANCE).all(axis=2)
    return np.where(fits, times, math.inf)
