"""Public sample files against counts from an independent parse (tests skip without the files)."""

import numpy as np
import pytest

from thesis_lib.formats import detect_format, load_workflow, load_workload
from thesis_lib.ranks import critical_path

# file: format, tasks, edges, roots, leaves, total runtime s, critical path s
COUNTS = {
    "wfformat/helloworld-forkjoin-10-chameleon.v1.5.json": ("wfformat-1.5", 10, 16, 1, 1, 1028.704, 307.36),
    "wfformat/srasearch-chameleon-10a-001.v1.3.json": ("wfformat-1.3", 22, 30, 11, 1, 6996.779, 1005.858),
    "wfformat/srasearch-chameleon-10a-001.v1.5.json": ("wfformat-1.5", 22, 30, 11, 1, 6996.779, 1005.858),
    "wfformat/epigenomics-chameleon-hep-1seq-100k-001.v1.4.json": ("wfformat-1.4", 41, 48, 1, 1, 539.307, 104.822),
    "wfformat/bacass-dirt02-001.v1.5.json": ("wfformat-1.5", 11, 14, 4, 2, 3961.87, 2150.0),
    "wfformat/generated-epigenomics-45.v1.6.json": ("wfformat-1.6", 45, 53, 1, 1, 1579.176, 1051.418),
    "dax/Montage_25.xml": ("dax", 25, 45, 5, 1, 227.75, 46.51),
    "dax/Epigenomics_24.xml": ("dax", 24, 27, 1, 1, 17720.15, 5581.05),
    "dax/CyberShake_30.xml": ("dax", 30, 52, 2, 2, 828.65, 256.14),
}


@pytest.mark.parametrize("name", COUNTS)
def test_counts_of_real_files(name, shared_data):
    path = shared_data / name
    layout, tasks, edges, roots, leaves, total_s, critical_s = COUNTS[name]
    workflow = load_workflow(path)
    assert detect_format(path) == layout and workflow.warnings == ()
    assert (len(workflow), len(workflow.edges)) == (tasks, edges)
    assert (int((np.diff(workflow.parent_ptr) == 0).sum()), int((np.diff(workflow.child_ptr) == 0).sum())) == (
        roots,
        leaves,
    )
    assert workflow.mean_s.sum() == pytest.approx(total_s, abs=5e-4)
    assert critical_path(workflow)[0] == pytest.approx(critical_s, abs=5e-4)
    assert load_workflow(path, edges_from_files=True) == workflow  # every file edge is stated in these files


@pytest.mark.parametrize(
    ("name", "tasks", "edges_with_dummies", "total", "critical"),
    [("rand0000.stg", 50, 119, 262, 55), ("gaussian_elimination.stg", 18, 34, 600, 300)],
)
def test_counts_of_stg_files(name, tasks, edges_with_dummies, total, critical, shared_data):
    path = shared_data / "stg" / name
    workflow = load_workflow(path)
    rows = [line.split() for line in path.read_text().splitlines()[1:] if line.strip() and not line.startswith("#")]
    rows = [row for row in rows if row[0].isdigit()]
    assert sum(int(row[2]) for row in rows) == edges_with_dummies
    last = max(int(row[0]) for row in rows)
    dummy_edges = sum(int(row[2]) if int(row[0]) == last else row[3:].count("0") for row in rows)
    assert len(workflow) == tasks and len(workflow.edges) == edges_with_dummies - dummy_edges
    assert workflow.mean_s.sum() == total and critical_path(workflow)[0] == critical


def test_the_example_of_the_heft_paper(shared_data):
    workflow = load_workflow(shared_data / "hetero-csv" / "canonicalgraph_task_exe_time.csv")
    assert (len(workflow), len(workflow.edges), len(workflow.cluster)) == (10, 15, 3)
    assert dict(workflow.tasks[8].runtime_s) == {"P_0": 18, "P_1": 12, "P_2": 20}
    assert dict(workflow.tasks[9].data_mb) == {"T_6": 17, "T_7": 11, "T_8": 13}
    off_diagonal = workflow.cluster.link_mb_per_s[~np.eye(3, dtype=bool)]
    assert off_diagonal == pytest.approx(np.ones(6))  # 1 MB takes 1 s


def test_both_versions_of_one_run_agree(shared_data):
    old = load_workflow(shared_data / "wfformat" / "srasearch-chameleon-10a-001.v1.3.json")
    new = load_workflow(shared_data / "wfformat" / "srasearch-chameleon-10a-001.v1.5.json")
    facts = [
        {t.name: (t.duration_mean_s, t.memory_gb, sum(t.data_mb.values()), len(t.dependencies)) for t in w.tasks}
        for w in (old, new)
    ]
    assert facts[0].keys() == facts[1].keys()
    for name, values in facts[0].items():
        assert values == pytest.approx(facts[1][name])
    assert len({t.id for t in old.tasks} & {t.name for t in old.tasks}) == 0  # a name is never the key


def test_alibaba_samples(shared_data):
    spar = load_workload(shared_data / "alibaba" / "spar_batch_task_first1200.csv")
    assert (len(spar), spar.n_tasks, spar.arrivals_s[0]) == (302, 1198, 0.0)
    assert spar.workflows[0].edges == [("M1", "J3_1_2"), ("M2", "J3_1_2")]
    simpy = load_workflow(shared_data / "alibaba" / "cloudsimpy_job.csv")
    assert (len(simpy), len(simpy.edges), simpy.mean_s.sum()) == (6, 7, 600)
