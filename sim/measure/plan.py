"""Plan: what will be sent to a server, in which order, and what that costs at most.

Pure arithmetic on a grid of sizes, so that the whole traffic is known, shown and capped before the
first request. Sending it is runner.py's.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field

from sim.measure.errors import MeasureError

LATENCY_TOKENS = 12
"""Decode iterations allowed to pass between sending a prompt and the server starting on it."""

SPACING_TOKENS = 4
"""Undisturbed decode iterations between two injected prompts."""


@dataclass(frozen=True, slots=True)
class Grid:
    """Which points to measure. Lengths in tokens; in any order."""

    prompts: tuple[int, ...] | None = None
    """Lone prompts, each at most `token_budget` (so that one iteration prefills it). None: from 1/32
    of the budget to all of it."""
    batch_sizes: tuple[int, ...] = (1, 2, 4, 8, 16, 32, 64)
    contexts: tuple[int, ...] = (128, 1024, 4096)
    """Prompt lengths of the decode batches."""
    token_budget: int = 2048
    """Most tokens the server puts into one iteration (vLLM: --max-num-batched-tokens)."""
    chunks: int = 3
    """A prompt this many budgets long is injected too, for chunks over cached tokens; 1: none."""
    kv_tokens: int = 80_000
    """Batches that would hold more tokens of context than this are left out."""
    window_tokens: int = 32
    """Undisturbed tokens of every decode from which a decode iteration's time is taken."""
    repeats: int = 5

    @property
    def lone_prompts(self) -> list[int]:
        """The lone prompts' lengths, ascending, each once."""
        if self.prompts is not None:
            return sorted(set(self.prompts))
        return sorted({max(2, self.token_budget * part // 32) for part in (1, 4, 8, 16, 24, 32)})


@dataclass(frozen=True, slots=True)
class LoneStep:
    """One prompt on an idle server, one output token: its time to first token."""

    prompt_tokens: int
    warmup: bool = False

    @property
    def requests(self) -> int:
        return 1

    @property
    def tokens(self) -> int:
        return self.prompt_tokens + 1

    @property
    def label(self) -> str:
        return f"prompt of {self.prompt_tokens}"


@dataclass(frozen=True, slots=True)
class BatchStep:
    """`num_decodes` requests decoding together; then `injected` prompts arriving one by one."""

    num_decodes: int
    context_tokens: int
    output_tokens: int
    injected: tuple[int, ...] = ()
    warmup: bool = False

    @property
    def requests(self) -> int:
        return self.num_decodes + len(self.injected)

    @property
    def tokens(self) -> int:
        decodes = self.num_decodes * (self.context_tokens + self.output_tokens)
        return decodes + sum(self.injected) + len(self.injected)

    @property
    def label(self) -> str:
        return f"{self.num_decodes} decodes at {self.context_tokens}"


Step = LoneStep | BatchStep


@dataclass(frozen=True, slots=True)
class Caps:
    """Limits that are never passed: requests sent, tokens (prompt + output), seconds in all."""

    max_requests: int = 2_000
    max_tokens: int = 3_000_000
    max_seconds: float = 1_800.0


@dataclass(frozen=True, slots=True)
class Plan:
    """The steps of one round, done `grid.repeats` times (warm-up once); and what was left out.

    Repeats of a step are a whole round apart, so that a disturbance of some seconds spoils one repeat
    of many points rather than every repeat of one.
    """

    grid: Grid
    steps: tuple[Step, ...]
    left_out: tuple[str, ...] = field(default=())

    def sequence(self) -> list[Step]:
        """Every step as often as it is done, in order."""
        later = [step for step in self.steps if not step.warmup]
        return [*self.steps, *later * (self.grid.repeats - 1)]

    @property
    def requests(self) -> int:
        """Requests the whole plan sends."""
        return sum(step.requests for step in self.sequence())

    @property
    def tokens(self) -> int:
        """Prompt and output tokens the whole plan asks for."""
        return sum(step.tokens for step in self.sequence())


def split_prefill(prompt_tokens: int, num_decodes: int, token_budget: int) -> list[tuple[int, int]]:
    """(chunk, cached) of each iteration that prefills a prompt beside `num_decodes` decodes.

    Every decode takes one token of the budget first (Sarathi-Serve Algorithm 3, vLLM V1).
    """
    room = token_budget - num_decodes
    return [(min(room, prompt_tokens - done), done) for done in range(0, prompt_tokens, room)]


def make_plan(grid: Grid) -> Plan:
    """The steps of `grid`: warm-up, the front-end estimate, lone prompts, decode batches.

    The first steps are those from which the front-end delay is estimated (a lone decode with a
    one-token prompt arriving, two decodes, a lone one-token prompt), so that a measurement cut
    short has usable prefill rows as early as possible. Raises MeasureError on a senseless grid.
    """
    _check(grid)
    prompts = grid.lone_prompts
    sizes, contexts = sorted({1, 2, *grid.batch_sizes}), sorted(set(grid.contexts))
    longest = (grid.token_budget - 1) * grid.chunks
    first_injected = [1, *(p for p in prompts if p < grid.token_budget), grid.token_budget - 1]
    if grid.chunks > 1:
        first_injected.append(longest)
    steps: list[Step] = [
        LoneStep(prompts[-1], warmup=True),
        _batch(grid, 2, contexts[0], [1], warmup=True),
        _batch(grid, 1, contexts[0], sorted(set(first_injected))),
        _batch(grid, 2, contexts[0], _injected(grid, 2)),
        LoneStep(1),
        *(LoneStep(length) for length in prompts if length > 1),
    ]
    left_out = []
    for context in contexts:
        for size in sizes:
            if context == contexts[0] and size <= 2:
                continue
            step = _batch(grid, size, context, _injected(grid, size))
            if size * (context + step.output_tokens) > grid.kv_tokens:
                left_out.append(f"{step.label}: more than {grid.kv_tokens} tokens of KV (--kv-tokens)")
            else:
                steps.append(step)
    return Plan(grid, tuple(steps), tuple(left_out))


def check_caps(plan: Plan, caps: Caps) -> None:
    """Refuse a plan larger than its caps, before anything is sent."""
    for name, needed, allowed in (
        ("--max-requests", plan.requests, caps.max_requests),
        ("--max-tokens", plan.tokens, caps.max_tokens),
    ):
        if needed > allowed:
            raise MeasureError(
                f"{name} {allowed}: the plan needs {needed}; raise it, or measure less "
                "(--prompts, --batch-sizes, --contexts, --repeats)"
            )


def _injected(grid: Grid, num_decodes: int) -> list[int]:
    """Prompts that arrive while `num_decodes` decode: a short one, one that fills the iteration,
    and one that needs a second iteration over cached tokens."""
    room = grid.token_budget - num_decodes
    injected = {max(1, room // 8), room}
    if grid.chunks > 1:
        injected.add(room + max(1, room // 2))
    return sorted(injected)


def _batch(
    grid: Grid, num_decodes: int, context: int, injected: list[int], *, warmup: bool = False
) -> BatchStep:
    """A batch whose decodes last through admission, the quiet window and every injection."""
    room = grid.token_budget - num_decodes
    admission = math.ceil(num_decodes * context / room) + LATENCY_TOKENS + num_decodes // 4
    per_prompt = LATENCY_TOKENS + SPACING_TOKENS
    during = sum(len(split_prefill(p, num_decodes, grid.token_budget)) + per_prompt for p in injected)
    output_tokens = admission + grid.window_tokens + during
    return BatchStep(num_decodes, context, output_tokens, tuple(injected), warmup)


def _check(grid: Grid) -> None:
    for name, values in (
        ("--prompts", grid.lone_prompts),
        ("--batch-sizes", grid.batch_sizes),
        ("--contexts", grid.contexts),
    ):
        if not values or min(values) < 1:
            raise MeasureError(f"{name} {','.join(map(str, values))}: one or more integers >= 1")
    for name, least in (("repeats", 1), ("chunks", 1), ("window_tokens", 8), ("token_budget", 16)):
        if getattr(grid, name) < least:
            option = name.replace("_", "-")
            raise MeasureError(f"--{option} {getattr(grid, name)}: must be at least {least}")
    if max(grid.lone_prompts) > grid.token_budget:
        raise MeasureError(
            f"--prompts {max(grid.lone_prompts)}: longer than --token-budget {grid.token_budget}, so more "
            "than one iteration prefills it; longer contexts are measured by chunks (--chunks)"
        )
    if 2 * max(grid.batch_sizes) > grid.token_budget:
        raise MeasureError(
            f"--batch-sizes {max(grid.batch_sizes)}: must be at most half of --token-budget "
            f"{grid.token_budget}, so that a prompt arriving finds room"
        )
