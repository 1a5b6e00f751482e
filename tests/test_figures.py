"""The figure command: registry, files, the same bytes on every run, and the numbers behind the pictures."""

import csv
import hashlib
import json
import os
import subprocess
import sys
from pathlib import Path

import networkx
import pandas
import pytest

from tests.learning_samples import write_log
from thesis_lib import curves, dataset, figures, learning_figures
from thesis_lib.agents import MANIFEST, MODELS
from thesis_lib.model_zoo import RECIPES
from thesis_lib.plots import style
from thesis_lib.workflow import WorkflowError

SAMPLE = ("dag_real", "gantt_heft", "rules_on_real")
LEARNING = ("learned_rewards", "learning_curves", "training_curve", "feature_ablation", "ppo_sensitivity")
PROGRAM = f"from thesis_lib.figures import make_figures; import sys; make_figures(sys.argv[1], {SAMPLE!r})"


@pytest.fixture(scope="module")
def two_runs(tmp_path_factory) -> tuple[Path, Path]:
    """The same figures made by two fresh processes that hash differently."""
    folders = (tmp_path_factory.mktemp("first"), tmp_path_factory.mktemp("second"))
    processes = [
        subprocess.Popen(
            [sys.executable, "-c", PROGRAM, str(folder)], stderr=subprocess.PIPE, stdout=subprocess.PIPE,
            env={**os.environ, "PYTHONHASHSEED": seed},
        )
        for folder, seed in zip(folders, ("1", "2"))
    ]  # fmt: skip
    for process in processes:
        out, error = process.communicate(timeout=120)
        assert process.returncode == 0, error.decode()
        assert out == b"" and b"figures" in error  # progress goes to stderr alone
    return folders


def rows_of(folder: Path, name: str) -> list[dict[str, str]]:
    with (folder / f"{name}.csv").open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def test_two_runs_write_the_same_bytes(two_runs):
    first, second = ({p.name: hashlib.sha256(p.read_bytes()).hexdigest() for p in f.iterdir()} for f in two_runs)
    assert first == second
    expected = {f"{name}{end}" for name in SAMPLE for end in (".pdf", ".png", ".zh.pdf", ".zh.png", ".csv")}
    assert set(first) == expected | {"README.md"}  # and no temporary file


def test_pdfs_embed_truetype_and_no_date(two_runs):
    for path in two_runs[0].glob("*.pdf"):
        content = path.read_bytes()
        assert b"/Type3" not in content and b"/FontFile2" in content, path.name
        assert b"CreationDate" not in content and b"Producer" not in content, path.name


def test_pngs_have_300_dots_per_inch(two_runs):
    from PIL import Image

    for path in two_runs[0].glob("*.png"):
        with Image.open(path) as picture:
            assert picture.width == 2160  # 7.2 in
            assert picture.info["dpi"] == pytest.approx((300, 300), abs=0.1)
            assert not {"Software", "Creation Time"} & set(picture.info)


def test_data_of_the_dag(two_runs):
    workflow = dataset.load_real(figures.DAG_EXAMPLE)
    rows = rows_of(two_runs[0], "dag_real")
    assert [row["task"] for row in rows] == [str(task.id) for task in workflow.tasks]
    graph = networkx.DiGraph()
    for row in rows:
        graph.add_node(row["task"])
        for parent in row["parents"].split():
            graph.add_edge(parent, row["task"], weight=workflow.tasks[workflow.index(parent)].duration_mean_s)
    exits = {v: workflow.tasks[workflow.index(v)].duration_mean_s for v in graph if not graph.out_degree(v)}
    for v, seconds in exits.items():
        graph.add_edge(v, "end", weight=seconds)
    marked = sum(float(row["duration_mean_s"]) for row in rows if row["critical"] == "1")
    assert marked == pytest.approx(networkx.dag_longest_path_length(graph))


def test_data_of_the_rules(two_runs):
    rows = rows_of(two_runs[0], "rules_on_real")
    assert len(rows) == len(dataset.REAL) * len(figures.REAL_RULES)
    for row in rows:
        ratio = float(row["makespan_s"]) / float(row["lower_bound_s"])
        assert ratio >= 1 - 1e-9
        assert float(row["ratio"]) == pytest.approx(ratio)


def test_data_of_the_gantt_chart(two_runs):
    rows = rows_of(two_runs[0], "gantt_heft")
    speed = {"0": 1.5, "1": 1.2, "2": 1.0}
    workflow = dataset.load_real(figures.GANTT_EXAMPLE)
    for row, task in zip(rows, workflow.tasks, strict=True):
        seconds = float(row["finish_s"]) - float(row["start_s"])
        assert seconds == pytest.approx(task.duration_mean_s / speed[row["vm"]], abs=1e-4)


