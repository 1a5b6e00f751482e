"""The article's JSON: reading, mending with warnings, writing."""

import json
import time
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from thesis_lib.cluster import VM, Cluster
from thesis_lib.formats import load_workflow, load_workload, save_workflow
from thesis_lib.ranks import critical_path
from thesis_lib.workflow import Task, Workflow, WorkflowError

FIXTURES = Path(__file__).parent / "fixtures" / "formats"


def write(folder: Path, data: object, name: str = "w.json") -> Path:
    path = folder / name
    path.write_text(json.dumps(data))
    return path


def task(i: int, mean: float = 1.0, parents: tuple = (), **more: object) -> dict:
    return {"id": i, "duration_mean": mean, "dependencies": list(parents), **more}


def test_every_field_is_read():
    workflow = load_workflow(FIXTURES / "article.json")
    assert workflow.family == "etl" and workflow.name == "article" and workflow.warnings == ()
    assert workflow.tasks[1] == Task(1, 3, 0.45, 4, 8, 0.5, 2, (0,), {0: 2.0})
    assert workflow.tasks[2] == Task(2, 5, 0.75, 1, 0, 0, 3, (0,), {0: 2.0}, {0: 4.0, 1: 6.0}, "clean")
    assert workflow.tasks[3].data_mb == {1: 0.5, 2: 1.0}
    assert critical_path(workflow) == (8.0, [0, 2, 3])


def test_content_counts_and_the_file_ending_does_not(tmp_path):
    path = tmp_path / "workflow.xml"
    path.write_bytes((FIXTURES / "article.json").read_bytes())
    assert load_workflow(path) == load_workflow(FIXTURES / "article.json")


def test_byte_order_mark_and_crlf_are_fine(tmp_path):
    path = tmp_path / "w.json"
    path.write_bytes(b"\xef\xbb\xbf" + (FIXTURES / "article.json").read_bytes().replace(b"\n", b"\r\n"))
    assert load_workflow(path) == load_workflow(FIXTURES / "article.json")


def test_absent_demands_have_their_stated_values(tmp_path):
    only = load_workflow(write(tmp_path, {"type": "x", "tasks": [{"id": "a", "duration_mean": 4}]})).tasks[0]
    assert (only.cpu, only.memory_gb, only.bandwidth_gbps) == (1, 0, 0)
    assert (only.duration_std_s, only.priority, only.dependencies, only.runtime_s) == (0, 1, (), None)


def test_wrong_critical_path_gives_a_warning_that_names_the_tasks(tmp_path):
    tasks = [task(1, 5, on_critical_path=True), task(2, 9, on_critical_path=False), task(3, 1, [1, 2])]
    (warning,) = load_workflow(write(tmp_path, {"tasks": tasks})).warnings  # 2 -> 3 is critical, 10 s
    assert "on_critical_path" in warning and "task 1, 2;" in warning


def test_repeated_dependency_counts_once_with_a_warning(tmp_path):
    workflow = load_workflow(write(tmp_path, {"tasks": [task(7), task(8, 1, [7, "7"])]}))
    assert workflow.tasks[1].dependencies == (7,)
    assert len(workflow.warnings) == 1 and "task 8 lists a dependency more than once: 7" in workflow.warnings[0]


def test_unknown_keys_give_one_warning_each(tmp_path):
    data = {"tasks": [task(1, colour=4), task(2, colour=4)], "author": "x"}
    warnings = load_workflow(write(tmp_path, data)).warnings
    assert len(warnings) == 2 and "'author'" in warnings[0] and "'colour' is ignored in task 1, 2" in warnings[1]


