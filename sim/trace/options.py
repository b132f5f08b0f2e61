"""SyntheticSpec: the typed options of `trace: {synthetic: {...}}`, with their documentation and limits.

Owns what may be asked for; drawing it is sim/trace/synthetic.py, reading it from a mapping is
sim/trace/parse.py. Every field is made by `param`, so its metadata holds doc, minimum, maximum and
allowed. A class of a tagged family says its tag in `TAG`; the tag's key is the family's (see
ARRIVALS, LENGTHS, DELAYS). Making an object checks it; a wrong one raises ConfigError.
"""

from __future__ import annotations

import dataclasses
import itertools
import math
from collections.abc import Mapping
from dataclasses import MISSING, dataclass
from typing import Any, ClassVar

from sim.core.errors import ConfigError, suggestion
from sim.core.registry import param

TINY = 1e-9
"""Stands for "above zero" in the limits of rates, widths and shapes."""

GAP_FITS = ("empirical", "poisson", "gamma", "weibull")
"""What `trace fit` can model gaps as."""
LENGTH_FITS = ("empirical", "lognormal")
"""What `trace fit` can model lengths as."""


def _required(doc: str, **limits: Any) -> Any:
    return param(MISSING, doc, **limits)


def _check(options: Any) -> None:
    """Hold every plain number and word of `options` against the limits in its field's metadata."""
    for field in dataclasses.fields(options):
        value, limits = getattr(options, field.name), field.metadata
        allowed = limits.get("allowed")
        if allowed and value not in allowed:
            raise ConfigError(f"{field.name}: unknown value {value!r}: {suggestion(str(value), allowed)}")
        values = value if isinstance(value, tuple) else (value,)
        for number in values:
            if isinstance(number, (int, float)):
                _check_number(field.name, number, limits.get("minimum"), limits.get("maximum"))


def _check_number(name: str, number: float, minimum: float | None, maximum: float | None) -> None:
    if not math.isfinite(number):
        raise ConfigError(f"{name}: {number} is not a finite number")
    if minimum is not None and number < minimum:
        least = "above 0" if minimum == TINY else f"at least {minimum}"
        raise ConfigError(f"{name}: {number} is too small; it must be {least}")
    if maximum is not None and number > maximum:
        raise ConfigError(f"{name}: {number} is too large; it must be at most {maximum}")


# ---------------------------------------------------------------- how the rate changes over time


@dataclass(frozen=True)
class Diurnal:
    """A sine over the rate: rate * (1 + amplitude * cos(2 pi (t - peak_s) / period_s))."""

    amplitude: float = param(0.5, "swing over the mean rate; 1 falls to zero", minimum=0.0, maximum=1.0)
    period_s: float = param(86400.0, "length of a cycle", minimum=TINY)
    peak_s: float = param(0.0, "when the rate is highest")

    def __post_init__(self) -> None:
        _check(self)


@dataclass(frozen=True)
class Markov:
    """A rate that jumps between states (MMPP): exponential stays, then another state at random."""

    multipliers: tuple[float, ...] = _required("rate of each state over rate_per_s", minimum=0.0)
    mean_stay_s: tuple[float, ...] = _required("mean time in each state", minimum=TINY)

    def __post_init__(self) -> None:
        _check(self)
        if len(self.multipliers) < 2 or len(self.multipliers) != len(self.mean_stay_s):
            raise ConfigError(
                f"multipliers and mean_stay_s need one entry a state, two or more states; "
                f"they have {len(self.multipliers)} and {len(self.mean_stay_s)}"
            )
        if not any(self.multipliers):
            raise ConfigError("multipliers: at least one state must have a rate above 0")


@dataclass(frozen=True)
class Curve:
    """A rate by equal time bins, repeated when it ends."""

    bin_s: float = _required("width of a bin", minimum=TINY)
    multipliers: tuple[float, ...] = _required("rate in each bin over rate_per_s", minimum=0.0)

    def __post_init__(self) -> None:
        _check(self)
        if not any(self.multipliers):
            raise ConfigError("multipliers: at least one bin must have a rate above 0")


