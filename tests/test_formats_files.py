"""Files that are no workflow at all, whatever their format: one clear error each; and fuzzing."""

import io
import json
import os
import pickle
import warnings
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from thesis_lib.formats import FORMATS, detect_format, load_workflow, load_workload, save_workflow
from thesis_lib.workflow import WorkflowError

FIXTURES = Path(__file__).parent / "fixtures" / "formats"
SEEDS = {p.name: p.read_bytes() for p in sorted(FIXTURES.iterdir())}


def npy_bytes() -> bytes:
    buffer = io.BytesIO()
    np.save(buffer, np.array([{"a": 1}], dtype=object), allow_pickle=True)
    return buffer.getvalue()


BAD_FILES = {
    "empty": (b"", "is empty"),
    "blank": (b"\xef\xbb\xbf \r\n\t", "is empty"),
    "npy": (npy_bytes(), "numpy array file, not supported because reading object arrays needs pickle"),
    "pickle": (pickle.dumps({"tasks": []}), "pickle"),
    "gzip": (b"\x1f\x8b\x08\x00", "gzip file; unpack it first"),
    "zip": (b"PK\x03\x04abc", "zip file"),
    "binary": (b'{"tasks": \0}', "binary file"),
    "utf-16": ('{"tasks": []}'.encode("utf-16"), "UTF-16 text; save it as UTF-8"),
    "latin-1": ('{"type": "größe", "tasks": []}'.encode("latin-1"), "not UTF-8 text (byte 12 cannot be read)"),
    "words": (b"hello world\n", "unknown content; supported formats: article, wfformat, dax, stg, hetero-csv, alibaba"),
    "broken JSON": (b'{"tasks": [', "not valid JSON"),
    "NaN": (b'{"tasks": [{"id": 1, "duration_mean": NaN}]}', "NaN is not a JSON number"),
    "Infinity": (b'{"tasks": [{"id": 1, "duration_mean": -Infinity}]}', "-Infinity is not a JSON number"),
    "1e999": (b'{"tasks": [{"id": 1, "duration_mean": 1e999}]}', "must be finite"),
    "digits": (b'{"tasks": [{"id": 1, "duration_mean": ' + b"9" * 5000 + b"}]}", "an integer of 5000 digits"),
    "key twice": (b'{"tasks": [{"id": 1, "id": 2, "duration_mean": 1}]}', "the key 'id' occurs twice"),
    "half a pair": (b'{"tasks": [{"id": "\\ud800", "duration_mean": 1}]}', "surrogate"),
    "deep JSON": (b'{"tasks": ' + b"[" * 100_000 + b"]" * 100_000 + b"}", "nested too deeply"),
    "deep XML": (b"<a>" * 100_000 + b"</a>" * 100_000, "not a Pegasus <adag>"),
    "list": (b"[1, 2]", "a JSON list"),
    "other object": (b'{"vms": []}', "its keys: 'vms'"),
    "cell of 200,000 characters": (b"a," + b"b" * 200_000, "not a CSV line"),
}


@pytest.mark.parametrize("case", BAD_FILES)
def test_bad_files_are_refused_in_one_line(case, tmp_path):
    content, words = BAD_FILES[case]
    path = tmp_path / "file"
    path.write_bytes(content)
    for load in (load_workflow, load_workload):
        with pytest.raises(WorkflowError) as caught:
            load(path)
        message = str(caught.value)
        assert message.startswith(f"{path}: ") and words in message and "\n" not in message and len(message) < 900


def test_paths_that_are_no_file(tmp_path):
    with pytest.raises(WorkflowError, match="no such file"):
        load_workflow(tmp_path / "none.json")
    with pytest.raises(WorkflowError, match="is a folder"):
        load_workflow(tmp_path)
    with pytest.raises(WorkflowError, match="cannot be read"):
        load_workflow("bad\0name")
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(WorkflowError, match="is not a regular file"):
        detect_format(tmp_path / "pipe")


