"""Collective: the all-reduces between the ranks of a tensor-parallel group."""

from __future__ import annotations

from dataclasses import dataclass

from sim.cost.catalogue import ModelShape

REDUCES_PER_LAYER = 2
"""After the attention's output projection and after the MLP (Megatron-LM)."""


@dataclass(frozen=True, slots=True)
class AllReduce:
    """Ring all-reduce over `ranks`: 2(r-1) steps, each a latency and 1/r of the data.

    For two ranks that is 2*latency + size/bandwidth.
    """

    ranks: int
    gb_s: float
    """Bandwidth of one direction, GB/s."""
    latency_us: float
    """Of one step."""

    def time_us(self, size_bytes: float) -> float:
        """Of one all-reduce; 0 with a single rank."""
        if self.ranks == 1:
            return 0.0
        steps = 2 * (self.ranks - 1)
        return steps * (self.latency_us + size_bytes / self.ranks / (self.gb_s * 1e3))

    def iteration_us(self, shape: ModelShape, tokens: float) -> float:
        """All of one iteration over `tokens` new tokens, whose activations are 16-bit."""
        return shape.layers * REDUCES_PER_LAYER * self.time_us(tokens * shape.hidden * 2)
