"""The CSV triple of the HEFT papers and the Alibaba trace in its three layouts."""

import shutil
from pathlib import Path

import pytest

from thesis_lib.formats import detect_format, load_workflow, load_workload
from thesis_lib.workflow import WorkflowError

FIXTURES = Path(__file__).parent / "fixtures" / "formats"
TRIPLE = ("chain_task_exe_time.csv", "chain_task_connectivity.csv", "chain_resource_BW.csv")


# --- the triple -------------------------------------------------------------------------


def copy_triple(folder: Path) -> Path:
    for name in TRIPLE:
        shutil.copyfile(FIXTURES / name, folder / name)
    return folder / TRIPLE[0]


def test_triple_carries_runtimes_data_and_its_cluster():
    workflow = load_workflow(FIXTURES / TRIPLE[0])
    assert detect_format(FIXTURES / TRIPLE[0]) == "hetero-csv" and workflow.name == "chain"
    assert [dict(t.runtime_s) for t in workflow.tasks] == [
        {"P_0": 2, "P_1": 4},
        {"P_0": 3, "P_1": 3},
        {"P_0": 5, "P_1": 1},
    ]
    assert workflow.mean_s.tolist() == [3, 3, 3] and workflow.std_s.tolist() == [0, 0, 0]
    assert dict(workflow.tasks[2].data_mb) == {"T_0": 6, "T_1": 4}
    rate = workflow.cluster.link_mb_per_s  # 10 MB from P_0 to P_1 take 10 / 2 s, back 10 / 5 s
    assert 10 / rate[0, 1] == pytest.approx(5.0) and 10 / rate[1, 0] == pytest.approx(2.0) and 10 / rate[0, 0] == 0
    assert [(vm.id, vm.cpu, vm.memory_gb, vm.speed) for vm in workflow.cluster.vms] == [
        ("P_0", 1, 0, 1),
        ("P_1", 1, 0, 1),
    ]
    assert [vm.bandwidth_gbps for vm in workflow.cluster.vms] == pytest.approx([0.016, 0.04])


def test_a_folder_with_a_triple_is_one_workflow(tmp_path):
    copy_triple(tmp_path)
    assert [w.name for w in load_workload(tmp_path).workflows] == ["chain"]


@pytest.mark.parametrize(
    ("name", "text", "words"),
    [
        (TRIPLE[1], None, "chain_task_connectivity.csv (needed beside it): no such file"),
        (TRIPLE[1], "T,T0,T1\nT0,0,1\nT1,0,0\n", "is 2 x 2, but chain_task_exe_time.csv has 3 tasks; it must be 3 x 3"),
        (TRIPLE[2], '"', "chain_resource_BW.csv: holds no table"),
        (TRIPLE[2], "P,P_0\nP_0,0\n", "is 1 x 1, but chain_task_exe_time.csv has 2 VMs"),
        (TRIPLE[2], "P,P_0,P_1\nP_0,0,0\nP_1,1,0\n", "the rate from P_0 to P_1 is 0"),
        (TRIPLE[1], "T,T0,T1,T2\nT0,0,1,x\nT1,0,0,1\nT2,0,0,0\n", "line 2, column 'T2' must be a number, got 'x'"),
        (TRIPLE[1], "T,T0,T1,T2\nT0,0,1,1\nT1,1,0,1\nT2,0,0,0\n", "cycle"),
        (TRIPLE[1], "T,T0,T1,T2\nT0,0,-1,1\nT1,0,0,1\nT2,0,0,0\n", "at least 0, got -1"),
        (TRIPLE[0], "TP,P_0,P_1\nT_0,2,\nT_1,3,3\nT_2,5,1\n", "line 2, column 'P_1' must be a number, got ''"),
        (TRIPLE[0], "TP,P_0,P_1\nT_0,2,1\nT_1,3\nT_2,5,1\n", "line 3 has 2 columns, the head line 3"),
        (TRIPLE[0], "TP,P_0,P_1\nT_0,2,1\nT_0,3,3\nT_2,5,1\n", "duplicate task id 'T_0'"),
        (TRIPLE[0], "TP,P_0,P_0\nT_0,2,1\nT_1,3,3\nT_2,5,1\n", "VM"),
    ],
)  # fmt: skip
def test_triple_faults(name, text, words, tmp_path):
    path = copy_triple(tmp_path)
    if text is None:
        (tmp_path / name).unlink()
    else:
        (tmp_path / name).write_text(text)
    with pytest.raises(WorkflowError) as caught:
        load_workflow(path)
    assert str(caught.value).startswith(f"{path}: ") and words in str(caught.value)


