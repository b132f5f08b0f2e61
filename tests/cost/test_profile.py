"""The profile kind: hand-computed iterations, and laws that any profile must keep."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from sim.core.batch import Batch, Chunk
from sim.cost import load_cost_model
from sim.cost.profile import joined

LAYERS = 32


def dense_iteration_us(tokens: int) -> float:
    """2 once-an-iteration layers, and per layer 2 norms and 6 others, each 2 + 0.1*tokens."""
    return (2 + LAYERS * 8) * (2.0 + 0.1 * tokens)


def load(folder: Path, **keys: Any) -> Any:
    """Kernel times alone, unless `keys` say otherwise."""
    return load_cost_model({"kind": "profile", "path": str(folder), "host_overhead_us": 0, **keys})


def test_a_device_with_known_host_time_adds_it_to_mixed_iterations(small_profile: Path) -> None:
    bare, whole = load(small_profile), load_cost_model({"kind": "profile", "path": str(small_profile)})
    chunk, decode = Batch(chunks=(Chunk(40, 32),)), Batch(2, 100, 60, 40)
    assert whole.iteration_ns(chunk) - bare.iteration_ns(chunk) == 3_000_000
    assert whole.iteration_ns(decode) == bare.iteration_ns(decode)


def test_decode_by_hand(small_profile: Path) -> None:
    # 2 decodes at 40 and 60: mean 50, one layer's attention 3 + 0.02*2*50 = 5; heads 2*(5 + 0.5*2)
    expected = dense_iteration_us(2) + 12.0 + LAYERS * 5.0
    assert load(small_profile).iteration_ns(Batch(2, 100, 60, 40)) == round(expected * 1000)


def test_prefill_by_hand(small_profile: Path) -> None:
    # 40 tokens over 32 cached: 3 + 0.5*40 + 0.01*40*32 = 35.8; one sequence
    expected = dense_iteration_us(40) + 11.0 + LAYERS * 35.8
    assert load(small_profile).iteration_ns(Batch(chunks=(Chunk(40, 32),))) == round(expected * 1000)


def test_mixed_by_hand(small_profile: Path) -> None:
    # 3 decodes lie between the measured 2 and 4: 3 + 0.5*40 + 0 + 0.02*3*30 = 24.8
    expected = dense_iteration_us(43) + 2 * (5 + 0.5 * 4) + LAYERS * 24.8
    batch = Batch(3, 90, 30, 30, (Chunk(40, 0),))
    assert load(small_profile).iteration_ns(batch) == round(expected * 1000)


def test_separate_attention_is_the_sum_of_both_alone(small_profile: Path) -> None:
    # 3 + 0.5*40 alone, and 3 + 0.02*3*30 alone: one constant 3 more than together
    together = load(small_profile).iteration_ns(Batch(3, 90, 30, 30, (Chunk(40, 0),)))
    apart = load(small_profile, mixed_attention="separate").iteration_ns(
        Batch(3, 90, 30, 30, (Chunk(40, 0),))
    )
    assert apart - together == LAYERS * 3_000


@pytest.mark.parametrize(("rule", "latencies"), [("ring", 2), ("vllm", 1)])
def test_tensor_parallel_adds_two_all_reduces_a_layer(
    small_profile: Path, rule: str, latencies: int
) -> None:
    # 4096 hidden * 2 bytes * 10 tokens over 16 GB/s = 5.12 us; a ring over two ranks takes two steps
    link = {"link_gb_s": 16, "link_latency_us": 10, "all_reduce": rule}
    one = load(small_profile).iteration_ns(Batch(10, 160, 16, 16))
    two = load(small_profile, tensor_parallel=2, **link).iteration_ns(Batch(10, 160, 16, 16))
    assert two - one == 2 * LAYERS * (5_120 + latencies * 10_000)


def test_graph_padding_rounds_the_tokens_of_the_layers_up(small_profile: Path) -> None:
    plain = load(small_profile)
    padded = load(small_profile, graph_sizes=[8, 16])
    extra = round((dense_iteration_us(8) - dense_iteration_us(3)) * 1000)
    batch = Batch(3, 90, 30, 30)
    assert padded.iteration_ns(batch) - plain.iteration_ns(batch) == extra
    assert padded.iteration_ns(Batch(17, 510, 30, 30)) == plain.iteration_ns(Batch(17, 510, 30, 30))


def test_host_overhead_and_cold_start_are_added_to_any_kind(small_profile: Path) -> None:
    plain = load(small_profile)
    model = load(small_profile, host_overhead_us={"mixed": 2500}, cold_start_us=80_000)
    decode, mixed = Batch(2, 100, 60, 40), Batch(2, 100, 60, 40, (Chunk(8, 0),))
    assert model.iteration_ns(decode) == plain.iteration_ns(decode)
    assert model.iteration_ns(mixed) - plain.iteration_ns(mixed) == 2_500_000
    assert model.cold_start_ns == 80_000_000


def test_beyond_the_grid_time_grows_in_proportion_to_the_work(small_profile: Path) -> None:
    """The largest context measured is 64: at 128, decodes move twice the KV and take twice as long."""
    model = load(small_profile)
    fixed = dense_iteration_us(4) + 2 * (5 + 0.5 * 4)
    edge = 3 + 0.02 * 4 * 64
    assert model.iteration_ns(Batch(4, 4 * 128, 128, 128)) == round((fixed + 2 * LAYERS * edge) * 1000)
    assert model.outside(Batch(4, 4 * 128, 128, 128)) == 1
    assert model.outside(Batch(4, 4 * 64, 64, 64)) == 0
    # 8 decodes, twice the 4 measured
    fixed = dense_iteration_us(8) + 2 * (5 + 0.5 * 8)
    assert model.iteration_ns(Batch(8, 8 * 64, 64, 64)) == round((fixed + 2 * LAYERS * edge) * 1000)


@given(st.lists(st.tuples(st.integers(1, 3000), st.integers(0, 9000)), min_size=2, max_size=6))
def test_joined_chunks_keep_tokens_and_never_gain_pairs(parts: list[tuple[int, int]]) -> None:
    """Law: the stand-in attends as many query-key pairs as the chunks it stands for."""
    chunks = tuple(Chunk(*part) for part in parts)
    chunk, cached, tokens = joined(chunks)
    assert tokens == sum(new for new, _ in parts)
    pairs = chunk * cached + chunk * (chunk + 1) / 2
    assert pairs == pytest.approx(sum(c.attention_pairs for c in chunks), rel=1e-9)
    assert chunk <= tokens and cached >= 0


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=60, deadline=None)
@given(
    st.lists(st.integers(1, 40_000), min_size=1, max_size=300),
    st.integers(1, 50),
)
def test_a_run_equals_its_iterations_one_by_one(
    measured_model: Any, contexts: list[int], iterations: int
) -> None:
    batch = Batch(len(contexts), sum(contexts), max(contexts), min(contexts))
    run = measured_model.decode_run_ns(batch, iterations).tolist()
    assert run == [measured_model.iteration_ns(batch.after(i)) for i in range(iterations)]


@pytest.fixture
def measured_model(measured_profile: Path) -> Any:
    return load(measured_profile)


def test_grid_points_come_back_as_measured(measured_profile: Path) -> None:
    """Law: at a measured point there is nothing to interpolate."""
    rows = (measured_profile / "attention.csv").read_text().split()[1:2000]
    tables = load(measured_profile).tables
    layers = 32 if "8b" in measured_profile.name else 64
    for row in rows:
        chunk, cached, decodes, context, time_us = (float(value) for value in row.split(","))
        if chunk == 0:
            found = tables.decode_attention.line(int(decodes)).at(context)
        elif decodes == 0:
            found = tables.mixed_attention.alone(chunk, cached)
        else:
            found = tables.mixed_attention.at(chunk, cached, int(decodes), context, context)[0]
        assert found == pytest.approx(layers * time_us, rel=1e-9)


def test_unequal_contexts_never_take_less(measured_profile: Path) -> None:
    model = load(measured_profile)
    equal, spread = Batch(64, 64 * 1000, 1000, 1000), Batch(64, 64 * 1000, 4000, 300)
    assert model.iteration_ns(spread) >= model.iteration_ns(equal)
    beside = (Chunk(512, 0),)
    assert model.iteration_ns(spread._replace(chunks=beside)) > model.iteration_ns(
        equal._replace(chunks=beside)
    )
    assert load(measured_profile, skew=False).iteration_ns(spread) == model.iteration_ns(equal)
