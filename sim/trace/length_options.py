"""Options of lengths, in tokens, and of delays, in seconds: one class a distribution."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from sim.core.errors import ConfigError
from sim.core.registry import param
from sim.trace.limits import TINY, check_options, check_quantiles, required


@dataclass(frozen=True)
class FixedLength:
    """Always the same. A bare integer in a config means this."""

    TAG: ClassVar[str] = "fixed"

    value: int = required("tokens", minimum=1)

    def __post_init__(self) -> None:
        check_options(self)


@dataclass(frozen=True)
class UniformLength:
    """Every integer from min to max, both included, equally likely."""

    TAG: ClassVar[str] = "uniform"

    min: int = required("smallest, in tokens", minimum=1)
    max: int = required("largest, in tokens", minimum=1)

    def __post_init__(self) -> None:
        check_options(self)
        check_order(self.min, self.max)


@dataclass(frozen=True)
class LognormalLength:
    """exp(normal), rounded; values outside min..max are set to the nearer end."""

    TAG: ClassVar[str] = "lognormal"

    median: float = required("median, in tokens", minimum=1)
    sigma: float = param(1.0, "standard deviation of the logarithm", minimum=0.0, maximum=10.0)
    min: int = param(1, "smallest, in tokens", minimum=1)
    max: int | None = param(None, "largest, in tokens", minimum=1)

    def __post_init__(self) -> None:
        check_options(self)
        check_order(self.min, self.max)


@dataclass(frozen=True)
class ZipfLength:
    """P(k) proportional to k ** -exponent for k from min to max."""

    TAG: ClassVar[str] = "zipf"

    exponent: float = param(1.2, "larger is shorter", minimum=0.0, maximum=20.0)
    min: int = param(1, "smallest, in tokens", minimum=1)
    max: int = param(32768, "largest, in tokens", minimum=1, maximum=10_000_000)

    def __post_init__(self) -> None:
        check_options(self)
        check_order(self.min, self.max)


@dataclass(frozen=True)
class EmpiricalLength:
    """Drawn from a measured quantile function, linear between its points."""

    TAG: ClassVar[str] = "empirical"

    quantiles: tuple[tuple[float, float], ...] = param((), "pairs (probability, tokens), both rising")
    table: str | None = param(None, "CSV file with a column `quantile`, instead of quantiles")
    column: str | None = param(None, "the table's column to use; default: the name of the length")

    def __post_init__(self) -> None:
        check_options(self)
        check_quantiles(self.quantiles, self.table)


@dataclass(frozen=True)
class MixtureLength:
    """One of several distributions, chosen by weight."""

    TAG: ClassVar[str] = "mixture"

    components: tuple[Length, ...] = required("the distributions")
    weights: tuple[float, ...] = required("one weight a component, in any unit", minimum=0.0)

    def __post_init__(self) -> None:
        check_options(self)
        if not self.components or len(self.components) != len(self.weights):
            raise ConfigError(
                f"components and weights need as many entries as each other; "
                f"they have {len(self.components)} and {len(self.weights)}"
            )
        if not sum(self.weights) > 0:
            raise ConfigError("weights: at least one must be above 0")


Length = FixedLength | UniformLength | LognormalLength | ZipfLength | EmpiricalLength | MixtureLength


def check_order(minimum: int, maximum: int | None) -> None:
    if maximum is not None and maximum < minimum:
        raise ConfigError(f"max: {maximum} is below min, {minimum}")


@dataclass(frozen=True)
class FixedDelay:
    """Always the same. A bare number in a config means this."""

    TAG: ClassVar[str] = "fixed"

    value_s: float = required("seconds", minimum=0.0)

    def __post_init__(self) -> None:
        check_options(self)


@dataclass(frozen=True)
class ExponentialDelay:
    """Exponential."""

    TAG: ClassVar[str] = "exponential"

    mean_s: float = required("mean, in seconds", minimum=0.0)

    def __post_init__(self) -> None:
        check_options(self)


@dataclass(frozen=True)
class LognormalDelay:
    """exp(normal)."""

    TAG: ClassVar[str] = "lognormal"

    median_s: float = required("median, in seconds", minimum=TINY)
    sigma: float = param(1.0, "standard deviation of the logarithm", minimum=0.0, maximum=10.0)

    def __post_init__(self) -> None:
        check_options(self)


Delay = FixedDelay | ExponentialDelay | LognormalDelay


LENGTHS: dict[str, type[Length]] = {
    kind.TAG: kind
    for kind in (FixedLength, UniformLength, LognormalLength, ZipfLength, EmpiricalLength, MixtureLength)
}
"""By `distribution`."""
DELAYS: dict[str, type[Delay]] = {kind.TAG: kind for kind in (FixedDelay, ExponentialDelay, LognormalDelay)}
"""By `distribution`."""