def test_the_wrong_file_of_a_triple_says_which_to_give():
    with pytest.raises(WorkflowError, match=r"give the one named \*_task_exe_time.csv"):
        load_workflow(FIXTURES / TRIPLE[1])


# --- Alibaba ----------------------------------------------------------------------------


def test_batch_task_gives_jobs_with_arrivals():
    workload = load_workload(FIXTURES / "batch_task.csv")
    assert detect_format(FIXTURES / "batch_task.csv") == "alibaba"
    assert [w.name for w in workload.workflows] == ["j_1", "j_2", "j_1b"]
    assert workload.arrivals_s == (0.0, 30.0, 80.0)  # first starts at 120, 150 and 200
    first, second, third = workload.workflows
    assert first.edges == [("M1", "R2_1")] and len(first) == 3 and first.mean_s.tolist() == [10, 20, 1]
    assert first.demand[:2, 0].tolist() == [0.5, 2.0]
    assert first.demand[:2, 1].tolist() == pytest.approx([0.32, 1.28])  # 0.25 % and 1 % of 128 GB
    assert second.edges == [("M1", "R3_1_2"), ("M2", "R3_1_2")] and second.mean_s.tolist() == [5, 10, 20]
    assert (second.tasks[1].memory_gb, second.tasks[2].cpu) == (0.0, 1.0)
    assert second.warnings == ("job j_2: no planned cpu or memory, taken as 1 core or 0 GB: task M1, M2",)
    assert first.warnings == (
        "2 of 9 rows are not Terminated and were left out: 1 Failed, 1 Running",
        "1 of 7 rows state several instances; each row is one task all the same",
    )
    assert len(third) == 1 and third.edges == [] and "'1' of J2_1" in third.warnings[0]


def test_spar_and_cloudsimpy_layouts():
    spar = load_workload(FIXTURES / "spar.csv")
    assert detect_format(FIXTURES / "spar.csv") == "alibaba-spar" and spar.arrivals_s == (0.0, 2.5)
    assert spar.workflows[0].edges == [("M1", "J3_1_2"), ("M2", "J3_1_2")]
    assert spar.workflows[0].mean_s.tolist() == [43, 0, 40] and spar.workflows[0].demand[1].tolist() == [1.5, 0.32, 0]
    simpy = load_workflow(FIXTURES / "cloudsimpy.csv")
    assert detect_format(FIXTURES / "cloudsimpy.csv") == "alibaba-cloudsimpy"
    assert simpy.edges == [("1", "2_1"), ("1", "3_1_2"), ("2_1", "3_1_2")] and simpy.mean_s.tolist() == [10, 20, 30]
    assert simpy.demand[:, :2].tolist() == [[1, 32], [2, 0], [1, 0]]


def test_several_workflows_in_one_file_point_to_load_workload():
    with pytest.raises(WorkflowError, match="holds 2 workflows, not one; load it with load_workload"):
        load_workflow(FIXTURES / "spar.csv")


def job(*names: str) -> str:
    return "".join(f"{name},1,j,1,Terminated,10,20,100,1\n" for name in names)


def load_job(folder: Path, text: str):
    path = folder / "batch_task.csv"
    path.write_text(text)
    return load_workflow(path)


