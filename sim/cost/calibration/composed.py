"""Composed: whole iterations put together from a layer-wise profile, at the points it measured."""

from __future__ import annotations

from collections.abc import Sequence

from sim.cost.calibration.rows import MeasuredRow, batch_of
from sim.cost.compose import IterationTables
from sim.cost.layers import LayerProfile
from sim.cost.profile import ProfileModel


def composed_rows(profile: LayerProfile, tables: IterationTables, layers: int) -> list[MeasuredRow]:
    """One row an attention measurement whose tokens the dense layers were measured for too."""
    rows = []
    limit = len(tables.mixed_us.values)
    for (chunk, cached, decodes, context), time_us in profile.attention.items():
        if chunk + decodes >= limit:
            continue
        if chunk:
            rest = tables.mixed_us.at(chunk + decodes) + tables.sequence_us.at(decodes + 1)
        else:
            rest = tables.decode_us.at(decodes)
        batch = batch_of(decodes, decodes * context, 1 if chunk else 0, chunk, cached)
        where = f"attention.csv {chunk},{cached},{decodes},{context}"
        rows.append(MeasuredRow(batch, rest + layers * time_us, where))
    return rows


SHORTEST, LONGEST = 0.25, 3.5
"""Contexts of a batch as shares of their mean. In the Azure conversation trace (prompt and half of the
output) the median shares are 0.25 and 2.3 in batches of 8 requests, 0.12 and 3.2 in batches of 32, 0.07
and 3.6 in batches of 128."""


def with_unequal_contexts(rows: Sequence[MeasuredRow], model: ProfileModel) -> list[MeasuredRow]:
    """The rows with their decodes' contexts spread as in a run, timed by the profile's skew correction.

    Profiles measure equal contexts, runs never have them; a linear form knows only their sum. The
    rows as they are where the profile has no skew correction or one decode.
    """
    if model.tables.skew is None:
        return list(rows)
    return [_unequal(row, model) if row.batch.num_decodes > 1 else row for row in rows]


def _unequal(row: MeasuredRow, model: ProfileModel) -> MeasuredRow:
    mean = row.batch.decode_context_max
    batch = row.batch._replace(
        decode_context_max=round(LONGEST * mean), decode_context_min=round(SHORTEST * mean)
    )
    return MeasuredRow(batch, model.iteration_ns(batch) / 1000, row.where)
