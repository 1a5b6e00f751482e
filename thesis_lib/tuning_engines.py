"""Where the trials of a search run: in processes of this machine (joblib) or on a Ray cluster.

An engine is a function that checks what it needs and returns `run(task, numbers, jobs)`, which
calls `task(number)` for every number and yields the results as they end, in any order. Closing
the generator, or Ctrl-C, stops what still runs.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from thesis_lib.workflow import WorkflowError

Task = Callable[[int], Any]
Run = Callable[[Task, Sequence[int], int | None], Iterator[Any]]


def local() -> Run:
    """Processes of this machine with one thread each; a single job runs in this process."""
    return _run_local


def _run_local(task: Task, numbers: Sequence[int], jobs: int | None) -> Iterator[Any]:
    import joblib

    jobs = min(jobs or joblib.cpu_count(), len(numbers))
    if jobs == 1:
        yield from map(task, numbers)
        return
    from joblib.externals.loky import get_reusable_executor

    finished = False
    try:
        with joblib.parallel_config("loky", inner_max_num_threads=1):
            run = joblib.Parallel(n_jobs=jobs, return_as="generator_unordered", pre_dispatch=jobs, batch_size=1)
            yield from run(joblib.delayed(task)(number) for number in numbers)
        finished = True
    finally:
        if not finished:  # what still runs would go on to its end
            get_reusable_executor().shutdown(wait=False, kill_workers=True)


def ray() -> Run:
    """Ray, on the cluster that RAY_ADDRESS names, else on this machine; an extra that not everyone installs."""
    try:
        import ray
    except ImportError:
        raise WorkflowError(
            "the engine ray needs Ray, which is not installed: pip install 'ray[default]', or take --engine local"
        ) from None
    return lambda task, numbers, jobs: _run_ray(ray, task, numbers, jobs)


def _run_ray(ray: Any, task: Task, numbers: Sequence[int], jobs: int | None) -> Iterator[Any]:
    cluster = {} if os.environ.get("RAY_ADDRESS") else {"num_cpus": jobs, "include_dashboard": False}
    started = not ray.is_initialized()
    if started:
        ray.init(log_to_driver=False, **cluster)
    running: list[Any] = []
    try:
        remote = ray.remote(num_cpus=1, max_retries=0)(lambda number: task(number))
        waiting = list(numbers)[::-1]
        limit = jobs or max(1, int(ray.cluster_resources().get("CPU", 1)))
        while waiting or running:
            while waiting and len(running) < limit:
                running.append(remote.remote(waiting.pop()))
            ended, running = ray.wait(running, num_returns=1)
            yield ray.get(ended[0])
    finally:
        for reference in running:
            ray.cancel(reference, force=True)
        if started:
            ray.shutdown()


ENGINES: dict[str, Callable[[], Run]] = {"local": local, "ray": ray}
