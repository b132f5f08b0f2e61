"""Coefficients: an iteration's time as two linear forms, one for decode-only batches, one for the rest.

Owns the formula of design.md section 6 and the keys that give its numbers.
Fitting is in calibration; reading a file that holds coefficients is in loading.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any

import numpy as np
from numpy import add, arange, array, maximum, multiply, rint  # by name: np.add is a slow look-up
from numpy.typing import NDArray

from sim.core.batch import Batch
from sim.cost.fields import check_keys, mapping, number
from sim.cost.validity import EVERYTHING, ValidRange

_NS_PER_US = array(1000.0)
_FLOAT, _INT = np.dtype(np.float64), np.dtype(np.int64)


@dataclass(frozen=True, slots=True)
class DecodeCoefficients:
    """Decode-only iterations, in microseconds: base + per_sequence*n + per_context_token*sum(context)."""

    base_us: float
    per_sequence_us: float
    per_context_token_us: float


@dataclass(frozen=True, slots=True)
class MixedCoefficients:
    """Iterations with prefill, in microseconds.

    base + per_token*(all new tokens) + per_sequence*n_decode + per_context_token*sum(decode context)
    + per_attention_pair*sum over chunks c with p tokens cached of (c*p + c*(c+1)/2).
    """

    base_us: float
    per_token_us: float
    per_sequence_us: float
    per_context_token_us: float
    per_attention_pair_us: float


class CoefficientModel:
    """Two-regime linear cost model; `valid` is the range it was fitted on, None if nobody said."""

    needs_context_spread = False

    def __init__(
        self, decode: DecodeCoefficients, mixed: MixedCoefficients, valid: ValidRange | None = None
    ) -> None:
        self.decode = decode
        self.mixed = mixed
        self.grows_with_context = decode.per_context_token_us >= 0
        self.valid = valid
        self.outside = (valid or EVERYTHING).outside
        """How many of the next iterations of a batch lie outside the range it was fitted on."""
        self._decode = (decode.base_us, decode.per_sequence_us, decode.per_context_token_us)
        self._per_context = array(decode.per_context_token_us)
        self._fixed: dict[int, NDArray[np.float64]] = {}
        """What is the same in all iterations of a run, by the number of decodes."""
        self._some_below_1_ns = min(decode.base_us - 0.001, *self._decode[1:]) < 0
        self._mixed = (
            mixed.base_us,
            mixed.per_token_us,
            mixed.per_sequence_us,
            mixed.per_context_token_us,
            mixed.per_attention_pair_us,
        )

    def iteration_ns(self, batch: Batch) -> int:
        """Duration of one iteration, rounded half to even, at least 1."""
        num_decodes, context_sum, _, _, chunks = batch
        if not chunks:
            base, per_sequence, per_context = self._decode
            time_us = base + per_sequence * num_decodes + per_context * context_sum
        else:
            tokens = num_decodes
            pairs = 0
            for new, cached in chunks:
                tokens += new
                pairs += new * cached + new * (new + 1) // 2
            base, per_token, per_sequence, per_context, per_pair = self._mixed
            time_us = (
                base
                + per_token * tokens
                + per_sequence * num_decodes
                + per_context * context_sum
                + per_pair * pairs
            )
        return round(time_us * 1000.0) or 1

    def decode_run_ns(self, batch: Batch, iterations: int) -> NDArray[np.int64]:
        """Durations of the next iterations of a decode-only batch; equal to iteration_ns of each."""
        num_decodes, first, _, _, _ = batch
        fixed = self._fixed.get(num_decodes)
        if fixed is None:
            base, per_sequence, _ = self._decode
            fixed = self._fixed[num_decodes] = array(base + per_sequence * num_decodes)
        # In place, in the scalar version's order of operations: the same roundings, fewer arrays.
        # Numbers as arrays, because numpy takes as long to convert one as to multiply by it.
        times = arange(first, first + num_decodes * iterations, num_decodes, dtype=_FLOAT)
        multiply(times, self._per_context, times)
        add(times, fixed, times)
        multiply(times, _NS_PER_US, times)
        rint(times, out=times)
        if self._some_below_1_ns:
            maximum(times, 1.0, out=times)
        return times.astype(_INT)


def coefficients_from_spec(spec: Mapping[str, Any], where: str) -> CoefficientModel:
    """The model of a mapping with `decode`, `mixed` and, optionally, `range`; ProfileError if bad."""
    check_keys(spec, ("decode", "mixed", "range"), where)
    decode = _coefficients(spec, "decode", DecodeCoefficients, where)
    mixed = _coefficients(spec, "mixed", MixedCoefficients, where)
    valid = None if spec.get("range") is None else ValidRange.from_spec(spec["range"], f"{where}: range")
    return CoefficientModel(DecodeCoefficients(*decode), MixedCoefficients(*mixed), valid)


def _coefficients(spec: Mapping[str, Any], section: str, form: type, where: str) -> list[float]:
    """The numbers of one section in the order of `form`'s fields."""
    names = [field.name for field in fields(form)]
    inside = f"{where}: {section}"
    given = mapping(spec.get(section), inside)
    check_keys(given, names, inside)
    return [number(given, name, inside) for name in names]
