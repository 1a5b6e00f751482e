"""Tables of results: made once, continued, read back, and what the shipped ones hold."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from thesis_lib import agent_results
from thesis_lib.agent_results import RESULTS, TRIALS, Trial, completions_s, evaluate, instance, ratios, trial
from thesis_lib.schedulers import make
from thesis_lib.simulator import simulate
from thesis_lib.workflow import WorkflowError
from thesis_lib.workload import SEED_RANGES

SMALL = Trial("small", "stream", {"workflows": 2, "load": 0.9}, 3, 500, ("srw", "fcfs"), ("srw",))


@pytest.fixture
def small(monkeypatch):
    monkeypatch.setattr(agent_results, "TRIALS", (SMALL,))
    return SMALL


def test_a_table_holds_what_simulate_gives(tmp_path, small):
    evaluate(["small"], tmp_path)
    values = completions_s(small, tmp_path)
    for k, seed in enumerate((500, 501, 502)):
        workload, cluster = instance(small, seed)
        own = simulate(make("fcfs"), workload, cluster, seed=seed).mean_completion_s
        assert values["fcfs"][k] == pytest.approx(own, abs=1e-6)
    found = ratios(small, "srw", tmp_path)
    assert found["srw"].mean == found["srw"].low == 1.0
    assert found["fcfs"].mean == pytest.approx(np.mean(values["fcfs"] / values["srw"]))


def test_only_what_is_missing_is_run(tmp_path, small, monkeypatch):
    evaluate(["small"], tmp_path)
    path = tmp_path / "small.csv"
    whole = path.read_text()
    path.write_text("\n".join(whole.splitlines()[:-2]) + "\n")  # the last instance is lost
    with pytest.raises(WorkflowError, match=r"small\.csv: lacks 1 of 3 instances, 502 first"):
        completions_s(small, tmp_path)
    ran = []
    real = agent_results._run
    monkeypatch.setattr(agent_results, "_run", lambda known, seed, names: ran.append(seed) or real(known, seed, names))
    evaluate(["small"], tmp_path)
    assert ran == [502]
    assert path.read_text() == whole


def test_a_missing_table_is_named(tmp_path, small):
    with pytest.raises(WorkflowError, match=r"small\.csv: .*models --evaluate"):
        completions_s(small, tmp_path)


def test_more_vms_repeat_the_three():
    _, cluster = instance(replace(SMALL, vms=5), 500)
    assert [vm.speed for vm in cluster.vms] == [1.5, 1.2, 1.0, 1.5, 1.2]
    assert [vm.id for vm in cluster.vms] == [0, 1, 2, 3, 4]


def test_a_damaged_table_and_an_unknown_trial_are_refused(tmp_path, small):
    (tmp_path / "small.csv").write_text("seed,scheduler,mean_completion_s\n500,srw,much\n")
    with pytest.raises(WorkflowError, match=r"small\.csv: is no table"):
        completions_s(small, tmp_path)
    with pytest.raises(WorkflowError, match="unknown trial 'large'; choose one of small"):
        trial("large")


def test_trials_draw_test_instances_that_no_other_trial_draws_but_the_searches():
    seen = {}
    for known in TRIALS:
        seeds = range(known.first_seed, known.first_seed + known.instances)
        assert seeds[0] in SEED_RANGES["test"] and seeds[-1] in SEED_RANGES["test"]
        assert set(known.references) <= set(known.schedulers)
        for other, theirs in seen.items():
            shared = set(seeds) & set(theirs)
            assert not shared or {known.name, other} == {"stream-k20", "stream-k20-search"}
        seen[known.name] = seeds


@pytest.mark.parametrize("known", TRIALS, ids=lambda known: known.name)
def test_the_shipped_tables_are_complete_and_true(known):
    """Every instance is there, and one of them is run again with the rules and the greedy agent."""
    values = completions_s(known, RESULTS)
    assert all(len(own) == known.instances for own in values.values())
    workload, cluster = instance(known, known.first_seed)
    for name in ("srw", "critical_path", "drl"):
        if name in values:
            own = simulate(make(name), workload, cluster, seed=known.first_seed).mean_completion_s
            assert values[name][0] == pytest.approx(own, rel=1e-6)


def test_the_readme_states_the_ratios_of_the_tables():
    readme = (Path(__file__).resolve().parents[1] / "README.md").read_text(encoding="utf-8")
    for name, scheduler in (("stream-k20", "drl"), ("stream-k20", "drl@stream-ppo"), ("stream-k12", "drl"),
                            ("stream-k30", "drl"), ("stream-5-vms", "drl")):  # fmt: skip
        found = [str(ratios(trial(name), reference)[scheduler]) for reference in ("srw_patient", "srw", "heft_online")]
        assert f"| {trial(name).about} | `{scheduler}` | {' | '.join(found)} |" in readme
    for n in (20, 30, 50):
        found = ratios(trial(f"thesis-{n}"), "critical_path")
        assert f"| {n} tasks | {found['drl']} | {found['drl_search']} | {found['randomized_list']} |" in readme
