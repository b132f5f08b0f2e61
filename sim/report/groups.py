"""Groups: the metrics of each SLO class and each client, beside those of the whole run."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sim.report.objectives import Objectives
from sim.report.percentiles import describe

UNLABELLED = "(none)"
"""Stands for the requests without a label."""


def by_label(
    labels: Sequence[str | None] | None,
    finished: NDArray[np.bool_],
    seconds: Mapping[str, NDArray[np.float64]],
    output_tokens: NDArray[np.int64],
    judged: Objectives,
) -> dict[str, dict[str, Any]] | None:
    """Metrics by label, in order of the labels; None where the trace has no such column.

    `seconds` are columns with one value a request, NaN where it has none.
    """
    if labels is None:
        return None
    names = np.array([UNLABELLED if label is None else str(label) for label in labels], dtype=object)
    return {
        name: _metrics(names == name, finished, seconds, output_tokens, judged)
        for name in sorted(set(names.tolist()))
    }


def _metrics(
    mine: NDArray[np.bool_],
    finished: NDArray[np.bool_],
    seconds: Mapping[str, NDArray[np.float64]],
    output_tokens: NDArray[np.int64],
    judged: Objectives,
) -> dict[str, Any]:
    asked = mine & judged.has_slo
    described = {key: describe(column[mine & ~np.isnan(column)]) for key, column in seconds.items()}
    return {
        "num_requests": int(mine.sum()),
        "num_finished": int((mine & finished).sum()),
        "num_output_tokens": int(output_tokens[mine & finished].sum()),
        **described,
        "num_met_slo": int((asked & judged.met).sum()),
        "slo_attainment": int((asked & judged.met).sum()) / int(asked.sum()) if asked.any() else None,
    }
