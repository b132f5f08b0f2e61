"""vllm_v1, prefix caching and async scheduling against a plain model of vLLM's own structure."""

import dataclasses

from hypothesis import given, settings
from hypothesis import strategies as st

from sim.core.record import FINISHED
from tests.engine.plain_vllm import PlainVllm, Sequence
from tests.worlds import World, worlds


def shared_keys(world: World, row: int) -> list[tuple[object, ...]]:
    """Keys of the leading blocks whose content the trace's hashes tell, by the definition."""
    trace, size = world.trace, world.block_size
    prompt, output = int(trace.prompt_tokens[row]), int(trace.output_tokens[row])
    if not world.prefix_caching or trace.prefix_hashes is None or trace.hash_block_tokens is None:
        return []
    hashes, each = trace.prefix_hashes[row], trace.hash_block_tokens
    known = prompt if len(hashes) <= -(-prompt // each) else prompt + output
    whole = min(len(hashes), known // each)
    return [
        ("hash", place, hashes[((place + 1) * size - 1) // each]) for place in range(whole * each // size)
    ]


def plain_run(world: World) -> PlainVllm:
    served = world.serve().status == FINISHED
    sequences = [
        Sequence(r.row, r.arrival_ns, r.prompt_tokens, r.output_tokens, shared_keys(world, r.row))
        for r in world.trace.requests()
        if served[r.row]
    ]
    plain = PlainVllm(
        sequences,
        world.cost.iteration_ns,
        budget=world.params["token_budget"],
        max_seqs=world.params["max_batch_size"],
        threshold=world.params["long_prefill_token_threshold"],
        num_blocks=world.num_blocks,
        block_size=world.block_size,
        caching=world.prefix_caching,
        asynchronous=world.async_scheduling,
    )
    plain.run()
    return plain


@settings(max_examples=400, deadline=None)
@given(worlds(("vllm_v1",)), st.sampled_from(["fast", "reference"]))
def test_the_package_serves_as_the_plain_model_of_vllm(world: World, mode: str) -> None:
    """vLLM demands a budget of at least a token a request; without that, with async scheduling and
    prefix caching, a preempted decode that sat out the iteration before keeps one entry less here."""
    world = dataclasses.replace(world, memory="paged", watermark=0.0)
    if world.async_scheduling:
        world.params["token_budget"] = max(world.params["token_budget"], world.params["max_batch_size"])
    record, plain = world.serve(mode), plain_run(world)
    assert record.token_times == {s.row: s.times for s in plain.sequences}
    assert record.num_iterations == plain.iterations
    if world.prefix_caching:
        assert (record.prefix_query_tokens, record.prefix_hit_tokens) == (plain.queries, plain.hits)
