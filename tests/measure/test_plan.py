"""The traffic is known before it starts, and never passes its caps."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sim.measure.errors import CapReached, MeasureError
from sim.measure.meter import Meter
from sim.measure.plan import BatchStep, Caps, Grid, LoneStep, check_caps, make_plan, split_prefill
from sim.measure.table import rows_of
from tests.measure.measuring import SMALL, measure

TINY = Grid(prompts=(16, 64), batch_sizes=(1, 2), contexts=(16,), token_budget=64, chunks=1, repeats=1)


@given(st.integers(1, 5_000), st.integers(0, 40), st.integers(64, 512))
def test_chunks_cover_the_prompt_and_keep_the_budget(prompt_tokens, num_decodes, token_budget):
    chunks = split_prefill(prompt_tokens, num_decodes, token_budget)
    assert sum(new for new, _ in chunks) == prompt_tokens
    assert [cached for _, cached in chunks] == [sum(new for new, _ in chunks[:i]) for i in range(len(chunks))]
    assert all(0 < new <= token_budget - num_decodes for new, _ in chunks)
    assert all(new == token_budget - num_decodes for new, _ in chunks[:-1])


def test_a_plan_by_hand():
    plan = make_plan(TINY)
    lone, batch = plan.steps[0], plan.steps[2]
    assert isinstance(lone, LoneStep) and lone.warmup and lone.prompt_tokens == 64
    assert isinstance(batch, BatchStep) and batch.num_decodes == 1
    assert batch.injected == (1, 16, 63)
    # 1 + 12 + 0 for admission, 32 for the window, three prompts of one chunk and 16 tokens around each
    assert batch.output_tokens == 13 + 32 + 3 * 17
    assert batch.tokens == 16 + 96 + (1 + 16 + 63) + 3
    assert [step.prompt_tokens for step in plan.steps if isinstance(step, LoneStep)] == [64, 1, 16, 64]


def test_the_plan_is_what_is_sent():
    server, done = measure(TINY)
    assert server.requests == done.meter.requests == done.plan.requests
    assert done.meter.tokens == done.plan.tokens
    batches = [step for step in done.plan.steps if isinstance(step, BatchStep)]
    assert server.most_output_tokens == max(step.output_tokens for step in batches)


@settings(max_examples=30)
@given(st.integers(1, 4), st.sets(st.sampled_from((1, 2, 4, 8, 16)), min_size=1), st.integers(2_000, 50_000))
def test_no_batch_holds_more_than_the_kv_limit_and_all_others_are_named(repeats, sizes, kv_tokens):
    grid = Grid(batch_sizes=tuple(sizes), repeats=repeats, kv_tokens=kv_tokens, token_budget=512)
    plan = make_plan(grid)
    kept = [s for s in plan.steps if isinstance(s, BatchStep) and s.context_tokens > 128]
    assert all(s.num_decodes * (s.context_tokens + s.output_tokens) <= kv_tokens for s in kept)
    cells = len({1, 2, *sizes}) * len(grid.contexts)
    batches = [s for s in plan.steps if isinstance(s, BatchStep) and not s.warmup]
    assert len(batches) + len(plan.left_out) == cells


def test_a_plan_above_its_caps_is_refused_before_anything_is_sent():
    plan = make_plan(SMALL)
    check_caps(plan, Caps(plan.requests, plan.tokens))
    requests, tokens = plan.requests, plan.tokens
    with pytest.raises(MeasureError, match=rf"--max-requests {requests - 1}: the plan needs {requests}"):
        check_caps(plan, Caps(requests - 1, tokens))
    with pytest.raises(MeasureError, match=rf"--max-tokens {tokens - 1}: the plan needs {tokens}"):
        check_caps(plan, Caps(requests, tokens - 1))


def test_the_meter_stops_before_the_request_that_would_pass_a_cap():
    meter = Meter(Caps(max_requests=3, max_tokens=100))
    meter.charge(50)
    with pytest.raises(CapReached, match="--max-tokens 100"):
        meter.charge(51)
    assert (meter.requests, meter.tokens) == (1, 50)
    meter.charge(20)
    meter.charge(20)
    with pytest.raises(CapReached, match="--max-requests 3"):
        meter.charge(1)


def test_the_time_cap_ends_the_measurement_and_keeps_its_rows():
    server, done = measure(caps=Caps(max_seconds=3.0))
    assert not done.complete
    assert done.stopped == "stopped early: --max-seconds 3 reached"
    assert 0 < server.requests < done.plan.requests
    assert rows_of(done)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"prompts": (4_096,)}, "--prompts 4096: longer than --token-budget 512"),
        ({"prompts": (0,)}, "--prompts 0: one or more integers >= 1"),
        ({"batch_sizes": ()}, "--batch-sizes : one or more integers >= 1"),
        ({"batch_sizes": (300,)}, "--batch-sizes 300: must be at most half of --token-budget 512"),
        ({"repeats": 0}, "--repeats 0: must be at least 1"),
        ({"window_tokens": 2}, "--window-tokens 2: must be at least 8"),
    ],
)
def test_a_senseless_grid_is_refused_by_name(change, message):
    with pytest.raises(MeasureError) as refused:
        make_plan(replace(SMALL, **change))
    assert message in str(refused.value)
