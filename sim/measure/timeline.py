"""From the timestamps of token streams to iteration times. Pure arithmetic; no network.

All tokens of one iteration reach the client at nearly the same moment, so the gap between two
tokens of a steady stream is the time of one iteration. Which requests were in it is known from who
was streaming and who was waiting for a first token. docs/measuring-a-server.md has the reasoning.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from statistics import fmean, median
from typing import NamedTuple

MIN_GAPS = 4
"""A window with fewer undisturbed gaps a stream says nothing reliable."""

FEW_TOKENS = 4
"""A prompt of one token, or one word and what the server puts around it."""


@dataclass(slots=True)
class Stream:
    """One streamed request: when it was sent, and when each output token reached the client."""

    prompt_tokens: int
    sent_s: float
    token_s: list[float] = field(default_factory=list)

    @property
    def ttft_s(self) -> float:
        """Time to first token as the client saw it."""
        return self.token_s[0] - self.sent_s


class Sample(NamedTuple):
    """One measured iteration (or the median of a window of equal ones) in one repeat.

    `kind` is "decode", "mixed" (a chunk beside decodes) or "ttft" (a lone prompt, its time still
    with the front-end delay in it). Samples of one `cell` and `prefill_cached_tokens` repeat the same
    measurement.
    """

    cell: str
    kind: str
    num_prefill_tokens: int
    prefill_cached_tokens: int
    num_decodes: int
    decode_context_tokens: float
    time_s: float


class Refusal(NamedTuple):
    """Why no sample could be taken."""

    reason: str
    wrong_budget: bool = False
    """Whether it looks as if the server's token budget is another than assumed."""


def ttft_sample(cell: str, stream: Stream, token_budget: int) -> Sample | Refusal:
    """The time to first token of a prompt that had the server to itself, and fits one iteration."""
    if stream.prompt_tokens > token_budget:
        return Refusal(f"the server counts {stream.prompt_tokens} tokens, more than --token-budget")
    return Sample(cell, "ttft", stream.prompt_tokens, 0, 0, 0.0, stream.ttft_s)


class Quiet(NamedTuple):
    """The iterations of a batch in which exactly its requests decode, undisturbed."""

    num_decodes: int
    context_tokens: float
    """Sum over the decodes, in the middle of the window."""
    time_s: float
    """Typical duration."""
    longest_s: float
    """Longest duration: how much the decodes stall by themselves."""

    def sample(self, cell: str) -> Sample:
        """The decode iteration as a sample."""
        return Sample(cell, "decode", 0, 0, self.num_decodes, self.context_tokens, self.time_s)


def quiet_decodes(streams: Sequence[Stream], injected: Sequence[Stream]) -> Quiet | Refusal:
    """The decode iterations of `streams`.

    Counted are the gaps after the last stream's first token and before the first stream's end,
    outside the time from sending an injected prompt to its first token.
    """
    start, end = _common_window(streams)
    typical = _typical_gap(streams, start)
    if typical is None:
        return Refusal(f"its {len(streams)} requests never all decoded at once (KV or batch limit?)")
    slack = typical / 2
    busy = [(stream.sent_s, stream.token_s[0] - slack) for stream in injected]
    gaps: list[float] = []
    context = 0.0
    for stream in streams:
        contexts = []
        for index in range(1, len(stream.token_s)):
            left, right = stream.token_s[index - 1], stream.token_s[index]
            inside = left >= start - slack and right <= end + slack
            if inside and not any(right > sent and left < first for sent, first in busy):
                gaps.append(right - left)
                contexts.append(stream.prompt_tokens + index)
        context += median(contexts) if contexts else 0.0
    if len(gaps) < MIN_GAPS * len(streams):
        return Refusal(f"only {len(gaps)} undisturbed gaps of its {len(streams)} requests")
    return Quiet(len(streams), context, _midmean(gaps), max(gaps))


def mixed_samples(
    cell: str,
    streams: Sequence[Stream],
    prompt: Stream,
    chunks: Sequence[tuple[int, int]],
    quiet: Quiet,
) -> list[Sample] | Refusal:
    """The iterations that prefilled `prompt` in `chunks` (tokens, cached) beside decoding `streams`.

    The prompt's first token and one token of every stream come from the same iteration, the last of
    the prefill. The gaps that end there, and at the tokens before, are the iterations' times.
    `quiet` are the undisturbed iterations of `streams`.
    """
    found = _last_iteration(streams, prompt, len(chunks), quiet.time_s)
    if not isinstance(found, Refusal):
        found = _check_split(streams[0].token_s[: found[0] + 1], prompt.sent_s, chunks, quiet) or found
    if isinstance(found, Refusal):
        return found
    pairs = list(zip(streams, found, strict=True))
    borders = [_borders(stream.token_s, last, len(chunks), quiet.time_s) for stream, last in pairs]
    samples = []
    for place, (tokens, cached) in enumerate(chunks):
        time_s = median(border[place + 1] - border[place] for border in borders)
        back = len(chunks) - 1 - place
        context = sum(stream.prompt_tokens + last - back for stream, last in pairs)
        samples.append(Sample(cell, "mixed", tokens, cached, len(streams), context, time_s))
    return samples