def workflows_to_save() -> list[Workflow]:
    links = ((0.0, 0.016), (0.008, 0.0))
    mixed = (
        Task("a b", 0.1 + 0.2, 1e-9, 0.5, 3.25, 0.1, -3, (), {}, {0: 1.5, "west-1": 2.5}, '名称 "x"\n'),
        Task(-4, 0.0, 0.0, dependencies=("a b",), data_mb={"a b": 1 / 3}),
        Task("07", 1e12, 1, 0, 0, 0, 2, (-4, "a b"), {-4: 5.0}, {}),
    )
    return [
        load_workflow(FIXTURES / "article.json"),
        Workflow(mixed, "größe", "named", Cluster((VM(0, 1, 2, 3), VM("b", 1, 0, 0.5, 2.0, 0.1)), links)),
        Workflow(mixed[:1], cluster=Cluster.default()),
        Workflow((Task("1", 1, runtime_s={"0": 1.0, 1: 2.0}), Task(2, 1, runtime_s={"0": 3.0}))),
        Workflow((Task(np.int64(5), np.float64(2.5), priority=np.int64(3)),)),
    ]  # fmt: skip


@pytest.mark.parametrize("case", range(5))
def test_write_then_load_gives_an_equal_workflow(case, tmp_path):
    workflow = workflows_to_save()[case]
    save_workflow(workflow, tmp_path / "out.json")
    back = load_workflow(tmp_path / "out.json")
    assert back == workflow and back.warnings == ()
    assert [list(t.runtime_s or ()) for t in back.tasks] == [list(t.runtime_s or ()) for t in workflow.tasks]
    assert [p.name for p in tmp_path.iterdir()] == ["out.json"]


@pytest.mark.parametrize("name", ["dax2.xml", "wfformat_1.5.json", "diamond.stg", "chain_task_exe_time.csv"])
def test_every_format_survives_conversion(name, tmp_path):
    workflow = load_workflow(FIXTURES / name)
    save_workflow(workflow, tmp_path / "out.json")
    assert load_workflow(tmp_path / "out.json") == workflow


def test_the_written_file_holds_the_computed_critical_path(tmp_path):
    save_workflow(load_workflow(FIXTURES / "diamond.stg"), tmp_path / "out.json")
    data = json.loads((tmp_path / "out.json").read_text())
    assert {t["id"]: t["on_critical_path"] for t in data["tasks"]} == {1: True, 2: False, 3: True, 4: True}


def test_a_failed_write_keeps_the_old_file_and_leaves_nothing_behind(tmp_path):
    workflow = load_workflow(FIXTURES / "article.json")
    path = tmp_path / "out.json"
    save_workflow(workflow, path)
    with pytest.raises(WorkflowError, match=r"out.json: cannot be written"):
        save_workflow(replace(workflow, family="\ud800"), path)
    assert load_workflow(path) == workflow and len(list(tmp_path.iterdir())) == 1
    with pytest.raises(WorkflowError, match="cannot be written"):
        save_workflow(workflow, tmp_path / "no folder" / "out.json")
    (tmp_path / "taken").mkdir()
    with pytest.raises(WorkflowError, match="cannot be written"):
        save_workflow(workflow, tmp_path / "taken")
    assert sorted(p.name for p in tmp_path.iterdir()) == ["out.json", "taken"]


BAD_TASKS = {
    "missing runtime": ([{"id": 1}], "task 1 lacks 'duration_mean'"),
    "missing id": ([{"duration_mean": 1}], "task 0 lacks 'id'"),
    "negative": ([task(1, -2)], "task 1: duration_mean_s must be at least 0, got -2"),
    "null": ([task(1, None)], "task 1: duration_mean_s must be a number, got None"),
    "text": ([task(1, "12")], "task 1: duration_mean_s must be a number, got '12'"),
    "bool": ([task(1, True)], "must be a number, got True"),
    "beyond a float": ([task(1, 10**400)], "an integer of 401 digits is too large"),
    "sum beyond a float": ([task(1, 1e308), task(2, 1e308)], "add up to no finite number"),
    "self loop": ([task(1, 1, [1])], "cycle: 1 -> 1"),
    "loop": ([task(1, 1, [2]), task(2, 1, [1])], "cycle"),
    "dangling": ([task(1, 1, [9])], "task 1 depends on 9, which does not exist"),
    "duplicate": ([task(1), task("1")], "duplicate task id '1'"),
    "empty list": ([], "at least one task"),
    "no list": ({}, '"tasks" must be a list, got dict'),
    "no object": ([5], "task 0 of the list must be an object, got int"),
    "id": ([task(1.5)], "must be an integer or a non-empty text, got 1.5"),
    "parents as text": ([{**task(1), "dependencies": "0"}], "task 1: dependencies must be a list, got str"),
    "parent as list": ([{**task(1), "dependencies": [[]]}], "task 1: dependency must be"),
    "foreign data": ([task(1), task(2, 1, [1], data_mb={"3": 1})], "data_mb names '3'"),
    "runtime twice": ([task(1, runtime_s=[["0", 1], [0, 2]])], "names a VM twice"),
    "runtime number": ([task(1, runtime_s={"0": -1})], "runtime_s[0] must be at least 0"),
    "critical": ([task(1, on_critical_path="yes")], "on_critical_path must be true or false"),
}


