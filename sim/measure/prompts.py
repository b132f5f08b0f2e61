"""Prompts of a wanted length that share no prefix, so that no prefix cache shortens a prefill."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from sim.core.rng import stream
from sim.measure.errors import MeasureError

STYLES = ("tokens", "text")

_WORDS = ("time", "year", "people", "way", "day", "man", "thing", "woman", "life", "child", "world", "hand")


class Prompt(NamedTuple):
    """The `prompt` of a completion request, and its length as far as it is known before sending."""

    content: list[int] | str
    tokens: int
    exact: bool
    """False: the server's own count replaces `tokens`."""


class PromptMaker:
    """Draws prompts: token ids within `token_ids` (low, high), exact in length, or common words.

    Words are about one token each; their true count is taken from the server's `usage`.
    """

    def __init__(self, style: str, seed: int, token_ids: tuple[int, int]) -> None:
        if style not in STYLES:
            raise MeasureError(f"--prompt-style {style!r}: allowed: {', '.join(STYLES)}")
        low, high = token_ids
        if not 0 <= low < high:
            raise MeasureError(f"--token-ids {low}-{high}: two token ids, the lower first")
        self._style = style
        self._low, self._high = low, high
        self._rng: np.random.Generator = stream(seed, "measure.prompts")

    def make(self, tokens: int) -> Prompt:
        """A fresh prompt of `tokens` tokens."""
        if self._style == "tokens":
            return Prompt(self._rng.integers(self._low, self._high, tokens).tolist(), tokens, True)
        return Prompt(" ".join(self._rng.choice(_WORDS, tokens).tolist()), tokens, False)
