"""Turns: who decodes when there are more decodes than budget, so that all get equal turns."""

from __future__ import annotations

from collections.abc import Iterable

from sim.core.request import RequestState


class Turns:
    """Remembers who had to wait. Forgets whoever is not asked about again."""

    def __init__(self) -> None:
        self._passed_over: dict[RequestState, int] = {}
        """How often each decode has had to wait because there were more decodes than budget."""

    def oldest(self, decodes: Iterable[RequestState], count: int) -> list[RequestState]:
        """The `count` of `decodes` whose last token is oldest, in admission order.

        A tie goes to the one passed over most often, then to admission order, in which `decodes`
        come: by admission order alone the first would win every tie, and turns would not be equal.
        """
        passed_over = self._passed_over
        ranked = sorted(
            decodes, key=lambda request: (request.last_token_ns or 0, -passed_over.get(request, 0))
        )
        self._passed_over = {
            request: passed_over.get(request, 0) + (place >= count) for place, request in enumerate(ranked)
        }
        return sorted(ranked[:count], key=lambda request: request.admission or 0)
