"""Windows, limits, thinning and length caps: what is left, and that it is said."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from sim.core.errors import TraceError
from sim.core.trace import Trace
from sim.trace import load_trace
from sim.trace.select import capped, limited, thinned

SECOND = 1_000_000_000


@pytest.fixture
def path(tmp_path: Path) -> Path:
    file = tmp_path / "t.csv"
    rows = "".join(f"{100 + second},{10 * (second + 1)},{second + 1}\n" for second in range(10))
    file.write_text("arrival_s,prompt_tokens,output_tokens\n" + rows)
    return file


def test_a_window_counts_from_the_first_arrival_and_leaves_out_its_end(path: Path) -> None:
    trace = load_trace(path, window_s=(2, 5))
    assert trace.prompt_tokens.tolist() == [30, 40, 50]
    assert trace.arrival_ns.tolist() == [0, SECOND, 2 * SECOND]


def test_a_window_comes_before_the_limit_and_the_limit_before_the_rate(path: Path) -> None:
    trace = load_trace(path, window_s=("2.5", "100"), limit=3, rate_scale=2)
    assert trace.prompt_tokens.tolist() == [40, 50, 60]
    assert trace.arrival_ns.tolist() == [0, SECOND // 2, SECOND]


def test_an_empty_window_says_when_the_last_arrival_is(path: Path) -> None:
    with pytest.raises(TraceError, match=r"no arrival in window_s \[50, 60\]; the last is at 9.000 s"):
        load_trace(path, window_s=(50, 60))


def test_a_limit_reads_no_further_than_it_must(tmp_path: Path) -> None:
    file = tmp_path / "t.jsonl"
    good = '{"timestamp": 0, "input_length": 5, "output_length": 1}\n'
    file.write_text(good * 30_000 + "broken\n")
    assert len(load_trace(file, limit=10)) == 10
    with pytest.raises(TraceError, match="line 30001"):
        load_trace(file)


def test_thinning_keeps_about_its_fraction_and_says_how_many() -> None:
    ones = np.ones(10_000, np.int64)
    trace = Trace("t", np.arange(10_000), ones, ones)
    kept = thinned(trace, 0.3, seed=1)
    assert len(kept) == pytest.approx(3000, rel=0.05)
    assert kept.arrival_ns[0] == 0
    assert kept.notices == (f"thinned to {len(kept)} of 10000 requests",)
    assert thinned(trace, 0.3, seed=1).hash == kept.hash


def test_thinning_keeps_or_drops_a_session_whole() -> None:
    ones, session = np.ones(900, np.int64), np.arange(900) // 3
    trace = Trace("t", np.arange(900), ones, ones, session=session, think_ns=ones)
    kept = thinned(trace, 0.5, seed=2)
    assert kept.session is not None
    assert set(np.bincount(kept.session).tolist()) == {3}


def trace_of(*lengths: tuple[int, int]) -> Trace:
    prompt, output = (np.array(column, dtype=np.int64) for column in zip(*lengths, strict=True))
    arrival = np.arange(len(lengths), dtype=np.int64) * SECOND
    hashes = [tuple(range(-(-length // 16))) for length in prompt.tolist()]
    return Trace("t", arrival, prompt, output, prefix_hashes=hashes, hash_block_tokens=16)


def test_a_cap_is_an_error_by_default_that_names_the_first_request() -> None:
    with pytest.raises(TraceError, match=r"request 1 has 90 prompt_tokens, over max_prompt_tokens 50"):
        capped(trace_of((10, 1), (90, 1)), max_prompt_tokens=50)


def test_clipping_shortens_says_so_and_cuts_the_hashes_to_whole_blocks() -> None:
    clipped = capped(trace_of((10, 1), (90, 70)), "clip", max_prompt_tokens=50, max_output_tokens=60)
    assert clipped.prompt_tokens.tolist() == [10, 50]
    assert clipped.output_tokens.tolist() == [1, 60]
    assert clipped.prefix_hashes == [(0,), (0, 1, 2)]
    assert clipped.notices == (
        "1 requests clipped to max_prompt_tokens 50",
        "1 requests clipped to max_output_tokens 60",
    )


def test_clipping_the_total_shortens_the_prompt_first() -> None:
    clipped = capped(trace_of((80, 40), (10, 200)), "clip", max_total_tokens=100)
    assert clipped.prompt_tokens.tolist() == [60, 1]
    assert clipped.output_tokens.tolist() == [40, 99]


def test_dropping_counts_and_moves_the_origin() -> None:
    left = capped(trace_of((90, 1), (10, 1), (20, 1)), "drop", max_total_tokens=50)
    assert left.prompt_tokens.tolist() == [10, 20]
    assert left.arrival_ns.tolist() == [0, SECOND]
    assert left.dropped == {"over max_total_tokens 50": 1}
    with pytest.raises(TraceError, match="every request is over"):
        capped(left, "drop", max_total_tokens=5)


def test_a_limit_beyond_the_end_changes_nothing() -> None:
    trace = trace_of((10, 1), (20, 1))
    assert limited(trace, 5) is trace


def test_slo_classes_and_clients_reach_the_requests(tmp_path: Path) -> None:
    file = tmp_path / "t.csv"
    file.write_text(
        "arrival_s,prompt_tokens,output_tokens,request_id,client,slo_class,priority\n"
        "1,10,1,second,bob,fast,3\n0,20,1,first,,,\n"
    )
    first, second = load_trace(file).requests()
    assert (first.id, first.client, first.slo_class, first.priority) == ("first", None, None, 0)
    assert (second.id, second.client, second.slo_class, second.priority) == ("second", "bob", "fast", 3)
