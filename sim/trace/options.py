"""SyntheticSpec: the typed options of `trace: {synthetic: {...}}`, with their documentation and limits.

Owns what may be asked for; drawing it is sim/trace/synthetic.py, reading it from a mapping is
sim/trace/parse.py. Every field is made by `param`, so its metadata holds doc, minimum, maximum and
allowed. A class of a tagged family says its tag in `TAG`; the tag's key is the family's (see
ARRIVALS, LENGTHS, DELAYS). Making an object checks it; a wrong one raises ConfigError.
"""

# ruff: noqa: RUF009  (param is dataclasses.field with our metadata)

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from sim.core.errors import ConfigError
from sim.core.registry import param
from sim.trace.arrival_options import (
    ARRIVALS,
    Arrivals,
    ConstantArrivals,
    Crowd,
    Curve,
    Diurnal,
    EmpiricalArrivals,
    GammaArrivals,
    Markov,
    PoissonArrivals,
    WeibullArrivals,
)
from sim.trace.length_options import (
    DELAYS,
    LENGTHS,
    Delay,
    EmpiricalLength,
    ExponentialDelay,
    FixedDelay,
    FixedLength,
    Length,
    LognormalDelay,
    LognormalLength,
    MixtureLength,
    UniformLength,
    ZipfLength,
)
from sim.trace.limits import TINY, check_number, check_options

__all__ = [
    "ARRIVALS",
    "DELAYS",
    "GAP_FITS",
    "LENGTHS",
    "LENGTH_FITS",
    "Arrivals",
    "ConstantArrivals",
    "Crowd",
    "Curve",
    "Delay",
    "Diurnal",
    "EmpiricalArrivals",
    "EmpiricalLength",
    "ExponentialDelay",
    "FixedDelay",
    "FixedLength",
    "GammaArrivals",
    "Length",
    "LognormalDelay",
    "LognormalLength",
    "Markov",
    "MixtureLength",
    "PoissonArrivals",
    "Sessions",
    "SharedPrefix",
    "SyntheticSpec",
    "UniformLength",
    "WeibullArrivals",
    "ZipfLength",
]

GAP_FITS = ("empirical", "poisson", "gamma", "weibull")
"""What `trace fit` can model gaps as."""
LENGTH_FITS = ("empirical", "lognormal")
"""What `trace fit` can model lengths as."""


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
        check_options(self)


@dataclass(frozen=True)
class SharedPrefix:
    """System prompts that requests (sessions) share; they come before, and add to, prompt_tokens."""

    tokens: Length = param(FixedLength(512), "length of a system prompt")
    count: int = param(1, "how many different ones there are", minimum=1, maximum=1_000_000)
    zipf_exponent: float = param(0.0, "popularity: rank ** -exponent; 0 is equal", minimum=0.0)
    share: float = param(1.0, "fraction of requests that have one", minimum=0.0, maximum=1.0)

    def __post_init__(self) -> None:
        check_options(self)


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
        None, "most prompt plus output; the prompt is cut, then the output; a session ends", minimum=2
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
        check_options(self)
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
            check_number("copula", weight, 0.0, None)
    if not sum(map(sum, copula)) > 0:
        raise ConfigError("copula: at least one weight must be above 0")


def _check_shares(name: str, shares: Mapping[Any, float] | None) -> None:
    if shares is None:
        return
    for label, share in shares.items():
        check_number(f"{name}.{label}", share, 0.0, None)
    if not sum(shares.values()) > 0:
        raise ConfigError(f"{name}: at least one share must be above 0")
