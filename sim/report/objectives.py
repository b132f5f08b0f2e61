"""Objectives: which requests met their SLOs, the goodput they make and the share they are."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

SLO_KEYS = ("ttft_s", "tbt_s", "tpot_s", "e2e_s")

Limits = Mapping[str, float | None]
"""Seconds by SLO_KEYS; a key that is missing or None is not asked for."""


@dataclass(frozen=True)
class Objectives:
    """What each request was promised, and whether it was kept.

    A request meets tbt_s if its longest TBT is within it; one that has no such value (one output
    token has no TBT and no TPOT) meets it. Only finished requests meet anything, so a rejected
    request that has an SLO missed it.
    """

    has_slo: NDArray[np.bool_]
    met: NDArray[np.bool_]
    """Finished within every SLO it has; also true of a finished request that has none."""
    met_by_key: Mapping[str, float | None]
    """Share of the requests with that SLO which met it; None where nobody has it."""

    @property
    def num_met(self) -> int:
        return int(self.met.sum())

    @property
    def attainment(self) -> float | None:
        """Share of the requests with an SLO that met all of theirs."""
        return _share(self.met, self.has_slo)


def judge(
    finished: NDArray[np.bool_],
    seconds: Mapping[str, NDArray[np.float64]],
    slo: Limits | None,
    slo_classes: Mapping[str, Limits] | None = None,
    slo_class: NDArray[np.object_] | None = None,
) -> Objectives:
    """Hold every request's `seconds` (SLO_KEYS to columns, NaN where undefined) against its limits.

    A request whose `slo_class` is in `slo_classes` has that class's limits, any other has `slo`.
    """
    has_slo = np.zeros(len(finished), dtype=bool)
    met = finished.copy()
    by_key: dict[str, float | None] = {}
    for key in SLO_KEYS:
        limit = _limit_column(key, len(finished), slo or {}, slo_classes or {}, slo_class)
        asked = ~np.isnan(limit)
        kept = finished & ~(seconds[key] > limit)
        has_slo |= asked
        met &= kept | ~asked
        by_key[key] = _share(kept, asked)
    return Objectives(has_slo, met, by_key)


def _limit_column(
    key: str,
    rows: int,
    slo: Limits,
    slo_classes: Mapping[str, Limits],
    slo_class: NDArray[np.object_] | None,
) -> NDArray[np.float64]:
    column = np.full(rows, _number(slo.get(key)))
    if slo_class is not None:
        for name, limits in slo_classes.items():
            column[slo_class == name] = _number(limits.get(key))
    return column


def _number(limit: float | None) -> float:
    return np.nan if limit is None else limit


def _share(part: NDArray[np.bool_], whole: NDArray[np.bool_]) -> float | None:
    total = int(whole.sum())
    return int((part & whole).sum()) / total if total else None
