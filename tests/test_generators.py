"""The random workflows, and the streams and suite instances drawn from them."""

import json
import math
from collections import Counter

import numpy as np
import pytest

from thesis_lib.cluster import VM, Cluster, exec_time_s
from thesis_lib.generators import (
    FAMILIES,
    draw_demand,
    etl,
    generate,
    layer_widths,
    layered,
    ml_pipeline,
    monte_carlo,
    thesis_dag,
)
from thesis_lib.workflow import WorkflowError
from thesis_lib.workload import ARTICLE_FAMILIES, SEED_RANGES, SUITES, mean_work_s, poisson_stream, suite_case

MEAN_CORES = 0.25 * 2 + 0.35 * 4 + 0.25 * 8 + 0.15 * 16  # 6.3
CONTENDING = ("monte_carlo", "ml_pipeline", "etl", "layered")
# Means by the textbook: exp(mu + sigma^2 / 2), k theta, lambda Gamma(1 + 1/k).
MEAN_S = {"monte_carlo": math.exp(4.82), "ml_pipeline": 120.0, "etl": 100 * math.gamma(1 + 1 / 1.2)}


def levels(workflow) -> list[int]:
    """Number of edges on the longest path from an entry task to each task."""
    level = [0] * len(workflow)
    for i in workflow.topological_order.tolist():
        level[i] = max((level[p] + 1 for p in workflow.parents(i)), default=0)
    return level


def exits(workflow) -> list[int]:
    return [i for i in range(len(workflow)) if not workflow.children(i)]


# --- structure ---------------------------------------------------------------------------


@pytest.mark.parametrize("n", [*range(1, 90), 200, 1000])
def test_monte_carlo_structure(n):
    workflow = monte_carlo(n, seed=n)
    level = levels(workflow)
    assert len(workflow) == n
    assert exits(workflow) == [n - 1]
    for i in range(n):
        parents = workflow.parents(i)
        assert all(level[p] == level[i] - 1 for p in parents)
        if parents and n >= 4:
            assert 3 <= len(parents) <= 5
    last_layer = [i for i in range(n) if level[i] == level[n - 1] - 1]
    assert workflow.parents(n - 1) == last_layer


@pytest.mark.parametrize("n, edges", [(1, 0), (2, 1), (3, 2), (4, 3), (6, 5)])
def test_tiny_monte_carlo_is_one_layer_into_the_exit(n, edges):
    assert len(monte_carlo(n).edges) == edges


def test_monte_carlo_of_seven_tasks_is_three_three_one():
    # 6 tasks before the exit, layers of 3 to 5 that the exit's 5 parents can take: 3 + 3.
    for seed in range(5):
        assert Counter(levels(monte_carlo(7, seed))) == {0: 3, 1: 3, 2: 1}


def test_monte_carlo_is_parallel():
    for seed in range(10):
        widths = Counter(levels(monte_carlo(80, seed))).values()
        assert max(widths) >= 10


@pytest.mark.parametrize("family, low, high", [("monte_carlo", 20, 80), ("ml_pipeline", 15, 50), ("etl", 30, 120)])
def test_every_size_of_the_range_is_drawn_and_no_other(family, low, high):
    sizes = Counter(len(FAMILIES[family](seed=s)) for s in range(900))
    assert set(sizes) == set(range(low, high + 1))


def test_ml_pipeline_is_a_chain_with_checkpoints():
    workflow = ml_pipeline(16, seed=3)  # 16 // 4 = 4 checkpoints, 12 stages
    assert [workflow.parents(i) for i in range(12)] == [[]] + [[i] for i in range(11)]
    hangs_on = [workflow.parents(i) for i in range(12, 16)]
    assert all(len(parents) == 1 and parents[0] < 12 for parents in hangs_on)
    assert len({parents[0] for parents in hangs_on}) == 4
    assert not any(workflow.children(i) for i in range(12, 16))


def test_ml_pipeline_checkpoints_vary_with_the_seed():
    assert len({tuple(ml_pipeline(16, seed=s).edges) for s in range(10)}) > 5


def test_etl_is_a_star():
    workflow = etl(60, seed=1)  # 60 // 20 = 3 loads, the centre, 56 sources
    assert [len(workflow.parents(i)) for i in range(60)] == [0] * 56 + [56] + [1] * 3
    assert [workflow.parents(i) for i in (57, 58, 59)] == [[56]] * 3
    assert workflow.children(0) == [56]


