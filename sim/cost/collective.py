"""Collective: the all-reduces between the ranks of a tensor-parallel group."""

from __future__ import annotations

from dataclasses import dataclass

from sim.cost.catalogue import ModelShape

REDUCES_PER_LAYER = 2
"""After the attention's output projection and after the MLP (Megatron-LM)."""

VLLM_ONE_SHOT_BYTES = 8 * 2**20
"""vLLM, vllm/distributed/device_communicators/custom_all_reduce.py: max_size."""


@dataclass(frozen=True, slots=True)
class AllReduce:
    """Ring all-reduce over `ranks`: 2(r-1) steps, each a latency and 1/r of the data.

    For two ranks that is 2*latency + size/bandwidth. Up to `one_shot_bytes` two ranks instead read
    each other's whole buffer in a single step: latency + size/bandwidth. Source: vLLM's custom
    all-reduce, which serves two ranks so up to 8 MiB and leaves larger buffers to NCCL's ring.
    """

    ranks: int
    gb_s: float
    """Bandwidth of one direction, GB/s."""
    latency_us: float
    """Of one step."""
    one_shot_bytes: float = VLLM_ONE_SHOT_BYTES
    """0: always the ring."""

    def time_us(self, size_bytes: float) -> float:
        """Of one all-reduce; 0 with a single rank."""
        if self.ranks == 1:
            return 0.0
        if self.ranks == 2 and size_bytes <= self.one_shot_bytes:
            return self.latency_us + size_bytes / (self.gb_s * 1e3)
        steps = 2 * (self.ranks - 1)
        return steps * (self.latency_us + size_bytes / self.ranks / (self.gb_s * 1e3))

    def iteration_us(self, shape: ModelShape, tokens: float) -> float:
        """All of one iteration over `tokens` new tokens, whose activations are 16-bit."""
        return shape.layers * REDUCES_PER_LAYER * self.time_us(tokens * shape.hidden * 2)
