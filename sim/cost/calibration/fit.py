"""Fit: coefficients of the two linear forms, with no negative one and small relative errors.

Each regime is fitted apart: a joint fit lets the many mixed rows of a profile spoil the few decode
rows, which are most of a run. Where chunks were measured beside decodes, a row counts by its chunk:
profiles space chunks in ratios, and a run computes its prompts in the largest its budget allows. Least
absolute relative error, by reweighted least squares, so that a row gone wrong does not rule; the signs
by trying every subset, which is exact and cheap for five coefficients. An iteration with prefill starts
from no less than a decode-only one: a model in which adding work saves time misleads any scheduler.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import combinations

import numpy as np
from numpy.typing import NDArray

from sim.core.batch import Batch
from sim.core.errors import ProfileError
from sim.cost.calibration.rows import MeasuredRow
from sim.cost.coefficients import CoefficientModel, DecodeCoefficients, MixedCoefficients
from sim.cost.validity import ValidRange

Vector = NDArray[np.float64]

REWEIGHTINGS = 20
SMALLEST_ERROR = 1e-3
"""Relative errors below this weigh alike, so that rows hit exactly do not rule the fit."""
FEWEST_ROWS = 3


def fit_coefficients(
    rows: Sequence[MeasuredRow], valid: ValidRange | None = None, context_us: float | None = None
) -> CoefficientModel:
    """Both regimes from their rows. ProfileError if a regime has fewer than three.

    Where no row has both prefill and decodes, a decode costs beside a prefill what it costs alone.
    Where all decodes were measured at one context, a token of it costs `context_us`, if given.
    """
    decode_rows = [row for row in rows if row.kind == "decode"]
    mixed_rows = [row for row in rows if row.kind != "decode"]
    for name, found in (("decode-only", decode_rows), ("prefill", mixed_rows)):
        if len(found) < FEWEST_ROWS:
            raise ProfileError(f"{len(found)} {name} rows were measured; at least {FEWEST_ROWS} are needed")
    if context_us is None or several_contexts(rows):
        decode = DecodeCoefficients(*_fit(decode_rows, decode_features))
    else:
        known_us = [context_us * row.batch.decode_context_sum for row in decode_rows]
        two = _fit(decode_rows, lambda batch: decode_features(batch)[:2], known_us)
        decode = DecodeCoefficients(two[0], two[1], float(f"{context_us:.6g}"))
    mixed = _mixed(mixed_rows, decode, measured_together(rows))
    return CoefficientModel(decode, mixed, valid)


def _mixed(
    rows: Sequence[MeasuredRow], decode: DecodeCoefficients, together: bool
) -> MixedCoefficients:
    """The form with prefill: never below the decode-only one, which a base of its own might make it."""
    found = _fit(rows, mixed_features, by_chunk=together)
    if found[0] < decode.base_us:
        known_us = [decode.base_us] * len(rows)
        rest = _fit(rows, lambda batch: mixed_features(batch)[1:], known_us, by_chunk=together)
        found = [decode.base_us, *rest]
    mixed = MixedCoefficients(*found)
    if together:
        return mixed
    return replace(
        mixed,
        per_sequence_us=max(0.0, float(f"{decode.per_sequence_us - mixed.per_token_us:.6g}")),
        per_context_token_us=decode.per_context_token_us,
    )


def measured_together(rows: Sequence[MeasuredRow]) -> bool:
    """Whether enough rows have decodes beside a prefill to tell what they cost there."""
    return sum(row.kind == "mixed" for row in rows) >= FEWEST_ROWS


def several_contexts(rows: Sequence[MeasuredRow]) -> bool:
    """Whether decodes were measured at more than one context, so that its cost can be told."""
    means = {row.batch.decode_context_sum / row.batch.num_decodes for row in rows if row.kind == "decode"}
    return len(means) > 1


def decode_features(batch: Batch) -> tuple[float, ...]:
    """What each decode coefficient is multiplied with."""
    return 1.0, batch.num_decodes, batch.decode_context_sum


def mixed_features(batch: Batch) -> tuple[float, ...]:
    """What each mixed coefficient is multiplied with."""
    pairs = sum(chunk.attention_pairs for chunk in batch.chunks)
    return 1.0, batch.num_tokens, batch.num_decodes, batch.decode_context_sum, pairs


def _fit(
    rows: Sequence[MeasuredRow],
    features: Callable[[Batch], tuple[float, ...]],
    known_us: Sequence[float] | None = None,
    by_chunk: bool = False,
) -> list[float]:
    """Coefficients of `features` for the times less `known_us`, rounded to six digits."""
    times = np.array([row.time_us for row in rows])
    matrix = np.array([features(row.batch) for row in rows]) / times[:, None]
    shares = np.array([row.batch.prefill_tokens if by_chunk else 1.0 for row in rows])
    scale = np.abs(matrix).max(axis=0)
    scale[scale == 0] = 1.0
    matrix /= scale
    weights = np.sqrt(shares)
    target = np.ones(len(rows)) if known_us is None else 1 - np.array(known_us) / times
    solution = np.zeros(matrix.shape[1])
    for _ in range(REWEIGHTINGS):
        solution = _nonnegative(matrix * weights[:, None], target * weights)
        weights = np.sqrt(shares / np.maximum(np.abs(matrix @ solution - target), SMALLEST_ERROR))
    return [float(f"{value:.6g}") for value in solution / scale]


def _nonnegative(matrix: NDArray[np.float64], target: Vector) -> Vector:
    """The least squares solution without negative entries."""
    gram, projected = matrix.T @ matrix, matrix.T @ target
    size = len(projected)
    best: Vector = np.zeros(size)
    best_value = 0.0
    for count in range(1, size + 1):
        for chosen in map(list, combinations(range(size), count)):
            part = np.linalg.lstsq(gram[np.ix_(chosen, chosen)], projected[chosen], rcond=None)[0]
            value = -float(projected[chosen] @ part)  # twice the change in the sum of squares
            if (part >= 0).all() and value < best_value - 1e-12 * abs(best_value):
                best, best_value = np.zeros(size), value
                best[chosen] = part
    return best
