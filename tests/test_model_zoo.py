"""The shipped agents' recipes, and training, publishing and listing two tiny ones."""

import hashlib
import json
from dataclasses import replace

import pytest

from tests.random_agents import random_agent
from tests.tiny_training import TINY
from thesis_lib import agents, model_zoo
from thesis_lib.agents import default_agent_for, load_agent, save_agent_file
from thesis_lib.model_zoo import RECIPES, Recipe, build, recipe, state_of
from thesis_lib.search import BASE_RULES
from thesis_lib.train_config import TrainConfig
from thesis_lib.workflow import WorkflowError
from thesis_lib.workload import suite_case

# What the agents of a group are meant to differ in, beside their names.
DIFFER_IN = {"reward": {"reward"}, "features": {"features", "seed"}, "entropy": {"entropy"},
             "rollout": {"rollout_length"}, "value_clip": {"value_clip"}}  # fmt: skip


def test_every_recipe_is_a_run_that_can_be_made():
    names = [known.name for known in RECIPES]
    assert len(set(names)) == len(names)
    for known in RECIPES:
        assert known.config.name == known.name and recipe(known.name) is known
        assert known.config.distill_rounds == 0 or known.config.base_rule in BASE_RULES
    assert set(model_zoo.DEFAULTS.values()) <= set(names)


@pytest.mark.parametrize("group", DIFFER_IN)
def test_agents_of_a_group_differ_in_what_it_is_about_only(group):
    configs = [known.config.as_dict() for known in RECIPES if known.group == group]
    if len(configs) == 1:  # compared with the run that the short ones change
        configs.append(recipe("reward-potential").config.as_dict())
    assert len(configs) >= 2
    differ = {key for key in configs[0] if len({config[key] for config in configs}) > 1}
    assert differ == DIFFER_IN[group] | {"name"}


def test_an_unknown_name_is_refused():
    with pytest.raises(WorkflowError, match="unknown agent 'best'; choose one of stream, stream-seed1"):
        recipe("best")
    with pytest.raises(WorkflowError, match="unknown agent 'best'"):
        build(["best"])


@pytest.fixture
def two_recipes(monkeypatch):
    changes = replace(TINY, total_steps=32, distill_rounds=0).as_dict()
    del changes["name"]
    two = Recipe("thesis", "headline", "tiny", changes), Recipe("other", "headline", "tiny too", changes | {"seed": 1})
    monkeypatch.setattr(model_zoo, "RECIPES", two)


def test_build_trains_publishes_and_lists(two_recipes, tmp_path, monkeypatch):
    out, runs = tmp_path / "models", tmp_path / "runs"
    build(out=out, runs=runs)
    listed = json.loads((out / "manifest.json").read_text())
    assert set(listed["models"]) == {"thesis", "other"}
    for name, about in listed["models"].items():
        content = (out / f"{name}.npz").read_bytes()
        assert about["sha256"] == hashlib.sha256(content).hexdigest() and about["bytes"] == len(content)
        assert TrainConfig.from_mapping({**about["changes"], "name": name}) == recipe(name).config
        assert about["steps"] == 32 and about["seed"] == (name == "other")
        assert (out / "logs" / f"{name}.csv").read_text() == (runs / name / f"{name}.csv").read_text()
    monkeypatch.setattr(agents, "MODELS", out)
    assert default_agent_for(*suite_case("thesis", 0, n_tasks=5)).name == "thesis"

    before = {path: path.read_bytes() for path in out.rglob("*") if path.is_file()}
    build(["other"], out=out, runs=runs)  # complete, so that nothing is trained again and nothing else forgotten
    assert before == {path: path.read_bytes() for path in out.rglob("*") if path.is_file()}


def test_a_manifest_lists_what_is_there(two_recipes, tmp_path):
    build(["other"], out=tmp_path / "models", runs=tmp_path / "runs")
    assert set(json.loads((tmp_path / "models/manifest.json").read_text())["models"]) == {"other"}
    assert load_agent(tmp_path / "models/other.npz").meta["seed"] == 1


def test_an_agent_of_an_earlier_recipe_is_trained_again_where_its_run_still_lies(two_recipes, tmp_path, monkeypatch):
    out, runs = tmp_path / "models", tmp_path / "runs"
    build(["other"], out=out, runs=runs)
    mended = Recipe("other", "headline", "tiny too", recipe("other").changes | {"seed": 2})
    monkeypatch.setattr(model_zoo, "RECIPES", (mended,))
    assert state_of(mended, out) == "outdated"
    build(["other"], out=out, runs=runs)
    assert state_of(mended, out) == "shipped" and load_agent(out / "other.npz").meta["seed"] == 2
    assert TrainConfig.from_yaml(runs / "other" / "other.yaml") == mended.config


def test_a_run_is_replaced_only_when_its_settings_are_others(tmp_path):
    known = RECIPES[0]
    assert not model_zoo._is_of_other_settings(known, tmp_path)  # nothing is there
    file = tmp_path / f"{known.name}.yaml"
    for text, other in ((known.config.to_yaml(), False), ("seed: 5\n", True), ("no_setting_any_more: 1\n", True)):
        file.write_text(text)
        assert model_zoo._is_of_other_settings(known, tmp_path) is other


@pytest.mark.parametrize("lacks", ["config", "training", None])
def test_an_agent_that_does_not_tell_its_training_is_damaged_and_not_listed(two_recipes, tmp_path, lacks):
    known = recipe("other")
    told = {"config": known.config.as_dict(), "seed": 1, "steps": 32, "versions": {}, "training": {}}
    agent = random_agent(0, name="other")
    wrong = {**told, "config": [1]} if lacks is None else {key: told[key] for key in told if key != lacks}
    path = save_agent_file(tmp_path / "other.npz", agent.meta | wrong, agent.weights)
    log = model_zoo.log_path("other", tmp_path)
    log.parent.mkdir()
    log.touch()
    assert state_of(known, tmp_path) == "damaged"
    with pytest.raises(WorkflowError, match=f"damaged, its .*{lacks or 'config'}.*; train the agent again") as caught:
        model_zoo._meta_of(path)
    assert str(caught.value).startswith(f"{path}: ")
    assert json.loads(model_zoo.write_manifest(tmp_path).read_text())["models"] == {}
    save_agent_file(path, agent.meta | told, agent.weights)
    assert state_of(known, tmp_path) == "shipped"