@pytest.mark.parametrize("n, edges", [(1, 0), (2, 1), (19, 18), (20, 19)])
def test_etl_is_always_a_tree_around_the_centre(n, edges):
    assert len(etl(n).edges) == edges


@pytest.mark.parametrize(
    "n, alpha, layers",
    # sqrt(50) = 7.07, sqrt(100) = 10, sqrt(10) = 3.16, sqrt(200) = 14.14
    [(50, 0.5, 14), (50, 1.0, 7), (50, 1.5, 4), (100, 0.5, 20), (100, 1.5, 6), (10, 1.5, 2), (200, 0.5, 28),
     (10, 9.0, 1), (3, 0.1, 3), (1, 1.0, 1)],
)  # fmt: skip
def test_layered_number_of_layers(n, alpha, layers):
    for beta in (0.0, 2.0):
        counts = Counter(levels(layered(n, alpha=alpha, beta=beta, seed=7)))
        assert len(counts) == layers
        assert sum(counts.values()) == n


@pytest.mark.parametrize("seed", range(8))
def test_layered_edges(seed):
    workflow = layered(100, max_out=3, alpha=1.0, beta=0.0, seed=seed)
    level = levels(workflow)
    assert set(Counter(level).values()) == {10}
    assert all(level[workflow.index(c)] == level[workflow.index(p)] + 1 for p, c in workflow.edges)
    for i in range(100):
        assert len(workflow.children(i)) in ((1, 2, 3) if level[i] < 9 else (0,))
        assert (len(workflow.parents(i)) > 0) == (level[i] > 0)


def test_layered_out_degrees_are_equally_likely():
    counts = Counter()
    for seed in range(40):
        workflow = layered(100, max_out=3, beta=0.0, seed=seed)
        counts.update(len(workflow.children(i)) for i in range(90))
    assert all(abs(counts[d] / 3600 - 1 / 3) < 0.03 for d in (1, 2, 3))


def test_one_child_each_and_equal_layers_make_a_matching():
    # 16 tasks, 4 layers of 4: 4 children dealt to 4 tasks that may have one each.
    workflow = layered(16, max_out=1, alpha=1.0, beta=0.0, seed=5)
    assert [len(workflow.parents(i)) for i in range(16)] == [0] * 4 + [1] * 12
    assert [len(workflow.children(i)) for i in range(16)] == [1] * 12 + [0] * 4


def test_a_layer_too_wide_for_max_out_still_has_parents():
    for seed in range(20):
        workflow = layered(30, max_out=1, alpha=1.5, beta=8.0, seed=seed)
        level = levels(workflow)
        assert len(set(level)) == 3
        assert sum(1 for i in range(30) if not workflow.parents(i)) == level.count(0)


def test_layer_widths():
    rng = np.random.default_rng(4)
    for n, layers in ((10, 3), (11, 4), (50, 14)):
        widths = layer_widths(n, layers, 0.0, rng)
        assert sum(widths) == n and len(widths) == layers and max(widths) - min(widths) <= 1
    # The sum is fixed, so the variance is beta^2 (1 - 1/layers) = 3.6, plus some rounding.
    widths = [layer_widths(200, 10, 2.0, rng) for _ in range(500)]
    assert all(sum(w) == 200 and min(w) >= 1 for w in widths)
    assert 3.2 < np.var(widths) < 4.2
    assert layer_widths(6, 2, 50.0, rng, low=3, high=3) == [3, 3]


# --- numbers -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    "family, median, std",
    [
        ("monte_carlo", math.exp(4.5), math.exp(4.82) * math.sqrt(math.exp(0.64) - 1)),
        ("ml_pipeline", 106.96, math.sqrt(3) * 40),  # Gamma(3) has its median at 2.674
        (
            "etl",
            100 * math.log(2) ** (1 / 1.2),
            100 * math.sqrt(math.gamma(1 + 2 / 1.2) - math.gamma(1 + 1 / 1.2) ** 2),
        ),
    ],
)
def test_duration_distributions(family, median, std):
    mean_s = FAMILIES[family](20_000, seed=1).mean_s
    assert mean_s.mean() == pytest.approx(MEAN_S[family], rel=0.025)
    assert np.median(mean_s) == pytest.approx(median, rel=0.03)
    assert mean_s.std() == pytest.approx(std, rel=0.06)


