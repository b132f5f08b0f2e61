"""The command line: the only layer that prints or exits.

A command is a module of this package with its own name, a line in COMMANDS, and two functions:

    configure(parser: argparse.ArgumentParser) -> None    its arguments
    main(arguments: argparse.Namespace) -> int            what it does; the exit code

Only the module of the command that is run is imported. UserError raised anywhere becomes one
message and exit code 2; anything else is a traceback and exit code 1.
"""

from __future__ import annotations

import argparse
import importlib
import importlib.util
import os
import sys
from collections.abc import Sequence
from typing import NoReturn

from sim.core.errors import UserError, suggestion
from sim.core.version import __version__

COMMANDS = {
    "run": "simulate a config: table, run folder, plots",
    "compare": "the same trace through several policies",
    "sweep": "a grid of configs over many processes, resumable",
    "capacity": "the highest rate that meets the SLO",
    "frontier": "throughput against latency over token budgets",
    "calibrate": "a measured profile to a cost model file",
    "validate": "simulate a measured run and tabulate the errors",
    "trace": "look at, convert, make and download traces",
    "plot": "redraw every plot of a run folder",
    "policies": "the policies, their parameters and sources",
    "cost": "show what a cost model predicts",
    "explain": "why a request's latency was long",
    "report": "one HTML page from run folders",
    "reproduce": "redo a published figure",
    "profile": "measure a running server",
    "timeline": "export a run for Perfetto",
}

INTERRUPTED = 130
"""Exit code after Ctrl-C, as shells have it."""


class _Parser(argparse.ArgumentParser):
    """Reports wrong arguments as the UserError they are, in one line."""

    def error(self, message: str) -> NoReturn:
        raise UserError(f"{message} (see: {self.prog} --help)")


def available() -> dict[str, str]:
    """The commands that are there, with their one-line meaning."""
    return {
        name: meaning
        for name, meaning in COMMANDS.items()
        if importlib.util.find_spec(f"{__name__}.{name}") is not None
    }


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command; its exit code. Messages go to stderr, results to stdout."""
    try:
        return _dispatch(sys.argv[1:] if argv is None else list(argv))
    except UserError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print("interrupted", file=sys.stderr)
        return INTERRUPTED
    except BrokenPipeError:
        # the reader of our output (head, less) has gone; keep Python from complaining at exit
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1


def entry() -> NoReturn:
    """`python -m sim` and the installed script."""
    sys.exit(main())


def _dispatch(argv: list[str]) -> int:
    commands = available()
    if argv and not argv[0].startswith("-") and argv[0] not in commands:
        raise UserError(f"unknown command {argv[0]!r}: {suggestion(argv[0], commands)}")
    chosen = argv[0] if argv and argv[0] in commands else None
    module = importlib.import_module(f"{__name__}.{chosen}") if chosen else None
    parser = _Parser(prog="python -m sim", description="A simulator of LLM-serving schedulers.")
    parser.add_argument("--version", action="version", version=__version__)
    subparsers = parser.add_subparsers(metavar="COMMAND", title="commands")
    for name, meaning in commands.items():
        sub = subparsers.add_parser(name, help=meaning, description=meaning)
        if module is not None and name == chosen:
            module.configure(sub)
    arguments = parser.parse_args(argv)
    if module is None:
        parser.print_help()
        return 0
    code: int = module.main(arguments)
    return code
