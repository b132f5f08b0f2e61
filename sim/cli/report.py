"""`report RUN_DIR... --html FILE`: one HTML page from run folders."""

from __future__ import annotations

import argparse
from pathlib import Path

from sim.cli.comparison import comparison_views
from sim.cli.console import say


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("folders", metavar="RUN_DIR", nargs="+", help="a run folder, or a comparison's")
    parser.add_argument("--html", metavar="FILE", required=True, help="the page; it needs nothing beside it")


def main(arguments: argparse.Namespace) -> int:
    from sim.report.html import write_page

    views = [view for place in arguments.folders for view in comparison_views(Path(place))]
    path = write_page(views, Path(arguments.html))
    say(f"report: {path} ({path.stat().st_size / 1e6:.1f} MB, opens in any browser)")
    return 0