def test_every_format_of_the_table_has_a_fixture():
    found = {detect_format(p).split("-1.")[0] for p in FIXTURES.iterdir() if "chain" not in p.name or "exe" in p.name}
    assert found == {name for name, _ in FORMATS}


# --- fuzzing: any bytes give a workload or a WorkflowError, nothing else --------------------

FUZZ = settings(
    max_examples=int(os.environ.get("FUZZ_EXAMPLES", "250")),
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)


def load_or_refuse(path: Path, content: bytes) -> None:
    path.write_bytes(content)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for edges_from_files in (False, True):
            try:
                workload = load_workload(path, edges_from_files=edges_from_files)
            except WorkflowError as error:
                assert str(error).startswith(f"{path}: ") and "\n" not in str(error)
                continue
            out = path.with_name("out.json")
            for workflow in workload.workflows[:2]:
                save_workflow(workflow, out)
                assert load_workflow(out) == workflow


@st.composite
def mutated(draw: st.DrawFn) -> tuple[str, bytes]:
    """A fixture's name and its bytes after a few cuts, insertions, repeats and changed bytes."""
    name = draw(st.sampled_from(sorted(SEEDS)))
    data = bytearray(SEEDS[name])
    for _ in range(draw(st.integers(1, 4))):
        at = draw(st.integers(0, len(data)))
        end = at + draw(st.integers(0, 12))
        insert = draw(st.sampled_from([b"", b"-", b"1e999", b"null", b"\n", b"99999999999", b'"', b",", b"_1", b"0 "])
                      | st.binary(max_size=4) | st.just(bytes(data[at:end]) * 2))  # fmt: skip
        data[at:end] = insert
    return name, bytes(data)


@FUZZ
@given(mutated())
def test_mutated_files(tmp_path, case):
    for companion in ("chain_task_connectivity.csv", "chain_resource_BW.csv", "chain_task_exe_time.csv"):
        (tmp_path / companion).write_bytes(SEEDS[companion])
    name, content = case
    load_or_refuse(tmp_path / name, content)
    if name.startswith("chain"):
        load_or_refuse(tmp_path / "chain_task_exe_time.csv", (tmp_path / "chain_task_exe_time.csv").read_bytes())


@FUZZ
@given(st.binary(max_size=80) | st.text(alphabet='0123456789 -.e,\n#_"TM<>{}[]:', max_size=80).map(str.encode))
def test_random_bytes(tmp_path, content):
    load_or_refuse(tmp_path / "file", content)


ANY_JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text(max_size=4)
    | st.sampled_from([10**301, "A", "f1"]),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from(["id", "name", "link", "size", "tasks", "0"]), inner, max_size=3)
    ),
    max_leaves=5,
)


def places(data: object, at: tuple = ()) -> list[tuple]:
    """The path of keys to every value inside parsed JSON."""
    inner = data.items() if isinstance(data, dict) else enumerate(data) if isinstance(data, list) else ()
    return [at] * bool(at) + [place for key, value in inner for place in places(value, (*at, key))]


@st.composite
def altered_json(draw: st.DrawFn) -> bytes:
    """A JSON fixture in which up to three values were replaced by any JSON, or taken out."""
    data = json.loads(SEEDS[draw(st.sampled_from([n for n in sorted(SEEDS) if n.endswith("json")]))])
    for _ in range(draw(st.integers(1, 3))):
        if not (choices := places(data)):
            break
        *way, last = draw(st.sampled_from(choices))
        holder = data
        for key in way:
            holder = holder[key]
        if draw(st.integers(0, 3)):
            holder[last] = draw(ANY_JSON)
        else:
            del holder[last]
    return json.dumps(data).encode()


@FUZZ
@given(altered_json() | ANY_JSON.map(json.dumps).map(str.encode))
def test_altered_json(tmp_path, content):
    load_or_refuse(tmp_path / "file.json", content)
