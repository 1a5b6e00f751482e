"""WfFormat, the JSON of WfCommons, versions 1.0 to 1.6.

The layout is told by the keys that exist, not by the version: tasks directly under
`workflow` ("jobs" up to 1.2, "tasks" in 1.3 and 1.4), or split into `specification`
and `execution`, joined on the id (1.5 and later). File sizes are bytes in every
version, whatever the older schema texts say.
"""

from __future__ import annotations

from dataclasses import dataclass

from thesis_lib.formats.file_edges import FileTask, data_by_parent_mb, settle_file_edges
from thesis_lib.formats.reading import Source, as_dict, as_list, checked_workflow, listed
from thesis_lib.workflow import Task, TaskId, Workflow, WorkflowError, as_text, finite_number, valid_id

BYTES_PER_GB, KB_PER_GB = 1e9, 1e6


@dataclass
class Record:
    """One task of the file: its merged JSON entry, its name, and its files and parents."""

    entry: dict
    name: str
    files: FileTask

    @property
    def id(self) -> TaskId:
        """Id of the task, under which its files and parents are kept."""
        return self.files.id


def recognise(source: Source) -> str | None:
    """ "wfformat-VERSION" for a JSON object with "workflow" at its top level."""
    if source.starts != "{" or not isinstance(source.json, dict) or "workflow" not in source.json:
        return None
    version = source.json.get("schemaVersion")
    return f"wfformat-{version}" if isinstance(version, str) and version else "wfformat"


def read(source: Source, edges_from_files: bool = False) -> Workflow:
    """Read WfFormat: edges from parents and children together, data from shared files.

    The key of a task is its id, and its name only where the file has no ids. cpu is
    coreCount (or cores), memory_gb is memoryInBytes (or memory, in KB). The priority
    in these files ranks the original run's queue on a scale of its own and is not read.
    """
    data, warnings = source.json, []
    entries, sizes = _entries(data, warnings)
    records = [_record(entry, i, sizes) for i, entry in enumerate(entries)]
    _connect(records)
    _warn_unsized(records, sizes, warnings)
    files = [r.files for r in records]
    settle_file_edges(files, edges_from_files, warnings)
    by_id = {str(f.id): f for f in files}
    tasks = [_task(r, by_id) for r in records]
    family = as_text(data.get("name", ""), '"name"')
    return checked_workflow(tasks, family, source.path.stem, None, warnings)


# --- layouts ----------------------------------------------------------------------------


def _entries(data: dict, warnings: list[str]) -> tuple[list[dict], dict[str, object] | None]:
    """The task entries, and bytes by file id where the layout lists files once (else None)."""
    workflow = as_dict(data["workflow"], '"workflow"')
    version = data.get("schemaVersion", "not stated")
    if "specification" in workflow:
        return _split_layout(workflow, version, warnings)
    for key in ("tasks", "jobs"):
        if key in workflow:
            return _dicts(workflow[key], f"workflow.{key}"), None
    raise WorkflowError(
        f"unknown WfFormat layout (schemaVersion {version}): missing key, "
        '"workflow" has none of "specification", "tasks", "jobs"'
    )


def _split_layout(workflow: dict, version: object, warnings: list[str]) -> tuple[list[dict], dict[str, object]]:
    parts = {}
    for part in ("specification", "execution"):
        parts[part] = as_dict(workflow.get(part, {}), f"workflow.{part}")
        if "tasks" not in parts[part]:
            raise WorkflowError(
                f'WfFormat (schemaVersion {version}): missing key "workflow.{part}.tasks"'
                + ("; without it there are no runtimes" if part == "execution" else "")
            )
    specified = _by_id(parts["specification"]["tasks"], "workflow.specification.tasks")
    executed = _by_id(parts["execution"]["tasks"], "workflow.execution.tasks")
    if missing := [repr(i) for i in specified if i not in executed]:
        raise WorkflowError(
            f"task {listed(missing)} has no entry in workflow.execution.tasks, so no runtime; add runtimeInSeconds"
        )
    if extra := [repr(i) for i in executed if i not in specified]:
        warnings.append(f"workflow.execution.tasks has entries that are no task and are ignored: {listed(extra)}")
    sizes = {
        str(_file_name(f, "workflow.specification.files")): _first(f, "sizeInBytes", "size")
        for f in _dicts(parts["specification"].get("files", []), "workflow.specification.files")
    }
    return [{**executed[i], **entry} for i, entry in specified.items()], sizes


def _by_id(value: object, what: str) -> dict[str, dict]:
    entries: dict[str, dict] = {}
    for i, entry in enumerate(_dicts(value, what)):
        if "id" not in entry:
            raise WorkflowError(f'{what}: entry {i} lacks "id"')
        key = str(valid_id(entry["id"], f"{what}: id of entry {i}"))
        if key in entries:
            raise WorkflowError(f"duplicate task id {entry['id']!r} in {what}; ids must be unique")
        entries[key] = entry
    return entries


