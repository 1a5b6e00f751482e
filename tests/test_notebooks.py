"""What all notebooks have in common, and the environment check they begin with. Running them is nbmake's task."""

import json
import re
import subprocess
from importlib import metadata
from pathlib import Path

import pytest

from thesis_lib.notebook import check_environment, environment_faults, packages, version_table
from thesis_lib.workflow import WorkflowError

TOP = Path(__file__).resolve().parents[1]
HOME = TOP / "notebooks"
LESSONS = sorted(HOME.glob("*.ipynb"))
SOLUTIONS = sorted((HOME / "solutions").glob("*.ipynb"))
MAX_LINES = 25
MAX_CODE_WIDTH = 100  # characters; beyond, a cell has to be scrolled sideways
MAX_CODE_RUN = 2  # code cells one after another without prose
LINK = re.compile(r"\]\(([^)\s]+)\)")
ABSOLUTE_PATH = re.compile(r"""(?<![\w.}])(?:/(?:home|Users|root|tmp|mnt|work|usr|var|opt)/|[A-Z]:\\)""")
REGISTRY = re.compile(r"pypi\.org|pythonhosted|conda\.anaconda|download\.pytorch|index-url", re.IGNORECASE)


def read(path: Path) -> dict:
    return json.loads(path.read_text(encoding="utf-8"))


def read_staged(path: Path) -> dict:
    """The notebook as git would commit it now (staged, else committed); skips where git has no such file."""
    name = path.relative_to(TOP).as_posix()
    try:
        shown = subprocess.run(["git", "show", f":./{name}"], cwd=TOP, capture_output=True, timeout=30)
    except OSError:
        pytest.skip("git is not installed, so nothing can be said about what it stores")
    if shown.returncode != 0:
        pytest.skip(f"git stores no {name} (no checkout, or a file not added yet)")
    return json.loads(shown.stdout)


def text_of(cell: dict) -> str:
    return "".join(cell["source"])


def cells(path: Path, kind: str) -> list[dict]:
    return [cell for cell in read(path)["cells"] if cell["cell_type"] == kind]


def prose(path: Path) -> str:
    return "\n\n".join(text_of(cell) for cell in cells(path, "markdown"))


def each(paths: list[Path]):
    return pytest.mark.parametrize("path", paths, ids=lambda p: p.stem)


# --- structure, as functions of a notebook so that the tests below can show that they fail ------------------------


def stored_results(notebook: dict) -> list[str]:
    """Ids of cells that hold outputs or an execution count."""
    code = [cell for cell in notebook["cells"] if cell["cell_type"] == "code"]
    return [cell["id"] for cell in code if cell["outputs"] or cell["execution_count"] is not None]


def long_cells(notebook: dict) -> list[str]:
    """Ids of code cells with more than MAX_LINES lines."""
    code = [cell for cell in notebook["cells"] if cell["cell_type"] == "code"]
    return [cell["id"] for cell in code if len(text_of(cell).splitlines()) > MAX_LINES]


def wide_lines(notebook: dict) -> list[str]:
    """Lines of code with more than MAX_CODE_WIDTH characters."""
    code = [text_of(cell) for cell in notebook["cells"] if cell["cell_type"] == "code"]
    return [line for text in code for line in text.splitlines() if len(line) > MAX_CODE_WIDTH]


def unexplained_cells(notebook: dict) -> list[str]:
    """Ids of code cells that no prose leads to: the first cell, or too many code cells in a row."""
    found, run = [], MAX_CODE_RUN
    for cell in notebook["cells"]:
        run = run + 1 if cell["cell_type"] == "code" else 0
        if run > MAX_CODE_RUN:
            found.append(cell["id"])
    return found


def broken_links(text: str, folder: Path) -> list[str]:
    """Targets of links and pictures to local files that do not exist."""
    targets = [target.split("#")[0] for target in LINK.findall(text)]
    local = [target for target in targets if target and not re.match(r"[a-z]+:", target)]
    return [target for target in local if not (folder / target).exists()]


def test_there_are_notebooks():
    assert len(LESSONS) >= 2
    assert [path.name[:2] for path in LESSONS] == [f"{k:02d}" for k in range(len(LESSONS))]


