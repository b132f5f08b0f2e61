"""What `import sim` takes and gives, and what it says of what it cannot take."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import sim


def test_a_path_or_a_mapping_is_as_good_as_a_loaded_config(tiny: Path) -> None:
    loaded = sim.load_config("config.yaml")
    by_hand = sim.run(loaded).summary["ttft_s"]
    for config in ("config.yaml", Path("config.yaml"), loaded.to_dict()):
        assert sim.run(config).summary["ttft_s"] == by_hand
    assert sim.compare("config.yaml", "stall_free")["policy"].tolist() == ["stall_free"]
    assert sim.bounds("config.yaml") == sim.bounds(loaded)


def test_what_is_no_config_is_said(tiny: Path) -> None:
    with pytest.raises(sim.UserError, match=r"^a config is what sim.load_config returns, .*; got int$"):
        sim.run(5)  # type: ignore[arg-type]
    with pytest.raises(sim.UserError, match=r"^nowhere.yaml: no such config file$"):
        sim.run("nowhere.yaml")


@pytest.mark.parametrize("policies", ["static", ["static"], {"name": "static"}])
def test_one_policy_needs_no_list(tiny: Path, policies: Any) -> None:
    assert sim.compare("config.yaml", policies)["policy"].tolist() == ["static"]


def test_a_comparison_of_nothing_is_refused(tiny: Path) -> None:
    with pytest.raises(sim.UserError, match=r"^policies: name at least one; allowed: .*stall_free"):
        sim.compare("config.yaml", policies=[])
    with pytest.raises(sim.UserError, match=r"^seeds: must be at least 1, got 0$"):
        sim.compare("config.yaml", "static", seeds=0)


def test_token_times_are_those_of_the_metrics(tiny: Path) -> None:
    result = sim.run(sim.load_config("config.yaml", {"engine.token_times": True}))
    rows = result.requests.set_index("request_id")
    assert list(result.token_times) == list(rows.index) == ["0", "1", "2"]
    for name, times in result.token_times.items():
        assert len(times) == rows["output_tokens"][name]
        assert times == sorted(times)
        assert (times[0], times[-1]) == (rows["first_token_s"][name], rows["finish_s"][name])


def test_token_times_that_were_not_kept_are_said(tiny: Path) -> None:
    with pytest.raises(sim.UserError, match=r"only with engine\.token_times: true$"):
        sim.run("config.yaml").token_times  # noqa: B018


def test_the_budget_that_auto_came_to_is_a_notice_and_so_is_one_below_the_slots(tiny: Path) -> None:
    asked = {"policy.token_budget": "auto", "slo.tbt_s": 0.01}
    result = sim.run(sim.load_config("config.yaml", asked))
    budget = result.config["policy"]["token_budget"]
    assert result.summary["notices"] == [f"stall_free: token_budget auto came to {budget}"]
    tight = sim.run(sim.load_config("config.yaml", asked | {"policy.max_batch_size": 5000}))
    budget = tight.config["policy"]["token_budget"]
    assert budget < 5000
    assert tight.summary["notices"][1].startswith(
        f"stall_free: token_budget {budget} is below max_batch_size 5000"
    )
    assert not sim.run("config.yaml").summary["notices"]


def test_planning_ahead_is_refused_under_its_own_key(tiny: Path) -> None:
    Path("mine.py").write_text(
        "class Lesson:\n"
        "    def __init__(self, token_budget, max_batch_size): ...\n"
        "    def add_request(self, request): ...\n"
        "    def schedule_next_batch(self): return []\n"
    )
    policy = {"path": "mine.py", "name": "Lesson", "token_budget": 4, "max_batch_size": 4}
    config = sim.load_config("config.yaml", {"policy": policy, "replica.async_scheduling": True})
    with pytest.raises(sim.UserError, match=r"replica\.async_scheduling=true: true is not possible with"):
        sim.run(config)