@dataclass(frozen=True)
class Crowd:
    """A flash crowd: from at_s the rate is multiplied, and falls back after duration_s."""

    at_s: float = _required("when it begins", minimum=0.0)
    duration_s: float = _required("how long it lasts", minimum=TINY)
    multiplier: float = _required("rate during it over the rate without it", minimum=0.0)

    def __post_init__(self) -> None:
        _check(self)


# ---------------------------------------------------------------- arrivals


@dataclass(frozen=True)
class Arrivals:
    """What every arrival process has: a rate, and modulations of it that multiply one another.

    Gaps are drawn at unit rate and stretched by the inverse of the cumulative rate, so that any gap
    distribution goes with any modulation; with `poisson` the result is an exact inhomogeneous
    Poisson process.
    """

    TAG: ClassVar[str]

    rate_per_s: float = param(1.0, "requests (sessions, if any) a second, unmodulated", minimum=TINY)
    diurnal: Diurnal | None = param(None, "a daily swing")
    markov: Markov | None = param(None, "random jumps of the rate")
    curve: Curve | None = param(None, "a measured rate over time")
    crowds: tuple[Crowd, ...] = param((), "flash crowds")

    def __post_init__(self) -> None:
        _check(self)


@dataclass(frozen=True)
class ConstantArrivals(Arrivals):
    """Equal gaps."""

    TAG = "constant"


@dataclass(frozen=True)
class PoissonArrivals(Arrivals):
    """Exponential gaps: independent users."""

    TAG = "poisson"


@dataclass(frozen=True)
class GammaArrivals(Arrivals):
    """Gamma gaps. CV of the gaps = 1 / sqrt(burstiness), as in vLLM's benchmark client."""

    TAG = "gamma"

    burstiness: float = param(1.0, "shape; 1 is Poisson, below 1 is burstier", minimum=TINY)


@dataclass(frozen=True)
class WeibullArrivals(Arrivals):
    """Weibull gaps."""

    TAG = "weibull"

    shape: float = param(1.0, "1 is Poisson, below 1 is burstier", minimum=TINY)


@dataclass(frozen=True)
class EmpiricalArrivals(Arrivals):
    """Gaps drawn from a measured quantile function, scaled to mean 1 / rate_per_s."""

    TAG = "empirical"

    quantiles: tuple[tuple[float, float], ...] = param((), "pairs (probability, gap in any unit)")
    table: str | None = param(None, "CSV file with a column `quantile`, instead of quantiles")
    column: str = param("gap", "the table's column to use")

    def __post_init__(self) -> None:
        super().__post_init__()
        _check_quantiles(self.quantiles, self.table)


# ---------------------------------------------------------------- lengths, in tokens


@dataclass(frozen=True)
class FixedLength:
    """Always the same. A bare integer in a config means this."""

    TAG: ClassVar[str] = "fixed"

    value: int = _required("tokens", minimum=1)

    def __post_init__(self) -> None:
        _check(self)


@dataclass(frozen=True)
class UniformLength:
    """Every integer from min to max, both included, equally likely."""

    TAG: ClassVar[str] = "uniform"

    min: int = _required("smallest, in tokens", minimum=1)
    max: int = _required("largest, in tokens", minimum=1)

    def __post_init__(self) -> None:
        _check(self)
        _check_order(self.min, self.max)


@dataclass(frozen=True)
class LognormalLength:
    """exp(normal), rounded; values outside min..max are set to the nearer end."""

    TAG: ClassVar[str] = "lognormal"

    median: float = _required("median, in tokens", minimum=1)
    sigma: float = param(1.0, "standard deviation of the logarithm", minimum=0.0, maximum=10.0)
    min: int = param(1, "smallest, in tokens", minimum=1)
    max: int | None = param(None, "largest, in tokens", minimum=1)

    def __post_init__(self) -> None:
        _check(self)
        _check_order(self.min, self.max)