@each(LESSONS + SOLUTIONS)
def test_nothing_but_the_sources_is_stored(path):
    # What git stores counts, not the file: a reader who runs and saves a notebook has done nothing wrong.
    notebook = read_staged(path)
    advice = f"{path.name}: clear the outputs (Edit > Clear Outputs of All Cells) before committing"
    assert stored_results(notebook) == [], advice
    assert not any(cell.get("attachments") for cell in notebook["cells"])
    assert (notebook["nbformat"], notebook["nbformat_minor"]) == (4, 5)
    assert set(notebook["metadata"]) == {"kernelspec", "language_info"}
    assert notebook["metadata"]["kernelspec"]["name"] == "python3"
    assert all(set(cell["metadata"]) <= {"tags"} for cell in notebook["cells"]), advice


def test_a_notebook_that_was_run_and_saved_is_a_fault_only_once_it_is_staged(tmp_path, monkeypatch):
    monkeypatch.setattr("tests.test_notebooks.TOP", tmp_path)
    for name in ("GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE"):  # set when the tests run within a git hook
        monkeypatch.delenv(name, raising=False)

    def git(*arguments):
        subprocess.run(["git", *arguments], cwd=tmp_path, check=True, capture_output=True)

    def save(outputs):
        cell = {"cell_type": "code", "id": "a-cell", "source": [], "outputs": outputs, "execution_count": None}
        (tmp_path / "a.ipynb").write_text(json.dumps({"cells": [cell]}))

    try:
        git("init")
    except FileNotFoundError:
        pytest.skip("git is not installed")
    save([])
    with pytest.raises(pytest.skip.Exception, match=r"git stores no a\.ipynb"):
        read_staged(tmp_path / "a.ipynb")
    git("add", "a.ipynb")
    save([{}])
    assert stored_results(read_staged(tmp_path / "a.ipynb")) == []
    git("add", "a.ipynb")
    assert stored_results(read_staged(tmp_path / "a.ipynb")) == ["a-cell"]


@each(LESSONS + SOLUTIONS)
def test_cell_ids_are_unique_and_made_by_people(path):
    ids = [cell["id"] for cell in read(path)["cells"]]
    assert len(set(ids)) == len(ids)
    assert [i for i in ids if not re.fullmatch(r"[a-z]+(-[a-z0-9]+)+", i)] == []


@each(LESSONS + SOLUTIONS)
def test_code_is_short_and_follows_prose(path):
    assert long_cells(read(path)) == []
    assert wide_lines(read(path)) == []
    assert unexplained_cells(read(path)) == []
    assert all(text_of(cell).strip() for cell in read(path)["cells"])


@each(LESSONS + SOLUTIONS)
def test_first_code_cell_holds_the_parameters(path):
    first = cells(path, "code")[0]
    assert first["metadata"].get("tags") == ["parameters"]
    names = {}
    exec(text_of(first), names)
    assert isinstance(names["FAST"], bool)
    assert names["SEED"] == 7


@each(LESSONS + SOLUTIONS)
def test_code_compiles(path):
    for cell in cells(path, "code"):
        compile(text_of(cell), cell["id"], "exec")


@each(LESSONS)
def test_a_lesson_has_its_parts(path):
    text = prose(path)
    assert text.startswith(f"# {path.name[:2]} · ")
    for part in ("**Objectives**", "**Running time.**", "## Summary", "## Exercises", "**Before you run:**"):
        assert part in text, part
    assert re.search(r"[\u4e00-\u9fff]{20}", text), "no Chinese introduction"


@each(LESSONS)
def test_every_exercise_has_a_solution(path):
    exercises = re.findall(r"^(\d+)\. \*\*\((?:easy|medium|hard|thesis-size)\)\*\*", prose(path), re.MULTILINE)
    assert 4 <= len(exercises) <= 6
    solutions = HOME / "solutions" / f"{path.stem}_solutions.ipynb"
    assert solutions in SOLUTIONS
    assert re.findall(r"^## Exercise (\d+)$", prose(solutions), re.MULTILINE) == exercises


@each(LESSONS)
def test_map_of_the_course_links_to_the_notebooks_that_exist(path):
    first = prose(LESSONS[0])
    if path != LESSONS[0]:
        assert f"]({path.name})" in first
    assert f"]({path.name})" in (HOME / "README.md").read_text(encoding="utf-8")


@each(LESSONS + SOLUTIONS)
def test_links_and_paths(path):
    text = "\n".join(text_of(cell) for cell in read(path)["cells"])
    assert broken_links(prose(path), path.parent) == []
    assert ABSOLUTE_PATH.findall(text) == []
    assert REGISTRY.findall(text) == []


