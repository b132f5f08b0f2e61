"""Validity: the range a cost model was measured on, and whether a batch lies in it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from typing import Any

from sim.core.batch import Batch
from sim.cost.fields import check_keys, integer, mapping


@dataclass(frozen=True, slots=True)
class ValidRange:
    """Largest values measured; the mean context of the decodes is what `decode_context` bounds."""

    num_decodes: int
    decode_context: int
    tokens: int
    """New tokens of an iteration with prefill."""
    cached: int
    """Tokens already in KV before a chunk."""

    @classmethod
    def from_spec(cls, spec: object, where: str) -> ValidRange:
        """Read from a mapping with exactly these keys; ProfileError otherwise."""
        given: Mapping[str, Any] = mapping(spec, where)
        names = [field.name for field in fields(cls)]
        check_keys(given, names, where)
        return cls(**{name: integer(given, name, where, minimum=0) for name in names})

    def to_spec(self) -> dict[str, int]:
        """The mapping from_spec reads."""
        return asdict(self)

    def holds(self, batch: Batch) -> bool:
        """Whether every quantity of `batch` was measured up to its value."""
        return not self.outside(batch)

    def outside(self, batch: Batch, iterations: int = 1) -> int:
        """How many of the next `iterations` of `batch` lie outside; more than one are decode-only."""
        num_decodes, context_sum, _, _, chunks = batch
        if num_decodes > self.num_decodes:
            return iterations
        room = self.decode_context * num_decodes - context_sum
        if not chunks:
            if (iterations - 1) * num_decodes <= room:
                return 0
            return iterations - max(room // num_decodes + 1, 0)
        tokens = num_decodes
        for new, cached in chunks:
            tokens += new
            if cached > self.cached:
                return 1
        return 0 if room >= 0 and tokens <= self.tokens else 1


EVERYTHING = ValidRange(*[1 << 62] * 4)
"""The range of a model that nobody measured: no batch is outside."""
