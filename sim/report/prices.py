"""Prices: straight lines below a cost model, from which bounds on every schedule follow.

A price list gives six prices, all >= 0, such that no iteration is shorter than what its work costs at
these prices:

    iteration_ns(batch) >= iteration + decode*(decodes) + context*(sum of their contexts)
                           + prefill*(chunks) + token*(their new tokens) + pair*(their attention pairs)

Owns finding such lists for any cost model and checking them; what they imply is bounds.py's. Many
lists fit one model; `PriceBook.best` gives the one that says most about a given amount of work.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, fields

import numpy as np
from numpy.typing import NDArray

from sim.core.batch import Batch, Chunk
from sim.core.errors import UserError
from sim.core.protocols import CostModel
from sim.core.rng import stream
from sim.report.simplex import maximise

Vector = NDArray[np.float64]

RANDOM_BATCHES = 1_500
MOST_CHUNKS = 8
"""Of a random batch."""
TOLERANCE = 0.03
"""How far below its prices a batch that had no part in finding them may lie. More, and the model is
too rough between the batches looked at for a bound to be trusted."""
FINE_RATIO = 1.02
"""Between chunk sizes looked at, above 50 tokens: pairs grow as their square, so that between two sizes
prices may be too high by a part in (FINE_RATIO - 1)**2 / 4."""
TILES = (8, 16, 32, 64, 128, 256)
"""Sizes in tokens at which kernels work without waste."""
SAFETY = 1e-4
"""Taken off every price for that, for times rounded to ns, and for prices found in floating point."""


class NoBounds(UserError):
    """This cost model does not allow what the bounds need; the message says where."""


@dataclass(frozen=True, slots=True)
class Prices:
    """Nanoseconds of each kind of work."""

    iteration: float
    decode: float
    context: float
    """Of a token of context of a decode."""
    prefill: float
    """Of a chunk, whatever its size."""
    token: float
    """Of a new token of a chunk."""
    pair: float
    """Of a query-key pair of a chunk (Chunk.attention_pairs)."""

    def vector(self) -> Vector:
        """The six in the order of `work_of`."""
        return np.array([getattr(self, field.name) for field in fields(self)])


@dataclass(frozen=True, slots=True)
class Extent:
    """The batches that can occur."""

    sequences: int
    """Most decodes and chunks in one iteration."""
    shortest_context: int
    longest_context: int
    longest_prefill: int
    """Largest cached + new tokens of a chunk."""


def work_of(batch: Batch) -> tuple[int, ...]:
    """What each price is paid for."""
    pairs = sum(chunk.attention_pairs for chunk in batch.chunks)
    return (1, batch.num_decodes, batch.decode_context_sum, len(batch.chunks), batch.prefill_tokens, pairs)


class PriceBook:
    """Every price list of a cost model over the batches of `extent`, as found on a sample of them.

    `points` are prompt lengths and contexts to look at in any case. Raises NoBounds if a batch takes
    no time; so does `best` if further random batches undercut what the sample led to.
    """

    def __init__(self, cost: CostModel, extent: Extent, points: Sequence[int] = ()) -> None:
        random = list(_random_batches(extent, 2 * RANDOM_BATCHES))
        known = [*_grid(extent, points), *_edges(extent), *_round_totals(extent), *random[::2]]
        self._works, self._times = _measured(cost, known)
        self._check_works, self._check_times = _measured(cost, random[1::2])
        self._check_batches = random[1::2]
        self.num_batches = len(known) + len(self._check_batches)

    def best(self, work: Vector) -> Prices:
        """The prices at which `work` (in the order of work_of) costs most."""
        scale = self._works.max(axis=0)
        scale[scale == 0] = 1.0
        unit = float(self._times.max())
        reward = work / scale
        found = maximise(reward / reward.max(), self._works / scale, self._times / unit)
        prices = found * unit / scale
        prices *= min(1.0, self._least_ratio(self._works, self._times, prices)[0])
        ratio, place = self._least_ratio(self._check_works, self._check_times, prices)
        if ratio < 1 - TOLERANCE:
            time_ms = self._check_times[place] / 1e6
            raise NoBounds(
                f"no bounds: {_told(self._check_batches[place])} takes {time_ms:.3f} ms, "
                f"{100 * (1 - ratio):.0f} % less than a straight line below the cost model's other times"
            )
        return Prices(*(prices * min(1.0, ratio) * (1 - SAFETY)).tolist())

    @staticmethod
    def _least_ratio(works: Vector, times: Vector, prices: Vector) -> tuple[float, int]:
        """The least time over price, and the batch that has it."""
        paid = works @ prices
        ratios = np.divide(times, paid, out=np.full(len(times), np.inf), where=paid > 0)
        place = int(np.argmin(ratios))
        return float(ratios[place]), place


def _measured(cost: CostModel, batches: Sequence[Batch]) -> tuple[Vector, Vector]:
    times = np.array([cost.iteration_ns(batch) for batch in batches], dtype=np.float64)
    if (times <= 0).any():
        raise NoBounds(f"no bounds: {_told(batches[int(np.argmin(times))])} takes no time")
    return np.array([work_of(batch) for batch in batches], dtype=np.float64), times


def _grid(extent: Extent, points: Sequence[int]) -> Iterator[Batch]:
    """Batches of equal decodes and equal chunks, coarsely over all of `extent`; and each point alone."""
    low, high = extent.shortest_context, extent.longest_context
    contexts = _steps(low, high, 8)
    for count in _steps(1, extent.sequences, 40):
        yield from (_decodes(count, context) for context in contexts)
    sizes = _steps(1, extent.longest_prefill, 12)
    for chunks in _steps(1, extent.sequences, 3):
        for decodes in [0, *_steps(1, extent.sequences - chunks, 4)]:
            for context in [low, high] if decodes else [low]:
                for tokens in sizes:
                    for cached in [0, *_steps(1, extent.longest_prefill - tokens, 3)]:
                        yield _decodes(decodes, context, (Chunk(tokens, cached),) * chunks)
    for point in points:
        if low <= point <= high:
            yield _decodes(1, point)
        if point <= extent.longest_prefill:
            yield Batch(chunks=(Chunk(point, 0),))


def _edges(extent: Extent) -> Iterator[Batch]:
    """The corners of `extent` at every size of chunk: where a model that is linear in the work needs looking.

    Of all prefills of a size, one without cache has fewest pairs, and one at the end of the longest most.
    """
    most, longest = extent.sequences, extent.longest_prefill
    fine = round(np.log(longest) / np.log(FINE_RATIO)) + 1
    for tokens in {*range(1, min(longest, 50) + 1), *_steps(1, longest, fine)}:
        for chunk in {Chunk(tokens, 0), Chunk(tokens, longest - tokens)}:
            yield Batch(chunks=(chunk,))
            yield Batch(chunks=(chunk,) * most)
            if most > 1:
                yield _decodes(most - 1, extent.shortest_context, (chunk,))
                yield _decodes(most - 1, extent.longest_context, (chunk,))


def _round_totals(extent: Extent) -> Iterator[Batch]:
    """Batches whose new tokens, all together, fill GPU tiles or captured graphs: measured times dip there."""
    most, longest = extent.sequences, extent.longest_prefill
    totals = {step * number for step in TILES for number in range(1, 9)}
    totals |= set(range(TILES[-1], longest + most, TILES[-1]))
    for total in sorted(totals):
        if total <= most:
            yield _decodes(total, extent.shortest_context)
            yield _decodes(total, extent.longest_context)
        for chunks in sorted({1, min(4, most), most}):
            for decodes in sorted({0, min(most - chunks, total // 4), most - chunks}):
                tokens, rest = divmod(total - decodes, chunks)
                if 1 <= tokens <= longest - rest:
                    parts = (Chunk(tokens + rest, 0),) + (Chunk(tokens, 0),) * (chunks - 1)
                    yield _decodes(decodes, extent.shortest_context, parts)


def _random_batches(extent: Extent, count: int) -> Iterator[Batch]:
    """Batches of unequal decodes and chunks, of every size; a third of them decode only."""
    rng = stream(0, "report.prices")
    low, high = extent.shortest_context, extent.longest_context
    for number, drawn in enumerate(rng.random((count, 3 + 3 * MOST_CHUNKS)).tolist()):
        sequences = _between(1, extent.sequences, drawn[0])
        chunks = min(_between(1, MOST_CHUNKS, drawn[1]), sequences) if number % 3 else 0
        decodes = int(drawn[2] * (sequences - chunks + 1)) if chunks else sequences
        contexts = [_between(low, high, share) for share in rng.random(decodes).tolist()]
        parts = []
        for place in range(3, 3 + 3 * chunks, 3):
            end = _between(1, extent.longest_prefill, drawn[place])
            cached = int(drawn[place + 1] * end) if drawn[place + 2] < 0.5 else 0
            parts.append(Chunk(end - cached, cached))
        if parts and number // 2 % 2:
            parts[0] = _filling(parts, decodes)
        longest, shortest = max(contexts, default=0), min(contexts, default=0)
        yield Batch(decodes, sum(contexts), longest, shortest, tuple(parts))


def _filling(parts: Sequence[Chunk], decodes: int) -> Chunk:
    """The first of `parts`, cut so that all new tokens fill tiles; as it is where they cannot."""
    first, total = parts[0], sum(part.tokens for part in parts) + decodes
    for tile in reversed(TILES):
        if total % tile < first.tokens and total >= tile:
            return Chunk(first.tokens - total % tile, first.cached)
    return first


def _between(low: int, high: int, share: float) -> int:
    """A whole number from `low` to `high`, evenly on a log scale as `share` goes from 0 to 1."""
    return min(int(low * ((high + 1) / low) ** share), high)


def _decodes(count: int, context: int, chunks: tuple[Chunk, ...] = ()) -> Batch:
    if not count:
        return Batch(chunks=chunks)
    return Batch(count, count * context, context, context, chunks)


def _steps(low: int, high: int, count: int) -> list[int]:
    """About `count` whole numbers from `low` to `high`, both included, in even ratios."""
    if high < low:
        return []
    return [int(value) for value in np.unique(np.geomspace(low, high, count).round())]


def _told(batch: Batch) -> str:
    parts = []
    if batch.num_decodes:
        mean = batch.decode_context_sum / batch.num_decodes
        parts.append(f"{_counted(batch.num_decodes, 'decode')} of {mean:.0f} tokens of context")
    if batch.chunks:
        parts.append(f"{_counted(len(batch.chunks), 'chunk')} of {batch.prefill_tokens} new tokens in all")
    return f"an iteration of {' and '.join(parts)}"


def _counted(number: int, noun: str) -> str:
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"
