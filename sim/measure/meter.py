"""Meter: counts what is sent and stops at the caps, whatever the plan expected."""

from __future__ import annotations

from sim.measure.errors import CapReached
from sim.measure.plan import Caps


class Meter:
    """Requests and tokens spent so far, held against `caps` before each request."""

    def __init__(self, caps: Caps) -> None:
        self._caps = caps
        self.requests = 0
        self.tokens = 0

    def charge(self, tokens: int) -> None:
        """Spend one request of `tokens` (prompt and output); CapReached, unspent, if that is too much."""
        if self.requests + 1 > self._caps.max_requests:
            raise CapReached(f"--max-requests {self._caps.max_requests} reached")
        if self.tokens + tokens > self._caps.max_tokens:
            raise CapReached(f"--max-tokens {self._caps.max_tokens} reached")
        self.requests += 1
        self.tokens += tokens

    def correct(self, planned: int, actual: int) -> None:
        """Replace a request's planned prompt tokens by those the server counted."""
        self.tokens += actual - planned
