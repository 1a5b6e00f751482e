"""A training run from end to end: files, determinism, being cut off anywhere, and what is refused."""

import csv
import json
import multiprocessing
import os
import random
import shutil
import signal
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from tests.tiny_training import TINY
from thesis_lib import checkpoints, cloning, distill, ppo, problems, training, training_log
from thesis_lib.checkpoints import read_arrays, write_arrays
from thesis_lib.distill import Distillation
from thesis_lib.masked_policy import MaskedPolicy
from thesis_lib.observation import FEATURE_VERSION
from thesis_lib.schedulers import make
from thesis_lib.simulator import Problem, Simulator, simulate
from thesis_lib.train_config import TrainConfig
from thesis_lib.training import load_agent, train
from thesis_lib.training_log import TrainingLog
from thesis_lib.workflow import WorkflowError
from thesis_lib.workload import SEED_RANGES, duration_factors, suite_case

# What `TINY` must log: cloning, three updates of 32 steps, the end of PPO, two rounds.
STAGES = [("clone", 0), ("ppo", 32), ("ppo", 64), ("ppo", 96), ("ppo", 96), ("distill-1", 96), ("distill-2", 96)]
FILES = ["tensorboard", "tiny.csv", "tiny.npz", "tiny.state.npz", "tiny.yaml"]


def run(folder, resume=False, **changes) -> Path:
    return train(replace(TINY, **changes), folder, resume=resume, progress=False)


@pytest.fixture(scope="module", autouse=True)
def small_chunks():
    """Label files of 5, 5 and 2 labels."""
    patch = pytest.MonkeyPatch()
    patch.setattr(distill, "CHUNK", 5)
    yield
    patch.undo()


@pytest.fixture(scope="module")
def whole(tmp_path_factory) -> Path:
    """The folder of a run that nobody disturbed."""
    return run(tmp_path_factory.mktemp("whole")).parent


def copy_of(folder: Path, to: Path) -> Path:
    shutil.copytree(folder, to / "copy")
    return to / "copy"


def weights(folder: Path) -> dict[str, np.ndarray]:
    return load_agent(folder / "tiny.npz").weights


def same_weights(one: Path, two: Path) -> bool:
    a, b = weights(one), weights(two)
    return a.keys() == b.keys() and all(np.array_equal(a[key], b[key]) for key in a)


def curve(folder: Path) -> list[dict[str, str]]:
    with open(folder / "tiny.csv", newline="") as file:
        return list(csv.DictReader(file))


def without_clock(rows: list[dict[str, str]]) -> list[dict[str, str]]:
    return [{key: value for key, value in row.items() if key != "seconds"} for row in rows]


def stages(folder: Path) -> list[tuple[str, int]]:
    return [(row["stage"], int(row["steps"])) for row in curve(folder)]


# --- a whole run --------------------------------------------------------------------------


def test_it_writes_agent_curve_settings_and_state_and_nothing_else(whole):
    assert sorted(path.name for path in whole.iterdir()) == FILES
    assert TrainConfig.from_yaml(whole / "tiny.yaml") == TINY
    assert stages(whole) == STAGES
    seconds = [float(row["seconds"]) for row in curve(whole)]
    assert seconds == sorted(seconds)
    episodes = [int(row["episodes"]) for row in curve(whole) if row["episodes"]]
    assert episodes == sorted(episodes) and 0 < episodes[-1] < 96
    validated = [bool(row["validation_ratio_critical_path"]) for row in curve(whole)]
    assert validated == [True, False, True, False, True, True, True]  # 64 is a multiple of `validate_every`


def test_the_agent_knows_where_it_comes_from(whole):
    meta = load_agent(whole / "tiny.npz").meta
    assert (meta["name"], meta["problem"], meta["base_rule"], meta["seed"]) == ("tiny", "thesis", "critical_path", 0)
    assert meta["steps"] == 96 and meta["feature_version"] == FEATURE_VERSION
    assert TrainConfig.from_mapping(meta["config"]) == TINY
    assert (
        meta["versions"]["torch"] == torch.__version__.split("+")[0] or meta["versions"]["torch"] == torch.__version__
    )
    assert {"validation_clone", "validation_ppo", "validation_distill-1", "validation_distill-2"} <= meta[
        "training"
    ].keys()


