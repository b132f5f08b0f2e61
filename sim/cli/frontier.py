"""`frontier CONFIG`: throughput against latency over token budgets and batch sizes; the Pareto sets."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from sim.api.frontier import LATENCIES, THROUGHPUT, TOKEN_BUDGETS, frontier
from sim.cli.console import say, show
from sim.cli.options import add_config_arguments, add_out_argument, config_of
from sim.cli.search import policies_of, searching, write_csv
from sim.core.errors import ConfigError
from sim.report.limits import metric_name, metric_value
from sim.report.tables import shown

if TYPE_CHECKING:
    import pandas as pd
    from rich.table import Table


def configure(parser: argparse.ArgumentParser) -> None:
    add_config_arguments(parser)
    parser.add_argument("--policies", metavar="A,B,C", help="names, or FILE.py:name (default: all)")
    parser.add_argument(
        "--budgets",
        metavar="N,N,...",
        default=",".join(map(str, TOKEN_BUDGETS)),
        help="token budgets of the policies that have one (default: %(default)s)",
    )
    parser.add_argument(
        "--batch-sizes", metavar="N,N,...", help="values of max_batch_size (default: the config's)"
    )
    parser.add_argument(
        "--rate",
        metavar="R",
        help="requests a second, or own for the trace's arrivals (default: what no policy can sustain)",
    )
    add_out_argument(parser, "the config's output folder with -frontier behind it")


def main(arguments: argparse.Namespace) -> int:
    config = config_of(arguments)
    directory = Path(arguments.out or f"{config.output_dir}-frontier")
    with searching() as tell:
        frame = frontier(
            config,
            policies_of(arguments),
            token_budgets=_whole_numbers("--budgets", arguments.budgets),
            max_batch_sizes=_whole_numbers("--batch-sizes", arguments.batch_sizes),
            rate_per_s=_rate(arguments.rate),
            on_point=lambda row: tell(f"{row['policy']}, token_budget {row['token_budget']}"),
        )
    write_csv(frame, directory / "frontier.csv")
    show(_table(frame))
    rate = frame.attrs["rate_per_s"]
    process = config.capacity.arrivals
    arrivals = "the trace's own" if rate is None else f"{rate:.3g} requests/s ({process})"
    say(f"arrivals: {arrivals}; *: no variant has both more throughput and less of this latency")
    say(f"table: {directory / 'frontier.csv'}")
    if config.output.plots:
        from sim.report.plots import frontiers
        from sim.report.plots.figure import save

        figure = frontiers(frame, f"Arrivals: {arrivals}; small numbers: token_budget")
        say(f"plot: {save(figure, directory / 'plots/frontier.png')}")
    return 0


def _whole_numbers(flag: str, text: str | None) -> list[int]:
    """N,N,... as integers of at least 1; none where the flag was not given."""
    if text is None:
        return []
    try:
        values = [int(part) for part in text.split(",")]
    except ValueError:
        raise ConfigError(f"{flag} {text}: must be whole numbers with commas between") from None
    if min(values) < 1:
        raise ConfigError(f"{flag} {text}: must be at least 1")
    return list(dict.fromkeys(values))


def _rate(text: str | None) -> float | Literal["own"] | None:
    if text is None or text == "own":
        return None if text is None else "own"
    try:
        rate = float(text)
    except ValueError:
        rate = 0.0
    if not 0 < rate < float("inf"):
        raise ConfigError(f"--rate {text}: must be a number above 0, or own")
    return rate


def _table(frame: pd.DataFrame) -> Table:
    from rich.table import Table

    table = Table("policy", header_style="bold")
    for head in ("token_budget", "max_batch_size", "output tokens/s", *map(metric_name, LATENCIES)):
        table.add_column(head, justify="right")
    for _, row in frame.iterrows():
        knobs = [row["token_budget"], row["max_batch_size"]]
        written = ["-" if knob != knob else f"{knob:.0f}" for knob in knobs]
        marks = ["* " if row[f"on_frontier.{name}"] else "" for name in LATENCIES]
        latencies = [
            mark + metric_value(name, row[name]) for mark, name in zip(marks, LATENCIES, strict=True)
        ]
        table.add_row(str(row["policy"]), *written, shown(row[THROUGHPUT], "rate"), *latencies)
    return table
