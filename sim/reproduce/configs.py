"""The configs of reproductions, read from configs/reproductions/, and their paired runs."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from itertools import groupby
from typing import Any

from sim.api.comparison import Contender, line_up
from sim.api.inputs import build_inputs
from sim.api.load import load_config
from sim.api.result import Result
from sim.api.simulation import run_with
from sim.config import Config
from sim.core.shipped import shipped_root

OnRun = Callable[[str], None]
"""Told what is about to be simulated."""


def reproduction_config(name: str, overrides: Mapping[str, Any] | None = None) -> Config:
    """The shipped config of that name with `overrides` (dotted keys) laid over it."""
    return load_config(shipped_root() / "configs" / "reproductions" / f"{name}.yaml", overrides)


def paired_runs(config: Config, on_run: OnRun | None = None) -> Iterator[tuple[Contender, Result]]:
    """Every policy and seed of `config.compare`, over one trace a seed, as `compare` runs them."""
    for _, group in groupby(line_up(config), lambda contender: contender.seed):
        contenders = list(group)
        inputs = build_inputs(contenders[0].config)
        for contender in contenders:
            if on_run is not None:
                on_run(f"{config.name}: {contender.label}, seed {contender.seed}")
            yield contender, run_with(contender.config, inputs, label=contender.label)
