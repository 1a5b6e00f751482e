"""Distillation: the policy learns what a rollout search finds, so that it need not search when it runs.

One round: the policy runs training episodes; a share of its decisions is labelled, that is, its
best few actions are compared by rollouts over sampled futures (`search.Rollouts`); then the
network's scores are regressed on the advantages. The next round begins with the better policy and
learns from the labels of all rounds.

Single labels are noisy: seconds saved, with a standard error as large as themselves. Regression averages
them over similar states, which picking "the" best action and imitating it would not.

An advantage says what one deviation is worth if the base rule decides from there on. One wait, say, costs next
to nothing then; a policy that waits again and again loses a great deal. So the base rule's action
is always among those compared and gets a margin, and the second round is labelled on the policy's own states.
Expert iteration: Anthony, Tian and Barber, "Thinking fast and slow with deep learning and tree
search", NeurIPS 2017; Silver et al., Nature 550, 2017.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, fields
from pathlib import Path

import numpy as np
import torch
from joblib import Parallel, delayed
from torch import Tensor
from tqdm.auto import tqdm

from thesis_lib._kernels.rules import RULES, choose
from thesis_lib.agents import Agent
from thesis_lib.checkpoints import read_arrays, write_arrays
from thesis_lib.files import TEMPORARY_STEM, is_temporary
from thesis_lib.masked_policy import MaskedPolicy
from thesis_lib.observation import Observer
from thesis_lib.policy import Batch
from thesis_lib.problems import training_case
from thesis_lib.search import Rollouts
from thesis_lib.simulator import Problem, Simulator, State
from thesis_lib.train_config import TrainConfig
from thesis_lib.workflow import WorkflowError
from thesis_lib.workload import SEED_RANGES, duration_factors

CHUNK = 1000  # labels that are collected and written together
SHARE = 0.25  # of the decisions with a choice are labelled; neighbouring ones are much alike
MINIBATCH = 256
LONGEST_GRADIENT = 1.0
LARGEST_TARGET = 4.0
SPREAD = 0.3  # of the randomised lists that go on where durations are certain (`search.Rollouts`)
FLOOR = 0.17  # in mean task durations: savings far below this are not told apart
BARREN_EPISODES = 2000  # in a row without a label: the problem leaves nothing to choose
_LABEL_STREAM, _ORDER_STREAM = 7800, 7900  # first words of the random streams that collect and that learn


@dataclass(frozen=True)
class Labels:
    """k labelled decisions, laid out one after another; `*_ptr` say where each one begins."""

    task_x: np.ndarray  # (M, 22)
    edges: np.ndarray  # (E, 2) positions among the decision's own tasks
    pair_x: np.ndarray  # (P, 15) its legal pairs
    pair_action: np.ndarray  # (P,)
    total_x: np.ndarray  # (k, 21)
    may_wait: np.ndarray  # (k,)
    action: np.ndarray  # (C,) the actions that were compared, the policy's own first
    target: np.ndarray  # (C,) what each saves against the first, in units of its noise, plus the base rule's margin
    task_ptr: np.ndarray  # (k + 1,)
    edge_ptr: np.ndarray
    pair_ptr: np.ndarray
    action_ptr: np.ndarray

    def __len__(self) -> int:
        return len(self.total_x)

    def batch(self, chosen: np.ndarray, n_vms: int, n_actions: int) -> tuple[Batch, Tensor, Tensor, Tensor]:
        """Some decisions (b,) for the network, and their compared actions (C,), rows (C,) and targets (C,)."""
        tasks, task_row = _rows_of(self.task_ptr, chosen)
        edges, edge_row = _rows_of(self.edge_ptr, chosen)
        pairs, pair_row = _rows_of(self.pair_ptr, chosen)
        compared, row = _rows_of(self.action_ptr, chosen)
        counts = self.task_ptr[chosen + 1] - self.task_ptr[chosen]
        start = np.cumsum(counts) - counts
        slot = self.pair_action[pairs] // n_vms
        candidate, first = np.unique(start[pair_row] + slot, return_index=True)
        batch = Batch(
            task_x=_tensor(self.task_x[tasks]),
            task_row=_tensor(task_row),
            edges=_tensor((self.edges[edges].astype(np.int64) + start[edge_row, None]).T),
            candidate=_tensor(candidate),
            candidate_row=_tensor(pair_row[first]),
            pair_x=_tensor(self.pair_x[pairs]),
            pair_task=_tensor(start[pair_row] + slot),
            pair_row=_tensor(pair_row),
            pair_action=_tensor(self.pair_action[pairs]),
            total_x=_tensor(self.total_x[chosen]),
            may_wait=_tensor(self.may_wait[chosen]),
            n_actions=n_actions,
        )
        return batch, _tensor(self.action[compared]), _tensor(row), _tensor(self.target[compared])


def _rows_of(ptr: np.ndarray, chosen: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Positions of everything that belongs to the chosen decisions, and which of them it belongs to."""
    counts = ptr[chosen + 1] - ptr[chosen]
    row = np.repeat(np.arange(len(chosen)), counts)
    return np.arange(len(row)) + (ptr[chosen] - (np.cumsum(counts) - counts))[row], row


