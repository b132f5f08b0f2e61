"""Whatever a server does wrong becomes one sentence that says what to change."""

from __future__ import annotations

from dataclasses import replace

import pytest

from sim.measure.errors import MeasureError
from sim.measure.measurement import Target
from sim.measure.plan import Caps, Grid, make_plan
from sim.measure.runner import measure_server
from tests.measure.measuring import SMALL, measure
from tests.measure.server import Faults, Server
from tests.measure.virtual_loop import run_virtual

TINY = Grid(prompts=(16, 64), batch_sizes=(1, 2), contexts=(16,), token_budget=64, chunks=1, repeats=1)


def failure(target=None, **how) -> str:
    with pytest.raises(MeasureError) as failed:
        measure(TINY, token_budget=how.pop("token_budget", 64), target=target or {}, **how)
    return str(failed.value)


@pytest.mark.parametrize(
    ("faults", "message"),
    [
        (Faults(status=500), "/v1/completions: HTTP 500: out of order"),
        (Faults(status=429), "HTTP 429: out of order"),
        (Faults(status=401), "--api-key-env"),
        (Faults(eos_after=5), "stopped after 5 of 62 tokens (finish_reason 'stop'): it does not honour"),
        (Faults(eos_after=5, usage=False), "stopped after 5 of 62 tokens"),
        (Faults(no_stream=True), "does not stream (content-type application/json)"),
        (Faults(silent=True), "no answer in time; a slow server needs a larger --timeout"),
        (Faults(breaks_after=1), "the connection broke while streaming"),
        (Faults(refuses_token_ids=True), "--prompt-style text"),
        (Faults(merges=True), "sent 31 events for 62 tokens; one a token is needed"),
    ],
)
def test_a_fault_is_named(faults, message):
    assert message in failure(faults=faults)


def test_an_unknown_model_is_answered_with_the_nearest():
    text = failure({"model": "toy-modle"})
    assert "--model 'toy-modle'" in text and "did you mean 'toy-model'?" in text


def test_several_models_and_no_choice():
    text = failure(models=("small", "large"))
    assert text.endswith("serves 2 models; choose one by --model: small, large")


def test_a_chosen_model_of_several_is_measured():
    _, done = measure(TINY, token_budget=64, models=("small", "large"), target={"model": "large"})
    assert done.complete and (done.model, done.server) == ("large", "toy")


def test_a_url_without_v1():
    async def main():
        async with Server() as server:
            target = Target(server.url.removesuffix("/v1"), heartbeat_s=None)
            await measure_server(target, make_plan(TINY), Caps(), lambda _: None)

    with pytest.raises(MeasureError, match="HTTP 404: Not Found; is the URL the one that ends in /v1"):
        run_virtual(main())


@pytest.mark.parametrize(
    ("url", "message"),
    [
        ("http://127.0.0.1:1/v1", "cannot connect"),
        ("127.0.0.1:8000/v1", "must start with http:// or https://"),
    ],
)
def test_no_server_there(url, message):
    with pytest.raises(MeasureError, match=message):
        run_virtual(measure_server(Target(url, heartbeat_s=None), make_plan(TINY), Caps(), lambda _: None))


def test_a_wrong_token_budget_is_found_out():
    with pytest.raises(MeasureError) as failed:
        measure(replace(SMALL, repeats=3), token_budget=200)
    text = str(failed.value)
    assert text.startswith("--token-budget 512: 1 decodes at 64 + prompt of 511: it slowed 3 iterations")
    assert "vLLM: --max-num-batched-tokens" in text


def test_text_prompts_take_their_length_from_the_server():
    faults = Faults(refuses_token_ids=True)
    server, done = measure(TINY, token_budget=64, target={"prompt_style": "text"}, faults=faults)
    assert done.complete and done.meter.requests == server.requests


def test_text_prompts_need_the_servers_count():
    assert "reports no usage" in failure({"prompt_style": "text"}, faults=Faults(usage=False))


def test_a_closing_event_without_a_token_is_not_counted():
    _, plain = measure(TINY, token_budget=64)
    _, closing = measure(TINY, token_budget=64, faults=Faults(closing_event=True))
    assert [s.time_s for s in closing.samples] == pytest.approx([s.time_s for s in plain.samples])


def test_too_small_a_batch_limit_leaves_the_batch_out():
    """A server that runs fewer requests at once than asked for never shows the whole batch."""
    _, done = measure(TINY, token_budget=64, most_at_once=1)
    expected = "2 decodes at 16: no row: its 2 requests never all decoded"
    assert any(notice.startswith(expected) for notice in done.notices)


def test_a_client_too_busy_to_stamp_leaves_the_batch_out(monkeypatch):
    monkeypatch.setattr("sim.measure.runner.MOST_BUSY_SHARE", 0.0)
    _, done = measure(TINY, token_budget=64)
    assert not any(sample.num_decodes for sample in done.samples)
    assert any("1 decodes at 16: no row: reading it kept the client busy" in text for text in done.notices)
