"""Tuning: the same trials whatever runs them, none run twice, nothing lost when it is stopped."""

import csv
import math
import os
import signal
import subprocess
import sys
import time
import types
from dataclasses import fields, replace
from pathlib import Path

import numpy as np
import pytest

from thesis_lib import tuning
from thesis_lib.train_config import ARTICLE_PPO, TrainConfig
from thesis_lib.tuning import SPACE, Choice, LogUniform, Trial, short_run, trial_settings, tune
from thesis_lib.workflow import WorkflowError

BASE = TrainConfig(name="base", seed=5, n_envs=4)
ROOT = Path(__file__).resolve().parents[1]


def distance(config: TrainConfig) -> float:
    """A cheap objective with its minimum, 0.5, at learning rate 0.003."""
    return 0.5 + abs(math.log(config.learning_rate / 0.003))


def rows(out) -> list[dict]:
    """The trials file without the measured seconds."""
    with open(out / "trials.csv", encoding="utf-8", newline="") as file:
        return [{key: value for key, value in row.items() if key != "seconds"} for row in csv.DictReader(file)]


# --- what is drawn --------------------------------------------------------------------------


def test_trial_0_is_the_base_and_a_trial_depends_on_its_number_and_the_base_alone():
    assert trial_settings(BASE, 0) == BASE
    one, two = trial_settings(BASE, 7), trial_settings(BASE, 8)
    assert one == trial_settings(BASE, 7) != two
    assert trial_settings(replace(BASE, seed=6), 7).learning_rate != one.learning_rate
    untouched = [s.name for s in fields(TrainConfig) if s.name not in SPACE]
    assert all(getattr(one, name) == getattr(BASE, name) for name in untouched)


def test_drawn_values_lie_in_the_space_and_spread_over_it():
    configs = [trial_settings(TrainConfig(n_envs=16), k) for k in range(1, 401)]
    for name, setting in SPACE.items():
        values = [getattr(config, name) for config in configs]
        if isinstance(setting, Choice):
            # 400 draws: each value is expected 400 / n times; 5 standard deviations
            n = len(setting.values)
            slack = 5 * math.sqrt(400 * (1 / n) * (1 - 1 / n))
            assert set(values) == set(setting.values)
            assert all(abs(values.count(value) - 400 / n) < slack for value in setting.values), name
        else:
            assert setting.low <= min(values) and max(values) <= setting.high
            middle = math.sqrt(setting.low * setting.high)  # half of the draws of a log-uniform number lie below
            assert abs(sum(value < middle for value in values) - 200) < 50
            assert all(float(f"{value:.3g}") == value for value in values)


def test_the_article_and_the_default_can_be_drawn():
    for name, setting in SPACE.items():
        for value in (getattr(TrainConfig(), name), ARTICLE_PPO.get(name, getattr(TrainConfig(), name))):
            inside = value in setting.values if isinstance(setting, Choice) else setting.low <= value <= setting.high
            assert inside, (name, value)


def test_ends_of_the_range_stay_inside_after_rounding():
    class Ends:
        def __init__(self, high):
            self.high = high

        def uniform(self, low, high):
            return high if self.high else low

    for setting in SPACE.values():
        if isinstance(setting, LogUniform):
            assert (setting.draw(Ends(False)), setting.draw(Ends(True))) == (setting.low, setting.high)


def test_a_minibatch_never_exceeds_the_batch():
    small = TrainConfig(n_envs=1, rollout_length=64, minibatch_size=64)
    configs = [trial_settings(small, k) for k in range(60)]
    assert all(c.minibatch_size <= c.rollout_length for c in configs)
    assert {c.minibatch_size for c in configs} > {64}


def test_a_trial_is_a_short_run_without_distillation():
    short = short_run(BASE, 5000)
    assert (short.total_steps, short.distill_rounds, short.validation_streams) == (5000, 0, 100)
    assert short.validate_every > 5000 + short.batch_size  # PPO ends with a whole batch
    assert short_run(replace(BASE, total_steps=300), 5000).total_steps == 300


# --- one search -------------------------------------------------------------------------------