def _tensor(array: np.ndarray) -> Tensor:
    return torch.from_numpy(np.ascontiguousarray(array))


def joined(sets: Sequence[Labels]) -> Labels:
    """All decisions of several sets as one."""
    arrays = {}
    for name in (f.name for f in fields(Labels)):
        if name.endswith("_ptr"):
            counts = np.concatenate([np.diff(getattr(x, name)) for x in sets])
            arrays[name] = np.concatenate([[0], np.cumsum(counts)])
        else:
            arrays[name] = np.concatenate([getattr(x, name) for x in sets])
    return Labels(**arrays)


# --- collecting ---------------------------------------------------------------------------


def collect(agent: Agent, config: TrainConfig, round_number: int, chunk: int, count: int) -> Labels:
    """`count` labelled decisions of the agent on training episodes that (seed, round, chunk) fix.

    Raises WorkflowError when the episodes have no decisions with a choice.
    """
    rng = np.random.default_rng([_LABEL_STREAM, config.seed, round_number, chunk])
    draw, seeds, rollouts = training_case(config), SEED_RANGES["train"], _rollouts(config)
    rows: list[dict[str, np.ndarray]] = []
    barren = 0
    while len(rows) < count:
        if barren == BARREN_EPISODES:
            raise WorkflowError(
                f"{barren} training episodes in a row without a decision to label; "
                "train on larger problems, or set distill_rounds=0"
            )
        known = len(rows)
        seed = int(rng.integers(seeds.start, seeds.stop))
        workload, cluster = draw(seed)
        problem = Problem(workload, cluster)
        simulator = Simulator(problem, duration_factors(workload, seed))
        observer = Observer(problem.n, problem.v, problem.w)
        while not simulator.done and len(rows) < count:
            state = simulator.state
            if rng.random() < SHARE and len(state.legal_pairs()) + state.can_wait > 1:
                rows.append(_label(state, agent, observer, rollouts, config, rng))
            decision = agent.decide(state)
            simulator.wait() if decision is None else simulator.place(*decision)
        barren = barren + 1 if len(rows) == known else 0
    return _join(rows)


def _rollouts(config: TrainConfig) -> Rollouts:
    """What judges actions; for thesis DAGs, whose durations are certain, futures are other lists."""
    return Rollouts(config.base_rule, spread=SPREAD if config.problem == "thesis" else 0.0)