def _last_iteration(
    streams: Sequence[Stream], prompt: Stream, count: int, decode_s: float
) -> list[int] | Refusal:
    """In every stream, the index of the token from the iteration that ended the prefill."""
    start, end = _common_window(streams)
    first = prompt.token_s[0]
    found = []
    for stream in streams:
        last = min(range(len(stream.token_s)), key=lambda i: abs(stream.token_s[i] - first))
        if last + 1 == len(stream.token_s) or stream.token_s[last] > end:
            return Refusal("the decodes ended before the prompt's first token")
        if last <= count or stream.token_s[last - count - 1] < start - decode_s / 2:
            return Refusal("the prompt was prefilled before all decodes had begun")
        if abs(stream.token_s[last] - first) > decode_s / 2:
            return Refusal(
                "its first token came apart from the decodes' tokens (prefills in iterations of their "
                "own, or a stall)"
            )
        found.append(last)
    return found


def _borders(token_s: list[float], last: int, count: int, decode_s: float) -> list[float]:
    """When each of the `count` iterations up to the one ending at token `last` began, and the end.

    A token that follows a long iteration reaches the client later than one that follows a short one
    (idle processors wake slowly; the prompt's own answer is handled first). So the outer borders are
    set one undisturbed decode iteration inside the tokens before and after.
    """
    began = token_s[last - count - 1] + decode_s
    ended = token_s[last + 1] - decode_s
    return [began, *token_s[last - count + 1 : last], ended]


def front_end_s(samples: Sequence[Sample]) -> float | None:
    """Seconds between sending a prompt and its first token that no iteration accounts for.

    The lone one-token prompt's TTFT less the time of its iteration. That iteration is a measured
    one: a one-token prompt beside one decode, less what a second sequence adds to a decode. Where
    the server never mixed the two, a lone decode stands for it. None: not enough samples yet.
    """
    shortest = shortest_prompt(samples)
    one, two = _shortest_decode(samples, 1), _shortest_decode(samples, 2)
    if shortest is None or one is None or two is None:
        return None
    ttft_s = median(s.time_s for s in samples if (s.kind, s.num_prefill_tokens) == ("ttft", shortest))
    beside = ("mixed", shortest, 0, 1)
    mixed = [s.time_s for s in samples if s[1:5] == beside]
    iteration_s = median(mixed) - max(0.0, two - one) if mixed else one
    return max(0.0, ttft_s - iteration_s)


def shortest_prompt(samples: Sequence[Sample]) -> int | None:
    """Tokens of the "one-token" lone prompt: one, or a few where the server adds its own.

    None before it was measured.
    """
    lengths = [s.num_prefill_tokens for s in samples if s.kind == "ttft"]
    return min(lengths) if lengths and min(lengths) <= FEW_TOKENS else None


def _shortest_decode(samples: Sequence[Sample], num_decodes: int) -> float | None:
    """Median decode time of that many sequences at the shortest context measured."""
    found = [s for s in samples if s.kind == "decode" and s.num_decodes == num_decodes]
    if not found:
        return None
    shortest = min(found, key=lambda s: s.decode_context_tokens).cell
    return median(s.time_s for s in found if s.cell == shortest)


def _midmean(values: Sequence[float]) -> float:
    """Mean of the middle half: stalls do not move it, and gaps that alternate about their mean, as
    when a front end delivers unevenly, average out."""
    ordered = sorted(values)
    cut = len(ordered) // 4
    return fmean(ordered[cut : len(ordered) - cut])


def _common_window(streams: Sequence[Stream]) -> tuple[float, float]:
    """From the last stream's first token to the first stream's last token."""
    return max(s.token_s[0] for s in streams), min(s.token_s[-1] for s in streams)


def _typical_gap(streams: Sequence[Stream], start: float) -> float | None:
    """Median gap after `start`, where all streams decode; None without one in every stream."""
    gaps = []
    for stream in streams:
        own = [right - left for left, right in pairwise(stream.token_s) if left >= start]
        if not own:
            return None
        gaps += own
    return median(gaps)


def _check_split(
    token_s: list[float], sent_s: float, chunks: Sequence[tuple[int, int]], quiet: Quiet
) -> Refusal | None:
    """Whether as many iterations were slowed since a prompt was sent as it has chunks.

    A prompt too short to slow any by a decode's time passes unseen; a small last chunk may or may not
    be seen. Where decodes stall by as much without a prompt, the budget is not to blame.
    """
    extra = [right - left - quiet.time_s for left, right in pairwise(token_s) if right > sent_s]
    largest = max(extra)
    if largest < quiet.time_s:
        return None
    slowed = sum(gap > 0.3 * largest for gap in extra)
    large = sum(2 * tokens >= chunks[0][0] for tokens, _ in chunks)
    if large <= slowed <= len(chunks):
        return None
    if quiet.longest_s - quiet.time_s > 0.3 * largest:
        return Refusal("the decodes stalled, beside it and without it")
    return Refusal(f"it slowed {slowed} iterations where {len(chunks)} should hold it", wrong_budget=True)