def test_the_best_of_the_trials_is_found_and_its_file_trains(tmp_path):
    seen = []
    result = tune(BASE, tmp_path / "t", 12, objective=distance, jobs=1, report=seen.append)
    expected = [distance(trial_settings(BASE, k)) for k in range(12)]
    assert [trial.ratio for trial in result.trials] == expected and [t.number for t in seen] == list(range(12))
    assert result.best.number == int(np.argmin(expected)) and result.best.ratio == min(expected)
    assert TrainConfig.from_yaml(result.config_file) == trial_settings(BASE, result.best.number) == result.config
    assert result.config.total_steps == BASE.total_steps and result.config.distill_rounds == BASE.distill_rounds
    table = rows(tmp_path / "t")
    assert [float(row["ratio"]) for row in table] == expected
    assert [float(row["learning_rate"]) for row in table] == [trial_settings(BASE, k).learning_rate for k in range(12)]
    assert table[0]["value_clip"] == "null" and not any(row["error"] for row in table)
    assert sorted(p.name for p in (tmp_path / "t").iterdir()) == ["base.yaml", "best.yaml", "trials.csv"]


def test_the_first_of_equal_trials_wins(tmp_path):
    assert tune(BASE, tmp_path, 3, objective=lambda config: 1.0, jobs=1).best.number == 0


def test_processes_give_the_same_trials_as_one_after_another(tmp_path):
    one = tune(BASE, tmp_path / "one", 5, objective=distance, jobs=1)
    two = tune(BASE, tmp_path / "two", 5, objective=distance, jobs=2)
    assert rows(tmp_path / "one") == rows(tmp_path / "two")
    assert one.config == two.config
    assert (tmp_path / "one" / "best.yaml").read_text() == (tmp_path / "two" / "best.yaml").read_text()


def test_the_order_of_the_trials_changes_nothing(tmp_path, monkeypatch):
    tune(BASE, tmp_path / "one", 5, objective=distance, jobs=1)

    def backwards(task, numbers, jobs):
        for number in reversed(numbers):
            yield task(number)

    monkeypatch.setitem(tuning.ENGINES, "local", lambda: backwards)
    tune(BASE, tmp_path / "two", 5, objective=distance)
    assert rows(tmp_path / "one") == rows(tmp_path / "two")


def threads(config: TrainConfig) -> float:
    return float(os.environ.get("OMP_NUM_THREADS", "0"))


def test_every_process_has_one_thread(tmp_path, monkeypatch):
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    from joblib.externals.loky import get_reusable_executor  # fresh processes: those that exist keep their variables

    get_reusable_executor().shutdown()
    result = tune(BASE, tmp_path, 2, objective=threads, jobs=2)
    assert [trial.ratio for trial in result.trials] == [1, 1]


# --- failed trials, resuming, damage ---------------------------------------------------------------


class Fragile:
    """Fails for some trials, and counts its calls."""

    def __init__(self, *bad: int, error: BaseException | None = None):
        self.bad = {trial_settings(BASE, number).learning_rate for number in bad}
        self.error, self.calls = error or FloatingPointError("loss is\nNaN"), []

    def __call__(self, config: TrainConfig) -> float:
        self.calls.append(config.learning_rate)
        if config.learning_rate in self.bad:
            raise self.error
        return distance(config)


def test_a_trial_that_breaks_down_is_recorded_and_the_others_go_on(tmp_path):
    result = tune(BASE, tmp_path, 4, objective=Fragile(0, 2), jobs=1)
    assert [trial.ratio is None for trial in result.trials] == [True, False, True, False]
    assert rows(tmp_path)[2]["error"] == "FloatingPointError: loss is NaN" and rows(tmp_path)[2]["ratio"] == ""
    assert result.best.number in (1, 3)


def test_failed_trials_are_run_again_and_finished_ones_never(tmp_path):
    tune(BASE, tmp_path, 4, objective=Fragile(2), jobs=1)
    mended, seen = Fragile(), []
    result = tune(BASE, tmp_path, 6, objective=mended, jobs=1, resume=True, report=seen.append)
    assert mended.calls == [trial_settings(BASE, k).learning_rate for k in (2, 4, 5)]
    assert [trial.number for trial in seen] == [0, 1, 3, 2, 4, 5]
    assert [trial.ratio for trial in result.trials] == [distance(trial_settings(BASE, k)) for k in range(6)]
    again = Fragile(0, 1, 2, 3, 4, 5)
    assert tune(BASE, tmp_path, 6, objective=again, resume=True) == result and again.calls == []


def test_a_ratio_that_is_no_number_is_a_failed_trial(tmp_path):
    with pytest.raises(WorkflowError, match="all 2 trials failed, the first with: the ratio is nan"):
        tune(BASE, tmp_path, 2, objective=lambda config: math.nan, jobs=1)
    assert not (tmp_path / "best.yaml").exists()


