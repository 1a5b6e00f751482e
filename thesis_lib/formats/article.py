"""The article's JSON, the project's own format: one object with "type" and "tasks"."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from difflib import get_close_matches
from pathlib import Path

import numpy as np

from thesis_lib.cluster import Cluster
from thesis_lib.files import write_bytes
from thesis_lib.formats.reading import (
    Source,
    as_dict,
    as_list,
    checked_workflow,
    is_canonical_integer,
    listed,
    without_repeats,
)
from thesis_lib.ranks import on_critical_path
from thesis_lib.workflow import Task, TaskId, Workflow, WorkflowError, as_text, valid_id

FILE_KEYS = ("type", "name", "tasks", "cluster")
NUMBER_KEYS = {  # key in the file -> field of Task
    "duration_mean": "duration_mean_s",
    "duration_std": "duration_std_s",
    "cpu": "cpu",
    "mem": "memory_gb",
    "bandwidth": "bandwidth_gbps",
    "priority": "priority",
}
TASK_KEYS = (*NUMBER_KEYS, "id", "dependencies", "on_critical_path", "data_mb", "runtime_s", "name")

# What other programs call these keys. Passed over, they would make another problem of the file.
MEANT = {
    "depends_on": "dependencies", "depends": "dependencies", "deps": "dependencies", "parents": "dependencies",
    "predecessors": "dependencies", "duration": "duration_mean", "runtime": "duration_mean", "mean": "duration_mean",
    "std": "duration_std", "cpus": "cpu", "cores": "cpu", "memory": "mem", "memory_gb": "mem", "ram": "mem",
    "bandwidth_gbps": "bandwidth", "duration_mean_s": "duration_mean", "duration_std_s": "duration_std",
    "data": "data_mb", "runtimes": "runtime_s",
}  # fmt: skip


def recognise(source: Source) -> str | None:
    """ "article" for a JSON object with "tasks" at its top level."""
    if source.starts == "{" and isinstance(source.json, dict) and "tasks" in source.json:
        return "article"
    return None


def read(source: Source, edges_from_files: bool = False) -> Workflow:
    """Read the article's JSON.

    {"type", "tasks": [{"id", "duration_mean", "duration_std", "dependencies", "priority",
    "on_critical_path"}]}, durations in seconds. A task may add cpu (cores, 1), mem (GB, 0),
    bandwidth (Gbit/s, 0), data_mb {parent id: MB}, runtime_s {VM id: s} and name; the file
    may add name and cluster. Only id and duration_mean are required. on_critical_path is
    computed; a file that states something else gets a warning. An unknown key that
    looks like a known one is refused, any other gives a warning.
    """
    data, warnings = as_dict(source.json, "the file"), []
    if unknown := [repr(k) for k in data if k not in FILE_KEYS]:
        warnings.append(f"unknown keys of the file are ignored: {listed(unknown)}")
    entries = [as_dict(e, f"task {i} of the list") for i, e in enumerate(as_list(data["tasks"], '"tasks"'))]
    tasks = tuple(_task(entry, i, warnings) for i, entry in enumerate(entries))
    _warn_unknown_keys(entries, tasks, warnings)
    cluster = _cluster(data["cluster"]) if data.get("cluster") is not None else None
    family = as_text(data.get("type", ""), '"type"')
    name = as_text(data.get("name", ""), '"name"') or source.path.stem
    workflow = checked_workflow(tasks, family, name, cluster)
    _compare_critical_path(entries, workflow, warnings)
    return replace(workflow, warnings=tuple(warnings)) if warnings else workflow


def _task(entry: dict, position: int, warnings: list[str]) -> Task:
    if missing := [key for key in ("id", "duration_mean") if key not in entry]:
        raise WorkflowError(f"task {entry.get('id', position)!r} lacks {listed(map(repr, missing))}")
    task_id = valid_id(entry["id"], f"id of task {position} of the list")
    where = f"task {task_id!r}"
    for key in entry:
        if key not in TASK_KEYS and (meant := _what_is_meant(key)):
            raise WorkflowError(f"{where}: there is no key {key!r}; write {meant!r}")
    fields = {field: entry[key] for key, field in NUMBER_KEYS.items() if key in entry}
    stated = as_list(entry.get("dependencies", []), f"{where}: dependencies")
    parents = [valid_id(p, f"{where}: dependency") for p in stated]
    runtime = entry.get("runtime_s")
    return Task(
        task_id,
        **fields,
        dependencies=without_repeats(task_id, parents, warnings),
        data_mb=as_dict(entry.get("data_mb", {}), f"{where}: data_mb"),
        runtime_s=None if runtime is None else _runtimes_from_json(runtime, f"{where}: runtime_s"),
        name=as_text(entry.get("name", ""), f"{where}: name"),
    )


def _what_is_meant(key: str) -> str | None:
    """The known key that an unknown one stands for or is a slip of."""
    close = get_close_matches(key, TASK_KEYS, n=1, cutoff=0.8)
    return MEANT.get(key) or (close[0] if close else None)


def _cluster(data: object) -> Cluster:
    try:
        return Cluster.from_dict(data)
    except WorkflowError as error:
        raise WorkflowError(f'"cluster": {error}') from error


def _warn_unknown_keys(entries: list[dict], tasks: tuple[Task, ...], warnings: list[str]) -> None:
    holders: dict[str, list[TaskId]] = {}
    for entry, task in zip(entries, tasks):
        for key in entry:
            if key not in TASK_KEYS:
                holders.setdefault(key, []).append(task.id)
    for key, ids in holders.items():
        warnings.append(f"unknown key {key!r} is ignored in task {listed(ids)}; known keys: {listed(TASK_KEYS, 20)}")


def _compare_critical_path(entries: list[dict], workflow: Workflow, warnings: list[str]) -> None:
    differing = []
    for entry, task, computed in zip(entries, workflow.tasks, on_critical_path(workflow).tolist()):
        stated = entry.get("on_critical_path", computed)
        if not isinstance(stated, bool):
            raise WorkflowError(f"task {task.id!r}: on_critical_path must be true or false, got {stated!r}")
        if stated != computed:
            differing.append(task.id)
    if differing:
        warnings.append(
            f"on_critical_path is not what the durations give for task {listed(differing)}; the computed value counts"
        )


# --- runtime_s: JSON keys are text, VM ids may be integers -------------------------------


def _runtimes_from_json(value: object, what: str) -> dict:
    """{VM id: s}, where a key such as "0" means the integer 0, or a list of [VM id, s] pairs."""
    if isinstance(value, list):
        if not all(isinstance(pair, list) and len(pair) == 2 for pair in value):
            raise WorkflowError(f"{what} must be an object, or a list of [VM id, seconds] pairs")
        pairs = [(valid_id(vm, f"{what} key"), seconds) for vm, seconds in value]
    else:
        pairs = [(int(vm) if is_canonical_integer(vm) else vm, seconds) for vm, seconds in as_dict(value, what).items()]
    if len({str(vm) for vm, _ in pairs}) < len(pairs):
        raise WorkflowError(f"{what} names a VM twice")
    return dict(pairs)


def _runtimes_to_json(runtimes: Mapping[TaskId, float]) -> object:
    """The object form, or pairs when a text id such as "0" would come back as an integer."""
    if any(isinstance(vm, str) and is_canonical_integer(vm) for vm in runtimes):
        return [[vm, seconds] for vm, seconds in runtimes.items()]
    return {str(vm): seconds for vm, seconds in runtimes.items()}


# --- writing ----------------------------------------------------------------------------


def save_workflow(workflow: Workflow, path: str | Path) -> None:
    """Write the article's JSON, one task a line; loading it gives an equal workflow.

    Written to a temporary file in the same folder and renamed, so that no half-written
    file is ever seen. Raises WorkflowError when the file cannot be written.
    """
    if not isinstance(workflow, Workflow):
        raise WorkflowError(f"{path}: save_workflow writes a Workflow, got {type(workflow).__name__}")
    try:
        content = _to_text(workflow).encode("utf-8")
    except ValueError as error:  # a lone surrogate in an id or a name
        raise WorkflowError(f"{path}: cannot be written: {error}") from error
    write_bytes(path, content)


def _to_text(workflow: Workflow) -> str:
    critical = on_critical_path(workflow).tolist()
    lines = ",\n".join("  " + _dumps(_task_to_dict(t, c)) for t, c in zip(workflow.tasks, critical))
    head = f'{{\n "type": {_dumps(workflow.family)},\n'
    if workflow.name:
        head += f' "name": {_dumps(workflow.name)},\n'
    tail = f',\n "cluster": {_dumps(workflow.cluster.to_dict())}\n}}\n' if workflow.cluster else "\n}\n"
    return f'{head} "tasks": [\n{lines}\n ]{tail}'


def _task_to_dict(task: Task, critical: bool) -> dict:
    """A task as the file states it; demands that have their default value are left out."""
    entry: dict[str, object] = {
        "id": task.id,
        "duration_mean": task.duration_mean_s,
        "duration_std": task.duration_std_s,
        "dependencies": list(task.dependencies),
        "priority": task.priority,
        "on_critical_path": critical,
    }
    for key, value, default in (
        ("cpu", task.cpu, 1.0),
        ("mem", task.memory_gb, 0.0),
        ("bandwidth", task.bandwidth_gbps, 0.0),
        ("name", task.name, ""),
    ):
        if value != default:
            entry[key] = value
    if task.data_mb:
        entry["data_mb"] = {str(parent): mb for parent, mb in task.data_mb.items()}
    if task.runtime_s is not None:
        entry["runtime_s"] = _runtimes_to_json(task.runtime_s)
    return entry


def _dumps(value: object) -> str:
    return json.dumps(value, ensure_ascii=False, allow_nan=False, default=_plain)


def _plain(value: object) -> object:
    if isinstance(value, np.generic):
        return value.item()
    raise WorkflowError(f"{value!r} cannot be written as JSON")