def _label(state: State, agent: Agent, observer: Observer, rollouts: Rollouts, config: TrainConfig,
           rng: np.random.Generator) -> dict[str, np.ndarray]:  # fmt: skip
    """One decision: what is seen, which actions were compared, and what each saves in units of the noise."""
    views = state.problem.views
    seen, logits = _without_padding(observer.observe(state)), agent.logits(state)
    rule = RULES.index(config.base_rule)
    base = observer.number_of(*choose(rule, *state.arguments, np.zeros(1, np.uint64)))
    actions = _compared(logits, base, config.candidates)
    saved_s, error_s = rollouts.advantages(state, [observer.action_of(a) for a in actions], rng, config.futures)
    scale_s = float(views.mean_s[: views.workflow_ptr[state.arrived]].mean())
    noise_s = np.sqrt((error_s[1:] ** 2).mean() + (FLOOR * scale_s) ** 2) or 1.0
    target = np.clip(saved_s / noise_s, -LARGEST_TARGET, LARGEST_TARGET)
    target += config.distill_margin * (np.array(actions) == base)
    return seen | {"action": np.array(actions), "target": target.astype(np.float32)}


def _compared(logits: np.ndarray, base: int, k: int) -> list[int]:
    """Up to k legal actions: the policy's own, the base rule's, waiting, and the next best ones."""
    order = [int(a) for a in np.argsort(-logits, kind="stable") if np.isfinite(logits[a])]
    first = [a for a in (order[0], base, len(logits) - 1) if a in order]
    return list(dict.fromkeys(first + order))[:k]