@pytest.mark.parametrize("error", [KeyboardInterrupt(), ImportError("torch"), OSError("disk full")])
def test_what_is_not_the_trials_fault_stops_the_search_and_keeps_the_finished_ones(tmp_path, error):
    with pytest.raises(type(error)):
        tune(BASE, tmp_path, 5, objective=Fragile(3, error=error), jobs=1)
    assert [row["trial"] for row in rows(tmp_path)] == ["0", "1", "2"]
    assert len(tune(BASE, tmp_path, 5, objective=distance, jobs=1, resume=True).trials) == 5


def test_what_the_given_settings_cannot_do_is_bad_input_and_what_drawn_ones_cannot_is_a_failed_trial(tmp_path):
    fault = WorkflowError("the weights are not finite")
    result = tune(BASE, tmp_path / "a", 4, objective=Fragile(2, error=fault), jobs=1)
    assert [trial.error for trial in result.trials] == ["", "", "WorkflowError: the weights are not finite", ""]
    with pytest.raises(WorkflowError, match="^the weights are not finite$"):
        tune(BASE, tmp_path / "b", 4, objective=Fragile(0, error=fault), jobs=2)
    assert not (tmp_path / "b" / "best.yaml").exists()


def test_trials_of_another_search_are_left_alone(tmp_path):
    tune(BASE, tmp_path, 2, objective=distance, jobs=1)
    before = {p.name: p.read_bytes() for p in tmp_path.iterdir()}
    with pytest.raises(WorkflowError, match="trials.csv: holds trials; go on with --resume"):
        tune(BASE, tmp_path, 2, objective=distance, jobs=1)
    for base, steps in ((replace(BASE, hidden=16), tuning.TRIAL_STEPS), (BASE, 10)):
        with pytest.raises(WorkflowError, match="base.yaml: the trials there are of other settings"):
            tune(base, tmp_path, 2, steps=steps, objective=distance, jobs=1, resume=True)
    assert {p.name: p.read_bytes() for p in tmp_path.iterdir()} == before


@pytest.mark.parametrize(
    ("damage", "words"),
    [
        (lambda lines: ["a,b", *lines[1:]], "line 1 must be trial,ratio,seconds"),
        (lambda lines: [], "line 1 must be"),
        (lambda lines: [*lines[:2], lines[2][:9]], "line 3 is damaged"),
        (lambda lines: [*lines[:2], lines[2].replace("1,", "x,", 1)], "line 3 is damaged"),
        (lambda lines: [*lines, lines[2]], "a trial occurs twice"),
        (lambda lines: [*lines[:2], lines[2].replace("1,", "9,", 1)], "line 3 was drawn from other settings"),
    ],
)
def test_a_damaged_file_is_named_with_its_line(tmp_path, damage, words):
    tune(BASE, tmp_path, 2, objective=distance, jobs=1)
    file = tmp_path / "trials.csv"
    file.write_text("\n".join(damage(file.read_text().splitlines())) + "\n")
    with pytest.raises(WorkflowError, match=words) as caught:
        tune(BASE, tmp_path, 2, objective=distance, jobs=1, resume=True)
    assert str(caught.value).startswith(f"{file}: ")


def test_bad_arguments_are_refused_before_anything_is_written(tmp_path):
    for wrong in ({"trials": 0}, {"steps": 0}, {"jobs": 0}, {"engine": "slurm"}):
        with pytest.raises(WorkflowError):
            tune(BASE, tmp_path / "out", **wrong, objective=distance)
    (tmp_path / "file").write_text("")
    with pytest.raises(WorkflowError, match="is no folder"):
        tune(BASE, tmp_path / "file", objective=distance)
    assert [p.name for p in tmp_path.iterdir()] == ["file"]


INTERRUPTED = """
import time
from tests.test_tuning import BASE, distance
from thesis_lib.tuning import trial_settings, tune

def slow(config):
    time.sleep(0.01 if config.learning_rate in {first} else 60)
    return distance(config)

if __name__ == "__main__":
    tune(BASE, {out!r}, 40, objective=slow, jobs=2)
"""


