"""The shipped agents: recipes, the files that lie in dataset/models, and the command that trains what is missing."""

import csv
import hashlib
import json
from dataclasses import fields
from pathlib import Path

import pytest

from tests.tiny_training import TINY
from thesis_lib import model_zoo
from thesis_lib.__main__ import main
from thesis_lib.agents import MANIFEST, MODELS, load_agent
from thesis_lib.model_zoo import RECIPES, Recipe
from thesis_lib.train_config import TrainConfig
from thesis_lib.training_log import REFERENCES
from thesis_lib.workflow import WorkflowError

SHIPPED_MB = 15
shipped = pytest.mark.skipif(not MODELS.is_dir(), reason="dataset/models is absent: no agents to look at")


# --- recipes ------------------------------------------------------------------------------------


def test_there_are_as_many_recipes_as_the_article_has_models_at_least():
    assert len(RECIPES) >= 17  # the article's count
    assert len({known.name for known in RECIPES}) == len(RECIPES)
    assert set(model_zoo.DEFAULTS.values()) <= {known.name for known in RECIPES}


def test_short_runs_differ_from_each_other_in_what_their_name_says():
    configs = {known.name: known.config for known in RECIPES}
    assert configs["features-5-seed1"].differences(configs["features-4-seed1"]) == (
        "name features-5-seed1 -> features-4-seed1, features article_5 -> article_4"
    )
    plain = configs["reward-potential"]
    assert plain.differences(configs["entropy-0.03"]) == "name reward-potential -> entropy-0.03, entropy 0.002 -> 0.03"
    assert plain.differences(configs["value-clip-10"]).endswith("value_clip None -> 10.0")
    assert configs["article"].batch_size == 4000


def test_an_unknown_agent_is_refused_with_the_names_there_are():
    with pytest.raises(WorkflowError, match="unknown agent 'best'; choose one of stream, stream-seed1"):
        model_zoo.recipe("best")


# --- what is shipped ----------------------------------------------------------------------------


def manifest() -> dict:
    return json.loads((MODELS / MANIFEST).read_text(encoding="utf-8"))


@shipped
def test_every_recipe_is_shipped_and_nothing_else():
    names = {known.name for known in RECIPES}
    assert {path.stem for path in MODELS.glob("*.npz")} == names
    assert {path.stem for path in (MODELS / "logs").glob("*.csv")} == names
    assert set(manifest()["models"]) == names and manifest()["default"] == model_zoo.DEFAULTS


@shipped
@pytest.mark.parametrize("known", RECIPES, ids=lambda known: known.name)
def test_the_manifest_agrees_with_the_files(known):
    path, entry = MODELS / f"{known.name}.npz", manifest()["models"][known.name]
    content = path.read_bytes()
    assert (entry["bytes"], entry["sha256"]) == (len(content), hashlib.sha256(content).hexdigest())
    meta = load_agent(path).meta
    assert TrainConfig.from_mapping(meta["config"]) == known.config
    assert entry["changes"] == known.changes and entry["group"] == known.group and entry["about"] == known.about
    for key in ("problem", "network", "features", "seed", "steps", "versions", "training"):
        assert entry[key] == meta[key]


@shipped
def test_all_files_together_stay_small():
    size = sum(path.stat().st_size for path in MODELS.rglob("*") if path.is_file())
    assert size < SHIPPED_MB * 1e6


@shipped
@pytest.mark.parametrize("known", RECIPES, ids=lambda known: known.name)
def test_the_learning_curve_tells_the_stages_and_ends_where_the_agent_does(known):
    with model_zoo.log_path(known.name).open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    config, entry = known.config, manifest()["models"][known.name]
    stages = list(dict.fromkeys(row["stage"] for row in rows))
    rounds = [f"distill-{k + 1}" for k in range(config.distill_rounds)]
    order = [*rounds, "ppo"] if config.stage_order == "distill_ppo" else ["ppo", *rounds]
    assert stages == [*(["clone"] if config.clone_decisions else []), *order]
    steps = [int(row["steps"]) for row in rows]
    assert steps == sorted(steps) and steps[-1] == entry["steps"] >= config.total_steps
    column = f"validation_ratio_{REFERENCES[config.problem][0]}"
    assert float(rows[-1][column]) == pytest.approx(entry["training"][f"validation_{stages[-1]}"][column], rel=1e-5)


# --- the command --------------------------------------------------------------------------------


@pytest.fixture
def tiny_recipes(monkeypatch, tmp_path):
    """Two recipes that take a second or two, and a folder to work in."""
    changes = {f.name: getattr(TINY, f.name) for f in fields(TINY) if f.name != "name"} | {"distill_rounds": 0}
    recipes = tuple(Recipe(name, "headline", f"agent {name}", {**changes, "seed": k}) for k, name in enumerate("ab"))
    monkeypatch.setattr(model_zoo, "RECIPES", recipes)
    monkeypatch.chdir(tmp_path)
    return recipes


def run_models(capsys, *options) -> dict[str, str]:
    assert main(["models", "--out", "out", "--json", *options]) == 0
    return {name: entry["state"] for name, entry in json.loads(capsys.readouterr().out)["agents"].items()}


def test_only_what_is_missing_is_trained(tiny_recipes, capsys, monkeypatch):
    assert run_models(capsys, "--list") == {"a": "missing", "b": "missing"}
    assert not Path("out").exists() and not Path("runs").exists()
    assert run_models(capsys, "--only", "a") == {"a": "trained"}
    assert run_models(capsys, "--list") == {"a": "shipped", "b": "missing"}
    first = Path("out/a.npz").read_bytes()
    assert run_models(capsys) == {"a": "shipped", "b": "trained"}
    assert Path("out/a.npz").read_bytes() == first != Path("out/b.npz").read_bytes()
    entries = json.loads(Path("out", MANIFEST).read_text())["models"]
    assert [entries[name]["seed"] for name in "ab"] == [0, 1]
    assert entries["a"]["sha256"] == hashlib.sha256(first).hexdigest()

    model_zoo.log_path("a", Path("out")).unlink()
    Path("out/b.npz").write_bytes(first[:100])
    assert run_models(capsys, "--list") == {"a": "missing", "b": "damaged"}
    monkeypatch.setattr("thesis_lib.ppo.run_ppo", lambda *a, **k: pytest.fail("a run that has ended began again"))
    assert run_models(capsys) == {"a": "trained", "b": "trained"}
    assert Path("out/a.npz").read_bytes() == first


def test_an_agent_of_other_settings_is_outdated(tiny_recipes, capsys, monkeypatch):
    run_models(capsys, "--only", "a")
    old = tiny_recipes[0]
    changed = Recipe("a", old.group, old.about, {**old.changes, "gamma": 0.5})
    assert model_zoo.state_of(changed, Path("out")) == "outdated"


def test_the_list_is_a_line_for_each_agent(capsys):
    assert main(["models", "--list"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[0] for line in lines] == [known.name for known in RECIPES]


@pytest.mark.parametrize(
    ("options", "words"),
    [(["--only", "best"], "unknown agent 'best'"), (["--jobs", "0"], "--jobs must be"), (["--out", "file/x"], "file")],
)
def test_bad_input_is_one_line_before_any_work(options, words, capsys, monkeypatch, tmp_path):
    monkeypatch.setattr(model_zoo, "build", lambda *a, **k: pytest.fail("it ran"))
    monkeypatch.chdir(tmp_path)
    Path("file").write_text("x")
    assert main(["models", *options]) == 2
    shown = capsys.readouterr()
    assert shown.out == "" and shown.err.startswith("error: ") and shown.err.count("\n") == 1 and words in shown.err
