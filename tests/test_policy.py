"""The networks in torch against dense numpy matrices by hand, and on changed inputs."""

import numpy as np
import pytest
import torch

from tests.test_observation import steps
from thesis_lib.cluster import VM, Cluster
from thesis_lib.feature_sets import FEATURE_SETS, feature_set
from thesis_lib.observation import PAIR_FEATURES, TASK_FEATURES, TOTAL_FEATURES, Observer
from thesis_lib.policy import ILLEGAL_LOGIT, Batch, make_network, pack
from thesis_lib.simulator import Problem, Simulator
from thesis_lib.workflow import Task, Workflow, WorkflowError
from thesis_lib.workload import Workload, poisson_stream

SLOTS = 5
HOSTS = TASK_FEATURES.index("hosts")
GRAPHS = {  # tasks, edges, legal (slot, VM) pairs
    "window": (6, [(0, 2), (1, 2), (1, 3), (2, 4), (3, 4)], [(0, 0), (0, 2), (1, 1)]),
    "edgeless": (4, [], [(0, 0), (1, 0), (2, 2)]),
    "one task": (1, [], [(0, 1)]),
    "nothing to place": (2, [(0, 1)], []),
}


def observation(n_tasks, edges, legal, n_vms=3, nodes=8, n_edges=9, may_wait=True, seed=0) -> dict[str, np.ndarray]:
    """A padded observation with drawn features, as `Observer` lays it out."""
    rng = np.random.default_rng([seed, n_vms])
    seen = {
        "task_x": np.zeros((nodes, len(TASK_FEATURES)), np.float32),
        "edges": np.full((n_edges, 2), -1),
        "pair_x": rng.normal(size=(SLOTS, n_vms, len(PAIR_FEATURES))).astype(np.float32),
        "total_x": rng.normal(size=len(TOTAL_FEATURES)).astype(np.float32),
        "action_mask": np.zeros(SLOTS * n_vms + 1, np.int8),
    }
    seen["task_x"][:n_tasks] = rng.normal(size=(n_tasks, len(TASK_FEATURES)))
    seen["task_x"][:n_tasks, HOSTS] = rng.uniform(0.1, 1, n_tasks)  # every task fits some VM
    seen["edges"][: len(edges)] = np.array(edges).reshape(-1, 2)
    for slot, vm in legal:
        seen["action_mask"][slot * n_vms + vm] = 1
    seen["action_mask"][-1] = may_wait
    return seen


def packed(*seen: dict[str, np.ndarray], n_vms=3) -> Batch:
    return pack({key: torch.from_numpy(np.stack([one[key] for one in seen])) for key in seen[0]}, n_vms)


def network(kind="pair_gcn", features="full", n_vms=3, seed=0) -> torch.nn.Module:
    """A network whose biases and last layers are large enough to matter."""
    made = make_network(kind, features, 7, 11, n_actions=SLOTS * n_vms + 1)
    generator = torch.Generator().manual_seed(seed)
    for parameter in made.parameters():
        parameter.data = torch.randn(parameter.shape, generator=generator) * 0.4
    return made


def answer(net, *seen, n_vms=3) -> tuple[np.ndarray, np.ndarray]:
    with torch.no_grad():
        logits, value = net(packed(*seen, n_vms=n_vms))
    return logits.numpy(), value.numpy()


# --- by hand ------------------------------------------------------------------------------


def relu(x):
    return np.maximum(x, 0)