def test_index_lists_what_is_there_in_both_languages(two_runs):
    index = (two_runs[0] / "README.md").read_text(encoding="utf-8")
    for name, spec in figures.FIGURES.items():
        present = name in SAMPLE
        assert (f"## {name}\n" in index) == present
        assert (spec.caption_en in index) == (spec.caption_zh in index) == present


def test_every_figure_has_captions_in_both_languages():
    from fontTools.ttLib import TTFont

    known = TTFont(style.FONT_FILE).getBestCmap()
    for spec in figures.FIGURES.values():
        assert spec.caption("en") == spec.caption_en and spec.caption("zh") == spec.caption_zh
        assert spec.caption_en.isascii() and spec.caption_en.endswith(".")
        assert spec.caption_zh.endswith("。") and [c for c in spec.caption_zh if ord(c) not in known] == []
        assert spec.notebook.isdigit() and spec.columns


COMMITTED = figures.HOME


def needs_agents(name: str):
    """Figures about learning are committed together with the agents."""
    absent = not MODELS.is_dir() and name in LEARNING
    return pytest.param(name, marks=pytest.mark.skipif(absent, reason="dataset/models is absent"))


@pytest.mark.parametrize("name", map(needs_agents, figures.FIGURES))
def test_the_committed_data_has_the_columns_of_its_figure(name):
    with (COMMITTED / f"{name}.csv").open(encoding="utf-8", newline="") as file:
        assert tuple(next(csv.reader(file))) == figures.FIGURES[name].columns


def test_the_committed_stream_has_the_rules_and_draws_of_today():
    seeds = range(figures.STREAM_FIRST_SEED, figures.STREAM_FIRST_SEED + figures.STREAM_DRAWS)
    rows = [(int(row["seed"]), row["rule"]) for row in rows_of(COMMITTED, "stream_completion")]
    assert sorted(rows) == sorted((seed, rule) for seed in seeds for rule in figures.ONLINE_RULES)


def test_the_committed_comparison_has_the_rules_and_workflows_of_today():
    rows = [(row["workflow"], row["rule"]) for row in rows_of(COMMITTED, "rules_on_real")]
    assert sorted(rows) == sorted((name, rule) for name in dataset.REAL for rule in figures.REAL_RULES)


def test_the_committed_index_has_the_captions_of_today():
    assert (COMMITTED / "README.md").read_text(encoding="utf-8") == figures._index(COMMITTED)


def test_captions_count_the_rules_and_the_workflows():
    spec = figures.FIGURES["rules_on_real"]
    rules, flows = len(figures.REAL_RULES), len(dataset.REAL)
    assert f" {rules} rules on the {flows} workflows" in spec.caption_en
    assert f"{rules} 种规则在 {flows} 个" in spec.caption_zh


NOT_HERE = (*SAMPLE, "stream_completion", *LEARNING)  # tested elsewhere


@pytest.mark.parametrize("name", [n for n in figures.FIGURES if n not in NOT_HERE])
def test_every_figure_can_be_made(name):
    spec = figures.FIGURES[name]
    rows, draw = spec.make()
    assert all(len(row) == len(spec.columns) for row in rows)
    draw("zh").draw_without_rendering()


def test_stream_figure_uses_the_same_draws_for_every_rule(monkeypatch):
    monkeypatch.setattr(figures, "STREAM_DRAWS", 2)
    rows, draw = figures.FIGURES["stream_completion"].make()
    seeds = [seed for seed, _, _ in rows]
    assert sorted(set(seeds)) == [figures.STREAM_FIRST_SEED, figures.STREAM_FIRST_SEED + 1]
    assert all(seeds.count(seed) == len(figures.ONLINE_RULES) for seed in set(seeds))
    draw("en").draw_without_rendering()


def test_two_clocks_tell_the_sum_and_the_parallel_makespan():
    rows, _ = figures.FIGURES["two_clocks"].make()
    workflow = min(dataset.load("monte_carlo"), key=len)
    ends = {clock: max(row[6] for row in rows if row[0] == clock) for clock in ("serial", "event")}
    assert ends["serial"] == pytest.approx(workflow.mean_s.sum())
    assert ends["event"] < ends["serial"]


def test_unknown_names_are_refused_with_the_names_there_are(tmp_path):
    with pytest.raises(WorkflowError, match="unknown figure 'nothing'; choose from dag_families, dag_topologies"):
        figures.make_figures(tmp_path, only="nothing")
    with pytest.raises(WorkflowError, match="lang must be one of en, zh"):
        figures.make_figures(tmp_path, only="dag_real", lang="fr")
    assert list(tmp_path.iterdir()) == []