def test_the_last_validation_is_that_of_the_agent_in_the_file(whole):
    """Makespans of three DAGs of the validation seeds, simulated here with the agent as loaded."""
    ratios, first = [], SEED_RANGES["validation"].start
    for k, n_tasks in enumerate((20, 30, 50)):
        case = suite_case("thesis", first + k, n_tasks=n_tasks)
        own, rule = (simulate(s, *case, seed=first + k).makespan_s
                     for s in (make("drl", model=whole / "tiny.npz"), make("critical_path")))  # fmt: skip
        ratios.append(own / rule)
    assert float(curve(whole)[-1]["validation_ratio_critical_path"]) == pytest.approx(np.mean(ratios), rel=1e-5)


def test_the_same_seed_gives_the_same_weights_and_another_seed_others(whole, tmp_path):
    run(tmp_path / "same"), run(tmp_path / "other", seed=1)
    assert same_weights(whole, tmp_path / "same")
    assert without_clock(curve(whole)) == without_clock(curve(tmp_path / "same"))
    assert not same_weights(whole, tmp_path / "other")


def test_distillation_can_come_before_ppo(tmp_path):
    run(tmp_path, stage_order="distill_ppo")
    found = [("clone", 0), ("distill-1", 0), ("distill-2", 0), ("ppo", 32), ("ppo", 64), ("ppo", 96), ("ppo", 96)]
    assert stages(tmp_path) == found


def test_stages_can_be_left_out(tmp_path):
    run(tmp_path / "a", clone_decisions=0, total_steps=0, distill_rounds=1)
    assert stages(tmp_path / "a") == [("ppo", 0), ("distill-1", 0)]
    run(tmp_path / "b", distill_rounds=0, total_steps=32)
    assert stages(tmp_path / "b") == [("clone", 0), ("ppo", 32), ("ppo", 32)]


@pytest.mark.parametrize(("network", "features"), [("fixed_gcn", "full"), ("pair_mlp", "article_4")])
def test_the_other_networks_train_too(tmp_path, network, features):
    path = run(tmp_path, network=network, features=features, distill_rounds=1, total_steps=32, labels_per_round=5)
    assert load_agent(path).meta["network"] == network


def test_the_global_random_state_and_torchs_threads_are_left_alone(tmp_path):
    random.seed(3), np.random.seed(4), torch.manual_seed(5)  # noqa: NPY002
    torch.set_num_threads(2)
    before = random.getstate(), np.random.get_state(), torch.random.get_rng_state()  # noqa: NPY002
    run(tmp_path, total_steps=32, distill_rounds=0)
    after = random.getstate(), np.random.get_state(), torch.random.get_rng_state()  # noqa: NPY002
    assert torch.get_num_threads() == 2
    torch.set_num_threads(1)
    assert before[0] == after[0] and torch.equal(before[2], after[2])
    assert all(np.array_equal(a, b) for a, b in zip(before[1], after[1]))


def test_what_the_caller_drew_before_changes_nothing(whole, tmp_path):
    random.seed(8), np.random.seed(9), torch.manual_seed(10)  # noqa: NPY002
    run(tmp_path)
    assert same_weights(whole, tmp_path)


def test_training_seeds_never_meet_those_of_validation_and_test(tmp_path, monkeypatch):
    drawn = {"ppo": [], "distill": [], "validation": []}
    training_case, case = problems.training_case, problems.suite_case

    def noting(stage):
        def make_draw(config):
            inner = training_case(config)
            return lambda seed: (drawn[stage].append(seed), inner(seed))[1]

        return make_draw

    monkeypatch.setattr(ppo, "training_case", noting("ppo"))
    monkeypatch.setattr(distill, "training_case", noting("distill"))
    seen = []
    monkeypatch.setattr(problems, "suite_case", lambda s, seed, **o: (seen.append(seed), case(s, seed, **o))[1])
    run(tmp_path)
    trained = set(drawn["ppo"]) | set(drawn["distill"])
    assert len(set(drawn["ppo"])) > 10 and drawn["distill"]
    assert all(seed in SEED_RANGES["train"] for seed in trained)
    first = SEED_RANGES["validation"].start
    assert set(seen) - trained == {first, first + 1, first + 2}


def test_dags_of_one_task_train_though_some_last_0_seconds(tmp_path):
    run(tmp_path, n_tasks_min=1, n_tasks_max=1, distill_rounds=0)
    assert stages(tmp_path) == STAGES[:5]


