"""The shipped sets: their bytes, what is in them, and what happens when they are damaged."""

import hashlib
import json
import math
import shutil
import zipfile

import numpy as np
import pytest

from thesis_lib import dataset
from thesis_lib.generators import etl
from thesis_lib.ranks import critical_path
from thesis_lib.set_file import npz_bytes, packed, read_arrays, unpacked
from thesis_lib.workflow import Task, Workflow, WorkflowError
from thesis_lib.workload import SEED_RANGES


@pytest.fixture(scope="module")
def manifest():
    return dataset.read_manifest()


@pytest.fixture(scope="module")
def summary():
    """Per set: sizes, numbers of edges, families and the numbers that tell workflows apart."""
    result = {}
    for name in dataset.names():
        workflows = dataset.load(name)
        result[name] = {
            "sizes": [len(w) for w in workflows],
            "edges": sum(len(w.edges) for w in workflows),
            "families": [w.family for w in workflows],
            "durations": [w.mean_s.tobytes() for w in workflows],
        }
    return result


@pytest.fixture
def copy(tmp_path):
    """A copy of the shipped folder that a test may damage."""
    return shutil.copytree(dataset.HOME, tmp_path / "dataset")


# --- what is shipped -----------------------------------------------------------------------


def test_33_sets_of_100():
    shapes = [f"{a}-{b}" for a in ("wide", "deep") for b in ("regular", "irregular")]
    expected = {f"n{n}-{shape}" for n in (10, 20, 30, 40, 50, 100, 200) for shape in shapes}
    expected |= {"monte_carlo", "ml_pipeline", "etl", "mix-train", "mix-test"}
    assert len(dataset.names()) == 33 and set(dataset.names()) == expected
    assert all(len(dataset.load(name)) == 100 for name in ("n10-wide-regular", "etl", "mix-test"))


def test_shipped_folder_is_sound_and_small():
    assert dataset.check() == []
    folders = [dataset.HOME / name for name in ("sets", "real")]
    assert sum(path.stat().st_size for folder in folders for path in folder.iterdir()) < 10e6


def test_manifest_tells_the_truth(manifest, summary):
    assert [entry["name"] for entry in manifest["sets"]] == dataset.names()
    assert [entry["name"] for entry in manifest["real"]] == list(dataset.REAL)
    for entry in manifest["sets"]:
        content = (dataset.HOME / entry["file"]).read_bytes()
        assert hashlib.sha256(content).hexdigest() == entry["sha256"] and len(content) == entry["bytes"]
        sizes = summary[entry["name"]]["sizes"]
        assert (len(sizes), sum(sizes), min(sizes), max(sizes)) == tuple(
            entry[key] for key in ("workflows", "tasks", "tasks_min", "tasks_max")
        )
        assert summary[entry["name"]]["edges"] == entry["edges"]


def test_layers_and_widths_of_the_topology_sets():
    # floor(sqrt(100) / 1.5) = 6 layers of 16 or 17 tasks, floor(sqrt(100) / 0.5) = 20 layers of 5.
    def widths(name):
        for workflow in dataset.load(name):
            level = [0] * len(workflow)
            for i in workflow.topological_order.tolist():
                level[i] = max((level[p] + 1 for p in workflow.parents(i)), default=0)
            yield np.bincount(level)

    assert all(sorted(w) == [16, 16, 17, 17, 17, 17] for w in widths("n100-wide-regular"))
    assert all(list(w) == [5] * 20 for w in widths("n100-deep-regular"))
    irregular = list(widths("n100-wide-irregular"))
    assert {len(w) for w in irregular} == {6} and np.std(irregular) > 1.2


def test_mixes_hold_the_families_equally_and_no_workflow_occurs_twice(summary):
    assert len({durations for entry in summary.values() for durations in entry["durations"]}) == 3300
    for name in ("mix-train", "mix-test"):
        families = summary[name]["families"]
        assert {f: families.count(f) for f in set(families)} == dict.fromkeys(
            ("monte_carlo", "ml_pipeline", "etl", "layered"), 25
        )


