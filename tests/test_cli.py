"""The command line: keys, exit codes, one clear line for bad input."""

import json
import subprocess
import sys

import pytest

from thesis_lib.__main__ import main
from thesis_lib.formats import load_workflow, save_workflow
from thesis_lib.workflow import Task, Workflow


@pytest.fixture
def chain(tmp_path):
    """a (4 s) -> b (6 s), written as a file."""
    path = tmp_path / "chain.json"
    save_workflow(Workflow((Task("a", 4), Task("b", 6, dependencies=("a",)))), path)
    return path


def run_json(capsys, *argv) -> dict:
    assert main([str(a) for a in argv]) == 0
    return json.loads(capsys.readouterr().out)


def run_bad(capsys, *argv) -> str:
    """The one line that bad input gives."""
    try:
        code = main([str(a) for a in argv])
    except SystemExit as stop:
        code = stop.code
    shown = capsys.readouterr()
    assert code == 2
    assert shown.out == ""
    assert shown.err.count("\n") == 1
    assert shown.err.startswith("error: ")
    return shown.err


def test_schedule_json_has_the_agreed_keys(capsys, chain):
    result = run_json(capsys, "schedule", chain, "--json", "--no-noise")
    agreed = {"workflow", "scheduler", "seed", "makespan_s", "planned_makespan_s", "mean_completion_s", "utilization",
              "sla_violation_rate", "cost", "tasks"}  # fmt: skip
    assert agreed <= set(result)
    assert result["scheduler"] == "heft"
    assert result["makespan_s"] == result["planned_makespan_s"] == 10
    assert result["tasks"][1] == {"id": "b", "workflow": 0, "vm": 0, "ready_s": 4, "start_s": 4, "finish_s": 10}


def test_every_scheduler_name_works(capsys, chain):
    for name in ("random", "fcfs", "sjf", "tetris", "critical_path", "srw", "srw_patient", "heft", "heft_single",
                 "heft_online", "heft_patient", "cpop", "peft", "optimal"):  # fmt: skip
        result = run_json(capsys, "schedule", chain, "--scheduler", name, "--json", "--no-noise")
        assert result["scheduler"] == name
        assert result["makespan_s"] == 10


def test_optimal_reports_its_bound(capsys, chain):
    result = run_json(capsys, "schedule", chain, "--scheduler", "optimal", "--time-limit", "5", "--json")
    assert result["bound_s"] == pytest.approx(10)
    assert result["proved_optimal"] is True


def test_several_files_arrive_together(capsys, chain):
    result = run_json(capsys, "schedule", chain, chain, "--json", "--no-noise")
    assert [task["workflow"] for task in result["tasks"]] == [0, 0, 1, 1]
    assert result["mean_completion_s"] == 10


TRACE = "".join(f"M1,1,j_{start},1,Terminated,{start},{start + 10},100,1\n" for start in (100, 130))


def test_a_trace_keeps_its_arrivals_alone_and_not_among_several_files(capsys, chain, tmp_path):
    trace = tmp_path / "trace.csv"
    trace.write_text(TRACE)
    alone = run_json(capsys, "schedule", trace, "--json", "--no-noise")
    assert [task["ready_s"] for task in alone["tasks"]] == [0, 30]
    assert main(["schedule", str(trace), str(chain), "--json", "--no-noise"]) == 0
    shown = capsys.readouterr()
    assert [task["ready_s"] for task in json.loads(shown.out)["tasks"]] == [0, 0, 0, 4]
    assert shown.err == f"{trace}: its arrival times are not used, since several files arrive together at 0\n"
    assert json.loads(shown.out)["workflow"] == "trace, chain"


def test_cluster_file(capsys, chain, tmp_path):
    vms = tmp_path / "vms.json"
    vms.write_text('[{"id": "v", "cpu": 1, "mem": 1, "bandwidth": 1, "speed": 2, "price_per_hour": 720}]')
    result = run_json(capsys, "schedule", chain, "--cluster", vms, "--json", "--no-noise")
    assert result["makespan_s"] == 5
    assert result["cost"] == pytest.approx(1)
    assert result["tasks"][0]["vm"] == "v"


def test_text_output_names_every_task(capsys, chain):
    assert main(["schedule", str(chain)]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].startswith("workflow")
    assert [line.split()[0] for line in lines[-2:]] == ["a", "b"]


def test_gantt_is_drawn(capsys, chain, tmp_path):
    out = tmp_path / "plan.png"
    assert main(["schedule", str(chain), "--gantt", str(out)]) == 0
    assert out.read_bytes().startswith(b"\x89PNG")
    capsys.readouterr()
    assert "cannot draw" in run_bad(capsys, "schedule", chain, "--gantt", tmp_path / "plan.doc")
    missing = tmp_path / "no" / "plan.pdf"
    assert f"{missing}: there is no folder" in run_bad(capsys, "schedule", chain, "--gantt", missing)
    assert not missing.parent.exists()


