"""Config: the sections of a config file, frozen and strict (design.md section 8).

Sections whose options belong to another layer are kept as mappings here and checked by sim/api
against what that layer declares: `policy` (its class), `cost_model` (sim.cost), `trace.synthetic`
(sim.trace).
"""

from __future__ import annotations

from typing import Annotated, Any, Literal, Self

import yaml
from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    PrivateAttr,
    model_validator,
)
from pydantic_core import PydanticCustomError

from sim.config.source import Source, show

PositiveInt = Annotated[int, Field(ge=1)]
PositiveFloat = Annotated[float, Field(gt=0)]


def _rising(given: list[float]) -> list[float]:
    if len(given) == 2 and 0 <= given[0] < given[1]:
        return given
    raise PydanticCustomError(
        "window", "must be [start, end] with 0 <= start < end, got {got}", {"got": show(given)}
    )


Window = Annotated[list[float], AfterValidator(_rising)]
"""[start, end) in seconds after the first arrival."""


class Section(BaseModel):
    """Unknown keys, wrong types, NaN and infinities are refused; `key:` with nothing is all defaults."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True, allow_inf_nan=False)

    @model_validator(mode="before")
    @classmethod
    def _nothing_is_defaults(cls, given: Any) -> Any:
        return {} if given is None else given

    def updated(self, **values: Any) -> Self:
        """A copy with other values, which the caller has checked."""
        return self.model_copy(update=values)


class ClosedLoopConfig(Section):
    """A fixed number of requests in flight, each completion releasing the next."""

    concurrency: PositiveInt


_FILE_OPTIONS = (
    "format",
    "window_s",
    "thin",
    "arrivals",
    "bootstrap",
    "max_prompt_tokens",
    "max_output_tokens",
    "max_total_tokens",
    "over_cap",
    "sessions",
)


class TraceConfig(Section):
    """Where requests come from: a file, or the synthetic generator."""

    path: str | None = None
    format: str = "auto"
    limit: PositiveInt | None = None
    """Only the first so many requests."""
    rate_scale: PositiveFloat = 1.0
    """2 makes arrivals twice as fast."""
    window_s: Window | None = None
    """[start, end) after the first arrival."""
    thin: Annotated[float, Field(gt=0, le=1)] | None = None
    """Keep this fraction of the requests, drawn with the seed."""
    arrivals: dict[str, Any] | None = None
    """An arrival process that replaces the file's times."""
    bootstrap: PositiveInt | None = None
    """Draw the requests again, with the seed, in about so many blocks of consecutive ones."""
    max_prompt_tokens: PositiveInt | None = None
    max_output_tokens: PositiveInt | None = None
    max_total_tokens: PositiveInt | None = None
    over_cap: Literal["reject", "clip", "drop"] = "reject"
    """What becomes of requests over a cap."""
    sessions: bool = True
    """A turn of a session follows the completion of the one before; false replays recorded times."""
    synthetic: dict[str, Any] | None = None
    closed_loop: ClosedLoopConfig | None = None

    @model_validator(mode="after")
    def _one_origin(self) -> TraceConfig:
        if (self.path is None) == (self.synthetic is None):
            found = "neither" if self.path is None else "both"
            raise PydanticCustomError("origin", f"give either path or synthetic, got {found}")
        unused = [key for key in _FILE_OPTIONS if getattr(self, key) != type(self).model_fields[key].default]
        if self.synthetic is not None and unused:
            raise PydanticCustomError("origin", f"{unused[0]} is for a trace file, not for synthetic")
        return self


class ReplicaConfig(Section):
    """The simulated GPU replica. Model and GPU are names of configs/models and configs/gpus."""

    model: str | None = None
    gpu: str | None = None
    tensor_parallel: PositiveInt = 1
    max_model_len: PositiveInt | None = None
    """Requests with prompt + output above it are rejected; null is no limit."""
    async_scheduling: bool = False
    """Plan each iteration before the results of the one before it are known, as vLLM does by default."""
    front_end_delay_s: Annotated[float, Field(ge=0)] = 0.0
    """From a request's arrival at the API to the scheduler's seeing it."""


def _blocks(given: Any) -> Any:
    """A count of blocks, `auto` or `unlimited`."""
    if given in ("auto", "unlimited") or (type(given) is int and given >= 1):
        return given
    raise PydanticCustomError(
        "blocks", "must be an integer of at least 1, auto or unlimited, got {got}", {"got": show(given)}
    )


