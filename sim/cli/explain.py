"""`explain RUN_DIR`: why a request's TTFT, or a gap between tokens, was long."""

from __future__ import annotations

import argparse

from sim.cli.console import say, show
from sim.cli.one_run import simulated_again
from sim.core.errors import UserError, suggestion
from sim.report.explain import WHAT, Explainer, Tail
from sim.report.explain.choose import Explanation
from sim.report.explain.tables import explanation_table, tail_table

DEFAULT_TOP, DEFAULT_GAPS, DEFAULT_PERCENT = 10, 3, 99.0


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("folder", metavar="RUN_DIR", help="a run folder; the run is simulated once more")
    which = parser.add_mutually_exclusive_group()
    which.add_argument("--request", metavar="ID", help="its TTFT and its longest gaps")
    which.add_argument("--worst", metavar="|".join(WHAT), help="the longest of the run")
    which.add_argument(
        "--percentile", nargs=2, metavar=("|".join(WHAT), "P"),
        help="the one at percentile P, and what all from there on are made of (default: 99 of both)",
    )  # fmt: skip
    parser.add_argument(
        "--top", type=int, metavar="N",
        help=f"how many (default: {DEFAULT_TOP}; with --request its {DEFAULT_GAPS} longest gaps)",
    )  # fmt: skip


def main(arguments: argparse.Namespace) -> int:
    if arguments.top is not None and arguments.top < 1:
        raise UserError(f"--top: must be at least 1, got {arguments.top}")
    wanted = _percentile(arguments)
    result = simulated_again(arguments.folder)
    if not wanted:
        wanted = [(what, DEFAULT_PERCENT) for what in WHAT if result.summary[f"{what}_s"]["max"] is not None]
    explainer = Explainer(result.rerun.record)
    for explanations, tail in _explained(explainer, arguments, wanted):
        if tail is not None:
            show(tail_table(tail))
            say("for example:")
        show(explanation_table(explanations))
    return 0


def _percentile(arguments: argparse.Namespace) -> list[tuple[str, float]]:
    """What --percentile asks for."""
    if arguments.percentile is None:
        return []
    what, text = arguments.percentile
    if what not in WHAT:
        raise UserError(f"--percentile {what}: {suggestion(what, WHAT)}")
    try:
        return [(what, float(text))]
    except ValueError:
        raise UserError(f"--percentile {what} {text}: must be a number between 0 and 100") from None


def _explained(
    explainer: Explainer, arguments: argparse.Namespace, percentiles: list[tuple[str, float]]
) -> list[tuple[list[Explanation], Tail | None]]:
    if arguments.request is not None:
        return [(explainer.request(arguments.request, arguments.top or DEFAULT_GAPS), None)]
    if arguments.worst is not None:
        return [(explainer.worst(arguments.worst, arguments.top or DEFAULT_TOP), None)]
    found = [explainer.percentile(what, percent) for what, percent in percentiles]
    return [([example], tail) for example, tail in found]