def test_layered_durations_are_those_of_monte_carlo():
    durations = np.concatenate([layered(400, seed=s).mean_s for s in range(25)])
    assert durations.mean() == pytest.approx(math.exp(4.82), rel=0.03)
    assert np.log(durations).std() == pytest.approx(0.8, rel=0.03)


def test_demand_probabilities():
    cpu, memory, bandwidth = draw_demand(40_000, np.random.default_rng(3)).T
    for cores, probability in zip((2, 4, 8, 16), (0.25, 0.35, 0.25, 0.15)):
        assert abs(np.mean(cpu == cores) - probability) < 0.01
        for gb_per_core in (1, 2, 4, 6):
            assert abs(np.mean(memory[cpu == cores] == gb_per_core * cores) - 0.25) < 0.025
    assert set(cpu) == {2, 4, 8, 16}
    assert set(memory / cpu) == {1, 2, 4, 6}
    small = bandwidth[cpu == 2]  # uniform 0.5 ... 4
    assert small.min() >= 0.5 and small.max() <= 4 and small.mean() == pytest.approx(2.25, rel=0.02)
    # 16 cores: uniform 4 ... 32, cut at 20; 12 of 28 parts are above.
    assert bandwidth.max() == 20
    assert np.mean(bandwidth[cpu == 16] == 20) == pytest.approx(12 / 28, abs=0.025)


@pytest.mark.parametrize("family", CONTENDING)
def test_common_numbers(family):
    workflow = FAMILIES[family](200, seed=9)
    assert workflow.family == family
    assert np.abs(workflow.std_s - 0.15 * workflow.mean_s).max() <= 0.000501
    assert {t.priority for t in workflow.tasks} == {1, 2, 3, 4, 5}
    for values, per_unit in ((workflow.mean_s, 1000), (workflow.demand, 100), (workflow.parent_mb, 1000)):
        assert np.array_equal(values, np.rint(values * per_unit) / per_unit)
    assert np.isfinite(exec_time_s(workflow, Cluster.default())).any(axis=1).all()
    assert [t.id for t in workflow.tasks] == list(range(200))


def test_data_per_edge():
    # Lognormal with sigma 1: mean m, median m / sqrt(e), standard deviation m sqrt(e - 1).
    megabytes = etl(20_000, seed=2).parent_mb
    assert megabytes.mean() == pytest.approx(5000, rel=0.04)
    assert np.median(megabytes) == pytest.approx(5000 / math.sqrt(math.e), rel=0.03)
    assert etl(20_000, seed=2, data_mb=10).parent_mb.mean() == pytest.approx(10, rel=0.04)
    for none in (0, False):
        assert not etl(50, seed=2, data_mb=none).parent_mb.any()
    same = etl(50, seed=2, data_mb=0)
    assert np.array_equal(same.mean_s, etl(50, seed=2).mean_s), "data must not change the other draws"


def test_thesis_dag_numbers():
    workflows = [thesis_dag(50, seed=s) for s in range(100)]
    mean_s = np.concatenate([w.mean_s for w in workflows])
    demand = np.concatenate([w.demand for w in workflows])
    assert set(mean_s) == set(range(30))
    assert mean_s.mean() == pytest.approx(14.5, abs=0.4)
    assert demand[:, :2].min() >= 25 and demand[:, :2].max() <= 50
    assert demand[:, :2].mean(axis=0) == pytest.approx([37.5, 37.5], abs=0.4)
    assert not demand[:, 2].any()
    assert not any(w.std_s.any() or w.parent_mb.any() for w in workflows)
    assert all(np.isfinite(exec_time_s(w, Cluster.thesis())).all() for w in workflows)
    assert {len(thesis_dag(seed=s)) for s in range(60)} == {10, 20, 30, 40, 50}


def test_thesis_dag_shape_can_be_fixed():
    workflow = thesis_dag(50, seed=2, max_out=1, alpha=1.0, beta=0.0)
    assert len(workflow.edges) == 43  # 7 layers of 7 or 8: every task outside the last has one child
    level_widths = Counter(len(workflow.children(i)) for i in range(50))
    assert level_widths == {1: 43, 0: 7} or level_widths == {1: 42, 0: 8}