def test_a_picture_that_cannot_be_written_is_refused_before_the_run(capsys, chain, tmp_path, monkeypatch):
    monkeypatch.setattr("thesis_lib.simulator.simulate", lambda *a, **k: pytest.fail("it ran"))
    run_bad(capsys, "schedule", chain, "--gantt", tmp_path / "no" / "plan.pdf")


def test_info(capsys, chain):
    result = run_json(capsys, "info", chain, "--json")
    assert result["format"].startswith("article")
    assert (result["tasks"], result["edges"], result["roots"], result["leaves"]) == (2, 1, 1, 1)
    assert (result["depth"], result["width"]) == (2, 1)
    assert (result["total_work_s"], result["critical_path_s"], result["critical_path"]) == (10, 10, ["a", "b"])
    assert result["warnings"] == []


def test_generate_then_convert_round_trip(capsys, tmp_path):
    one, two = tmp_path / "one.json", tmp_path / "two.json"
    assert main(["generate", "layered", str(one), "--tasks", "25", "--seed", "3", "--alpha", "0.5"]) == 0
    assert main(["convert", str(one), str(two)]) == 0
    assert load_workflow(one) == load_workflow(two)
    assert len(load_workflow(one)) == 25


def test_convert_one_workflow_into_a_folder(capsys, chain, tmp_path):
    folder = tmp_path / "out"
    folder.mkdir()
    assert main(["convert", str(chain), str(folder)]) == 0
    assert [p.name for p in folder.iterdir()] == ["chain.json"]
    assert capsys.readouterr().err == f"wrote {folder / 'chain.json'}\n"
    assert "is the file that is read" in run_bad(capsys, "convert", chain, chain.parent)


def test_convert_several_workflows_into_a_folder(capsys, tmp_path):
    trace = tmp_path / "trace.csv"
    trace.write_text(TRACE)
    assert "holds 2 workflows; make a folder" in run_bad(capsys, "convert", trace, tmp_path / "out")
    (tmp_path / "out").mkdir()
    assert main(["convert", str(trace), str(tmp_path / "out")]) == 0
    assert sorted(p.name for p in (tmp_path / "out").iterdir()) == ["trace-0.json", "trace-1.json"]
    assert "the arrival times stay behind" in capsys.readouterr().err


def test_figures_list(capsys):
    assert main(["figures", "--list"]) == 0
    assert "two_clocks: " in capsys.readouterr().out
    assert main(["figures", "--list", "--only", "dag_real"]) == 0
    assert [line.split(":")[0] for line in capsys.readouterr().out.splitlines()] == ["dag_real"]


def test_dataset_check(capsys):
    assert main(["dataset", "check"]) == 0
    assert "all 33 sets and 9 real workflows" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("argv", "words"),
    [
        (["schedule", "{chain}", "--scheduler", "best"], "unknown scheduler 'best'; choose one of"),
        (["schedule", "{chain}", "--seed", "-3"], "seed must be"),
        (["schedule", "{chain}", "--seed", "x"], "invalid int value"),
        (["schedule", "{dir}/none.json"], "none.json"),
        (["schedule", "{dir}"], "holds no files|cannot be used|folder"),
        (["schedule", "{chain}", "--cluster", "{chain}"], '"vms"'),
        (["schedule", "{chain}", "--time-limit", "3"], "does not take time_limit_s"),
        (["convert", "{chain}", "{chain}"], "is the file that is read"),
        (["convert", "{chain}", "{dir}/no/where.json"], "where.json"),
        (["generate", "star", "{dir}/x.json"], "unknown family 'star'"),
        (["generate", "etl", "{dir}/x.json", "--alpha", "1"], "has no parameter alpha"),
        (["generate", "layered", "{dir}/x.json", "--tasks", "0"], "n_tasks"),
        (["figures", "--only", "nothing"], "unknown figure 'nothing'"),
        (["figures", "--list", "--only", "nothing"], "unknown figure 'nothing'"),
        (["speed", "--repeats", "0"], "--repeats must be a whole number of at least 1, got 0"),
        (["fly"], "invalid choice"),
        ([], "required"),
    ],
)
def test_bad_input_gives_one_line_and_exit_code_2(capsys, chain, tmp_path_factory, argv, words):
    import re

    empty = tmp_path_factory.mktemp("empty")
    line = run_bad(capsys, *[a.format(chain=chain, dir=empty) for a in argv])
    assert re.search(words, line), line


def test_refused_input_leaves_files_alone(capsys, chain, tmp_path):
    target = tmp_path / "kept.json"
    target.write_text("mine")
    bad = tmp_path / "bad.json"
    bad.write_text('{"tasks": []}')
    run_bad(capsys, "convert", bad, target)
    assert target.read_text() == "mine"
    assert {p.name for p in tmp_path.iterdir()} == {"chain.json", "kept.json", "bad.json"}


def test_module_runs_and_stops_quietly_when_the_reader_leaves(chain):
    command = f"{sys.executable} -m thesis_lib schedule {chain} | head -1"
    done = subprocess.run(command, shell=True, capture_output=True, text=True, check=True)
    assert done.stdout.startswith("workflow")
    assert "Traceback" not in done.stderr