@each(LESSONS + SOLUTIONS)
def test_no_output_widgets(path):
    # While one of them shows something, nbclient sends on the socket on which it waits for the cell's reply; now and
    # then it then misses the reply and sits out its whole timeout. Image and HTML widgets do without.
    code = "\n".join(text_of(cell) for cell in cells(path, "code"))
    assert re.findall(r"\b(?:interact\w*|Output)\(", code) == []


READMES = sorted(path for path in TOP.rglob("README.md") if not {".venv", "venv", "node_modules"} & set(path.parts))


@pytest.mark.parametrize("path", READMES, ids=lambda p: p.parent.name)
def test_jupyter_is_started_in_the_top_folder(path):
    # With notebooks/ as its root, Jupyter serves neither ../figures nor ../dataset.
    assert re.findall(r"jupyter[ -]lab\s+\S*notebooks", path.read_text(encoding="utf-8")) == []


def test_links_of_the_readme():
    assert broken_links((HOME / "README.md").read_text(encoding="utf-8"), HOME) == []


def test_the_checks_see_faults():
    code = {"cell_type": "code", "id": "c", "source": ["x\n"] * 26, "outputs": [{}], "execution_count": None}
    good = {"cell_type": "code", "id": "g", "source": ["x\n"] * 25, "outputs": [], "execution_count": None}
    words = {"cell_type": "markdown", "id": "m", "source": ["words"]}
    notebook = {"cells": [code, words, good, good, {**good, "id": "third"}, words, {**good, "execution_count": 1}]}
    assert stored_results(notebook) == ["c", "g"]
    assert long_cells(notebook) == ["c"]
    assert unexplained_cells(notebook) == ["c", "third"]
    assert wide_lines({"cells": [{**good, "source": ["x" * 100 + "\n", "y" * 101]}]}) == ["y" * 101]
    assert broken_links("[a](no.md) [b](README.md#part) [c](https://example.org)", HOME) == ["no.md"]
    assert ABSOLUTE_PATH.findall("open('/home/me/x')") == ["/home/"]


# --- the environment check ----------------------------------------------------------------------------------------


@pytest.fixture
def requirements(tmp_path, monkeypatch):
    """A requirements file, and the versions that count as installed."""
    versions = {"alpha": "1.2.3", "torch": "2.0.0+cpu", "gamma-kit": "9.0"}

    def version(name):
        if name not in versions:
            raise metadata.PackageNotFoundError(name)
        return versions[name]

    monkeypatch.setattr("thesis_lib.notebook.metadata.version", version)
    path = tmp_path / "requirements.txt"
    path.write_text("# head\nalpha==1.2.3  # used in == signs\ntorch==2.0.0\ngamma-kit == 8.1\nabsent==4\n-e .\n")
    return path


def test_pins_are_read_and_compared(requirements):
    found = [(p.name, p.pinned, p.installed) for p in packages(requirements)]
    assert found == [
        ("alpha", "1.2.3", "1.2.3"),
        ("torch", "2.0.0", "2.0.0+cpu"),
        ("gamma-kit", "8.1", "9.0"),
        ("absent", "4", None),
    ]
    assert environment_faults(requirements) == [
        "gamma-kit is 9.0, requirements.txt pins 8.1; run: python -m pip install gamma-kit==8.1",
        "absent is missing; run: python -m pip install absent==4",
    ]


def test_table_and_report(requirements, capsys):
    assert version_table(requirements).splitlines()[-1].split() == ["absent", "-", "4"]
    check_environment(requirements)
    printed = capsys.readouterr().out.splitlines()
    assert [line[:11] for line in printed[-2:]] == ["! gamma-kit", "! absent is"]
    requirements.write_text("alpha==1.2.3\n")
    check_environment(requirements)
    assert capsys.readouterr().out.splitlines()[-1] == "Every package is installed in the pinned version."


def test_old_python_is_named_first(requirements, monkeypatch):
    monkeypatch.setattr("thesis_lib.notebook.sys.version_info", (3, 9, 1))
    assert environment_faults(requirements)[0].startswith("Python is 3.9.1, at least 3.11 is needed")


def test_missing_requirements_file_is_one_clear_line(tmp_path):
    with pytest.raises(WorkflowError, match=r"requirements.txt: cannot be read: No such file"):
        packages(tmp_path / "requirements.txt")


def test_own_requirements_pin_every_package():
    names = [p.name for p in packages()]
    assert {"numpy", "numba", "matplotlib", "nbmake"} <= set(names)
    assert len(set(names)) == len(names)
