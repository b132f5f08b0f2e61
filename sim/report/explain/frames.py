"""Explanations as a tidy DataFrame."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from sim.core.units import ns_to_seconds
from sim.report.explain.causes import CAUSES
from sim.report.explain.choose import Explanation

if TYPE_CHECKING:
    import pandas as pd

COLUMNS = (
    "request_id", "what", "token", "start_s", "length_s", "cause", "by", "seconds", "share", "meaning",
)  # fmt: skip


def frame(explanations: Iterable[Explanation]) -> pd.DataFrame:
    """One row a cause (and request behind it) of each explanation; `seconds` sum to `length_s`.

    `by` is None where no other request is behind a cause.
    """
    import pandas as pd

    rows = [
        (
            one.request_id,
            one.what,
            one.token,
            ns_to_seconds(one.start_ns),
            ns_to_seconds(one.length_ns),
            part.cause,
            part.by,
            ns_to_seconds(part.ns),
            part.ns / one.length_ns,
            CAUSES[part.cause],
        )
        for one in explanations
        for part in one.parts
    ]
    table = pd.DataFrame(rows, columns=list(COLUMNS))
    table["by"] = pd.Series([row[COLUMNS.index("by")] for row in rows], dtype=object)
    return table