def _without_padding(seen: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    legal = np.flatnonzero(seen["action_mask"][:-1])
    pair_x = seen["pair_x"].reshape(len(seen["action_mask"]) - 1, -1)
    n_tasks = int((seen["task_x"] != 0).any(axis=1).sum())
    return {
        "task_x": seen["task_x"][:n_tasks],
        "edges": seen["edges"][seen["edges"][:, 0] >= 0].astype(np.int16),
        "pair_x": pair_x[legal],
        "pair_action": legal,
        "total_x": seen["total_x"][None],
        "may_wait": seen["action_mask"][-1:] > 0,
    }


def _join(parts: list[dict[str, np.ndarray]]) -> Labels:
    arrays = {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}
    for ptr, name in (("task_ptr", "task_x"), ("edge_ptr", "edges"), ("pair_ptr", "pair_x"), ("action_ptr", "action")):
        arrays[ptr] = np.concatenate([[0], np.cumsum([len(part[name]) for part in parts])])
    return Labels(**arrays)


# --- learning -----------------------------------------------------------------------------


def learn(policy: MaskedPolicy, labels: Labels, epochs: int, learning_rate: float, rng: np.random.Generator,
          progress: bool) -> float:  # fmt: skip
    """Regress the network's scores on the targets; returns the share of their variance that it explains at the end.

    That share is measured in the last pass, on the labels just learned: a sign that learning works, and
    too high for labels that the network has not met.
    Scores and targets are compared as differences from their mean over the actions of one decision, since a
    score means nothing by itself.
    """
    n_actions = int(policy.action_space.n)
    steps = epochs * -(-len(labels) // MINIBATCH)
    optimizer = torch.optim.Adam(policy.network.parameters(), lr=learning_rate)
    schedule = torch.optim.lr_scheduler.LinearLR(optimizer, 1.0, 0.02, max(steps - 1, 1))
    explained = []
    with tqdm(total=steps, desc="learning from labels", unit="step", disable=not progress) as bar:
        for epoch in range(epochs):
            order = rng.permutation(len(labels))
            for start in range(0, len(order), MINIBATCH):
                batch, actions, row, target = labels.batch(order[start : start + MINIBATCH], policy.n_vms, n_actions)
                score = policy.network(batch)[0][row, actions]
                error = _centred(score, row, batch.size) - (wanted := _centred(target, row, batch.size))
                loss = (error**2).sum() / batch.size
                optimizer.zero_grad()
                loss.backward()
                torch.nn.utils.clip_grad_norm_(policy.network.parameters(), LONGEST_GRADIENT)
                optimizer.step()
                schedule.step()
                if epoch == epochs - 1:
                    explained.append(1.0 - float((error.detach() ** 2).sum() / (wanted**2).sum().clamp(min=1e-9)))
                bar.update()
    return float(np.mean(explained))


def _centred(x: torch.Tensor, row: torch.Tensor, b: int) -> torch.Tensor:
    """x minus its mean over the entries of the same row."""
    total = torch.zeros(b, dtype=x.dtype).index_add(0, row, x)
    return x - (total / torch.bincount(row, minlength=b).clamp(min=1))[row]


# --- rounds -------------------------------------------------------------------------------


class Distillation:
    """The rounds of one training run; labels lie in files until the run has ended, so that none is made twice.

    jobs: processes that label; the number changes no result. Raises WorkflowError when there
    are rounds but the configuration's base rule is none that rollouts can go on with.
    """

    def __init__(self, config: TrainConfig, folder: Path, jobs: int, progress: bool):
        if config.distill_rounds:
            _rollouts(config)
        self.config, self.folder, self.jobs, self.progress = config, folder, jobs, progress
        total = config.labels_per_round
        self._counts = [min(CHUNK, total - start) for start in range(0, total, CHUNK)]

    def run_round(self, round_number: int, policy: MaskedPolicy, agent: Agent) -> float:
        """Label, then learn; returns the share of the learned labels' variance that the network explains."""
        sets = self._read_all(range(1, round_number))
        self._collect(round_number, agent)
        sets += self._read_all([round_number])
        labels = joined(sets)
        rng = np.random.default_rng([_ORDER_STREAM, self.config.seed, round_number])
        return learn(policy, labels, self.config.distill_epochs, self.config.distill_learning_rate, rng, self.progress)

    def _path(self, round_number: int, chunk: int) -> Path:
        return self.folder / f"{self.config.name}.labels-{round_number}-{chunk:03d}.npz"

    def _read_all(self, rounds: Iterable[int]) -> list[Labels]:
        return [_read(self._path(r, c), count) for r in rounds for c, count in enumerate(self._counts)]

    def _collect(self, round_number: int, agent: Agent) -> None:
        """Make the label files of a round that are not there yet, or damaged."""
        counts, paths = self._counts, [self._path(round_number, c) for c in range(len(self._counts))]
        missing = [c for c, path in enumerate(paths) if not _is_whole(path, counts[c])]
        work = (delayed(_write)(paths[c], agent, self.config, round_number, c, counts[c]) for c in missing)
        done = Parallel(n_jobs=self.jobs, return_as="generator_unordered")(work)
        with tqdm(total=sum(counts), initial=sum(counts) - sum(counts[c] for c in missing), unit="label",
                  desc=f"labels, round {round_number}", disable=not self.progress) as bar:  # fmt: skip
            for count in done:
                bar.update(count)

    def clear(self) -> None:
        """Remove the label files, also what killed processes left of them."""
        begin = f"{self.config.name}.labels-"
        label_file = re.compile(re.escape(begin) + r"\d+-\d+\.npz")
        for path in list(self.folder.iterdir()):
            left_over = is_temporary(path) and path.name[1:].startswith(begin[:TEMPORARY_STEM])
            if left_over or label_file.fullmatch(path.name):
                path.unlink(missing_ok=True)


def _write(path: Path, agent: Agent, config: TrainConfig, round_number: int, chunk: int, count: int) -> int:
    labels = collect(agent, config, round_number, chunk, count)
    write_arrays(path, vars(labels), {})
    return len(labels)


def _is_whole(path: Path, count: int) -> bool:
    try:
        _read(path, count)
    except WorkflowError:
        return False
    return True


def _read(path: Path, count: int) -> Labels:
    """The labels of a file; WorkflowError when they are not the `count` labels that the run needs."""
    try:
        arrays = read_arrays(path)[0]
    except WorkflowError as error:
        raise WorkflowError(f"{error}; start again without resume") from None
    if set(arrays) != set(Labels.__dataclass_fields__) or len(arrays["total_x"]) != count:
        raise WorkflowError(f"{path}: does not hold {count} labels; start again without resume")
    return Labels(**arrays)
