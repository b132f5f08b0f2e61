"""Cases M1 to M6 of the field: what other tools got wrong about these metrics, by hand."""

from __future__ import annotations

import json

import numpy as np
import pytest

from sim.core.units import NS_PER_S
from sim.report.frames import requests_frame
from sim.report.metrics import peak_concurrency, summarize
from tests.report.records import Served, record_of


def summary_of(*served, slo=None, **changes):
    return summarize(record_of(*served, **changes), slo=slo, provenance={})


def test_m1_one_output_token_has_no_tbt_and_no_tpot_and_its_e2e_is_its_ttft():
    summary = summary_of(Served(arrival=1.0, tokens=[3.5]))
    assert summary["num_tbt"] == 0
    assert set(summary["tbt_s"].values()) == {None}
    assert set(summary["tpot_s"].values()) == {None}
    assert summary["e2e_s"]["mean"] == summary["ttft_s"]["mean"] == 2.5


def test_m1_one_token_requests_do_not_dilute_the_tpot_of_the_others():
    summary = summary_of(Served(tokens=[1.0]), Served(tokens=[1.0, 1.5, 2.0]))
    assert summary["tpot_s"]["mean"] == 0.5
    frame = requests_frame(record_of(Served(tokens=[1.0]), Served(tokens=[1.0, 1.5, 2.0])))
    assert np.isnan(frame["tpot_s"][0]) and np.isnan(frame["max_tbt_s"][0])


def test_m2_ttft_does_not_leak_into_tbt():
    summary = summary_of(Served(arrival=0.0, tokens=[1.0, 1.1, 1.2]))
    assert summary["ttft_s"]["max"] == 1.0
    assert summary["num_tbt"] == 2
    assert summary["tbt_s"] == pytest.approx(dict.fromkeys(summary["tbt_s"], 0.1))


def test_m3_tpot_weighs_requests_and_tbt_weighs_gaps():
    long = [2.0 + 0.01 * n for n in range(101)]
    summary = summary_of(Served(tokens=[1.0, 2.0]), Served(tokens=long))
    assert summary["tpot_s"]["mean"] == pytest.approx(0.505)
    assert summary["tbt_s"]["mean"] == pytest.approx(2 / 101)


def test_m4_throughput_is_over_the_run_and_the_steady_figure_has_another_name():
    served = [Served(tokens=[*np.linspace(1, end, 100)], prompt=50) for end in (10.0, 11.0, 12.0)]
    summary = summary_of(
        *served, steady_window_ns=(2 * NS_PER_S, 10 * NS_PER_S), steady_output_tokens=240
    )
    assert summary["makespan_s"] == 12.0
    assert summary["throughput"] == {
        "requests_per_s": 0.25,
        "output_tokens_per_s": 25.0,
        "total_tokens_per_s": 37.5,
    }
    assert summary["steady_throughput"]["output_tokens_per_s"] == 30.0
    assert summary["steady_throughput"]["window_start_s"] == 2.0
    assert summary["steady_throughput"]["window_end_s"] == 10.0


def test_m5_of_one_sample_every_percentile_is_that_sample():
    summary = summary_of(Served(tokens=[0.25, 1.0]))
    for name, value in (("ttft_s", 0.25), ("tbt_s", 0.75), ("tpot_s", 0.75), ("e2e_s", 1.0)):
        assert set(summary[name].values()) == {value}


def test_m5_of_no_sample_every_figure_is_null_and_the_report_is_still_made():
    summary = summary_of(Served(rejected="too long"))
    text = json.dumps(summary, allow_nan=False)
    assert json.loads(text)["ttft_s"] == dict.fromkeys(summary["ttft_s"])
    assert summary["makespan_s"] is None and summary["goodput"] is None
    assert summary["throughput"]["requests_per_s"] is None and summary["gpu_busy"] is None
    assert summary["num_rejected"] == 1


def test_m6_at_equal_times_a_departure_counts_before_an_arrival():
    assert peak_concurrency(np.array([0, 5, 10]), np.array([5, 10, 15])) == 1
    assert peak_concurrency(np.array([0, 4, 10]), np.array([5, 10, 15])) == 2
    assert summary_of(
        Served(0.0, [1.0]), Served(1.0, [2.0]), Served(1.0, rejected="never fits")
    )["peak_concurrency"] == 1