class Matrices:
    """The forward passes in numpy, float64, with adjacency matrices: nothing is gathered or scattered."""

    def __init__(self, net, features):
        self.w = {name: tensor.numpy().astype(float) for name, tensor in net.state_dict().items()}
        self.task, self.pair, self.total = feature_set(features).columns

    def linear(self, name, x):
        return x @ self.w[f"{name}.weight"].T + self.w[f"{name}.bias"]

    def convolution(self, name, x, sends):
        """sends[i, j] = 1 where j sends to i, i itself among them: D^-1/2 A D^-1/2 X W + b."""
        root = np.diag(sends.sum(axis=1) ** -0.5)
        return root @ sends @ root @ x @ self.w[f"{name}.lin.weight"].T + self.w[f"{name}.bias"]

    def pair_network(self, seen, n_tasks, edges, legal, layers):
        h = relu(self.linear("task_2", relu(self.linear("task_1", seen["task_x"][:n_tasks, self.task]))))
        along = adjacency(n_tasks, edges)
        for k in range(layers):
            h = h + relu(self.convolution(f"down.{k}", h, along) + self.convolution(f"up.{k}", h, along.T))
        total = seen["total_x"][self.total]
        logits = np.full(len(seen["action_mask"]), ILLEGAL_LOGIT)
        n_vms = seen["pair_x"].shape[1]
        for i, v in legal:
            x = np.concatenate([h[i], seen["pair_x"][i, v, self.pair], total])
            x = relu(self.linear("score_2", relu(self.linear("score_1", x))))
            logits[i * n_vms + v] = self.linear("score_3", x)[0]
        slots = sorted({i for i, _ in legal})
        around = np.concatenate([h[slots].mean(axis=0) if slots else np.zeros(h.shape[1]), total])
        logits[-1] = self.linear("wait_2", relu(self.linear("wait_1", around)))[0]
        value = self.linear("value_3", relu(self.linear("value_2", relu(self.linear("value_1", around)))))[0]
        return logits, value

    def fixed_network(self, seen, n_tasks, edges, legal):
        along = adjacency(n_tasks, edges)
        h = relu(self.convolution("conv_1", seen["task_x"][:n_tasks, self.task].astype(float), along))
        h = relu(self.convolution("conv_2", h, along))
        x = np.concatenate([h.mean(axis=0), relu(self.linear("vm_encoder", seen["total_x"][self.total]))])
        logits = self.linear("head_2", relu(self.linear("head_1", x)))
        n_vms = seen["pair_x"].shape[1]
        allowed = [*(i * n_vms + v for i, v in legal), len(logits) - 1]
        illegal = np.setdiff1d(np.arange(len(logits)), allowed)
        logits[illegal] = ILLEGAL_LOGIT
        return logits, self.linear("value_2", relu(self.linear("value_1", x)))[0]


def adjacency(n, edges) -> np.ndarray:
    matrix = np.eye(n)
    for parent, child in edges:
        matrix[child, parent] = 1
    return matrix


@pytest.mark.parametrize("graph", GRAPHS)
@pytest.mark.parametrize(
    ("kind", "features"),
    [("pair_gcn", "full"), ("pair_mlp", "full"), ("pair_gcn", "article_5"), ("pair_mlp", "article_4"),
     ("fixed_gcn", "full"), ("fixed_gcn", "article_4")],
)  # fmt: skip
def test_they_say_what_dense_matrices_say(kind, features, graph):
    net, case = network(kind, features), GRAPHS[graph]
    seen, hand = observation(*case), Matrices(net, features)
    if kind == "fixed_gcn":
        logits, value = hand.fixed_network(seen, *case)
    else:
        logits, value = hand.pair_network(seen, *case, layers=2 if kind == "pair_gcn" else 0)
    found, found_value = answer(net, seen)
    assert found[0] == pytest.approx(logits, rel=1e-5, abs=1e-5)
    assert found_value[0] == pytest.approx(value, rel=1e-5, abs=1e-5)


# --- changed inputs -----------------------------------------------------------------------

KINDS = ("pair_gcn", "pair_mlp", "fixed_gcn")


