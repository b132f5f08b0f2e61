"""Cases S30 to S33 of docs/cases.md, from public reports: cache size, slots, and prefix hits."""

from __future__ import annotations

import pytest

from sim.cost import auto_num_blocks, load_gpu, load_model
from tests.cases.timeline import column, run, tokens
from tests.worlds import make_trace


def test_s30_num_blocks_auto_follows_block_size_and_utilisation() -> None:
    model, gpu = load_model("llama-3.1-8b"), load_gpu("h100-80gb")
    small, large = (auto_num_blocks(model, gpu, 1, 0.9, block_size) for block_size in (16, 64))
    assert small == pytest.approx(4 * large, abs=4)  # the same memory in blocks four times as large
    assert auto_num_blocks(model, gpu, 1, 0.95, 16) > small


def test_s31_a_preempted_request_holds_no_slot_while_it_waits() -> None:
    # Two slots. The second is evicted at t=2 and returns at t=5, when the first ends; the third joins it.
    record = run(
        [(0, 2, 5), (0, 2, 4), (3, 1, 1)], "continuous", {"max_batch_size": 2}, num_blocks=6, block_size=1
    )
    assert tokens(record) == [[1, 2, 3, 4, 5], [1, 2, 6, 7], [6]]


def test_s32_of_a_prompt_that_is_all_cached_the_last_block_is_computed_again() -> None:
    trace = make_trace([(0, 32, 1), (5, 32, 1)], prefix_hashes=[(1, 2), (1, 2)], hash_block_tokens=16)
    record = run(trace, "vllm_v1", prefix_caching=True)
    assert column(record, "prefill_tokens") == [32, 16]
    assert tokens(record) == [[1], [6]]


def test_s33_a_prefix_hit_shortens_the_chunk_by_the_cached_tokens() -> None:
    trace = make_trace([(0, 465, 1), (5, 465, 1)], prefix_hashes=[(1, 2), (1, 3)], hash_block_tokens=256)
    record = run(trace, "vllm_v1", prefix_caching=True, block_size=256)
    assert column(record, "prefill_tokens") == [465, 209]
