"""Three requests through each policy, computed by hand to the nanosecond.

Cost: an iteration takes 10 ns, 1 ns more a decode, and 2 ns more a prefill token.
Requests (arrival, prompt, output): A (0, 4, 3), B (5, 6, 2), C (20, 2, 4).
"""

from tests.worlds import LinearCost, serve

COST = LinearCost(base=10, per_decode=1, per_prefill_token=2)
ROWS = [(0, 4, 3), (5, 6, 2), (20, 2, 4)]
A, B, C = 0, 1, 2


def test_static() -> None:
    """Batches of at most 2, each started with what waits.

    0-18: A alone (4 tokens, 10+8). 18-29, 29-40: its decodes (10+1); A done at 40. Nothing joins.
    40-74: B and C, padded to 6: 10 + 2*12. 74-86: two decodes (10+2), B done. 86-98, 98-110: C's
    last two; the idle slot still costs.
    """
    record = serve(ROWS, "static", COST, {"max_batch_size": 2})
    assert record.token_times == {A: [18, 29, 40], B: [74, 86], C: [74, 86, 98, 110]}
    assert record.padded_prefill_tokens == 4
    assert record.idle_slot_iterations == 2


def test_continuous() -> None:
    """Every iteration: all decodes and the whole prompts of what has arrived.

    0-18: A's prompt. 18-41: A's decode and B's prompt (10+1+12). 41-57: A, B decode and C's prompt
    (10+2+4): A, B done. 57-68, 68-79, 79-90: C.
    """
    record = serve(ROWS, "continuous", COST)
    assert record.token_times == {A: [18, 41, 57], B: [41, 57], C: [57, 68, 79, 90]}


def test_prefill_first() -> None:
    """Prompts run alone and first.

    0-18: A's prompt. 18-40: B's (10+12). 40-54: C's (10+4); A has waited 36 ns for its second
    token. 54-67: A, B, C decode (10+3), B done. 67-79: A, C (10+2), A done. 79-90: C.
    """
    record = serve(ROWS, "prefill_first", COST)
    assert record.token_times == {A: [18, 67, 79], B: [40, 67], C: [54, 67, 79, 90]}
    assert record.max_tbt_ns.tolist() == [49, 27, 13]


def test_stall_free() -> None:
    """At most 4 tokens an iteration, decodes first.

    0-18: A's prompt (4). 18-35: A, 3 of B (10+1+6). 35-52: A, the other 3 of B; A is done at 52 with
    its third token, B has its first. 52-67: B, C's prompt (10+1+4); B done. 67-78, 78-89, 89-100: C.
    """
    record = serve(ROWS, "stall_free", COST, {"token_budget": 4})
    assert record.token_times == {A: [18, 35, 52], B: [52, 67], C: [67, 78, 89, 100]}
    assert record.max_tbt_ns.tolist() == [17, 15, 11]


def test_preemption_by_recompute_in_continuous() -> None:
    """4 blocks of 2; A (0, 3, 5) and B (0, 3, 5).

    0-22: both prompts, 2 blocks each; the next entry (the 4th) fits. 22-34: decodes; both now hold 4
    entries. For the 5th A needs a block and none is free: B, admitted last, gives way. A alone:
    34-45, 45-56 (entry 6), 56-67 (entry 7, its 4th block): A is done. B comes back with 3 + 2 tokens to
    prefill: 67-87, its third token; then 87-98 and 98-109.
    """
    record = serve([(0, 3, 5), (0, 3, 5)], "continuous", COST, num_blocks=4, block_size=2)
    assert record.token_times == {A: [22, 34, 45, 56, 67], B: [22, 34, 87, 98, 109]}
    assert record.num_preemptions.tolist() == [0, 1]
    assert record.kv_peak_blocks == 4
    assert record.max_tbt_ns.tolist() == [12, 53]
