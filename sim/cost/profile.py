"""Profile: the cost model that looks iterations up in measured tables.

Owns putting a batch into the tables' terms: several chunks, unequal contexts. Where tables come from
is in profile_spec.
"""

from __future__ import annotations

from math import sqrt

import numpy as np
from numpy.typing import NDArray

from sim.core.batch import Batch, Chunk
from sim.cost.compose import IterationTables
from sim.cost.line import Line


class ProfileModel:
    """Cost model over measured tables.

    `separate_attention` adds up prefill alone and decodes alone instead of reading what was measured
    of both together; it is what a profile does whose tables have no such rows.
    """

    def __init__(self, tables: IterationTables, separate_attention: bool = False) -> None:
        self.tables = tables
        self.mixed_host_us = 0.0
        """Host time that the tables lack and their device is known to need (see host)."""
        self.valid = tables.valid
        self.needs_context_spread = tables.skew is not None
        self._skew = tables.skew
        self._attention = tables.mixed_attention
        self._separate = separate_attention or tables.mixed_attention.decodes == [0.0]
        self._decodes: dict[int, tuple[float, Line]] = {}

    def iteration_ns(self, batch: Batch) -> int:
        """Duration of one iteration, rounded half to even, at least 1."""
        num_decodes, context_sum, longest, shortest, chunks = batch
        if chunks:
            return round(self._mixed_us(batch) * 1000.0) or 1
        fixed_us, line = self._decodes.get(num_decodes) or self._decode_parts(num_decodes)
        mean = context_sum / num_decodes
        attention_us = line.at(mean)
        if longest > shortest and self._skew is not None:
            alpha = self._skew.alpha(0, num_decodes, 0, mean, longest, shortest)
            attention_us = attention_us + alpha * (line.at(longest) - attention_us)
        return round((fixed_us + attention_us) * 1000.0) or 1

    def decode_run_ns(self, batch: Batch, iterations: int) -> NDArray[np.int64]:
        """Durations of the next iterations of a decode-only batch; equal to iteration_ns of each."""
        num_decodes, context_sum, longest, shortest, _ = batch
        fixed_us, line = self._decode_parts(num_decodes)
        ahead = np.arange(iterations, dtype=np.int64)
        means = (context_sum + num_decodes * ahead) / num_decodes
        times = line.over(means)
        if longest > shortest and self._skew is not None:
            lasts = longest + ahead
            alphas = self._skew.decode_alphas(num_decodes, means, lasts, shortest + ahead)
            times = times + alphas * (line.over(lasts) - times)
        times = (fixed_us + times) * 1000.0
        result: NDArray[np.int64] = np.maximum(np.rint(times).astype(np.int64), 1)
        return result

    def outside(self, batch: Batch, iterations: int = 1) -> int:
        """How many of the next `iterations` of `batch` lie outside what was measured."""
        return self.valid.outside(batch, iterations)

    def _decode_parts(self, num_decodes: int) -> tuple[float, Line]:
        """Of a decode-only iteration: all but attention, and attention by context."""
        tables = self.tables
        parts = (tables.decode_us.at(num_decodes), tables.decode_attention.line(num_decodes))
        self._decodes[num_decodes] = parts
        return parts

    def _mixed_us(self, batch: Batch) -> float:
        num_decodes, context_sum, longest, shortest, chunks = batch
        if len(chunks) == 1:
            tokens, joined_cached = chunks[0]
            joined_chunk, cached = float(tokens), float(joined_cached)
        else:
            joined_chunk, cached, tokens = joined(chunks)
        tables, skew, attention = self.tables, self._skew, self._attention
        time_us = tables.mixed_us.at(tokens + num_decodes)
        time_us += tables.sequence_us.at(num_decodes + len(chunks))
        if not num_decodes:
            return time_us + attention.alone(joined_chunk, cached)
        mean = context_sum / num_decodes
        if self._separate:
            return time_us + self._separate_attention_us(batch, joined_chunk, cached, mean)
        if skew is None or longest <= shortest:
            return time_us + attention.at(joined_chunk, cached, num_decodes, mean, mean)[0]
        at_mean, at_longest = attention.at(joined_chunk, cached, num_decodes, mean, longest)
        alpha = skew.alpha(joined_chunk, num_decodes, cached, mean, longest, shortest)
        return time_us + at_mean + alpha * (at_longest - at_mean)

    def _separate_attention_us(self, batch: Batch, chunk: float, cached: float, mean: float) -> float:
        """Prefill alone plus decodes alone."""
        _, line = self._decode_parts(batch.num_decodes)
        prefill = self._attention.alone(chunk, cached)
        decode = line.at(mean)
        longest, shortest = batch.decode_context_max, batch.decode_context_min
        if longest > shortest and self._skew is not None:
            alpha = self._skew.alpha(0, batch.num_decodes, 0, mean, longest, shortest)
            decode += alpha * (line.at(longest) - decode)
        return prefill + decode


def joined(chunks: tuple[Chunk, ...]) -> tuple[float, float, int]:
    """The single (chunk, cached) that attends as many query-key pairs as `chunks`, and their tokens.

    Tables measure one prefill at a time. Attention of several is set by their pairs: the same new
    tokens over a mean cache; where they have fewer pairs than one uncached prompt of their length
    would, a shorter one.
    """
    tokens = 0
    pairs = 0.0
    for new, cached in chunks:
        tokens += new
        pairs += new * cached + new * (new + 1) / 2
    mean_cached = (pairs - tokens * (tokens + 1) / 2) / tokens
    if mean_cached >= 0:
        return tokens, mean_cached, tokens
    return (sqrt(1 + 8 * pairs) - 1) / 2, 0.0, tokens