def _dicts(value: object, what: str) -> list[dict]:
    return [as_dict(entry, f"{what}: entry {i}") for i, entry in enumerate(as_list(value, what))]


# --- one task ---------------------------------------------------------------------------


def _record(entry: dict, position: int, sizes: dict[str, object] | None) -> Record:
    if "id" not in entry and "name" not in entry:
        raise WorkflowError(f'task {position} of the list lacks both "id" and "name"')
    key = "id" if "id" in entry else "name"
    task_id = valid_id(entry[key], f"{key} of task {position} of the list")
    name = as_text(entry.get("name", ""), f"task {task_id!r}: name")
    files = FileTask(task_id)
    for file in _dicts(entry.get("files", []), f"task {task_id!r}: files"):
        size = _first(file, "sizeInBytes", "size")
        files.use_file(_file_name(file, f"task {task_id!r}: files"), file.get("link"), size)
    for link in ("input", "output"):
        for name_or_id in as_list(entry.get(f"{link}Files", []), f"task {task_id!r}: {link}Files"):
            file_id = str(valid_id(name_or_id, f"task {task_id!r}: {link}Files"))
            files.use_file(file_id, link, (sizes or {}).get(file_id))
    return Record(entry, name, files)


def _file_name(file: dict, what: str) -> str:
    name = _first(file, "name", "id")
    if name is None:
        raise WorkflowError(f'{what}: an entry lacks both "name" and "id"')
    return str(valid_id(name, f"{what}: name"))


def _task(record: Record, by_id: dict[str, FileTask]) -> Task:
    entry, where = record.entry, f"task {record.id!r}"
    runtime = _first(entry, "runtimeInSeconds", "runtime")
    if runtime is None:
        raise WorkflowError(f'{where} has no runtime; add "runtimeInSeconds" (or "runtime" up to 1.3)')
    return Task(
        record.id,
        finite_number(runtime, f"{where}: runtime"),
        cpu=finite_number(_first(entry, "coreCount", "cores", absent=1), f"{where}: coreCount"),
        memory_gb=_memory_gb(entry, where),
        dependencies=tuple(record.files.parents.values()),
        data_mb=data_by_parent_mb(record.files, by_id),
        name=record.name,
    )


def _memory_gb(entry: dict, where: str) -> float:
    if entry.get("memoryInBytes") is not None:
        return finite_number(entry["memoryInBytes"], f"{where}: memoryInBytes") / BYTES_PER_GB
    return finite_number(_first(entry, "memory", absent=0), f"{where}: memory") / KB_PER_GB


def _first(entry: dict, *keys: str, absent: object = None) -> object:
    """The value of the first key that is there and not null; the spelling differs between versions."""
    return next((entry[key] for key in keys if entry.get(key) is not None), absent)


# --- edges ------------------------------------------------------------------------------


def _connect(records: list[Record]) -> None:
    """Add to each task its parents: what it states, and what other tasks' children state."""
    stated = [
        (record, side, valid_id(ref, f"task {record.id!r}: {side}"))
        for record in records
        for side in ("parents", "children")
        for ref in as_list(record.entry.get(side, []), f"task {record.id!r}: {side}")
    ]
    by_id = {str(r.id): r for r in records}  # Workflow refuses ids that occur twice
    by_name: dict[str, list[Record]] = {}
    if not all(str(ref) in by_id for _, _, ref in stated):  # up to 1.4 references are names although ids exist
        for record in records:
            by_name.setdefault(record.name, []).append(record)
    for record, side, ref in stated:
        other = _resolve(ref, record, side, by_id, by_name)
        child, parent = (record, other) if side == "parents" else (other, record)
        child.files.add_parent(parent.id)


def _resolve(
    ref: TaskId, record: Record, side: str, by_id: dict[str, Record], by_name: dict[str, list[Record]]
) -> Record:
    """The task that a reference means: by name where the file refers by names, else by id."""
    named = by_name.get(str(ref), [])
    if len(named) == 1:
        return named[0]
    if str(ref) in by_id:
        return by_id[str(ref)]
    if not named:
        raise WorkflowError(f"task {record.id!r}: {side} names {ref!r}, which does not exist")
    ids = listed(repr(r.id) for r in named)
    raise WorkflowError(
        f"task {record.id!r}: {side} names {ref!r}, the name of {len(named)} tasks ({ids}); refer to them by id"
    )


def _warn_unsized(records: list[Record], sizes: dict[str, object] | None, warnings: list[str]) -> None:
    """Files that tasks write although the list of files, where there is one, does not size them."""
    if sizes is None:
        return
    if unsized := [repr(name) for r in records for name in r.files.writes if sizes.get(name) is None]:
        warnings.append(f"workflow.specification.files states no size for {listed(unsized)}; counted as 0 bytes")
