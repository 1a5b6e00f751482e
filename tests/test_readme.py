"""What the README shows works as it stands."""

import json
import re
from pathlib import Path

import pytest

from thesis_lib.__main__ import main
from thesis_lib.schedulers import names

README = (Path(__file__).resolve().parents[1] / "README.md").read_text(encoding="utf-8")


def blocks(language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", README, flags=re.S)


def test_the_workflow_and_the_cluster_of_the_readme_run(tmp_path, capsys):
    """extract 30 s, clean 60 s, load 10 s one after another on the VM of speed 1.5: 100 / 1.5 s."""
    workflow, cluster = (block for block in blocks("json"))
    (tmp_path / "workflow.json").write_text(workflow)
    (tmp_path / "cluster.json").write_text(cluster)
    files = [str(tmp_path / "workflow.json"), "--cluster", str(tmp_path / "cluster.json")]
    assert main(["schedule", *files, "--no-noise", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["makespan_s"] == pytest.approx(100 / 1.5)


def test_the_python_of_the_readme_runs(monkeypatch, capsys):
    monkeypatch.chdir(Path(__file__).resolve().parents[1])
    for block in blocks("python"):
        exec(compile(block, "README.md", "exec"), {})
    assert capsys.readouterr().out


def test_the_commands_of_the_readme_run(monkeypatch, tmp_path):
    root = Path(__file__).resolve().parents[1]
    lines = [line for block in blocks("bash") for line in block.splitlines() if line.startswith("python -m thesis_lib")]
    assert len(lines) >= 3
    monkeypatch.chdir(tmp_path)
    for line in lines:
        assert main([str(root / word) if word.startswith("dataset/") else word for word in line.split()[3:]]) == 0


def test_every_scheduler_is_in_the_table():
    table = README.split("## Schedulers")[1].split("## Formats")[0]
    assert all(f"`{name}`" in table for name in names())


def test_links_lead_somewhere():
    root = Path(__file__).resolve().parents[1]
    for target in re.findall(r"\]\(([^)#:]+)\)", README):
        assert (root / target).exists(), target