# Not n = 10 and 20: deep and irregular published DAGs lost layers there (width 0), ours never have an empty one.
@pytest.mark.parametrize("n", [30, 40, 50])
def test_thesis_dag_is_like_the_published_sets(n, shared_data):
    published = json.loads((shared_data / "cws-npy" / f"n{n}.json").read_text())["dags"]
    drawn = [thesis_dag(n, seed=s) for s in range(600)]
    edges = np.mean([len(d["edges"]) for d in published])
    entries = np.mean([n - len({child for _, child in d["edges"]}) for d in published])
    assert np.mean([len(w.edges) for w in drawn]) == pytest.approx(edges, rel=0.08)
    assert np.mean([sum(not t.dependencies for t in w.tasks) for w in drawn]) == pytest.approx(entries, rel=0.08)


# --- seeds and bad input -------------------------------------------------------------------


@pytest.mark.parametrize("family", FAMILIES)
def test_the_seed_fixes_everything(family):
    workflow = FAMILIES[family](seed=11)
    assert FAMILIES[family](seed=11) == workflow
    assert len({FAMILIES[family](30, seed=s) for s in range(20)}) == 20


def test_global_random_state_is_neither_read_nor_changed():
    np.random.seed(1)  # noqa: NPY002
    first = monte_carlo(seed=1)
    after = np.random.random()  # noqa: NPY002
    np.random.seed(1)  # noqa: NPY002
    assert after == np.random.random()  # noqa: NPY002
    assert monte_carlo(seed=1) == first


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize(
    "parameters, message",
    [
        ({"n_tasks": 0}, "n_tasks must be a whole number from 1 to 100000, got 0"),
        ({"n_tasks": 2.5}, "n_tasks must be a whole number from 1 to 100000, got 2.5"),
        ({"n_tasks": True}, "n_tasks must be a whole number"),
        ({"n_tasks": "9"}, "n_tasks must be a whole number from 1 to 100000, got '9'"),
        ({"seed": -1}, "seed must be a whole number of at least 0, got -1"),
        ({"colour": 1}, "has no parameter colour; it takes n_tasks"),
    ],
)
def test_bad_parameters(family, parameters, message):
    with pytest.raises(WorkflowError, match=message):
        generate(family, **parameters)


@pytest.mark.parametrize(
    "parameters, message",
    [
        ({"alpha": 0}, "alpha .* must be above 0, got 0"),
        ({"alpha": -1}, "alpha .* must be at least 0, got -1"),
        ({"beta": -0.5}, "beta .* must be at least 0, got -0.5"),
        ({"beta": math.nan}, "beta .* must be finite"),
        ({"max_out": 0}, "max_out must be a whole number of at least 1, got 0"),
        ({"data_mb": -3}, "data_mb .* must be at least 0, got -3"),
        ({"data_mb": "many"}, "data_mb .* must be a number, got 'many'"),
    ],
)
def test_bad_layered_parameters(parameters, message):
    with pytest.raises(WorkflowError, match=message):
        layered(20, **parameters)


def test_unknown_family():
    with pytest.raises(WorkflowError, match="unknown family 'montecarlo'; choose one of monte_carlo, ml_pipeline"):
        generate("montecarlo")


@pytest.mark.parametrize("family", FAMILIES)
def test_one_task_is_enough(family):
    workflow = FAMILIES[family](1, seed=4)
    assert len(workflow) == 1 and not workflow.edges


# --- streams and suites ----------------------------------------------------------------------


def test_mean_work_by_hand():
    # cpu: mean tasks 50, 32.5, 75 x 6.3 cores x mean duration, over 8 x 1.5 + 16 x 1.2 + 32 = 63.2 cores.
    tasks = {"monte_carlo": 50, "ml_pipeline": 32.5, "etl": 75}
    core_s = sum(tasks[f] * MEAN_CORES * MEAN_S[f] for f in ARTICLE_FAMILIES) / 3
    work = mean_work_s()
    assert work[0] == pytest.approx(core_s / 63.2, rel=0.03)
    # memory: 3.25 GB per core on average, 32 x 1.5 + 64 x 1.2 + 128 = 252.8 GB.
    assert work[1] == pytest.approx(core_s * 3.25 / 252.8, rel=0.03)
    assert work.argmax() == 0


