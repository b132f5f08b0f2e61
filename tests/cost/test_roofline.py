"""The roofline: operators by hand, and laws of any bound."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sim.core.batch import Batch, Chunk
from sim.core.errors import ProfileError
from sim.cost import load_cost_model, load_gpu, load_model
from sim.cost.collective import AllReduce
from sim.cost.roofline import PEAK, Roofline, activated_experts

IDEAL = {
    "compute": 1,
    "fp8_compute": 1,
    "bandwidth": 1,
    "attention_compute": 1,
    "kv_bandwidth": 1,
    "mixed_kv_bandwidth": 1,
    "layer_us": 0,
    "iteration_us": 0,
}


def ideal(**keys: Any) -> Any:
    hardware = {"model": "llama-2-7b", "gpu": "a100-80gb", "tensor_parallel": 1}
    return load_cost_model({"kind": "roofline", "efficiency": IDEAL, **hardware, **keys})


def test_one_decode_reads_weights_and_kv_once() -> None:
    # layers: 32*(4*4096^2 + 3*4096*11008) parameters, head 32000*4096; 2 bytes each; 2039 GB/s
    weights = 2 * (32 * (4 * 4096**2 + 3 * 4096 * 11008) + 32000 * 4096)
    kv = 1000 * 2 * 32 * 32 * 128 * 2
    activations = 32 * 2 * (2 * 4096 * 2)
    expected_us = (weights + kv + activations) / 2039e3
    assert ideal().iteration_ns(Batch(1, 1000, 1000, 1000)) == pytest.approx(expected_us * 1000, rel=1e-6)


def test_a_long_prefill_is_bound_by_arithmetic() -> None:
    tokens = 4096
    layers = 2 * tokens * 32 * (4 * 4096**2 + 3 * 4096 * 11008)
    attention = 32 * 4 * 32 * 128 * (tokens * (tokens + 1) // 2)
    head_us = 32000 * 4096 * 2 / 2039e3
    expected_us = (layers + attention) / 312e6 + head_us
    batch = Batch(chunks=(Chunk(tokens, 0),))
    assert ideal().iteration_ns(batch) == pytest.approx(expected_us * 1000, rel=1e-6)


def test_eight_bit_weights_read_half_and_compute_at_the_eight_bit_rate() -> None:
    bf16, fp8 = (
        Roofline(load_model(name), load_gpu("h100-80gb"), 8, PEAK)
        for name in ("llama-3.1-70b", "llama-3.3-70b-fp8")
    )
    assert bf16.dense_us(1) / fp8.dense_us(1) == pytest.approx(2, rel=1e-3)
    assert bf16.dense_us(8192) / fp8.dense_us(8192) == pytest.approx(1979 / 989, rel=1e-6)


def test_a_ring_over_two_ranks_is_two_latencies_and_the_data_once() -> None:
    assert AllReduce(2, 16, 20).time_us(16_000_000) == pytest.approx(40 + 1000)
    assert AllReduce(1, 16, 20).time_us(16_000_000) == 0
    # four ranks: six steps of a quarter each
    assert AllReduce(4, 16, 20).time_us(16_000_000) == pytest.approx(6 * (20 + 250))


def test_experts_with_work_grow_from_those_of_one_token_to_all() -> None:
    shape = load_model("qwen3-30b-a3b")
    assert activated_experts(shape, 1) == pytest.approx(8)
    # two tokens: 16 less the overlap 8*8/128
    assert activated_experts(shape, 2) == pytest.approx(15.5)
    assert activated_experts(shape, 4096) == pytest.approx(128)
    assert activated_experts(load_model("llama-3.1-8b"), 100) == 1


@given(st.integers(1, 300), st.integers(1, 20_000), st.integers(1, 40))
def test_a_run_equals_its_iterations_one_by_one(number: int, context: int, iterations: int) -> None:
    model = ideal(efficiency=None)
    batch = Batch(number, number * context, context, context)
    run = model.decode_run_ns(batch, iterations).tolist()
    assert run == [model.iteration_ns(batch.after(i)) for i in range(iterations)]


@given(st.integers(1, 256), st.integers(1, 8192), st.integers(1, 4096), st.integers(0, 8192))
def test_more_work_never_takes_less(number: int, context: int, tokens: int, cached: int) -> None:
    """Law: a bound is monotone in every count."""
    model = ideal(efficiency=None)
    batch = Batch(number, number * context, context, context, (Chunk(tokens, cached),))
    time = model.iteration_ns(batch)
    assert model.iteration_ns(batch._replace(chunks=(Chunk(tokens + 64, cached),))) >= time
    assert model.iteration_ns(batch._replace(chunks=(Chunk(tokens, cached + 64),))) >= time
    assert model.iteration_ns(batch._replace(decode_context_sum=number * (context + 64))) >= time


def test_a_wrong_key_is_named() -> None:
    with pytest.raises(ProfileError, match="efficiency: unknown key 'computes': did you mean 'compute'"):
        ideal(efficiency={"computes": 1})