def test_seeds_are_apart_from_each_other_and_from_the_suites(manifest):
    spans = sorted((entry["first_seed"], entry["last_seed"]) for entry in manifest["sets"])
    assert all(last < first for (_, last), (first, _) in zip(spans, spans[1:]))
    assert all(last == first + 99 for first, last in spans)
    assert spans[0][0] >= max(r.stop for r in SEED_RANGES.values())
    assert {e["name"]: e["split"] for e in manifest["sets"] if e["split"]} == {"mix-train": "train", "mix-test": "test"}


def test_load_one():
    workflows = dataset.load("mix-test")
    for i in (0, 57, 99):
        workflow = dataset.load_one("mix-test", i)
        assert workflow == workflows[i] and workflow.name == f"mix-test-{i:03d}"


def test_card_states_the_numbers_of_the_manifest(manifest):
    card = (dataset.HOME / "README.md").read_text(encoding="utf-8")
    rows = [line for line in card.splitlines() if line.startswith("| `")]
    for entry in manifest["sets"]:
        sizes = str(entry["tasks_min"])
        if entry["tasks_max"] > entry["tasks_min"]:
            sizes += f" to {entry['tasks_max']}"
        start = f"| `{entry['name']}` | {sizes} | {entry['tasks']} | {entry['edges']} | {entry['first_seed']} |"
        assert sum(row.startswith(start) for row in rows) == 1, start
    for entry in manifest["real"]:
        workflow = dataset.load_real(entry["name"])
        seconds = f"{workflow.mean_s.sum():.1f} | {critical_path(workflow)[0]:.1f}"
        start = (
            f"| `{entry['name']}` | {entry['tasks']} | {entry['edges']} | {seconds} | {workflow.parent_mb.sum():.1f} |"
        )
        assert sum(row.startswith(start) for row in rows) == 1, start


# --- real workflows ------------------------------------------------------------------------


@pytest.mark.parametrize("name", dataset.REAL)
def test_real_workflows(name, manifest):
    workflow = dataset.load_real(name)
    entry = next(e for e in manifest["real"] if e["name"] == name)
    assert (len(workflow), len(workflow.edges)) == (entry["tasks"], entry["edges"])
    assert workflow.family == name and workflow.warnings == ()
    assert (workflow.parent_mb > 0).any()
    assert workflow.std_s == pytest.approx(0.15 * workflow.mean_s, abs=1e-6)
    assert (workflow.demand == [1, 0, 0]).all()


def test_real_numbers_by_hand():
    # The seismology recipe is many deconvolutions into one merging task.
    workflow = dataset.load_real("seismology")
    assert sorted(len(workflow.parents(i)) for i in range(len(workflow))) == [0] * 100 + [100]
    raw = json.loads((dataset.HOME / "real" / "seismology.json").read_text())
    assert workflow.mean_s.sum() == pytest.approx(math.fsum(t["duration_mean"] for t in raw["tasks"]))


# --- building ------------------------------------------------------------------------------


def test_two_sets_are_rebuilt_byte_for_byte(tmp_path):
    written = []
    dataset.build(tmp_path, progress=written.append, only=["n10-deep-irregular", "ml_pipeline"])
    assert written == ["sets/n10-deep-irregular.npz", "sets/ml_pipeline.npz"]
    for file in written:
        assert (tmp_path / file).read_bytes() == (dataset.HOME / file).read_bytes()
    assert sorted(p.name for p in tmp_path.rglob("*") if p.is_file()) == ["ml_pipeline.npz", "n10-deep-irregular.npz"]


def test_a_full_build_gives_the_shipped_folder(tmp_path):
    out = dataset.build(tmp_path / "built")
    assert dataset.check(out) == []
    for path in dataset.HOME.rglob("*"):
        beside = path.relative_to(dataset.HOME).parts[0] in dataset.NOT_DATA_FOLDERS
        if path.is_file() and not path.name.startswith(".") and not beside:
            assert (out / path.relative_to(dataset.HOME)).read_bytes() == path.read_bytes(), path.name


