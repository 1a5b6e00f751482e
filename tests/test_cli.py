"""The command line: keys, exit codes, one clear line for bad input."""

import json
import os
import shutil
import subprocess
import sys
import types
from pathlib import Path

import pytest

from tests.random_agents import random_agent
from thesis_lib import tuning
from thesis_lib.__main__ import main
from thesis_lib.agents import save_agent_file
from thesis_lib.checkpoints import write_arrays
from thesis_lib.formats import load_workflow, save_workflow
from thesis_lib.observation import FEATURE_VERSION
from thesis_lib.train_config import TrainConfig
from thesis_lib.workflow import Task, Workflow

FIXTURES = Path(__file__).parent / "fixtures" / "formats"


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


def test_drl_names_its_model(capsys, chain, tmp_path, monkeypatch):
    monkeypatch.setattr("thesis_lib.agents.MODELS", tmp_path)
    agent = random_agent(5, name="five")
    path = save_agent_file(tmp_path / "five.npz", agent.meta, agent.weights)
    for model in ("five", path):
        result = run_json(capsys, "schedule", chain, "--scheduler", "drl", "--model", model, "--json", "--no-noise")
        assert (result["scheduler"], result["model"], len(result["tasks"])) == ("drl", "five", 2)
    assert "model" not in run_json(capsys, "schedule", chain, "--json")
    assert "names no agent" in run_bad(capsys, "schedule", chain, "--scheduler", "drl")
    assert "choose one of five" in run_bad(capsys, "schedule", chain, "--scheduler", "drl", "--model", "six")
    assert "does not take model" in run_bad(capsys, "schedule", chain, "--model", "five")
    path.write_bytes(path.read_bytes()[:1000])
    assert "is damaged" in run_bad(capsys, "schedule", chain, "--scheduler", "drl", "--model", "five")


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
    assert f"{missing}: cannot be written: there is no folder" in run_bad(capsys, "schedule", chain, "--gantt", missing)
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
    assert "is a file that is read" in run_bad(capsys, "convert", chain, chain.parent)


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
        (["convert", "{chain}", "{chain}"], "is a file that is read"),
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


# --- what must never be overwritten ---------------------------------------------------------


def contents(folder) -> dict[str, bytes]:
    return {str(p.relative_to(folder)): p.read_bytes() for p in folder.rglob("*") if p.is_file()}


def test_convert_never_overwrites_what_it_reads(capsys, chain, tmp_path):
    folder, out = tmp_path / "q", tmp_path / "out"
    folder.mkdir()
    out.mkdir()
    for name, seconds in (("a.json", 1), ("q-0.json", 2)):
        save_workflow(Workflow((Task("a", seconds),)), folder / name)
    before = contents(folder)
    assert "is the folder that is read" in run_bad(capsys, "convert", folder, folder)
    (out / "q-1.json").symlink_to(folder / "a.json")  # the second target is a source under another name
    assert "q-1.json: is a file that is read" in run_bad(capsys, "convert", folder, out)
    assert contents(folder) == before and [p.name for p in out.iterdir()] == ["q-1.json"]
    (out / "q-1.json").unlink()
    assert main(["convert", str(folder), str(out)]) == 0
    assert [load_workflow(out / f"q-{i}.json").mean_s.tolist() for i in (0, 1)] == [[1], [2]]


def test_convert_never_overwrites_a_companion(capsys, tmp_path):
    shutil.copytree(FIXTURES, tmp_path / "in")
    source, companion = (tmp_path / "in" / f"chain_{end}.csv" for end in ("task_exe_time", "resource_BW"))
    before = companion.read_bytes()
    assert "is a file that is read" in run_bad(capsys, "convert", source, companion)
    assert companion.read_bytes() == before


def test_a_picture_never_replaces_a_file_that_is_read(capsys, chain, tmp_path):
    vms, flow = tmp_path / "vms.svg", tmp_path / "flow.svg"
    vms.write_text('[{"id": "v", "cpu": 1, "mem": 1, "bandwidth": 1}]')
    shutil.copy(chain, flow)
    for target in (vms, flow):
        before = target.read_bytes()
        line = run_bad(capsys, "schedule", flow, "--cluster", vms, "--gantt", target)
        assert "is a file that is read" in line and target.read_bytes() == before


@pytest.mark.parametrize("command", ["convert {chain} {out}", "generate etl {out}", "schedule {chain} --gantt {out}"])
def test_every_command_refuses_a_target_that_cannot_be_written_before_the_work(
    capsys, chain, tmp_path, monkeypatch, command
):
    for work in ("thesis_lib.formats.load_workload", "thesis_lib.commands.generate.generate"):
        monkeypatch.setattr(work, lambda *a, **k: pytest.fail("it ran"))
    kept, pipe = tmp_path / "kept.svg", tmp_path / "pipe.svg"
    kept.write_text("mine")
    kept.chmod(0o444)
    os.mkfifo(pipe)
    for out, words in ((kept, "write-protected"), (pipe, "not a regular file"), (tmp_path / "no/x.svg", "no folder")):
        line = run_bad(capsys, *command.format(chain=chain, out=out).split())
        assert f"{out}: cannot be written: " in line and words in line
    assert kept.read_text() == "mine" and pipe.is_fifo() and not (tmp_path / "no").exists()


