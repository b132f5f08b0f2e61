"""Lanes: what a few seconds of a run looked like, worked out from its run folder; draws nothing.

Owns finding the worst stall, choosing the requests worth showing, and their tokens' times. A folder
holds iterations and requests, not tokens, so tokens are placed by this reading: a decode gets one
at the end of every iteration that has decodes, which is exact unless more decodes run than the
budget allows; the iterations of one jump are spaced evenly; preempted requests are left out.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from sim.report.view import RunView

Times = NDArray[np.float64]

HALF_NS = 5e-10
"""Slack for ends of iterations, which are sums of two rounded doubles."""

STALL_FACTOR = 3.0
MOST_LANES, MOST_DECODES, MOST_WAITING = 15, 9, 2


@dataclass(frozen=True)
class Stall:
    """A time in which decodes got no token because prefills ran."""

    start_s: float
    end_s: float
    decodes: int


@dataclass(frozen=True)
class Lane:
    """One request's life. What has not happened is infinitely late, so that it is never in a window."""

    request_id: str
    prompt_tokens: int
    arrival_s: float
    scheduled_s: float
    first_token_s: float
    finish_s: float
    tokens_s: Times
    """Tokens near the window, one before and one after it included."""


@dataclass(frozen=True)
class Steps:
    """Iterations one by one: edges and what each computed."""

    start_s: Times
    end_s: Times
    prefill_tokens: Times
    num_decodes: Times


def stall_threshold_s(views: Sequence[RunView]) -> float:
    """A gap longer than this is shown as a stall: the TBT objective, else 3 times the usual gap."""
    limits = [limit for view in views if (limit := view.summary["slo"].get("tbt_s")) is not None]
    if limits:
        return float(min(limits))
    usual = [p50 for view in views if (p50 := view.summary["tbt_s"]["p50"]) is not None]
    return STALL_FACTOR * min(usual, default=np.inf)


def worst_stall(view: RunView) -> Stall | None:
    """The stall that cost most: time beyond the usual gap, times the decodes that sat it out."""
    gaps = _gaps(view)
    if len(gaps.start_s) == 0:
        return None
    beyond = np.maximum(gaps.end_s - gaps.start_s - view.summary["tbt_s"]["p50"], 0)
    cost = beyond * gaps.decodes * gaps.prefilled
    worst = int(cost.argmax())
    if cost[worst] <= 0:
        return None
    return Stall(float(gaps.start_s[worst]), float(gaps.end_s[worst]), int(gaps.decodes[worst]))


def longest_gap(view: RunView, window_s: tuple[float, float], steps: Steps) -> Stall | None:
    """The longest time between tokens of decodes that touches the window, whatever its cause."""
    ends = steps.end_s[steps.num_decodes > 0]
    decodes = decoding_at(view, ends[:-1])
    here = (decodes > 0) & (ends[1:] > window_s[0]) & (ends[:-1] < window_s[1])
    if not here.any():
        return None
    longest = int(np.where(here, np.diff(ends), -1.0).argmax())
    return Stall(float(ends[longest]), float(ends[longest + 1]), int(decodes[longest]))


@dataclass(frozen=True)
class _Gaps:
    """Times between consecutive rows' decode tokens, and what happened in each."""

    start_s: Times
    end_s: Times
    decodes: Times
    prefilled: NDArray[np.bool_]


def _gaps(view: RunView) -> _Gaps:
    rows = view.iterations
    decoding = (rows["num_decodes"] > 0).to_numpy()
    tokens_before = rows["prefill_tokens"].to_numpy().cumsum()[decoding]
    rows = rows[decoding]
    start, length = rows["start_s"].to_numpy(), rows["duration_s"].to_numpy()
    begin, end = (start + length)[:-1], (start + length / rows["repeats"].to_numpy())[1:]
    return _Gaps(begin, end, decoding_at(view, begin), np.diff(tokens_before) > 0)


def decoding_at(view: RunView, times: Times) -> Times:
    """Requests past their first token and not finished, at each of `times` (ends of iterations)."""
    times = times + HALF_NS
    firsts = np.sort(view.requests["first_token_s"].dropna().to_numpy())
    finishes = np.sort(view.requests["finish_s"].dropna().to_numpy())
    begun = np.searchsorted(firsts, times, side="right")
    return np.asarray(begun - np.searchsorted(finishes, times, side="right"), dtype=np.float64)


def naive_of(views: Sequence[RunView]) -> RunView:
    """The run whose stalls tell most: `continuous` if it is there, else that with the worst p99 TBT."""
    named = [view for view in views if view.name.split(" ")[0] == "continuous"]
    return named[0] if named else max(views, key=lambda view: view.summary["tbt_s"]["p99"] or 0.0)


