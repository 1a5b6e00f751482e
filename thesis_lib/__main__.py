"""Command line: `python -m thesis_lib COMMAND`. Exit code 0: done, 2: bad input, 130: interrupted."""

from __future__ import annotations

import argparse
import os
import sys
from contextlib import suppress
from importlib import import_module
from typing import TextIO

COMMANDS = ("schedule", "info", "convert", "generate", "dataset", "train", "tune", "models", "figures", "speed")


class OneLineParser(argparse.ArgumentParser):
    """Says what is wrong with the arguments in one line."""

    def print_help(self, file: TextIO | None = None) -> None:
        """Print the help; unlike argparse's own, an output that cannot be written is an error."""
        print(self.format_help(), end="", file=file, flush=True)

    def error(self, message: str) -> None:
        """Print the fault and where to read more, and leave with exit code 2."""
        raise SystemExit(_fail(f"{message} (see {self.prog} --help)"))


def build_parser() -> argparse.ArgumentParser:
    """The parser of all commands."""
    parser = OneLineParser(prog="python -m thesis_lib", description="Cloud workflow scheduling for theses")
    commands = parser.add_subparsers(dest="command", metavar="COMMAND", required=True)
    for name in COMMANDS:
        module = import_module(f"thesis_lib.commands.{name}")
        sub = commands.add_parser(module.NAME, help=module.HELP, description=module.HELP)
        module.add_arguments(sub)
        sub.set_defaults(run=module.run)
    return parser


def main(argv: list[str] | None = None) -> int:
    """Run one command; returns the exit code."""
    from thesis_lib.workflow import WorkflowError

    _prepare_streams()
    try:
        try:
            arguments = build_parser().parse_args(argv)
            arguments.run(arguments)
        finally:  # also after --help, which leaves by SystemExit
            sys.stdout.flush()
    except WorkflowError as error:
        return _fail(" ".join(str(error).split()))
    except BrokenPipeError:  # the reader of stdout has gone
        _abandon_stdout()
    except OSError as error:  # files are read and written with errors of their own, so this is mostly stdout
        if error.filename is not None:
            return _fail(f"{error.filename}: {error.strerror}")
        _abandon_stdout()
        return _fail(f"stdout cannot be written: {error.strerror or 'it is closed'}")
    except KeyboardInterrupt:
        print("interrupted", file=sys.stderr)
        return 130
    return 0


def _prepare_streams() -> None:
    """Any text can be printed under any encoding, and a stream that the caller closed fails only when it is used."""
    if sys.stderr is None:
        sys.stderr = open(os.devnull, "w")
    if sys.stdout is None:
        sys.stdout = open(os.devnull)  # for reading: what prints gets an error, what prints nothing works
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):  # a notebook's streams are of another kind
            stream.reconfigure(errors="backslashreplace")


def _fail(message: str) -> int:
    """Say in one line what is wrong; returns the exit code 2."""
    with suppress(OSError):  # stderr may be full too
        print(f"error: {message}", file=sys.stderr)
    return 2


def _abandon_stdout() -> None:
    """Let stdout lead to nowhere, so that Python does not complain at exit about what could not be written."""
    with suppress(OSError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


if __name__ == "__main__":
    sys.exit(main())
