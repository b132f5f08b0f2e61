"""Cases M7 to M10 of docs/cases.md, found in public reports: metrics, by hand."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings

from sim.report.metrics import summarize
from tests.report.records import Served, record_of
from tests.worlds import World, worlds


def summary_of(*served: Served, slo: dict[str, float] | None = None) -> dict[str, Any]:
    return summarize(record_of(*served), slo=slo, provenance={})


def test_m7_refusing_requests_does_not_look_like_serving_them() -> None:
    served = Served(0.0, [0.5, 1.0, 2.0])
    refused = Served(0.0, rejected="too long")
    summary = summary_of(served, refused, refused, slo={"ttft_s": 1.0})
    assert (summary["num_requests"], summary["num_finished"], summary["num_rejected"]) == (3, 1, 2)
    assert summary["slo_attainment"] == pytest.approx(1 / 3)
    assert summary["throughput"]["requests_per_s"] == 0.5


def test_m8_goodput_needs_every_objective_at_once() -> None:
    late_first = Served(0.0, [3.0, 3.1])
    slow_after = Served(0.0, [0.1, 4.0])
    good = Served(0.0, [0.1, 0.2])
    summary = summary_of(late_first, slow_after, good, slo={"ttft_s": 1.0, "tbt_s": 0.2})
    assert summary["goodput"] == pytest.approx(1 / 4)  # each objective alone is met by two of three
    assert summary["slo_attainment"] == pytest.approx(1 / 3)


def test_m9_a_high_percentile_of_few_samples_is_interpolated_not_the_maximum() -> None:
    ttfts = [Served(0.0, [float(n)]) for n in range(1, 11)]
    assert summary_of(*ttfts)["ttft_s"]["p90"] == pytest.approx(9.1)
    gaps = [Served(0.0, [0.0, gap]) for gap in (10.0, 20.0, 30.0)]
    tbt = summary_of(*gaps)["tbt_s"]
    assert tbt["p99"] == pytest.approx(29.8)
    assert tbt["p50"] == np.percentile([10.0, 20.0, 30.0], 50)


@settings(deadline=None)
@given(world=worlds())
def test_m10_a_request_of_n_tokens_has_n_minus_1_gaps(world: World) -> None:
    summary = summarize(world.serve(), slo=None, provenance={})
    assert summary["num_tbt"] == summary["num_output_tokens"] - summary["num_finished"]
