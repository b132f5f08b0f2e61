"""Prefix reuse: how much of the prompts an ever-growing prefix cache would already hold."""

from __future__ import annotations

from dataclasses import dataclass

from sim.core.trace import Trace


@dataclass(frozen=True)
class PrefixReuse:
    """Counted in trace order with a cache that never evicts: an upper bound for any real one."""

    block_tokens: int | None
    blocks: int
    """Block references in all prompts."""
    distinct_blocks: int
    hit_fraction: float
    """Of the block references, those that continue a prefix seen before."""
    requests_with_hit: float
    """Fraction of requests whose first block was seen before."""


def prefix_reuse(trace: Trace) -> PrefixReuse | None:
    """None if the trace has no prefix hashes."""
    if trace.prefix_hashes is None:
        return None
    seen: set[int] = set()
    blocks = hits = starts = 0
    for hashes in trace.prefix_hashes:
        blocks += len(hashes)
        depth = next((place for place, block in enumerate(hashes) if block not in seen), len(hashes))
        hits += depth
        starts += depth > 0
        seen.update(hashes)
    return PrefixReuse(
        trace.hash_block_tokens, blocks, len(seen), hits / blocks if blocks else 0.0, starts / len(trace)
    )