def test_mean_work_by_another_sample():
    cluster = Cluster((VM("a", 4, 20, 30, speed=2.0), VM("b", 16, 20, 3)))  # offers 24 cores, 60 GB, 63 Gbit/s
    held = np.zeros(3)
    for seed in range(400):
        for task in etl(40, seed=seed).tasks:
            held += np.array([task.cpu, task.memory_gb, task.bandwidth_gbps]) * task.duration_mean_s / 400
    expected = held / [24, 60, 63]
    assert mean_work_s(["etl"], cluster, n_tasks=40) == pytest.approx(expected, rel=0.04)


def test_poisson_stream_arrivals():
    stream = poisson_stream(4000, load=0.5, seed=3, families="etl,ml_pipeline", n_tasks=2)
    arrivals = np.array(stream.arrivals_s)
    gaps = np.diff(arrivals)
    mean_gap_s = mean_work_s(("etl", "ml_pipeline"), n_tasks=2).max() / 0.5
    assert arrivals[0] == 0 and len(stream) == 4000
    assert gaps.mean() == pytest.approx(mean_gap_s, rel=0.05)
    # Exponential gaps: standard deviation = mean, a share of 1/e is longer than the mean.
    assert gaps.std() == pytest.approx(mean_gap_s, rel=0.08)
    assert np.mean(gaps > mean_gap_s) == pytest.approx(1 / math.e, abs=0.03)
    assert abs(sum(w.family == "etl" for w in stream.workflows) / 4000 - 0.5) < 0.03
    assert np.array_equal(arrivals, np.round(arrivals, 3))


def test_load_and_cluster_only_stretch_the_arrivals():
    full, half = (poisson_stream(10, load=load, seed=5) for load in (0.9, 0.45))
    assert full.workflows == half.workflows
    assert np.array(half.arrivals_s) == pytest.approx(2 * np.array(full.arrivals_s), abs=0.002)
    # The same cores without speeds: 56 instead of 63.2.
    slow = poisson_stream(10, load=0.9, seed=5, cluster=Cluster.default())
    assert np.array(slow.arrivals_s) == pytest.approx(63.2 / 56 * np.array(full.arrivals_s), abs=0.002)


def test_poisson_stream_seeds():
    assert poisson_stream(seed=1) == poisson_stream(seed=1)
    streams = [poisson_stream(seed=s) for s in range(5)]
    assert len({s.arrivals_s for s in streams}) == 5
    assert len({w for s in streams for w in s.workflows}) == 100
    assert {w.family for s in streams for w in s.workflows} == set(ARTICLE_FAMILIES)
    assert all(len(s) == 20 for s in streams)


@pytest.mark.parametrize(
    "parameters, message",
    [
        ({"workflows": 0}, "workflows must be a whole number of at least 1, got 0"),
        ({"load": 0}, "load must be above 0, got 0"),
        ({"load": -1}, "load must be at least 0, got -1"),
        ({"families": ()}, "at least one family"),
        ({"families": ("etl", "best")}, "unknown family 'best'"),
        ({"n_tasks": [3]}, "n_tasks must be a whole number"),
        ({"seed": 1.5}, "seed must be a whole number"),
        ({"speed": 1}, "has no parameter speed"),
        ({"cluster": Cluster((VM(0, 32, 128, 0),))}, "need bandwidth, of which the cluster has none"),
    ],
)
def test_bad_streams(parameters, message):
    with pytest.raises(WorkflowError, match=message):
        poisson_stream(**parameters)


def test_suites():
    for seed, family in enumerate(ARTICLE_FAMILIES):
        workload, cluster = suite_case("single", seed)
        assert workload.workflows[0].family == family and workload.arrivals_s == (0.0,)
        assert cluster == Cluster.default()
    workload, cluster = suite_case("stream", 3, workflows=12, load=0.85)
    assert workload == poisson_stream(12, 0.85, seed=3) and cluster == Cluster.stream()
    workload, cluster = suite_case("thesis", 3, n_tasks=20)
    assert workload.workflows == (thesis_dag(20, seed=3),) and cluster.capacity.tolist() == [[100, 100, 0]]
    assert all(suite_case(suite, 8)[0] == suite_case(suite, 8)[0] for suite in SUITES)
    with pytest.raises(WorkflowError, match="unknown suite 'double'; choose one of single, stream, thesis"):
        suite_case("double", 0)


def test_seed_ranges_do_not_overlap():
    ranges = sorted(SEED_RANGES.values(), key=lambda r: r.start)
    assert all(a.stop <= b.start for a, b in zip(ranges, ranges[1:]))
    assert set(SEED_RANGES) == {"train", "validation", "test"}
