"""Verdicts: what a paired comparison of two policies says, as a sentence a reader can check.

Owns wording and rounding; what may be claimed is statistics.py's.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd

from sim.report.statistics import Interval, Paired, paired

TIMES = 1.5
"""From this ratio on a difference is told as so many times, below it in percent."""


@dataclass(frozen=True)
class Judged:
    """A metric worth a sentence."""

    metric: str
    """Its column in a comparison's frame."""
    noun: str
    unit: str = ""
    """Of differences: s, share, or what stands behind the number."""


JUDGED = (
    Judged("ttft_s.p50", "median TTFT", "s"),
    Judged("ttft_s.p99", "p99 TTFT", "s"),
    Judged("tbt_s.p50", "median TBT", "s"),
    Judged("tbt_s.p99", "p99 TBT", "s"),
    Judged("tbt_s.max", "longest TBT", "s"),
    Judged("e2e_s.p50", "median E2E", "s"),
    Judged("throughput.output_tokens_per_s", "output token throughput", "/s"),
    Judged("steady_throughput.output_tokens_per_s", "steady output token throughput", "/s"),
    Judged("goodput", "goodput", "/s"),
    Judged("slo_attainment", "SLO attainment", "share"),
    Judged("makespan_s", "makespan", "s"),
)


def verdicts(frame: pd.DataFrame, baseline: str, judged: Sequence[Judged] = JUDGED) -> dict[str, list[str]]:
    """Sentences on every other policy of a comparison against `baseline`, by policy.

    A metric that either of them lacks in every seed has no sentence.
    """
    sentences: dict[str, list[str]] = {}
    for policy in frame["policy"].unique():
        if policy != baseline:
            found = (_verdict_on(frame, str(policy), baseline, metric) for metric in judged)
            sentences[str(policy)] = [sentence for sentence in found if sentence is not None]
    return sentences


def verdict(found: Paired, policy: str, baseline: str, noun: str, unit: str = "") -> str:
    """One sentence: how `policy` compares to `baseline` in `noun`, and how sure that is."""
    if found.difference.mean == 0 and found.difference.low in (None, 0.0):
        return f"{policy}'s {noun} is the same as {baseline}'s"
    if found.ratio is not None:
        return _by_ratio(found.ratio, policy, baseline, noun, found.shown)
    return _by_difference(found.difference, policy, baseline, noun, unit, found.shown)


def _verdict_on(frame: pd.DataFrame, policy: str, baseline: str, judged: Judged) -> str | None:
    if judged.metric not in frame:
        return None
    table = frame.pivot(index="seed", columns="policy", values=judged.metric).astype(np.float64)
    both = table[[policy, baseline]].dropna()
    if not len(both):
        return None
    found = paired(both[policy].to_numpy(), both[baseline].to_numpy())
    return verdict(found, policy, baseline, judged.noun, judged.unit)


def _by_ratio(ratio: Interval, policy: str, baseline: str, noun: str, shown: bool) -> str:
    if ratio.low is not None and not shown:
        mean, low, high = (100 * (end - 1) for end in (ratio.mean, ratio.low, ratio.high or ratio.mean))
        return f"{noun}: no difference shown; {policy} {mean:+.2g} %, between {low:+.2g} and {high:+.2g} %"
    lower = ratio.mean < 1
    word = "lower" if lower else "higher"
    times = ratio.mirrored(lambda value: 1 / value) if lower else ratio
    if times.mean >= TIMES:
        return f"{policy}'s {noun} is {_told(times)} times {word} than {baseline}'s{_ends(times)}"
    percent = ratio.mirrored(lambda value: 100 * (1 - value))
    if not lower:
        percent = percent.mirrored(lambda value: -value)
    return f"{policy}'s {noun} is {_told(percent)} % {word} than {baseline}'s{_ends(percent, ' %')}"


def _by_difference(
    difference: Interval, policy: str, baseline: str, noun: str, unit: str, shown: bool
) -> str:
    """For metrics that are 0 somewhere, which have no ratio."""
    factor, behind = (100.0, " points") if unit == "share" else (1.0, f" {unit}" if unit else "")
    size, word = difference.mirrored(lambda value: -factor * value), "lower"
    if difference.mean > 0:
        size, word = size.mirrored(lambda value: -value), "higher"
    if difference.low is not None and not shown:
        return f"{noun}: no difference shown; {policy}'s is {_told(size)}{behind} {word}{_ends(size, behind)}"
    return f"{policy}'s {noun} is {_told(size)}{behind} {word} than {baseline}'s{_ends(size, behind)}"


def _told(found: Interval) -> str:
    return _digits(found.mean)


def _ends(found: Interval, behind: str = "") -> str:
    if found.low is None or found.high is None:
        return ""
    return f" [{_digits(found.low)}, {_digits(found.high)}{behind}]"


def _digits(value: float) -> str:
    return f"{value:,.0f}" if abs(value) >= 99.95 else f"{value:.3g}"