@pytest.mark.parametrize("kind", KINDS)
def test_a_batch_says_what_its_rows_say_alone(kind):
    net = network(kind)
    seen = [observation(*case, seed=k, may_wait=k != 1) for k, case in enumerate(GRAPHS.values())]
    logits, value = answer(net, *seen)
    for k, one in enumerate(seen):
        alone, alone_value = answer(net, one)
        assert logits[k] == pytest.approx(alone[0], rel=1e-5, abs=1e-5)
        assert value[k] == pytest.approx(alone_value[0], rel=1e-5, abs=1e-5)
    assert logits[1, -1] == np.float32(ILLEGAL_LOGIT)


@pytest.mark.parametrize("kind", KINDS)
def test_room_for_more_tasks_and_edges_changes_nothing(kind):
    net, case = network(kind), GRAPHS["window"]
    small, large = observation(*case, nodes=6, n_edges=5), observation(*case, nodes=40, n_edges=70)
    for one, two in zip(answer(net, small), answer(net, large)):
        assert np.array_equal(one, two)


def test_more_slots_change_no_score_of_a_pair_network():
    net, seen = network(), observation(*GRAPHS["window"])
    wide = seen | {
        "pair_x": np.concatenate([seen["pair_x"], np.full_like(seen["pair_x"], 9.0)]),
        "action_mask": np.concatenate([seen["action_mask"][:-1], np.zeros(SLOTS * 3, np.int8), [1]]).astype(np.int8),
    }
    (one, value), (two, value_2) = answer(net, seen), answer(net, wide)
    assert np.array_equal(one[0, :-1], two[0, : SLOTS * 3])
    assert one[0, -1] == two[0, -1] and value == value_2
    assert (two[0, SLOTS * 3 : -1] == np.float32(ILLEGAL_LOGIT)).all()


@pytest.mark.parametrize("kind", ["pair_gcn", "pair_mlp"])
def test_permuted_tasks_have_permuted_scores(kind):
    """Slots are tasks: whoever renumbers the tasks renumbers slots, pairs and edges with them."""
    n, edges, _ = GRAPHS["window"]
    legal = [(0, 0), (0, 2), (1, 1), (2, 0), (3, 2), (4, 1)]
    seen, order = (
        observation(n, edges, legal),
        np.array([3, 0, 4, 1, 2]),
    )  # new slot k holds the task of old slot order[k]
    place = np.append(np.argsort(order), 5)  # where an old task is now; the sixth stays
    other = {key: array.copy() for key, array in seen.items()}
    other["task_x"][:5], other["pair_x"] = seen["task_x"][order], seen["pair_x"][order]
    other["edges"][: len(edges)] = place[np.array(edges)]
    other["action_mask"][:-1] = seen["action_mask"][:-1].reshape(SLOTS, 3)[order].ravel()
    net = network(kind)
    (one, value), (two, value_2) = answer(net, seen), answer(net, other)
    assert two[0, :-1].reshape(SLOTS, 3) == pytest.approx(one[0, :-1].reshape(SLOTS, 3)[order], rel=1e-5, abs=1e-5)
    assert two[0, -1] == pytest.approx(one[0, -1], rel=1e-5, abs=1e-5)
    assert value_2 == pytest.approx(value, rel=1e-5, abs=1e-5)
    assert len(np.unique(one[0, one[0] > ILLEGAL_LOGIT])) == 7  # the scores differ, so the order was tested


@pytest.mark.parametrize("n_vms", [1, 3, 100])
def test_one_pair_network_serves_any_number_of_vms(n_vms):
    net, n, edges = network(), *GRAPHS["window"][:2]
    legal = [(slot, vm) for slot in range(2) for vm in range(n_vms)]
    seen = observation(n, edges, legal, n_vms)
    found, value = answer(net, seen, n_vms=n_vms)
    logits, by_hand = Matrices(net, "full").pair_network(seen, n, edges, legal, layers=2)
    assert found[0] == pytest.approx(logits, rel=1e-5, abs=1e-5)
    assert value[0] == pytest.approx(by_hand, rel=1e-5, abs=1e-5)


