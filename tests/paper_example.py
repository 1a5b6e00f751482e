"""The worked example of the HEFT paper: 10 tasks on 3 processors.

H. Topcuoglu, S. Hariri, M.-Y. Wu, "Performance-effective and low-complexity task
scheduling for heterogeneous computing", IEEE TPDS 13(3), 2002. Published there: HEFT
gives 80, CPOP 86. The optimum, 73, has been proved since by exact solvers.
"""

from thesis_lib.cluster import VM, Cluster
from thesis_lib.workflow import Task, Workflow
from thesis_lib.workload import Workload

HEFT_S, CPOP_S, OPTIMUM_S = 80, 86, 73

# Run time in seconds of tasks 1 to 10 on P1, P2 and P3.
RUNTIME_S = [
    (14, 16, 9), (13, 19, 18), (11, 13, 19), (13, 8, 17), (12, 13, 10),
    (13, 16, 9), (7, 15, 11), (5, 11, 14), (18, 12, 20), (21, 7, 16),
]  # fmt: skip

# (parent, child): seconds that their data takes between any two processors.
TRANSFER_S = {
    (1, 2): 18, (1, 3): 12, (1, 4): 9, (1, 5): 11, (1, 6): 14, (2, 8): 19, (2, 9): 16, (3, 7): 23,
    (4, 8): 27, (4, 9): 23, (5, 9): 13, (6, 8): 15, (7, 10): 17, (8, 10): 11, (9, 10): 13,
}  # fmt: skip


def paper_example() -> tuple[Workload, Cluster]:
    """The example with links of 1 MB/s, so that an edge has as many MB as it takes seconds."""
    cluster = Cluster(tuple(VM(name, 1, 0, 1) for name in ("P1", "P2", "P3")), [[0.008] * 3] * 3)
    tasks = []
    for child, row in enumerate(RUNTIME_S, 1):
        data_mb = {a: float(seconds) for (a, b), seconds in TRANSFER_S.items() if b == child}
        runtime_s = dict(zip(("P1", "P2", "P3"), map(float, row)))
        tasks.append(Task(child, sum(row) / 3, dependencies=tuple(data_mb), data_mb=data_mb, runtime_s=runtime_s))
    return Workload.single(Workflow(tuple(tasks))), cluster
