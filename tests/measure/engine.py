"""The inside of the test server: an iteration loop whose times are known.

It batches as vLLM does: every iteration gives each decode one token, then the oldest prompts as much
of the token budget as is left, in chunks. An iteration lasts what `Coefficients` says (the two-regime
model of design.md section 6, written out here a second time on purpose: nothing of sim/ is used).
"""

from __future__ import annotations

import asyncio
import contextlib
from dataclasses import dataclass, field


@dataclass(frozen=True)
class Coefficients:
    """Microseconds of an iteration: decode-only, or with a prefill chunk in it."""

    decode_base: float = 6_000.0
    decode_per_sequence: float = 25.0
    decode_per_context_token: float = 0.05
    mixed_base: float = 9_000.0
    mixed_per_token: float = 28.0
    mixed_per_sequence: float = 20.0
    mixed_per_context_token: float = 0.12
    mixed_per_attention_pair: float = 0.0011

    def decode_us(self, contexts: list[int]) -> float:
        """An iteration of decodes only, reading `contexts` KV entries each."""
        return (
            self.decode_base
            + self.decode_per_sequence * len(contexts)
            + self.decode_per_context_token * sum(contexts)
        )

    def mixed_us(self, contexts: list[int], chunks: list[tuple[int, int]]) -> float:
        """An iteration of decodes and `chunks` of (new, cached) tokens."""
        new_tokens = len(contexts) + sum(new for new, _ in chunks)
        pairs = sum(new * cached + new * (new + 1) / 2 for new, cached in chunks)
        return (
            self.mixed_base
            + self.mixed_per_token * new_tokens
            + self.mixed_per_sequence * len(contexts)
            + self.mixed_per_context_token * sum(contexts)
            + self.mixed_per_attention_pair * pairs
        )


@dataclass
class Job:
    """One request inside the server."""

    prompt_tokens: int
    output_tokens: int
    prefilled: int = 0
    generated: int = 0
    tokens: asyncio.Queue[int] = field(default_factory=asyncio.Queue)


class Engine:
    """The iteration loop: plans a batch, waits as long as it takes, hands out its tokens."""

    def __init__(
        self,
        costs: Coefficients,
        token_budget: int,
        most_at_once: int,
        prefills_alone: bool,
        spin_s: float,
    ) -> None:
        self._costs = costs
        self._token_budget = token_budget
        self._most_at_once = most_at_once
        self._prefills_alone = prefills_alone
        self._spin_s = spin_s
        self._jobs: list[Job] = []
        self._arrived = asyncio.Event()

    def submit(self, job: Job) -> None:
        """Queue a request; it can be in the next iteration."""
        self._jobs.append(job)
        self._arrived.set()

    def abort(self, job: Job) -> None:
        """Forget a request whose client has gone."""
        with contextlib.suppress(ValueError):
            self._jobs.remove(job)

    async def run(self) -> None:
        """Iterate for ever. While there is work, iterations end on an exact schedule, so that a late
        wake-up of this process does not lengthen the next ones."""
        clock = asyncio.get_running_loop().time
        end = 0.0
        while True:
            if not self._jobs:
                self._arrived.clear()
                await self._arrived.wait()
                end = clock()
            decodes, chunks = self._plan()
            contexts = [job.prompt_tokens + job.generated for job in decodes]
            sizes = [(new, job.prefilled) for job, new in chunks]
            cost_us = self._costs.mixed_us(contexts, sizes) if chunks else self._costs.decode_us(contexts)
            end += cost_us / 1e6
            await asyncio.sleep(max(0.0, end - self._spin_s - clock()))
            while self._spin_s and clock() < end:
                pass
            self._commit(decodes, chunks)

    def _plan(self) -> tuple[list[Job], list[tuple[Job, int]]]:
        running = self._jobs[: self._most_at_once]
        decodes = [job for job in running if job.generated]
        prefills = [job for job in running if not job.generated]
        if self._prefills_alone and prefills:
            decodes = []
        room, chunks = self._token_budget - len(decodes), []
        for job in prefills:
            new = min(room, job.prompt_tokens - job.prefilled)
            if new > 0:
                chunks.append((job, new))
                room -= new
        return decodes, chunks

    def _commit(self, decodes: list[Job], chunks: list[tuple[Job, int]]) -> None:
        for job, new in chunks:
            job.prefilled += new
        for job in [*decodes, *(job for job, _ in chunks if job.prefilled == job.prompt_tokens)]:
            job.generated += 1
            job.tokens.put_nowait(job.generated)
            if job.generated == job.output_tokens:
                self.abort(job)
