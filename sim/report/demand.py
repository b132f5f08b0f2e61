"""Demand: the least work that serving a trace takes, whatever the policy; and the earliest it can begin.

Owns what of a trace has to be computed at all: tokens that a prefix cache could hold are computed
once, and each output token takes a decode or, after a preemption, the end of a repeated prefill.
What work costs is prices.py's, what follows is bounds.py's; docs/bounds.md has the argument.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from sim.core.trace import Trace
from sim.report.prices import Prices
from sim.report.shared_prefixes import new_work

Rows = NDArray[np.int64]
Vector = NDArray[np.float64]


@dataclass(frozen=True)
class Limits:
    """What binds every policy of a comparison alike."""

    max_batch_size: int | None = None
    """Requests running at once."""
    num_blocks: int | None = None
    block_size: int = 16
    max_model_len: int | None = None
    prefix_caching: bool = False
    closed_loop: int | None = None
    front_end_ns: int = 0
    """From an arrival to the scheduler's seeing it."""


@dataclass(frozen=True)
class Demand:
    """The requests that are served, in order of `earliest_ns`; one entry a request."""

    rows: Rows
    """Their rows of the trace."""
    earliest_ns: Rows
    """No arrival is sooner: the trace's time, or that of the session's first turn and its thinking."""
    prompt_tokens: Rows
    output_tokens: Rows
    new_tokens: Rows
    """Prompt tokens somebody has to compute between the request's arrival and its first token; no token
    is counted at two requests, so it may be 0 with prefix caching."""
    new_pairs: Rows
    """Their attention pairs."""
    blocks: Rows
    """KV blocks held while a token appears, summed over its tokens; 0 where blocks may be shared."""
    limits: Limits
    arrivals_depend: bool
    """Whether some arrive when others are done: a closed loop, or sessions."""

    def __len__(self) -> int:
        return len(self.rows)

    @property
    def longest(self) -> int:
        """Most entries of KV of a request."""
        return int((self.prompt_tokens + self.output_tokens).max())

    def first_token_work(self) -> Vector:
        """Rows of work (in the order of prices.work_of) for each request's first token, alone."""
        one, nothing = np.ones(len(self)), np.zeros(len(self))
        # The last token of a prompt is never found in a cache: its logits are needed.
        tokens = np.maximum(self.new_tokens, 1)
        pairs = np.where(self.new_tokens > 0, self.new_pairs, self.prompt_tokens)
        return np.column_stack([one, nothing, nothing, one, tokens, pairs])

    def total_work(self) -> Vector:
        """All of it, each later token as a decode, in as few iterations as the limits allow."""
        later = self.output_tokens - 1
        contexts = (later * self.prompt_tokens + later * (later + 1) // 2).sum()
        iterations = int(self.iterations_from()[0])
        work = (iterations, later.sum(), contexts, len(self), self.new_tokens.sum(), self.new_pairs.sum())
        return np.array(work, dtype=np.float64)

    def iterations_from(self, *, endless: bool = False) -> Rows:
        """Least iterations for the requests from each one on, in order.

        An iteration gives a request at most one token, and as many requests as run and have their KV
        in the cache. `endless` leaves out what only the end of a trace causes.
        """
        longest = np.maximum.accumulate(self.output_tokens[::-1])[::-1]
        needed = np.ones(len(self), dtype=np.int64) if endless else longest
        if self.limits.max_batch_size is not None:
            needed = np.maximum(needed, -(-_from_each(self.output_tokens) // self.limits.max_batch_size))
        if self.limits.num_blocks is not None:
            needed = np.maximum(needed, -(-_from_each(self.blocks) // self.limits.num_blocks))
        return needed

    def later_token_ns(self, prices: Prices) -> Vector:
        """Least price of a token after the first, by its context, without the iteration's."""
        context = np.arange(self.longest + 1, dtype=np.float64)
        decode = prices.decode + prices.context * context
        block = self.limits.block_size if self.limits.prefix_caching else 0
        cached = (context - 1) // block * block if block else np.zeros_like(context)
        new = np.maximum(context - cached, 1)
        pairs = new * cached + new * (new + 1) / 2
        again: Vector = prices.prefill + prices.token * new + prices.pair * pairs
        return np.minimum(decode, again)


def demand_of(trace: Trace, limits: Limits) -> Demand:
    """The demand of the requests of `trace` that fit the limits; the engine rejects the others."""
    order, earliest = _earliest(trace, limits)
    total = trace.prompt_tokens + trace.output_tokens
    fits = np.ones(len(trace), dtype=bool)
    if limits.max_model_len is not None:
        fits &= total <= limits.max_model_len
    if limits.num_blocks is not None:
        fits &= -(-(total - 1) // limits.block_size) <= limits.num_blocks
    rows = order[fits[order]]
    prompt, output = trace.prompt_tokens[rows], trace.output_tokens[rows]
    if limits.prefix_caching:
        new, pairs = new_work(trace, rows, sessions=limits.closed_loop is None)
    else:
        new, pairs = prompt, prompt * (prompt + 1) // 2
    blocks = np.zeros_like(prompt) if limits.prefix_caching else _blocks(prompt, output, limits.block_size)
    depend = limits.closed_loop is not None or trace.session is not None
    return Demand(rows, earliest[rows], prompt, output, new, pairs, blocks, limits, depend)


def _from_each(values: Rows) -> Rows:
    """Sums from each entry to the last."""
    return np.cumsum(values[::-1])[::-1]


def _blocks(prompt: Rows, output: Rows, size: int) -> Rows:
    """Sum of ceil(entries / size) for entries = prompt, ..., prompt + output - 1."""

    def up_to(last: Rows) -> Rows:
        whole, rest = np.divmod(last, size)
        summed: Rows = size * whole * (whole + 1) // 2 + rest * (whole + 1)
        return summed

    return up_to(prompt + output - 1) - up_to(prompt - 1)


def _earliest(trace: Trace, limits: Limits) -> tuple[Rows, Rows]:
    """Rows in the order of the earliest time each can arrive, and those times by row."""
    if limits.closed_loop is not None:
        return np.arange(len(trace)), np.zeros(len(trace), dtype=np.int64)
    if trace.session is None:
        return np.arange(len(trace)), trace.arrival_ns
    earliest = trace.arrival_ns.copy()
    reached: dict[int, int] = {}
    for row, session in enumerate(trace.session.tolist()):
        if session in reached:
            think = 0 if trace.think_ns is None else int(trace.think_ns[row])
            earliest[row] = reached[session] + think
        reached[session] = int(earliest[row])
    return np.argsort(earliest, kind="stable"), earliest
