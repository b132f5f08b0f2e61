"""Memory rules: how many blocks a request takes when it is admitted, and whether it grows later."""

from __future__ import annotations

from typing import Protocol

from sim.core.registry import Registry
from sim.core.request import RequestState


class MemoryRule(Protocol):
    """`grows` says whether decodes take blocks on demand (and may have to preempt for them)."""

    grows: bool

    def admission_entries(self, state: RequestState) -> int:
        """KV entries whose blocks `state` takes at admission."""
        ...


class Reserve:
    """Blocks for prompt + output - 1 entries are set aside at admission; nothing is ever preempted.

    Source: Orca (OSDI 2022) and FasterTransformer, which reserve for the longest output. Reserving
    for the true length is the kindest reading of that rule: no policy reads the length by it.
    """

    grows = False

    def admission_entries(self, state: RequestState) -> int:
        return state.prompt_tokens + state._output_tokens - 1


class Paged:
    """Blocks for the whole prefill at admission, one more whenever a decode's entry needs it.

    Source: vLLM (SOSP 2023), section 4.
    """

    grows = True

    def admission_entries(self, state: RequestState) -> int:
        return state.prefill_tokens


MEMORY_RULES: Registry[type[MemoryRule]] = Registry("memory rule")
MEMORY_RULES.add("reserve", Reserve)
MEMORY_RULES.add("paged", Paged)
