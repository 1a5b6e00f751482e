"""The scheduler `drl` with agents of drawn weights: everything but its skill."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.random_agents import random_agent
from tests.strategies import workloads_on_clusters
from tests.test_schedulers import decides_the_same_until_the_draws_show
from thesis_lib import agents
from thesis_lib.agents import save_agent_file
from thesis_lib.cluster import Cluster
from thesis_lib.generators import thesis_dag
from thesis_lib.schedulers import make
from thesis_lib.schedulers.base import Scheduler
from thesis_lib.schedulers.learned import Drl
from thesis_lib.schedulers.learned_search import DrlSearch
from thesis_lib.simulator import Problem, Simulator, simulate
from thesis_lib.workflow import WorkflowError
from thesis_lib.workload import Workload, duration_factors, poisson_stream

AGENTS = [random_agent(0), random_agent(1, network="pair_mlp"), random_agent(2, features="article_4")]


@settings(max_examples=40, deadline=None)
@given(case=workloads_on_clusters(), seed=st.integers(0, 99), which=st.integers(0, 2))
def test_the_compiled_run_equals_step_by_step_and_is_valid(case, seed, which):
    problem, factor, drl = Problem(*case), duration_factors(case[0], seed), Drl(AGENTS[which])
    schedules = []
    for run in (drl.run, lambda simulator: Scheduler.run(drl, simulator)):
        simulator = Simulator(problem, factor)
        drl.reset(*case, seed)
        run(simulator)
        schedules.append(simulator.schedule())
        schedules[-1].validate()
    assert schedules[0].same_as(schedules[1])


def test_it_takes_the_action_with_the_largest_logit():
    case = poisson_stream(workflows=3, load=1.2, seed=2), Cluster.stream()
    problem, drl, agent = Problem(*case), Drl(AGENTS[0]), random_agent(0)
    simulator = Simulator(problem, duration_factors(case[0], 1))
    drl.reset(*case, 0)
    waits = 0
    while not simulator.done:
        before = simulator.state.fingerprint()
        action = drl.decide(simulator.state)
        assert simulator.state.fingerprint() == before
        assert action == agent.action_of(simulator.state, int(agent.logits(simulator.state).argmax()))
        waits += action is None
        simulator.wait() if action is None else simulator.place(*action)
    assert waits > 0


@pytest.mark.parametrize("seed", range(2))
def test_decisions_do_not_depend_on_a_draw_before_it_shows(seed):
    problem = Problem(poisson_stream(workflows=4, load=1.2, seed=seed), Cluster.stream())
    for agent in AGENTS:
        assert decides_the_same_until_the_draws_show(lambda factor: Drl(agent), problem)  # noqa: B023


@pytest.mark.parametrize("seed", range(3))
def test_decisions_do_not_depend_on_workflows_that_have_not_arrived(seed):
    whole = poisson_stream(workflows=5, load=1.1, seed=seed)
    cut = Workload(whole.workflows[:3], whole.arrivals_s[:3])
    agent = random_agent(0)
    agent.weights["wait_2.bias"] -= 50  # never waits while it may place, so that much starts early
    one, two = (simulate(Drl(agent), workload, Cluster.stream(), seed=4) for workload in (whole, cut))
    early = two.start_s < whole.arrivals_s[3]
    assert early.sum() > 10
    assert np.array_equal(one.start_s[: cut.n_tasks][early], two.start_s[early])
    assert np.array_equal(one.vm[: cut.n_tasks][early], two.vm[early])


def test_an_agent_in_torch_runs_step_by_step():
    drl = Drl(random_agent(3, network="fixed_gcn", n_vms=3))
    done = simulate(drl, poisson_stream(workflows=2, seed=1), Cluster.stream(), seed=2)
    done.validate()
    assert done.decision_latency_s > 0


def test_the_model_is_given_by_object_name_or_path(tmp_path, monkeypatch):
    monkeypatch.setattr(agents, "MODELS", tmp_path)
    agent = random_agent(5, name="five")
    path = save_agent_file(tmp_path / "five.npz", agent.meta, agent.weights)
    assert make("drl", model="five").model_name == make("drl", model=path).model_name == Drl(agent).model_name == "five"
    with pytest.raises(WorkflowError, match="unknown agent 'six'; .* choose one of five"):
        make("drl", model="six")


def test_without_a_model_it_takes_the_shipped_one_at_reset(tmp_path, monkeypatch):
    monkeypatch.setattr(agents, "MODELS", tmp_path)
    case = poisson_stream(workflows=2, seed=1), Cluster.stream()
    drl = make("drl")
    assert drl.model_name is None
    with pytest.raises(WorkflowError, match="names no agent for problems of the kind 'stream'"):
        simulate(drl, *case)
    agent = random_agent(5, name="five")
    save_agent_file(tmp_path / "five.npz", agent.meta, agent.weights)
    (tmp_path / "manifest.json").write_text('{"default": {"stream": "five"}, "models": {"five": {}}}')
    assert simulate(drl, *case).scheduler == "drl"
    assert drl.model_name == "five"


# --- with search --------------------------------------------------------------------------


def test_search_on_streams_is_deterministic_valid_and_leaves_the_state_alone():
    case = poisson_stream(workflows=3, load=1.2, seed=5), Cluster.stream()
    search = DrlSearch(random_agent(1), k=3, futures=4)
    runs = [simulate(search, *case, seed=3) for _ in range(2)]
    assert np.array_equal(runs[0].start_s, runs[1].start_s)
    runs[0].validate()
    simulator = Simulator(Problem(*case), duration_factors(case[0], 3))
    search.reset(*case, 3)
    before = simulator.state.fingerprint()
    search.decide(simulator.state)
    assert simulator.state.fingerprint() == before


def test_search_for_one_workflow_without_noise_is_never_worse_than_the_agent_and_ends_as_planned():
    for seed in range(6):
        workload = Workload.single(thesis_dag(20, seed=seed))
        alone = simulate(Drl(random_agent(seed)), workload, Cluster.thesis())
        found = simulate(DrlSearch(random_agent(seed), samples=8), workload, Cluster.thesis())
        found.validate()
        assert found.makespan_s == found.planned_makespan_s <= alone.makespan_s


@pytest.mark.parametrize(("network", "times"), [("pair_gcn", 8), ("fixed_gcn", 1)])
def test_an_agent_in_torch_runs_once_since_it_draws_nothing(network, times, monkeypatch):
    temperatures, finish = [], DrlSearch._finish

    def counted(search, run, temperature):
        temperatures.append(temperature)
        finish(search, run, temperature)

    monkeypatch.setattr(DrlSearch, "_finish", counted)
    agent = random_agent(4, network=network, n_vms=1 if network == "fixed_gcn" else None)
    workload = Workload.single(thesis_dag(8, seed=1))
    simulate(DrlSearch(agent, samples=8, lists=4), workload, Cluster.thesis()).validate()
    assert temperatures == [0.0] + [1.0] * (times - 1)
