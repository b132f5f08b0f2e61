"""`trace info`: figures worked out by hand, and offered load against a cost model of round numbers."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from sim.core.batch import Batch
from sim.core.trace import Trace
from sim.trace import generate
from sim.trace.describe import describe
from sim.trace.offered import offered_load
from sim.trace.reuse import prefix_reuse
from sim.trace.stats import dispersion, gap_cv, ks_distance, ks_p_value, ranks, spearman, window_counts

SECOND = 1_000_000_000


def trace_of(arrivals_s: list[float], prompt: list[int], output: list[int], **columns: Any) -> Trace:
    arrival = np.array([round(second * SECOND) for second in arrivals_s], dtype=np.int64)
    return Trace("t", arrival, np.array(prompt), np.array(output), **columns)


class RoundCost:
    """1 ms an iteration, 10 us a prefill token, 0.1 ms a decode."""

    def iteration_ns(self, batch: Batch) -> int:
        return 1_000_000 + 10_000 * batch.prefill_tokens + 100_000 * batch.num_decodes

    def decode_run_ns(self, batch: Batch, iterations: int) -> NDArray[np.int64]:
        return np.full(iterations, self.iteration_ns(batch), dtype=np.int64)


def test_offered_load_by_hand() -> None:
    # 101 requests over 100 s: 1 a second; 1000 prompt tokens, 11 output tokens, so 10 decodes
    trace = trace_of([float(n) for n in range(101)], [1000] * 101, [11] * 101)
    load = offered_load(trace, RoundCost(), max_batch_size=10)
    assert load is not None
    # alone: prefill 1 + 10 ms, 10 decodes of 1.1 ms
    assert load.alone == pytest.approx(0.011 + 0.011)
    # two prompts fit 2048 tokens: 21 ms for two (the last pack holds one); a decode's share of ten: 0.2 ms
    prefill = (50 * 0.021 + 0.011) / 101
    assert load.batched == pytest.approx(prefill + 10 * 0.0002)
    assert load.prefill_share == pytest.approx(prefill / (prefill + 0.002))
    assert load.batch_size == 10
    assert load.peak is None  # shorter than two minutes


def test_offered_load_takes_the_busiest_minute() -> None:
    arrivals = [float(n) for n in range(60)] + [60 + n / 3 for n in range(180)] + [120.0, 180.0]
    trace = trace_of(arrivals, [10] * len(arrivals), [1] * len(arrivals))
    load = offered_load(trace, RoundCost())
    assert load is not None and load.peak is not None
    assert load.peak / load.batched == pytest.approx(3 / ((len(arrivals) - 1) / 180))


def test_a_small_kv_cache_limits_the_batch() -> None:
    trace = trace_of([0.0, 1.0, 2.0], [1000] * 3, [11] * 3)
    load = offered_load(trace, RoundCost(), max_batch_size=128, kv_tokens=3100)
    assert load is not None
    assert load.batch_size == 3  # mean context of a decode: 1000 + 11/2, rounded


def test_the_verdict_names_overload() -> None:
    heavy = trace_of([n / 1000 for n in range(100)], [1000] * 100, [100] * 100)
    light = trace_of([float(100 * n) for n in range(100)], [10] * 100, [2] * 100)
    assert "overloaded" in describe(heavy, RoundCost())["offered_load"]["verdict"]
    assert "light" in describe(light, RoundCost())["offered_load"]["verdict"]


def test_offered_load_of_one_token_outputs_is_all_prefill() -> None:
    load = offered_load(trace_of([0.0, 1.0], [100, 100], [1, 1]), RoundCost())
    assert load is not None and load.prefill_share == 1.0


def test_requests_that_arrive_at_once_have_no_rate_and_no_load() -> None:
    about = describe(trace_of([0.0, 0.0], [5, 6], [1, 1]), RoundCost())
    assert about["rate"]["mean_per_s"] is None
    assert about["burstiness"]["gap_cv"] is None
    assert about["offered_load"] is None
    assert about["correlation"]["spearman"] is None
    json.dumps(about)


def test_figures_of_a_small_trace_by_hand() -> None:
    about = describe(trace_of([0.0, 1.0, 1.0, 4.0], [10, 20, 30, 40], [4, 3, 2, 1]))
    assert about["rate"]["mean_per_s"] == pytest.approx(3 / 4)
    assert about["rate"]["peak_second_per_s"] == 2.0
    assert about["prompt_tokens"]["mean"] == 25 and about["prompt_tokens"]["sum"] == 100
    assert about["prompt_tokens"]["p50"] == 25.0
    assert about["correlation"]["spearman"] == pytest.approx(-1)
    # gaps 1, 0, 3: mean 4/3, variance (1 + 16 + 25) / 27
    assert about["burstiness"]["gap_cv"] == pytest.approx((42 / 27) ** 0.5 / (4 / 3))


def test_window_counts_leave_out_the_last_unfinished_window() -> None:
    arrival = np.array([0, SECOND // 2, SECOND, 3 * SECOND + 1], dtype=np.int64)
    assert window_counts(arrival, 1.0).tolist() == [2, 1, 0]
    # mean 1, variance (1 + 0 + 1) / 3
    assert dispersion(arrival, 1.0) == pytest.approx(2 / 3)


def test_poisson_has_cv_and_dispersion_of_one() -> None:
    arrival = generate({"num_requests": 50_000, "arrivals": {"rate_per_s": 10}}, 5).arrival_ns
    assert gap_cv(arrival) == pytest.approx(1, abs=0.02)
    assert dispersion(arrival, 1.0) == pytest.approx(1, abs=0.05)


def test_ties_share_their_rank() -> None:
    assert ranks(np.array([30, 10, 30, 20])).tolist() == [2.5, 0, 2.5, 1]


def test_statistics_agree_with_scipy() -> None:
    stats = pytest.importorskip("scipy.stats")
    rng = np.random.default_rng(0)
    first, second = rng.integers(0, 50, 400), rng.integers(5, 60, 300)
    ours = ks_distance(first, second)
    theirs = stats.ks_2samp(first, second, method="asymp")
    assert ours == pytest.approx(theirs.statistic)
    assert ks_p_value(0.1, 400, 300) == pytest.approx(
        stats.kstwobign.sf(0.1 * (400 * 300 / 700) ** 0.5), rel=0.3
    )
    paired = first[:300] + second
    assert spearman(first[:300], paired) == pytest.approx(stats.spearmanr(first[:300], paired).statistic)


def test_prefix_reuse_counts_only_an_unbroken_prefix() -> None:
    hashes = [(1, 2, 3), (1, 2, 9), (7, 2, 3), (1, 2, 9, 4)]
    trace = trace_of(
        [0.0, 1.0, 2.0, 3.0], [48, 48, 48, 64], [1] * 4, prefix_hashes=hashes, hash_block_tokens=16
    )
    reuse = prefix_reuse(trace)
    assert reuse is not None
    # 0 + 2 + 0 (its first block is new) + 3 of 13 blocks
    assert reuse.hit_fraction == pytest.approx(5 / 13)
    assert reuse.requests_with_hit == pytest.approx(2 / 4)
    assert reuse.distinct_blocks == 6


def test_sessions_and_labels_are_described() -> None:
    trace = trace_of(
        [0.0, 1.0, 2.0], [5, 5, 5], [1, 1, 1],
        session=np.array([0, 0, 1]), think_ns=np.array([0, 2 * SECOND, 0]), client=["a", None, "a"],
    )  # fmt: skip
    about = describe(trace)
    assert about["sessions"] == {"count": 2, "mean_turns": 1.5, "max_turns": 2, "mean_think_s": 2.0}
    assert about["labels"] == {"client": {"a": 2, "None": 1}}
