"""A training that takes a second or two, for tests of everything but its success."""

from thesis_lib.train_config import TrainConfig

# DAGs of the original thesis on one VM: the cheapest episodes there are.
TINY = TrainConfig(
    name="tiny", problem="thesis", base_rule="critical_path", n_tasks_min=4, n_tasks_max=8, hidden=6, score_hidden=5,
    clone_decisions=40, clone_epochs=2, total_steps=96, n_envs=2, rollout_length=16, minibatch_size=16, epochs=1,
    distill_rounds=2, labels_per_round=12, candidates=3, futures=2, distill_epochs=2, validation_streams=3,
    curve_streams=2, validate_every=64, checkpoint_every=0,
)  # fmt: skip
