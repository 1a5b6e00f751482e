"""WfFormat, DAX and STG: the same diamond in every layout, and each known variant and fault."""

import json
from pathlib import Path

import pytest

from thesis_lib.formats import detect_format, load_workflow
from thesis_lib.ranks import critical_path
from thesis_lib.workflow import Workflow, WorkflowError

FIXTURES = Path(__file__).parent / "fixtures" / "formats"
DIAMONDS = {
    "wfformat_1.0.json": "wfformat-1.0",
    "wfformat_1.4.json": "wfformat-1.4",
    "wfformat_1.5.json": "wfformat-1.5",
    "dax2.xml": "dax",
}


def load_text(folder: Path, text: str, **options: bool) -> Workflow:
    path = folder / "w.txt"
    path.write_text(text)
    return load_workflow(path, **options)


def refused(folder: Path, text: str, **options: bool) -> str:
    with pytest.raises(WorkflowError) as caught:
        load_text(folder, text, **options)
    assert str(caught.value).startswith(f"{folder / 'w.txt'}: ") and "\n" not in str(caught.value)
    return str(caught.value)


@pytest.mark.parametrize("name", DIAMONDS)
def test_every_layout_gives_the_same_dag(name):
    workflow = load_workflow(FIXTURES / name)
    assert detect_format(FIXTURES / name) == DIAMONDS[name]
    assert {t.id: (t.duration_mean_s, dict(t.data_mb)) for t in workflow.tasks} == {
        "A": (2.0, {}),
        "B": (3.0, {"A": 2.0}),
        "C": (5.0, {"A": 2.0}),
        "D": (1.0, {"B": 0.5, "C": 1.0}),
    }
    assert sorted(workflow.edges) == [("A", "B"), ("A", "C"), ("B", "D"), ("C", "D")]
    assert critical_path(workflow) == (8.0, ["A", "C", "D"])
    assert [t.cpu for t in workflow.tasks] == [1, 1, 4, 1] and workflow.warnings == ()
    assert workflow.tasks[2].memory_gb == (0.0 if name == "dax2.xml" else 2.0)


def test_tasks_of_one_name_stay_apart():
    workflow = load_workflow(FIXTURES / "wfformat_1.5.json")
    assert [t.name for t in workflow.tasks] == ["work"] * 4 and len(workflow) == 4


# --- WfFormat ---------------------------------------------------------------------------


def wf(tasks: object, **top: object) -> str:
    return json.dumps({"schemaVersion": "1.4", **top, "workflow": {"tasks": tasks}})


def test_names_that_are_not_unique_and_ids_as_references(tmp_path):
    tasks = [{"name": "x", "id": 1, "runtime": 1}, {"name": "x", "id": 2, "runtime": 2, "parents": ["1"]}]
    workflow = load_text(tmp_path, wf(tasks))
    assert workflow.edges == [(1, 2)] and [t.name for t in workflow.tasks] == ["x", "x"]


def test_an_ambiguous_name_is_refused(tmp_path):
    tasks = [{"name": "x", "id": "a", "runtime": 1}, {"name": "x", "id": "b", "runtime": 1},
             {"name": "y", "id": "c", "runtime": 1, "parents": ["x"]}]  # fmt: skip
    assert "task 'c': parents names 'x', the name of 2 tasks ('a', 'b')" in refused(tmp_path, wf(tasks))


