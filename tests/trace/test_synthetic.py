"""The generator: every process and distribution does what its name says, reproducibly."""

from __future__ import annotations

import math
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sim.core.trace import Trace
from sim.trace import generate
from sim.trace.options import GammaArrivals, LognormalLength, SyntheticSpec
from sim.trace.parse import parse_synthetic, spec_to_mapping
from sim.trace.stats import dispersion, gap_cv, spearman, window_counts

COUNT = 20_000
WITHIN = 4 / math.sqrt(COUNT)
"""Four standard errors of a mean of COUNT draws with CV 1."""


def made(count: int = COUNT, seed: int = 1, **spec: Any) -> Trace:
    return generate({"num_requests": count, **spec}, seed)


def rate_per_s(trace: Trace) -> float:
    return (len(trace) - 1) / (int(trace.arrival_ns[-1]) / 1e9)


def test_constant_arrivals_are_equally_spaced_from_0() -> None:
    trace = made(5, arrivals={"process": "constant", "rate_per_s": 4})
    assert trace.arrival_ns.tolist() == [0, 250_000_000, 500_000_000, 750_000_000, 1_000_000_000]
    by_time = generate({"duration_s": 1, "arrivals": {"process": "constant", "rate_per_s": 4}})
    assert len(by_time) == 4  # 0, 0.25, 0.5, 0.75; the end is not included


@pytest.mark.parametrize(
    ("arrivals", "cv"),
    [
        ({"process": "poisson"}, 1.0),
        ({"process": "gamma", "burstiness": 0.25}, 2.0),  # 1 / sqrt(shape)
        ({"process": "gamma", "burstiness": 4}, 0.5),
        ({"process": "weibull", "shape": 0.5}, math.sqrt(5)),  # gamma(5) / gamma(3)**2 - 1 = 5
        ({"process": "empirical", "quantiles": [[0, 0], [0.5, 0], [1, 2]]}, math.sqrt(5 / 3)),
    ],
)
def test_gaps_have_the_mean_and_variation_of_their_distribution(arrivals: dict[str, Any], cv: float) -> None:
    trace = made(arrivals={"rate_per_s": 5, **arrivals})
    assert rate_per_s(trace) == pytest.approx(5, rel=WITHIN * cv)
    found = gap_cv(trace.arrival_ns)
    assert found == pytest.approx(cv, rel=0.1)


def test_a_diurnal_rate_peaks_where_it_should() -> None:
    swing = {"amplitude": 1.0, "period_s": 100.0, "peak_s": 25.0}
    trace = made(arrivals={"rate_per_s": 50, "diurnal": swing})
    phase = (trace.arrival_ns / 1e9) % 100
    counts = np.histogram(phase, bins=4, range=(0, 100))[0] / COUNT
    # integral of 1 + cos over each quarter: 1/4 + 1/(2 pi) * (sin at its ends), peak at 25 s
    rises = [math.sin(2 * math.pi * (edge - 25) / 100) for edge in (0, 25, 50, 75, 100)]
    expected = [0.25 + (after - before) / (2 * math.pi) for before, after in pairwise(rises)]
    assert counts == pytest.approx(expected, abs=0.02)


def test_a_curve_repeats_and_a_rate_of_0_means_no_arrivals() -> None:
    trace = made(2000, arrivals={"rate_per_s": 10, "curve": {"bin_s": 10, "multipliers": [0, 2]}})
    first_s = 10 + 1e-9  # the trace begins at its first arrival, in the first bin with a rate
    phase = (trace.arrival_ns / 1e9 + first_s) % 20
    assert ((phase >= 10 - 0.5) | (phase < 0.5)).all()


def test_a_flash_crowd_multiplies_the_rate_while_it_lasts() -> None:
    crowd = {"at_s": 50, "duration_s": 10, "multiplier": 8}
    trace = made(arrivals={"rate_per_s": 20, "crowds": [crowd]})
    counts = window_counts(trace.arrival_ns, 10.0)
    assert counts[:5].mean() == pytest.approx(200, rel=0.15)
    assert counts[5] == pytest.approx(1600, rel=0.1)
    assert counts[6:11].mean() == pytest.approx(200, rel=0.15)


def test_markov_modulation_is_burstier_than_poisson_over_long_windows() -> None:
    states = {"multipliers": [0.2, 5], "mean_stay_s": [30, 6]}
    bursty = made(arrivals={"rate_per_s": 10, "markov": states})
    plain = made(arrivals={"rate_per_s": 10})
    assert (dispersion(bursty.arrival_ns, 10) or 0) > 10 * (dispersion(plain.arrival_ns, 10) or 0)
    # the two states take 30/36 and 6/36 of the time
    assert rate_per_s(bursty) == pytest.approx(10 * (0.2 * 30 + 5 * 6) / 36, rel=0.25)


