"""A config as written: paths, overrides, and the resolved form that is saved."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

import policies  # noqa: F401  registers the built-in ones
import sim
from sim.api.comparison import line_up
from sim.api.inputs import build_inputs
from sim.api.settings import engine_settings
from sim.config.source import parse_value, read_source
from sim.core.registry import POLICIES
from tests.conftest import TINY_CONFIG


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("1", 1),
        ("1e-3", 0.001),
        ("2E3", 2000.0),
        ("0.5", 0.5),
        ("true", True),
        ("null", None),
        ("auto", "auto"),
        ("1e", "1e"),
        ("[1, a]", [1, "a"]),
        ("{a: 1}", {"a": 1}),
        ("", None),
    ],
)
def test_override_values_are_yaml(text: str, value: object) -> None:
    parsed = parse_value(text)
    assert parsed == value and type(parsed) is type(value)


def test_an_override_changes_one_key_and_leaves_the_file_alone(tiny: Path) -> None:
    before = (tiny / "config.yaml").read_text()
    config = sim.load_config("config.yaml", {"policy.token_budget": 64, "slo.ttft_s": 2})
    assert config.policy.parameters["token_budget"] == 64
    assert config.policy.parameters["max_batch_size"] == 4
    assert config.slo.ttft_s == 2.0
    assert (tiny / "config.yaml").read_text() == before


def test_a_config_may_be_a_mapping(tiny: Path) -> None:
    config = sim.load_config(TINY_CONFIG, {"policy.token_budget": 64})
    assert config.policy.parameters["token_budget"] == 64
    assert TINY_CONFIG["policy"]["token_budget"] == 128


def test_another_policy_by_override_keeps_the_limits_it_shares(tiny: Path) -> None:
    config = sim.load_config("config.yaml", {"policy.name": "continuous"})
    assert config.policy.name == "continuous"
    assert config.policy.parameters["max_batch_size"] == 4
    assert "token_budget" not in config.policy.parameters


def test_a_parameter_overridden_for_another_policy_must_be_its_own(tiny: Path) -> None:
    with pytest.raises(sim.UserError, match=r"override policy.token_budget=64: unknown key"):
        sim.load_config("config.yaml", {"policy.name": "continuous", "policy.token_budget": 64})


def test_a_path_is_taken_from_the_current_folder_first_then_from_beside_the_config(
    tiny: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    elsewhere = tiny / "elsewhere"
    elsewhere.mkdir()
    monkeypatch.chdir(elsewhere)
    source = read_source(tiny / "config.yaml")
    assert source.find("trace.csv").resolve() == tiny / "trace.csv"
    (elsewhere / "trace.csv").write_text("")
    assert source.find("trace.csv").resolve() == elsewhere / "trace.csv"


def test_shipped_files_are_found_from_anywhere(tiny: Path) -> None:
    found = read_source(tiny / "config.yaml").find("traces/azure_conv_sample.csv")
    assert found.is_file()


def test_the_resolved_config_has_every_default_and_makes_the_same_run(tiny: Path) -> None:
    first = sim.run(sim.load_config("config.yaml"))
    resolved = yaml.safe_load((first.save("out", plots=False) / "config.yaml").read_text())
    assert resolved == first.config
    assert resolved["kv_cache"]["watermark"] == 0.0
    again = sim.run(sim.load_config("out/config.yaml"))
    assert again.config == first.config
    assert again.requests.equals(first.requests)


def test_num_blocks_auto_is_resolved_in_what_is_saved(tiny: Path) -> None:
    replica = {"model": "llama-3.1-8b", "gpu": "a100-80gb"}
    config = sim.load_config("config.yaml", {"kv_cache.num_blocks": "auto", "replica": replica})
    blocks = sim.run(config).config["kv_cache"]["num_blocks"]
    assert isinstance(blocks, int) and blocks > 1000


def test_unlimited_kv_is_saved_as_such(tiny: Path) -> None:
    config = sim.load_config("config.yaml", {"kv_cache.num_blocks": "unlimited"})
    assert sim.run(config).config["kv_cache"]["num_blocks"] == "unlimited"


def test_a_synthetic_trace_depends_on_the_seed_alone(tiny: Path) -> None:
    synthetic = {"num_requests": 20, "arrivals": {"rate_per_s": 5}, "prompt_tokens": 100, "output_tokens": 10}
    runs = [
        sim.run(sim.load_config("config.yaml", {"trace": {"synthetic": synthetic}, "seed": seed}))
        for seed in (0, 0, 1)
    ]
    assert runs[0].requests.equals(runs[1].requests)
    assert not runs[0].requests.equals(runs[2].requests)


def test_an_error_in_a_synthetic_trace_names_its_key(tiny: Path) -> None:
    with pytest.raises(sim.UserError) as raised:
        sim.load_config("config.yaml", {"trace": {"synthetic": {"num_requsts": 20}}})
    assert "trace.synthetic.num_requsts: unknown key: did you mean 'num_requests'?" in str(raised.value)


def test_file_options_are_refused_for_a_synthetic_trace(tiny: Path) -> None:
    with pytest.raises(sim.UserError, match="thin is for a trace file, not for synthetic"):
        sim.load_config("config.yaml", {"trace": {"synthetic": {"num_requests": 2}, "thin": 0.5}})


@pytest.mark.parametrize("name", list(POLICIES))
def test_the_config_of_each_policy_has_the_same_trace_and_limits(root: Path, name: str) -> None:
    config = sim.load_config(root / "configs" / f"{name}.yaml")
    reference = sim.load_config(root / "configs" / "quickstart.yaml")
    assert config.policy.name == name
    assert config.policy.parameters["max_batch_size"] == reference.policy.parameters["max_batch_size"]
    for section in ("trace", "replica", "cost_model", "kv_cache", "slo"):
        assert getattr(config, section) == getattr(reference, section)


def test_every_shipped_config_is_valid(root: Path) -> None:
    for path in sorted((root / "configs").glob("*.yaml")):
        assert sim.load_config(path).name == path.stem


def test_order_aging_victim_and_swap_reach_the_engine(tiny: Path) -> None:
    overrides = {
        "policy.order": "earliest_deadline",
        "policy.aging_s": 0.5,
        "slo": {"ttft_s": 1.0, "classes": {"gold": {"ttft_s": 0.1}}},
        "kv_cache": {
            "num_blocks": 100,
            "victim": "longest",
            "preemption": "swap",
            "swap_bandwidth_gb_s": 32,
        },
        "replica": {"model": "llama-2-7b"},
    }
    config = sim.load_config("config.yaml", overrides)
    settings = engine_settings(config, build_inputs(config), None)
    assert settings.victim == "longest"
    assert settings.ordering.name == "earliest_deadline"
    assert settings.ordering.aging_ns == 500_000_000
    assert settings.ordering.ttft_slo_ns == {None: 1_000_000_000, "gold": 100_000_000}
    # 16 tokens of 2 (K and V) * 32 layers * 4096 wide * 2 bytes, at 32 bytes a nanosecond
    assert settings.swap_ns_per_block == 16 * 2 * 32 * 4096 * 2 // 32


def test_compared_policies_share_order_and_oracle(tiny: Path) -> None:
    config = sim.load_config("config.yaml", {"policy.order": "priority", "policy.oracle": True})
    contenders = line_up(config, ["static", {"name": "continuous", "order": "fcfs"}])
    assert [c.config.policy.order for c in contenders] == ["priority", "fcfs"]
    assert all(c.config.policy.oracle for c in contenders)


def test_the_steady_window_can_be_stated(tiny: Path) -> None:
    summary = sim.run(sim.load_config("config.yaml", {"output.steady_window_s": [0, 0.02]})).summary
    steady = summary["steady_throughput"]
    assert (steady["window_start_s"], steady["window_end_s"]) == (0.0, 0.02)
