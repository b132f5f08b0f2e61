"""Conversations: turns that grow, and the prefix hashes of what prompts share.

A session's context is append-only: shared system prompt, then message, answer, message, answer ...
A turn's prompt is all of it up to its own message. So block i of a session has the same content in
every turn that fills it; only a partial last block is a turn's own.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from sim.core.rng import stream
from sim.trace.lengths import Tokens, draw_lengths
from sim.trace.options import Delay, ExponentialDelay, FixedDelay, Length, LognormalDelay, SharedPrefix
from sim.trace.quantiles import Floats

Rows = NDArray[np.int64]


@dataclass(frozen=True)
class Turns:
    """Every turn of every session, session by session: its session and its number in it, from 0."""

    session: Rows
    number: Rows

    def __len__(self) -> int:
        return len(self.session)

    def total_before(self, values: Rows) -> Rows:
        """Sum of `values` over the earlier turns of the same session."""
        before = np.cumsum(values) - values
        first = np.flatnonzero(self.number == 0)
        lengths = np.diff(np.append(first, len(values)))
        return before - np.repeat(before[first], lengths)

    def up_to(self, fits: NDArray[np.bool_]) -> Rows:
        """Rows of the turns before the first of their session that does not fit; the first always stays."""
        misses = self.total_before((~fits & (self.number > 0)).astype(np.int64))
        kept: Rows = np.flatnonzero(((misses == 0) & fits) | (self.number == 0))
        return kept


def draw_turns(turns: Length, sessions: int, enough: int | None, seed: int) -> Turns:
    """The turns of `sessions` sessions, or of as many as make `enough` turns."""
    counts = draw_lengths(turns, stream(seed, "trace.turns").random(sessions), "turns")
    if enough is not None:
        counts = counts[: int(np.searchsorted(np.cumsum(counts), enough)) + 1]
    session = np.repeat(np.arange(len(counts), dtype=np.int64), counts)
    number = np.arange(len(session), dtype=np.int64) - np.repeat(np.cumsum(counts) - counts, counts)
    return Turns(session, number)


def draw_delays_ns(delay: Delay, count: int, seed: int) -> Rows:
    """Think times in ns."""
    rng = stream(seed, "trace.think")
    match delay:
        case FixedDelay(value_s):
            seconds: Floats = np.full(count, value_s)
        case ExponentialDelay(mean_s):
            seconds = rng.standard_exponential(count) * mean_s
        case LognormalDelay(median_s, sigma):
            seconds = median_s * np.exp(sigma * rng.standard_normal(count))
    return np.rint(seconds * 1e9).astype(np.int64)


def draw_prefixes(shared: SharedPrefix | None, sessions: int, seed: int) -> tuple[Rows, Tokens]:
    """Which system prompt each session has (-1: none), and its length in tokens (0: none)."""
    if shared is None:
        return np.full(sessions, -1, dtype=np.int64), np.zeros(sessions, dtype=np.int64)
    rng = stream(seed, "trace.prefix")
    lengths = draw_lengths(shared.tokens, rng.random(shared.count), "tokens")
    weights = np.arange(1, shared.count + 1, dtype=np.float64) ** -shared.zipf_exponent
    drawn = rng.choice(shared.count, sessions, p=weights / weights.sum())
    drawn = np.where(rng.random(sessions) < shared.share, drawn, -1).astype(np.int64)
    return drawn, np.where(drawn < 0, 0, lengths[drawn])


@dataclass(frozen=True)
class Hashing:
    """What is needed to number the blocks of every prompt."""

    turns: Turns
    prompt_tokens: Tokens
    prefix: Rows
    """By session, -1 for none."""
    prefix_tokens: Tokens
    """By session."""
    block_tokens: int


def prefix_hashes(of: Hashing) -> list[tuple[int, ...]]:
    """Chained block numbers of each prompt, the partial last block included, as Mooncake has them."""
    whole = of.prompt_tokens // of.block_tokens
    shared = np.minimum((of.prefix_tokens // of.block_tokens)[of.turns.session], whole)
    most = np.zeros(int(of.turns.session.max()) + 1, dtype=np.int64)
    np.maximum.at(most, of.turns.session, whole)
    prefix_blocks = np.zeros(int(of.prefix.max(initial=-1)) + 2, dtype=np.int64)
    np.maximum.at(prefix_blocks, of.prefix, of.prefix_tokens // of.block_tokens)
    prefix_start = np.cumsum(prefix_blocks) - prefix_blocks
    session_start = prefix_blocks.sum() + np.cumsum(most) - most
    partial_start = int(prefix_blocks.sum() + most.sum())
    rows = zip(
        prefix_start[of.prefix[of.turns.session]].tolist(),
        session_start[of.turns.session].tolist(),
        shared.tolist(),
        whole.tolist(),
        (of.prompt_tokens % of.block_tokens > 0).tolist(),
        strict=True,
    )
    return [
        (
            *range(common, common + same),
            *range(own + same, own + blocks),
            *((partial_start + row,) if partial else ()),
        )
        for row, (common, own, same, blocks, partial) in enumerate(rows)
    ]