# --- folders, pipes, streams ------------------------------------------------------------------


def test_info_of_a_folder_gives_totals(capsys, chain):
    save_workflow(Workflow((Task(1, 3),)), chain.with_name("more.json"))
    result = run_json(capsys, "info", chain.parent, "--json")
    assert (result["format"], result["workflows"], result["tasks"], result["edges"]) == ("folder", 2, 3, 1)
    assert (result["total_work_s"], result["critical_path_s"]) == (13, 10)
    chain.with_name("more.json").unlink()
    assert run_json(capsys, "info", chain.parent, "--json")["format"] == "folder"


def test_a_folder_leaves_nothing_out_silently(capsys, chain):
    folder = chain.parent
    (folder / ".hidden").mkdir()
    (folder / "gone.json").symlink_to(folder / "nowhere")
    os.mkfifo(folder / "pipe")
    (folder / "sub").mkdir()
    line = run_bad(capsys, "info", folder)
    assert "3 of 4 files cannot be used" in line and ".hidden" not in line
    for name, words in (("gone.json", "is a link to"), ("pipe", "is not a regular file"), ("sub", "is a folder")):
        assert f"{folder / name}: {words}" in line


def test_a_cluster_that_is_a_pipe_is_refused(capsys, chain, tmp_path):
    os.mkfifo(tmp_path / "pipe")
    assert "pipe: is not a regular file" in run_bad(capsys, "schedule", chain, "--cluster", tmp_path / "pipe")


def run_shell(command: str, **environment: str) -> subprocess.CompletedProcess:
    command = command.replace("thesis_lib", f"{sys.executable} -m thesis_lib", 1)
    return subprocess.run(command, shell=True, capture_output=True, env={**os.environ, **environment}, timeout=60)


@pytest.mark.parametrize("encoding", ["ascii", "gbk", "utf-8"])
def test_any_id_is_printed_under_any_encoding(tmp_path, encoding):
    path, ids = tmp_path / "w.json", ["任务", "größe", "🚀"]
    save_workflow(Workflow(tuple(Task(i, 1) for i in ids)), path)
    done = run_shell(f"thesis_lib schedule {path} --json", PYTHONIOENCODING=encoding)
    assert done.returncode == 0 and done.stdout.isascii()
    assert [task["id"] for task in json.loads(done.stdout)["tasks"]] == ids
    done = run_shell(f"thesis_lib schedule {path} --no-noise", PYTHONIOENCODING=encoding)
    assert (done.returncode, done.stderr) == (0, b"")
    assert ("任务" if encoding != "ascii" else r"\u4efb\u52a1").encode(encoding) in done.stdout


@pytest.mark.parametrize("end", [">&-", "--json >&-", ">/dev/full", "--json >/dev/full", "--help >/dev/full"])
def test_output_that_cannot_be_written_gives_one_line(chain, end):
    if "full" in end and not os.path.exists("/dev/full"):
        pytest.skip("this system has no /dev/full")
    done = run_shell(f"thesis_lib info {chain} {end}")
    reason = "No space left on device" if "full" in end else "it is closed"
    assert (done.returncode, done.stderr.decode()) == (2, f"error: stdout cannot be written: {reason}\n")


def test_folders_of_other_people_are_refused_in_one_line(capsys, tmp_path):
    (tmp_path / "README.md").write_text("# My project\n")
    for command in ("figures", "dataset build"):
        assert "README.md: is no" in run_bad(capsys, *command.split(), "--out", tmp_path)
    assert [p.name for p in tmp_path.iterdir()] == ["README.md"]


def test_closed_streams_do_not_disturb_a_command_that_prints_nothing(chain, tmp_path):
    done = run_shell(f"thesis_lib convert {chain} {tmp_path / 'out.json'} >&- 2>&-")
    assert done.returncode == 0 and load_workflow(tmp_path / "out.json") == load_workflow(chain)
    assert json.loads(run_shell(f"thesis_lib info {chain} --json 2>&-").stdout)["tasks"] == 2


def test_what_a_seed_or_a_price_cannot_change_is_said(capsys, chain):
    assert main(["schedule", str(chain)]) == 0
    shown = capsys.readouterr()
    assert "every seed gives the mean durations" in shown.err
    assert "cost                         - (no VM has a price)" in shown.out
    assert main(["schedule", str(chain), "--no-noise"]) == 0
    assert "seed" not in capsys.readouterr().err


