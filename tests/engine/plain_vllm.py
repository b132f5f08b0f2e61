"""A plain model of vLLM's V1 engine, to hold vllm_v1, prefix caching and async scheduling against.

Written from vLLM's own structure and not from this project's: one token count for prompt and output,
every block with an identity, every full block hashed, and for async scheduling a real queue of two
batches, of which the second is scheduled before the first returns, with placeholders for its tokens.
It departs from vLLM in one thing, as the package does: what a request generates can be hit by others
only once that request has left. No SimPy, no package code but the cost model's Batch.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from sim.core.batch import Batch, Chunk

Key = tuple[Any, ...]


@dataclass(eq=False)
class Sequence:
    row: int
    arrival: int
    prompt: int
    output: int
    shared_keys: list[Key]
    """Hashes of its leading full blocks that others may have as well."""
    tokens: int = 0
    """Known ones: the prompt and the output received."""
    prefill: int = 0
    """Known tokens at the last admission."""
    decoding: bool = False
    computed: int = 0
    placeholders: int = 0
    blocks: list[int] = field(default_factory=list)
    hashed: int = 0
    times: list[int] = field(default_factory=list)
    preemptions: int = 0

    def __post_init__(self) -> None:
        self.tokens = self.prompt


class Blocks:
    """Block table, hash table and queue of free blocks, all in the open."""

    def __init__(self, count: int) -> None:
        self.free: list[int] = list(range(count))
        self.users = [0] * count
        self.key: list[Key | None] = [None] * count
        self.by_key: dict[Key, list[int]] = {}

    def fresh(self) -> int:
        block = self.free.pop(0)
        self.set_key(block, None)
        self.users[block] = 1
        return block

    def set_key(self, block: int, key: Key | None) -> None:
        old = self.key[block]
        if old is not None:
            self.by_key[old].remove(block)
        self.key[block] = key
        if key is not None:
            self.by_key.setdefault(key, []).append(block)

    def touch(self, block: int) -> None:
        if not self.users[block]:
            self.free.remove(block)
        self.users[block] += 1

    def drop(self, blocks: list[int]) -> None:
        for block in reversed(blocks):
            self.users[block] -= 1
            if not self.users[block]:
                self.free.append(block)


class PlainVllm:
    """Run it once; then `sequences` have their token times."""

    def __init__(
        self, sequences: list[Sequence], cost: Callable[[Batch], int], *, budget: int, max_seqs: int,
        threshold: int, num_blocks: int, block_size: int, caching: bool, asynchronous: bool,
    ) -> None:  # fmt: skip
        self.sequences, self.cost = sequences, cost
        self.budget, self.max_seqs, self.threshold = budget, max_seqs, threshold
        self.size, self.caching, self.asynchronous = block_size, caching, asynchronous
        self.pool = Blocks(num_blocks)
        self.waiting: deque[Sequence] = deque()
        self.running: list[Sequence] = []
        self.queries = self.hits = self.iterations = 0

    def run(self) -> None:
        now = gpu_free = 0
        coming = deque(sorted(self.sequences, key=lambda s: (s.arrival, s.row)))
        flying: deque[tuple[list[Sequence], int]] = deque()
        while coming or self.waiting or self.running or flying:
            while coming and coming[0].arrival <= now:
                self.waiting.append(coming.popleft())
            batch = self.schedule() if self.waiting or self.running else {}
            if batch:
                self.iterations += 1
                gpu_free = max(now, gpu_free) + self.cost(as_batch(batch))
                flying.append((self.count_scheduled(batch), gpu_free))
                if self.asynchronous and len(flying) < 2:
                    continue
            if flying:
                sampled, now = flying.popleft()
                self.update(sampled, now)
            elif coming:
                now = coming[0].arrival

    def schedule(self) -> dict[Sequence, int]:
        """Tokens of the next iteration by sequence."""
        batch: dict[Sequence, int] = {}
        left, place, preempted = self.budget, 0, False
        while place < len(self.running) and left:
            sequence = self.running[place]
            count = self.chunk(sequence.tokens + sequence.placeholders - sequence.computed, left)
            last_is_flying = sequence.tokens + sequence.placeholders == sequence.prompt + sequence.output
            if not count or (sequence.placeholders and last_is_flying):
                place += 1
                continue
            while not (fits := self.allocate(sequence, sequence.computed + count)):
                victim = self.running.pop()
                self.preempt(victim)
                preempted = True
                if victim is sequence:
                    break
            if not fits:
                break
            batch[sequence] = count
            left -= count
            place += 1
        while self.waiting and left and not preempted and len(self.running) < self.max_seqs:
            sequence = self.waiting[0]
            hits = self.find(sequence)
            cached = len(hits) * self.size
            count = self.chunk(sequence.tokens - cached, left)
            idle = sum(not self.pool.users[block] for block in hits)
            if -(-sequence.tokens // self.size) - len(hits) + idle > len(self.pool.free):
                break
            self.queries += sequence.tokens
            self.hits += cached
            for block in hits:
                self.pool.touch(block)
            sequence.blocks, sequence.hashed, sequence.computed = hits, len(hits), cached
            sequence.prefill = sequence.tokens
            assert self.allocate(sequence, cached + count)
            self.running.append(self.waiting.popleft())
            batch[sequence] = count
            left -= count
        return batch

    def chunk(self, lacking: int, left: int) -> int:
        return min(lacking, left, self.threshold or left)

    def allocate(self, sequence: Sequence, upto: int) -> bool:
        lacking = -(-upto // self.size) - len(sequence.blocks)
        if lacking > len(self.pool.free):
            return False
        sequence.blocks += [self.pool.fresh() for _ in range(lacking)]
        self.hash_full(sequence, min(upto, sequence.tokens))
        return True

    def hash_full(self, sequence: Sequence, upto: int) -> None:
        if not self.caching:
            return
        for place in range(sequence.hashed, upto // self.size):
            self.pool.set_key(sequence.blocks[place], self.key(sequence, place, gone=False))
            sequence.hashed = place + 1

    def key(self, sequence: Sequence, place: int, gone: bool = True) -> Key:
        in_prefill = (place + 1) * self.size <= sequence.prefill
        if place < len(sequence.shared_keys) and (gone or in_prefill):
            return sequence.shared_keys[place]
        return ("own", sequence.row, place)

    def find(self, sequence: Sequence) -> list[int]:
        hits: list[int] = []
        for place in range((sequence.tokens - 1) // self.size if self.caching else 0):
            blocks = self.pool.by_key.get(self.key(sequence, place))
            if not blocks:
                break
            hits.append(blocks[0])
        return hits

    def count_scheduled(self, batch: dict[Sequence, int]) -> list[Sequence]:
        """Advance the counts at once; the sequences that will have a new token."""
        sampled = []
        for sequence, count in batch.items():
            sequence.computed += count
            if sequence.computed == sequence.tokens + sequence.placeholders:
                sequence.decoding = True
                sequence.placeholders += 1
                sampled.append(sequence)
        return sampled

    def update(self, sampled: list[Sequence], now: int) -> None:
        for sequence in sampled:
            sequence.times.append(now)
            sequence.tokens += 1
            sequence.placeholders -= 1
            if sequence.blocks:
                self.hash_full(sequence, sequence.computed - sequence.placeholders)
            if len(sequence.times) == sequence.output:
                self.finish(sequence)

    def finish(self, sequence: Sequence) -> None:
        self.free(sequence)
        if sequence in self.running:
            self.running.remove(sequence)
        else:
            self.waiting.remove(sequence)

    def preempt(self, sequence: Sequence) -> None:
        self.free(sequence)
        sequence.computed = 0
        sequence.decoding = False
        sequence.preemptions += 1
        self.waiting.appendleft(sequence)

    def free(self, sequence: Sequence) -> None:
        for place in range(sequence.hashed):
            wanted = self.key(sequence, place)
            if self.pool.key[sequence.blocks[place]] != wanted:
                self.pool.set_key(sequence.blocks[place], wanted)
        self.pool.drop(sequence.blocks)
        sequence.blocks, sequence.hashed = [], 0


def as_batch(batch: dict[Sequence, int]) -> Batch:
    """What the cost model sees of it, before the counts advance."""
    decodes = [sequence.computed + 1 for sequence in batch if sequence.decoding]
    chunks = tuple(
        Chunk(count, sequence.computed) for sequence, count in batch.items() if not sequence.decoding
    )
    if not decodes:
        return Batch(chunks=chunks)
    return Batch(len(decodes), sum(decodes), max(decodes), min(decodes), chunks)
