"""Two faults of a fixed head that scoring pairs does not have: the number of VMs, and which task is in which slot."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from thesis_lib import dataset
from thesis_lib.cluster import Cluster
from thesis_lib.env import CloudWorkflowEnv
from thesis_lib.policy import make_network, pack
from thesis_lib.workflow import WorkflowError
from thesis_lib.workload import Workload


def env_with(n_vms: int) -> CloudWorkflowEnv:
    vms = Cluster.default().vms[::-1]
    cluster = Cluster([replace(vms[v % 3], id=v) for v in range(n_vms)])
    return CloudWorkflowEnv(Workload.single(dataset.load_one("etl", 0)), cluster)


def logits_of(network, observation, n_vms: int) -> np.ndarray:
    """(slots, v) logits of one observation."""
    tensors = {key: torch.as_tensor(array)[None] for key, array in observation.items()}
    with torch.no_grad():
        return network(pack(tensors, n_vms))[0][0, :-1].reshape(-1, n_vms).numpy()


def both_networks(n_vms: int):
    torch.manual_seed(0)
    return make_network("pair_gcn"), make_network("fixed_gcn", n_actions=int(env_with(n_vms).action_space.n))


@pytest.mark.parametrize("n_vms", [1, 2, 5, 40])
def test_only_the_pair_head_serves_another_number_of_vms(n_vms):
    pair, fixed = both_networks(3)
    env = env_with(n_vms)
    observation, _ = env.reset(seed=1)
    assert logits_of(pair, observation, n_vms).shape == (env.n_slots, n_vms)
    with pytest.raises(WorkflowError, match=rf"fixed head of 73 actions, but the problem has {24 * n_vms + 1}"):
        logits_of(fixed, observation, n_vms)


def test_only_the_pair_head_knows_which_task_is_in_which_slot():
    """Slots 0 and 1 change places: scores of pairs move with their task, those of a fixed head stay with the slot."""
    env = env_with(3)
    observation, _ = env.reset(seed=1)
    swap = np.arange(env.size.nodes)
    swap[:2] = 1, 0
    edges, mask = observation["edges"], observation["action_mask"]
    legal = mask[:-1].reshape(-1, 3)
    assert legal[:2, :2].all()
    swapped = observation | {
        "task_x": observation["task_x"].reshape(len(swap), -1)[swap],
        "edges": np.where(edges >= 0, swap[edges], -1),
        "pair_x": observation["pair_x"].reshape(env.n_slots, 3, -1)[swap[: env.n_slots]],
        "action_mask": np.concatenate([legal[swap[: env.n_slots]].ravel(), mask[-1:]]),
    }
    pair, fixed = both_networks(3)
    before, after = (logits_of(pair, o, 3)[:2, :2] for o in (observation, swapped))
    assert np.allclose(after, before[::-1], atol=1e-6)
    assert not np.allclose(after, before, atol=1e-6)
    before, after = (logits_of(fixed, o, 3)[:2, :2] for o in (observation, swapped))
    assert np.allclose(after, before, atol=1e-6)
