"""Grid: the cells of a sweep, in order, each a config that was checked before anything runs."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from sim.api.load import current_source, overlaid
from sim.config import Config, Source
from sim.config.source import parse_value, show
from sim.core.errors import ConfigError

Grid = Mapping[str, Any]
"""Dotted config keys and the values each takes: a list, or a numpy array."""

NO_ROW = {
    "name": "it names a run and changes no result",
    "output": "a sweep writes one table, not run folders",
    "compare": "policy.name=a,b sweeps over policies",
    "capacity": "it is for the command capacity",
}
"""Sections that change no row, and what to say of sweeping over them."""
NO_AXES = {**NO_ROW, "seed": "--seeds N (in Python seeds=N) runs the seeds from the config's on"}


@dataclass(frozen=True)
class Cell:
    """One run of a sweep."""

    index: int
    """Its place in the table: axes in the order given, the last fastest, seeds fastest of all."""
    point: Mapping[str, Any]
    """The value of each axis, as given."""
    seed: int
    config: Config


def parse_axis(text: str) -> tuple[str, list[Any]]:
    """`key=v1,v2,...` as a dotted key and YAML values (`[0, 60]` is one value); ConfigError otherwise."""
    key, equals, listed = text.partition("=")
    if not equals or not key:
        raise ConfigError(f"--grid {text}: must look like section.key=value,value,...")
    try:
        values = parse_value(f"[{listed}]")
    except ConfigError as error:
        raise ConfigError(f"--grid {text}: {error}") from None
    return key, list(values)


def plain_values(values: Any) -> Any:
    """Lists for tuples and numpy arrays, Python numbers for numpy's; anything else as it is."""
    listed = values.tolist() if hasattr(values, "tolist") else values
    if isinstance(listed, str) or not isinstance(listed, Sequence):
        return listed
    return [
        list(value) if isinstance(value, tuple) else value.item() if hasattr(value, "item") else value
        for value in listed
    ]


def expand(config: Config, grid: Grid, seeds: int) -> list[Cell]:
    """Every cell of `grid`, each with `seeds` seeds from config.seed on, in the table's order.

    ConfigError for the first key or value that no run could have.
    """
    if isinstance(seeds, bool) or not isinstance(seeds, int) or seeds < 1:
        raise ConfigError(f"seeds: must be an integer of at least 1, got {show(seeds)}")
    for key, values in grid.items():
        _check_axis(key, values)
    points = [dict(zip(grid, values, strict=True)) for values in itertools.product(*grid.values())]
    wanted = itertools.product(points, range(config.seed, config.seed + seeds))
    source = current_source(config)
    return [
        Cell(index, point, seed, _cell_config(source, point, seed))
        for index, (point, seed) in enumerate(wanted)
    ]


def _check_axis(key: str, values: Sequence[Any]) -> None:
    section = str(key).partition(".")[0]
    if section in NO_AXES:
        raise ConfigError(f"grid {key}: cannot be swept: {NO_AXES[section]}")
    if isinstance(values, str) or not isinstance(values, Sequence) or not values:
        raise ConfigError(f"grid {key}: must be a list of at least one value, got {show(values)}")
    seen: list[str] = []
    for value in values:
        if show(value) in seen:
            raise ConfigError(f"grid {key}: {show(value)} is there twice")
        seen.append(show(value))


def _cell_config(source: Source, point: Mapping[str, Any], seed: int) -> Config:
    """The config of one cell, without what leaves the table as it is (per-iteration records, output)."""
    laid = overlaid(source, {**point, "seed": seed})
    engine = laid.engine.updated(record_iterations=False, token_times=False)
    return laid.updated(engine=engine, **{key: Config.model_fields[key].default for key in NO_ROW})
