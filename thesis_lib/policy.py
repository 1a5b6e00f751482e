"""The networks: a pair-scoring GCN for any number of tasks and VMs, its MLP twin, and the article's fixed head.

Each network turns a `Batch`, several observations without their padding, into the logit of
every action and a value. `pair_gcn` and `pair_mlp` score one (task, VM) pair at a time, so the
same weights serve three VMs and three hundred; `fixed_gcn` has one output per slot and VM, as
the article has it, and fits the number of VMs that it was made for and no other.
Graph convolutions: Kipf and Welling, "Semi-supervised classification with graph
convolutional networks", ICLR 2017.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch_geometric.nn import GCNConv
from torch_geometric.nn.conv.gcn_conv import gcn_norm

from thesis_lib.agent_file import CONVOLUTIONS, NETWORKS
from thesis_lib.feature_sets import feature_set
from thesis_lib.observation import PAIR_FEATURES, TASK_FEATURES, TOTAL_FEATURES
from thesis_lib.workflow import WorkflowError

ILLEGAL_LOGIT = -1e8  # what an illegal action gets: finite, so that nothing turns into NaN
_ALWAYS_ABOVE_0 = TASK_FEATURES.index("hosts")  # every task fits some VM, so 0 means that there is no task


@dataclass(frozen=True)
class Batch:
    """b observations without padding: M tasks, E edges, P legal pairs, C candidates in all."""

    task_x: Tensor  # (M, 22) the tasks of all observations, one observation after another
    task_row: Tensor  # (M,) which observation a task belongs to
    edges: Tensor  # (2, E) parent and child, positions in task_x
    candidate: Tensor  # (C,) positions in task_x of the tasks that may be placed
    candidate_row: Tensor  # (C,)
    pair_x: Tensor  # (P, 15) the legal pairs
    pair_task: Tensor  # (P,) position in task_x
    pair_row: Tensor  # (P,)
    pair_action: Tensor  # (P,) the number of the action
    total_x: Tensor  # (b, 21)
    may_wait: Tensor  # (b,)
    n_actions: int

    @property
    def size(self) -> int:
        """Number of observations."""
        return len(self.total_x)


def pack(observations: Mapping[str, Tensor], n_vms: int) -> Batch:
    """A Batch from padded observations (b, ...), each array flat or not, of a problem with `n_vms` VMs."""
    total_x = observations["total_x"].float().reshape(-1, len(TOTAL_FEATURES))
    b = len(total_x)
    task_x = observations["task_x"].float().reshape(b, -1, len(TASK_FEATURES))
    edges = observations["edges"].long().reshape(b, -1, 2)
    mask = observations["action_mask"].reshape(b, -1) > 0
    pairs = mask[:, :-1]
    pair_x = observations["pair_x"].float().reshape(b, pairs.shape[1], len(PAIR_FEATURES))

    known = task_x[:, :, _ALWAYS_ABOVE_0] > 0
    task_row, _ = known.nonzero(as_tuple=True)
    start = torch.cumsum(known.sum(1), 0) - known.sum(1)  # tasks come first in their row, padding behind
    edge_row, edge_place = (edges[:, :, 0] >= 0).nonzero(as_tuple=True)
    pair_row, pair_action = pairs.nonzero(as_tuple=True)
    candidates = pairs.reshape(b, -1, n_vms).any(dim=2)
    candidate_row, slot = candidates.nonzero(as_tuple=True)
    return Batch(
        task_x=task_x[known],
        task_row=task_row,
        edges=(edges[edge_row, edge_place] + start[edge_row, None]).T,
        candidate=start[candidate_row] + slot,
        candidate_row=candidate_row,
        pair_x=pair_x[pair_row, pair_action],
        pair_task=start[pair_row] + pair_action // n_vms,
        pair_row=pair_row,
        pair_action=pair_action,
        total_x=total_x,
        may_wait=mask[:, -1],
        n_actions=mask.shape[1],
    )


# --- scoring pairs ------------------------------------------------------------------------


class PairNetwork(nn.Module):
    """Scores every legal (task, VM) pair and waiting; with `convolutions` = 0 it is the MLP twin.

    hidden: width of a task's embedding. score_hidden: width of the scoring and value layers.
    features: a name of `feature_sets.FEATURE_SETS`.
    """

    def __init__(self, features: str = "full", hidden: int = 32, score_hidden: int = 64, convolutions: int = 2):
        super().__init__()
        for name, columns in zip(("task", "pair", "total"), feature_set(features).columns):
            self.register_buffer(f"_{name}_columns", torch.tensor(columns), persistent=False)
        n_task, n_pair, n_total = len(self._task_columns), len(self._pair_columns), len(self._total_columns)
        self.task_1, self.task_2 = nn.Linear(n_task, hidden), nn.Linear(hidden, hidden)
        self.down = nn.ModuleList(GCNConv(hidden, hidden, normalize=False) for _ in range(convolutions))
        self.up = nn.ModuleList(GCNConv(hidden, hidden, normalize=False) for _ in range(convolutions))
        self.layers = nn.ModuleList(nn.Identity() for _ in range(convolutions))  # where a hook sees a layer's output
        self.score_1 = nn.Linear(hidden + n_pair + n_total, score_hidden)
        self.score_2, self.score_3 = nn.Linear(score_hidden, score_hidden), nn.Linear(score_hidden, 1)
        self.wait_1, self.wait_2 = nn.Linear(hidden + n_total, score_hidden), nn.Linear(score_hidden, 1)
        self.value_1 = nn.Linear(hidden + n_total, score_hidden)
        self.value_2, self.value_3 = nn.Linear(score_hidden, score_hidden), nn.Linear(score_hidden, 1)
        for last in (self.score_3, self.wait_2, self.value_3):
            last.weight.data *= 0.1  # begin with nearly equal logits and values near 0

    def embed(self, batch: Batch) -> Tensor:
        """(M, hidden) what the network knows of each task after message passing along and against the edges."""
        h = torch.relu(self.task_2(torch.relu(self.task_1(batch.task_x[:, self._task_columns]))))
        if len(self.down):
            down, down_w = gcn_norm(batch.edges, num_nodes=len(h), dtype=h.dtype)
            up, up_w = gcn_norm(batch.edges.flip(0), num_nodes=len(h), dtype=h.dtype)
        for along, against, layer in zip(self.down, self.up, self.layers):
            h = layer(h + torch.relu(along(h, down, down_w) + against(h, up, up_w)))
        return h

    def forward(self, batch: Batch) -> tuple[Tensor, Tensor]:
        """Logits (b, actions), ILLEGAL_LOGIT where an action is illegal, and values (b,)."""
        h = self.embed(batch)
        total_x = batch.total_x[:, self._total_columns]
        pair = torch.cat([h[batch.pair_task], batch.pair_x[:, self._pair_columns], total_x[batch.pair_row]], dim=1)
        score = self.score_3(torch.relu(self.score_2(torch.relu(self.score_1(pair)))))[:, 0]
        around = torch.cat([_mean_of_rows(h[batch.candidate], batch.candidate_row, batch.size), total_x], dim=1)
        wait = self.wait_2(torch.relu(self.wait_1(around)))[:, 0]
        value = self.value_3(torch.relu(self.value_2(torch.relu(self.value_1(around)))))[:, 0]
        return _spread(batch, score, wait), value

    def sharpen(self, factor: float) -> None:
        """Multiply all logits by a factor above 0: the order stays, above 1 the best actions become more probable."""
        _scale(factor, self.score_3, self.wait_2)


def _scale(factor: float, *layers: nn.Linear) -> None:
    with torch.no_grad():
        for layer in layers:
            layer.weight *= factor
            layer.bias *= factor


def _mean_of_rows(x: Tensor, row: Tensor, b: int) -> Tensor:
    """(b, k) mean of the entries of each row, 0 for rows without any."""
    total = torch.zeros(b, x.shape[1], dtype=x.dtype).index_add(0, row, x)
    return total / torch.bincount(row, minlength=b).clamp(min=1)[:, None]


def _spread(batch: Batch, score: Tensor, wait: Tensor) -> Tensor:
    """(b, actions) logits from the scores of the legal pairs (P,) and of waiting (b,)."""
    logits = torch.full((batch.size, batch.n_actions), ILLEGAL_LOGIT, dtype=score.dtype)
    logits = logits.index_put((batch.pair_row, batch.pair_action), score)
    logits[:, -1] = torch.where(batch.may_wait, wait, ILLEGAL_LOGIT)
    return logits


# --- the article's head -------------------------------------------------------------------


class FixedGcn(nn.Module):
    """After the article's policy: two graph convolutions, their mean over all tasks, one output per slot and VM.

    Two things go wrong by design and are kept for the lesson: the mean forgets which task is
    which, and the head fits one number of VMs only.

    What differs from the article is ours: 24 slots, not 50; the VM encoder sees the free ratios
    averaged over the VMs (total_x), not those of each VM; and all features of tasks and cluster
    unless `features` names the article's, where it has five per task.
    """

    def __init__(self, n_actions: int, features: str = "full", hidden: int = 128, score_hidden: int = 128):
        super().__init__()
        task, _, total = feature_set(features).columns
        self.register_buffer("_task_columns", torch.tensor(task), persistent=False)
        self.register_buffer("_total_columns", torch.tensor(total), persistent=False)
        self.conv_1, self.conv_2 = GCNConv(len(task), hidden), GCNConv(hidden, hidden)
        self.vm_encoder = nn.Linear(len(total), hidden)
        self.head_1, self.head_2 = nn.Linear(2 * hidden, score_hidden), nn.Linear(score_hidden, n_actions)
        self.value_1, self.value_2 = nn.Linear(2 * hidden, score_hidden), nn.Linear(score_hidden, 1)
        self.head_2.weight.data *= 0.1
        self.n_actions = n_actions

    def forward(self, batch: Batch) -> tuple[Tensor, Tensor]:
        """Logits (b, actions), ILLEGAL_LOGIT where an action is illegal, and values (b,)."""
        if batch.n_actions != self.n_actions:
            raise WorkflowError(
                f"this network has a fixed head of {self.n_actions} actions, but the problem has {batch.n_actions}; "
                "a pair-scoring network (pair_gcn) serves any number of VMs"
            )
        h = torch.relu(self.conv_1(batch.task_x[:, self._task_columns], batch.edges))
        h = torch.relu(self.conv_2(h, batch.edges))
        pooled = _mean_of_rows(h, batch.task_row, batch.size)
        x = torch.cat([pooled, torch.relu(self.vm_encoder(batch.total_x[:, self._total_columns]))], dim=1)
        logits = self.head_2(torch.relu(self.head_1(x)))
        legal = torch.zeros(logits.shape, dtype=torch.bool)
        legal[batch.pair_row, batch.pair_action] = True
        legal[:, -1] = batch.may_wait
        return torch.where(legal, logits, ILLEGAL_LOGIT), self.value_2(torch.relu(self.value_1(x)))[:, 0]

    def sharpen(self, factor: float) -> None:
        """As in `PairNetwork`."""
        _scale(factor, self.head_2)


def make_network(network: str = "pair_gcn", features: str = "full", hidden: int = 32, score_hidden: int = 64,
                 n_actions: int | None = None) -> nn.Module:  # fmt: skip
    """A network by name; WorkflowError for an unknown one. `fixed_gcn` needs the number of actions."""
    if network == "fixed_gcn":
        if n_actions is None:
            raise WorkflowError("fixed_gcn needs n_actions, the size of its head")
        return FixedGcn(n_actions, features, hidden, score_hidden)
    if network not in NETWORKS:
        raise WorkflowError(f"unknown network {network!r}; choose one of {', '.join(NETWORKS)}")
    return PairNetwork(features, hidden, score_hidden, CONVOLUTIONS[network])