def test_the_picture_speaks_chinese(chain, tmp_path):
    out = tmp_path / "plan.svg"
    assert main(["schedule", str(chain), "--gantt", str(out), "--lang", "zh"]) == 0
    english = tmp_path / "plan_en.svg"
    assert main(["schedule", str(chain), "--gantt", str(english)]) == 0
    assert out.read_bytes() != english.read_bytes()


# --- training and tuning ------------------------------------------------------------------------


@pytest.fixture
def training(monkeypatch, tmp_path):
    """A stand-in for the training itself, which notes its calls and leaves the files of a run, and a folder."""
    calls = []

    def train(config, out, resume=False, progress=True, jobs=1):
        calls.append((config, Path(out), resume))
        module.jobs.append(jobs)
        (Path(out) / f"{config.name}.yaml").write_text(config.to_yaml())
        write_arrays(Path(out) / f"{config.name}.state.npz", {}, module.about)
        return Path(out) / f"{config.name}.npz"

    module = types.ModuleType("thesis_lib.training")
    module.train, module.calls, module.jobs = train, calls, []
    module.about = {"stage": "done", "feature_version": FEATURE_VERSION}  # what the checkpoint says
    monkeypatch.setitem(sys.modules, "thesis_lib.training", module)
    monkeypatch.chdir(tmp_path)
    return module


def test_train_reads_settings_and_says_where_the_agent_is(capsys, training, tmp_path):
    Path("mine.yaml").write_text("name: mine\nseed: 4\n")
    result = run_json(capsys, "train", "--config", "mine.yaml", "--set", "entropy=0.01", "--set", "seed=5", "--json")
    config, out, resume = training.calls[0]
    assert (config.name, config.seed, config.entropy, out, resume) == ("mine", 5, 0.01, Path("runs/mine"), False)
    assert result["agent"] == str(Path("runs/mine/mine.npz")) and result["config"]["entropy"] == 0.01
    assert main(["train", "--out", "here"]) == 0
    assert capsys.readouterr().out == f"agent  {Path('here/stream.npz')}\n"
    assert training.calls[1][0].as_dict() == {**config.as_dict(), "name": "stream", "seed": 0, "entropy": 0.002}


def test_train_labels_with_as_many_processes_as_asked(capsys, training, monkeypatch):
    """By default one per core, but never more than four, since each one loads torch."""
    for cores, jobs in ((1, 1), (3, 3), (64, 4)):
        monkeypatch.setattr("joblib.cpu_count", lambda: cores)  # noqa: B023
        assert main(["train"]) == 0 and training.jobs[-1] == jobs
    assert main(["train", "--jobs", "9"]) == 0 and training.jobs[-1] == 9
    capsys.readouterr()
    assert "--jobs must be a whole number of at least 1, got 0" in run_bad(capsys, "train", "--jobs", "0")


def test_train_resumes_with_the_settings_of_the_run(capsys, training):
    assert "runs/stream: holds no run to resume" in run_bad(capsys, "train", "--resume").replace("\\", "/")
    assert main(["train", "--set", "seed=3"]) == 0
    assert main(["train", "--resume", "--out", "runs/stream"]) == 0
    assert main(["train", "--resume", "--config", "runs/stream/stream.yaml"]) == 0
    assert [(config.seed, resume) for config, _, resume in training.calls] == [(3, False), (3, True), (3, True)]
    capsys.readouterr()
    for end in (["--resume", "--set", "seed=4"], ["--set", "seed=4"]):
        assert "stream.yaml: this run has other settings (seed 3 -> 4); choose" in run_bad(capsys, "train", *end)
    assert main(["train", "--set", "seed=3"]) == 0 and training.calls[-1][2] is False  # the same run from the start


def test_train_does_not_delete_a_run_that_can_go_on(capsys, training):
    training.about["stage"] = "ppo"
    assert main(["train"]) == 0
    before = Path("runs/stream/stream.state.npz").read_bytes()
    capsys.readouterr()
    line = run_bad(capsys, "train").replace("\\", "/")
    assert "runs/stream/stream.state.npz: this run is not finished and would be lost; go on with --resume" in line
    assert len(training.calls) == 1 and Path("runs/stream/stream.state.npz").read_bytes() == before
    assert main(["train", "--out", "elsewhere"]) == 0
    assert main(["train", "--resume"]) == 0 and training.calls[-1][2] is True
    Path("runs/stream/stream.state.npz").unlink()
    assert main(["train"]) == 0 and len(training.calls) == 4


def test_train_begins_anew_where_nothing_can_go_on(capsys, training):
    """Finished, of observations that this version does not make, damaged."""
    for about in ({}, {"stage": "ppo", "feature_version": FEATURE_VERSION - 1}):
        training.about |= about
        assert main(["train"]) == 0 and main(["train"]) == 0
    Path("runs/stream/stream.state.npz").write_bytes(b"PK damaged")
    assert main(["train"]) == 0 and not any(resume for _, _, resume in training.calls)


