"""Reproductions point the way the papers do: laws, at reduced size; docs/reproductions.md has the numbers."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from sim.core.errors import UserError
from sim.reproduce import REPRODUCTIONS, Outcome, reproduce
from sim.reproduce.phases import OBJECTIVES
from sim.reproduce.static_batching import expected_waste

Reproduced = Callable[[str], Outcome]


@pytest.fixture(scope="module")
def reproduced(tmp_path_factory: pytest.TempPathFactory) -> Reproduced:
    """A reproduction at reduced size by its name, run once; without the Azure files."""
    empty = tmp_path_factory.mktemp("no_traces")
    return cache(lambda name: reproduce(name, quick=True, traces=empty))


@pytest.mark.parametrize("name", REPRODUCTIONS)
def test_every_reproduction_has_findings_a_figure_and_the_paper_beside_them(
    name: str, reproduced: Reproduced
) -> None:
    outcome = reproduced(name)
    assert outcome.name == name
    assert outcome.figures
    assert any(finding.paper for finding in outcome.findings)
    assert all(np.isfinite(finding.ours.mean) for finding in outcome.findings)
    quantities = [finding.quantity for finding in outcome.findings]
    assert len(set(quantities)) == len(quantities)


def test_an_unknown_name_is_answered_with_the_nearest_one() -> None:
    with pytest.raises(UserError, match=r"unknown reproduction 'abblation'.*ablation"):
        reproduce("abblation")


# Sarathi-Serve, Figure 1


def test_generation_stalls_under_prefill_first_and_not_under_stall_free(reproduced: Reproduced) -> None:
    stalls = reproduced("generation_stall").tables["stalls"].set_index("policy")
    assert (stalls.loc["stall_free", "stalls"] == 0).all()
    assert (stalls.loc["prefill_first", "stalls"] >= 10).all()
    assert (stalls.loc["prefill_first", "longest_stall_s"] > 2).all()


def test_the_longest_wait_for_a_token_is_at_least_ten_times_longer_under_prefill_first(
    reproduced: Reproduced,
) -> None:
    stalls = reproduced("generation_stall").tables["stalls"].pivot(index="seed", columns="policy")
    assert (stalls["tbt_max_s"]["prefill_first"] >= 10 * stalls["tbt_max_s"]["stall_free"]).all()


def test_both_serve_the_same_work_in_about_the_same_time(reproduced: Reproduced) -> None:
    makespan = (
        reproduced("generation_stall").tables["stalls"].pivot(index="seed", columns="policy")["makespan_s"]
    )
    assert makespan["stall_free"].to_numpy() == pytest.approx(makespan["prefill_first"].to_numpy(), rel=0.1)


def test_stalls_are_runs_of_the_plots_that_every_run_has(reproduced: Reproduced) -> None:
    assert [run.name for run in reproduced("generation_stall").runs] == ["prefill_first", "stall_free"]


# Sarathi-Serve, ablation


@pytest.fixture
def ablation(reproduced: Reproduced) -> pd.DataFrame:
    """One row a workload and seed; columns (metric, policy)."""
    return reproduced("ablation").tables["ablation"].pivot(index=["workload", "seed"], columns="policy")


@pytest.mark.parametrize("budget", ["512", "1024"])
def test_hybrid_batches_without_chunks_have_a_much_worse_tbt_tail(
    ablation: pd.DataFrame, budget: str
) -> None:
    tbt = ablation["tbt_p99_s"]
    assert (tbt["hybrid only"] > 1.5 * tbt[f"both {budget}"]).all()


@pytest.mark.parametrize("budget", ["512", "1024"])
def test_chunks_without_hybrid_batches_wait_longer_for_the_first_token(
    ablation: pd.DataFrame, budget: str
) -> None:
    ttft = ablation["ttft_p50_s"]
    assert (ttft[f"chunked only {budget}"] > ttft[f"both {budget}"]).all()
    tbt = ablation["tbt_p99_s"]
    assert (tbt[f"chunked only {budget}"] > tbt[f"both {budget}"]).all()


def test_less_load_never_lengthens_the_wait(reproduced: Reproduced) -> None:
    rates = reproduced("ablation").tables["rates"]
    ttft = rates.pivot(index=["workload", "policy", "seed"], columns="rate_per_s", values="ttft_p50_s")
    for _, rows in ttft.groupby(level="workload"):
        levels = rows.dropna(axis=1)
        assert (np.diff(levels.to_numpy(), axis=1) > 0).mean() > 0.9


# Sarathi-Serve, cost of prefill


def test_chunks_cost_more_the_smaller_they_are_and_hardly_anything_at_2048(reproduced: Reproduced) -> None:
    table = (
        reproduced("prefill_cost")
        .tables["chunk_overhead"]
        .pivot(index="prompt_tokens", columns="chunk", values="over_whole")
    )
    assert (table["512"] > table["1024"]).all()
    assert (table["1024"] > table["2048"]).all()
    assert (table >= 1).all(axis=None)
    assert (table["2048"] < 1.1).all()


def test_a_prompt_in_chunks_takes_as_long_as_its_chunks_one_by_one(reproduced: Reproduced) -> None:
    from sim.core.batch import Batch, Chunk
    from sim.cost import load_cost_model

    model = load_cost_model({"file": "a100-80gb-yi-34b-tp2.yaml"}, "test")
    sizes = (512, 512, 512, 511)
    one_by_one = sum(model.iteration_ns(Batch(chunks=(Chunk(n, 512 * i),))) for i, n in enumerate(sizes))
    table = reproduced("prefill_cost").tables["chunk_overhead"]
    found = table[(table["prompt_tokens"] == 2047) & (table["chunk"] == "512")]["prefill_s"].item()
    assert found == pytest.approx(one_by_one / 1e9, rel=1e-9)


def test_a_whole_prompt_beside_decodes_costs_them_tens_of_gaps_and_a_chunk_a_few(
    reproduced: Reproduced,
) -> None:
    beside = reproduced("prefill_cost").tables["beside_decodes"]
    for _, model in beside.groupby("model"):
        assert model["whole_over_alone"].max() > 28.3
        assert model["chunk_over_alone"].max() < 10
        few = model[model["decodes"] == model["decodes"].min()].sort_values("prompt_tokens")
        assert few["whole_over_alone"].is_monotonic_increasing


# Orca


def test_the_more_outputs_differ_the_more_iteration_level_batching_gains(reproduced: Reproduced) -> None:
    spread = reproduced("static_batching").tables["spread"]
    rate = spread.pivot(index=["spread", "seed"], columns="policy", values="requests_per_s")
    ratio = (rate["continuous"] / rate["static"]).groupby(level="spread").mean()
    assert ratio.is_monotonic_increasing
    assert ratio.iloc[0] < 1.5 < 2 < ratio.iloc[-1]


def test_slots_of_static_idle_as_order_statistics_say(reproduced: Reproduced) -> None:
    spread = reproduced("static_batching").tables["spread"]
    idle = spread[spread["policy"] == "static"].groupby("spread")["idle_share"].mean()
    for value, share in idle.items():
        expected = expected_waste(float(str(value)), 32)
        assert share == pytest.approx(expected["idle_share"], abs=0.05)
    assert expected_waste(0.0, 32) == {"idle_share": 0.0, "ratio": 1.0}


def test_continuous_keeps_its_slots_busy_while_anyone_waits(reproduced: Reproduced) -> None:
    spread = reproduced("static_batching").tables["spread"]
    assert (spread[spread["policy"] == "continuous"]["idle_share"] < 0.02).all()


def test_at_equal_latency_continuous_serves_several_times_the_rate(reproduced: Reproduced) -> None:
    findings = reproduced("static_batching").findings
    assert findings[-1].paper == "36.9 x"
    assert findings[-1].ours.mean > 2


# Splitwise


def test_the_newer_gpu_gains_more_in_the_prompt_phase_than_in_the_token_phase(reproduced: Reproduced) -> None:
    outcome = reproduced("phases")
    prefill = outcome.finding("prefill of 2,048 tokens, H100 over A100").ours.mean
    token = outcome.finding("a token of each of 1 requests, H100 over A100").ours.mean
    assert prefill < token < 1


@pytest.mark.parametrize("gpu", ["A100", "H100"])
def test_prompts_cost_time_in_proportion_and_batches_hardly_any(gpu: str, reproduced: Reproduced) -> None:
    tables = reproduced("phases").tables
    prefill = tables["prefill"][tables["prefill"]["gpu"] == gpu].set_index("prompt_tokens")["ours_ms"]
    token = tables["token"][tables["token"]["gpu"] == gpu].set_index("batch")["ours_ms"]
    assert prefill[8192] > 4 * prefill[2048]
    assert token[64] < 2 * token[1]


@pytest.mark.parametrize(("table", "most"), [("prefill", 0.45), ("token", 0.1)])
def test_the_cost_models_are_near_the_medians_they_were_fitted_to(
    table: str, most: float, reproduced: Reproduced
) -> None:
    rows = reproduced("phases").tables[table]
    errors = (rows["ours_ms"] / rows["measured_ms"] - 1).abs()
    assert errors.max() < most
    assert errors.median() < most / 3


def test_even_gaps_are_what_chunks_are_for(reproduced: Reproduced) -> None:
    hours = reproduced("phases").tables["hours"]
    rates = hours.pivot(index=["hour", "rate_scale"], columns="policy")
    even, mean = (rates[objective] for objective in OBJECTIVES)
    assert (even["stall_free 1024"] > even["prefill_first"]).all()
    assert (even["stall_free 1024"] > even["static"]).all()
    assert (mean["prefill_first"] >= even["prefill_first"]).all()


def test_an_hour_whose_file_is_not_there_is_left_out_and_the_other_is_a_sample(
    reproduced: Reproduced,
) -> None:
    outcome = reproduced("phases")
    assert set(outcome.tables["hours"]["hour"]) == {"conv"}
    assert "conv: the shipped sample" in outcome.notes
    assert any("AzureLLMInferenceTrace_code.csv was not found" in note for note in outcome.notes)


def test_an_hour_is_found_in_the_folder_of_traces(tmp_path: Path) -> None:
    rows = [f"2023-11-16 18:00:{second:02d}.0000000,{500 + second},{10 + second}" for second in range(40)]
    text = "TIMESTAMP,ContextTokens,GeneratedTokens\n" + "\n".join(rows)
    (tmp_path / "AzureLLMInferenceTrace_code.csv").write_text(text)
    hours = reproduce("phases", quick=True, traces=tmp_path).tables["hours"]
    assert set(hours["hour"]) == {"conv", "code"}
    assert hours[hours["hour"] == "code"]["requests_per_s"].max() == pytest.approx(0.6)