def test_the_fixed_head_refuses_another_number_of_vms():
    seen = observation(*GRAPHS["one task"], n_vms=4)
    with pytest.raises(WorkflowError, match="a fixed head of 16 actions, but the problem has 21; .*pair_gcn"):
        answer(network("fixed_gcn"), seen, n_vms=4)


@pytest.mark.parametrize("kind", KINDS)
def test_gradients_are_finite_and_reach_every_layer(kind):
    """Also where a row has no candidate, no edge, or may not wait; logits through a softmax, as in training."""
    net = network(kind)
    seen = [observation(*case, seed=k, may_wait=k != 1) for k, case in enumerate(GRAPHS.values())]
    logits, value = net(packed(*seen))
    (torch.log_softmax(logits, dim=1).clamp(min=-50).sum() + value.square().sum()).backward()
    for name, parameter in net.named_parameters():
        assert parameter.grad is not None and torch.isfinite(parameter.grad).all(), name
        assert parameter.grad.abs().sum() > 0, name


# --- real observations --------------------------------------------------------------------


def test_pack_keeps_what_the_observer_saw():
    """Counts from the simulator itself: legal pairs, their tasks, and every edge between tasks of the window."""
    case, observer = (poisson_stream(workflows=3, load=1.2, seed=4), Cluster.stream()), None
    for k, (problem, state) in enumerate(steps(case, 1)):
        observer = observer or Observer(problem.n, problem.v, problem.w)
        if k % 9:
            continue
        seen = observer.observe(state)
        batch = packed(seen, n_vms=state.n_vms)
        window = observer.nodes[observer.nodes >= 0]
        assert len(batch.task_x) == len(window) and batch.size == 1
        pairs = {(int(window[t]), a % 3) for t, a in zip(batch.pair_task.tolist(), batch.pair_action.tolist())}
        assert pairs <= set(map(tuple, state.legal_pairs().tolist()))
        assert len(pairs) == seen["action_mask"][:-1].sum() == len(batch.pair_x)
        assert len({t for t, _ in pairs}) == len(batch.candidate)
        assert bool(batch.may_wait[0]) == bool(state.can_wait)


def test_one_task_on_one_vm():
    problem = Problem(Workload.single(Workflow((Task(0, 1),))), Cluster((VM(0, 1, 1, 1),)))
    seen = Observer(1, 1, 1).observe(Simulator(problem, np.ones(1)).state)
    logits, _ = answer(network(), seen, n_vms=1)
    assert logits[0].argmax() == 0 and (logits[0, 1:] == np.float32(ILLEGAL_LOGIT)).all()


# --- names --------------------------------------------------------------------------------


def test_the_articles_feature_sets_differ_by_the_critical_path_alone():
    five, four = FEATURE_SETS["article_5"], FEATURE_SETS["article_4"]
    assert set(five.task) - set(four.task) == {"on_critical_path"} and five.task[:4] == four.task
    assert (five.pair, five.total) == (four.pair, four.total)
    seen = observation(*GRAPHS["window"])
    changed = {key: array.copy() for key, array in seen.items()}
    changed["task_x"][:6, TASK_FEATURES.index("on_critical_path")] += 1
    for kind in KINDS:
        same = [np.array_equal(answer(network(kind, f), seen)[0], answer(network(kind, f), changed)[0])
                for f in ("article_4", "article_5")]  # fmt: skip
        assert same == [True, False]


def test_unknown_names_are_refused():
    with pytest.raises(WorkflowError, match="unknown network 'gcn'; choose one of pair_gcn, pair_mlp, fixed_gcn"):
        make_network("gcn")
    with pytest.raises(WorkflowError, match="unknown feature set 'all'; choose one of full, article_5, article_4"):
        make_network(features="all")
    with pytest.raises(WorkflowError, match="fixed_gcn needs n_actions"):
        make_network("fixed_gcn")
