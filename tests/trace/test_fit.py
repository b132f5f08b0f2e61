"""`trace fit`: the parameters a trace was made with come back, and the model resembles the trace."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from sim.config.source import read_source
from sim.core.errors import ConfigError, TraceError
from sim.core.trace import Trace
from sim.trace import generate, load_trace
from sim.trace.fit import fit_trace, gamma_shape, weibull_shape
from sim.trace.goodness import goodness_of_fit
from sim.trace.options import GammaArrivals, LognormalLength, WeibullArrivals
from sim.trace.parse import parse_synthetic
from sim.trace.spec_file import write_fit

ROOT = Path(__file__).parents[2]
LOGNORMAL = {"distribution": "lognormal", "median": 500, "sigma": 0.8}


def made(**spec: Any) -> Trace:
    return generate({"num_requests": 20_000, "prompt_tokens": LOGNORMAL, **spec}, 7)


def test_the_shape_of_gamma_gaps_comes_back() -> None:
    trace = made(arrivals={"process": "gamma", "rate_per_s": 5, "burstiness": 0.4})
    arrivals = fit_trace(trace, gaps="gamma", rate_bins=1).spec.arrivals
    assert isinstance(arrivals, GammaArrivals)
    assert arrivals.burstiness == pytest.approx(0.4, rel=0.05)
    assert arrivals.rate_per_s == pytest.approx(5, rel=0.05)


def test_the_shape_of_weibull_gaps_comes_back() -> None:
    trace = made(arrivals={"process": "weibull", "rate_per_s": 5, "shape": 0.7})
    arrivals = fit_trace(trace, gaps="weibull", rate_bins=1).spec.arrivals
    assert isinstance(arrivals, WeibullArrivals)
    assert arrivals.shape == pytest.approx(0.7, rel=0.03)


def test_shape_estimates_agree_with_scipy() -> None:
    stats = pytest.importorskip("scipy.stats")
    gaps = np.random.default_rng(3).gamma(0.6, size=5000)
    assert gamma_shape(gaps) == pytest.approx(stats.gamma.fit(gaps, floc=0)[0], rel=1e-3)
    assert weibull_shape(gaps) == pytest.approx(stats.weibull_min.fit(gaps, floc=0)[0], rel=1e-2)


def test_lognormal_lengths_come_back() -> None:
    length = fit_trace(made(), lengths="lognormal").spec.prompt_tokens
    assert isinstance(length, LognormalLength)
    assert length.median == pytest.approx(500, rel=0.03)
    assert length.sigma == pytest.approx(0.8, rel=0.03)


def test_the_rank_correlation_comes_back() -> None:
    trace = made(output_tokens=LOGNORMAL, correlation=0.6)
    assert fit_trace(trace, copula_bins=1).spec.correlation == pytest.approx(0.6, abs=0.02)


def test_a_rate_that_changes_comes_back_as_a_curve() -> None:
    swing = {"bin_s": 100, "multipliers": [0.5, 1.5]}
    curve = fit_trace(made(arrivals={"rate_per_s": 50, "curve": swing}), rate_bins=4).spec.arrivals.curve
    assert curve is not None
    assert curve.multipliers == pytest.approx([0.5, 1.5, 0.5, 1.5], rel=0.1)


def test_a_written_model_is_a_spec_that_makes_a_trace_like_the_real_one(tmp_path: Path) -> None:
    real = made(
        arrivals={"process": "gamma", "rate_per_s": 5, "burstiness": 0.5, "diurnal": {"period_s": 2000}},
        output_tokens={"distribution": "mixture", "components": [20, LOGNORMAL], "weights": [1, 2]},
        correlation=0.5,
    )
    path, table = tmp_path / "m.yaml", tmp_path / "m_quantiles.csv"
    written = write_fit(fit_trace(real, table_name=table.name), path, table, ["where from"])
    assert written == [path, table]
    assert path.read_text().startswith("# where from\n") and table.read_text().startswith("# where from\n")
    model = generate(read_source(path).values, 1, base_dir=tmp_path)
    figures = {row.figure: row for row in goodness_of_fit(real, model)}
    for name in ("prompt_tokens mean", "output_tokens mean", "prompt+output mean", "gap_s mean"):
        assert (figures[name].ks or 0) < 0.03, name
    for name in ("requests_per_s", "gap CV", "dispersion in 10 s"):
        assert figures[name].model == pytest.approx(figures[name].real, rel=0.25), name
    correlation = figures["prompt/output rank correlation"]
    assert correlation.model == pytest.approx(correlation.real, abs=0.05)


def test_a_model_without_a_table_is_one_file(tmp_path: Path) -> None:
    fit = fit_trace(made(), gaps="poisson", lengths="lognormal", table_name="m_quantiles.csv")
    written = write_fit(fit, tmp_path / "m.yaml", tmp_path / "m_quantiles.csv", [])
    assert written == [tmp_path / "m.yaml"]
    assert parse_synthetic(read_source(written[0]).values) == fit.spec


def test_a_fit_needs_enough_requests_and_a_known_name() -> None:
    with pytest.raises(TraceError, match="at least 20 requests"):
        fit_trace(generate({"num_requests": 5}))
    with pytest.raises(ConfigError, match="gaps: unknown value 'gama': did you mean 'gamma'"):
        fit_trace(made(), gaps="gama")


def test_the_shipped_sample_is_what_its_recipe_makes() -> None:
    source = read_source(ROOT / "traces/azure_conv.yaml")
    spec = source.overridden({"num_requests": 1600, "arrivals.curve.bin_s": 4.8635}).values
    again = generate(spec, 0, base_dir=ROOT / "traces")
    assert load_trace(ROOT / "traces/azure_conv_sample.csv").hash == again.hash


def test_the_shipped_sample_resembles_the_production_hour() -> None:
    original = ROOT.parent / "shared/data/traces/AzureLLMInferenceTrace_conv.csv"
    if not original.exists():
        pytest.skip("needs the Azure trace in ../shared/data")
    sample = load_trace(ROOT / "traces/azure_conv_sample.csv")
    for row in goodness_of_fit(load_trace(original), sample):
        if row.ks is not None:
            assert row.ks < 0.05, row
