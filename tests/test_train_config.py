"""Training settings: ranges, nearest names, YAML that reads back, and what the article states."""

import re
from dataclasses import FrozenInstanceError, fields, replace
from pathlib import Path

import numpy as np
import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from thesis_lib.train_config import TrainConfig, meaning_of
from thesis_lib.workflow import WorkflowError

CONFIGS = Path(__file__).resolve().parents[1] / "dataset" / "configs"
NAMES = [setting.name for setting in fields(TrainConfig)]


def read(tmp_path, text: str) -> TrainConfig:
    path = tmp_path / "run.yaml"
    path.write_text(text, encoding="utf-8")
    return TrainConfig.from_yaml(path)


# --- one config -----------------------------------------------------------------------------


def test_a_config_is_frozen_and_every_setting_is_explained_in_one_line():
    with pytest.raises(FrozenInstanceError):
        TrainConfig().seed = 1
    assert all(meaning_of(name) and "\n" not in meaning_of(name) for name in NAMES)


def test_numbers_are_kept_as_the_type_of_their_setting():
    config = TrainConfig(seed=np.int64(3), load_min=np.float32(0.5), gamma=1, value_clip=10)
    assert [type(x) for x in (config.seed, config.load_min, config.gamma, config.value_clip)] == [int] + [float] * 3
    assert config == TrainConfig(seed=3, load_min=0.5, gamma=1.0, value_clip=10.0)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"seed": -1}, "seed must be a whole number from 0 to 4294967295, got -1"),
        ({"seed": True}, "seed must be a whole number .*, got True"),
        ({"seed": 2**32}, "seed must be a whole number"),
        ({"seed": 10**6000}, "seed must be .* got an integer of many digits"),
        ({"n_envs": 1.5}, "n_envs must be a whole number from 1 to 4096, got 1.5"),
        ({"learning_rate": 0}, "learning_rate must be a number above 0 and at most 1, got 0"),
        ({"learning_rate": None}, "learning_rate must be a number above 0 and at most 1, got None"),
        ({"entropy": float("nan")}, "entropy must be a number of at least 0, got nan"),
        ({"max_grad_norm": float("inf")}, "max_grad_norm must be"),
        ({"value_clip": 0}, "value_clip must be a number above 0, or null, got 0"),
        ({"gamma": 1.01}, "gamma must be a number of at least 0 and at most 1, got 1.01"),
        ({"problem": "cloud"}, "problem must be one of stream, thesis, single, got 'cloud'"),
        ({"network": ["pair_gcn"]}, "network must be one of .*, got a list"),
        ({"reward": "best"}, "reward must be one of v1, v2,"),
        ({"base_rule": "random"}, "base_rule must be one of fcfs,"),
        ({"name": "../agent"}, "name must be a text of up to 60 letters"),
        ({"name": ""}, "name must be"),
        ({"name": "x" * 61}, "name must be"),
        ({"workflows_min": 9, "workflows_max": 8}, "workflows_min must be at most workflows_max, got 9 and 8"),
        ({"load_min": 0.9, "load_max": 0.8}, "load_min must be at most load_max, got 0.9 and 0.8"),
        ({"n_tasks_min": 51}, "n_tasks_min must be at most n_tasks_max, got 51 and 50"),
        ({"n_envs": 2, "rollout_length": 8}, "at most n_envs x rollout_length = 16, got 1024"),
    ],
)
def test_values_out_of_range_are_refused(changes, words):
    with pytest.raises(WorkflowError, match=words):
        replace(TrainConfig(), **changes)


@pytest.mark.parametrize("name", NAMES)
def test_no_setting_takes_a_list_or_nonsense(name):
    for value in ([], {}, object(), "two words"):
        with pytest.raises(WorkflowError, match=f"^{name} must be"):
            replace(TrainConfig(), **{name: value})


# --- --set ------------------------------------------------------------------------------------


def test_changes_are_read_by_the_type_of_the_setting():
    config = TrainConfig().with_changes(["total_steps=2e6", "value_clip = 10", "name=007", "learning_rate=1e-3"])
    assert (config.total_steps, config.value_clip, config.name, config.learning_rate) == (2_000_000, 10.0, "007", 0.001)
    assert config.with_changes(["value_clip=none"]).value_clip is None
    assert TrainConfig().value_clip is None and TrainConfig().with_changes([]) == TrainConfig()


def test_changes_are_checked_together():
    assert TrainConfig().with_changes(["load_min=1.2", "load_max=1.3"]).load_min == 1.2
    with pytest.raises(WorkflowError, match="load_min must be at most load_max, got 1.2 and 0.98"):
        TrainConfig().with_changes(["load_min=1.2"])


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        (["learing_rate=1"], "unknown setting 'learing_rate'; did you mean 'learning_rate'"),
        (["clip_range=1"], "did you mean 'clip'|the settings are name, seed"),
        (["zzz=1"], "unknown setting 'zzz'; the settings are name, seed, problem"),
        (["seed"], "must look like key=value, got 'seed'"),
        (["seed="], "seed must be a whole number"),
        (["seed=1", "seed=2"], "seed is changed twice"),
        (["seed=1e400"], "seed must be"),
    ],
)
def test_bad_changes_are_refused(changes, words):
    with pytest.raises(WorkflowError, match=words):
        TrainConfig().with_changes(changes)


# --- YAML -------------------------------------------------------------------------------------


