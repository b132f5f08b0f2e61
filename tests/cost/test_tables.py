"""Tables in cost model files, tables of experts, and sampling the optional operator tables."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from sim.core.batch import Batch, Chunk
from sim.core.errors import ProfileError
from sim.cost import load_cost_model, load_gpu, load_model
from sim.cost.calibration import Options, calibrate
from sim.cost.calibration.aiconfigurator import Sampler, published_config, sampled_tables, unseen_rows
from sim.cost.calibration.heldout import error_table, predict

TABLES: dict[str, Any] = {
    "decode": {"num_decodes": [1, 4], "time_us": [1000, 1300]},
    "mixed": {"tokens": [1, 101], "time_us": [1000, 3000]},
    "decode_attention": {"num_decodes": [1, 2], "context": [100, 200], "time_us": [[10, 20], [20, 40]]},
    "prefill_attention": {"tokens": [1, 101], "cached": [0, 100], "time_us": [[5, 10], [105, 210]]},
}
SPEC = {"kind": "profile", "tables": TABLES, "model": "llama-3.1-8b", "gpu": "h100-80gb"}


def test_stored_tables_by_hand() -> None:
    model = load_cost_model(SPEC)
    # 2 decodes at 150: 1000 + 100, and 30
    assert model.iteration_ns(Batch(2, 300, 150, 150)) == 1_130_000
    # chunk of 51 over 50 cached: 2000; a quarter of each corner 5, 10, 105, 210
    assert model.iteration_ns(Batch(chunks=(Chunk(51, 50),))) == 2_082_500
    # with 2 decodes beside it the layers compute 53 tokens, and attentions add up
    assert model.iteration_ns(Batch(2, 300, 150, 150, (Chunk(51, 50),))) == 2_040_000 + 82_500 + 30_000


@pytest.mark.parametrize(
    ("section", "content", "said"),
    [
        ("decode", {"num_decodes": [1, 4], "time_us": [1, -3]}, "times must be above 0; entry (1,) is -3"),
        ("decode", {"num_decodes": [4, 1], "time_us": [1, 3]}, "num_decodes must increase, but 1 follows 4"),
        ("decode", {"num_decodes": [1], "time_us": [1, 3]}, "time_us: must hold 1 numbers, not 2"),
        ("mixed", {"token": [1]}, "mixed: unknown key 'token': did you mean 'tokens'?"),
        ("mixed", None, "mixed: must be a mapping of keys to values"),
    ],
)
def test_a_broken_table_is_named(section: str, content: Any, said: str) -> None:
    with pytest.raises(ProfileError) as caught:
        load_cost_model({**SPEC, "tables": {**TABLES, section: content}})
    assert said in str(caught.value)


def test_experts_are_charged_by_how_many_have_work(small_profile: Path) -> None:
    """One token has work for 8 of 128 experts, many tokens for all."""
    dense = small_profile / "dense.csv"
    mlp = ("gate_up_proj", "act_fn", "down_proj")
    kept = [line for line in dense.read_text().splitlines() if not line.startswith(mlp)]
    dense.write_text("\n".join(kept) + "\n")
    rows = [f"{tokens},{active},{10 * active}" for tokens in (1, 64, 128) for active in (8, 64, 128)]
    (small_profile / "moe.csv").write_text("\n".join(["tokens,activated_experts,time_us", *rows]) + "\n")
    spec = {"kind": "profile", "path": str(small_profile), "model": "qwen3-30b-a3b", "host_overhead_us": 0}
    model: Any = load_cost_model(spec)
    layers = 48
    without_experts = (2 + layers * 5) * 2.1 + 11
    first = model.tables.decode_us.at(1)
    assert first == pytest.approx(without_experts + layers * 80)
    others = (2 + layers * 5) * (2 + 0.1 * 128)
    all_active = 128 * (1 - (1 - 8 / 128) ** 128)
    assert model.tables.mixed_us.at(128) == pytest.approx(others + layers * 10 * all_active)


class LinearEngine:
    """Stands in for the optional package: times that are linear in everything, in milliseconds."""

    def run_static_per_op(self, batch_size: int, isl: int, osl: int, prefix: int = 0) -> Any:
        new = isl - prefix
        context = [
            ("context_gemm", 1 + 0.01 * new),
            ("context_attention", 0.1 + 1e-3 * new + 1e-6 * new * prefix),
        ]
        decode = [
            ("generation_gemm", 1 + 0.01 * batch_size),
            ("generation_attention", 1e-6 * batch_size * (isl + 1)),
        ]
        return context, decode

    def mixed_step_breakdown(self, new: int, decodes: int, isl: int, osl: int) -> Any:
        return 0.0, 1 + 0.01 * (new + decodes), 0.0, 0.0


def test_sampled_tables_predict_what_lies_between_their_points() -> None:
    sample = Sampler(LinearEngine())
    tables = sampled_tables(sample, 32768)
    hardware = {"model": "llama-3.1-8b", "gpu": "h100-80gb"}
    model = load_cost_model({"kind": "profile", "tables": tables, **hardware})
    errors = error_table(predict(model, unseen_rows(sample, 32768)))
    assert set(errors) == {"decode", "prefill", "mixed"}
    assert all(found["worst_pct"] < 0.1 for found in errors.values())


def test_the_optional_package_is_named_where_it_is_missing() -> None:
    try:
        import aiconfigurator_core  # noqa: F401
    except ImportError:
        with pytest.raises(ProfileError, match=r"aiconfigurator-core is not installed; pip install"):
            calibrate(["aiconfigurator"], Options(model="llama-3.1-8b", gpu="h100-80gb"))
    with pytest.raises(ProfileError, match="give --gpu"):
        calibrate(["aiconfigurator"], Options(model="llama-3.1-8b"))


@pytest.mark.extras
def test_the_optional_package_gives_plausible_times() -> None:
    pytest.importorskip("aiconfigurator_core", reason="needs the extra aiconfigurator")
    result = calibrate(["aiconfigurator"], Options(model="llama-3.1-8b", gpu="h100-80gb"))
    assert 4e6 < result.model.iteration_ns(Batch(1, 1000, 1000, 1000)) < 12e6
    assert all(found["median_pct"] < 2 for found in result.spec["errors"]["held_out"].values())


def test_the_config_for_the_optional_package_names_the_family() -> None:
    assert published_config(load_model("qwen3-30b-a3b"))["num_experts"] == 128
    assert published_config(load_model("qwen3-32b"))["model_type"] == "qwen3"
    assert published_config(load_model("llama-2-70b"))["architectures"] == ["LlamaForCausalLM"]
    assert load_gpu("a40-48gb").fp8_tflops is None
