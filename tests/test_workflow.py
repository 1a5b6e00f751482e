"""Task, Workflow and Cluster: what is refused, and the arrays derived once."""

import pickle

import numpy as np
import pytest

from thesis_lib.cluster import VM, Cluster, exec_time_s
from thesis_lib.workflow import Task, Workflow, WorkflowError


def diamond() -> Workflow:
    return Workflow(
        (
            Task("a", 1),
            Task("b", 2, dependencies=("a",), data_mb={"a": 5}),
            Task("c", 3, dependencies=("a",)),
            Task("d", 4, dependencies=("c", "b")),
        )
    )


def test_arrays_of_a_diamond():
    w = diamond()
    assert w.parent_ptr.tolist() == [0, 0, 1, 2, 4]
    assert w.parent_idx.tolist() == [0, 0, 2, 1]
    assert w.parent_mb.tolist() == [5, 0, 0, 0]
    assert w.child_ptr.tolist() == [0, 2, 3, 4, 4]
    assert w.child_idx.tolist() == [1, 2, 3, 3]
    assert w.topological_order.tolist() == [0, 1, 2, 3]
    assert w.levels.tolist() == [0, 1, 1, 2]
    assert w.edges == [("a", "b"), ("a", "c"), ("c", "d"), ("b", "d")]
    with pytest.raises(ValueError):
        w.mean_s[0] = 9  # shared by everyone, so it is read-only


def test_topological_order_of_a_shuffled_file():
    w = Workflow((Task(3, 1, dependencies=(2,)), Task(1, 1), Task(2, 1, dependencies=(1,))))
    assert w.topological_order.tolist() == [1, 2, 0]


@pytest.mark.parametrize(
    ("tasks", "words"),
    [
        ([], "empty"),
        ([Task(1, 1), Task(1, 2)], "duplicate task id 1"),
        ([Task(1, 1), Task("1", 2)], "duplicate task id '1'"),
        ([Task(1, 1, dependencies=(9,))], "task 1 depends on 9, which does not exist"),
        ([Task(1, 1, dependencies=(1,))], "1 -> 1"),
        ([Task(1, 1, dependencies=(2,)), Task(2, 1, dependencies=(3,)), Task(3, 1, dependencies=(1,))], "cycle"),
        ([Task(0, 1), Task(1, 1, dependencies=(0, 0))], "lists a dependency twice"),
    ],
)
def test_refused_workflows(tasks, words):
    with pytest.raises(WorkflowError, match=words):
        Workflow(tuple(tasks))


def test_cycle_is_spelled_out_in_the_direction_of_the_edges():
    tasks = (
        Task("free", 1),
        Task("a", 1, dependencies=("c", "free")),
        Task("b", 1, dependencies=("a",)),
        Task("c", 1, dependencies=("b",)),
        Task("after", 1, dependencies=("c",)),
    )
    with pytest.raises(WorkflowError) as caught:
        Workflow(tasks)
    loop = str(caught.value).split("cycle: ")[1].split(";")[0].split(" -> ")
    edges = {(repr(p), repr(t.id)) for t in tasks for p in t.dependencies}
    assert loop[0] == loop[-1]
    assert len(loop) == 4
    assert all(edge in edges for edge in zip(loop, loop[1:]))


@pytest.mark.parametrize("value", [-1, float("nan"), float("inf"), "5", None, True])
@pytest.mark.parametrize("field", ["duration_mean_s", "duration_std_s", "cpu", "memory_gb", "bandwidth_gbps"])
def test_bad_numbers_are_refused(field, value):
    with pytest.raises(WorkflowError, match=f"task 'x': {field}"):
        Task(**{"id": "x", "duration_mean_s": 1, field: value})


@pytest.mark.parametrize("bad", [1.5, None, True, "", [1]])
def test_bad_ids_are_refused(bad):
    with pytest.raises(WorkflowError, match="task id must be"):
        Task(bad, 1)


def test_data_from_a_task_that_is_no_parent_is_refused():
    with pytest.raises(WorkflowError, match="data_mb names 7"):
        Task(1, 1, dependencies=(0,), data_mb={7: 3})


def test_workflows_are_values():
    assert diamond() == diamond()
    assert hash(diamond()) == hash(diamond())
    assert pickle.loads(pickle.dumps(diamond())) == diamond()


def test_networkx_view_keeps_ids_and_data():
    graph = diamond().to_networkx()
    assert set(graph.edges) == {("a", "b"), ("a", "c"), ("c", "d"), ("b", "d")}
    assert graph.edges["a", "b"]["data_mb"] == 5


def test_default_cluster_is_the_articles():
    assert Cluster.default().capacity.tolist() == [[8, 32, 10], [16, 64, 20], [32, 128, 40]]
    assert [vm.id for vm in Cluster.default().vms] == [0, 1, 2]


def test_link_is_the_smaller_bandwidth():
    links = Cluster.default().link_mb_per_s
    assert links[0, 2] == 1250  # 10 Gbit/s
    assert links[1, 2] == 2500
    assert np.isinf(links[1, 1])


def test_mean_transfer_leaves_out_the_diagonal():
    cluster = Cluster((VM(0, 1, 1, 0.08), VM(1, 1, 1, 0.08)))  # 10 MB/s
    assert cluster.mean_s_per_mb == pytest.approx(0.1)
    assert Cluster((VM(0, 1, 1, 1),)).mean_s_per_mb == 0


def test_execution_times():
    w = Workflow((Task(0, 12, cpu=2), Task(1, 12, runtime_s={"fast": 1})))
    cluster = Cluster((VM("fast", 2, 1, 1, speed=3), VM("small", 1, 1, 1)))
    assert exec_time_s(w, cluster).tolist() == [[4, np.inf], [1, np.inf]]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("[]", "at least one VM"),
        ("{}", '"vms"'),
        ("[1]", "VM 0 must be an object"),
        ('[{"id": 0, "cpu": 1}]', "lacks mem, bandwidth"),
        ('[{"id": 0, "cpu": -1, "mem": 1, "bandwidth": 1}]', "cpu must be at least 0"),
        ('[{"id": 0, "cpu": 1, "mem": 1, "bandwidth": 1, "speed": 0}]', "speed must be above 0"),
        ('[{"id": 0, "cpu": 1, "mem": 1, "bandwidth": 1, "sped": 2}]', "unknown keys: sped"),
        ('[{"id": 0, "cpu": "8", "mem": 1, "bandwidth": 1}]', "cpu must be a number"),
        ("[", "not valid JSON"),
        ('{"vms": [{"id": 0, "cpu": 1, "mem": 1, "bandwidth": 1}], "link_gbps": [[1, 2]]}', "1 x 1 matrix"),
    ],
)
def test_refused_cluster_files_name_the_file(tmp_path, text, words):
    file = tmp_path / "vms.json"
    file.write_text(text)
    with pytest.raises(WorkflowError, match=words) as caught:
        Cluster.from_json(file)
    assert str(file) in str(caught.value)


def test_cluster_round_trip():
    for cluster in (Cluster.stream(), Cluster((VM(0, 1, 1, 1), VM("b", 1, 1, 1)), ((0, 2), (3, 0)))):
        assert Cluster.from_dict(cluster.to_dict()) == cluster