@pytest.mark.skipif(os.name == "nt", reason="signals of another kind")
def test_ctrl_c_keeps_the_finished_trials_and_ends_the_others(tmp_path):
    out, script = tmp_path / "out", tmp_path / "search.py"
    first = {trial_settings(BASE, k).learning_rate for k in range(3)}
    script.write_text(INTERRUPTED.format(first=first, out=str(out)))
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")])}
    process = subprocess.Popen([sys.executable, str(script)], stderr=subprocess.PIPE, text=True, env=environment,
                               start_new_session=True)  # fmt: skip
    try:
        until = time.monotonic() + 60
        while not ((out / "trials.csv").exists() and len(rows(out)) == 3):
            assert time.monotonic() < until and process.poll() is None
            time.sleep(0.1)
        os.killpg(process.pid, signal.SIGINT)  # a terminal sends it to the whole group
        assert "KeyboardInterrupt" in process.communicate(timeout=20)[1]
        assert process.returncode != 0 and [row["trial"] for row in rows(out)] == ["0", "1", "2"]
        with pytest.raises(ProcessLookupError):  # nobody is left in its group
            for _ in range(50):
                os.killpg(process.pid, 0)
                time.sleep(0.1)
    finally:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)


# --- Ray ------------------------------------------------------------------------------------------


def fake_ray(calls: list) -> types.ModuleType:
    """The part of Ray's interface that the engine uses, run at once; the newest of the waiting tasks ends first."""
    ray, initialized = types.ModuleType("ray"), []

    def remote(**options):
        def wrap(function):
            calls.append(("remote", options))
            return types.SimpleNamespace(remote=lambda *arguments: ("reference", function(*arguments)))

        return wrap

    ray.is_initialized = lambda: bool(initialized)
    ray.init = lambda **options: (initialized.append(True), calls.append(("init", options)))
    ray.shutdown = lambda: (initialized.clear(), calls.append(("shutdown",)))
    ray.cluster_resources = lambda: {"CPU": 3.0}
    ray.remote = remote
    ray.wait = lambda references, num_returns: (calls.append(("running", len(references))),
                                                ([references[-1]], references[:-1]))[1]  # fmt: skip
    ray.get = lambda reference: reference[1]
    ray.cancel = lambda reference, force: calls.append(("cancel",))
    return ray


def test_ray_gives_the_same_trials(tmp_path, monkeypatch):
    calls: list = []
    monkeypatch.setitem(sys.modules, "ray", fake_ray(calls))
    monkeypatch.delenv("RAY_ADDRESS", raising=False)
    tune(BASE, tmp_path / "ray", 7, objective=distance, engine="ray", jobs=2)
    tune(BASE, tmp_path / "local", 7, objective=distance, jobs=1)
    assert rows(tmp_path / "ray") == rows(tmp_path / "local")
    assert calls[0] == ("init", {"log_to_driver": False, "num_cpus": 2, "include_dashboard": False})
    assert [count for kind, *count in calls if kind == "running"] == [[2]] * 6 + [[1]] and calls[-1] == ("shutdown",)


def test_an_existing_ray_cluster_is_used_as_it_is(tmp_path, monkeypatch):
    calls: list = []
    monkeypatch.setitem(sys.modules, "ray", fake_ray(calls))
    monkeypatch.setenv("RAY_ADDRESS", "auto")
    tune(BASE, tmp_path, 5, objective=distance, engine="ray")
    assert calls[0] == ("init", {"log_to_driver": False})
    assert max(count[0] for kind, *count in calls if kind == "running") == 3  # its CPUs


def test_a_stopped_ray_search_cancels_what_runs(tmp_path, monkeypatch):
    calls: list = []
    monkeypatch.setitem(sys.modules, "ray", fake_ray(calls))

    def stop(trial: Trial) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        tune(BASE, tmp_path, 5, objective=distance, engine="ray", jobs=2, report=stop)
    assert calls[-2:] == [("cancel",), ("shutdown",)] and len(rows(tmp_path)) == 1


def test_missing_ray_is_said_with_the_line_that_installs_it(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(WorkflowError, match=r"pip install 'ray\[default\]', or take --engine local"):
        tune(BASE, tmp_path / "out", 2, objective=distance, engine="ray")
    assert not (tmp_path / "out").exists()


# --- a real training ---------------------------------------------------------------------------------


@pytest.mark.skipif(
    not all((ROOT / "thesis_lib" / name).is_file() for name in ("training.py", "agents.py")),
    reason="training and agent files are not part of the package yet",
)
def test_a_real_tiny_training_has_a_ratio(tmp_path):
    base = TrainConfig(name="tiny", problem="thesis", base_rule="critical_path", n_tasks_max=12, hidden=8,
                       score_hidden=8, clone_decisions=50, clone_epochs=1, n_envs=2, rollout_length=32,
                       minibatch_size=32, epochs=1, validation_streams=3)  # fmt: skip
    result = tune(base, tmp_path, 1, steps=64, jobs=1)
    assert 0.5 < result.best.ratio < 2
