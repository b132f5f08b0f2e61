"""Shared prefixes: which prompt tokens have to be computed at all when a prefix cache keeps blocks.

Owns one question of the bounds: what each request adds to the tokens that somebody must compute,
after its arrival. Every distinct block of the trace is counted once, at the request that has it
first; the rules of what a cache can find are those of sim/kv/prefix.py.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from sim.core.trace import Trace

Rows = NDArray[np.int64]


def new_work(trace: Trace, rows: Rows, *, sessions: bool) -> tuple[Rows, Rows]:
    """New prompt tokens and their attention pairs of `rows`, which are in order of arrival.

    With `sessions`, turns after the first arrive when they can, so only their own session is known
    to come after them.
    """
    prompt = trace.prompt_tokens[rows]
    new, pairs = prompt.copy(), prompt * (prompt + 1) // 2
    size = trace.hash_block_tokens
    if trace.prefix_hashes is None or size is None:
        return new, pairs
    free = _by_decodes(trace, size)
    if sessions and trace.session is not None:
        free |= _overtaken(trace)
    for place, row in enumerate(rows.tolist()):
        length = int(prompt[place])
        findable = _findable(trace, row, size)
        for number, hashed in enumerate(findable[: -(-length // size)]):
            if hashed in free:
                start, end = number * size, min((number + 1) * size, length)
                new[place] -= end - start
                pairs[place] -= (end * (end + 1) - start * (start + 1)) // 2
        free.update(findable)
    return new, pairs


def _findable(trace: Trace, row: int, size: int) -> Sequence[int]:
    """Hashes of the row by which a cache finds anything: of whole blocks of its prompt, or of all it has."""
    assert trace.prefix_hashes is not None
    hashes, prompt = trace.prefix_hashes[row], int(trace.prompt_tokens[row])
    covers_output = (len(hashes) - 1) * size >= prompt
    tokens = prompt + int(trace.output_tokens[row]) if covers_output else prompt
    return hashes[: tokens // size]


def _by_decodes(trace: Trace, size: int) -> set[int]:
    """Hashes of blocks that hold output tokens of a request, so that its decodes fill them."""
    return {
        hashed
        for row, prompt in enumerate(trace.prompt_tokens.tolist())
        for hashed in _findable(trace, row, size)[prompt // size :]
    }


def _overtaken(trace: Trace) -> set[int]:
    """Hashes of later turns that other sessions have too, which may come before or after them."""
    assert trace.session is not None and trace.prefix_hashes is not None
    numbers = trace.session.tolist()
    pairs = {
        (hashed, session)
        for session, hashes in zip(numbers, trace.prefix_hashes, strict=True)
        for hashed in hashes
    }
    sessions = Counter(hashed for hashed, _ in pairs)
    started: set[int] = set()
    overtaken: set[int] = set()
    for session, hashes in zip(numbers, trace.prefix_hashes, strict=True):
        if session in started:
            overtaken.update(hashed for hashed in hashes if sessions[hashed] > 1)
        started.add(session)
    return overtaken
