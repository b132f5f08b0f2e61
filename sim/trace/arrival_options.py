"""Options of arrivals: how gaps are distributed, and how the rate changes over time."""

# ruff: noqa: RUF009  (param is dataclasses.field with our metadata)

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from sim.core.errors import ConfigError
from sim.core.registry import param
from sim.trace.limits import TINY, check_options, check_quantiles, required


@dataclass(frozen=True)
class Diurnal:
    """A sine over the rate: rate * (1 + amplitude * cos(2 pi (t - peak_s) / period_s))."""

    amplitude: float = param(0.5, "swing over the mean rate; 1 falls to zero", minimum=0.0, maximum=1.0)
    period_s: float = param(86400.0, "length of a cycle", minimum=TINY)
    peak_s: float = param(0.0, "when the rate is highest")

    def __post_init__(self) -> None:
        check_options(self)


@dataclass(frozen=True)
class Markov:
    """A rate that jumps between states (MMPP): exponential stays, then another state at random."""

    multipliers: tuple[float, ...] = required("rate of each state over rate_per_s", minimum=0.0)
    mean_stay_s: tuple[float, ...] = required("mean time in each state", minimum=TINY)

    def __post_init__(self) -> None:
        check_options(self)
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

    bin_s: float = required("width of a bin", minimum=TINY)
    multipliers: tuple[float, ...] = required("rate in each bin over rate_per_s", minimum=0.0)

    def __post_init__(self) -> None:
        check_options(self)
        if not any(self.multipliers):
            raise ConfigError("multipliers: at least one bin must have a rate above 0")


@dataclass(frozen=True)
class Crowd:
    """A flash crowd: from at_s the rate is multiplied, and falls back after duration_s."""

    at_s: float = required("when it begins", minimum=0.0)
    duration_s: float = required("how long it lasts", minimum=TINY)
    multiplier: float = required("rate during it over the rate without it", minimum=0.0)

    def __post_init__(self) -> None:
        check_options(self)


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
        check_options(self)


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
        check_quantiles(self.quantiles, self.table)


ARRIVALS: dict[str, type[Arrivals]] = {
    kind.TAG: kind
    for kind in (ConstantArrivals, PoissonArrivals, GammaArrivals, WeibullArrivals, EmpiricalArrivals)
}
"""By `process`; poisson when the key is left out."""