# --- being cut off ------------------------------------------------------------------------


def interrupt(*_, **__):
    raise KeyboardInterrupt


def after(calls: int, function, then=interrupt):
    """`function`, but the given number of calls is followed by `then`."""
    left = [calls]

    def counting(*arguments, **options):
        if left[0] == 0:
            then()
        left[0] -= 1
        return function(*arguments, **options)

    return counting


# Where a run is cut off: what is replaced by something that works a few times and then strikes.
# Exact: no update of PPO is lost, so the resumed run must end with the weights of the undisturbed one.
MOMENTS = {
    "cloning": (cloning, "_smoothed_loss", 1, True),
    "first rollout of PPO": (ppo._Watcher, "_on_step", 5, False),
    "second update of PPO": (ppo._Watcher, "_on_rollout_end", 1, False),
    "within the second update": (MaskedPolicy, "evaluate_actions", 3, False),
    "third row of the curve": (TrainingLog, "add", 2, False),
    "writing the fourth row": (training_log, "write_bytes", 3, False),
    "labels, first round": (distill, "collect", 2, True),
    "labels, second round": (distill, "collect", 4, True),
    "learning, second round": (distill, "_centred", 6, True),
    "validation, second round": (TrainingLog, "add", 6, True),
    "clearing up": (Distillation, "clear", 1, True),
}


def strike(patch, moment: str, then) -> bool:
    owner, name, calls, exact = MOMENTS[moment]
    patch.setattr(owner, name, after(calls, getattr(owner, name), then))
    return exact


def assert_as_if_undisturbed(folder: Path, whole: Path, exact: bool) -> None:
    """All files, no left-overs, no row twice, counters that only grow; weights and curve, too, where they must."""
    assert sorted(path.name for path in folder.iterdir()) == FILES
    found = stages(folder)
    assert [name for name, _ in found if name != "ppo"] == ["clone", "distill-1", "distill-2"]
    updates = [steps for name, steps in found if name == "ppo"]
    assert updates == [32, 64, 96, 96]
    seconds = [float(row["seconds"]) for row in curve(folder)]
    episodes = [int(row["episodes"]) for row in curve(folder) if row["episodes"]]
    assert seconds == sorted(seconds) and episodes == sorted(episodes)
    if exact:
        assert same_weights(folder, whole)
        assert without_clock(curve(folder)) == without_clock(curve(whole))


@pytest.mark.parametrize("moment", MOMENTS)
def test_ctrl_c_saves_and_resuming_goes_on(whole, tmp_path, moment):
    with pytest.MonkeyPatch.context() as patch:
        exact = strike(patch, moment, interrupt)
        with pytest.raises(KeyboardInterrupt):
            run(tmp_path)
    assert (tmp_path / "tiny.state.npz").exists()
    run(tmp_path, resume=True)
    assert_as_if_undisturbed(tmp_path, whole, exact)


def die() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def train_and_die(folder: str, moment: str) -> None:
    """In a process of its own: train until the moment, then be killed without a chance to tidy up."""
    distill.CHUNK = 5
    if moment == "renaming the state":
        replace_file = os.replace
        states = after(3, replace_file, die)
        os.replace = lambda a, b: (states if str(b).endswith(".state.npz") else replace_file)(a, b)
    else:
        strike(pytest.MonkeyPatch(), moment, die)
    run(folder)


@pytest.mark.skipif(not hasattr(signal, "SIGKILL"), reason="no SIGKILL on this system")
def test_a_killed_run_goes_on(whole, tmp_path):
    """One server process loads the libraries, and a fork of it is killed at each moment."""
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["tests.test_training"])
    moments = ["cloning", "third row of the curve", "renaming the state", "labels, second round",
               "learning, second round"]  # fmt: skip
    for k, moment in enumerate(moments):
        folder = tmp_path / str(k)
        process = context.Process(target=train_and_die, args=(str(folder), moment))
        process.start()
        process.join(120)
        assert process.exitcode == -signal.SIGKILL, moment
        if moment == "renaming the state":
            assert any(path.name.startswith(".tiny.state.npz.") for path in folder.iterdir())
        run(folder, resume=True)
        assert_as_if_undisturbed(folder, whole, MOMENTS.get(moment, (0, 0, 0, False))[3])


