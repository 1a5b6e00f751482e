"""Writing files: what is refused, what stays, and that no temporary is left."""

import os
import stat

import pytest

from thesis_lib import files
from thesis_lib.files import read_text, refuse_target, remove_stale, write_bytes
from thesis_lib.formats import save_workflow
from thesis_lib.workflow import Task, Workflow, WorkflowError


def test_a_link_is_followed_and_stays_a_link(tmp_path):
    (tmp_path / "there").mkdir()
    real, link = tmp_path / "there" / "real.txt", tmp_path / "link.txt"
    real.write_bytes(b"old")
    link.symlink_to(real)
    assert write_bytes(link, b"new") == link
    assert link.is_symlink() and real.read_bytes() == b"new"
    dangling = tmp_path / "later"
    dangling.symlink_to(tmp_path / "there" / "made.txt")
    write_bytes(dangling, b"x")
    assert dangling.is_symlink() and (tmp_path / "there" / "made.txt").read_bytes() == b"x"


@pytest.mark.parametrize("mode", [0o600, 0o640, 0o755])
def test_the_mode_is_kept(tmp_path, mode):
    path = tmp_path / "script"
    path.write_bytes(b"old")
    path.chmod(mode)
    write_bytes(path, b"new")
    assert stat.S_IMODE(path.stat().st_mode) == mode and path.read_bytes() == b"new"


def test_what_is_no_writable_regular_file_is_refused_and_left_alone(tmp_path):
    protected, pipe, circle = tmp_path / "kept", tmp_path / "pipe", tmp_path / "circle"
    protected.write_bytes(b"old")
    protected.chmod(0o444)
    os.mkfifo(pipe)
    circle.symlink_to(circle)
    to_pipe = tmp_path / "to_pipe"
    to_pipe.symlink_to(pipe)
    cases = {protected: "is write-protected", pipe: "is not a regular file", to_pipe: "is not a regular file",
             circle: "", tmp_path: "is a folder", tmp_path / "no" / "file": "there is no folder",
             protected / "file": "is no folder", tmp_path / "a\0b": "null"}  # fmt: skip
    for path, words in cases.items():
        for write in (refuse_target, lambda path: write_bytes(path, b"new")):
            with pytest.raises(WorkflowError, match=f"cannot be written: .*{words}"):
                write(path)
    assert protected.read_bytes() == b"old" and stat.S_ISFIFO(pipe.stat().st_mode) and circle.is_symlink()
    assert {p.name for p in tmp_path.iterdir()} == {"kept", "pipe", "circle", "to_pipe"}


def test_a_long_name_can_be_written(tmp_path):
    path = tmp_path / ("任" * 80 + ".json")  # 245 bytes of the 255 that a name may have
    assert write_bytes(path, b"x").read_bytes() == b"x"


@pytest.mark.parametrize("error", [KeyboardInterrupt, MemoryError, OSError])
def test_no_temporary_stays_whatever_goes_wrong(tmp_path, monkeypatch, error):
    def fail(*_):
        raise error

    path = tmp_path / "file"
    path.write_bytes(b"old")
    monkeypatch.setattr(files.os, "replace", fail)
    with pytest.raises(WorkflowError if error is OSError else error):
        write_bytes(path, b"new")
    assert path.read_bytes() == b"old" and list(tmp_path.iterdir()) == [path]


def test_stale_temporaries_are_removed_and_other_files_are_not(tmp_path):
    kept = [".etl.npz.tmp", ".other.npz.12.tmp", "etl.npz.12.tmp", ".etl.npz.x.tmp"]
    for name in [*kept, ".etl.npz.12.tmp", ".etl.npz.99999.tmp"]:
        (tmp_path / name).write_bytes(b"")
    remove_stale(tmp_path / "etl.npz")
    assert sorted(p.name for p in tmp_path.iterdir()) == sorted(kept)
    remove_stale(tmp_path / "no" / "etl.npz")


def test_a_link_to_nothing_is_named(tmp_path):
    (tmp_path / "link").symlink_to(tmp_path / "none")
    with pytest.raises(WorkflowError, match="is a link to a file that does not exist"):
        read_text(tmp_path / "link")


def test_save_workflow_names_what_it_cannot_write(tmp_path):
    workflow = Workflow((Task("a", 1),))
    with pytest.raises(WorkflowError, match="/: cannot be written: is a folder"):
        save_workflow(workflow, "/")
    with pytest.raises(WorkflowError, match="save_workflow writes a Workflow, got dict"):
        save_workflow({"tasks": []}, tmp_path / "w.json")