def test_one_of_several_runs_in_a_folder_has_to_be_chosen(capsys, training):
    assert main(["train", "--out", "all", "--set", "name=a"]) == 0
    assert main(["train", "--out", "all", "--set", "name=b", "--set", "seed=1"]) == 0
    capsys.readouterr()
    line = run_bad(capsys, "train", "--resume", "--out", "all")
    assert f"holds 2 runs; choose one with --config: {Path('all/a.yaml')}, {Path('all/b.yaml')}" in line
    assert main(["train", "--resume", "--out", "all", "--config", "all/b.yaml"]) == 0
    assert training.calls[-1][0].seed == 1


def test_a_folder_that_takes_no_files_is_refused_before_training(capsys, training, monkeypatch):
    Path("file").write_text("mine")
    assert "/file is no folder" in run_bad(capsys, "train", "--out", "file")
    Path("kept").mkdir()
    Path("kept/stream.npz").write_text("mine")
    Path("kept/stream.npz").chmod(0o444)
    assert "stream.npz: cannot be written: is write-protected" in run_bad(capsys, "train", "--out", "kept")

    def full(*arguments, **options):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("tempfile.TemporaryFile", full)
    assert "new: cannot be written: No space left on device" in run_bad(capsys, "train", "--out", "new")
    assert training.calls == [] and Path("file").read_text() == "mine"


@pytest.mark.skipif(hasattr(os, "geteuid") and os.geteuid() == 0, reason="root may write everywhere")
def test_a_write_protected_folder_is_refused_before_training(capsys, training):
    Path("locked").mkdir(mode=0o555)
    for out in ("locked", "locked/deeper"):
        assert "is write-protected" in run_bad(capsys, "train", "--out", out)
    assert training.calls == []


def test_an_interrupted_training_says_how_to_go_on(capsys, training):
    def stop(*arguments, **options):
        raise KeyboardInterrupt

    training.train = stop
    assert main(["train"]) == 130
    assert "--resume --out runs" in capsys.readouterr().err


def test_tune_finds_settings_that_train_takes(capsys, training, monkeypatch):
    monkeypatch.setitem(tuning.tune.__kwdefaults__, "objective", lambda config: config.entropy + 1)
    words = ["tune", "--set", "name=mine", "--trials", "6", "--jobs", "1", "--json"]
    result = run_json(capsys, *words)
    entropies = [tuning.trial_settings(TrainConfig(name="mine"), k).entropy for k in range(6)]
    assert result["best_ratio"] == 1 + min(entropies) and result["best_trial"] == entropies.index(min(entropies))
    assert (result["trials"], result["failed"], result["trial_0_ratio"]) == (6, 0, 1.002)
    assert set(result["settings"]) == set(tuning.SPACE) and result["settings"]["entropy"] == min(entropies)
    assert result["config_file"] == str(Path("runs/mine-tuning/best.yaml"))
    assert main(["train", "--config", result["config_file"], "--out", "tuned"]) == 0
    assert training.calls[0][0].entropy == min(entropies) and training.calls[0][0].name == "mine"
    capsys.readouterr()
    assert "holds trials; go on with --resume" in run_bad(capsys, *words)
    assert run_json(capsys, *words, "--resume") == result
    assert main([*words[:-1], "--resume"]) == 0
    assert capsys.readouterr().out.startswith("trials ")


def test_an_interrupted_search_says_how_to_go_on(capsys, training, monkeypatch):
    def stop(config):
        raise KeyboardInterrupt

    monkeypatch.setitem(tuning.tune.__kwdefaults__, "objective", stop)
    assert main(["tune", "--jobs", "1", "--out", "here"]) == 130
    assert "add --resume to go on" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("command", "words"),
    [
        ("train --config none.yaml", "none.yaml: no such file"),
        ("train --set sed=1", "unknown setting 'sed'; did you mean 'seed'"),
        ("train --set seed", "must look like key=value"),
        ("train --set total_steps=-1", "total_steps must be a whole number of at least 0, got '-1'"),
        ("tune --trials 0", "trials must be a whole number of at least 1, got 0"),
        ("tune --steps 0", "steps must be"),
        ("tune --jobs 0", "jobs must be"),
        ("tune --engine slurm", "unknown engine 'slurm'; choose one of local, ray"),
        ("tune --set network=cnn", "network must be one of"),
    ],
)
def test_bad_settings_give_one_line_and_leave_no_folder(capsys, training, tmp_path, command, words):
    assert words in run_bad(capsys, *command.split())
    assert training.calls == [] and list(tmp_path.iterdir()) == []
