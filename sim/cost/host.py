"""Host: time an iteration takes beside the GPU's kernels, added to any cost model.

Owns the keys host_overhead_us and cold_start_us, which every kind accepts. Both are 0 by default, but
layer profiles hold kernel times only: their iterations with a prefill take the GPU's mixed_host_us.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sim.core.batch import Batch
from sim.core.protocols import CostModel
from sim.cost.fields import check_keys, mapping, number

KEYS = ("host_overhead_us", "cold_start_us")
PARTS = ("decode", "mixed", "per_sequence")


@dataclass(frozen=True, slots=True)
class HostOverhead:
    """Nanoseconds added to an iteration, for each of its requests, and once to the first of a run."""

    decode_ns: int
    mixed_ns: int
    sequence_ns: int
    cold_start_ns: int

    @classmethod
    def from_spec(cls, spec: Mapping[str, Any], where: str, mixed_us: float = 0.0) -> HostOverhead:
        """From host_overhead_us, a number or {decode, mixed, per_sequence}, and cold_start_us.

        `mixed_us` is the mixed part where host_overhead_us is not given at all.
        """
        given = spec.get("host_overhead_us", {"mixed": mixed_us})
        if isinstance(given, Mapping):
            inside = f"{where}: host_overhead_us"
            parts = mapping(given, inside)
            check_keys(parts, PARTS, inside)
            decode, mixed, sequence = (number(parts, key, inside, default=0) for key in PARTS)
        else:
            decode = mixed = number({"host_overhead_us": given}, "host_overhead_us", where)
            sequence = 0.0
        cold = number(spec, "cold_start_us", where, default=0)
        return cls(*(round(part * 1000) for part in (decode, mixed, sequence, cold)))


class WithHost:
    """A cost model with host time added. `cold_start_ns` is for the engine to add, once a run."""

    def __init__(self, inner: CostModel, overhead: HostOverhead) -> None:
        self.inner = inner
        self.overhead = overhead
        self.cold_start_ns = overhead.cold_start_ns
        self.needs_context_spread = bool(getattr(inner, "needs_context_spread", True))
        self.grows_with_context = bool(getattr(inner, "grows_with_context", False))

    def iteration_ns(self, batch: Batch) -> int:
        """The inner model's answer and the overhead of its kind of iteration."""
        overhead = self.overhead.mixed_ns if batch.chunks else self.overhead.decode_ns
        return self.inner.iteration_ns(batch) + overhead + self.overhead.sequence_ns * batch.num_sequences

    def decode_run_ns(self, batch: Batch, iterations: int) -> NDArray[np.int64]:
        """The inner model's answers and the overhead of a decode-only iteration."""
        each = self.overhead.decode_ns + self.overhead.sequence_ns * batch.num_decodes
        return self.inner.decode_run_ns(batch, iterations) + each

    def outside(self, batch: Batch, iterations: int = 1) -> int:
        """What the inner model says."""
        inside = getattr(self.inner, "outside", None)
        return 0 if inside is None else int(inside(batch, iterations))
