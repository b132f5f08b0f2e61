"""TeachingAdapter: runs a scheduler written to the interface that courses teach, unchanged.

Such a class has a constructor (token_budget, max_batch_size), `add_request(request)` and
`schedule_next_batch()`, keeps its own queue and pool, and reads and advances request objects of a
fixed shape (TaughtRequest). The adapter hands it those, and turns its batches into engine verbs.
"""

from __future__ import annotations

from collections.abc import Callable, Sized
from typing import Any

from sim.core.errors import PolicyError
from sim.core.protocols import Step
from sim.core.request import RequestState


def is_teaching_scheduler(cls: object) -> bool:
    """Whether `cls` is a class with the two methods of the teaching interface."""
    return isinstance(cls, type) and all(
        callable(getattr(cls, method, None)) for method in ("add_request", "schedule_next_batch")
    )


class TaughtRequest:
    """The request object a taught scheduler sees.

    `prompt_tokens` is a sequence of token ids (a range: only its length means anything),
    `output_tokens` the list of ids produced so far, which the engine extends after each iteration;
    `tokens_processed` counts the prompt tokens scheduled, and the scheduler itself advances it.
    """

    def __init__(self, state: RequestState) -> None:
        self.id = state.id
        self.arrival_time = state.arrival_ns / 1e9
        self.prompt_tokens = range(state.prompt_tokens)
        self.output_tokens: list[int] = []
        self.tokens_processed = 0
        self._length = state._output_tokens

    def is_prefill_done(self) -> bool:
        return self.tokens_processed >= len(self.prompt_tokens)

    def is_complete(self) -> bool:
        return len(self.output_tokens) >= self._length

    def __repr__(self) -> str:
        return f"TaughtRequest({self.id!r})"


class TeachingAdapter:
    """A policy around a taught scheduler. Its KV is unlimited; the peak is reported.

    The engine checks each batch and raises PolicyError, naming the iteration, if it holds an unknown
    or finished request, a request twice, more tokens than the budget, more requests than
    max_batch_size, or a decode of a request whose prefill is not done.
    """

    steady = False
    unlimited_kv = True

    def __init__(self, cls: Callable[[int, int], Any], token_budget: int, max_batch_size: int) -> None:
        self.name = getattr(cls, "__name__", "scheduler")
        self.token_budget = token_budget
        self.max_batch_size = max_batch_size
        try:
            self._scheduler = cls(token_budget, max_batch_size)
        except Exception as error:
            raise PolicyError(
                f"{self.name}(token_budget={token_budget}, max_batch_size={max_batch_size}) "
                f"raised {type(error).__name__}: {error}"
            ) from error
        self._states: dict[Any, RequestState] = {}
        self._taught: dict[RequestState, TaughtRequest] = {}
        self._scheduled: list[RequestState] = []

    def on_arrival(self, state: RequestState) -> None:
        """Called by the engine when a request arrives."""
        taught = TaughtRequest(state)
        self._states[taught.id] = state
        self._taught[state] = taught
        self._scheduler.add_request(taught)

    def plan(self, step: Step) -> None:
        """Ask the scheduler for its next batch and schedule exactly that."""
        items = list(self._scheduler.schedule_next_batch() or ())
        self._check(items)
        self._scheduled = [self._states[item.request_id] for item in items]
        for state, item in zip(self._scheduled, items, strict=True):
            self._schedule(step, state, item)

    def on_tokens(self, step: Step) -> None:
        """Called after each iteration: append what was produced, the first token included."""
        for state in self._scheduled:
            taught = self._taught[state]
            missing = state.generated_tokens - len(taught.output_tokens)
            taught.output_tokens.extend([0] * missing)
            if taught.is_complete():
                del self._taught[state], self._states[state.id]

    def _check(self, items: list[Any]) -> None:
        seen: set[Any] = set()
        total = 0
        for item in items:
            self._check_shape(item)
            if item.request_id not in self._states:
                raise PolicyError(
                    f"{self.name} scheduled request {item.request_id!r}, which is unknown or finished"
                )
            if item.request_id in seen:
                raise PolicyError(f"{self.name} scheduled request {item.request_id!r} twice")
            seen.add(item.request_id)
            total += len(item.tokens)
        if total > self.token_budget:
            raise PolicyError(
                f"{self.name} scheduled {total} tokens; the token_budget is {self.token_budget}"
            )

    def _check_shape(self, item: Any) -> None:
        for attribute in ("request_id", "tokens", "is_decode"):
            if not hasattr(item, attribute):
                raise PolicyError(
                    f"{self.name}.schedule_next_batch must return items with request_id, tokens and "
                    f"is_decode; {item!r} has no {attribute}"
                )
        if not isinstance(item.tokens, Sized):
            raise PolicyError(
                f"{self.name}: the tokens of an item must be a list of token ids, got {item.tokens!r}"
            )

    def _schedule(self, step: Step, state: RequestState, item: Any) -> None:
        decodes = state.first_token_ns is not None
        tokens = len(item.tokens)
        if bool(item.is_decode) != decodes:
            done = "done" if decodes else "not done"
            raise PolicyError(
                f"{self.name} scheduled request {item.request_id!r} as a "
                f"{'decode' if item.is_decode else 'prefill'}, but its prefill is {done}"
            )
        limit = 1 if decodes else state.remaining_prefill_tokens
        if not 1 <= tokens <= limit:
            raise PolicyError(
                f"{self.name} scheduled {tokens} tokens of request {item.request_id!r}; "
                f"between 1 and {limit} can be"
            )
        if not step.schedule(state, tokens):
            raise PolicyError(
                f"{self.name} has more than max_batch_size {self.max_batch_size} requests running"
            )
