"""The compiled forward pass against torch, against numpy matrices by hand, and against itself on changed inputs."""

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.random_agents import random_agent
from tests.strategies import workloads_on_clusters
from tests.test_observation import steps
from thesis_lib._kernels import network, policies
from thesis_lib._kernels.observe import ObservationViews
from thesis_lib.cluster import VM, Cluster
from thesis_lib.observation import FEATURE_LIMIT, PAIR_FEATURES, TASK_FEATURES, TOTAL_FEATURES, Observer
from thesis_lib.policy import pack
from thesis_lib.simulator import Problem, Simulator
from thesis_lib.workflow import Task, Workflow
from thesis_lib.workload import Workload, poisson_stream

KINDS = [("pair_gcn", "full"), ("pair_mlp", "full"), ("pair_gcn", "article_5"), ("pair_mlp", "article_4")]


def torch_logits(agent, observer, state) -> np.ndarray:
    """What the network in torch says of a state, -inf where the action is illegal."""
    seen = observer.observe(state)
    with torch.no_grad():
        logits = agent.network(pack({k: torch.from_numpy(a)[None] for k, a in seen.items()}, state.n_vms))[0][0]
    return np.where(seen["action_mask"] > 0, logits.numpy(), -np.inf)


def assert_same_logits(one, two) -> None:
    legal = np.isfinite(two)
    assert np.array_equal(np.isfinite(one), legal)
    assert np.allclose(one[legal], two[legal], rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize(("kind", "features"), KINDS)
def test_it_says_what_torch_says_on_a_stream(kind, features):
    """Four busy workflows; widths that are no multiples of each other."""
    agent = random_agent(3, network=kind, features=features, hidden=7, score_hidden=13)
    case, observer = (poisson_stream(workflows=4, load=1.3, seed=5), Cluster.stream()), None
    for k, (problem, state) in enumerate(steps(case, 2)):
        observer = observer or Observer(problem.n, problem.v, problem.w)
        if k % 11 == 0:
            assert_same_logits(agent.logits(state), torch_logits(agent, observer, state))


@settings(max_examples=25, deadline=None)
@given(case=workloads_on_clusters(max_vms=4, max_workflows=3), seed=st.integers(0, 9))
def test_it_says_what_torch_says_on_anything(case, seed):
    """Windows without edges, of one task, of tasks that never fit some VM: whatever hypothesis finds."""
    agent, observer = random_agent(seed), None
    for problem, state in steps(case):
        observer = observer or Observer(problem.n, problem.v, problem.w)
        assert_same_logits(agent.logits(state), torch_logits(agent, observer, state))


def by_hand(weights, task_x, edges, pair_x, total_x, n_candidates, legal):
    """ARCH in numpy with dense matrices: {(slot, vm): logit} and the logit of waiting."""

    def linear(name, x):
        return weights[f"{name}.weight"] @ x + weights[f"{name}.bias"]

    def relu(x):
        return np.maximum(x, 0)

    n = len(task_x)
    h = np.array([relu(linear("task_2", relu(linear("task_1", x)))) for x in task_x]).reshape(n, 8)
    along = np.eye(n)  # along[i, j] = 1 where j sends to i
    for parent, child in edges:
        along[child, parent] = 1
    for layer in range(2):
        change = np.zeros_like(h)
        for way, sends in (("down", along), ("up", along.T)):
            root = np.diag(1 / np.sqrt(sends.sum(axis=1)))
            message = root @ sends @ root @ h @ weights[f"{way}.{layer}.lin.weight"].T
            change += message + weights[f"{way}.{layer}.bias"]
        h = h + relu(change)

    def score(i, v):
        x = np.concatenate([h[i], pair_x[i, v], total_x])
        return linear("score_3", relu(linear("score_2", relu(linear("score_1", x)))))[0]

    mean = h[:n_candidates].mean(axis=0) if n_candidates else np.zeros(h.shape[1])
    return {pair: score(*pair) for pair in legal}, linear("wait_2", relu(linear("wait_1", np.r_[mean, total_x])))[0]


def drawn_observation(n_nodes, edges, n_candidates, legal, n_vms, room=(10, 9, 5), seed=0) -> ObservationViews:
    """An observation with drawn features; room: nodes, edges and slots, what is not used holds rubbish."""
    rng = np.random.default_rng(seed)
    nodes, n_edges, slots = room
    o = ObservationViews(
        np.full(slots, -1), np.full(nodes, -1), np.full((n_edges, 2), -1),
        rng.normal(size=(nodes, len(TASK_FEATURES))), rng.normal(size=(slots, n_vms, len(PAIR_FEATURES))),
        rng.normal(size=len(TOTAL_FEATURES)), np.zeros(slots * n_vms + 1, np.int8), np.zeros(0, int), np.zeros(0),
    )  # fmt: skip
    o.nodes[:n_nodes] = np.arange(n_nodes)
    o.candidates[:n_candidates] = np.arange(n_candidates)
    for e, edge in enumerate(edges):
        o.edges[e] = edge
    for i, v in legal:
        o.mask[i * n_vms + v] = 1
    o.mask[-1] = 1
    return o


def compiled(agent, o, n_candidates) -> np.ndarray:
    sizes, weights = agent.packed
    views = network.network_views.py_func if hasattr(network.network_views, "py_func") else network.network_views
    logits = np.zeros(len(o.mask))
    scratch = network.forward_scratch(sizes, len(o.nodes))
    for part in scratch:
        part.fill(np.nan)  # nothing may be read that was not written
    network.forward(views(sizes, weights), o, n_candidates, scratch, logits)
    return logits


@pytest.mark.parametrize(
    ("n_nodes", "edges", "n_candidates", "legal"),
    [
        (5, [(0, 2), (1, 2), (1, 3), (2, 4), (3, 4)], 2, [(0, 0), (0, 2), (1, 1)]),
        (4, [], 3, [(0, 0), (1, 0), (2, 2)]),  # no edges
        (1, [], 1, [(0, 1)]),  # one task
        (0, [], 0, []),  # nothing to place: only waiting is scored
    ],
)
def test_it_says_what_dense_matrices_say(n_nodes, edges, n_candidates, legal):
    agent = random_agent(1)
    weights = {name: array.astype(np.float64) for name, array in agent.weights.items()}
    o = drawn_observation(n_nodes, edges, n_candidates, legal, 3)
    scores, wait = by_hand(weights, o.task_x[:n_nodes], edges, o.pair_x, o.total_x, n_candidates, legal)
    logits = compiled(agent, o, n_candidates)
    assert logits[-1] == pytest.approx(wait, rel=1e-5, abs=1e-5)
    for (i, v), score in scores.items():
        assert logits[i * 3 + v] == pytest.approx(score, rel=1e-5, abs=1e-5)
    assert np.isneginf(np.delete(logits, [*(i * 3 + v for i, v in legal), -1])).all()


def test_padding_does_not_matter():
    """More room for nodes, edges and slots, and other rubbish in it: the same bits."""
    agent, edges, legal = random_agent(2), [(0, 2), (1, 2)], [(0, 0), (1, 1)]
    small = drawn_observation(3, edges, 2, legal, 2, room=(3, 2, 2))
    large = drawn_observation(3, edges, 2, legal, 2, room=(30, 20, 9), seed=7)
    large.task_x[:3], large.pair_x[:2], large.total_x[:] = small.task_x, small.pair_x, small.total_x
    one, two = compiled(agent, small, 2), compiled(agent, large, 2)
    assert np.array_equal(one[:-1], two[:4])
    assert one[-1] == two[-1]
    assert np.isneginf(two[4:-1]).all()


def test_features_are_cut_as_in_training():
    """1000 and 10 are the same to the network, since training never sees more than 10."""
    agent = random_agent(4)
    far, near = (drawn_observation(2, [(0, 1)], 1, [(0, 0)], 1) for _ in range(2))
    for o, value in ((far, 1000.0), (near, FEATURE_LIMIT)):
        o.task_x[0, 3], o.pair_x[0, 0, 2], o.total_x[1] = value, -value, value
    assert np.array_equal(compiled(agent, far, 1), compiled(agent, near, 1))
    assert network.FEATURE_LIMIT == FEATURE_LIMIT


# --- choosing -----------------------------------------------------------------------------


def test_the_first_of_equal_actions_is_taken():
    rng = np.zeros(1, np.uint64)
    logits = np.array([-np.inf, 2.0, 5.0, 5.0, -1.0])
    assert policies.pick(logits, 0.0, rng) == 2
    assert rng[0] == 0
    assert policies.pick(np.full(3, -np.inf), 0.0, rng) == -1
    assert policies.pick(np.full(3, -np.inf), 1.0, rng) == -1


@pytest.mark.parametrize("temperature", [0.5, 1.0, 2.0])
def test_actions_are_drawn_with_the_softmax_of_their_logits(temperature):
    rng, logits = np.array([5], np.uint64), np.array([1.0, -np.inf, 2.0, 0.0, 700.0 - 700.0])
    draws = np.array([policies.pick(logits, temperature, rng) for _ in range(20_000)])
    weight = np.exp(logits / temperature)
    assert np.bincount(draws, minlength=5) / 20_000 == pytest.approx(weight / weight.sum(), abs=0.012)
    assert not (draws == 1).any()


def test_large_logits_do_not_overflow():
    rng = np.array([5], np.uint64)
    assert policies.pick(np.array([1e4, -1e4, -np.inf]), 0.1, rng) == 0


def test_one_vm_and_one_task():
    problem = Problem(Workload.single(Workflow((Task(0, 1),))), Cluster((VM(0, 1, 1, 1),)))
    state = Simulator(problem, np.ones(1)).state
    assert random_agent().decide(state) == (0, 0)


CODE = """
import json
import numpy as np
from tests.random_agents import random_agent
from thesis_lib.cluster import Cluster
from thesis_lib.simulator import Problem, Simulator
from thesis_lib.workload import duration_factors, poisson_stream

workload, agent = poisson_stream(workflows=2, load=1.0, seed=11), random_agent(3)
simulator = Simulator(Problem(workload, Cluster.stream()), duration_factors(workload, 4))
for _ in range(30):
    simulator.place(*simulator.state.legal_pairs()[0])
twin = simulator.twin()
agent.run(twin, 0.7, np.random.default_rng(1))
print(json.dumps([agent.logits(simulator.state).clip(-1e9).tolist(), twin.schedule().finish_s.tolist()]))
"""


def test_compiled_and_plain_python_say_the_same():
    """Sums in another order may differ in the last bits, so scores are compared and not their bits."""
    outputs = [
        subprocess.run(
            [sys.executable, "-W", "ignore", "-c", CODE], env=os.environ | extra, capture_output=True, text=True,
            cwd=Path(__file__).resolve().parents[1],
        )
        for extra in ({}, {"NUMBA_DISABLE_JIT": "1"})
    ]  # fmt: skip
    assert outputs[0].returncode == outputs[1].returncode == 0, outputs[1].stderr
    (one, first_s), (two, second_s) = (json.loads(output.stdout) for output in outputs)
    assert np.allclose(one, two, rtol=1e-5, atol=1e-5)
    assert first_s == second_s
