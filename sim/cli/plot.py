"""`plot RUN_DIR...`: redraw every plot from what run folders hold; nothing is simulated."""

from __future__ import annotations

import argparse
from pathlib import Path

from sim.cli.comparison import comparison_frame, comparison_views, draw_comparison
from sim.cli.console import draw
from sim.report.view import distinct_names


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("folders", metavar="RUN_DIR", nargs="+", help="a run folder, or a comparison's")
    parser.add_argument(
        "--out", metavar="DIR", help="draw all runs together into DIR (default: each into its own plots/)"
    )


def main(arguments: argparse.Namespace) -> int:
    loaded = {Path(folder): comparison_views(Path(folder)) for folder in arguments.folders}
    if arguments.out:
        together = [view for views in loaded.values() for view in views]
        draw(distinct_names(together), Path(arguments.out))
        return 0
    for folder, views in loaded.items():
        draw(views, folder / "plots")
        frame = comparison_frame(folder)
        if frame is not None:
            draw_comparison(frame, folder / "plots")
    return 0
