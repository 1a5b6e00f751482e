"""Agent files: complete or refused with one clear line; agents decide the same before and after."""

import io
import json
import os
import subprocess
import sys
import zipfile
from pathlib import Path

import numpy as np
import pytest

from tests.random_agents import random_agent
from tests.test_network import assert_same_logits, torch_logits
from tests.test_observation import steps
from thesis_lib import agents, policy
from thesis_lib.agent_file import NETWORKS, weight_shapes
from thesis_lib.agents import default_agent_for, load_agent, load_agent_file, save_agent_file
from thesis_lib.cluster import VM, Cluster
from thesis_lib.observation import Observer
from thesis_lib.set_file import npz_bytes
from thesis_lib.simulator import Problem, Simulator
from thesis_lib.workflow import Task, Workflow, WorkflowError
from thesis_lib.workload import Workload, duration_factors, poisson_stream

ROOT = Path(__file__).resolve().parents[1]


def stream(seed=5) -> tuple[Workload, Cluster]:
    return poisson_stream(workflows=3, load=1.2, seed=seed), Cluster.stream()


def busy_state():
    """A state with a choice: the fortieth decision of a stream."""
    for k, (_, state) in enumerate(steps(stream())):
        if k == 40:
            return state
    raise AssertionError("the stream is too short")


@pytest.fixture
def saved(tmp_path):
    """(agent, path of its file)."""
    agent = random_agent(1, name="one", steps=7, validation={"ratio": 0.9})
    return agent, save_agent_file(tmp_path / "one.npz", agent.meta, agent.weights)


def changed(path: Path, arrays: dict | None = None, drop: str = "", **meta) -> Path:
    """The file with other meta values (None drops one) and arrays, written past all checks."""
    with np.load(path) as file:
        content = {name: file[name] for name in file.files}
    old = json.loads(content["meta"].tobytes()) | meta
    new = {key: value for key, value in old.items() if value is not None or key not in meta}
    content |= {"meta": np.frombuffer(json.dumps(new).encode(), np.uint8)} | (arrays or {})
    content.pop(drop, None)
    path.write_bytes(npz_bytes(content))
    return path


# --- files --------------------------------------------------------------------------------


def test_an_agent_comes_back_as_it_was(saved):
    agent, path = saved
    again = load_agent_file(path)
    assert again.meta == agent.meta
    assert again.weights.keys() == agent.weights.keys()
    assert all(np.array_equal(again.weights[key], agent.weights[key]) for key in agent.weights)
    state = busy_state()
    assert np.array_equal(again.logits(state), agent.logits(state))


def test_the_same_agent_gives_the_same_bytes(saved, tmp_path):
    agent, path = saved
    again = save_agent_file(tmp_path / "again.npz", agent.meta, agent.weights)
    assert again.read_bytes() == path.read_bytes()
    assert sorted(p.name for p in tmp_path.iterdir()) == ["again.npz", "one.npz"]


