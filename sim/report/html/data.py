"""What the page's plots are drawn from, as plain values for JSON, made small without losing tails.

Times of iterations and requests are whole microseconds, starts as differences to the one before.
Long runs are thinned: neighbouring iterations are merged, the longest kept apart; of the requests the
slowest are kept and every so manieth of the rest. Distributions are quantiles that crowd at the tail.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from sim.report.frames import TBT_QUANTILES
from sim.report.plots.lanes import stall_threshold_s, telling_window
from sim.report.view import RunView

MOST_ROWS, MOST_REQUESTS = 90_000, 30_000
"""Iterations and requests on a page, over all its runs: what keeps it a few MB."""

METRICS = ("ttft_s", "e2e_s", "tpot_s", "queue_s", "max_tbt_s")
"""Distributions over requests; that of all token gaps, tbt_s, comes from the run's own table."""

Floats = NDArray[np.float64]


def page_data(views: Sequence[RunView]) -> dict[str, Any]:
    """Everything the script reads; `window` is the range of the timeline that is shown first."""
    stall_s = stall_threshold_s(views)
    has_timeline = all(len(view.iterations) for view in views)
    styles = run_styles(views)
    return {
        "stall_s": stall_s if np.isfinite(stall_s) else None,
        "window": [round(edge, 6) for edge in telling_window(views)] if has_timeline else None,
        "runs": [
            {
                "name": view.name,
                **styles[view.name],
                "slo": view.summary["slo"],
                "num_blocks": view.summary["kv_cache"]["num_blocks"],
                "distributions": distributions(view),
                "rows": iteration_rows(view.iterations, MOST_ROWS // len(views)) if has_timeline else None,
                "requests": request_columns(view.requests, MOST_REQUESTS // len(views)),
            }
            for view in views
        ],
    }


def run_styles(views: Sequence[RunView]) -> dict[str, dict[str, Any]]:
    """Colour and dashes of each run by its name, those of the plots."""
    from sim.report.plots.figure import styles

    found = {}
    for name, style in styles(views).items():
        dashes = [] if style.dashes == "-" else [float(length) for length in style.dashes[1]]
        found[name] = {"color": style.color, "dashes": dashes}
    return found


def distributions(view: RunView) -> dict[str, dict[str, list[float]]]:
    """Per metric its quantiles: `share` of the values that are at most `value`."""
    found = {name: _quantiles(view.requests[name].dropna().to_numpy()) for name in METRICS}
    found["tbt_s"] = (view.tbt["quantile"].to_numpy(), view.tbt["tbt_s"].to_numpy())
    return {
        name: {"share": _rounded(share, 7), "value": _rounded(value, 6)}
        for name, (share, value) in found.items()
    }


def _quantiles(values: Floats) -> tuple[Floats, Floats]:
    if len(values) <= len(TBT_QUANTILES):
        return np.linspace(0, 1, len(values)) if len(values) > 1 else np.ones(len(values)), np.sort(values)
    return TBT_QUANTILES, np.quantile(values, TBT_QUANTILES)


def _rounded(values: Floats, digits: int) -> list[float]:
    return [float(f"{value:.{digits}g}") for value in values]


def iteration_rows(iterations: pd.DataFrame, most: int) -> dict[str, list[int]]:
    """Columns of the iterations table under short names; at most about `most` lines."""
    rows = thinned(iterations, most)
    start = _microseconds(rows["start_s"])
    return {
        "start": _differences(start),
        "length": (_microseconds(rows["start_s"] + rows["duration_s"]) - start).tolist(),
        "decodes": rows["num_decodes"].round().astype(int).tolist(),
        "prefill": rows["prefill_tokens"].tolist(),
        "waiting": rows["waiting"].tolist(),
        "kv": rows["kv_blocks_used"].tolist(),
        "repeats": rows["repeats"].tolist(),
    }


def thinned(iterations: pd.DataFrame, most: int) -> pd.DataFrame:
    """Neighbours merged so that about `most` lines are left; the longest iterations stay as they are.

    A merged line lasts from its first start to its last end; its decodes are the mean of an iteration,
    its prefill tokens the sum, waiting and KV the most.
    """
    if len(iterations) <= most:
        return iterations
    longest = (iterations["duration_s"] / iterations["repeats"]).nlargest(most // 8).index.to_numpy()
    group = -(-len(iterations) // (most - 2 * (most // 8)))
    every = np.arange(0, len(iterations), group)
    firsts = np.unique(np.concatenate((every, longest, longest + 1)))
    firsts = firsts[firsts < len(iterations)]
    lasts = np.append(firsts[1:], len(iterations)) - 1
    columns = {name: iterations[name].to_numpy() for name in iterations}
    end = columns["start_s"] + columns["duration_s"]
    repeats = np.add.reduceat(columns["repeats"], firsts)
    return pd.DataFrame({
        "start_s": columns["start_s"][firsts],
        "duration_s": end[lasts] - columns["start_s"][firsts],
        "num_decodes": np.add.reduceat(columns["num_decodes"] * columns["repeats"], firsts) / repeats,
        "prefill_tokens": np.add.reduceat(columns["prefill_tokens"], firsts),
        "waiting": np.maximum.reduceat(columns["waiting"], firsts),
        "kv_blocks_used": np.maximum.reduceat(columns["kv_blocks_used"], firsts),
        "repeats": repeats,
    })  # fmt: skip


def request_columns(requests: pd.DataFrame, most: int) -> dict[str, Any]:
    """Columns of the requests table under short names, in order of arrival; null where there is none."""
    chosen = _chosen(requests[requests["arrival_s"].notna()], most)
    chosen = chosen.sort_values("arrival_s", kind="stable")
    ids = chosen["request_id"].astype(str).tolist()
    return {
        "total": len(requests),
        "id": ids,
        "arrival": _differences(_microseconds(chosen["arrival_s"])),
        "wait": _optional(chosen["queue_s"]),
        "ttft": _optional(chosen["ttft_s"]),
        "e2e": _optional(chosen["e2e_s"]),
        "max_tbt": _optional(chosen["max_tbt_s"]),
        "prompt": chosen["prompt_tokens"].tolist(),
        "output": chosen["output_tokens"].tolist(),
        "preemptions": chosen["num_preemptions"].tolist(),
    }


def _chosen(requests: pd.DataFrame, most: int) -> pd.DataFrame:
    """The slowest by either latency, and every so manieth of the others."""
    if len(requests) <= most:
        return requests
    slowest = [requests[name].nlargest(most // 4).index for name in ("ttft_s", "max_tbt_s")]
    others = requests.index[:: -(-len(requests) // (most // 2))]
    return requests.loc[slowest[0].union(slowest[1]).union(others)]


def _microseconds(seconds: pd.Series[float]) -> NDArray[np.int64]:
    return (seconds.to_numpy() * 1e6).round().astype(np.int64)


def _differences(values: NDArray[np.int64]) -> list[int]:
    found: list[int] = np.diff(values, prepend=0).tolist()
    return found


def _optional(seconds: pd.Series[float]) -> list[int | None]:
    return [None if np.isnan(value) else round(value * 1e6) for value in seconds.tolist()]