@pytest.mark.parametrize("case", BAD_TASKS)
def test_bad_tasks_are_refused_with_file_id_and_reason(case, tmp_path):
    tasks, words = BAD_TASKS[case]
    path = write(tmp_path, {"type": "x", "tasks": tasks})
    with pytest.raises(WorkflowError) as caught:
        load_workflow(path)
    assert str(caught.value).startswith(f"{path}: ") and words in str(caught.value)


def test_the_loop_is_spelled_out(tmp_path):
    tasks = [task(1), task(2, 1, [1, 4]), task(3, 1, [2]), task(4, 1, [3])]
    with pytest.raises(WorkflowError, match="cycle: ") as caught:
        load_workflow(write(tmp_path, {"tasks": tasks}))
    loop = str(caught.value).split("cycle: ")[1].split(";")[0].split(" -> ")
    assert loop[0] == loop[-1] and set(loop) == {"2", "3", "4"}
    assert all((int(b) - int(a)) % 3 == 1 for a, b in zip(loop, loop[1:]))


def test_a_bad_cluster_is_named(tmp_path):
    with pytest.raises(WorkflowError, match='"cluster": VM 0 lacks cpu'):
        load_workflow(write(tmp_path, {"tasks": [task(1)], "cluster": [{"id": 0, "mem": 1, "bandwidth": 1}]}))


def test_a_folder_lists_every_bad_file_and_passes_options_on(tmp_path):
    write(tmp_path, {"tasks": [task(1)]}, "good.json")
    write(tmp_path, {"tasks": [task(1, 1, [1])]}, "loop.json")
    write(tmp_path, {"tasks": []}, "none.json")
    with pytest.raises(WorkflowError, match="2 of 3 files cannot be used") as caught:
        load_workload(tmp_path)
    assert "loop.json" in str(caught.value) and "none.json" in str(caught.value)
    for name in ("loop.json", "none.json"):
        (tmp_path / name).unlink()
    assert load_workload(tmp_path, edges_from_files=True).workflows[0].name == "good"


def test_ten_thousand_tasks_load_within_two_seconds(tmp_path):
    tasks = [task(i, 1.5, range(max(0, i - 3), i), data_mb={str(p): 1.0 for p in range(max(0, i - 3), i)})
             for i in range(10_000)]  # fmt: skip
    path = write(tmp_path, {"type": "big", "tasks": tasks})
    began = time.perf_counter()
    workflow = load_workflow(path)
    assert time.perf_counter() - began < 2.0
    assert len(workflow) == 10_000 and len(workflow.edges) == 3 * 10_000 - 6  # 0 + 1 + 2 parents at the start


@pytest.mark.parametrize(
    ("key", "meant"), [("depends_on", "dependencies"), ("memory_gb", "mem"), ("duration_sdt", "duration_std")]
)
def test_a_key_that_looks_like_a_known_one_is_refused(key, meant, tmp_path):
    file = tmp_path / "slip.json"
    file.write_text(json.dumps({"tasks": [{"id": "A", "duration_mean": 1, key: 3}]}))
    with pytest.raises(WorkflowError, match=f"task 'A': there is no key '{key}'; write '{meant}'"):
        load_workflow(file)
