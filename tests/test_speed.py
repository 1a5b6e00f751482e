"""The measuring command runs and counts right; how fast it is depends on the machine."""

import pytest

from thesis_lib import speed


def test_rules_are_measured_both_ways(monkeypatch):
    monkeypatch.setattr(speed, "TASKS", (20,))
    monkeypatch.setattr(speed, "RULES", ("fcfs", "srw"))
    rows = list(speed.rule_rates(repeats=1))
    assert [row[:2] for row in rows] == [("fcfs", 20), ("srw", 20)]
    assert all(per_second > 0 and step_ms > 0 for _, _, per_second, step_ms in rows)


def test_a_rate_is_tasks_over_seconds(monkeypatch):
    monkeypatch.setattr(speed, "TASKS", (20,))
    monkeypatch.setattr(speed, "RULES", ("fcfs",))
    monkeypatch.setattr(speed, "_run_s", lambda scheduler, problem, whole: 0.5 if whole else 4.0)
    assert list(speed.rule_rates(repeats=3)) == [("fcfs", 20, 40.0, 4000.0)]


def test_planners_are_measured():
    assert speed.plan_ms("heft", n_tasks=20, n_vms=3, repeats=1) > 0


def test_the_median_leaves_out_the_first_call():
    seconds = iter([100.0, 3.0, 1.0, 2.0])
    assert speed.median_s(lambda: next(seconds), 3) == pytest.approx(2)


def test_both_kinds_of_environments_are_measured():
    batched, single = speed.env_rates("potential", n_envs=4, steps=60)
    assert batched > single > 0  # by how much depends on the machine; `speed` shows it
