"""What every test may use: the shared data folder, a tiny config, and repeatable hypothesis."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import settings

ROOT = Path(__file__).parents[1]

settings.register_profile("default", deadline=None)
settings.register_profile("ci", deadline=None, derandomize=True)
settings.load_profile("ci" if os.environ.get("CI") else "default")

os.environ.setdefault("MPLBACKEND", "Agg")


@pytest.fixture
def root() -> Path:
    """The checkout."""
    return ROOT


@pytest.fixture
def shared_data() -> Path:
    """Public measurements and traces that lie beside a developer's checkout, never in it."""
    data = ROOT.parent / "shared" / "data"
    if not data.is_dir():
        pytest.skip(f"the public data files are not here ({data.name} beside the checkout)")
    return data


TINY_CONFIG: dict[str, Any] = {
    "name": "tiny",
    "seed": 0,
    "trace": {"path": "trace.csv"},
    "replica": {"max_model_len": 4096},
    "cost_model": {
        "kind": "coefficients",
        "decode": {"base_us": 1000, "per_sequence_us": 10, "per_context_token_us": 0.1},
        "mixed": {
            "base_us": 1000,
            "per_token_us": 10,
            "per_sequence_us": 10,
            "per_context_token_us": 0.1,
            "per_attention_pair_us": 0.001,
        },
    },
    "kv_cache": {"num_blocks": 1000, "block_size": 16},
    "policy": {"name": "stall_free", "token_budget": 128, "max_batch_size": 4},
    "output": {"dir": "out", "plots": False},
}

TINY_TRACE = "arrival_s,prompt_tokens,output_tokens\n0,200,5\n0.01,50,20\n0.02,300,1\n"


@pytest.fixture
def tiny(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with config.yaml and trace.csv of three requests; it is the current folder."""
    (tmp_path / "config.yaml").write_text(yaml.safe_dump(TINY_CONFIG, sort_keys=False))
    (tmp_path / "trace.csv").write_text(TINY_TRACE)
    monkeypatch.chdir(tmp_path)
    return tmp_path