def test_a_run_that_has_ended_is_left_as_it_is(whole, tmp_path):
    folder = copy_of(whole, tmp_path)
    before = {path.name: path.read_bytes() for path in folder.glob("tiny.*")}
    run(folder, resume=True)
    assert before == {path.name: path.read_bytes() for path in folder.glob("tiny.*")}
    (folder / "tiny.npz").unlink()
    run(folder, resume=True)  # the state holds the weights
    assert same_weights(folder, whole)


def test_without_resume_it_begins_anew(whole, tmp_path):
    folder = copy_of(whole, tmp_path)
    run(folder, seed=1, total_steps=32, distill_rounds=0)
    assert stages(folder) == [("clone", 0), ("ppo", 32), ("ppo", 32)]
    assert TrainConfig.from_yaml(folder / "tiny.yaml").seed == 1
    assert len(list((folder / "tensorboard" / "tiny").iterdir())) == 1


def test_resuming_where_nothing_is_begins(whole, tmp_path):
    run(tmp_path, resume=True)
    assert same_weights(whole, tmp_path)


# --- what is refused ----------------------------------------------------------------------


def refused(folder, **changes) -> str:
    with pytest.raises(WorkflowError) as caught:
        run(folder, resume=True, **changes)
    assert "\n" not in str(caught.value)
    return str(caught.value)


def test_resuming_with_other_settings_is_refused(whole):
    text = refused(whole, seed=3, entropy=0.5)
    assert "tiny.state.npz: was made with other settings (seed 0 -> 3, entropy 0.002 -> 0.5); resume" in text


def change_state(folder: Path, about=(), arrays=()) -> None:
    path = folder / "tiny.state.npz"
    old_arrays, old_about = read_arrays(path)
    old_about.pop("format")
    new_arrays, new_about = old_arrays | dict(arrays), old_about | dict(about)
    write_arrays(path, {k: a for k, a in new_arrays.items() if a is not None},
                 {k: v for k, v in new_about.items() if v is not None})  # fmt: skip


@pytest.mark.parametrize(
    ("damage", "says"),
    [
        (lambda f: (f / "tiny.state.npz").write_bytes(b""), "is damaged or no checkpoint"),
        (lambda f: (f / "tiny.state.npz").write_bytes((f / "tiny.state.npz").read_bytes()[:9000]), "is damaged or no"),
        (lambda f: (f / "tiny.state.npz").write_bytes((f / "tiny.npz").read_bytes()), "is damaged or no checkpoint"),
        (lambda f: change_state(f, {"running": None}), "is no checkpoint of a run, it lacks running"),
        (lambda f: change_state(f, {"feature_version": 99}), "observations of version 99"),
        (lambda f: change_state(f, {"config": {"colour": 1}}), "unknown setting 'colour'"),
        (lambda f: change_state(f, {}, {"weights/task_1.bias": np.zeros(3, np.float32)}), "another network"),
        (lambda f: change_state(f, {}, {"weights/task_1.bias": None}), "another network"),
        (lambda f: change_state(f, {}, {"random/torch": None}), "is damaged"),
        (lambda f: (f / "tiny.csv").unlink(), "tiny.csv: no such file"),
        (lambda f: (f / "tiny.csv").write_text(""), "tiny.csv: "),
        (lambda f: (f / "tiny.csv").write_text("a,b\n1,2\n"), "its columns are not those of this run"),
        (lambda f: (f / "tiny.csv").write_text("\n".join((f / "tiny.csv").read_text().split("\n")[:3]) + "\n"),
         "has 2 rows, but the checkpoint knows 7"),
    ],
)  # fmt: skip
def test_a_damaged_run_is_refused_with_the_remedy(whole, tmp_path, damage, says):
    folder = copy_of(whole, tmp_path)
    damage(folder)
    text = refused(folder)
    assert says in text and "start again without resume" in text


def test_every_flipped_byte_of_a_state_is_noticed_or_harmless(whole, tmp_path):
    """No other error than WorkflowError, wherever the damage is."""
    content, path = (whole / "tiny.state.npz").read_bytes(), tmp_path / "tiny.state.npz"
    noticed = 0
    for at in range(0, len(content), 397):
        path.write_bytes(content[:at] + bytes([content[at] ^ 0x5A]) + content[at + 1 :])
        try:
            read_arrays(path)
        except WorkflowError:
            noticed += 1
    assert noticed > 0.5 * len(range(0, len(content), 397))


