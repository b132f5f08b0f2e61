"""Profiles for the tests: a small one written on the spot, and the measured ones where they are."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

SHARED_PROFILES = Path(__file__).resolve().parents[3] / "shared" / "data" / "profiles"

Write = Callable[[str, str], Path]

ATTENTION_HEADER = "prefill_chunk,kv_prefill,n_decode,kv_decode,time_us"
TOKENS = (1, 64, 128)
SEQUENCES = (1, 64)
CHUNKS = (16, 64)
CACHED = (0, 64)
DECODES = (1, 2, 4)
CONTEXTS = (16, 64)
DENSE_LAYERS = (
    *("embedding", "final_layernorm", "layernorm"),
    *("qkv_proj", "rotary_emb", "o_proj", "gate_up_proj", "act_fn", "down_proj"),
)


def dense_us(tokens: int) -> float:
    """One call of any dense layer of the small profile."""
    return 2.0 + 0.1 * tokens


def sequence_us(sequences: int) -> float:
    """One call of lm_head or sampler of the small profile."""
    return 5.0 + 0.5 * sequences


def attention_us(chunk: int, cached: int, decodes: int, context: int) -> float:
    """One layer's attention of the small profile: linear on every axis between its points."""
    return 3.0 + 0.5 * chunk + 0.01 * chunk * cached + 0.02 * decodes * context


def small_files() -> dict[str, str]:
    """The CSV files of the small profile by name."""
    dense = [f"{layer},{t},{dense_us(t)}" for layer in DENSE_LAYERS for t in TOKENS]
    heads = [f"{layer},{s},{sequence_us(s)}" for layer in ("lm_head", "sampler") for s in SEQUENCES]
    points = [(0, 0, n, k) for n in DECODES for k in CONTEXTS]
    points += [(c, p, 0, 0) for c in CHUNKS for p in CACHED]
    points += [(c, p, n, k) for c in CHUNKS for p in CACHED for n in DECODES for k in CONTEXTS]
    attention = [f"{c},{p},{n},{k},{attention_us(c, p, n, k)}" for c, p, n, k in points]
    return {
        "dense.csv": "\n".join(["layer,tokens,time_us", *dense]) + "\n",
        "per_sequence.csv": "\n".join(["layer,sequences,time_us", *heads]) + "\n",
        "attention.csv": "\n".join([ATTENTION_HEADER, *attention]) + "\n",
        "meta.yaml": "model: meta-llama/Llama-3.1-8B\n"
        "gpu: NVIDIA RTX PRO 6000 Blackwell Server Edition\n",
    }


@pytest.fixture
def small_profile(tmp_path: Path) -> Path:
    """A folder of layer times that are straight lines between their points; Llama-3.1-8B, TP 1."""
    folder = tmp_path / "small-tp1"
    folder.mkdir()
    for name, text in small_files().items():
        (folder / name).write_text(text)
    return folder


@pytest.fixture(params=["rtxpro6000-llama-3.1-8b-tp1", "rtxpro6000-qwen3-32b-tp2"])
def measured_profile(request: pytest.FixtureRequest) -> Path:
    """The measured folders; skips where they are absent."""
    folder = SHARED_PROFILES / str(request.param)
    if not folder.is_dir():
        pytest.skip(f"measured profile {request.param} is not there (../shared/data/profiles)")
    return folder
