"""Agents with drawn weights, for tests of everything but their skill."""

import numpy as np

from thesis_lib.agent_file import weight_shapes
from thesis_lib.agents import Agent


def random_agent(seed=0, name="random-weights", **meta) -> Agent:
    """An untrained agent; `meta` replaces the defaults. Weights are large enough for clear preferences."""
    meta = {
        "format": 1, "name": name, "network": "pair_gcn", "features": "full", "feature_version": 1, "hidden": 8,
        "score_hidden": 12, "n_vms": None, "problem": "stream", "base_rule": "srw_patient",
    } | meta  # fmt: skip
    rng = np.random.default_rng(seed)
    weights = {
        key: rng.normal(0, 1.5 / np.sqrt(shape[-1]), shape).astype(np.float32)
        for key, shape in weight_shapes(meta).items()
    }
    return Agent(meta, weights)
