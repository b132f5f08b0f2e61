"""Inputs: what a config describes, built once and shared by every policy run over it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, TypeVar

from sim.config import Config, Source
from sim.core.errors import ConfigError, TraceError, UserError, suggestion
from sim.core.protocols import CostModel
from sim.core.trace import Trace
from sim.cost import auto_num_blocks, load_cost_model, load_gpu, load_model
from sim.trace.formats import trace_formats
from sim.trace.load import load_trace
from sim.trace.select import limited, scaled_rate
from sim.trace.synthetic import generate

T = TypeVar("T")


@dataclass(frozen=True)
class Inputs:
    """Trace, cost model and KV size of a config, whatever its policy."""

    trace: Trace
    cost: CostModel
    num_blocks: int | None
    """None: unlimited."""


def build_inputs(config: Config) -> Inputs:
    """Read or make everything `config` names; UserError that says which key or file is wrong."""
    return Inputs(build_trace(config), build_cost(config), resolve_num_blocks(config))


def build_trace(config: Config) -> Trace:
    """The trace of `config.trace`, read from its file or generated from `config.seed`."""
    section = config.trace
    if section.synthetic is not None:
        trace = generate(found_paths(section.synthetic, config.source), config.seed)
        if section.limit is not None:
            trace = limited(trace, section.limit)
        return scaled_rate(trace, section.rate_scale)
    formats = ["auto", *trace_formats()]
    if section.format not in formats:
        problem = f"unknown value {section.format!r}: {suggestion(section.format, formats)}"
        raise config.source.error("trace.format", problem)
    options = section.model_dump(exclude={"path", "synthetic", "closed_loop"})
    path = config.source.find(str(section.path))
    try:
        return load_trace(path, **found_paths(options, config.source), seed=config.seed)
    except ConfigError as error:
        key, _, problem = str(error).partition(": ")
        raise config.source.error(f"trace.{key}", problem) from None
    except TraceError as error:
        if path.is_file():
            raise
        raise config.source.error("trace.path", str(error)) from None


def build_cost(config: Config) -> CostModel:
    """The cost model of `config.cost_model`."""
    spec: dict[str, Any] = found_paths(config.cost_model, config.source)
    where = config.source.where("cost_model")
    try:
        return load_cost_model(spec, where)
    except ConfigError as error:
        raise ConfigError(f"{where}: {error}") from None


def found_paths(spec: Any, source: Source) -> Any:
    """`spec` with every `file`, `path` and `table` looked up from the config's place."""
    if isinstance(spec, list):
        return [found_paths(item, source) for item in spec]
    if not isinstance(spec, Mapping):
        return spec
    return {
        key: str(source.find(value))
        if key in ("file", "path", "table") and isinstance(value, str)
        else found_paths(value, source)
        for key, value in spec.items()
    }


def resolve_num_blocks(config: Config) -> int | None:
    """KV blocks of the replica: as written, or from GPU memory less weights for `auto`.

    Whatever the policy, so that policies compare on equal memory: activations are those of the
    engine's default token budget.
    """
    cache, replica = config.kv_cache, config.replica
    if cache.num_blocks == "unlimited":
        return None
    if isinstance(cache.num_blocks, int):
        return cache.num_blocks
    needs = ("kv_cache.num_blocks", "auto")
    model = catalogued(config, "model", load_model, *needs)
    gpu = catalogued(config, "gpu", load_gpu, *needs)
    try:
        return auto_num_blocks(
            model, gpu, replica.tensor_parallel, cache.gpu_memory_utilization, cache.block_size
        )
    except UserError as error:
        raise config.source.error("replica", str(error)) from None


def catalogued(config: Config, key: str, load: Callable[[str], T], needed_by: str, value: str) -> T:
    """What `replica.<key>` names in the catalogue, which `needed_by: value` of the config needs."""
    name = getattr(config.replica, key)
    if name is None:
        raise config.source.error(needed_by, f"{value} needs replica.{key}")
    try:
        return load(name)
    except UserError as error:
        raise config.source.error(f"replica.{key}", str(error)) from None
