"""Arguments that several commands share: a config with overrides, and where results go."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from sim.api.load import load_config
from sim.config import Config
from sim.config.source import parse_value
from sim.core.errors import ConfigError


def add_config_arguments(parser: argparse.ArgumentParser) -> None:
    """CONFIG and --set."""
    parser.add_argument("config", metavar="CONFIG", help="a YAML config file")
    parser.add_argument(
        "--set",
        dest="overrides",
        metavar="KEY=VALUE",
        action="append",
        default=[],
        help="override any key of the config, e.g. policy.token_budget=256; may be repeated",
    )


def add_out_argument(parser: argparse.ArgumentParser, default: str) -> None:
    """--out."""
    parser.add_argument(
        "--out", metavar="DIR", type=_folder, help=f"where results go (default: {default})"
    )


def _folder(text: str) -> str:
    """A folder's name as it is; ConfigError for an empty one, as from a variable that is not set."""
    if not text.strip():
        raise ConfigError(f"--out {text!r}: must name a folder; leave --out away for the config's")
    return text


def config_of(arguments: argparse.Namespace) -> Config:
    """The config that CONFIG and --set name; ConfigError if anything in it is wrong."""
    return load_config(arguments.config, parse_overrides(arguments.overrides))


def output_dir(arguments: argparse.Namespace, config: Config) -> Path:
    """--out, else the config's."""
    return Path(arguments.out or config.output_dir)


def parse_overrides(settings: list[str], flag: str = "--set") -> dict[str, Any]:
    """KEY=VALUE arguments of `flag` as dotted keys and YAML values."""
    overrides = {}
    for setting in settings:
        key, equals, text = setting.partition("=")
        if not equals or not key:
            raise ConfigError(f"{flag} {setting}: must look like section.key=value")
        try:
            overrides[key] = parse_value(text)
        except ConfigError as error:
            raise ConfigError(f"{flag} {setting}: {error}") from None
    return overrides
