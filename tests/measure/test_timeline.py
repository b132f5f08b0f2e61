"""Timestamps to iteration times, by hand. Times in seconds."""

from __future__ import annotations

import pytest

from sim.measure.timeline import (
    Quiet,
    Refusal,
    Sample,
    Stream,
    front_end_s,
    mixed_samples,
    quiet_decodes,
    ttft_sample,
)

QUIET = Quiet(1, 105.0, 0.01, 0.01)
"""Undisturbed iterations of 10 ms."""


def steady(prompt_tokens: int, first_s: float, gap_s: float, tokens: int) -> Stream:
    return Stream(prompt_tokens, 0.0, [first_s + gap_s * i for i in range(tokens)])


def with_prefill(gap_s: float, *prefill_s: float, before: int = 10, after: int = 10) -> list[float]:
    """Token times: steady, then the iterations of a prefill, then steady again."""
    times = [0.0]
    for duration in [gap_s] * before + list(prefill_s) + [gap_s] * after:
        times.append(times[-1] + duration)
    return times


def test_a_decode_time_is_the_gap_and_the_context_that_of_the_middle():
    quiet = quiet_decodes([steady(100, 1.0, 0.01, 11)], [])
    # tokens 1 to 10 after the first come from contexts 101 to 110
    assert quiet == (1, pytest.approx(105.5), pytest.approx(0.01), pytest.approx(0.01))
    assert quiet.sample("c")[:5] == ("c", "decode", 0, 0, 1)


def test_only_the_time_when_all_decode_counts():
    early = Stream(100, 0.0, [0.02 * i for i in range(10)] + [0.18 + 0.01 * i for i in range(1, 11)])
    late = steady(50, 0.18, 0.01, 11)
    quiet = quiet_decodes([early, late], [])
    assert quiet.time_s == pytest.approx(0.01)
    assert quiet.context_tokens == pytest.approx((100 + 14.5) + (50 + 5.5))


def test_a_stall_does_not_move_a_decode_time():
    times = steady(100, 0.0, 0.01, 33).token_s
    stalled = [t + (0.5 if i > 12 else 0.0) for i, t in enumerate(times)]
    assert quiet_decodes([Stream(100, 0.0, stalled)], []).time_s == pytest.approx(0.01)


def test_gaps_that_alternate_about_their_mean_give_the_mean():
    times = [0.0]
    for i in range(32):
        times.append(times[-1] + (0.008 if i % 2 else 0.012))
    assert quiet_decodes([Stream(100, 0.0, times)], []).time_s == pytest.approx(0.010)


def test_requests_that_never_decode_together_are_refused():
    refused = quiet_decodes([steady(10, 0.0, 0.01, 5), steady(10, 9.0, 0.01, 5)], [])
    assert isinstance(refused, Refusal) and "never all decoded" in refused.reason
    refused = quiet_decodes([steady(10, 0.0, 0.01, 5), Stream(10, 0.0, [9.0])], [])
    assert isinstance(refused, Refusal) and "never all decoded" in refused.reason


def test_a_prompt_beside_a_decode_takes_the_iteration_that_ends_at_its_first_token():
    decode = Stream(100, 0.0, with_prefill(0.01, 0.05))
    prompt = Stream(64, 0.095, [0.15])
    [sample] = mixed_samples("c", [decode], prompt, [(64, 0)], QUIET)
    # ten decodes before it: the eleventh token after the first, context 100 + 11
    assert sample[1:6] == ("mixed", 64, 0, 1, 111)
    assert sample.time_s == pytest.approx(0.05)


def test_each_chunk_gets_its_own_iteration():
    decode = Stream(100, 0.0, with_prefill(0.01, 0.05, 0.06, 0.04))
    prompt = Stream(150, 0.095, [0.25])
    samples = mixed_samples("c", [decode], prompt, [(63, 0), (63, 63), (24, 126)], QUIET)
    assert [s.time_s for s in samples] == pytest.approx([0.05, 0.06, 0.04])
    assert [s[2:6] for s in samples] == [(63, 0, 1, 111), (63, 63, 1, 112), (24, 126, 1, 113)]


def test_a_token_stamped_late_after_a_long_iteration_does_not_lengthen_it():
    times = with_prefill(0.01, 0.05)
    times[11] += 0.002
    [sample] = mixed_samples("c", [Stream(100, 0.0, times)], Stream(64, 0.095, [0.152]), [(64, 0)], QUIET)
    assert sample.time_s == pytest.approx(0.05)


def test_a_prompt_split_otherwise_than_assumed_is_noticed():
    decode = Stream(100, 0.0, with_prefill(0.01, 0.05, 0.05))
    refused = mixed_samples("c", [decode], Stream(64, 0.095, [0.20]), [(64, 0)], QUIET)
    assert isinstance(refused, Refusal) and refused.wrong_budget
    assert "slowed 2 iterations where 1 should hold it" in refused.reason
    stalling = QUIET._replace(longest_s=0.04)
    refused = mixed_samples("c", [decode], Stream(64, 0.095, [0.20]), [(64, 0)], stalling)
    assert isinstance(refused, Refusal) and not refused.wrong_budget


def test_a_prompt_prefilled_between_the_decodes_iterations_is_noticed():
    decode = Stream(100, 0.0, with_prefill(0.01, 0.06))  # 0.05 of prefill alone, then a decode
    refused = mixed_samples("c", [decode], Stream(64, 0.095, [0.15]), [(64, 0)], QUIET)
    assert isinstance(refused, Refusal) and "apart from the decodes" in refused.reason


def test_a_prompt_that_outlasts_the_decodes_is_refused():
    decode = Stream(100, 0.0, with_prefill(0.01, 0.05, after=0))
    refused = mixed_samples("c", [decode], Stream(64, 0.095, [0.15]), [(64, 0)], QUIET)
    assert isinstance(refused, Refusal) and "ended before" in refused.reason


def test_a_lone_prompt_gives_its_time_to_first_token_if_one_iteration_holds_it():
    stream = Stream(64, 10.0, [10.25])
    assert ttft_sample("c", stream, 64) == Sample("c", "ttft", 64, 0, 0, 0.0, 0.25)
    assert isinstance(ttft_sample("c", stream, 63), Refusal)


def test_a_small_rest_of_a_prompt_need_not_slow_its_iteration_by_much():
    decode = Stream(100, 0.0, with_prefill(0.01, 0.05, 0.0101))
    samples = mixed_samples("c", [decode], Stream(65, 0.095, [0.1601]), [(63, 0), (2, 63)], QUIET)
    assert [s.time_s for s in samples] == pytest.approx([0.05, 0.0101])


def test_the_front_end_delay_is_what_no_iteration_accounts_for():
    samples = [
        Sample("one", "ttft", 1, 0, 0, 0.0, 0.0125),
        Sample("d1", "decode", 0, 0, 1, 100.0, 0.006),
        Sample("d2", "decode", 0, 0, 2, 200.0, 0.0065),
        Sample("m", "mixed", 1, 0, 1, 100.0, 0.009),
    ]
    # the one-token prompt's own iteration: 9.0 ms beside a decode, less 0.5 ms for that decode
    assert front_end_s(samples) == pytest.approx(0.0125 - 0.0085)
    # never mixed: a lone decode stands for it
    assert front_end_s(samples[:3]) == pytest.approx(0.0125 - 0.006)
    assert front_end_s(samples[:2]) is None
