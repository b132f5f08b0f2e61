"""`compare CONFIG`: the same trace through several policies, paired; a table and plots."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path

from sim.api.comparison import Contender, line_up
from sim.cli.comparison import folder_name, run_placed
from sim.cli.options import add_config_arguments, add_out_argument, config_of
from sim.core.errors import ConfigError, suggestion


def configure(parser: argparse.ArgumentParser) -> None:
    add_config_arguments(parser)
    parser.add_argument(
        "--policies",
        metavar="A,B,C",
        help="names, or FILE.py:name (default: compare.policies of the config, else all)",
    )
    parser.add_argument(
        "--baseline", metavar="A", help="the policy the others are held against (default: the first)"
    )
    parser.add_argument("--seeds", type=int, metavar="N", help="seeds, from the config's on (default: 1)")
    add_out_argument(parser, "the config's output folder with -compare behind it")


def main(arguments: argparse.Namespace) -> int:
    if arguments.seeds is not None and arguments.seeds < 1:
        raise ConfigError(f"--seeds: must be at least 1, got {arguments.seeds}")
    config = config_of(arguments)
    policies = arguments.policies.split(",") if arguments.policies is not None else None
    contenders = line_up(config, policies, arguments.seeds)
    seeds = len({contender.seed for contender in contenders})
    placed = [(contender, folder_name(contender, seeds)) for contender in contenders]
    directory = Path(arguments.out or f"{config.output_dir}-compare")
    return run_placed(placed, directory, plots=config.output.plots, baseline=_baseline(arguments, contenders))


def _baseline(arguments: argparse.Namespace, contenders: Sequence[Contender]) -> str | None:
    labels = list(dict.fromkeys(contender.label for contender in contenders))
    if arguments.baseline is not None and arguments.baseline not in labels:
        raise ConfigError(f"--baseline {arguments.baseline}: {suggestion(arguments.baseline, labels)}")
    name: str | None = arguments.baseline
    return name