@pytest.mark.parametrize(
    ("length", "expected"),
    [
        (7, {0: 7, 50: 7, 100: 7}),
        ({"distribution": "uniform", "min": 10, "max": 19}, {0: 10, 50: 14.5, 100: 19}),
        ({"distribution": "lognormal", "median": 1000, "sigma": 0.5, "max": 2000}, {50: 1000, 100: 2000}),
        (
            {"distribution": "empirical", "quantiles": [[0, 1], [0.5, 101], [1, 1101]]},
            {25: 51, 50: 101, 75: 601},
        ),
        (
            {
                "distribution": "mixture",
                "components": [10, {"distribution": "fixed", "value": 90}],
                "weights": [3, 1],
            },
            {0: 10, 70: 10, 80: 90, 100: 90},
        ),
        ({"distribution": "zipf", "exponent": 0, "min": 1, "max": 99}, {0: 1, 50: 50, 100: 99}),
    ],
)
def test_lengths_have_the_quantiles_of_their_distribution(length: Any, expected: dict[int, float]) -> None:
    trace = made(prompt_tokens=length)
    for percent, value in expected.items():
        assert np.percentile(trace.prompt_tokens, percent) == pytest.approx(value, rel=0.05)


def test_zipf_lengths_follow_the_power_law() -> None:
    tokens = made(prompt_tokens={"distribution": "zipf", "exponent": 2, "max": 1000}).prompt_tokens
    ones, twos = (tokens == 1).mean(), (tokens == 2).mean()
    assert ones / twos == pytest.approx(4, rel=0.1)


@pytest.mark.parametrize("correlation", [-0.8, 0.0, 0.5, 0.95])
def test_the_copula_gives_the_rank_correlation_asked_for_and_leaves_the_lengths(correlation: float) -> None:
    lengths = {
        "prompt_tokens": {"distribution": "lognormal", "median": 5000, "sigma": 1},
        "output_tokens": {"distribution": "uniform", "min": 1, "max": 100_000},
    }
    trace = made(correlation=correlation, **lengths)
    assert spearman(trace.prompt_tokens, trace.output_tokens) == pytest.approx(correlation, abs=0.03)
    assert np.median(trace.prompt_tokens) == pytest.approx(5000, rel=0.05)
    assert np.median(trace.output_tokens) == pytest.approx(50_000, rel=0.05)


def test_a_measured_copula_puts_requests_where_its_weights_are() -> None:
    spread = {"distribution": "uniform", "min": 1, "max": 100}
    trace = made(prompt_tokens=spread, output_tokens=spread, copula=[[0, 3], [1, 0]])
    short = trace.prompt_tokens <= 50
    assert (trace.output_tokens[short] > 50).all() and (trace.output_tokens[~short] <= 50).all()
    assert short.mean() == pytest.approx(0.75, abs=0.02)


def test_the_total_cap_cuts_the_prompt_and_then_the_output() -> None:
    trace = made(3, prompt_tokens=100, output_tokens=30, max_total_tokens=50)
    assert trace.prompt_tokens.tolist() == [20] * 3 and trace.output_tokens.tolist() == [30] * 3
    tight = made(3, prompt_tokens=100, output_tokens=30, max_total_tokens=20)
    assert tight.prompt_tokens.tolist() == [1] * 3 and tight.output_tokens.tolist() == [19] * 3


def test_turns_of_a_session_carry_everything_said_before() -> None:
    trace = made(
        6, arrivals={"process": "constant", "rate_per_s": 0.001}, prompt_tokens=20, output_tokens=10,
        sessions={"turns": 3, "think_s": 2}, shared_prefix={"tokens": 40}, hash_block_tokens=16,
    )  # fmt: skip
    assert trace.session is not None and trace.think_ns is not None and trace.prefix_hashes is not None
    assert trace.session.tolist() == [0, 0, 0, 1, 1, 1]
    # 40 + 20, then + 10 + 20 each turn
    assert trace.prompt_tokens.tolist() == [60, 90, 120] * 2
    assert trace.think_ns.tolist() == [0, 2_000_000_000, 2_000_000_000] * 2
    first, second = trace.prefix_hashes[:3], trace.prefix_hashes[3:]
    assert [len(hashes) for hashes in first] == [4, 6, 8]  # ceil(tokens / 16)
    for shorter, longer in pairwise(first):
        whole = len(shorter) - 1  # 60 and 90 tokens end in a partial block of the turn's own
        assert longer[:whole] == shorter[:whole] and longer[whole] != shorter[whole]
    # two whole blocks of the 40-token system prompt are common to all sessions, nothing else
    assert first[0][:2] == second[0][:2]
    assert not set(first[2][2:]) & set(second[2])


