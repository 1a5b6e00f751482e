"""The learning curve of a run: a small CSV that grows while it trains."""

from __future__ import annotations

import csv
import io
from collections import deque
from pathlib import Path
from typing import Any

import numpy as np

from thesis_lib.files import read_text, write_bytes
from thesis_lib.schedule import Schedule
from thesis_lib.schedulers import make
from thesis_lib.simulator import simulate
from thesis_lib.workflow import WorkflowError

# What an agent is compared with on each problem, the strongest rule first.
REFERENCES = {
    "stream": ("srw_patient", "srw", "heft_online"),
    "thesis": ("critical_path", "tetris", "heft_online"),
    "single": ("heft_online", "critical_path", "fcfs"),
}
EPISODES = 64  # the running means are over this many episodes
REMEDY = "start again without resume"


class RunningRatios:
    """Mean ratio of the last training episodes to each reference, same instances and same draws."""

    def __init__(self, problem: str):
        self.names = REFERENCES[problem]
        self._schedulers = [make(name) for name in self.names]
        self._ratios: dict[str, deque[float]] = {name: deque(maxlen=EPISODES) for name in self.names}
        self.episodes = 0

    def add(self, schedule: Schedule) -> None:
        """Take note of an episode that ended."""
        self.episodes += 1
        for name, scheduler in zip(self.names, self._schedulers):
            other = simulate(scheduler, schedule.workload, schedule.cluster, seed=schedule.seed)
            if other.mean_completion_s > 0:  # a small thesis DAG may consist of tasks of 0 s
                self._ratios[name].append(schedule.mean_completion_s / other.mean_completion_s)

    def means(self) -> dict[str, float]:
        """Ratio by reference, NaN before the first episode has ended."""
        return {name: float(np.mean(values)) if values else float("nan") for name, values in self._ratios.items()}

    def state(self) -> dict[str, Any]:
        """The count and the last ratios, for a checkpoint."""
        return {"episodes": self.episodes, "ratios": {name: list(values) for name, values in self._ratios.items()}}

    def restore(self, state: dict[str, Any]) -> None:
        """Go on from what `state` gave."""
        self.episodes = int(state["episodes"])
        for name, values in self._ratios.items():
            values.extend(state["ratios"][name])


class TrainingLog:
    """Rows of a CSV file, rewritten as a whole (it is small), so that it is never cut in the middle of a row."""

    def __init__(self, path: Path, columns: tuple[str, ...]):
        self.path, self.columns, self.rows = path, columns, []

    def resume(self, rows: int) -> None:
        """Keep the first `rows` rows of the file: what came after the checkpoint is made again.

        WorkflowError when the file is not the one that the checkpoint knows.
        """
        if rows == 0:
            return
        try:
            header, *found = csv.reader(io.StringIO(read_text(self.path)))
        except (WorkflowError, ValueError, csv.Error) as error:
            raise WorkflowError(f"{self.path}: {error}; {REMEDY}") from None
        if tuple(header) != self.columns or any(len(row) != len(header) for row in found):
            raise WorkflowError(f"{self.path}: its columns are not those of this run; {REMEDY}")
        if len(found) < rows:
            raise WorkflowError(f"{self.path}: has {len(found)} rows, but the checkpoint knows {rows}; {REMEDY}")
        self.rows = [dict(zip(header, row)) for row in found[:rows]]

    def add(self, **values: Any) -> None:
        """Append a row and write the file; columns not named stay empty."""
        rows = [*self.rows, {name: _shown(values.get(name)) for name in self.columns}]
        text = io.StringIO()
        writer = csv.DictWriter(text, self.columns, lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)
        write_bytes(self.path, text.getvalue().encode())
        self.rows = rows  # only now, so that a checkpoint never counts a row that is not in the file


def _shown(value: Any) -> str:
    if value is None or (isinstance(value, float) and np.isnan(value)):
        return ""
    return f"{value:.6g}" if isinstance(value, float) else str(value)