def test_names_without_ids_must_be_unique(tmp_path):
    assert "duplicate task id 'x'" in refused(tmp_path, wf([{"name": "x", "runtime": 1}] * 2))


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (json.dumps({"schemaVersion": "9.9", "workflow": {"steps": []}}),
         'schemaVersion 9.9): missing key, "workflow" has none of "specification", "tasks", "jobs"'),
        (json.dumps({"schemaVersion": "1.5", "workflow": {"specification": {"tasks": []}}}),
         'schemaVersion 1.5): missing key "workflow.execution.tasks"'),
        (json.dumps({"workflow": {"specification": {}}}), 'missing key "workflow.specification.tasks"'),
        (json.dumps({"workflow": []}), '"workflow" must be an object, got list'),
        (wf([]), "at least one task"),
        (wf([{"name": "x"}]), "task 'x' has no runtime"),
        (wf([{"name": "x", "runtime": None}]), "task 'x' has no runtime"),
        (wf([{"name": "x", "runtime": "3"}]), "task 'x': runtime must be a number, got '3'"),
        (wf([{"name": "x", "runtime": -3}]), "task 'x': runtime must be at least 0, got -3"),
        (wf([{"runtime": 1}]), 'lacks both "id" and "name"'),
        (wf([{"name": "x", "runtime": 1, "parents": ["z"]}]), "parents names 'z', which does not exist"),
        (wf([{"name": "x", "runtime": 1, "children": ["z"]}]), "children names 'z', which does not exist"),
        (wf([{"name": "x", "runtime": 1, "parents": ["x"]}]), "cycle: 'x' -> 'x'"),
        (wf([{"name": "x", "runtime": 1, "files": [{"name": "f", "link": "up"}]}]), "link must be input, output"),
        (wf([{"name": "x", "runtime": 1, "files": [{"name": "f", "link": "output", "size": -1}]}]), "size in bytes"),
    ],
)  # fmt: skip
def test_wfformat_faults(text, words, tmp_path):
    assert words in refused(tmp_path, text)


def split(spec: list[dict], executed: list[dict], files: tuple = ()) -> str:
    parts = {"specification": {"tasks": spec, "files": list(files)}, "execution": {"tasks": executed}}
    return json.dumps({"schemaVersion": "1.5", "workflow": parts})


def test_specification_and_execution_must_match(tmp_path):
    assert "task 'b' has no entry in workflow.execution.tasks" in refused(
        tmp_path, split([{"id": "a"}, {"id": "b"}], [{"id": "a", "runtimeInSeconds": 1}])
    )
    both = [{"id": "a", "runtimeInSeconds": 1}, {"id": "z", "runtimeInSeconds": 1}]
    (warning,) = load_text(tmp_path, split([{"id": "a"}], both)).warnings
    assert "'z'" in warning
    assert "duplicate task id 'a'" in refused(tmp_path, split([{"id": "a"}, {"id": "a"}], both))


def test_a_written_file_without_size_counts_as_zero_with_a_warning(tmp_path):
    spec = [{"id": "a", "outputFiles": ["f"]}, {"id": "b", "parents": ["a"], "inputFiles": ["f"]}]
    workflow = load_text(tmp_path, split(spec, [{"id": i, "runtimeInSeconds": 1} for i in "ab"]))
    assert workflow.parent_mb.tolist() == [0.0]
    assert "no size for 'f'" in workflow.warnings[0]


def implied_by_files() -> str:
    """a writes f, b and c read it; only b states the edge."""
    spec = [{"id": "a", "outputFiles": ["f"]}, {"id": "b", "parents": ["a"], "inputFiles": ["f"]},
            {"id": "c", "inputFiles": ["f"]}]  # fmt: skip
    executed = [{"id": i, "runtimeInSeconds": 1} for i in "abc"]
    return split(spec, executed, ({"id": "f", "sizeInBytes": 3_000_000},))


def test_edges_only_in_file_names_are_offered_and_added_on_request(tmp_path):
    plain = load_text(tmp_path, implied_by_files())
    assert plain.edges == [("a", "b")]
    assert (
        len(plain.warnings) == 1 and "--edges-from-files" in plain.warnings[0] and "'c' reads it" in plain.warnings[0]
    )
    added = load_text(tmp_path, implied_by_files(), edges_from_files=True)
    assert added.edges == [("a", "b"), ("a", "c")] and added.parent_mb.tolist() == [3.0, 3.0]
    assert "1 edges were added" in added.warnings[0]