def test_a_folder_that_cannot_be_made_is_refused(tmp_path):
    (tmp_path / "file").write_text("x")
    with pytest.raises(WorkflowError, match="cannot be written"):
        figures.make_figures(tmp_path / "file", only="dag_families", lang="en")


def test_only_one_language(tmp_path):
    written = figures.make_figures(tmp_path, only=["dag_families"], lang="zh")
    assert [p.name for p in written] == ["dag_families.csv", "dag_families.zh.pdf", "dag_families.zh.png", "README.md"]
    assert "dag_families.zh.png" in (tmp_path / "README.md").read_text(encoding="utf-8")


def test_list_figures():
    assert figures.list_figures() == list(figures.FIGURES)
    assert figures.list_figures("two_clocks") == ["two_clocks"]
    assert len(figures.list_figures()) == 20


def test_the_readme_states_the_ratios_of_the_committed_stream():
    root = Path(__file__).resolve().parents[1]
    table = pandas.read_csv(root / "figures" / "stream_completion.csv")
    seconds = table.pivot(index="seed", columns="rule", values="mean_completion_s")
    ratio = seconds.div(seconds["heft_online"], axis=0).mean()
    readme = " ".join((root / "README.md").read_text(encoding="utf-8").split())
    for rule, words in (("srw", "for `srw`"), ("heft", "for `heft` planned"), ("srw_patient", "for `srw_patient`")):
        assert f"{ratio[rule]:.3f} {words}" in readme


@pytest.mark.parametrize("text", ["# My project\n", "# Figures\n\nof my holidays\n", ""])
def test_a_foreign_readme_is_refused_before_any_work(tmp_path, text, monkeypatch):
    monkeypatch.setattr(figures, "_write_figure", lambda *a: pytest.fail("it ran"))
    (tmp_path / "README.md").write_text(text)
    with pytest.raises(WorkflowError, match="README.md: is no index of figures and would be overwritten"):
        figures.make_figures(tmp_path, "dag_real")
    assert (tmp_path / "README.md").read_text() == text and len(list(tmp_path.iterdir())) == 1


def test_an_index_of_its_own_is_written_again(tmp_path, monkeypatch):
    monkeypatch.setattr(figures, "_write_figure", lambda *a: [])
    for _ in range(2):
        assert figures.make_figures(tmp_path, "dag_real") == [tmp_path / "README.md"]
    shipped = (figures.HOME / "README.md").read_text(encoding="utf-8")
    assert shipped.startswith(figures.INDEX_HEADING)


def test_a_folder_that_is_a_file_is_refused_before_any_work(tmp_path, monkeypatch):
    monkeypatch.setattr(figures, "_write_figure", lambda *a: pytest.fail("it ran"))
    (tmp_path / "file").write_text("mine")
    with pytest.raises(WorkflowError, match="cannot be written: .* is no folder"):
        figures.make_figures(tmp_path / "file", "dag_real")


def test_the_committed_rewards_follow_from_completion_times():
    """flow_time is minus total completion time / 1000 s; potential is measured from the base rule on the same draw."""
    rows = rows_of(COMMITTED, "reward_iterations")
    seeds = range(figures.STREAM_FIRST_SEED, figures.STREAM_FIRST_SEED + figures.STREAM_DRAWS)
    assert sorted((int(r["seed"]), r["rule"]) for r in rows) == sorted(
        (seed, rule) for seed in seeds for rule in figures.REWARD_RULES
    )
    base_s = {r["seed"]: float(r["mean_completion_s"]) for r in rows if r["rule"] == figures.REWARD_BASE}
    known_s = {(r["seed"], r["rule"]): float(r["mean_completion_s"]) for r in rows_of(COMMITTED, "stream_completion")}
    for row in rows:
        mean_s, workflows = float(row["mean_completion_s"]), figures.STREAM_WORKFLOWS
        assert mean_s == known_s[row["seed"], row["rule"]]
        assert float(row["flow_time"]) == pytest.approx(-0.001 * workflows * mean_s)
        saved_s = workflows * (base_s[row["seed"]] - mean_s)
        assert float(row["potential"]) == pytest.approx(0.001 * saved_s, abs=1e-5)


# --- figures about learning, from made-up logs ------------------------------------------------------


