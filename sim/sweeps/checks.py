"""Checks: that everything a sweep's configs name is there, before anything runs.

What is wrong with the content of a trace, or with one combination (a model too big for a GPU), is
the cell's own error and a row of the table.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from typing import Any

from sim.api.inputs import build_cost, build_trace, catalogued
from sim.api.settings import check_settings
from sim.config import Config
from sim.config.tree import TraceConfig
from sim.cost import load_gpu, load_model
from sim.sweeps.grid import Cell
from sim.sweeps.identity import FILE_KEYS, digest_of
from sim.sweeps.worker import Task
from sim.trace.formats import trace_formats


def check_names(cells: Iterable[Cell], tasks: Iterable[Task]) -> None:
    """Raise UserError for the first file, format, cost model, model, GPU or rule that is not there.

    `tasks` are those of `cells`, whose configs are as written, for the messages.
    """
    seen: set[str] = set()
    for cell, task in zip(cells, tasks, strict=True):
        config = cell.config
        check_settings(config)
        sizes = digest_of([config.replica.model_dump(), config.kv_cache.num_blocks])
        if task.trace_digest not in seen and not _trace_there(task.config.trace):
            build_trace(config)  # says what is missing
        if task.cost_digest not in seen:
            build_cost(config)
        if sizes not in seen:
            _check_sizes(config)
        seen.update((task.trace_digest, task.cost_digest, sizes))


def _trace_there(section: TraceConfig) -> bool:
    return _all_found(section.model_dump()) and _format_known(section)


def _format_known(section: TraceConfig) -> bool:
    return section.synthetic is not None or section.format in ("auto", *trace_formats())


def _check_sizes(config: Config) -> None:
    if config.kv_cache.num_blocks == "auto":
        for key, load in (("model", load_model), ("gpu", load_gpu)):
            catalogued(config, key, load, "kv_cache.num_blocks", "auto")


def _all_found(values: Any) -> bool:
    """Whether every file that `values` name is there."""
    if isinstance(values, list):
        return all(map(_all_found, values))
    if not isinstance(values, Mapping):
        return True
    return all(
        os.path.exists(value) if key in FILE_KEYS and isinstance(value, str) else _all_found(value)
        for key, value in values.items()
    )