@pytest.mark.parametrize(
    ("names", "edges", "lost"),
    [
        (("M1", "R2_Stg4"), [], "'Stg4' of R2_Stg4"),
        (("M1", "R2_1_"), [("M1", "R2_1_")], "'' of R2_1_"),
        (("M1", "R2_1_9"), [("M1", "R2_1_9")], "'9' of R2_1_9"),
        (("MergeTask", "M1", "J2_1"), [("M1", "J2_1")], None),
    ],
)
def test_names_seen_in_the_wild(names, edges, lost, tmp_path):
    workflow = load_job(tmp_path, job(*names))
    assert workflow.edges == edges
    assert [lost in w for w in workflow.warnings] == ([True] if lost else [])


def test_a_number_named_twice_in_one_task_counts_once(tmp_path):
    workflow = load_job(tmp_path, job("M1", "R2_1_1"))
    assert workflow.edges == [("M1", "R2_1_1")] and "more than once" in workflow.warnings[0]


def test_instances_that_are_not_split_up_are_counted(tmp_path):
    rows = "M1,12,j,1,Terminated,10,20,100,1\nR2_1,1,j,1,Terminated,20,30,100,1\nR3_1,,j,1,Terminated,20,30,100,1\n"
    lost = "R4_1,9,j,1,Failed,20,30,100,1\n"
    workflow = load_job(tmp_path, rows + lost + "R5_1,2,j,1,Terminated,20,30,100,1\n")
    assert len(workflow) == 4
    assert workflow.warnings == (
        "1 of 5 rows are not Terminated and were left out: 1 Failed",
        "2 of 4 rows state several instances; each row is one task all the same",
    )


def test_instances_in_the_other_layouts(tmp_path):
    (tmp_path / "spar.csv").write_text("5.0,j_2,M1,43,100.0,0.5,3\n4.0,j_1,M1,43,100.0,0.5,1\n")
    early, late = load_workload(tmp_path / "spar.csv").workflows
    assert late.warnings == () and early.warnings[0].startswith("1 of 2 rows state several instances")
    simpy = (FIXTURES / "cloudsimpy.csv").read_text()
    assert "instances" not in " ".join(load_workflow(FIXTURES / "cloudsimpy.csv").warnings)
    (tmp_path / "simpy.csv").write_text(simpy.replace("0,1,1,A,7", "0,1,4,A,7"))
    assert load_workflow(tmp_path / "simpy.csv").warnings[0].startswith("1 of 3 rows state several instances")


def test_a_head_line_is_passed_over(tmp_path):
    head = "task_name,instance_num,job_name,task_type,status,start_time,end_time,plan_cpu,plan_mem\n"
    assert len(load_job(tmp_path, head + job("M1"))) == 1


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (job("M1_2", "R2_1"), "job j: the dependencies contain a cycle: 'M1_2' -> 'R2_1' -> 'M1_2'"),
        (job("M1_1"), "cycle: 'M1_1' -> 'M1_1'"),
        (job("M1", "R1"), "line 2: job j: tasks 'M1' and 'R1' are both number 1"),
        (job("task_x", "task_x"), "job j: duplicate task id 'task_x'"),
        ("M1,1,j,1,Terminated,30,20,100,1\n", "line 1: end_time 20 is before start_time 30"),
        (job("M1") + "M2,1,j,1,Terminated,x,20,100,1\n", "line 2: start_time must be a number, got 'x'"),
        (job("M1") + "M2,1,j,1,Terminated,1,20,nan,1\n", "line 2: plan_cpu must be a number, got 'nan'"),
        (job("M1") + "M2,1,j,1,Terminated,1,20,-5,1\n", "line 2: plan_cpu must be at least 0, got -5"),
        (job("M1") + "M2,1,j,1,Terminated\n", "line 2 has 5 columns, expected 9"),
        (job("M1") + ",1,j,1,Terminated,1,2,3,4\n", "line 2: task_name is empty"),
        ("M1,1,j,1,Failed,30,0,,\n", "no row has status Terminated"),
    ],
)
def test_alibaba_faults(text, words, tmp_path):
    with pytest.raises(WorkflowError) as caught:
        load_job(tmp_path, text)
    assert str(caught.value).startswith(f"{tmp_path / 'batch_task.csv'}: ") and words in str(caught.value)
