"""`figures`: regenerate every figure of the thesis, or some of them."""

from __future__ import annotations

import argparse

NAME, HELP = "figures", "regenerate the figures from the shipped data"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments of the command."""
    parser.add_argument("--only", action="append", metavar="NAME", help="this figure only; may be given several times")
    parser.add_argument("--list", action="store_true", help="print names and captions, draw nothing")
    parser.add_argument("--out", metavar="DIR", help="the folder to write to, made if need be (default: figures/)")
    parser.add_argument("--lang", choices=("en", "zh"), action="append", help="language (default: both)")


def run(arguments: argparse.Namespace) -> None:
    """Write the figures, or list them."""
    from thesis_lib import figures

    if arguments.list:
        for name in figures.list_figures(arguments.only):
            print(f"{name}: {figures.FIGURES[name].caption_en}")
        return
    figures.make_figures(arguments.out, only=arguments.only, lang=arguments.lang or figures.LANGUAGES)
