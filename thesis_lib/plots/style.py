"""The look of every figure: palette, widths, fonts, and saving with the same bytes each time.

The colours are those of Okabe and Ito ("Color universal design", 2008), which stay
apart for colour-blind readers; hatches and markers tell the same things without
colour. Text is DejaVu Sans with a shipped Chinese font behind it (in Chinese
figures in front of it), so that no character turns into a box.
"""

from __future__ import annotations

from contextlib import contextmanager
from functools import cache
from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING

from matplotlib import rc_context
from matplotlib.figure import Figure

from thesis_lib.files import write_bytes
from thesis_lib.workflow import WorkflowError

if TYPE_CHECKING:
    from collections.abc import Iterator

SINGLE_IN = 3.5  # width of one column of a paper, inches
DOUBLE_IN = 7.2  # width of two columns

BLUE, ORANGE, GREEN, RED = "#0072B2", "#E69F00", "#009E73", "#D55E00"
SKY, PINK, YELLOW, BLACK = "#56B4E9", "#CC79A7", "#F0E442", "#1A1A1A"
GREY, LIGHT_GREY, EDGE_GREY = "#6E6E6E", "#EDEDED", "#8A8A8A"
PALETTE = (BLUE, ORANGE, GREEN, PINK, SKY, RED, YELLOW, GREY)
MARKERS = ("o", "s", "^", "D", "v", "P", "X", "*")
HATCHES = ("", "////", "....", "xxxx", "\\\\\\\\", "oooo", "----", "++++")
PNG_DPI = 300
HEAT_MAP = "cividis"  # its lightness rises steadily, so that it also reads in grey

FONT_FILE = Path(__file__).parents[1] / "assets" / "fonts" / "ThesisHeiSC-Regular.ttf"
LATIN_FAMILY, CHINESE_FAMILY = "DejaVu Sans", "Thesis Hei SC"
LANGUAGES = ("en", "zh")

# What matplotlib reads when it writes a file, whatever was set when the figure was drawn.
SAVING = {"pdf.fonttype": 42, "ps.fonttype": 42, "svg.fonttype": "path", "svg.hashsalt": "thesis_lib",
           "pdf.compression": 6, "savefig.dpi": PNG_DPI, "savefig.bbox": "standard", "savefig.facecolor": "white",
           "axes.unicode_minus": True, "path.simplify": True, "path.simplify_threshold": 1 / 9}  # fmt: skip
# Dates and program versions would change the bytes of a file whose picture is the same.
_METADATA = {
    "pdf": {"CreationDate": None, "Creator": None, "Producer": None},
    "svg": {"Date": None, "Creator": None},
    "png": {"Software": None},
}


def check_language(lang: str) -> str:
    """Return `lang` if texts exist for it ("en" or "zh"), else raise WorkflowError."""
    if lang not in LANGUAGES:
        raise WorkflowError(f"lang must be one of {', '.join(LANGUAGES)}, got {lang!r}")
    return lang


@cache
def _register_font() -> None:
    from matplotlib import font_manager

    if not FONT_FILE.is_file():
        raise WorkflowError(f"{FONT_FILE}: the Chinese font is missing; install thesis_lib with its assets")
    font_manager.fontManager.addfont(str(FONT_FILE))


@contextmanager
def figure_style(lang: str = "en") -> Iterator[None]:
    """Within this block new artists take the look of the thesis; rcParams are as before afterwards."""
    check_language(lang)
    _register_font()
    families = [LATIN_FAMILY, CHINESE_FAMILY] if lang == "en" else [CHINESE_FAMILY, LATIN_FAMILY]
    look = {
        "font.family": families, "font.size": 8, "axes.titlesize": 8.5, "axes.labelsize": 8,
        "xtick.labelsize": 7.5, "ytick.labelsize": 7.5, "legend.fontsize": 7.5, "figure.titlesize": 9,
        "axes.spines.top": False, "axes.spines.right": False, "axes.linewidth": 0.7, "axes.edgecolor": BLACK,
        "axes.grid": False, "grid.color": "#D9D9D9", "grid.linewidth": 0.5, "axes.axisbelow": True,
        "xtick.major.width": 0.7, "ytick.major.width": 0.7, "lines.linewidth": 1.3, "lines.markersize": 4.5,
        "legend.frameon": False, "hatch.linewidth": 0.6, "patch.linewidth": 0.6, "figure.dpi": 110,
        "axes.unicode_minus": True, "mathtext.default": "regular",
        "text.parse_math": False,  # an id is written as it stands, dollar signs and all
    }  # fmt: skip
    # Start from matplotlib's defaults, so that a user's own settings do not leak into a figure.
    with rc_context():
        _reset_defaults()
        from matplotlib import rcParams

        rcParams.update(look | SAVING)
        yield


def _reset_defaults() -> None:
    from matplotlib import rcParams, rcParamsDefault

    # The backend belongs to the running program: touching it would switch it.
    rcParams.update({k: v for k, v in rcParamsDefault.items() if not k.startswith(("backend", "interactive"))})


class KitFigure(Figure):
    """A matplotlib Figure outside pyplot: nothing to close, and the same bytes whenever it is saved."""

    def savefig(self, fname, **kwargs) -> None:
        """Save as matplotlib does, with TrueType text, 300 dpi and no dates unless told otherwise."""
        kind = kwargs.get("format") or (Path(fname).suffix[1:] if isinstance(fname, (str, Path)) else "png")
        kwargs.setdefault("metadata", _METADATA.get(kind.lower()))
        with rc_context(SAVING):
            super().savefig(fname, **kwargs)

    def _repr_png_(self) -> bytes:
        """The picture that a notebook shows."""
        buffer = BytesIO()
        self.savefig(buffer, format="png", dpi=150)
        return buffer.getvalue()


def new_figure(width_in: float, height_in: float) -> KitFigure:
    """An empty figure that fits its labels by itself; call it within `figure_style`."""
    figure = KitFigure(figsize=(width_in, height_in), layout="constrained")
    figure.get_layout_engine().set(w_pad=0.03, h_pad=0.04)
    return figure


def save_figure(figure: Figure, path: str | Path) -> Path:
    """Write the figure to `path` (.pdf, .png or .svg) in one step, and return the path.

    The file is written under a temporary name and renamed, so a reader never sees
    half of it. Raises WorkflowError for another ending or a folder that cannot be written.
    """
    path = Path(path)
    kind = path.suffix[1:].lower()
    if kind not in _METADATA:
        raise WorkflowError(f"{path}: a figure is saved as .pdf, .png or .svg, got {path.suffix or 'no ending'!r}")
    buffer = BytesIO()
    with rc_context(SAVING):
        figure.savefig(buffer, format=kind, metadata=_METADATA[kind])
    write_bytes(path, _smaller_png(buffer) if kind == "png" else buffer.getvalue(), make_folder=True)
    return path


def _smaller_png(buffer: BytesIO) -> bytes:
    """The same picture with a palette of 256 colours: a third of the size, no visible difference in line drawings."""
    from PIL import Image

    picture = Image.open(buffer).convert("RGB")
    small = picture.quantize(256, method=Image.Quantize.MEDIANCUT, dither=Image.Dither.NONE)
    out = BytesIO()
    small.save(out, format="png", dpi=(PNG_DPI, PNG_DPI), optimize=True)
    return out.getvalue()
