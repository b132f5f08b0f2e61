"""Small measured runs, made by the simulator itself: then every error is known to be zero."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pandas as pd
import yaml

COST = {
    "kind": "coefficients",
    "decode": {"base_us": 5000, "per_sequence_us": 10, "per_context_token_us": 0.1},
    "mixed": {
        "base_us": 6000,
        "per_token_us": 20,
        "per_sequence_us": 10,
        "per_context_token_us": 0.2,
        "per_attention_pair_us": 0.001,
    },
}
SETTINGS = {
    "model": "meta-llama/Llama-3.1-8B",
    "engine": "vllm",
    "engine_version": "0.10.0",
    "max_num_seqs": 2,
    "max_num_batched_tokens": 128,
    "num_gpu_blocks": 1001,
}
REQUESTS = ((0.0, 200, 5), (0.01, 50, 20), (0.02, 300, 1), (0.021, 16, 2))
"""(arrival_s, prompt_tokens, output_tokens)"""


def write_cost(folder: Path) -> Path:
    path = folder / "cost.yaml"
    path.write_text(yaml.safe_dump(COST))
    return path


def write_run(folder: Path, settings: dict[str, Any] | None = None, **columns: Any) -> Path:
    """A run folder whose times are placeholders, or `columns`."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "run.json").write_text(json.dumps({**SETTINGS, **(settings or {})}))
    table: dict[str, Any] = {
        "request_id": [f"r{row}" for row in range(len(REQUESTS))],
        "arrival_s": [arrival for arrival, _, _ in REQUESTS],
        "prompt_tokens": [prompt for _, prompt, _ in REQUESTS],
        "output_tokens": [output for _, _, output in REQUESTS],
        "first_token_s": [1.0] * len(REQUESTS),
        "last_token_s": [1.0 if output == 1 else 2.0 for _, _, output in REQUESTS],
    }
    pd.DataFrame(table | columns).to_csv(folder / "requests.csv", index=False)
    return folder


def edit(path: Path, old: str, new: str) -> None:
    text = path.read_text()
    assert old in text
    path.write_text(text.replace(old, new, 1))
