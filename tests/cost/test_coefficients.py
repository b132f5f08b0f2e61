"""The two linear forms of design.md section 6, against hand-computed values and their laws."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sim.core.batch import Batch, Chunk
from sim.core.errors import ProfileError, UserError
from sim.cost import load_cost_model

SPEC: dict[str, Any] = {
    "kind": "coefficients",
    "decode": {"base_us": 5000, "per_sequence_us": 10, "per_context_token_us": 0.1},
    "mixed": {
        "base_us": 6000,
        "per_token_us": 50,
        "per_sequence_us": 20,
        "per_context_token_us": 0.25,
        "per_attention_pair_us": 0.5,
    },
}


def test_decode_only_by_hand() -> None:
    # 5000 + 10*2 + 0.1*(100+200) = 5050 us
    assert load_cost_model(SPEC).iteration_ns(Batch(2, 300, 200, 100)) == 5_050_000


def test_mixed_by_hand() -> None:
    # tokens 1 + 4 + 2; pairs 4*10 + 4*5/2 + 2*3/2 = 53
    # 6000 + 50*7 + 20*1 + 0.25*100 + 0.5*53 = 6421.5 us
    batch = Batch(1, 100, 100, 100, (Chunk(4, 10), Chunk(2, 0)))
    assert load_cost_model(SPEC).iteration_ns(batch) == 6_421_500


def test_a_time_of_zero_is_one_nanosecond() -> None:
    zero = dict.fromkeys(SPEC["decode"], 0)
    model = load_cost_model({**SPEC, "decode": zero})
    assert model.iteration_ns(Batch(1, 5, 5, 5)) == 1
    assert model.decode_run_ns(Batch(1, 5, 5, 5), 3).tolist() == [1, 1, 1]


def test_half_nanoseconds_round_to_even() -> None:
    decode = {"base_us": 0.0005, "per_sequence_us": 0.001, "per_context_token_us": 0}
    model = load_cost_model({**SPEC, "decode": decode})
    # 1.5 and 2.5 ns
    assert [model.iteration_ns(Batch(n, n, 1, 1)) for n in (1, 2)] == [2, 2]
    assert model.decode_run_ns(Batch(1, 1, 1, 1), 1).tolist() == [2]


@given(
    st.lists(st.integers(1, 200_000), min_size=1, max_size=300),
    st.integers(1, 60),
    st.floats(0, 1e5),
    st.floats(0, 1e3),
    st.floats(0, 10),
)
def test_a_run_equals_its_iterations_one_by_one(
    contexts: list[int], iterations: int, base: float, sequence: float, context: float
) -> None:
    decode = {"base_us": base, "per_sequence_us": sequence, "per_context_token_us": context}
    model = load_cost_model({**SPEC, "decode": decode})
    batch = Batch(len(contexts), sum(contexts), max(contexts), min(contexts))
    run = model.decode_run_ns(batch, iterations)
    assert run.tolist() == [model.iteration_ns(batch.after(i)) for i in range(iterations)]


def test_what_lies_outside_the_measured_range_is_counted() -> None:
    limits = {"num_decodes": 4, "decode_context": 100, "tokens": 64, "cached": 0}
    model: Any = load_cost_model({**SPEC, "range": limits})
    assert model.outside(Batch(2, 200, 100, 100)) == 0
    # sums 190, 192, ... 208: those above 2*100 are outside, four of ten
    assert model.outside(Batch(2, 190, 95, 95), 10) == 4
    assert model.outside(Batch(5, 10, 2, 2), 3) == 3
    assert model.outside(Batch(chunks=(Chunk(64, 0),))) == 0
    assert model.outside(Batch(chunks=(Chunk(65, 0),))) == 1
    assert model.outside(Batch(chunks=(Chunk(1, 1),))) == 1


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"kind": "coeficients"}, "unknown cost model kind 'coeficients': did you mean 'coefficients'?"),
        ({"decode": {**SPEC["decode"], "base": 1}}, "decode: unknown key 'base': did you mean 'base_us'?"),
        ({"decode": {"base_us": 1}}, "decode: per_sequence_us is missing; it must be a number"),
        ({"mixed": {**SPEC["mixed"], "base_us": -1}}, "mixed: base_us must not be negative, but is -1"),
        ({"mixed": {**SPEC["mixed"], "base_us": "5ms"}}, "mixed: base_us must be a number, not '5ms'"),
        ({"mixed": None}, "mixed: must be a mapping of keys to values, not None"),
    ],
)
def test_a_bad_spec_is_named_by_key_and_value(change: dict[str, Any], said: str) -> None:
    with pytest.raises(UserError) as caught:
        load_cost_model({**SPEC, **change})
    assert said in str(caught.value)


def test_a_missing_file_is_answered_with_the_shipped_ones() -> None:
    with pytest.raises(ProfileError, match=r"no cost model file 'nope\.yaml'; shipped: .*yi-34b-tp2"):
        load_cost_model({"file": "nope.yaml"})