@settings(deadline=None, max_examples=50)
@given(
    st.integers(1, 30), st.integers(1, 40), st.integers(1, 20), st.integers(2, 200), st.integers(1, 32),
    st.integers(0, 100),
)  # fmt: skip
def test_sessions_obey_their_laws(
    count: int, message: int, output: int, cap: int, block: int, seed: int
) -> None:
    trace = generate(
        {
            "num_requests": count,
            "prompt_tokens": {"distribution": "uniform", "min": 1, "max": message},
            "output_tokens": {"distribution": "uniform", "min": 1, "max": output},
            "sessions": {"turns": {"distribution": "uniform", "min": 1, "max": 5}, "think_s": 1.5},
            "shared_prefix": {"tokens": 24, "count": 3, "share": 0.5},
            "max_total_tokens": cap,
            "hash_block_tokens": block,
        },
        seed,
    )
    assert 1 <= len(trace) <= count
    assert trace.arrival_ns[0] == 0 and (np.diff(trace.arrival_ns) >= 0).all()
    assert (trace.prompt_tokens + trace.output_tokens <= cap).all()
    assert (trace.prompt_tokens >= 1).all() and (trace.output_tokens >= 1).all()
    assert trace.session is not None and trace.prefix_hashes is not None
    for session in np.unique(trace.session):
        rows = np.flatnonzero(trace.session == session).tolist()
        for before, after in pairwise(rows):
            context = int(trace.prompt_tokens[before] + trace.output_tokens[before])
            assert trace.prompt_tokens[after] > context
            whole = int(trace.prompt_tokens[before]) // block
            assert trace.prefix_hashes[after][:whole] == trace.prefix_hashes[before][:whole]
    lengths = [len(hashes) for hashes in trace.prefix_hashes]
    assert lengths == [-(-int(prompt) // block) for prompt in trace.prompt_tokens]


def test_labels_come_by_their_shares_and_stay_with_a_session() -> None:
    trace = made(
        clients={"a": 3, "b": 1}, slo_classes={"fast": 1, "slow": 1}, priorities={0: 9, 5: 1},
        sessions={"turns": 2},
    )  # fmt: skip
    assert trace.client is not None and trace.priority is not None and trace.session is not None
    assert trace.slo_class is not None
    assert np.mean([name == "a" for name in trace.client]) == pytest.approx(0.75, abs=0.02)
    assert (trace.priority == 5).mean() == pytest.approx(0.1, abs=0.02)
    owners = {(session, client) for session, client in zip(trace.session.tolist(), trace.client, strict=True)}
    assert len(owners) == len(np.unique(trace.session))


def test_the_same_seed_gives_the_same_trace_and_another_one_another() -> None:
    spec = {"num_requests": 50, "sessions": {"turns": 3}, "clients": {"a": 1, "b": 1}}
    assert generate(spec, 3).hash == generate(spec, 3).hash != generate(spec, 4).hash


def test_adding_one_part_moves_no_other() -> None:
    bare = made(100, prompt_tokens={"distribution": "lognormal", "median": 9})
    more = made(100, prompt_tokens={"distribution": "lognormal", "median": 9}, clients={"a": 1, "b": 1})
    assert bare.arrival_ns.tolist() == more.arrival_ns.tolist()
    assert bare.prompt_tokens.tolist() == more.prompt_tokens.tolist()


def test_a_longer_trace_begins_with_the_shorter_one() -> None:
    modulated = {"rate_per_s": 3, "markov": {"multipliers": [1, 4], "mean_stay_s": [5, 5]}}
    short, long = made(100, arrivals=modulated), made(1000, arrivals=modulated)
    assert long.arrival_ns[:100].tolist() == short.arrival_ns.tolist()


def test_a_spec_survives_the_way_to_a_mapping_and_back() -> None:
    spec = SyntheticSpec(
        num_requests=10,
        arrivals=GammaArrivals(rate_per_s=3.0, burstiness=0.5),
        prompt_tokens=LognormalLength(100.0, max=500),
        clients={"a": 1.0},
    )
    assert parse_synthetic(spec_to_mapping(spec)) == spec
