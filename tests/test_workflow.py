"""Task, Workflow and Cluster: what is refused, and the arrays derived once."""

import json
import pickle
from time import perf_counter

import numpy as np
import pytest

from thesis_lib.cluster import VM, Cluster, exec_time_s
from thesis_lib.workflow import Task, Workflow, WorkflowError
from thesis_lib.workload import Workload


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


def test_a_long_cycle_is_found_quickly_and_told_briefly():
    n = 50_000
    tasks = tuple(Task(i, 1, dependencies=((i - 1) % n,)) for i in range(n))
    began = perf_counter()
    with pytest.raises(WorkflowError) as caught:
        Workflow(tasks)
    assert perf_counter() - began < 2  # 0.1 s; some 7 s where each step searches the whole way
    words = str(caught.value)
    assert "a cycle of 50000 tasks: " in words and len(words) < 250
    ids = [int(i) for i in words.split("tasks: ")[1].split(";")[0].replace("... -> ", "").split(" -> ")]
    assert ids[0] == ids[-1]
    steps = [(after - before) % n for before, after in zip(ids, ids[1:])]
    assert steps.count(1) == len(steps) - 1  # every arrow but the one beside the gap is an edge


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"dependencies": (7,), "data_mb": {7: 5, "7": 3}}, "data_mb names one id twice, as 7 and as '7'"),
        ({"runtime_s": {0: 5, "0": 3}}, "runtime_s names one id twice, as 0 and as '0'"),
        ({"runtime_s": {"": 5}}, "runtime_s key must be"),
        ({"runtime_s": [1, 2]}, "runtime_s must map ids to numbers"),
        ({"data_mb": 5}, "data_mb must map ids to numbers"),
        ({"name": 5}, "name must be a text, got 5"),
    ],
)
def test_refused_tasks(fields, words):
    with pytest.raises(WorkflowError, match=f"task 'x': {words}"):
        Task("x", 1, **fields)


@pytest.mark.parametrize("field", ["family", "name"])
@pytest.mark.parametrize("value", [3, None, b"etl"])
def test_labels_of_a_workflow_must_be_text(field, value):
    with pytest.raises(WorkflowError, match=f"the workflow's {field} must be a text"):
        Workflow((Task(0, 1),), **{field: value})


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
        ('[{"id": 0, "cpu": 1, "mem": 1, "bandwidth": 1, "speed": 0}]', "speed must be at least 1e-06"),
        ('[{"id": 0, "cpu": 1, "mem": 1, "bandwidth": 1, "speed": 1e-308}]', "speed must be at least 1e-06"),
        ('[{"id": 0, "cpu": 1, "mem": 1, "bandwidth": 1, "cpu": 2}]', "the key 'cpu' occurs twice"),
        ('[{"id": 0, "cpu": NaN, "mem": 1, "bandwidth": 1}]', "NaN is not a JSON number"),
        ('{"vms": [{"id": 0, "cpu": 1, "mem": 1, "bandwidth": 1}], "link_gpbs": [[0]]}', "unknown keys: 'link_gpbs'"),
        ('{"vms": [], "vms": [{"id": 0, "cpu": 1, "mem": 1, "bandwidth": 1}]}', "the key 'vms' occurs twice"),
        ("[" * 100_000, "nested too deeply"),
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


def test_a_cluster_file_may_hold_links(tmp_path):
    file = tmp_path / "pair.json"
    vms = [{"id": i, "cpu": 1, "mem": 1, "bandwidth": 1} for i in "ab"]
    file.write_text(json.dumps({"vms": vms, "link_gbps": [[0, 8], [4, 0]]}))
    cluster = Cluster.from_json(file)
    assert cluster.name == "pair"
    assert (cluster.link_mb_per_s[0, 1], cluster.link_mb_per_s[1, 0]) == (1000, 500)


def test_arrays_of_a_cluster_are_read_only():
    for array in (Cluster.stream().speed, Cluster.stream().capacity, Cluster.stream().link_mb_per_s):
        with pytest.raises(ValueError, match="read-only"):
            array[0] = 9


@pytest.mark.filterwarnings("error")
def test_run_times_beyond_all_numbers_are_refused():
    slow = Cluster((VM("slow", 1, 1, 1, speed=1e-6),))
    assert exec_time_s(Workflow((Task("t", 1e300),)), slow).tolist() == [[pytest.approx(1e306)]]
    with pytest.raises(WorkflowError, match="task 't' of 1e.305 s would run longer .* VM 'slow' of speed 1e-06"):
        exec_time_s(Workflow((Task("t", 1e305),)), slow)