def telling_window(views: Sequence[RunView]) -> tuple[float, float]:
    """[start, end) in seconds: a few around the naive run's worst stall, else where work begins."""
    stall = worst_stall(naive_of(views))
    if stall is None:
        begin = min(float(view.iterations["start_s"].iloc[0]) for view in views)
        return begin, begin + 3.0
    width = float(np.clip(8 * (stall.end_s - stall.start_s), 3.0, 8.0))
    begin = max(0.0, (stall.start_s + stall.end_s) / 2 - 0.42 * width)
    return begin, begin + width


def steps_in(view: RunView, window_s: tuple[float, float]) -> Steps:
    """The iterations that touch the window, jumps taken apart into equal ones."""
    rows = view.iterations
    start = rows["start_s"].to_numpy()
    end = start + rows["duration_s"].to_numpy()
    first = int(np.searchsorted(end, window_s[0], "right"))
    last = int(np.searchsorted(start, window_s[1], "left"))
    # Out to the decodes before and after, so that a gap across the window's edge is whole.
    decoding = np.flatnonzero(rows["num_decodes"].to_numpy() > 0)
    before, after = decoding[decoding < first], decoding[decoding >= last]
    near = rows.iloc[before[-1] if len(before) else first : after[0] + 1 if len(after) else last]
    repeats = near["repeats"].to_numpy()
    each = np.repeat(near["duration_s"].to_numpy() / repeats, repeats)
    place = np.arange(repeats.sum()) - np.repeat(np.cumsum(repeats) - repeats, repeats)
    starts = np.repeat(near["start_s"].to_numpy(), repeats) + place * each
    return Steps(
        starts,
        starts + each,
        np.repeat(near["prefill_tokens"].to_numpy(dtype=np.float64), repeats),
        np.repeat(near["num_decodes"].to_numpy(dtype=np.float64), repeats),
    )


def lanes_in(view: RunView, window_s: tuple[float, float], steps: Steps) -> list[Lane]:
    """The requests worth showing, oldest first: some decodes, the prefills, a few that only wait."""
    chosen = _chosen(view.requests, window_s)
    ordered = chosen.sort_values(["scheduled_s", "arrival_s"], kind="stable")
    columns = [name for name in Lane.__dataclass_fields__ if name != "tokens_s"]
    lanes = []
    for values in ordered[columns].itertuples(index=False, name=None):
        known = dict(zip(columns, values, strict=True))
        lanes.append(Lane(**known, tokens_s=_tokens(steps, known["first_token_s"], known["finish_s"])))
    return lanes


def _tokens(steps: Steps, first_token_s: float, finish_s: float) -> Times:
    """Where the request got tokens: after its first, at the end of every step with decodes."""
    decoded = steps.end_s[steps.num_decodes > 0]
    later = decoded[(decoded > first_token_s + HALF_NS) & (decoded < finish_s + HALF_NS)]
    seen = len(steps.end_s) > 0 and steps.start_s[0] <= first_token_s <= steps.end_s[-1] + HALF_NS
    return np.append(first_token_s, later) if seen else later


def _chosen(requests: pd.DataFrame, window_s: tuple[float, float]) -> pd.DataFrame:
    begin, end = window_s
    alive = requests[(requests["status"] != "rejected") & (requests["num_preemptions"] == 0)]
    scheduled = (alive["arrival_s"] + alive["queue_s"]).round(9)
    alive = alive.assign(scheduled_s=scheduled).fillna(
        {"arrival_s": np.inf, "scheduled_s": np.inf, "first_token_s": np.inf, "finish_s": np.inf}
    )
    alive = alive[(alive["arrival_s"] < end) & (alive["finish_s"] > begin)]
    decoding = alive[alive["first_token_s"] <= begin]
    lasting = decoding[decoding["finish_s"] > (begin + end) / 2]
    decoding = _spread(lasting if len(lasting) >= MOST_DECODES else decoding, MOST_DECODES)
    waiting = _spread(alive[alive["scheduled_s"] >= end], MOST_WAITING)
    new = alive[(alive["first_token_s"] > begin) & (alive["scheduled_s"] < end)]
    room = MOST_LANES - len(decoding) - len(waiting)
    return pd.concat([decoding, new.nlargest(room, "prompt_tokens"), waiting])


def _spread(rows: pd.DataFrame, most: int) -> pd.DataFrame:
    """At most `most` rows, evenly picked."""
    if len(rows) <= most:
        return rows
    return rows.iloc[np.linspace(0, len(rows) - 1, most).round().astype(int)]
