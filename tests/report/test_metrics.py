"""Metrics: laws, and figures by hand beyond the field's cases."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sim.core.units import NS_PER_S, UNSET_NS
from sim.report.metrics import peak_concurrency, summarize
from sim.report.percentiles import weighted_percentile, weighted_percentiles
from tests.report.records import Served, record_of

samples = st.dictionaries(st.integers(1, 10**12), st.integers(1, 30), min_size=1, max_size=40)


@given(samples, st.lists(st.floats(0, 100), min_size=1, max_size=20))
def test_weighted_percentiles_equal_numpys_on_the_expanded_samples_bit_for_bit(weighted, percents):
    values = np.array(sorted(weighted))
    counts = np.array([weighted[value] for value in values.tolist()])
    seconds = values / NS_PER_S
    expected = np.percentile(np.repeat(seconds, counts), percents)
    assert weighted_percentiles(seconds, counts, np.array(percents)).tolist() == expected.tolist()


def test_a_value_that_occurs_zero_times_is_no_sample():
    assert weighted_percentile(np.array([1.0, 2.0, 9.0]), np.array([0, 3, 0]), 99) == 2.0
    assert weighted_percentile(np.array([1.0]), np.array([0]), 50) is None


@given(st.lists(st.tuples(st.integers(0, 20), st.integers(1, 20)), min_size=1, max_size=30))
def test_peak_concurrency_equals_counting_at_every_arrival(stays):
    arrival = np.array([start for start, _ in stays])
    finish = arrival + np.array([length for _, length in stays])
    counted = max(sum(a <= t < f for a, f in zip(arrival, finish, strict=True)) for t in arrival)
    assert peak_concurrency(arrival, finish) == counted


def test_requests_that_never_arrived_are_not_in_the_system():
    assert peak_concurrency(np.array([UNSET_NS, 3]), np.array([UNSET_NS, 5])) == 1
    assert peak_concurrency(np.array([], dtype=np.int64), np.array([], dtype=np.int64)) == 0


SLO = {"ttft_s": 1.0, "tbt_s": 0.5, "tpot_s": None}
KEPT = Served(0.0, [1.0, 1.5, 2.0])  # exactly at both limits
LATE = Served(0.0, [1.1, 1.2])
STALLED = Served(0.0, [0.5, 1.1])  # one gap of 0.6
ONE_TOKEN = Served(0.0, [0.9])  # no TBT to miss
REJECTED = Served(0.0, rejected="too long")


def test_an_slo_is_met_at_its_limit_by_the_longest_gap_and_never_by_a_rejected_request():
    record = record_of(KEPT, LATE, STALLED, ONE_TOKEN, REJECTED)
    summary = summarize(record, slo=SLO, provenance={})
    assert summary["slo_attainment"] == 2 / 5
    assert summary["goodput"] == 2 / 2.0
    assert summary["slo_attainment_by"] == {
        "ttft_s": 3 / 5, "tbt_s": 3 / 5, "tpot_s": None, "e2e_s": None,
    }  # fmt: skip


def test_attainment_leaves_out_requests_without_slo_which_goodput_counts():
    batch = Served(0.0, [9.0, 10.0], slo_class="batch")
    record = record_of(KEPT, LATE, batch)
    summary = summarize(record, slo=SLO, slo_classes={"batch": {}}, provenance={})
    assert summary["slo_attainment"] == 1 / 2
    assert summary["goodput"] == 2 / 10.0


def test_without_any_slo_attainment_is_null_and_goodput_is_the_request_throughput():
    summary = summarize(record_of(KEPT, LATE), slo=None, provenance={})
    assert summary["slo_attainment"] is None
    assert summary["goodput"] == summary["throughput"]["requests_per_s"]


def test_throughput_leaves_out_what_did_not_finish():
    unfinished = Served(0.0, [1.0, 2.0], output=5)
    summary = summarize(record_of(KEPT, unfinished), slo=None, provenance={})
    assert summary["num_finished"] == 1 and summary["num_requests"] == 2
    assert summary["throughput"]["output_tokens_per_s"] == 3 / 2.0
    assert summary["num_output_tokens"] == 5


def test_a_preempted_request_keeps_its_first_ttft_and_shows_one_long_gap():
    """Case S9: evicted after its second token, resumed at 6."""
    summary = summarize(record_of(Served(0.0, [1.0, 2.0, 6.0, 7.0])), slo=None, provenance={})
    assert summary["ttft_s"]["max"] == 1.0 and summary["e2e_s"]["max"] == 7.0
    assert summary["tbt_s"]["max"] == 4.0 and summary["tbt_s"]["p50"] == 1.0
    assert summary["num_tbt"] == 3


def test_waste_busy_time_and_kv_peak_are_shares_of_what_there_was():
    record = record_of(
        Served(0.0, [1.0, 4.0]),
        busy_ns=3 * NS_PER_S,
        idle_slot_iterations=346,
        used_slot_iterations=254,
        padded_prefill_tokens=7,
        num_blocks=200,
        kv_peak_blocks=50,
    )
    summary = summarize(record, slo=None, provenance={"seed": 3})
    assert summary["gpu_busy"] == 0.75
    assert summary["waste"]["idle_slot_share"] == pytest.approx(346 / 600)
    assert summary["waste"]["padded_prefill_tokens"] == 7
    assert summary["kv_peak"] == 50 and summary["kv_cache"]["peak_share"] == 0.25
    assert summary["provenance"]["seed"] == 3
    assert summary["provenance"]["trace_sha256"] == record.trace.hash