def test_a_demand_may_exceed_a_capacity_by_rounding_alone():
    cluster = Cluster((VM("v", 0.3, 1, 1),))
    times = exec_time_s(Workflow((Task(0, 1, cpu=0.1 + 0.2), Task(1, 1, cpu=0.3 + 1e-8))), cluster)
    assert times.tolist() == [[1], [np.inf]]


def test_cluster_round_trip():
    for cluster in (Cluster.stream(), Cluster((VM(0, 1, 1, 1), VM("b", 1, 1, 1)), ((0, 2), (3, 0)))):
        assert Cluster.from_dict(cluster.to_dict()) == cluster


@pytest.mark.parametrize("character", ["\0", "\a", "\n", "\t", "\x7f", "\x85", "\ud800", "\ufffe"])
def test_control_characters_in_ids_are_refused(character):
    makers = (
        lambda i: Task(i, 1),
        lambda i: Task("a", 1, dependencies=(i,)),
        lambda i: Task("a", 1, runtime_s={i: 1}),
        lambda i: VM(i, 1, 1, 1),
    )
    for make in makers:
        assert make("任务 $a$ ½ 🚀") is not None
        with pytest.raises(WorkflowError, match="must not hold control characters"):
            make(f"a{character}b")


def test_names_may_have_line_ends_but_no_other_control_characters():
    assert Task(1, 1, name="one\ntwo\t").name == "one\ntwo\t"
    task = Task(1, 1)
    for make in (
        lambda n: Task(1, 1, name=n),
        lambda n: Workflow((task,), name=n),
        lambda n: Workflow((task,), family=n),
    ):
        with pytest.raises(WorkflowError, match="name must not hold control|family must not hold control"):
            make("a\0b")


TASK, MACHINE = Task(1, 1), VM("v", 1, 1, 1)
FLOW = Workflow((TASK,))


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: Task(1, 1, dependencies=3), "dependencies must be a list of ids, got 3"),
        (lambda: Task(1, 1, dependencies=None), "dependencies must be a list of ids, got None"),
        (lambda: Workflow(({"id": 1},)), "tasks must be a list of Task, but entry 0 is {'id': 1}"),
        (lambda: Workflow((TASK, "b")), "but entry 1 is 'b'"),
        (lambda: Workflow(TASK), "tasks must be a list of Task, got Task"),
        (lambda: Workflow(None), "tasks must be a list of Task, got NoneType"),
        (lambda: Workflow((TASK,), cluster=[MACHINE]), "cluster must be a Cluster or None"),
        (lambda: Workflow((TASK,), warnings=3), "warnings must be a list of str"),
        (lambda: Cluster(("a",)), "vms must be a list of VM, but entry 0 is 'a'"),
        (lambda: Cluster(MACHINE), "vms must be a list of VM, got VM"),
        (lambda: Cluster((MACHINE,), name=3), "the cluster's name must be a text"),
        (lambda: Cluster((MACHINE,), link_gbps=3), "link_gbps must be a 1 x 1 matrix"),
        (lambda: Cluster((MACHINE,), link_gbps=(1,)), "link_gbps must be a 1 x 1 matrix"),
        (lambda: Workload(("x",), (0,)), "workflows must be a list of Workflow, but entry 0 is 'x'"),
        (lambda: Workload(FLOW, (0,)), "workflows must be a list of Workflow, got Workflow"),
        (lambda: Workload((FLOW,), 0), "arrivals_s must be a list of"),
        (lambda: Workload((FLOW,), ("x",)), r"arrivals_s\[0\] must be a number"),
        (lambda: Workload((FLOW,), (0,), name=3), "the workload's name must be a text"),
        (lambda: Workload.single("x"), "workflows must be a list of Workflow, but entry 0 is 'x'"),
        (lambda: Workload.together(FLOW), "workflows must be a list of Workflow, got Workflow"),
        (lambda: Workload.together(3), "workflows must be a list of Workflow, got int"),
    ],
)
def test_arguments_of_another_kind_are_named(call, words):
    with pytest.raises(WorkflowError, match=words) as caught:
        call()
    assert "\n" not in str(caught.value)
