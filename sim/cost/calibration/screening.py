"""Screening: measurements that contradict the rest of their table are left out, and named.

A batch that does at least the work of another on every count cannot take less than half its time. By
more than a factor of 30 it is an error: a unit must be wrong.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from sim.core.errors import ProfileError
from sim.cost.calibration.fit import mixed_features
from sim.cost.calibration.rows import MeasuredRow
from sim.cost.csv_table import LARGEST_STEP

TOLERATED = 0.5
"""Share of a smaller batch's time below which a larger one's is not believed."""


def screened(rows: Sequence[MeasuredRow]) -> tuple[list[MeasuredRow], list[str]]:
    """Rows that agree with one another, and a sentence for each that was left out; ProfileError.

    The row with most contradictions goes first, since one wrong row contradicts many right ones.
    """
    kept = list(rows)
    work = np.array([mixed_features(row.batch) for row in kept])
    times = np.array([row.time_us for row in kept])
    kinds = np.array([row.kind == "decode" for row in kept])
    larger = (work[:, None] >= work[None, :]).all(axis=2) & (kinds[:, None] == kinds[None, :])
    contradicts = larger & (times[:, None] < TOLERATED * times[None, :])
    contradicts |= contradicts.T
    sentences = []
    while contradicts.any():
        worst = int(contradicts.sum(axis=1).argmax())
        other = int(np.argmax(contradicts[worst]))
        if max(times[worst], times[other]) > LARGEST_STEP * min(times[worst], times[other]):
            raise ProfileError(
                f"{rows[worst].where}: {rows[worst].describe()} took {times[worst]:.6g} us, "
                f"{rows[other].describe()} {times[other]:.6g} us ({rows[other].where}); is the unit right?"
            )
        sentences.append(
            f"{rows[worst].where} left out: {rows[worst].describe()} took {times[worst] / 1000:.4g} ms, "
            f"{rows[other].describe()} {times[other] / 1000:.4g} ms ({rows[other].where})"
        )
        contradicts[worst, :] = contradicts[:, worst] = False
        kept.remove(rows[worst])
    return kept, sentences
