"""Animated figures: frames drawn one after another and written as a GIF, the same bytes each time."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

from matplotlib import rc_context

from thesis_lib.files import write_bytes
from thesis_lib.plots.style import SAVING
from thesis_lib.workflow import WorkflowError

if TYPE_CHECKING:
    from matplotlib.figure import Figure

GIF_DPI = 100


@dataclass(frozen=True)
class Film:
    """A figure that changes. show(k) turns it into frame k of `frames`, whatever it showed before."""

    figure: Figure
    show: Callable[[int], None]
    frames: int
    per_second: int = 10


def save_film(film: Film, path: str | Path) -> Path:
    """Write the film to `path` (.gif) in one step, and return the path; WorkflowError when that is not possible."""
    from matplotlib.animation import PillowWriter

    path = Path(path)
    if path.suffix.lower() != ".gif":
        raise WorkflowError(f"{path}: a film is saved as .gif, got {path.suffix or 'no ending'!r}")
    writer = PillowWriter(fps=film.per_second)
    with TemporaryDirectory(prefix="thesis-film-") as folder, rc_context(SAVING):
        target = Path(folder) / "film.gif"
        with writer.saving(film.figure, str(target), GIF_DPI):
            for k in range(film.frames):
                film.show(k)
                writer.grab_frame()
        return write_bytes(path, target.read_bytes(), make_folder=True)