def test_build_refuses_a_changed_real_workflow(copy, tmp_path, monkeypatch):
    monkeypatch.setattr(dataset, "HOME", copy)
    file = copy / "real" / "bwa.json"
    file.write_text(file.read_text().replace('"duration_mean": ', '"duration_mean": 1', 1))
    with pytest.raises(WorkflowError, match="bwa.json: was changed since it was shipped"):
        dataset.build(tmp_path / "out")
    file.unlink()
    with pytest.raises(WorkflowError, match="bwa.json: is missing; real workflows are kept"):
        dataset.build(tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_build_names_what_it_does_not_know(tmp_path):
    with pytest.raises(WorkflowError, match="unknown data set 'n11'"):
        dataset.build(tmp_path, only=["n11"])
    (tmp_path / "file").write_text("in the way")
    with pytest.raises(WorkflowError, match="cannot be written"):
        dataset.build(tmp_path / "file", only=["ml_pipeline"])


def test_stored_numbers_by_hand():
    tasks = (
        Task("a", 1.5, 0.225, 2, 4, 0.75, priority=3),
        Task("b", 0.001, 0.0, 16, 96, 20, priority=5, dependencies=("a",), data_mb={"a": 2.5}),
    )
    arrays = packed([Workflow(tasks, family="etl", name="x-s7")])
    stored = {key: array.tolist() for key, array in arrays.items()}
    assert stored == {
        "task_ptr": [0, 2], "family": ["etl"], "seed": [7], "duration_ms": [1500, 1], "std_ms": [225, 0],
        "demand_centi": [[200, 400, 75], [1600, 9600, 2000]], "priority": [3, 5],
        "edge_ptr": [0, 0, 1], "parent": [0], "data_kb": [2500],
    }  # fmt: skip


@pytest.mark.parametrize(
    "task, message",
    [
        (Task(0, 1.0004), "duration_ms: values that are no multiples of 1/1000"),
        (Task(0, 3e6), "duration_ms: values outside"),
        (Task(0, 1, cpu=0.001), "demand_centi: values that are no multiples"),
        (Task(0, 1, priority=-1), "priority: values outside 0 ... 255"),
    ],
)
def test_numbers_that_do_not_fit_are_refused(task, message):
    with pytest.raises(WorkflowError, match=message):
        packed([Workflow((task,), name="x-s0")])


def test_set_files_are_plain():
    with zipfile.ZipFile(dataset.HOME / "sets" / "etl.npz") as archive:
        for entry in archive.infolist():
            assert entry.compress_type == zipfile.ZIP_STORED and entry.date_time == (1980, 1, 1, 0, 0, 0)
    arrays = packed([etl(30, seed=1)])
    assert npz_bytes(arrays) == npz_bytes(arrays)
    assert not any(array.dtype.hasobject for array in arrays.values())


# --- damage --------------------------------------------------------------------------------


def test_check_finds_each_fault(copy):
    (copy / "sets" / "etl.npz").unlink()
    damaged = copy / "sets" / "n10-wide-regular.npz"
    content = bytearray(damaged.read_bytes())
    content[5000] ^= 1
    damaged.write_bytes(content)
    (copy / "sets" / "more.npz").write_bytes(b"")
    (copy / "real" / "bwa.json").unlink()
    (copy / "models").mkdir(exist_ok=True)
    (copy / "models" / "agent.npz").write_bytes(b"")  # agents are none of the data
    faults = dataset.check(copy)
    assert len(faults) == 4
    assert faults[0].startswith("sets/n10-wide-regular.npz: sha256 is ")
    assert faults[1:] == ["sets/etl.npz: is missing", "real/bwa.json: is missing",
                          "sets/more.npz: is not part of the data set"]  # fmt: skip


def test_check_finds_what_the_manifest_leaves_out(copy, manifest):
    shorter = {"sets": manifest["sets"][1:], "real": manifest["real"]}
    (copy / "manifest.json").write_text(json.dumps(shorter))
    file = "sets/n10-wide-regular.npz"
    assert dataset.check(copy) == [f"{file}: is not listed in manifest.json", f"{file}: is not part of the data set"]


@pytest.mark.parametrize("text", ["", "[]", '{"sets": [{}], "real": []}', '{"sets": []}', '{"sets": 1, "real": 2}'])
def test_broken_manifest(copy, text):
    (copy / "manifest.json").write_text(text)
    with pytest.raises(WorkflowError, match="manifest.json: is not a data set manifest"):
        dataset.check(copy)


@pytest.mark.parametrize("content", [b"", b"not a zip", b"PK\x03\x04 cut off"])
def test_damaged_set(copy, content):
    (copy / "sets" / "etl.npz").write_bytes(content)
    with pytest.raises(WorkflowError, match=r"etl.npz: is damaged .* build the data set again"):
        dataset.load("etl", copy)


def test_pickled_arrays_are_refused(copy):
    with open(copy / "sets" / "etl.npz", "wb") as file:
        np.savez(file, task_ptr=np.array([{}], dtype=object))
    with pytest.raises(WorkflowError, match="etl.npz: is damaged"):
        dataset.load("etl", copy)


def test_set_without_an_array(copy):
    with open(copy / "sets" / "etl.npz", "wb") as file:
        np.savez(file, task_ptr=np.array([0, 1]))
    with pytest.raises(WorkflowError, match="etl.npz: lacks the arrays family, seed"):
        dataset.load("etl", copy)


def test_clear_errors(tmp_path):
    with pytest.raises(WorkflowError, match="nowhere: the data set folder does not exist"):
        dataset.load("etl", tmp_path / "nowhere")
    with pytest.raises(WorkflowError, match="etl.npz: the file is missing from the data set"):
        dataset.load("etl", tmp_path)
    with pytest.raises(WorkflowError, match="manifest.json: the file is missing"):
        dataset.check(tmp_path)
    with pytest.raises(WorkflowError, match="unknown data set 'n11'; choose one of n10-wide-regular"):
        dataset.load("n11")
    with pytest.raises(WorkflowError, match="unknown real workflow 'rnaseq'; choose one of blast"):
        dataset.load_real("rnaseq")
    for i in (100, -1, 1.0, True):
        with pytest.raises(WorkflowError, match="etl has workflows 0 to 99"):
            dataset.load_one("etl", i)


def broken(**changed):
    """The bytes of a small set file (3 tasks 0 -> 1, 0 -> 2 in one workflow) with some arrays replaced or left out."""
    tasks = (Task(0, 1), Task(1, 2, dependencies=(0,)), Task(2, 3, dependencies=(0,)))
    arrays = packed([Workflow(tasks, family="etl", name="x-s7")]) | changed
    return npz_bytes({key: array for key, array in arrays.items() if array is not None})


INT32, UINT16 = np.dtype("<i4"), np.dtype("<u2")
DAMAGED_ARRAYS = {
    "demand of two columns": ({"demand_centi": np.zeros((3, 2), UINT16)}, r"demand_centi has the shape \(3, 2\)"),
    "flat demand": ({"demand_centi": np.zeros(9, UINT16)}, "demand_centi has 1 dimensions, not 2"),
    "empty pointer": ({"task_ptr": np.zeros(0, INT32)}, "task_ptr does not rise from 0"),
    "no workflow": ({"task_ptr": np.zeros(1, INT32)}, "task_ptr does not rise from 0"),
    "falling pointer": ({"edge_ptr": np.array([0, 2, 1, 2], INT32)}, "edge_ptr does not rise from 0"),
    "shifted pointer": ({"task_ptr": np.array([1, 3], INT32)}, "task_ptr does not rise from 0"),
    "short durations": ({"duration_ms": np.ones(2, INT32)}, r"duration_ms has the shape \(2,\), not \(3,\)"),
    "floats": ({"std_ms": np.zeros(3)}, "std_ms holds float64, not <i4"),
    "numbers for text": ({"family": np.zeros(1, INT32)}, "family holds int32, not text"),
    "seeds in two rows": ({"seed": np.zeros((1, 1), "<i8")}, "seed has 2 dimensions, not 1"),
    "missing edge": ({"parent": np.zeros(1, UINT16)}, r"parent has the shape \(1,\), not \(2,\)"),
    "array too many": ({"more": np.zeros(1)}, "holds the unknown arrays more"),
    "array too few": ({"priority": None}, "lacks the arrays priority"),
    "parent that does not exist": ({"parent": np.array([0, 9], UINT16)}, "workflow 0: task 2 depends on 9"),
    "negative duration": ({"duration_ms": np.array([1, -1, 1], INT32)}, "workflow 0: task 1: duration_mean_s must be"),
    "bell in a family": ({"family": np.array(["a\a"])}, "workflow 0: the workflow's family must not hold control"),
}


@pytest.mark.parametrize("case", DAMAGED_ARRAYS)
def test_damaged_arrays(copy, case):
    changed, words = DAMAGED_ARRAYS[case]
    path = copy / "sets" / "etl.npz"
    path.write_bytes(broken())
    assert [w.mean_s.tolist() for w in dataset.load("etl", copy)] == [[1, 2, 3]]
    path.write_bytes(broken(**changed))
    for load in (dataset.load, lambda name, folder: dataset.load_one(name, 0, folder)):
        with pytest.raises(WorkflowError, match=words) as caught:
            load("etl", copy)
        assert str(caught.value).startswith(f"{path}: ") and "\n" not in str(caught.value)


def test_any_changed_bytes_give_a_set_or_one_clear_error(tmp_path):
    path, content = tmp_path / "x.npz", broken()
    rng = np.random.default_rng(5)
    for _ in range(400):
        data = bytearray(content)
        for at in rng.integers(len(data), size=rng.integers(1, 4)).tolist():
            data[at] = int(rng.integers(256))
        path.write_bytes(data[: rng.integers(1, len(data))] if rng.random() < 0.2 else data)
        try:
            arrays = read_arrays(path)
            for w in range(len(arrays["task_ptr"]) - 1):
                unpacked(arrays, w, "x", path)
        except WorkflowError as error:
            assert str(error).startswith(f"{path}: ") and "\n" not in str(error)


def test_an_array_file_in_place_of_a_set(copy):
    with open(copy / "sets" / "etl.npz", "wb") as file:
        np.save(file, np.arange(3))
    with pytest.raises(WorkflowError, match="etl.npz: is damaged"):
        dataset.load("etl", copy)


# --- building beside other people's files ------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("README.md", "# My project\n"),
        ("README.md", "# Data\n\nmine\n"),
        ("manifest.json", '{"name": "my web page"}'),
        ("manifest.json", "[1"),
        ("real/montage.json", '{"tasks": []}'),
    ],
)
def test_build_refuses_to_replace_a_foreign_file_before_any_work(tmp_path, name, text, monkeypatch):
    monkeypatch.setattr(dataset.DataSet, "draw", lambda self: pytest.fail("it ran"))
    path = tmp_path / name
    path.parent.mkdir(exist_ok=True)
    path.write_text(text)
    with pytest.raises(WorkflowError, match=f"{name}: is no part of a data set and would be overwritten"):
        dataset.build(tmp_path)
    assert [p for p in tmp_path.rglob("*") if p.is_file()] == [path] and path.read_text() == text


