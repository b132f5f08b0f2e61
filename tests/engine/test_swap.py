"""Preemption by swap: KV goes to host memory and comes back; nothing is recomputed."""

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from sim.core.record import FINISHED
from tests.worlds import LinearCost, World, serve, worlds

COST = LinearCost(base=10, per_decode=1, per_prefill_token=2)


def test_swap_by_hand() -> None:
    """4 blocks of 2, 3 ns a block moved; A (0, 3, 5) and B (0, 3, 5), as in the recompute timeline.

    0-22: both prompts. 22-34: decodes. For entry 5 A needs a block: B (4 entries, 2 blocks) goes to
    the host. 34-51: 2 blocks out (6), A decodes (11). 51-62, 62-73: A, done, all blocks free. 73-90:
    B's 2 blocks in (6), and B decodes (11). 90-101, 101-112.
    """
    record = serve(
        [(0, 3, 5), (0, 3, 5)], "continuous", COST, num_blocks=4, block_size=2, swap_ns_per_block=3
    )
    assert record.token_times == {0: [22, 34, 51, 62, 73], 1: [22, 34, 90, 101, 112]}
    assert record.num_preemptions.tolist() == [0, 1]
    assert record.counters["swapped_blocks"] == 4
    assert record.iterations[:, 4].sum() == 6


@settings(max_examples=300, deadline=None)
@given(worlds(("continuous", "prefill_first", "stall_free")), st.sampled_from([0, 7]))
def test_fast_equals_reference_with_swap(world: World, swap_ns: int) -> None:
    fast, reference = (world.serve(mode, swap_ns_per_block=swap_ns) for mode in ("fast", "reference"))
    assert fast.token_times == reference.token_times
    assert fast.kv_peak_blocks == reference.kv_peak_blocks
    assert fast.counters["swapped_blocks"] == reference.counters["swapped_blocks"]


@settings(max_examples=150, deadline=None)
@given(worlds(("continuous", "prefill_first")))
def test_whole_prompts_are_prefilled_once_however_often_they_are_swapped(world: World) -> None:
    record = world.serve(swap_ns_per_block=5)
    served = record.status == FINISHED
    prefilled = record.iterations[:, 4].sum() + record.prefix_hit_tokens
    assert prefilled == world.trace.prompt_tokens[served].sum()
    for row in np.flatnonzero(served):
        assert len((record.token_times or {})[row]) == world.trace.output_tokens[row]
