"""`figures`: regenerate every figure of the thesis, or some of them."""

from __future__ import annotations

import argparse

NAME, HELP = "figures", "regenerate the figures from the shipped data"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--only", action="append", metavar="NAME", help="this figure only; may be given several times")
    parser.add_argument("--list", action="store_true", help="print the names and captions, draw nothing")
    parser.add_argument("--out", metavar="DIR", help="the folder to write to (default: figures/)")
    parser.add_argument("--lang", choices=("en", "zh"), action="append", help="language (default: both)")


def run(arguments: argparse.Namespace) -> None:
    from thesis_lib import figures

    if arguments.list:
        for name in figures.list_figures():
            print(f"{name}: {figures.FIGURES[name].caption_en}")
        return
    figures.make_figures(arguments.out, only=arguments.only, lang=arguments.lang or figures.LANGUAGES)