# --- DAX --------------------------------------------------------------------------------

BOMB = (
    '<?xml version="1.0"?><!DOCTYPE lolz [<!ENTITY a "lol">'
    + "".join(f'<!ENTITY {b} "{f"&{a};" * 10}">' for a, b in zip("abcdefghi", "bcdefghij"))
    + ']><adag><job id="&j;" runtime="1"/></adag>'
)


def test_dax_3_without_namespace_and_with_extra_elements(tmp_path):
    workflow = load_text(
        tmp_path,
        """<adag version="3.6"><executable name="x"/><file name="top"/>
        <job id="p q" name="a job" runtime="1.5"><argument>-i <file name="f"/></argument>
          <profile namespace="pegasus" key="runtime">9</profile><uses name="f" link="output" size="4000000"/></job>
        <job id="r" runtime="0"><uses name="f" link="input" size="1"/></job>
        <child ref="r"><parent ref="p q"/><parent ref="p q"/></child></adag>""",
    )
    assert workflow.edges == [("p q", "r")] and workflow.mean_s.tolist() == [1.5, 0.0]
    assert workflow.parent_mb.tolist() == [4.0]  # the producer's size counts


def test_dax_child_list_is_the_authority(tmp_path):
    text = """<adag><job id="a" runtime="1"><uses file="f" link="output" size="2000000"/></job>
        <job id="b" runtime="1"/><job id="c" runtime="1"><uses file="f" link="input"/></job>
        <child ref="b"><parent ref="a"/></child></adag>"""
    plain = load_text(tmp_path, text)
    assert plain.edges == [("a", "b")] and plain.parent_mb.tolist() == [0.0] and len(plain.warnings) == 1
    assert load_text(tmp_path, text, edges_from_files=True).parent_mb.tolist() == [0.0, 2.0]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (BOMB, "document type or entities is refused"),
        ('<!DOCTYPE adag SYSTEM "file:///etc/passwd"><adag/>', "document type or entities is refused"),
        ("<adag></adag>", "holds no <job>"),
        ("<adag><job id='a'/>", "not valid XML"),
        ("<html></html>", "XML, but not a Pegasus <adag>"),
        ('<adag><job id="a"/></adag>', "job 'a' has no runtime"),
        ('<adag><job runtime="1"/></adag>', "job 0 of the file has no id"),
        ('<adag><job id="a" runtime="fast"/></adag>', "job 'a': runtime must be a number, got 'fast'"),
        ('<adag><job id="a" runtime="nan"/></adag>', "runtime must be a number, got 'nan'"),
        ('<adag><job id="a" runtime="1e999"/></adag>', "must be finite"),
        ('<adag><job id="a" runtime="-1.2"/></adag>', "at least 0, got -1.2"),
        ('<adag><job id="a" runtime="1"/><job id="a" runtime="1"/></adag>', "duplicate task id 'a'"),
        ('<adag><job id="a" runtime="1"/><child ref="b"/></adag>', "<child> refers to job 'b', which does not exist"),
        ('<adag><job id="a" runtime="1"/><child ref="a"><parent ref="b"/></child></adag>', "job 'b', which does not"),
        ('<adag><job id="a" runtime="1"/><child ref="a"><parent ref="a"/></child></adag>', "cycle: 'a' -> 'a'"),
        ('<adag><job id="a" runtime="1"><uses link="input"/></job></adag>', "names no file"),
        ('<adag><job id="a" runtime="1"><uses file="f" link="input" size="big"/></job></adag>', "must be a number"),
    ],
)
def test_dax_faults(text, words, tmp_path):
    assert words in refused(tmp_path, text)


# --- STG --------------------------------------------------------------------------------


