"""Command line: `python -m thesis_lib COMMAND`. Exit code 0: done, 2: bad input, 130: interrupted."""

from __future__ import annotations

import argparse
import os
import sys
from importlib import import_module

COMMANDS = ("schedule", "info", "convert", "generate", "dataset", "figures", "speed")


class OneLineParser(argparse.ArgumentParser):
    """Says what is wrong with the arguments in one line."""

    def error(self, message: str) -> None:
        """Print the fault and where to read more, and leave with exit code 2."""
        print(f"error: {message} (see {self.prog} --help)", file=sys.stderr)
        raise SystemExit(2)


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

    arguments = build_parser().parse_args(argv)
    try:
        arguments.run(arguments)
        sys.stdout.flush()
    except WorkflowError as error:
        print("error: " + " ".join(str(error).split()), file=sys.stderr)
        return 2
    except BrokenPipeError:  # the reader of stdout has gone; keep Python from complaining at exit
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    except KeyboardInterrupt:
        print("interrupted", file=sys.stderr)
        return 130
    return 0


if __name__ == "__main__":
    sys.exit(main())
