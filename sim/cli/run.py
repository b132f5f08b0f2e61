"""`run CONFIG`: simulate, print a table, write the run folder, draw the plots.

Where the config has a `compare` section, the policies it lists are run beside the config's own, and
table and plots show them together.
"""

from __future__ import annotations

import argparse
from pathlib import Path

from sim.api.comparison import Contender, line_up
from sim.api.simulation import run
from sim.cli import INTERRUPTED
from sim.cli.comparison import Placed, folder_name, run_placed
from sim.cli.console import draw, is_served, note, nothing_served, progress_bars, say, show
from sim.cli.options import add_config_arguments, add_out_argument, config_of, output_dir
from sim.config import Config
from sim.report import folder
from sim.report.tables import run_table


def configure(parser: argparse.ArgumentParser) -> None:
    add_config_arguments(parser)
    add_out_argument(parser, "output.dir of the config, else runs/<name>")


def main(arguments: argparse.Namespace) -> int:
    config = config_of(arguments)
    directory = output_dir(arguments, config)
    if config.compare.policies:
        return run_placed(_place(config), directory, plots=config.output.plots)
    return _run_one(config, directory)


def _run_one(config: Config, directory: Path) -> int:
    folder.check_target(directory)
    with progress_bars() as start:
        result = run(config, progress=start(str(config.policy.name)))
    if not is_served(result.view):
        raise nothing_served(result.view, config)
    result.save(directory, plots=False)
    show(run_table(result.view))
    say(f"run folder: {directory}")
    if config.output.plots:
        draw([result.view], directory / "plots")
    if result.interrupted:
        note(f"interrupted; what was served until then is in {directory}")
    return INTERRUPTED if result.interrupted else 0


def _place(config: Config) -> list[Placed]:
    """The config's own policy in the folder itself, the others that `compare` lists below it."""
    contenders = line_up(config, seeds=1)
    if all(contender.config.policy != config.policy for contender in contenders):
        contenders.append(Contender(str(config.policy.name), config.seed, config))
    own = next(contender for contender in contenders if contender.config.policy == config.policy)
    return [(c, "." if c is own else f"policies/{folder_name(c, 1)}") for c in contenders]