def test_stg_leaves_the_two_dummies_out():
    workflow = load_workflow(FIXTURES / "diamond.stg")
    assert [t.id for t in workflow.tasks] == [1, 2, 3, 4]
    assert workflow.edges == [(1, 2), (1, 3), (2, 4), (3, 4)]
    assert workflow.mean_s.tolist() == [2, 3, 5, 1] and critical_path(workflow) == (8.0, [1, 3, 4])


@pytest.mark.parametrize(
    ("text", "ids", "edges"),
    [
        ("4\n0 0 0\n1 5 0\n2 6 1 1\n3 0 1 2", [1, 2], [(1, 2)]),  # the head counts all rows
        ("3\n0 7 0\n1 5 1 0\n2 6 1 1\n", [0, 1, 2], [(0, 1), (1, 2)]),  # no dummies at all
        ("2\n0 0 0\n1 5 1 2\n2 6 1 0\n3 0 1 1\n", [1, 2], [(2, 1)]),  # predecessor with the larger id
        ("2 4\n1 5 0\n2 6 1 1\n3 0 1 2\n", [1, 2], [(1, 2)]),  # prototype head, exit dummy only
        ("2\n0 0 0\n1 0 1 0\n2 6 1 1\n3 0 1 2\n", [1, 2], [(1, 2)]),  # a real task may take no time
        ("# c\n1\r\n0 0 0 # entry\r\n\r\n1\t 2.5 1 0\r\n2 0 1 1\r\n# end", [1], []),  # comments, tabs, CRLF
    ],
)
def test_stg_variants(text, ids, edges, tmp_path):
    workflow = load_text(tmp_path, text)
    assert [t.id for t in workflow.tasks] == ids and workflow.edges == edges
    assert all("dummy tasks of zero time" in warning for warning in workflow.warnings)


def test_stg_says_which_dummies_and_edges_it_leaves_out(tmp_path):
    workflow = load_text(tmp_path, "2\n0 0 0\n1 5 1 0\n2 6 2 0 1\n3 0 1 2\n")
    assert len(workflow.parent_idx) == 1
    assert workflow.warnings == (
        "the dummy tasks of zero time (0 and 3) are left out with their 3 edges; the file has 4 rows and 4 edges",
    )


@pytest.mark.parametrize(
    "text", ["2\n0 0 0 0\n1 5 9 1 0\n2 6 20 1 1\n3 0 20 1 2\n", "2\n0 0 0 0\n1 5 1 0 9\n2 6 1 1 20\n3 0 1 2 20\n"]
)
def test_stg_deadlines_are_passed_over_with_a_warning(text, tmp_path):
    workflow = load_text(tmp_path, text)
    assert workflow.mean_s.tolist() == [5, 6] and workflow.edges == [(1, 2)]
    assert len(workflow.warnings) == 2 and "deadline" in workflow.warnings[0]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("5\n0 0 0\n1 5 1 0\n", "announces 5 tasks (without or with two dummies) but 2 rows follow"),
        ("1\n1 5 0\n2 5 0\n3 5 0\n4 5 0", "announces 1 tasks"),
        ("1\n0 0 0\n1 5 2 0\n", "line 3: expected `id time count predecessors...`"),
        ("1\n1 5", "line 2: expected"),
        ("1\n1 -5 0\n", "duration_mean_s must be at least 0, got -5"),
        ("2\n1 5 0\n2 x 0\n", "line 3: processing time must be a number, got 'x'"),
        ("2\n1 5 0\n2.5 5 0\n", "line 3: task id must be an integer, got '2.5'"),
        ("2\n1 5 0\n2 5 1 7\n", "task 2 depends on 7, which does not exist"),
        ("2\n1 5 1 2\n2 5 1 1\n", "cycle"),
        ("2\n1 5 0\n1 5 0\n", "duplicate task id 1"),
        ("0\n0 0 0\n1 0 1 0\n", "at least one task"),
        ("7\n", "announces 7 tasks"),
    ],
)
def test_stg_faults(text, words, tmp_path):
    assert words in refused(tmp_path, text)
