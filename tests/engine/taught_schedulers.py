"""A stall-free scheduler as a course would have it written, and broken variants of it."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from typing import Any


@dataclass
class Item:
    request_id: Any
    tokens: list[int]
    is_decode: bool


class CourseScheduler:
    """Sarathi-Serve's Algorithm 3 over its own waiting_queue and active_pool."""

    def __init__(self, token_budget: int, max_batch_size: int) -> None:
        self.token_budget = token_budget
        self.max_batch_size = max_batch_size
        self.waiting_queue: deque[Any] = deque()
        self.active_pool: list[Any] = []

    def add_request(self, request: Any) -> None:
        self.waiting_queue.append(request)

    def schedule_next_batch(self) -> list[Item]:
        self.active_pool = [r for r in self.active_pool if not r.is_complete()]
        batch: list[Item] = []
        left = self.token_budget
        for request in self.active_pool:
            if request.is_prefill_done() and left > 0:
                batch.append(Item(request.id, [request.output_tokens[-1]], True))
                left -= 1
        for request in self.active_pool:
            if not request.is_prefill_done() and left > 0:
                left -= self._chunk(request, left, batch)
        while self.waiting_queue and left > 0 and len(self.active_pool) < self.max_batch_size:
            request = self.waiting_queue.popleft()
            self.active_pool.append(request)
            left -= self._chunk(request, left, batch)
        return batch

    def _chunk(self, request: Any, left: int, batch: list[Item]) -> int:
        start = request.tokens_processed
        tokens = list(request.prompt_tokens[start : start + left])
        request.tokens_processed += len(tokens)
        batch.append(Item(request.id, tokens, False))
        return len(tokens)


class NamesAStranger(CourseScheduler):
    def schedule_next_batch(self) -> list[Item]:
        return [*super().schedule_next_batch(), Item("nobody", [0], True)]


class SchedulesTwice(CourseScheduler):
    def schedule_next_batch(self) -> list[Item]:
        batch = super().schedule_next_batch()
        return [*batch, batch[0]]


class IgnoresTheBudget(CourseScheduler):
    def __init__(self, token_budget: int, max_batch_size: int) -> None:
        super().__init__(10 * token_budget, max_batch_size)


class IgnoresTheBatchSize(CourseScheduler):
    def __init__(self, token_budget: int, max_batch_size: int) -> None:
        super().__init__(token_budget, 10 * max_batch_size)


class NeverSchedules(CourseScheduler):
    def schedule_next_batch(self) -> list[Item]:
        return []


class ForgetsItsProgress(CourseScheduler):
    def _chunk(self, request: Any, left: int, batch: list[Item]) -> int:
        used = super()._chunk(request, left, batch)
        request.tokens_processed = 0
        return used


class Raises(CourseScheduler):
    def schedule_next_batch(self) -> list[Item]:
        raise ZeroDivisionError("no tokens")


class CountsTokens(CourseScheduler):
    def schedule_next_batch(self) -> list[Any]:
        batch = super().schedule_next_batch()
        return [Item(item.request_id, len(item.tokens), item.is_decode) for item in batch]


class ReturnsTuples(CourseScheduler):
    def schedule_next_batch(self) -> list[Any]:
        return [(item.request_id, item.tokens) for item in super().schedule_next_batch()]


class DecodesTooEarly(CourseScheduler):
    def schedule_next_batch(self) -> list[Item]:
        return [Item(request.id, [0], True) for request in self.waiting_queue]
