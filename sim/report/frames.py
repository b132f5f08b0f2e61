"""DataFrames of a run, with exactly the columns of design.md section 9; times in seconds.

A time that does not exist is NaN, a text that does not exist is None.
"""

from __future__ import annotations

import numpy as np
import pandas as pd

from sim.core.record import ITERATION_COLUMNS, STATUS_NAMES, RunRecord
from sim.core.units import NS_PER_S, column_to_seconds
from sim.report import metrics
from sim.report.percentiles import weighted_percentiles

REQUEST_COLUMNS = (
    "request_id", "arrival_s", "prompt_tokens", "output_tokens", "queue_s", "first_token_s",
    "finish_s", "ttft_s", "tpot_s", "max_tbt_s", "e2e_s", "num_preemptions", "status", "reason",
)  # fmt: skip
ITERATION_FRAME_COLUMNS = tuple(name.replace("_ns", "_s") for name in ITERATION_COLUMNS)
TBT_COLUMNS = ("quantile", "tbt_s")

# Even steps through the body, then ten times nearer to 1 every 100 steps: enough to redraw the
# distribution of millions of gaps on log axes.
TBT_QUANTILES = np.concatenate(
    [
        np.linspace(0, 0.99, 496),
        np.round(1 - np.logspace(-2, -6, 401)[1:], 9),
        [1.0],
    ]
)


def requests_frame(record: RunRecord) -> pd.DataFrame:
    """One row a request, in trace order."""
    trace = record.trace
    rows = range(len(trace))
    columns = {
        "request_id": pd.Series([trace.id_of(row) for row in rows], dtype=object),
        "arrival_s": column_to_seconds(record.arrival_ns),
        "prompt_tokens": trace.prompt_tokens,
        "output_tokens": trace.output_tokens,
        "queue_s": column_to_seconds(metrics.queue_ns(record)),
        "first_token_s": column_to_seconds(record.first_token_ns),
        "finish_s": column_to_seconds(record.finish_ns),
        "ttft_s": column_to_seconds(metrics.ttft_ns(record)),
        "tpot_s": metrics.tpot_s(record),
        "max_tbt_s": column_to_seconds(record.max_tbt_ns),
        "e2e_s": column_to_seconds(metrics.e2e_ns(record)),
        "num_preemptions": record.num_preemptions,
        "status": pd.Series(np.array(STATUS_NAMES, dtype=object)[record.status], dtype=object),
        "reason": pd.Series([record.reasons.get(row) for row in rows], dtype=object),
    }
    return pd.DataFrame(columns, columns=list(REQUEST_COLUMNS))


def iterations_frame(record: RunRecord) -> pd.DataFrame:
    """One row an iteration or exact jump; no rows if the run did not record them."""
    columns = {
        name: record.iterations[:, index] / NS_PER_S if name.endswith("_s") else record.iterations[:, index]
        for index, name in enumerate(ITERATION_FRAME_COLUMNS)
    }
    return pd.DataFrame(columns)


def tbt_frame(record: RunRecord) -> pd.DataFrame:
    """The pooled TBT distribution at TBT_QUANTILES; no rows if there was no gap."""
    found = weighted_percentiles(
        column_to_seconds(record.tbt_ns), record.tbt_counts, TBT_QUANTILES * 100
    )
    if found is None:
        return pd.DataFrame({name: np.empty(0) for name in TBT_COLUMNS})
    return pd.DataFrame({"quantile": TBT_QUANTILES, "tbt_s": found})
