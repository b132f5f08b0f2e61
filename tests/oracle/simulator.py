"""An independent simulator of four policies and a variant, for the real engine to be held against.

Owns one plain reading of design.md sections 3, 5 and 6: every iteration is planned anew from full lists,
every block count is computed from its definition, nothing is skipped, cached or shared. It imports nothing of
the package, so an error in the package's types cannot hide here. Prefix caching, swapping, several replicas
and the metrics are left to other tests.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

Cost = Callable[[int, int, list[tuple[int, int]]], int]


@dataclass(eq=False)
class Req:
    """One request's progress. `blocks`: held now; `cached`: entries written of its current prefill."""

    row: int
    arrival: int
    prompt: int
    output: int
    blocks: int = 0
    cached: int = 0
    prefill: int = 0  # entries its current prefill must write: prompt + generated at the time of admission
    tokens: list[int] = field(default_factory=list)
    preemptions: int = 0
    first_scheduled: int | None = None

    @property
    def decoding(self) -> bool:
        return self.prefill > 0 and self.cached >= self.prefill


class NoProgress(RuntimeError):
    """Work is pending, nothing can be scheduled, and no future event can change that."""


class Oracle:
    """The state of one run. Attributes are public so that tests can look at them."""

    def __init__(self, requests: list[tuple[int, int, int]], policy: str, *, token_budget: int | None,
                 max_batch_size: int, num_blocks: int, block_size: int, memory: str, watermark: float,
                 max_model_len: int | None, max_wait_ns: int, cost: Cost) -> None:
        self.all = [Req(row, *request) for row, request in enumerate(requests)]
        self.pending = sorted(self.all, key=lambda r: (r.arrival, r.row))
        self.waiting: list[Req] = []
        self.running: list[Req] = []  # in admission order
        self.rejected: set[int] = set()
        self.policy, self.budget, self.max_batch = policy, token_budget, max_batch_size
        self.num_blocks, self.block_size = num_blocks, block_size
        self.reserve = memory == "reserve" or policy == "static"
        self.watermark_blocks = int(watermark * num_blocks)
        self.max_model_len, self.max_wait, self.cost = max_model_len, max_wait_ns, cost
        self.now = 0
        self.peak = 0
        self.preempted = False  # in the iteration being planned
        self.iterations: list[dict[str, Any]] = []

    # --- memory ------------------------------------------------------------------------------------------

    def blocks_for(self, entries: int) -> int:
        return -(-entries // self.block_size)

    def free(self) -> int:
        return self.num_blocks - sum(r.blocks for r in self.running)

    def note_peak(self) -> None:
        self.peak = max(self.peak, self.num_blocks - self.free())

    def admit(self, req: Req | None = None) -> Req | None:
        """Move `req` (or the first waiting) to running, if there is a slot and KV for its whole prefill."""
        if not self.waiting or len(self.running) >= self.max_batch:
            return None
        req = req or self.waiting[0]
        prefill = req.prompt + len(req.tokens)
        if self.reserve:
            need, margin = self.blocks_for(req.prompt + req.output - 1), 0
        else:
            need, margin = self.blocks_for(prefill), self.watermark_blocks if self.running else 0
        if need + margin > self.free():
            return None
        self.waiting.remove(req)
        req.blocks, req.prefill, req.cached = need, prefill, 0
        if req.first_scheduled is None:
            req.first_scheduled = self.now
        self.running.append(req)
        self.note_peak()
        return req

    def preempt_last(self) -> None:
        victim = self.running.pop()
        victim.blocks = victim.cached = victim.prefill = 0
        victim.preemptions += 1
        self.waiting.insert(0, victim)
        self.preempted = True

    def grow(self, decodes: list[Req]) -> list[Req]:
        """Give each decode, in admission order, the block its new entry needs; those still running."""
        for req in decodes:
            need = self.blocks_for(req.prompt + len(req.tokens))
            while req in self.running and req.blocks < need:
                if self.free() > 0:
                    req.blocks += 1
                    self.note_peak()
                else:
                    self.preempt_last()
        return [r for r in decodes if r in self.running]

    # --- the policies: each returns (decodes, [(request, chunk tokens)]) ------------------------------

    def admitted_prompts(self) -> list[tuple[Req, int]]:
        chunks = []
        while (req := self.admit()) is not None:
            chunks.append((req, req.prefill))
        return chunks

    def plan_continuous(self) -> tuple[list[Req], list[tuple[Req, int]]]:
        decodes = self.grow(list(self.running))
        return decodes, [] if self.preempted else self.admitted_prompts()

    def plan_skip_ahead(self) -> tuple[list[Req], list[tuple[Req, int]]]:
        """continuous that tries those behind one that does not fit: only so do some rules show at all."""
        decodes = self.grow(list(self.running))
        tried = [] if self.preempted else list(self.waiting)
        return decodes, [(req, req.prefill) for req in tried if self.admit(req)]

    def plan_prefill_first(self) -> tuple[list[Req], list[tuple[Req, int]]]:
        decodes = list(self.running)
        chunks = self.admitted_prompts()
        return ([], chunks) if chunks else (self.grow(decodes), [])

    def plan_stall_free(self) -> tuple[list[Req], list[tuple[Req, int]]]:
        assert self.budget is not None
        decodes = [r for r in self.running if r.decoding]
        if len(decodes) > self.budget:
            # Oldest last token first. Ties go to the older token before it, else the earliest admitted would
            # win every tie and get twice the turns (S1 asks for equal ones); then by admission (stable sort).
            oldest = sorted(decodes, key=lambda r: r.tokens[::-1])[: self.budget]
            return self.grow([r for r in decodes if r in oldest]), []
        decodes = self.grow(decodes)
        left = self.budget - len(decodes)
        chunks = []
        for req in self.running:
            if not req.decoding and left > 0:
                chunks.append((req, min(req.prefill - req.cached, left)))
                left -= chunks[-1][1]
        while left > 0 and not self.preempted and (new := self.admit()) is not None:
            chunks.append((new, min(new.prefill, left)))
            left -= chunks[-1][1]
        return decodes, chunks

    # --- the run -----------------------------------------------------------------------------------------

    def take_arrivals(self) -> None:
        while self.pending and self.pending[0].arrival <= self.now:
            req = self.pending.pop(0)
            too_long = self.max_model_len is not None and req.prompt + req.output > self.max_model_len
            if too_long or self.blocks_for(req.prompt + req.output - 1) > self.num_blocks:
                self.rejected.add(req.row)
            else:
                self.waiting.append(req)

    def sleep_until(self, times: list[int]) -> None:
        if not times:
            raise NoProgress(f"at {self.now} ns: waiting {[r.row for r in self.waiting]}")
        self.now = min(times)

    def iterate(self, decodes: int, context: int, chunks: list[tuple[int, int]]) -> None:
        used = self.num_blocks - self.free()
        assert 0 <= used <= self.num_blocks
        duration = self.cost(decodes, context, chunks)
        assert duration >= 1
        self.iterations.append({"start": self.now, "duration": duration, "decodes": decodes,
                                "context": context, "chunks": chunks, "used": used,
                                "running": [r.row for r in self.running],
                                "waiting": [r.row for r in self.waiting]})
        self.now += duration

    def run(self) -> None:
        while self.pending or self.waiting or self.running:
            self.take_arrivals()
            if self.policy == "static":
                self.run_static_batch()
            else:
                self.run_iteration()

    def run_iteration(self) -> None:
        self.preempted = False
        decodes, chunks = getattr(self, f"plan_{self.policy}")()
        if not decodes and not chunks:
            if not self.preempted and (self.waiting or self.pending):  # else plan anew, with the freed blocks
                self.sleep_until([r.arrival for r in self.pending])
            return
        context = sum(r.prompt + len(r.tokens) for r in decodes)
        self.iterate(len(decodes), context, [(tokens, req.cached) for req, tokens in chunks])
        for req, tokens in chunks:
            req.cached += tokens
        for req in decodes + [r for r, _ in chunks if r.decoding]:
            req.tokens.append(self.now)
        self.running = [r for r in self.running if len(r.tokens) < r.output]

    def run_static_batch(self) -> None:
        """Start a whole batch if the rule allows and run it to its end, else sleep. Arrivals wait."""
        if not self.waiting:
            if self.pending:
                self.sleep_until([r.arrival for r in self.pending])
            return
        oldest = self.waiting[0].arrival
        if len(self.waiting) < self.max_batch and oldest + self.max_wait > self.now:
            self.sleep_until([r.arrival for r in self.pending] + [oldest + self.max_wait])
            return
        while self.admit() is not None:
            pass
        if not self.running:
            raise NoProgress(f"static batch at {self.now} ns is empty")
        slots, longest = len(self.running), max(r.prompt for r in self.running)
        self.iterate(0, 0, [(longest, 0)] * slots)
        for generated in range(1, max(r.output for r in self.running) + 1):
            for req in self.running:
                if generated <= req.output:
                    req.tokens.append(self.now)
            if any(generated < r.output for r in self.running):
                self.iterate(slots, slots * (longest + generated), [])
        self.running = []


def simulate(requests: list[tuple[int, int, int]], policy: str, **settings: Any) -> dict[str, Any]:
    """Run `requests`, each (arrival_ns, prompt_tokens, output_tokens), to the end; settings as in `Oracle`.

    Returns token_times (ns, one list a request), rejected (rows), preemptions and first_scheduled (one a
    request), peak_blocks (the most in use at any moment) and iterations (one dict each, for tests).
    """
    oracle = Oracle(requests, policy, **settings)
    oracle.run()
    return {
        "token_times": [r.tokens for r in oracle.all],
        "rejected": oracle.rejected,
        "preemptions": [r.preemptions for r in oracle.all],
        "first_scheduled": [r.first_scheduled for r in oracle.all],
        "peak_blocks": oracle.peak,
        "iterations": oracle.iterations,
    }
