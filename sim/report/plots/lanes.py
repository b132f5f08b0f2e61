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


def worst_stall(view: RunView) -> Stall | None:
    """The stall that cost most: time beyond the usual gap, times the decodes that sat it out."""
    gaps = _gaps(view)
    if len(gaps.start_s) == 0:
        return None
    beyond = np.maximum(gaps.end_s - gaps.start_s - view.summary["tbt_s"]["p50"], 0)
    cost = beyond * gaps.decodes * gaps.prefilled
    worst = int(cost.argmax())
    return gaps.stall(worst) if cost[worst] > 0 else None


def longest_gap(view: RunView, window_s: tuple[float, float]) -> Stall | None:
    """The longest time between tokens of decodes that touches the window, whatever its cause."""
    gaps = _gaps(view)
    here = (gaps.decodes > 0) & (gaps.end_s > window_s[0]) & (gaps.start_s < window_s[1])
    if not here.any():
        return None
    return gaps.stall(int(np.where(here, gaps.end_s - gaps.start_s, -1.0).argmax()))


@dataclass(frozen=True)
class _Gaps:
    """Times between consecutive rows' decode tokens, and what happened in each."""

    start_s: Times
    end_s: Times
    decodes: Times
    prefilled: NDArray[np.bool_]

    def stall(self, place: int) -> Stall:
        return Stall(float(self.start_s[place]), float(self.end_s[place]), int(self.decodes[place]))


def _gaps(view: RunView) -> _Gaps:
    rows = view.iterations
    decoding = (rows["num_decodes"] > 0).to_numpy()
    tokens_before = rows["prefill_tokens"].to_numpy().cumsum()[decoding]
    rows = rows[decoding]
    start, length = rows["start_s"].to_numpy(), rows["duration_s"].to_numpy()
    begin, end = (start + length)[:-1], (start + length / rows["repeats"].to_numpy())[1:]
    return _Gaps(begin, end, decoding_at(view, begin), np.diff(tokens_before) > 0)


def decoding_at(view: RunView, times: Times) -> Times:
    """Requests past their first token and not finished, at each of `times`."""
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
    first, last = np.searchsorted(end, window_s[0], "right"), np.searchsorted(start, window_s[1])
    # One row more on both sides, so that the gaps at the window's edges are whole.
    near = rows.iloc[max(first - 1, 0) : last + 1]
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
    token_times = steps.end_s[steps.num_decodes > 0]
    ordered = chosen.sort_values(["scheduled_s", "arrival_s"], kind="stable")
    return [_lane(row, token_times) for row in ordered.itertuples(index=False)]


def _lane(row: object, token_times: Times) -> Lane:
    known = {name: getattr(row, name) for name in Lane.__dataclass_fields__ if name != "tokens_s"}
    lane = Lane(**known, tokens_s=token_times)
    later = token_times[(token_times > lane.first_token_s) & (token_times < lane.finish_s)]
    edges = [time for time in (lane.first_token_s, lane.finish_s) if np.isfinite(time)]
    return Lane(**known, tokens_s=np.unique(np.concatenate([later, edges])))


def _chosen(requests: pd.DataFrame, window_s: tuple[float, float]) -> pd.DataFrame:
    begin, end = window_s
    alive = requests[(requests["status"] != "rejected") & (requests["num_preemptions"] == 0)]
    alive = alive.assign(scheduled_s=alive["arrival_s"] + alive["queue_s"]).fillna(
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
