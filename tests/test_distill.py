"""Distillation: labels worked out by hand, learning them, and the files in which they lie."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from tests.random_agents import random_agent
from tests.tiny_training import TINY
from thesis_lib import distill
from thesis_lib.cluster import VM, Cluster
from thesis_lib.distill import Distillation, Labels, collect, joined, learn
from thesis_lib.policy import pack
from thesis_lib.ppo import make_env, make_model
from thesis_lib.workflow import Task, Workflow, WorkflowError
from thesis_lib.workload import SEED_RANGES, Workload

# --- labels by hand -----------------------------------------------------------------------

# Two tasks without dependencies, A of 10 s and B of 4 s; VM 0 of speed 1, VM 1 of speed 2; each takes one task.
CASE = (
    Workload.single(Workflow((Task(0, 10.0), Task(1, 4.0)))),
    Cluster((VM(0, 1, 1, 1, 1.0), VM(1, 1, 1, 1, 2.0))),
)
# Seconds until both are done if, after this first action, the other task goes to the other VM at once.
FIRST = {(0, 0): 10.0, (0, 1): 5.0, (1, 0): 5.0, (1, 1): 10.0}
# The same if, after that first action, one waits: the other begins on VM 1, which SRW takes as the faster one.
WAITED = {(0, 0): 10 + 2.0, (0, 1): 5 + 2.0, (1, 0): 4 + 5.0, (1, 1): 2 + 5.0}
WAIT = 48  # the last of 24 slots x 2 VMs + 1 actions
NOISE_S = 0.17 * (7.5 + 3.0) / 2  # no draws, so no standard error: 0.17 mean durations, means over the two VMs remain


@pytest.mark.parametrize("seed", range(6))
def test_labels_are_the_seconds_that_an_action_saves(monkeypatch, seed):
    """A is slot 0 of the first decision, since its rank is larger; later the task that is left is slot 0."""
    monkeypatch.setattr(distill, "training_case", lambda config: lambda seed: CASE)
    config = replace(TINY, base_rule="srw", candidates=5, distill_margin=0)
    labels = collect(random_agent(seed), config, 1, 0, 10)
    with_margin = collect(random_agent(seed), replace(config, distill_margin=0.25), 1, 0, 10)
    margin = with_margin.target - labels.target
    assert np.isclose(margin[margin > 0.1], 0.25).all()
    compared = np.split(labels.action, labels.action_ptr[1:-1])
    targets, is_base = (np.split(array, labels.action_ptr[1:-1]) for array in (labels.target, margin > 0.1))
    assert [len(actions) for actions in compared].count(4) not in (0, 10)  # two tasks on two VMs; nothing to wait for
    first = next(divmod(int(actions[0]), 2) for actions in compared if len(actions) == 4)  # what the agent always does
    for actions, target, base in zip(compared, targets, is_base):
        if len(actions) == 4:
            done_s = np.array([FIRST[divmod(action, 2)] for action in actions.tolist()])
        elif sorted(actions.tolist()) == [0, 1]:  # this agent has waited, so both VMs are free for the other task
            slow_s = (10.0, 4.0)[1 - first[0]]
            done_s = np.where(actions == 1, slow_s / 2, slow_s)
        else:
            assert sorted(actions.tolist()) == [1 - first[1], WAIT]
            done_s = np.where(actions == WAIT, WAITED[first], FIRST[first])
        assert target == pytest.approx(np.clip((done_s[0] - done_s) / NOISE_S, -4, 4), abs=1e-6)
        srw = 1 - first[1] if WAIT in actions else 1  # SRW takes the larger rank, A, and the faster VM of those free
        assert actions[base].tolist() == [srw]


def test_labels_hold_what_the_observer_saw(monkeypatch):
    """A batch assembled from labels equals the batch packed from the padded observations."""
    config = replace(TINY, n_tasks_min=8, n_tasks_max=12)
    seen, inner = [], distill._without_padding
    monkeypatch.setattr(distill, "_without_padding", lambda o: (seen.append(o), inner(o))[1])
    labels = collect(random_agent(1), config, 1, 0, 9)
    batch, action, row, target = labels.batch(np.array([7, 2, 5]), 1, 25)
    wanted = pack({k: torch.from_numpy(np.stack([seen[i][k] for i in (7, 2, 5)])) for k in seen[0]}, 1)
    for name in ("task_x", "task_row", "edges", "candidate", "candidate_row", "pair_x", "pair_task", "pair_row",
                 "pair_action", "total_x", "may_wait"):  # fmt: skip
        assert torch.equal(getattr(batch, name), getattr(wanted, name)), name
    counts = np.diff(labels.action_ptr)[[7, 2, 5]]
    assert np.array_equal(row, np.repeat([0, 1, 2], counts))
    first = np.concatenate([[0], np.cumsum(counts)[:-1]])
    assert all(min(abs(t), abs(t - config.distill_margin)) < 1e-6 for t in target.numpy()[first])
    assert all(seen[k]["action_mask"][a] for k, a in zip(np.repeat([7, 2, 5], counts), action.tolist()))


def test_episodes_come_from_the_training_seeds_and_depend_on_seed_round_and_chunk(monkeypatch):
    met, draw = [], distill.training_case

    def noting(config):
        inner = draw(config)
        return lambda seed: (met[-1].append(seed), inner(seed))[1]

    monkeypatch.setattr(distill, "training_case", noting)
    for seed, round_number, chunk in ((0, 1, 0), (0, 1, 1), (0, 2, 0), (1, 1, 0), (0, 1, 0)):
        met.append([])
        collect(random_agent(1), replace(TINY, seed=seed), round_number, chunk, 2)
    assert all(seed in SEED_RANGES["train"] for seeds in met for seed in seeds)
    assert met[0] == met[4]
    assert len({seeds[0] for seeds in met}) == 4


def test_joined_labels_are_those_of_the_parts_one_after_another():
    parts = [collect(random_agent(1), TINY, 1, chunk, count) for chunk, count in ((0, 3), (1, 5))]
    both = joined(parts)
    assert len(both) == 8
    for part, numbers in zip(parts, (np.arange(3), np.arange(3, 8))):
        one, two = part.batch(np.arange(len(part)), 1, 25), both.batch(numbers, 1, 25)
        assert all(torch.equal(a, b) for a, b in zip(one[1:], two[1:]))
        for name in ("task_x", "edges", "candidate", "pair_x", "pair_task", "total_x", "may_wait"):
            assert torch.equal(getattr(one[0], name), getattr(two[0], name)), name


def test_the_policys_action_the_base_rules_and_waiting_are_compared_first():
    logits = np.array([1.0, 5.0, -np.inf, 3.0, 4.0, -2.0])  # the last one waits
    assert distill._compared(logits, 0, 4) == [1, 0, 5, 4]
    assert distill._compared(logits, 0, 10) == [1, 0, 5, 4, 3]
    assert distill._compared(logits, 1, 3) == [1, 5, 4]  # the policy agrees with the rule
    assert distill._compared(logits, 5, 2) == [1, 5]  # the rule waits
    assert distill._compared(logits, -1, 2) == [1, 5]  # what the rule would place has no slot
    assert distill._compared(np.array([1.0, 2.0, -np.inf]), 0, 3) == [1, 0]


def test_problems_without_a_choice_are_refused_instead_of_searched_for_ever():
    with pytest.raises(WorkflowError, match="2000 training episodes in a row without a decision to label; train on"):
        collect(random_agent(1), replace(TINY, n_tasks_min=1, n_tasks_max=1), 1, 0, 3)


# --- learning -----------------------------------------------------------------------------


def test_learning_drives_the_scores_to_the_order_of_the_targets():
    config = replace(TINY, n_tasks_min=8, n_tasks_max=12, hidden=16, score_hidden=32, candidates=4)
    labels, model = collect(random_agent(1), config, 1, 0, 16), make_model(config)
    explained = learn(model.policy, labels, 400, 1e-2, np.random.default_rng(0), False)
    assert explained > 0.95
    batch, action, row, target = labels.batch(np.arange(16), 1, 25)
    with torch.no_grad():
        score = model.policy.network(batch)[0][row, action]
    compared = 0
    for k in range(16):
        for i in np.flatnonzero(row == k):
            for j in np.flatnonzero(row == k):
                if target[i] > target[j] + 1:
                    assert score[i] > score[j]
                    compared += 1
    assert compared > 10


def test_the_share_explained_by_hand():
    """Untrained scores that are all equal explain nothing: the share is 0, not below."""
    labels, model = collect(random_agent(1), TINY, 1, 0, 5), make_model(TINY)
    for parameter in model.policy.network.parameters():
        parameter.data.zero_()
    assert learn(model.policy, labels, 1, 1e-9, np.random.default_rng(0), False) == pytest.approx(0, abs=1e-6)


# --- files --------------------------------------------------------------------------------


@pytest.fixture
def small_chunks(monkeypatch):
    monkeypatch.setattr(distill, "CHUNK", 5)  # 12 labels in files of 5, 5 and 2


def weights_after_a_round(folder, jobs, number=1) -> list[np.ndarray]:
    model = make_model(TINY)
    Distillation(TINY, folder, jobs, False).run_round(number, model.policy, random_agent(1))
    return [parameter.detach().numpy().copy() for parameter in model.policy.network.parameters()]


def test_the_number_of_processes_changes_nothing(small_chunks, tmp_path):
    (tmp_path / "a").mkdir(), (tmp_path / "b").mkdir()
    one, two = weights_after_a_round(tmp_path / "a", 1), weights_after_a_round(tmp_path / "b", 2)
    assert all(np.array_equal(x, y) for x, y in zip(one, two))
    names = [f"tiny.labels-1-00{c}.npz" for c in range(3)]
    assert sorted(path.name for path in (tmp_path / "b").iterdir()) == names
    for name, count in zip(names, (5, 5, 2)):
        first, second = (vars(distill._read(tmp_path / folder / name, count)) for folder in "ab")
        assert all(np.array_equal(first[key], second[key]) for key in first)


def test_a_file_that_is_there_is_not_made_again_but_a_damaged_one_is(small_chunks, tmp_path, monkeypatch):
    wanted, made = weights_after_a_round(tmp_path, 1), []
    inner = distill.collect
    monkeypatch.setattr(distill, "collect", lambda *a: (made.append(a[3]), inner(*a))[1])
    assert all(np.array_equal(a, b) for a, b in zip(wanted, weights_after_a_round(tmp_path, 1)))
    assert made == []
    damaged = tmp_path / "tiny.labels-1-001.npz"
    damaged.write_bytes(damaged.read_bytes()[:700])
    (tmp_path / "tiny.labels-1-002.npz").unlink()
    assert all(np.array_equal(a, b) for a, b in zip(wanted, weights_after_a_round(tmp_path, 1)))
    assert made == [1, 2]


@pytest.mark.parametrize("fault", ["cut", "flipped", "empty", "missing", "other", "short"])
def test_a_damaged_file_of_an_earlier_round_is_one_clear_error(small_chunks, tmp_path, fault):
    """It cannot be made again: the agent that made it is gone."""
    weights_after_a_round(tmp_path, 1)
    path = tmp_path / "tiny.labels-1-001.npz"
    content = path.read_bytes()
    if fault == "missing":
        path.unlink()
    elif fault == "other":
        np.savez(path, x=np.zeros(3))
    elif fault == "short":
        path.write_bytes((tmp_path / "tiny.labels-1-002.npz").read_bytes())
    else:
        flipped = content[:300] + bytes([content[300] ^ 255]) + content[301:]
        path.write_bytes({"cut": content[:700], "flipped": flipped, "empty": b""}[fault])
    with pytest.raises(WorkflowError, match="labels-1-001.npz: .*; start again without resume$") as caught:
        weights_after_a_round(tmp_path, 1, number=2)
    assert "\n" not in str(caught.value)


def test_clearing_removes_the_labels_of_this_run_only(tmp_path):
    mine = ["tiny.labels-1-000.npz", "tiny.labels-12-345.npz", ".tiny.labels-1-000.npz.77.tmp"]
    others = [
        "tiny.npz",
        "tiny.state.npz",
        "tiny2.labels-1-000.npz",
        "tiny.labels-x-000.npz",
        "my.tiny.labels-1-000.npz",
    ]
    for name in mine + others:
        (tmp_path / name).touch()
    Distillation(TINY, tmp_path, 1, False).clear()
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted(others)


def test_a_base_rule_without_rollouts_is_refused_at_once(tmp_path):
    with pytest.raises(WorkflowError, match="rollouts cannot go on with 'tetris'; choose one of"):
        Distillation(replace(TINY, base_rule="tetris"), tmp_path, 1, False)
    Distillation(replace(TINY, base_rule="tetris", distill_rounds=0), tmp_path, 1, False)


def test_an_environment_of_the_same_settings_has_the_actions_of_the_labels():
    """The labels' action numbers are those of the policy that learns them."""
    env, labels = make_env(TINY), collect(random_agent(1), TINY, 1, 0, 3)
    assert isinstance(labels, Labels) and labels.action.max() < env.action_space.n
