"""The shipped data: 33 sets of 100 workflows, and nine workflows derived from real traces.

The sets are drawn by `generators` and can be rebuilt byte for byte; the real ones are kept
files. `dataset/manifest.json` names every file with its sha256, `dataset/README.md` is the card.

A set is one `.npz` of plain integer arrays; `set_file.packed` lists them.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from thesis_lib.files import is_temporary, refuse_target, remove_stale, write_bytes
from thesis_lib.generators import generate
from thesis_lib.set_file import npz_bytes, packed, read_arrays, unpacked
from thesis_lib.workflow import Workflow, WorkflowError

CARD_HEADING = "# Data card\n\n"
HOME = Path(__file__).resolve().parents[1] / "dataset"
MANIFEST, CARD = "manifest.json", "README.md"
NOT_DATA = {MANIFEST, CARD, ".gitattributes", ".DS_Store"}  # files that the manifest need not list
NOT_DATA_FOLDERS = {"models", "configs"}  # trained agents and training configurations
WORKFLOWS_PER_SET = 100
SIZES = (10, 20, 30, 40, 50, 100, 200)
# Topology combinations: a large alpha makes few wide layers, a small one many narrow layers.
SHAPES = {
    "wide-regular": {"alpha": 1.5, "beta": 0.0},
    "wide-irregular": {"alpha": 1.5, "beta": 2.0},
    "deep-regular": {"alpha": 0.5, "beta": 0.0},
    "deep-irregular": {"alpha": 0.5, "beta": 2.0},
}
MAX_OUT = 3
# Workflow i of set k has the seed FIRST_SEED + SEEDS_PER_SET * k + i. The suites draw outside these.
FIRST_SEED, SEEDS_PER_SET = 10_000_000, 1_000

# Kept workflows and how they were made: recipe of wfcommons 1.6, tasks asked for, seed.
REAL = {
    "blast": ("BlastRecipe", 50, 1),
    "bwa": ("BwaRecipe", 106, 1),
    "cycles": ("CyclesRecipe", 69, 1),
    "epigenomics": ("EpigenomicsRecipe", 50, 1),
    "genome": ("GenomeRecipe", 54, 1),
    "montage": ("MontageRecipe", 60, 1),
    "seismology": ("SeismologyRecipe", 103, 1),
    "soykb": ("SoykbRecipe", 98, 1),
    "srasearch": ("SrasearchRecipe", 50, 1),
}


@dataclass(frozen=True)
class DataSet:
    """How one set is drawn: workflow i by family number i mod len(families), all with `parameters`."""

    name: str
    families: tuple[str, ...]
    first_seed: int
    parameters: dict[str, object] = field(default_factory=dict)
    split: str = ""  # "train" or "test" for the two mixes, empty for the sets of one kind

    def draw(self) -> list[Workflow]:
        """The workflows of the set, drawn anew."""
        return [
            generate(self.families[i % len(self.families)], seed=self.first_seed + i, **self.parameters)
            for i in range(WORKFLOWS_PER_SET)
        ]


def _define_sets() -> dict[str, DataSet]:
    kinds: list[tuple] = [
        (f"n{n}-{shape}", ("layered",), {"n_tasks": n, "max_out": MAX_OUT, **values})
        for n in SIZES
        for shape, values in SHAPES.items()
    ]
    kinds += [(family, (family,), {}) for family in ("monte_carlo", "ml_pipeline", "etl")]
    mix = ("monte_carlo", "ml_pipeline", "etl", "layered")
    kinds += [("mix-train", mix, {}, "train"), ("mix-test", mix, {}, "test")]
    return {
        name: DataSet(name, families, FIRST_SEED + SEEDS_PER_SET * k, parameters, *split)
        for k, (name, families, parameters, *split) in enumerate(kinds)
    }


SETS = _define_sets()


def names() -> list[str]:
    """Names of the 33 sets, in the order of the manifest."""
    return list(SETS)


# --- reading -----------------------------------------------------------------------------


def load(name: str, folder: str | Path | None = None) -> tuple[Workflow, ...]:
    """The 100 workflows of a set, read from `folder` (the shipped data set when None).

    Raises WorkflowError for an unknown name, a missing folder or file, or a damaged file.
    """
    path = _set_path(name, folder)
    arrays = read_arrays(path)
    return tuple(unpacked(arrays, w, name, path) for w in range(len(arrays["task_ptr"]) - 1))


def load_one(name: str, i: int, folder: str | Path | None = None) -> Workflow:
    """Workflow number `i` of a set, i = 0 ... 99; errors as `load`."""
    path = _set_path(name, folder)
    arrays = read_arrays(path)
    count = len(arrays["task_ptr"]) - 1
    if isinstance(i, bool) or not isinstance(i, (int, np.integer)) or not 0 <= i < count:
        raise WorkflowError(f"{name} has workflows 0 to {count - 1}, there is no {i!r}")
    return unpacked(arrays, int(i), name, path)


def load_real(name: str, folder: str | Path | None = None) -> Workflow:
    """One of the nine workflows derived from real traces (`REAL` names them); errors as `load`."""
    from thesis_lib.formats import load_workflow

    if name not in REAL:
        raise WorkflowError(f"unknown real workflow {name!r}; choose one of {', '.join(REAL)}")
    return load_workflow(_existing(_folder(folder) / _real_file(name)))


def read_manifest(folder: str | Path | None = None) -> dict:
    """The parsed manifest.json of a data set folder; WorkflowError when it is absent or not one."""
    path, keys = _existing(_folder(folder) / MANIFEST), ("name", "file", "sha256")
    try:
        manifest = json.loads(path.read_text(encoding="utf-8"))
        if all(isinstance(entry[key], str) for entry in manifest["sets"] + manifest["real"] for key in keys):
            return manifest
    except OSError as error:
        raise WorkflowError(f"{path}: cannot be read: {error.strerror}") from error
    except (ValueError, KeyError, TypeError, RecursionError):
        pass
    raise WorkflowError(f"{path}: is not a data set manifest; restore it, or remove it and build the data set again")


def _folder(folder: str | Path | None) -> Path:
    path = HOME if folder is None else Path(folder)
    if not path.is_dir():
        raise WorkflowError(f"{path}: the data set folder does not exist; name another one or build it there")
    return path


def _existing(path: Path) -> Path:
    if not path.is_file():
        raise WorkflowError(f"{path}: the file is missing from the data set; restore it or build the data set again")
    return path


def _set_file(name: str) -> str:
    return f"sets/{name}.npz"


def _real_file(name: str) -> str:
    return f"real/{name}.json"


def _set_path(name: str, folder: str | Path | None) -> Path:
    if name not in SETS:
        raise WorkflowError(f"unknown data set {name!r}; choose one of {', '.join(SETS)}")
    return _existing(_folder(folder) / _set_file(name))


# --- building ----------------------------------------------------------------------------


def build(
    out_dir: str | Path | None = None,
    progress: Callable[[str], None] | None = None,
    only: Sequence[str] | None = None,
) -> Path:
    """Draw every set anew and write it with the kept real workflows and the manifest; return the folder.

    out_dir: None rebuilds the shipped folder in place; another folder also gets copies of
        the real workflows. progress: called with the name of each file written.
    only: names of sets to write; then nothing else is written, the manifest neither.

    Raises WorkflowError for an unknown set, when the real workflows are missing or are not
    those of the shipped manifest, when the folder cannot be written, or when it holds a
    README.md, a manifest or a workflow of the same name that is not of a data set.
    """
    out, report = HOME if out_dir is None else Path(out_dir), progress or (lambda name: None)
    if unknown := [name for name in only or () if name not in SETS]:
        raise WorkflowError(f"unknown data set {', '.join(map(repr, unknown))}; choose from {', '.join(SETS)}")
    real = {} if only is not None else {name: _kept_bytes(name) for name in REAL}
    files = [_set_file(name) for name in (names() if only is None else only)]
    files += [_real_file(name) for name in real] + ([] if only is not None else [MANIFEST, CARD])
    for file in files:
        refuse_target(out / file, make_folder=True)
    if only is None:
        _refuse_foreign(out, real)
    for file in files:
        remove_stale(out / file)
    entries = []
    for name in names() if only is None else only:
        workflows = SETS[name].draw()
        content = npz_bytes(packed(workflows))
        write_bytes(out / _set_file(name), content, make_folder=True)
        entries.append(_set_entry(SETS[name], workflows, content))
        report(_set_file(name))
    for name, content in real.items():
        write_bytes(out / _real_file(name), content, make_folder=True)
        report(_real_file(name))
    if only is None:
        _write_manifest(out, entries, [_real_entry(name, content) for name, content in real.items()])
        report(MANIFEST)
        if out.resolve() != HOME and (HOME / CARD).is_file():
            write_bytes(out / CARD, _read(HOME / CARD))
    return out


def _refuse_foreign(out: Path, real: dict[str, bytes]) -> None:
    """Raise WorkflowError for a file that a build would replace although no build wrote it."""
    if out.resolve() == HOME.resolve():
        return
    foreign, ours = [], (out / MANIFEST).is_file()
    try:
        if ours:
            read_manifest(out)
    except WorkflowError:
        foreign.append(MANIFEST)
    if (out / CARD).is_file() and not _read(out / CARD).startswith(CARD_HEADING.encode()):
        foreign.append(CARD)
    if not ours:
        foreign += [_real_file(name) for name, content in real.items()
                    if (out / _real_file(name)).is_file() and _read(out / _real_file(name)) != content]  # fmt: skip
    if foreign:
        raise WorkflowError(
            f"{out / foreign[0]}: is no part of a data set and would be overwritten; choose another folder"
        )


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise WorkflowError(f"{path}: cannot be read: {error.strerror}") from error


def _kept_bytes(name: str) -> bytes:
    """The shipped bytes of a real workflow, checked against the shipped manifest if there is one."""
    path = HOME / _real_file(name)
    if not path.is_file():
        raise WorkflowError(f"{path}: is missing; real workflows are kept, not drawn anew: restore the file")
    content = _read(path)
    if (HOME / MANIFEST).is_file():
        known = {entry["name"]: entry["sha256"] for entry in read_manifest(HOME)["real"]}
        if known.get(name, _sha256(content)) != _sha256(content):
            raise WorkflowError(f"{path}: was changed since it was shipped (sha256 differs): restore the file")
    return content


def _set_entry(data_set: DataSet, workflows: Sequence[Workflow], content: bytes) -> dict:
    sizes = [len(w) for w in workflows]
    return {
        "name": data_set.name,
        "generator": list(data_set.families),
        "parameters": data_set.parameters,
        "split": data_set.split,
        "first_seed": data_set.first_seed,
        "last_seed": data_set.first_seed + len(workflows) - 1,
        "workflows": len(workflows),
        "tasks": sum(sizes),
        "tasks_min": min(sizes),
        "tasks_max": max(sizes),
        "edges": sum(len(w.parent_idx) for w in workflows),
        "file": _set_file(data_set.name),
        "bytes": len(content),
        "sha256": _sha256(content),
    }


def _real_entry(name: str, content: bytes) -> dict:
    recipe, asked, seed = REAL[name]
    tasks = json.loads(content)["tasks"]
    return {
        "name": name,
        "made_with": f"wfcommons 1.6, {recipe}.from_num_tasks({asked}), random and numpy seeded with {seed}",
        "tasks": len(tasks),
        "edges": sum(len(task["dependencies"]) for task in tasks),
        "file": _real_file(name),
        "bytes": len(content),
        "sha256": _sha256(content),
    }


def _write_manifest(out: Path, sets: list[dict], real: list[dict]) -> None:
    write_bytes(out / MANIFEST, (json.dumps({"sets": sets, "real": real}, indent=1) + "\n").encode())


def _sha256(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


# --- checking ----------------------------------------------------------------------------


def check(folder: str | Path | None = None) -> list[str]:
    """Compare a data set folder with its manifest; return the faults in plain words, [] when there are none.

    Found: a set or real workflow that the manifest does not list, a missing file, a
    checksum mismatch, an extra file. What a killed build left half-written is passed
    over. Raises WorkflowError without folder or manifest.
    """
    root = _folder(folder)
    manifest = read_manifest(root)
    entries = [*manifest["sets"], *manifest["real"]]
    listed = {entry["file"] for entry in entries}
    expected = [_set_file(name) for name in SETS] + [_real_file(name) for name in REAL]
    faults = [f"{file}: is not listed in {MANIFEST}" for file in expected if file not in listed]
    for entry in entries:
        path = root / entry["file"]
        if not path.is_file():
            faults.append(f"{entry['file']}: is missing")
        elif (found := _sha256(_read(path))) != entry["sha256"]:
            faults.append(f"{entry['file']}: sha256 is {found[:12]}..., {MANIFEST} says {entry['sha256'][:12]}...")
    present = {
        path.relative_to(root).as_posix()
        for path in root.rglob("*")
        if path.is_file()
        and path.name not in NOT_DATA
        and not is_temporary(path)
        and path.relative_to(root).parts[0] not in NOT_DATA_FOLDERS
    }
    faults += [f"{file}: is not part of the data set" for file in sorted(present - listed)]
    return faults