@dataclass(frozen=True)
class ZipfLength:
    """P(k) proportional to k ** -exponent for k from min to max."""

    TAG: ClassVar[str] = "zipf"

    exponent: float = param(1.2, "larger is shorter", minimum=0.0, maximum=20.0)
    min: int = param(1, "smallest, in tokens", minimum=1)
    max: int = param(32768, "largest, in tokens", minimum=1, maximum=10_000_000)

    def __post_init__(self) -> None:
        _check(self)
        _check_order(self.min, self.max)


@dataclass(frozen=True)
class EmpiricalLength:
    """Drawn from a measured quantile function, linear between its points."""

    TAG: ClassVar[str] = "empirical"

    quantiles: tuple[tuple[float, float], ...] = param((), "pairs (probability, tokens), both rising")
    table: str | None = param(None, "CSV file with a column `quantile`, instead of quantiles")
    column: str | None = param(None, "the table's column to use; default: the name of the length")

    def __post_init__(self) -> None:
        _check(self)
        _check_quantiles(self.quantiles, self.table)


@dataclass(frozen=True)
class MixtureLength:
    """One of several distributions, chosen by weight."""

    TAG: ClassVar[str] = "mixture"

    components: tuple[Length, ...] = _required("the distributions")
    weights: tuple[float, ...] = _required("one weight a component, in any unit", minimum=0.0)

    def __post_init__(self) -> None:
        _check(self)
        if not self.components or len(self.components) != len(self.weights):
            raise ConfigError(
                f"components and weights need as many entries as each other; "
                f"they have {len(self.components)} and {len(self.weights)}"
            )
        if not sum(self.weights) > 0:
            raise ConfigError("weights: at least one must be above 0")


Length = (
    FixedLength | UniformLength | LognormalLength | ZipfLength | EmpiricalLength | MixtureLength
)


def _check_order(minimum: int, maximum: int | None) -> None:
    if maximum is not None and maximum < minimum:
        raise ConfigError(f"max: {maximum} is below min, {minimum}")


def _check_quantiles(quantiles: tuple[tuple[float, float], ...], table: str | None) -> None:
    if bool(quantiles) == (table is not None):
        raise ConfigError("give either quantiles or table")
    if not quantiles:
        return
    probabilities, values = zip(*quantiles, strict=True)
    if probabilities[0] != 0 or probabilities[-1] != 1:
        raise ConfigError("quantiles: the probabilities must go from 0 to 1")
    for name, column in (("probabilities", probabilities), ("values", values)):
        if any(later < earlier for earlier, later in itertools.pairwise(column)):
            raise ConfigError(f"quantiles: the {name} must not fall")
    if values[0] < 0:
        raise ConfigError(f"quantiles: {values[0]} is negative")


# ---------------------------------------------------------------- delays, in seconds


@dataclass(frozen=True)
class FixedDelay:
    """Always the same. A bare number in a config means this."""

    TAG: ClassVar[str] = "fixed"

    value_s: float = _required("seconds", minimum=0.0)

    def __post_init__(self) -> None:
        _check(self)


@dataclass(frozen=True)
class ExponentialDelay:
    """Exponential."""

    TAG: ClassVar[str] = "exponential"

    mean_s: float = _required("mean, in seconds", minimum=0.0)

    def __post_init__(self) -> None:
        _check(self)


@dataclass(frozen=True)
class LognormalDelay:
    """exp(normal)."""

    TAG: ClassVar[str] = "lognormal"

    median_s: float = _required("median, in seconds", minimum=TINY)
    sigma: float = param(1.0, "standard deviation of the logarithm", minimum=0.0, maximum=10.0)

    def __post_init__(self) -> None:
        _check(self)


Delay = FixedDelay | ExponentialDelay | LognormalDelay


# ---------------------------------------------------------------- what requests share


@dataclass(frozen=True)
class Sessions:
    """Conversations of several turns: each prompt is all that was said before plus a new message.

    The arrival process then starts sessions, prompt_tokens is the new message of a turn, and a turn
    comes think_s after the answer to the one before. A session ends early when its next turn would
    go over the spec's max_total_tokens.
    """

    turns: Length = param(FixedLength(1), "turns of a session")
    think_s: Delay = param(ExponentialDelay(10.0), "time from an answer to the next turn")

    def __post_init__(self) -> None:
        _check(self)


