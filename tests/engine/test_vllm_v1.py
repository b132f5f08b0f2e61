"""vllm_v1: by hand; and, with prefix caching and async scheduling, against a plain model of vLLM.

Cost by hand: an iteration takes 10 ns, 1 ns more a decode, and 2 ns more a prefill token.
"""

import dataclasses

from hypothesis import given, settings
from hypothesis import strategies as st

from sim.core.record import FINISHED
from tests.engine.plain_vllm import PlainVllm, Sequence
from tests.worlds import LinearCost, World, serve, worlds

COST = LinearCost(base=10, per_decode=1, per_prefill_token=2)
A, B, C = 0, 1, 2


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


def test_running_requests_come_before_waiting_ones_under_one_budget() -> None:
    """Budget 4; A (0, 4, 3), B (5, 6, 2), C (20, 2, 4).

    0-18: A's prompt. 18-35: A, 3 of B (10+1+6). 35-52: A, the other 3 of B; A is done. 52-67: B, C's
    prompt (10+1+4); B is done. 67-78, 78-89, 89-100: C.
    """
    record = serve([(0, 4, 3), (5, 6, 2), (20, 2, 4)], "vllm_v1", COST, {"token_budget": 4})
    assert record.token_times == {A: [18, 35, 52], B: [52, 67], C: [67, 78, 89, 100]}


def test_one_decode_leaves_the_rest_of_the_budget_to_a_prompt() -> None:
    record = serve([(0, 1, 9), (1, 500, 1)], "vllm_v1", COST, {"token_budget": 128})
    assert record.iterations[1:5, 4].tolist() == [127, 127, 127, 119]


def test_blocks_are_taken_for_the_tokens_of_each_chunk() -> None:
    """Blocks of 16, budget 10: 16 tokens are chunks of 10 and 6 in one block; entry 17 needs the second."""
    record = serve([(0, 16, 3)], "vllm_v1", COST, {"token_budget": 10}, mode="reference")
    assert record.iterations[:, 4].tolist() == [10, 6, 0, 0]
    assert record.iterations[:, 6].tolist() == [1, 1, 2, 2]
    longer = serve([(0, 260, 1)], "vllm_v1", COST, {"token_budget": 128})
    assert longer.iterations[:, 4].tolist() == [128, 128, 4]
    assert longer.iterations[:, 6].tolist() == [8, 16, 17]


def test_a_chunk_that_finds_no_block_gives_way_to_those_before_it() -> None:
    """6 blocks of 2, budget 4; A (0, 3, 6) and B (0, 8, 1).

    0-18: A's 3 tokens in 2 blocks and, since B's 4 blocks would fit, 1 token of B. 18-35: A's entry 4,
    3 of B; B holds 2 blocks. At 35 A takes a third block and B's next 3 tokens need two more: one is
    free, so B, admitted last, gives way to nobody but itself. 35-46, 46-57, 57-68, 68-79: A, which
    takes its fourth block at 57; B's whole prompt does not fit before A is done. 79-97, 97-115: B.
    """
    record = serve([(0, 3, 6), (0, 8, 1)], "vllm_v1", COST, {"token_budget": 4}, num_blocks=6, block_size=2)
    assert record.token_times == {A: [18, 35, 46, 57, 68, 79], B: [115]}
    assert record.num_preemptions.tolist() == [0, 1]
    assert record.iterations[:, 4].sum() == 3 + 4 + 8


def test_a_long_prefill_threshold_lets_prompts_share_an_iteration() -> None:
    """Budget 8, at most 3 tokens of one prompt: 3+3+2, then 3+3+2, then 2+2+4."""
    params = {"token_budget": 8, "long_prefill_token_threshold": 3}
    record = serve([(0, 8, 1)] * 3, "vllm_v1", COST, params)
    assert record.iterations[:, [3, 4]].tolist() == [[3, 8], [3, 8], [3, 7], [1, 1]]
