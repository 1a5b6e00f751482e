"""What is drawn for training and validation: sizes, seeds, and that one seed is one instance."""

from dataclasses import replace

import pytest

from thesis_lib.problems import training_case, validation_cases
from thesis_lib.train_config import TrainConfig
from thesis_lib.workload import SEED_RANGES, suite_case

CONFIG = TrainConfig(workflows_min=2, workflows_max=4, load_min=0.5, load_max=0.6, n_tasks_min=5, n_tasks_max=7)
FIRST = SEED_RANGES["train"].start


def test_streams_of_every_length_between_the_bounds():
    draw = training_case(CONFIG)
    assert {len(draw(FIRST + k)[0]) for k in range(40)} == {2, 3, 4}
    fixed = training_case(replace(CONFIG, workflows_min=3, workflows_max=3))
    assert {len(fixed(FIRST + k)[0]) for k in range(5)} == {3}


def test_the_load_lies_between_the_bounds():
    """The same seed at a given load has the same workflows, and gaps that scale with 1 / load."""
    draw = training_case(replace(CONFIG, workflows_min=3, workflows_max=3))
    loads = []
    for seed in range(FIRST, FIRST + 10):
        arrivals = draw(seed)[0].arrivals_s
        at_load_1 = suite_case("stream", seed, workflows=3, load=1.0)[0].arrivals_s
        loads.append((at_load_1[-1] - at_load_1[0]) / (arrivals[-1] - arrivals[0]))
    assert all(0.5 <= load <= 0.6 for load in loads) and max(loads) - min(loads) > 0.03


def test_thesis_dags_of_every_size_between_the_bounds():
    draw = training_case(replace(CONFIG, problem="thesis", base_rule="critical_path"))
    cases = [draw(FIRST + k) for k in range(30)]
    assert {case[0].n_tasks for case in cases} == {5, 6, 7}
    assert {len(cluster) for _, cluster in cases} == {1}


def test_single_is_the_suite_itself():
    draw = training_case(replace(CONFIG, problem="single"))
    assert draw(FIRST + 1) == suite_case("single", FIRST + 1)


@pytest.mark.parametrize("problem", ["stream", "thesis", "single"])
def test_one_seed_is_one_instance(problem):
    config = replace(CONFIG, problem=problem)
    assert training_case(config)(FIRST + 3) == training_case(config)(FIRST + 3)
    assert training_case(config)(FIRST + 3) != training_case(config)(FIRST + 4)


@pytest.mark.parametrize("problem", ["stream", "thesis", "single"])
def test_validation_cases_are_the_first_of_their_range(problem):
    """Whatever is trained on, validation is the suite's usual problem, so that runs can be compared."""
    cases = validation_cases(replace(CONFIG, problem=problem), 4)
    assert [seed for seed, *_ in cases] == [1_000_000, 1_000_001, 1_000_002, 1_000_003]
    assert all(seed in SEED_RANGES["validation"] for seed, *_ in cases)
    sizes = {"stream": {}, "single": {}, "thesis": {"n_tasks": 30}}
    assert cases[1][1:] == suite_case(problem, 1_000_001, **sizes[problem])
    assert validation_cases(replace(CONFIG, problem=problem), 2) == cases[:2]
    if problem == "stream":
        assert len(cases[0][1]) == 20


def test_other_instances_on_demand():
    cases = validation_cases(CONFIG, 2, workflows=5, load=0.7)
    assert [len(workload) for _, workload, _ in cases] == [5, 5]
    cases = validation_cases(replace(CONFIG, problem="thesis"), 2, n_tasks=9)
    assert [workload.n_tasks for _, workload, _ in cases] == [9, 9]


def test_ranges_do_not_meet_and_hold_the_largest_validation():
    train, validation, test = (SEED_RANGES[name] for name in ("train", "validation", "test"))
    assert test.stop <= validation.start and validation.stop <= train.start
    assert len(validation) >= 1_000_000  # the most that `validation_streams` may be
