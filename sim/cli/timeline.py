"""`timeline RUN_DIR`: the run as a trace that Perfetto opens."""

from __future__ import annotations

import argparse
from pathlib import Path

from sim.cli.console import note, say
from sim.cli.one_run import simulated_again
from sim.core.errors import UserError

MANY_TRACKS = 2000
"""Request tracks beyond which a viewer becomes slow to use."""


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("folder", metavar="RUN_DIR", help="a run folder; the run is simulated once more")
    parser.add_argument(
        "--out", metavar="FILE", help="a .json or .json.gz file (default: RUN_DIR/timeline.json.gz)"
    )
    parser.add_argument(
        "--window", nargs=2, type=float, metavar=("A", "B"), help="only what touches these seconds of the run"
    )


def main(arguments: argparse.Namespace) -> int:
    path = Path(arguments.out or Path(arguments.folder) / "timeline.json.gz")
    if not path.name.endswith((".json", ".json.gz")):
        raise UserError(f"--out {path}: must end in .json or .json.gz")
    window = None if arguments.window is None else (arguments.window[0], arguments.window[1])
    if window is not None and not 0 <= window[0] < window[1] < float("inf"):
        raise UserError(f"--window {window[0]:g} {window[1]:g}: must be two times in seconds, ascending")
    result = simulated_again(arguments.folder)
    count = result.export_timeline(path, window_s=window)
    say(f"{count:,} events: {path} (open it at https://ui.perfetto.dev or in chrome://tracing)")
    if window is None and len(result.requests) > MANY_TRACKS:
        note(f"note: {len(result.requests):,} request tracks are slow to look at; --window A B has fewer")
    return 0
