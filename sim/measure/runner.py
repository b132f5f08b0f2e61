"""Runner: carry out a plan against a server, one step after the other, and keep the samples.

Owns the order of events within a step; leaves HTTP to client.py, arithmetic to timeline.py and
every file to table.py.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from typing import NamedTuple

from sim.measure.client import Client, Watch, open_client
from sim.measure.errors import CapReached, MeasureError
from sim.measure.measurement import Measurement, Target
from sim.measure.meter import Meter
from sim.measure.plan import SPACING_TOKENS, BatchStep, Caps, LoneStep, Plan, Step, check_caps, split_prefill
from sim.measure.prompts import PromptMaker
from sim.measure.timeline import Refusal, Stream, mixed_samples, quiet_decodes, ttft_sample

MOST_BUSY_SHARE = 0.75
"""Share of a processor above which the client itself is what a batch's tokens wait for."""

Progress = Callable[[Measurement], None]
"""Called after every step with what has been measured so far."""


class _Batch(NamedTuple):
    streams: list[Stream]
    injected: list[Stream]
    busy_share: float
    """How much of one processor the client used while all streams decoded."""


async def measure_server(target: Target, plan: Plan, caps: Caps, progress: Progress) -> Measurement:
    """Carry out `plan` within `caps`.

    A cap met on the way ends it early with a notice, not an error. Raises MeasureError when the plan
    is larger than the caps, or when the server cannot be measured; `progress` has seen all that was
    finished before.
    """
    check_caps(plan, caps)
    meter = Meter(caps)
    done = Measurement(target, plan, caps, meter, datetime.now(UTC).isoformat(timespec="seconds"))
    prompts = PromptMaker(target.prompt_style, target.seed, target.token_ids)
    async with open_client(target.url, meter, timeout_s=target.timeout_s, api_key=target.api_key) as client:
        try:
            async with asyncio.timeout(caps.max_seconds), _awake(target.heartbeat_s):
                await client.choose_model(target.model)
                done.model, done.server = client.model, client.server
                for step in plan.sequence():
                    await _carry_out(client, prompts, step, done)
                    progress(done)
            done.complete = True
        except CapReached as cap:
            done.stopped = f"stopped early: {cap}"
        except TimeoutError:
            done.stopped = f"stopped early: --max-seconds {caps.max_seconds:g} reached"
    return done


@asynccontextmanager
async def _awake(heartbeat_s: float | None) -> AsyncIterator[None]:
    """Wake the event loop at least every `heartbeat_s` inside this context; None: leave it alone."""

    async def beat(period_s: float) -> None:
        while True:
            await asyncio.sleep(period_s)

    heart = asyncio.create_task(beat(heartbeat_s)) if heartbeat_s is not None else None
    try:
        yield
    finally:
        if heart is not None:
            heart.cancel()


async def _carry_out(client: Client, prompts: PromptMaker, step: Step, done: Measurement) -> None:
    """Do `step` once; its samples are kept unless it is a warm-up."""
    if isinstance(step, LoneStep):
        stream = await client.complete(prompts.make(step.prompt_tokens), 1)
        if not step.warmup:
            done.keep(step.label, ttft_sample(step.label, stream, done.plan.grid.token_budget))
        return
    batch = await _run_batch(client, prompts, step, done.plan.grid.window_tokens)
    if not step.warmup:
        _keep_batch(step, batch, done)


async def _run_batch(client: Client, prompts: PromptMaker, step: BatchStep, window_tokens: int) -> _Batch:
    """Start the decodes, let them run undisturbed for the window, then inject prompt after prompt."""
    watches = [Watch() for _ in range(step.num_decodes)]
    injected: list[Stream] = []
    clock = asyncio.get_running_loop().time
    try:
        async with asyncio.TaskGroup() as group:
            made = [prompts.make(step.context_tokens) for _ in watches]
            tasks = [
                group.create_task(client.complete(prompt, step.output_tokens, watch))
                for prompt, watch in zip(made, watches, strict=True)
            ]
            going = all([await watch.reached(1) for watch in watches])
            began_s, worked_s = clock(), time.thread_time()
            quiet_tokens = window_tokens
            for length in step.injected:
                going = going and await watches[0].reached(watches[0].count + quiet_tokens)
                if not going:
                    break
                injected.append(await client.complete(prompts.make(length), 1))
                quiet_tokens = SPACING_TOKENS
    except BaseExceptionGroup as failures:
        raise _first(failures) from None
    busy_share = (time.thread_time() - worked_s) / max(clock() - began_s, 1e-9)
    return _Batch([task.result() for task in tasks], injected, busy_share)


def _keep_batch(step: BatchStep, batch: _Batch, done: Measurement) -> None:
    """Turn the streams of one batch into samples; say what could not be used."""
    streams, injected, busy_share = batch
    if busy_share > MOST_BUSY_SHARE:
        reason = f"reading it kept the client busy {busy_share:.0%} of the time, too much to stamp well"
        done.keep(step.label, Refusal(reason))
        return
    quiet = quiet_decodes(streams, injected)
    if isinstance(quiet, Refusal):
        done.keep(step.label, quiet)
        return
    done.keep(step.label, quiet.sample(step.label))
    budget = done.plan.grid.token_budget
    for wanted, prompt in zip(step.injected, injected, strict=False):
        chunks = split_prefill(prompt.prompt_tokens, step.num_decodes, budget)
        cell = f"{step.label} + prompt of {wanted}"
        done.keep(cell, mixed_samples(cell, streams, prompt, chunks, quiet))
    for wanted in step.injected[len(injected) :]:
        reason = "the decodes ended before it was sent"
        done.keep(f"{step.label} + prompt of {wanted}", Refusal(reason))


def _first(failures: BaseExceptionGroup) -> BaseException:
    """The one failure to report: a cap or a user's error before anything it brought down with it."""
    flat: list[BaseException] = []
    for failure in failures.exceptions:
        flat.append(_first(failure) if isinstance(failure, BaseExceptionGroup) else failure)
    return next((f for f in flat if isinstance(f, (MeasureError, CapReached))), flat[0])