class KVCacheConfig(Section):
    """KV memory: the rule by which blocks are given, and how many there are."""

    memory: Literal["paged", "reserve"] = "paged"
    block_size: Annotated[int, Field(ge=1, le=1 << 20)] = 16
    num_blocks: Annotated[int | str, BeforeValidator(_blocks)] = "auto"
    """auto: from GPU memory less weights, which needs replica.model and replica.gpu."""
    gpu_memory_utilization: Annotated[float, Field(gt=0, le=1)] = 0.9
    """Share of the GPU's memory that auto counts with."""
    watermark: Annotated[float, Field(ge=0, lt=1)] = 0.0
    """Share of the blocks that an admission leaves free."""
    prefix_caching: bool = False
    preemption: Literal["recompute", "swap"] = "recompute"
    """What becomes of a preempted request's KV."""
    swap_bandwidth_gb_s: PositiveFloat | None = None
    """Speed between GPU and host memory, for swap."""
    victim: str = "last_admitted"
    """Which running request a preemption takes."""

    @model_validator(mode="after")
    def _swap_has_a_speed(self) -> KVCacheConfig:
        if (self.preemption == "swap") != (self.swap_bandwidth_gb_s is not None):
            raise PydanticCustomError("swap", "preemption: swap and swap_bandwidth_gb_s go together")
        return self


class PolicyConfig(Section):
    """Which scheduler, and in which order it sees what waits; other keys are its class's parameters."""

    model_config = ConfigDict(extra="allow")

    name: str | None = None
    path: str | None = None
    """A Python file outside the package that defines the policy."""
    oracle: bool = False
    """Lets the policy read true output lengths; the report says so."""
    order: str = "fcfs"
    """Which waiting request is next."""
    aging_s: PositiveFloat | None = None
    """Wait after which a request goes before every younger one; null lets it wait for ever."""
    prediction_noise: Annotated[float, Field(ge=0)] | None = None
    """For order: shortest_predicted, the standard deviation of log(predicted / true output length)."""

    @model_validator(mode="after")
    def _named(self) -> PolicyConfig:
        if self.name is None and self.path is None:
            raise PydanticCustomError("name", "name is required")
        return self

    @property
    def parameters(self) -> dict[str, Any]:
        """The policy's own parameters, as given."""
        return dict(self.model_extra or {})


class ObjectivesConfig(Section):
    """Objectives of a request; one that is null is not asked for."""

    ttft_s: PositiveFloat | None = None
    tbt_s: PositiveFloat | None = None
    tpot_s: PositiveFloat | None = None
    e2e_s: PositiveFloat | None = None


class SLOConfig(ObjectivesConfig):
    """Objectives of every request, and of those in an SLO class of the trace instead."""

    classes: dict[str, ObjectivesConfig] = {}


class EngineConfig(Section):
    """Switches of the simulator itself; none changes a result."""

    mode: Literal["fast", "reference"] = "fast"
    record_iterations: bool = True
    token_times: bool = False
    """Keep every token's time: Result.token_times in Python."""
    policy_timeout_s: PositiveFloat | None = 20.0
    """Real seconds after which one call of the policy counts as a loop; null never."""


class OutputConfig(Section):
    """What a run leaves behind."""

    dir: str | None = None
    """Default: runs/<name>."""
    plots: bool = True
    format: Literal["csv", "parquet"] = "csv"
    steady_window_s: Window | None = None
    """[start, end) of the steady throughput; null is the middle half of the arrivals."""


class CompareConfig(Section):
    """Policies that `run` and `compare` put beside each other on the same trace."""

    policies: list[Any] = []
    """Names, FILE.py:name, or mappings {name: ..., <parameters>}; limits come from `policy`."""
    seeds: PositiveInt = 1


class CapacityConfig(Section):
    """What `capacity` holds rates against, and how it looks for them (docs/comparing.md)."""

    limits: dict[str, PositiveFloat] = {}
    """Largest values of summary.json's metrics; default: queue_s.p50: 2, and tbt_s.p99: slo.tbt_s."""
    arrivals: Literal["poisson", "trace"] = "poisson"
    """Poisson arrivals of the trace's requests, or its own arrivals played faster or slower."""
    precision: Annotated[float, Field(gt=0, lt=1)] = 0.025
    """How far apart, relatively, the highest rate that passes and the lowest that fails may end."""
    min_rate_per_s: PositiveFloat | None = None
    max_rate_per_s: PositiveFloat | None = None
    """Where to look; default: from far below to far above what the bounds allow."""


class Config(Section):
    """A whole config. `source` says where its values were written."""

    name: Annotated[str, Field(pattern=r"^[\w][^/\\]*$")] = "run"
    seed: Annotated[int, Field(ge=0)] = 0
    trace: TraceConfig
    replica: ReplicaConfig = ReplicaConfig()
    cost_model: dict[str, Any]
    kv_cache: KVCacheConfig = KVCacheConfig()
    policy: PolicyConfig
    slo: SLOConfig = SLOConfig()
    engine: EngineConfig = EngineConfig()
    output: OutputConfig = OutputConfig()
    compare: CompareConfig = CompareConfig()
    capacity: CapacityConfig = CapacityConfig()
    _source: Source = PrivateAttr(default_factory=lambda: Source({}))

    @property
    def source(self) -> Source:
        return self._source

    @property
    def output_dir(self) -> str:
        """Where the run folder goes."""
        return self.output.dir or f"runs/{self.name}"

    def to_dict(self) -> dict[str, Any]:
        """Plain values with every default written out, in the order of design.md section 8."""
        return self.model_dump(mode="json")

    def to_yaml(self) -> str:
        return yaml.safe_dump(self.to_dict(), sort_keys=False)