def test_build_refuses_what_it_could_not_write_before_any_work(tmp_path, monkeypatch):
    monkeypatch.setattr(dataset.DataSet, "draw", lambda self: pytest.fail("it ran"))
    kept = tmp_path / "sets" / "etl.npz"
    kept.parent.mkdir()
    kept.write_bytes(b"")
    kept.chmod(0o444)
    with pytest.raises(WorkflowError, match="etl.npz: cannot be written: is write-protected"):
        dataset.build(tmp_path)


def test_what_a_killed_build_leaves_disturbs_neither_check_nor_build(copy):
    stale = copy / "sets" / ".n10-deep-irregular.npz.4711.tmp"
    stale.write_bytes(b"half")
    assert dataset.check(copy) == []
    dataset.build(copy, only=["n10-deep-irregular"])
    assert not stale.exists() and dataset.check(copy) == []


def test_a_file_that_cannot_be_read_is_one_clear_error(copy, monkeypatch):
    def refuse(self, *args, **kwargs):
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(type(copy), "read_text", refuse)
    with pytest.raises(WorkflowError, match="manifest.json: cannot be read: Permission denied"):
        dataset.check(copy)


def test_card_begins_as_a_build_expects():
    assert (dataset.HOME / "README.md").read_text(encoding="utf-8").startswith(dataset.CARD_HEADING)