def test_a_folder_that_takes_no_files_is_refused_before_training(tmp_path, monkeypatch):
    monkeypatch.setattr(training, "make_model", lambda *a: pytest.fail("training began"))
    (tmp_path / "file").touch()
    with pytest.raises(WorkflowError, match="/file is no folder"):
        run(tmp_path / "file")
    (tmp_path / "kept").mkdir()
    (tmp_path / "kept/tiny.csv").touch()
    (tmp_path / "kept/tiny.csv").chmod(0o444)
    with pytest.raises(WorkflowError, match="tiny.csv: cannot be written: is write-protected"):
        run(tmp_path / "kept")
    if os.geteuid() != 0:
        (tmp_path / "closed").mkdir(mode=0o500)
        with pytest.raises(WorkflowError, match="write-protected"):
            run(tmp_path / "closed")

    def full(*_, **__):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("tempfile.TemporaryFile", full)
    with pytest.raises(WorkflowError, match="No space left on device"):
        run(tmp_path / "full")


def test_settings_that_break_later_are_refused_before_training(tmp_path, monkeypatch):
    monkeypatch.setattr(training, "make_model", lambda *a: pytest.fail("training began"))
    with pytest.raises(WorkflowError, match="rollouts cannot go on with 'tetris'"):
        run(tmp_path / "new", base_rule="tetris")
    with pytest.raises(WorkflowError, match="jobs must be a whole number of at least 1, got 0"):
        train(TINY, tmp_path / "new", jobs=0)
    assert not (tmp_path / "new").exists()


# --- the agent elsewhere ------------------------------------------------------------------

LOAD = """
import json, sys
from tests.test_training import actions_on_100_states
print(json.dumps(actions_on_100_states(sys.argv[1])))
"""


def actions_on_100_states(path) -> list[list]:
    """What the agent does in 100 states of test instances: [compiled action, action by torch] each."""
    agent, found = load_agent(path), []
    for seed in range(5):
        case = suite_case("thesis", seed, n_tasks=20)
        simulator = Simulator(Problem(*case), duration_factors(case[0], seed))
        for _ in range(20):
            action = agent.decide(simulator.state)
            observer, _ = agent._desk(simulator.problem)
            by_torch = agent.action_of(simulator.state, int(agent._logits_by_torch(observer, simulator.state).argmax()))
            found.append([action and list(action), by_torch and list(by_torch)])
            simulator.wait() if action is None else simulator.place(*action)
    return found


def test_a_fresh_process_takes_the_same_actions_with_the_file_alone(whole, tmp_path):
    """Fault 14: nothing but the one file is needed, wherever it lies."""
    elsewhere = shutil.copy(whole / "tiny.npz", tmp_path / "renamed.npz")
    here = actions_on_100_states(whole / "tiny.npz")
    assert len(here) == 100 and all(one == two for one, two in here)
    assert len({json.dumps(action) for action, _ in here}) > 10
    out = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", LOAD, str(elsewhere)], capture_output=True, text=True, check=True,
        cwd=Path(__file__).resolve().parents[1],
    )  # fmt: skip
    assert json.loads(out.stdout) == here


# --- checkpoints --------------------------------------------------------------------------


def test_generators_and_adam_go_on_where_they_stood():
    """The same two further steps with and without a checkpoint between."""

    def step(layer, optimizer):
        optimizer.zero_grad()
        (layer(torch.randn(8, 3)) * float(np.random.rand())).square().sum().backward()  # noqa: NPY002
        optimizer.step()

    torch.manual_seed(1), np.random.seed(2)  # noqa: NPY002
    layer = torch.nn.Linear(3, 2)
    optimizer = torch.optim.Adam(layer.parameters(), lr=0.1)
    step(layer, optimizer)
    kept = checkpoints.network_arrays(layer) | checkpoints.optimizer_arrays(optimizer)
    random_state, about = checkpoints.random_arrays()
    step(layer, optimizer), step(layer, optimizer)
    other = torch.nn.Linear(3, 2)
    again = torch.optim.Adam(other.parameters(), lr=0.1)
    checkpoints.set_network(other, kept), checkpoints.set_optimizer(again, kept)
    checkpoints.set_random(random_state, json.loads(json.dumps(about)))
    step(other, again), step(other, again)
    assert torch.equal(layer.weight, other.weight) and torch.equal(layer.bias, other.bias)