def test_a_fresh_process_decides_the_same_without_torch(saved):
    _, path = saved
    code = (
        "import sys\n"
        "from thesis_lib.cluster import Cluster\n"
        "from thesis_lib.schedulers.learned import Drl\n"
        "from thesis_lib.simulator import simulate\n"
        "from thesis_lib.workload import poisson_stream\n"
        "workload = poisson_stream(workflows=3, load=1.2, seed=5)\n"
        f"print(simulate(Drl({str(path)!r}), workload, Cluster.stream(), seed=3).to_frame().to_json())\n"
        "assert 'torch' not in sys.modules\n"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, env=os.environ, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    here = Simulator(Problem(*stream()), duration_factors(stream()[0], 3))
    load_agent_file(path).run(here)
    assert done.stdout.strip() == here.schedule().to_frame().to_json()


@pytest.mark.parametrize("features", ["full", "article_5", "article_4"])
@pytest.mark.parametrize("network", NETWORKS)
def test_names_and_shapes_are_those_of_the_networks_in_torch(network, features):
    meta = {"network": network, "features": features, "hidden": 5, "score_hidden": 6, "n_vms": 3}
    in_torch = policy.make_network(network, features, 5, 6, 24 * 3 + 1).state_dict()
    assert weight_shapes(meta) == {name: tuple(tensor.shape) for name, tensor in in_torch.items()}
    assert set(NETWORKS) == set(policy.NETWORKS)


def refusal(path: Path) -> str:
    with pytest.raises(WorkflowError) as caught:
        load_agent_file(path)
    message = str(caught.value)
    assert message.startswith(f"{path}: ")
    assert "\n" not in message
    return message


def test_what_is_no_file_or_no_agent_is_said(tmp_path, saved):
    assert "no such file" in refusal(tmp_path / "none.npz")
    assert "is a folder" in refusal(tmp_path)
    text = tmp_path / "text.npz"
    text.write_text("weights")
    assert "is not an agent file" in refusal(text)
    text.write_bytes(b"")
    assert "is not an agent file" in refusal(text)
    other = tmp_path / "other.npz"
    other.write_bytes(npz_bytes({"a": np.zeros(3)}))
    assert "is not an agent file, it holds no meta" in refusal(other)
    buffer = io.BytesIO()
    np.savez(buffer, meta=np.array([{"a": 1}], dtype=object))
    other.write_bytes(buffer.getvalue())
    assert "is damaged" in refusal(other)  # pickled: not read
    with zipfile.ZipFile(other, "w") as archive:
        archive.writestr("meta", "{}")
    assert "is not an agent file, it holds no meta" in refusal(other)


def test_damage_is_said_wherever_it_is(saved):
    _, path = saved
    whole = path.read_bytes()
    for end in range(4, len(whole), len(whole) // 15):
        path.write_bytes(whole[:end])
        assert "is damaged" in refusal(path) or "lacks the weights" in refusal(path)
    middle = len(whole) // 2
    path.write_bytes(whole[:middle] + bytes([whole[middle] ^ 0xFF]) + whole[middle + 1 :])
    assert "is damaged" in refusal(path)


@pytest.mark.parametrize(
    ("meta", "words"),
    [
        ({"format": 2}, "it has format 2, this version reads 1; train the agent again"),
        ({"format": None}, "it has format None"),
        ({"feature_version": 0}, "trained on observations of version 0, this version makes 1"),
        ({"network": "transformer"}, "unknown network 'transformer'; known are pair_gcn, pair_mlp, fixed_gcn"),
        ({"features": "all"}, "unknown feature set 'all'; choose one of full"),
        ({"problem": "sudoku"}, "unknown problem 'sudoku'"),
        ({"base_rule": None}, "its meta lacks 'base_rule'"),
        ({"hidden": "8"}, "hidden = '8', of the wrong kind"),
        ({"hidden": True}, "hidden = True, of the wrong kind"),
        ({"hidden": 10**9}, "hidden = 1000000000, outside 1 to 4096"),
        ({"hidden": 9}, r"the shape \(8, 22\), but \(9, 22\) follows from the meta"),
        ({"n_vms": 3}, "n_vms must be null for pair_gcn"),
        ({"network": "pair_mlp"}, "it holds weights that pair_mlp does not have: down.0.lin.weight"),
        ({"network": "fixed_gcn"}, "fixed_gcn needs n_vms"),
    ],
)
def test_meta_that_does_not_fit_is_refused(saved, meta, words):
    with pytest.raises(WorkflowError, match=words):
        load_agent_file(changed(saved[1], **meta))


def test_weights_that_do_not_fit_are_refused(saved):
    _, path = saved
    whole = path.read_bytes()
    assert "lacks the weights score_3.bias" in refusal(changed(path, drop="score_3.bias"))
    path.write_bytes(whole)
    assert "does not have: spare" in refusal(changed(path, {"spare": np.zeros(1, "<f4")}))
    path.write_bytes(whole)
    assert "task_2.bias has the shape (9,), but (8,)" in refusal(changed(path, {"task_2.bias": np.zeros(9, "<f4")}))
    path.write_bytes(whole)
    assert "task_2.bias holds float64" in refusal(changed(path, {"task_2.bias": np.zeros(8)}))
    path.write_bytes(whole)
    assert "not finite" in refusal(changed(path, {"task_2.bias": np.full(8, np.nan, "<f4")}))
    path.write_bytes(whole)
    assert "no JSON" in refusal(changed(path, {"meta": np.frombuffer(b"{...", np.uint8)}))
    path.write_bytes(whole)
    assert "no JSON object" in refusal(changed(path, {"meta": np.frombuffer(b"[]", np.uint8)}))


def test_what_could_not_be_loaded_is_not_saved(saved, tmp_path):
    agent, _ = saved
    weights = {key: array for key, array in agent.weights.items() if key != "wait_2.bias"}
    for meta, arrays, words in (
        (agent.meta, weights, "lacks the weights wait_2.bias"),
        (agent.meta | {"network": "x"}, agent.weights, "unknown network"),
        (agent.meta | {"ratio": np.nan}, agent.weights, "cannot be stored as JSON"),
        (agent.meta | {"config": object()}, agent.weights, "cannot be stored as JSON"),
    ):
        with pytest.raises(WorkflowError, match=words):
            save_agent_file(tmp_path / "new.npz", meta, arrays)
    assert not (tmp_path / "new.npz").exists()
    with pytest.raises(WorkflowError, match="there is no folder"):
        save_agent_file(tmp_path / "no" / "new.npz", agent.meta, agent.weights)


# --- names --------------------------------------------------------------------------------


@pytest.fixture
def models(tmp_path, monkeypatch):
    """A models folder with the agents "s" and "t"; streams go to s, one workflow on one VM to t."""
    monkeypatch.setattr(agents, "MODELS", tmp_path / "models")
    agents.MODELS.mkdir()
    for name in ("s", "t"):
        agent = random_agent(2, name=name)
        save_agent_file(agents.MODELS / f"{name}.npz", agent.meta, agent.weights)
    manifest = {"default": {"stream": "s", "thesis": "t"}, "models": {"s": {}, "t": {}}}
    (agents.MODELS / "manifest.json").write_text(json.dumps(manifest))
    return agents.MODELS


def test_agents_are_found_by_name_and_by_path(models, saved):
    assert load_agent("t").name == "t"
    assert load_agent(models / "s.npz").name == "s"
    assert load_agent(str(saved[1])).name == "one"
    with pytest.raises(WorkflowError, match="unknown agent 'u'; .* choose one of s, t"):
        load_agent("u")
    with pytest.raises(WorkflowError, match="no such file"):
        load_agent("u.npz")
    for odd in ("", "x" * 5000, "a\0b", "a\0b.npz"):
        with pytest.raises(WorkflowError):
            load_agent(odd)


def test_the_default_agent_is_the_one_for_the_problem(models):
    one, two = Workload.single(Workflow((Task(0, 1),))), Workload.together([Workflow((Task(0, 1),))] * 2)
    vm = Cluster((VM(0, 1, 1, 1),))
    assert default_agent_for(one, vm).name == "t"
    assert default_agent_for(two, vm).name == "s"
    assert default_agent_for(one, Cluster.default()).name == "s"


def test_without_agents_it_says_so(models):
    one, vm = Workload.single(Workflow((Task(0, 1),))), Cluster((VM(0, 1, 1, 1),))
    (models / "manifest.json").write_text('{"default": {"stream": "s"}}')
    with pytest.raises(WorkflowError, match="no agent for problems of the kind 'thesis'; train one, or choose .* s, t"):
        default_agent_for(one, vm)
    for path in models.iterdir():
        path.unlink()
    with pytest.raises(WorkflowError, match="where there is none yet"):
        default_agent_for(one, vm)
    with pytest.raises(WorkflowError, match="where there is none yet"):
        load_agent("s")


# --- deciding -----------------------------------------------------------------------------


def test_top_and_decide_agree_with_the_logits():
    agent, state = random_agent(6), busy_state()
    logits = agent.logits(state)
    legal = np.flatnonzero(np.isfinite(logits))
    assert len(legal) >= 3
    probability = np.exp(logits[legal]) / np.exp(logits[legal]).sum()
    top = agent.top(state, 100)
    assert [p for _, p in top] == pytest.approx(sorted(probability, reverse=True))
    assert [agent.action_of(state, a) for a in legal[np.argsort(-probability)]] == [action for action, _ in top]
    assert agent.decide(state) == top[0][0]
    assert agent.top(state, 2) == top[:2]
    offered = {tuple(pair) for pair in state.legal_pairs().tolist()}
    assert {action for action, _ in top} <= offered | {None}


def test_an_action_means_the_same_after_another_state_was_seen():
    agent, problem = random_agent(6), Problem(*stream())
    early, late = (Simulator(problem, duration_factors(stream()[0], 1)) for _ in range(2))
    for _ in range(30):
        action = agent.decide(late.state)
        late.wait() if action is None else late.place(*action)
    pairs = {tuple(pair) for pair in early.state.legal_pairs().tolist()}
    legal = np.flatnonzero(np.isfinite(agent.logits(early.state)))
    agent.decide(late.state)  # the last one seen is the late one
    assert {agent.action_of(early.state, a) for a in legal.tolist()} - {None} <= pairs


def test_looking_and_deciding_change_nothing():
    agent, state = random_agent(6), busy_state()
    before, first = state.fingerprint(), agent.logits(state)
    agent.decide(state), agent.top(state, 3)
    assert state.fingerprint() == before
    assert np.array_equal(agent.logits(state), first)


def test_one_agent_serves_problems_of_any_size_in_turn():
    agent = random_agent(6)
    small = Problem(Workload.single(Workflow((Task(0, 1), Task(1, 1)))), Cluster((VM(0, 1, 1, 1),)))
    first = agent.logits(Simulator(small, np.ones(2)).state)
    assert agent.logits(busy_state()).shape == (24 * 3 + 1,)
    assert np.array_equal(agent.logits(Simulator(small, np.ones(2)).state), first)


def fixed_agent():
    return random_agent(3, network="fixed_gcn", n_vms=3)


def test_the_fixed_head_runs_in_torch_and_fits_one_number_of_vms():
    agent, observer = fixed_agent(), None
    for k, (problem, state) in enumerate(steps(stream())):
        observer = observer or Observer(problem.n, problem.v, problem.w)
        if k % 50 == 0:
            assert_same_logits(agent.logits(state), torch_logits(agent, observer, state))
            assert agent.decide(state) == agent.top(state, 1)[0][0]
    small = Problem(Workload.single(Workflow((Task(0, 1),))), Cluster((VM(0, 1, 1, 1),)))
    with pytest.raises(WorkflowError, match="fixed head for 3 VMs, but the problem has 1; use a pair-scoring agent"):
        agent.decide(Simulator(small, np.ones(1)).state)
    with pytest.raises(WorkflowError, match="no compiled forward pass"):
        agent.run(Simulator(Problem(*stream()), duration_factors(stream()[0], 1)))


def test_drawn_actions_follow_the_generator():
    agent, problem = random_agent(6), Problem(*stream())
    factor = duration_factors(stream()[0], 1)

    def finish_s(temperature, seed=None):
        simulator = Simulator(problem, factor)
        rng = None if seed is None else np.random.default_rng(seed)
        agent.run(simulator, temperature, rng)
        done = simulator.schedule()
        done.validate()
        return done.finish_s.tolist()

    assert finish_s(1.0, 3) == finish_s(1.0, 3)
    assert finish_s(1.0, 3) != finish_s(1.0, 4)
    assert finish_s(1e-9, 3) == finish_s(0.0)  # next to no temperature: the best action
    with pytest.raises(WorkflowError, match="give rng"):
        finish_s(1.0)