@pytest.fixture
def made_up_logs(tmp_path, monkeypatch):
    """A log for every shipped agent: the training ratio falls to 1 in steps that its name fixes."""
    models = tmp_path / "models"
    for known in RECIPES:
        rows = [{"stage": "clone", "steps": 0, "validation": 1.0}] if known.config.clone_decisions else []
        fall = 0.2 if known.changes.get("features") == "article_5" else 0.1
        for k in range(1, 11):
            ratio = max(2 - fall * k, 1.0)
            rows.append({"stage": "ppo", "steps": 1000 * k, "episodes": 20 * k, "training": ratio, "validation": ratio})
        rounds = range(known.config.distill_rounds)
        rows += [{"stage": f"distill-{r + 1}", "steps": 10_000, "validation": 0.9} for r in rounds]
        write_log(models / "logs" / f"{known.name}.csv", rows, known.config.problem)
    entries = {known.name: {"problem": known.config.problem} for known in RECIPES}
    (models / MANIFEST).write_text(json.dumps({"models": entries}))
    monkeypatch.setattr(curves, "MODELS", models)
    return models


def test_figures_about_learning_are_made_from_logs_alone(made_up_logs, tmp_path):
    folders = (tmp_path / "first", tmp_path / "second")
    for folder in folders:
        figures.make_figures(folder, only=LEARNING, lang="zh")
    first, second = ({p.name: p.read_bytes() for p in folder.iterdir()} for folder in folders)
    assert first == second
    still = {f"{name}{end}" for name in LEARNING if name != "training_curve" for end in (".zh.pdf", ".zh.png")}
    assert set(first) == still | {f"{name}.csv" for name in LEARNING} | {"training_curve.zh.gif", "README.md"}
    assert "![training_curve](training_curve.zh.gif)" in first["README.md"].decode()
    assert len(first["training_curve.zh.gif"]) < 600_000


def test_the_film_moves_and_ends_with_the_whole_curve(made_up_logs, tmp_path):
    from PIL import Image

    path = figures.make_figures(tmp_path / "out", only="training_curve", lang="en")[1]
    with Image.open(path) as film:
        assert film.n_frames >= 5 and film.info["loop"] == 0
        pictures = []
        for k in range(film.n_frames):
            film.seek(k)
            pictures.append(film.convert("RGB").tobytes())
    assert len(set(pictures)) == len(pictures)


def test_the_ablation_counts_the_decisions_that_a_feature_saves(made_up_logs, tmp_path):
    """2 - 0.2 k reaches 1 at k = 5, 2 - 0.1 k at k = 10: half of the steps are saved in every seed."""
    figures.make_figures(tmp_path, only="feature_ablation", lang="en")
    rows = rows_of(tmp_path, "feature_ablation")
    assert {row["agent"] for row in rows} == {f"features-{k}-seed{s}" for k in (4, 5) for s in range(3)}
    for row in rows:
        assert float(row["target"]) == 1.0
        assert int(row["steps_to_target"]) == (5000 if "features-5" in row["agent"] else 10_000)
        assert [float(row[key]) for key in ("saved", "saved_low", "saved_high")] == pytest.approx([0.5] * 3)


def test_an_ablation_of_runs_that_do_not_learn_claims_no_speed_up(made_up_logs, tmp_path):
    flat = [{"stage": "ppo", "steps": 1000 * k, "episodes": 20 * k, "training": 1.5} for k in (1, 2)]
    write_log(made_up_logs / "logs" / "features-5-seed0.csv", [*flat, {"stage": "ppo", "steps": 2000, "validation": 9}])
    figures.make_figures(tmp_path, only="feature_ablation", lang="en")
    assert {(row["target"], row["saved"]) for row in rows_of(tmp_path, "feature_ablation")} == {("", "")}


def test_every_recipe_but_the_thesis_agents_is_shown_in_a_figure():
    settings = [name for values in learning_figures.SETTINGS.values() for name in values.values()]
    groups = [
        name for g in (learning_figures.HEADLINE, learning_figures.FEATURES) for names in g.values() for name in names
    ]
    shown = {*settings, *groups, *learning_figures.REWARD_AGENTS.values(), learning_figures.DEFAULT}
    assert {known.name for known in RECIPES} - shown == {"thesis", "stream-ppo"}
    assert all(len(names) == 3 for names in learning_figures.FEATURES.values())
    assert learning_figures.PRINTED == ("v2_as_printed", "v3_as_printed")


def test_figures_about_learning_say_how_to_train_what_is_missing(tmp_path, monkeypatch):
    monkeypatch.setattr(curves, "MODELS", tmp_path)
    with pytest.raises(WorkflowError, match="python -m thesis_lib models trains them"):
        figures.make_figures(tmp_path / "out", only="learning_curves")


@pytest.mark.skipif(not MODELS.is_dir(), reason="dataset/models is absent: no learning curves to compare with")
@pytest.mark.parametrize("name", LEARNING)
def test_the_committed_learning_curves_are_those_of_the_shipped_agents(name):
    spec = figures.FIGURES[name]
    rows, _ = spec.make()
    committed = (COMMITTED / f"{name}.csv").read_text(encoding="utf-8")
    assert committed == figures._csv(spec.columns, rows)