def some_config():
    return st.builds(
        TrainConfig,
        name=st.from_regex(r"[A-Za-z0-9][A-Za-z0-9._-]{0,20}", fullmatch=True),
        seed=st.integers(0, 2**32 - 1),
        problem=st.sampled_from(["stream", "thesis", "single"]),
        learning_rate=st.floats(1e-300, 1),
        value_clip=st.none() | st.floats(1e-9, 1e15),
        entropy=st.floats(0, 1e15),
        total_steps=st.integers(0, 2**62),
    )


@given(some_config())
def test_yaml_reads_back_to_an_equal_config(tmp_path_factory, config):
    assert read(tmp_path_factory.mktemp("yaml"), config.to_yaml()) == config


@pytest.mark.parametrize("name", ["1", "007", "1e3", "yes", "null", "on", "2024-01-01", "0x1f"])
def test_names_that_yaml_takes_for_something_else_read_back(tmp_path, name):
    assert read(tmp_path, TrainConfig(name=name).to_yaml()).name == name


def test_a_file_may_be_short_and_texts_of_numbers_are_numbers(tmp_path):
    assert read(tmp_path, "# nothing but a comment\n") == TrainConfig()
    # YAML 1.1 takes 2e-3, without a point, for a text
    assert yaml.safe_load("2e-3") == "2e-3"
    config = read(tmp_path, "learning_rate: 2e-3\ntotal_steps: 1e6\nepochs: 1_0\n")
    assert config == TrainConfig(learning_rate=0.002, total_steps=1_000_000, epochs=10)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("learing_rate: 1", "run.yaml: unknown setting 'learing_rate'; did you mean 'learning_rate'"),
        ("epochs: 0", "run.yaml: epochs must be a whole number from 1 to 1000, got 0"),
        ("seed: 1\nseed: 2", "the setting 'seed' occurs twice"),
        ("- seed", "holds no settings"),
        ("just words", "holds no settings"),
        ("seed: [1", "not valid YAML: .* at line"),
        ("seed: 1\n---\nseed: 2", "not valid YAML"),
        ("seed: 2024-13-45", "not valid YAML"),
        ("seed: !!python/object/apply:os.getcwd []", "not valid YAML"),
        ("[seed]: 1", "not valid YAML"),
        ("1: 2", "unknown setting 1;"),
        ("seed: " + "[" * 5000, "nested too deeply|not valid YAML"),
        ("seed: 0x" + "f" * 9000, "seed must be .*many digits"),
        ("name: 7", "name must be a text"),
        ("a: &a [x, x]\nb: &b [*a, *a]\nseed: *b", "unknown setting 'a'"),
    ],
)
def test_bad_files_are_refused_in_one_line_that_names_the_file(tmp_path, text, words):
    with pytest.raises(WorkflowError, match=words) as caught:
        read(tmp_path, text)
    assert str(caught.value).startswith(f"{tmp_path / 'run.yaml'}: ") and len(str(caught.value)) < 1200


def test_a_missing_file_is_named(tmp_path):
    with pytest.raises(WorkflowError, match=r"none\.yaml: no such file"):
        TrainConfig.from_yaml(tmp_path / "none.yaml")


# --- the shipped files --------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["stream", "thesis", "article"])
def test_a_shipped_file_holds_every_setting_with_its_meaning(name):
    path = CONFIGS / f"{name}.yaml"
    config = TrainConfig.from_yaml(path)
    assert config.name == name
    entries = [re.fullmatch(r"(\w+): (.+?) +# (.+)", line) for line in path.read_text(encoding="utf-8").splitlines()]
    assert [(e[1], e[3]) for e in entries if e] == [(key, meaning_of(key)) for key in NAMES]


def test_the_article_file_has_the_seven_key_settings():
    config = TrainConfig.from_yaml(CONFIGS / "article.yaml")
    assert (config.rollout_length, config.batch_size, config.minibatch_size, config.epochs) == (200, 4000, 64, 10)
    assert (config.clip, config.value_clip, config.entropy) == (0.2, 10, 0.01)
    assert (config.network, config.features, config.hidden, config.problem) == ("fixed_gcn", "article_5", 128, "single")
    assert (config.clone_decisions, config.distill_rounds) == (0, 0)
    marked = {key for key in NAMES if "article, key setting" in meaning_of(key)}
    assert marked == {"rollout_length", "n_envs", "minibatch_size", "epochs", "clip", "value_clip", "entropy"}


def test_the_stream_file_is_the_default_and_the_thesis_file_starts_from_the_list_rule():
    assert TrainConfig.from_yaml(CONFIGS / "stream.yaml") == TrainConfig()
    thesis = TrainConfig.from_yaml(CONFIGS / "thesis.yaml")
    assert (thesis.problem, thesis.base_rule, thesis.n_tasks_min, thesis.n_tasks_max) == (
        "thesis", "critical_path", 10, 50)  # fmt: skip


@pytest.mark.parametrize("value", ["!!timestamp x", "!!bool q", '!!bool ""', '!!int ""', '!!float ""'])
def test_tags_that_do_not_fit_are_one_clear_error(tmp_path, value):
    path = tmp_path / "c.yaml"
    path.write_text(f"seed: {value}\n")
    with pytest.raises(WorkflowError, match=r"c\.yaml: "):
        TrainConfig.from_yaml(path)
