"""`capacity CONFIG`: the highest request rate at which each policy meets the SLO; a table and plots."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path

import pandas as pd

from sim.api.attainment import attainment, best_goodput
from sim.api.capacity import Capacity, find_capacities, limits_of, trials_frame, unused_objectives
from sim.cli import INTERRUPTED
from sim.cli.console import note, say, show
from sim.cli.options import add_config_arguments, add_out_argument, config_of, parse_overrides
from sim.cli.search import policies_of, searching, write_csv
from sim.config import Config
from sim.core.errors import ConfigError
from sim.report.capacity_tables import capacity_table, goodput_table
from sim.report.limits import Limits, objectives_told, told


def configure(parser: argparse.ArgumentParser) -> None:
    add_config_arguments(parser)
    parser.add_argument("--policies", metavar="A,B,C", help="names, or FILE.py:name (default: all)")
    parser.add_argument("--seeds", type=int, metavar="N", help="seeds, from the config's on (default: 1)")
    parser.add_argument(
        "--limit",
        metavar="METRIC=VALUE",
        action="append",
        default=[],
        help="largest value of a metric, e.g. tbt_s.p99=0.1, in place of capacity.limits; may be repeated",
    )
    parser.add_argument(
        "--curves", action="store_true", help="also SLO attainment and goodput over a grid of rates"
    )
    add_out_argument(parser, "the config's output folder with -capacity behind it")


def main(arguments: argparse.Namespace) -> int:
    config = config_of(arguments)
    limits = _limits(arguments.limit) or limits_of(config)
    policies = policies_of(arguments)
    directory = Path(arguments.out or f"{config.output_dir}-capacity")
    found: list[Capacity] = []
    interrupted = False
    with searching() as tell:
        search = find_capacities(
            config, policies, arguments.seeds, limits=limits,
            on_trial=lambda trial: tell(f"{trial.policy} at {trial.rate_per_s:.3g}/s"),
        )  # fmt: skip
        try:
            for one in search:
                found.append(one)
        except KeyboardInterrupt:
            interrupted = True
    if found:
        _report(config, found, limits, directory)
    if interrupted:
        note(f"interrupted; what was found is in {directory}" if found else "interrupted")
        return INTERRUPTED
    if arguments.curves:
        _curves(config, policies, arguments.seeds, directory)
    return 0


def _limits(settings: list[str]) -> Limits:
    """--limit arguments as numbers; ConfigError for one that is none."""
    limits = {}
    for name, value in parse_overrides(settings, "--limit").items():
        if isinstance(value, bool) or not isinstance(value, (int, float)) or value <= 0:
            raise ConfigError(f"--limit {name}={value}: must be a number above 0")
        limits[name] = float(value)
    return limits


def _report(config: Config, found: Sequence[Capacity], limits: Limits, directory: Path) -> None:
    """Write the tables, show the first, draw the bars."""
    frame = pd.DataFrame([capacity.row() for capacity in found])
    write_csv(frame, directory / "capacity.csv")
    write_csv(trials_frame(found), directory / "trials.csv")
    show(capacity_table(frame, limits))
    say(f"highest rate with {told(limits)}; arrivals: {config.capacity.arrivals}")
    unused = unused_objectives(config, limits)
    if unused:
        say(f"note: not looked at: {', '.join(unused)}; --limit or capacity.limits can name them")
    for capacity in found:
        if capacity.note:
            say(f"note: {capacity.policy} (seed {capacity.seed}): {capacity.note}")
    say(f"tables: {directory / 'capacity.csv'}, {directory / 'trials.csv'}")
    if config.output.plots:
        from sim.report.plots import capacity_bars
        from sim.report.plots.figure import save

        figure = capacity_bars(frame, f"Highest rate with {told(limits)}")
        say(f"plot: {save(figure, directory / 'plots/capacity.png')}")


def _curves(config: Config, policies: list[str] | None, seeds: int | None, directory: Path) -> None:
    """Attainment and goodput over a grid of rates: table, best rates, plot."""
    with searching() as tell:
        frame = attainment(
            config, policies, seeds=seeds,
            on_point=lambda row: tell(f"{row['policy']} at {row['rate_per_s']:.3g}/s"),
        )  # fmt: skip
    best = best_goodput(frame)
    write_csv(frame, directory / "attainment.csv")
    show(goodput_table(best))
    say(f"table: {directory / 'attainment.csv'}")
    if config.output.plots:
        from sim.report.plots import attainment_curves
        from sim.report.plots.figure import save

        objectives = objectives_told(config.slo.model_dump(exclude={"classes"}), bool(config.slo.classes))
        figure = attainment_curves(frame, best, objectives)
        say(f"plot: {save(figure, directory / 'plots/attainment.png')}")