@dataclass(frozen=True)
class SharedPrefix:
    """System prompts that requests (sessions) share; they come before, and add to, prompt_tokens."""

    tokens: Length = param(FixedLength(512), "length of a system prompt")
    count: int = param(1, "how many different ones there are", minimum=1, maximum=1_000_000)
    zipf_exponent: float = param(0.0, "popularity: rank ** -exponent; 0 is equal", minimum=0.0)
    share: float = param(1.0, "fraction of requests that have one", minimum=0.0, maximum=1.0)

    def __post_init__(self) -> None:
        _check(self)


@dataclass(frozen=True)
class SyntheticSpec:
    """A whole synthetic trace. It ends at num_requests or duration_s, whichever comes first."""

    num_requests: int | None = param(None, "requests (turns) to make", minimum=1, maximum=100_000_000)
    duration_s: float | None = param(None, "arrivals stop here", minimum=TINY)
    arrivals: Arrivals = param(PoissonArrivals(), "when requests come")
    prompt_tokens: Length = param(FixedLength(512), "prompt lengths")
    output_tokens: Length = param(FixedLength(128), "output lengths")
    correlation: float = param(
        0.0, "rank correlation (Spearman) of the two, by a Gaussian copula", minimum=-1.0, maximum=1.0
    )
    copula: tuple[tuple[float, ...], ...] | None = param(
        None,
        "measured dependence instead: weights by rank of prompt (rows, short to long) and of output "
        "(columns), in bins of equal probability",
        minimum=0.0,
    )
    max_total_tokens: int | None = param(
        None, "most prompt plus output: output, then prompt, is cut to it; a session ends", minimum=2
    )
    sessions: Sessions | None = param(None, "conversations of several turns")
    shared_prefix: SharedPrefix | None = param(None, "shared system prompts")
    hash_block_tokens: int = param(
        16, "block size of prefix hashes, made for sessions and shared prefixes", minimum=1
    )
    clients: Mapping[str, float] | None = param(None, "client names and their shares of the requests")
    slo_classes: Mapping[str, float] | None = param(None, "SLO class names and their shares")
    priorities: Mapping[int, float] | None = param(None, "priorities and their shares")

    def __post_init__(self) -> None:
        _check(self)
        if self.num_requests is None and self.duration_s is None:
            raise ConfigError("give num_requests or duration_s")
        if self.copula is not None:
            _check_copula(self.copula, self.correlation)
        for name in ("clients", "slo_classes", "priorities"):
            _check_shares(name, getattr(self, name))


def _check_copula(copula: tuple[tuple[float, ...], ...], correlation: float) -> None:
    if correlation:
        raise ConfigError("give either correlation or copula")
    if len({len(row) for row in copula}) != 1 or not copula[0]:
        raise ConfigError("copula: the rows must be of one length, at least 1")
    for row in copula:
        for weight in row:
            _check_number("copula", weight, 0.0, None)
    if not sum(map(sum, copula)) > 0:
        raise ConfigError("copula: at least one weight must be above 0")


def _check_shares(name: str, shares: Mapping[Any, float] | None) -> None:
    if shares is None:
        return
    for label, share in shares.items():
        _check_number(f"{name}.{label}", share, 0.0, None)
    if not sum(shares.values()) > 0:
        raise ConfigError(f"{name}: at least one share must be above 0")


ARRIVALS: dict[str, type[Arrivals]] = {
    kind.TAG: kind
    for kind in (ConstantArrivals, PoissonArrivals, GammaArrivals, WeibullArrivals, EmpiricalArrivals)
}
"""By `process`; poisson when the key is left out."""
LENGTHS: dict[str, type[Length]] = {
    kind.TAG: kind
    for kind in (FixedLength, UniformLength, LognormalLength, ZipfLength, EmpiricalLength, MixtureLength)
}
"""By `distribution`."""
DELAYS: dict[str, type[Delay]] = {
    kind.TAG: kind for kind in (FixedDelay, ExponentialDelay, LognormalDelay)
}
"""By `distribution`."""
