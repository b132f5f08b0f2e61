"""Calibration: known coefficients come back, errors are of rows never seen, files load again."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from sim.core.batch import Batch, Chunk
from sim.core.errors import ProfileError
from sim.cost import load_cost_model
from sim.cost.calibration import Options, calibrate, write_cost_file
from sim.cost.calibration.fit import fit_coefficients
from sim.cost.calibration.heldout import held_out_predictions
from sim.cost.calibration.rows import MeasuredRow, batch_of

BATCHES = [
    *(batch_of(n, n * context) for n in (1, 4, 16, 64) for context in (128, 1024, 4096)),
    *(batch_of(0, 0, 1, tokens, cached) for tokens in (64, 256, 1024, 2048) for cached in (0, 512, 2048)),
    *(
        batch_of(n, n * context, 1, tokens)
        for n in (4, 32)
        for context in (256, 2048)
        for tokens in (128, 512, 1536)
    ),
]


def spec(decode: list[float], mixed: list[float]) -> dict[str, Any]:
    names = ("base_us", "per_sequence_us", "per_context_token_us")
    mixed_names = ("base_us", "per_token_us", *names[1:], "per_attention_pair_us")
    return {
        "kind": "coefficients",
        "decode": dict(zip(names, decode, strict=True)),
        "mixed": dict(zip(mixed_names, mixed, strict=True)),
    }


def rows_of(model: Any) -> list[MeasuredRow]:
    return [MeasuredRow(batch, model.iteration_ns(batch) / 1000, "") for batch in BATCHES]


@settings(max_examples=25, deadline=None)
@given(
    st.tuples(st.floats(1000, 50_000), st.floats(1, 500), st.floats(0.01, 1)),
    st.tuples(
        *(st.floats(0, 5000), st.floats(10, 200), st.floats(0, 300)),
        *(st.floats(0.01, 1), st.floats(0.001, 0.02)),
    ),
)
def test_known_coefficients_are_recovered(decode: Any, mixed: Any) -> None:
    """Law: a table made by a two-regime model is fitted by that model."""
    made = load_cost_model(spec(list(decode), [decode[0] + mixed[0], *mixed[1:]]))
    found = fit_coefficients(rows_of(made))
    for batch in BATCHES:
        assert found.iteration_ns(batch) == pytest.approx(made.iteration_ns(batch), rel=2e-3)


def test_adding_a_prefill_never_saves_time() -> None:
    """Law: the fitted form with prefill starts from no less than the decode-only one."""
    made = load_cost_model(spec([9000, 20, 0.1], [6000, 50, 10, 0.2, 0.002]))
    found = fit_coefficients(rows_of(made))
    assert found.mixed.base_us == found.decode.base_us == pytest.approx(9000, rel=1e-3)
    alone = Batch(4, 4000, 1000, 1000)
    assert found.iteration_ns(alone._replace(chunks=(Chunk(1, 0),))) > found.iteration_ns(alone)


def test_one_wrong_row_does_not_rule_the_fit() -> None:
    made = load_cost_model(spec([5000, 20, 0.1], [6000, 50, 10, 0.2, 0.002]))
    rows = rows_of(made)
    rows[5] = rows[5]._replace(time_us=rows[5].time_us * 3)
    found = fit_coefficients(rows)
    assert found.decode.base_us == pytest.approx(5000, rel=0.01)


def test_each_held_out_row_was_predicted_without_its_grid_line() -> None:
    made = load_cost_model(spec([5000, 20, 0.1], [6000, 50, 10, 0.2, 0.002]))
    seen: list[set[tuple[str, int]]] = []

    def fit(kept: Any) -> Any:
        seen.append({line for row in kept if not row.batch.chunks for line in row.lines})
        return made

    predictions = held_out_predictions(rows_of(made), fit)
    assert {p.row.kind for p in predictions} == {"decode", "prefill", "mixed"}
    everything = {line for batch in BATCHES if not batch.chunks for line in MeasuredRow(batch, 1, "").lines}
    # the first two fits leave out the two inner numbers of decodes of the decode-only rows
    assert everything - seen[0] == {("num_decodes", 4)}
    assert everything - seen[1] == {("num_decodes", 16)}


def write(path: Path, header: str, rows: list[tuple[Any, ...]]) -> Path:
    path.write_text("\n".join([header, *(",".join(map(str, row)) for row in rows)]) + "\n")
    return path


def test_the_two_simplest_tables_are_enough(tmp_path: Path) -> None:
    grid = [(n, context) for n in (1, 4, 16, 64) for context in (128, 1024, 4096)]
    decodes = [(n, context, (5000 + 20 * n + 0.1 * n * context) / 1000) for n, context in grid]
    prefills = [(t, b, (6000 + 50 * b * t) / 1000) for t in (64, 256, 1024, 4096) for b in (1, 2, 4)]
    decode = write(tmp_path / "decode.csv", "batch,context,time_ms", decodes)
    prefill = write(tmp_path / "prefill.csv", "prompt_tokens,batch,time_ms", prefills)
    result = calibrate([decode, prefill], Options())
    assert result.spec["decode"]["base_us"] == pytest.approx(5000, rel=1e-3)
    assert result.spec["mixed"]["per_token_us"] == pytest.approx(50, rel=1e-3)
    assert "beside a prefill" in result.spec["provenance"]["assumed"][0]
    assert result.spec["mixed"]["per_context_token_us"] == result.spec["decode"]["per_context_token_us"]
    # a decode's 20 us are less than the 50 that its token is charged anyway
    assert result.spec["mixed"]["per_sequence_us"] == 0


def test_decodes_at_one_context_borrow_its_cost_from_the_roofline() -> None:
    folder = Path(__file__).resolve().parents[2] / "configs" / "cost" / "measured" / "a100-80gb-yi-34b-tp2"
    hardware = Options(model="yi-34b", gpu="a100-80gb", tensor_parallel=2)
    result = calibrate([folder], hardware)
    # 60 layers * 2 * 4 heads * 128 * 2 bytes over 2039 GB/s * 0.902
    assert result.spec["decode"]["per_context_token_us"] == pytest.approx(0.0668, rel=0.01)
    assert result.spec["errors"]["all_rows"]["decode"]["median_pct"] < 5
    assert calibrate([folder], Options()).spec["decode"]["per_context_token_us"] == 0


def test_the_whole_model_table_is_read_by_hardware(tmp_path: Path) -> None:
    header = "model,hardware,prompt_size,batch_size,token_size,prompt_time,token_time,tensor_parallel"
    rows = []
    for hardware, factor in (("a100-80gb", 1.0), ("h100-80gb", 0.5)):
        for prompt, batch in ((128, 1), (512, 1), (2048, 1), (512, 4), (512, 16), (4096, 1)):
            prefill, token = factor * (10 + 0.1 * prompt * batch), factor * (8 + 0.5 * batch)
            rows += [("llama2-70b", hardware, prompt, batch, 128, prefill, token, 8)] * 2
            rows += [("llama2-70b", hardware, prompt, batch, 128, 1.1 * prefill, token, 8)]
    path = write(tmp_path / "perf.csv", header, rows)
    with pytest.raises(ProfileError, match=r"several match .*llama2-70b on h100-80gb with tensor_parallel 8"):
        calibrate([path], Options())
    result = calibrate([path], Options(model="llama-2-70b", gpu="h100-80gb"))
    # medians of three repeats; half the A100's times
    assert result.spec["mixed"]["base_us"] == pytest.approx(5000, rel=1e-3)
    assert result.spec["mixed"]["per_token_us"] == pytest.approx(50, rel=1e-3)
    assert result.spec["decode"]["base_us"] == pytest.approx(4000, rel=1e-2)


def test_a_row_that_contradicts_the_others_is_left_out_and_named(tmp_path: Path) -> None:
    rows = [(t, 1, 5 + t / 10) for t in (64, 256, 1024, 2048, 4096)] + [(8192, 1, 60)]
    prefill = write(tmp_path / "prefill.csv", "prompt_tokens,batch,time_ms", rows)
    decodes = [(n, 1000, 5 + n) for n in (1, 2, 4, 8)]
    decode = write(tmp_path / "decode.csv", "batch,context,time_ms", decodes)
    left_out = calibrate([prefill, decode], Options()).spec["provenance"]["left_out"]
    assert left_out == [
        "prefill.csv row 7 left out: prefill of 8192 over 0 cached took 60 ms, "
        "prefill of 2048 over 0 cached 209.8 ms (prefill.csv row 5)"
    ]


@pytest.mark.parametrize("measured_profile", ["rtxpro6000-llama-3.1-8b-tp1"], indirect=True)
@pytest.mark.parametrize("kind", ["coefficients", "profile", "roofline"])
def test_a_file_written_from_layer_times_loads_and_answers(
    measured_profile: Path, tmp_path: Path, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sim.cost.calibration.sources.held_out_predictions", lambda rows, fit: [])
    result = calibrate([measured_profile], Options(kind=kind))
    path = tmp_path / "made.yaml"
    write_cost_file(path, result.spec)
    model = load_cost_model({"file": str(path), "host_overhead_us": 0})
    for batch in (Batch(8, 8000, 1000, 1000), Batch(8, 8000, 1000, 1000, (Chunk(512, 100),))):
        assert model.iteration_ns(batch) == result.model.iteration_ns(batch)
    assert yaml.safe_load(path.read_text())["provenance"]["rows"] == 18308
    aims = {"coefficients": 4, "profile": 0.01, "roofline": 25}
    assert result.spec["errors"]["all_rows"]["decode"]["median_pct"] <= aims[kind]


def test_every_shipped_file_loads_with_source_licence_and_errors() -> None:
    folder = Path(__file__).resolve().parents[2] / "configs" / "cost"
    files = sorted(folder.glob("*.yaml"))
    assert len(files) >= 8
    for path in files:
        content = yaml.safe_load(path.read_text())
        assert content["provenance"]["source"] and content["provenance"]["licence"] != "not stated", path
        assert content["errors"]["held_out"], path
        model: Any = load_cost_model({"file": path.stem})
        small, large = Batch(1, 512, 512, 512), Batch(64, 64 * 512, 512, 512)
        assert 0 < model.iteration_ns(small) <= model.iteration_ns(large) < 1e9, path
        assert model.outside(small) == 0, path
        run = model.decode_run_ns(large, 20).tolist()
        assert run == [model.iteration_ns(large.after(i)) for i in range(20)], path
