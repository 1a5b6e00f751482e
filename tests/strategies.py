"""Random workloads and clusters for property tests."""

from hypothesis import strategies as st

from thesis_lib.cluster import VM, Cluster
from thesis_lib.workflow import Task, Workflow
from thesis_lib.workload import Workload

# Multiples of 1/4, so that sums of demands are exact.
AMOUNT = st.integers(0, 16).map(lambda quarter: quarter / 4)
SECONDS = st.one_of(st.just(0.0), st.integers(1, 60).map(float), st.floats(0.01, 100))


@st.composite
def clusters(draw, max_vms: int = 12) -> Cluster:
    """1 to `max_vms` VMs that differ in capacity and speed, at times with their own link matrix.

    The first VM has 4 of everything, so that every task drawn by `workflows` fits it.
    """
    count = draw(st.integers(1, max_vms))
    vms = [VM(0, 4, 4, 4, draw(st.sampled_from([1.0, 1.5])), 1.0)]
    for i in range(1, count):
        size = draw(st.sampled_from([1.0, 2.0, 4.0, 8.0]))
        vms.append(VM(i, size, size, size, draw(st.sampled_from([0.5, 1.0, 2.0]))))
    links = None
    if draw(st.booleans()):
        rate = st.sampled_from([0.08, 0.8, 8.0])
        links = draw(st.lists(st.lists(rate, min_size=count, max_size=count), min_size=count, max_size=count))
    return Cluster(tuple(vms), links)


@st.composite
def workflows(draw, cluster: Cluster, max_tasks: int = 15) -> Workflow:
    """A random DAG: any task may depend on up to four earlier ones, with or without data."""
    tasks = []
    for i in range(draw(st.integers(1, max_tasks))):
        parents = draw(st.lists(st.integers(0, i - 1), max_size=4, unique=True)) if i else []
        data = {p: draw(st.sampled_from([0.0, 0.0, 10.0, 250.0])) for p in parents}
        runtime = None
        if draw(st.integers(0, 4)) == 0:
            chosen = draw(st.sets(st.sampled_from([vm.id for vm in cluster.vms]))) | {0}
            runtime = {vm: draw(SECONDS) for vm in sorted(chosen)}
        mean = draw(SECONDS)
        tasks.append(
            Task(
                i,
                mean,
                draw(st.sampled_from([0.0, 0.15, 1.0])) * mean,
                draw(AMOUNT),
                draw(AMOUNT),
                draw(AMOUNT),
                dependencies=tuple(parents),
                data_mb=data,
                runtime_s=runtime,
            )  # fmt: skip
        )
    order = draw(st.permutations(tasks))
    return Workflow(tuple(order))


@st.composite
def workloads_on_clusters(draw, max_vms: int = 12, max_workflows: int = 4) -> tuple[Workload, Cluster]:
    """A workload of a few workflows and a cluster that can run it."""
    cluster = draw(clusters(max_vms))
    flows = draw(st.lists(workflows(cluster), min_size=1, max_size=max_workflows))
    arrivals = [draw(st.sampled_from([0.0, 0.0, 7.0, 30.0])) for _ in flows]
    return Workload(tuple(flows), tuple(arrivals)), cluster
