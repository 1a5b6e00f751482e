"""Is this Python ready for the notebooks? Installed versions beside those that requirements.txt pins.

Versions come from the packages' metadata: nothing is imported, so the check is quick
and also works where a package is missing or broken.
"""

from __future__ import annotations

import re
import sys
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path

from thesis_lib.workflow import WorkflowError

REQUIREMENTS = Path(__file__).resolve().parents[1] / "requirements.txt"
LEAST_PYTHON = (3, 11)  # what the pinned numpy needs
PIN = re.compile(r"([A-Za-z0-9][A-Za-z0-9._-]*)\s*==\s*([^\s;#]+)")


@dataclass(frozen=True)
class Package:
    """One pinned package: its name, the version wanted and the version installed (None: absent)."""

    name: str
    pinned: str
    installed: str | None

    @property
    def fault(self) -> str:
        """What is wrong and what to do, in one line; empty when the pinned version is installed."""
        remedy = f"python -m pip install {self.name}=={self.pinned}"
        if self.installed is None:
            return f"{self.name} is missing; run: {remedy}"
        # "2.13.0+cpu" is a build of 2.13.0.
        if self.installed.split("+")[0] != self.pinned.split("+")[0]:
            return f"{self.name} is {self.installed}, requirements.txt pins {self.pinned}; run: {remedy}"
        return ""


def packages(requirements: str | Path | None = None) -> list[Package]:
    """The pinned packages of a requirements file (the project's own when None), in its order.

    Raises WorkflowError when the file cannot be read.
    """
    path = REQUIREMENTS if requirements is None else Path(requirements)
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        reason = getattr(error, "strerror", None) or error
        raise WorkflowError(f"{path}: cannot be read: {reason}; run the notebooks from a checkout") from error
    pins = [match.groups() for match in map(PIN.match, lines) if match]
    return [Package(name, pinned, _installed(name)) for name, pinned in pins]


def _installed(name: str) -> str | None:
    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return None


def environment_faults(requirements: str | Path | None = None) -> list[str]:
    """One line for each package that is missing or of another version, and for an old Python; [] when all is well."""
    faults = [package.fault for package in packages(requirements) if package.fault]
    if sys.version_info[:2] < LEAST_PYTHON:
        faults.insert(0, f"Python is {_python()}, at least {_dotted(LEAST_PYTHON)} is needed; make a new environment")
    return faults


def version_table(requirements: str | Path | None = None) -> str:
    """Python and every pinned package as text: name, installed version, pinned version."""
    rows = [("", "installed", "pinned"), ("python", _python(), f">= {_dotted(LEAST_PYTHON)}")]
    rows += [(p.name, p.installed or "-", p.pinned) for p in packages(requirements)]
    widths = [max(len(row[k]) for row in rows) for k in range(3)]
    return "\n".join("  ".join(cell.ljust(w) for cell, w in zip(row, widths)).rstrip() for row in rows)


def check_environment(requirements: str | Path | None = None) -> None:
    """Print `version_table`, then each of `environment_faults` or one line that all is well."""
    print(version_table(requirements), end="\n\n")
    faults = environment_faults(requirements)
    for fault in faults:
        print(f"! {fault}")
    if not faults:
        print("Every package is installed in the pinned version.")


def _python() -> str:
    return _dotted(sys.version_info[:3])


def _dotted(numbers: tuple[int, ...]) -> str:
    return ".".join(map(str, numbers))
