"""Broken measurements are named by file, row and value; nothing is guessed."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from sim.core.errors import ProfileError
from sim.cost import load_cost_model
from sim.cost.calibration import Options, calibrate

Change = Callable[[list[str]], list[str]]


def edited(folder: Path, name: str, change: Change) -> str:
    """The error of loading the folder after `change` to the lines of one of its files."""
    path = folder / name
    path.write_text("\n".join(change(path.read_text().splitlines())) + "\n")
    with pytest.raises(ProfileError) as caught:
        load_cost_model({"kind": "profile", "path": str(folder)})
    return str(caught.value)


def replaced(old: str, new: str) -> Change:
    return lambda lines: [line.replace(old, new, 1) if line.startswith(old) else line for line in lines]


@pytest.mark.parametrize(
    ("name", "change", "said"),
    [
        (
            "dense.csv",
            lambda lines: ["layer,token,time_us", *lines[1:]],
            "dense.csv: column 'tokens' is missing: did you mean 'token'?",
        ),
        (
            "dense.csv",
            lambda lines: [*lines, "qkv_proj,256,-4.0"],
            "dense.csv: row 29: time_us must be above 0, not -4",
        ),
        ("dense.csv", lambda lines: [*lines, "qkv_proj,256,0"], "row 29: time_us must be above 0, not 0"),
        (
            "dense.csv",
            lambda lines: [*lines, "qkv_proj,many,4"],
            "row 29: tokens must be a whole number, not 'many'",
        ),
        (
            "dense.csv",
            lambda lines: [*lines, lines[1]],
            "row 29: measures the same layer and tokens (embedding, 1) as row 2",
        ),
        (
            "dense.csv",
            lambda lines: [line for line in lines if not line.startswith("o_proj,64")],
            "layer 'o_proj' has no row for tokens 64, which other layers have",
        ),
        (
            "dense.csv",
            lambda lines: [line for line in lines if not line.startswith("o_proj")],
            "layer 'o_proj' was not measured",
        ),
        (
            "dense.csv",
            lambda lines: [*lines, "qkvproj,1,4"],
            "row 29: unknown layer 'qkvproj': did you mean 'qkv_proj'?",
        ),
        (
            "dense.csv",
            replaced("o_proj,64,8.4", "o_proj,64,0.0084"),
            "row 18: time_us is 0.0084 at tokens 64 (o_proj), beside 2.1 and 14.8; is the unit microseconds?",
        ),
        (
            "attention.csv",
            replaced("16,0,2,64", "16,0,2,0"),
            "prefill_chunk 16, kv_prefill 0, n_decode 2, kv_decode 0 is no batch",
        ),
        (
            "attention.csv",
            lambda lines: [line for line in lines if not line.startswith("16,64,2,16")],
            "prefill_chunk 16, kv_prefill 64, n_decode 2, kv_decode 16 was not measured, though n_decode 4",
        ),
        ("attention.csv", lambda lines: [*lines, "1,2,3"], "has 3 values, the header has 5"),
        ("per_sequence.csv", lambda lines: lines[:1], "per_sequence.csv: has a header and no rows"),
    ],
)
def test_a_broken_row_is_named(small_profile: Path, name: str, change: Change, said: str) -> None:
    assert said in edited(small_profile, name, change)


def test_a_whole_profile_in_milliseconds_is_noticed(small_profile: Path) -> None:
    for name in ("dense.csv", "attention.csv", "per_sequence.csv"):
        header, *rows = (small_profile / name).read_text().splitlines()
        small = [",".join([*row.split(",")[:-1], str(float(row.split(",")[-1]) / 1000)]) for row in rows]
        (small_profile / name).write_text("\n".join([header, *small]) + "\n")
    with pytest.raises(ProfileError, match="are the times in microseconds, and are model and gpu right"):
        load_cost_model({"kind": "profile", "path": str(small_profile)})


def test_large_batches_that_did_not_fit_may_be_missing(small_profile: Path) -> None:
    path = small_profile / "attention.csv"
    kept = [line for line in path.read_text().splitlines() if not line.startswith("64,64,4,64")]
    path.write_text("\n".join(kept) + "\n")
    load_cost_model({"kind": "profile", "path": str(small_profile)})


def table_error(tmp_path: Path, text: str, options: Options | None = None) -> str:
    path = tmp_path / "table.csv"
    path.write_text(text)
    with pytest.raises(ProfileError) as caught:
        calibrate([path], options or Options())
    return str(caught.value)


ITERATIONS = "num_prefill_tokens,prefill_cached_tokens,num_decodes,decode_context_tokens,time_us\n"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("batch,context\n1,2\n", "column 'time_us' (or time_ms, time_s) is missing"),
        ("batch,time_ms\n1,2\n", "column 'context' is missing"),
        ("batch,context,time_ms\n1,10,5\n1,10,5\n", "row 3: measures the same decode (1, 10) as row 2"),
        (ITERATIONS + "0,0,0,0,5\n", "row 2: 0 prefill tokens over 0, 0 decodes over 0 is no batch"),
        (ITERATIONS + "0,0,4,100,-1\n", "row 2: time_us must be above 0, not -1"),
        (ITERATIONS + "0,0,4,100,1\n", "1 decode-only rows were measured; at least 3 are needed"),
        (
            "batch,context,time_ms\n1,100,10\n2,100,11\n4,100,0.012\n8,100,13\n",
            "table.csv row 4: 4 decodes at context 100 took 12 us",
        ),
    ],
)
def test_a_broken_table_is_named(tmp_path: Path, text: str, said: str) -> None:
    assert said in table_error(tmp_path, text)


def test_a_table_in_another_unit_is_noticed_by_the_hardware(tmp_path: Path) -> None:
    rows = "".join(f"{n},1000,{11 + n / 10}\n" for n in (1, 2, 4, 8))
    hardware = Options(model="llama-3.1-8b", gpu="h100-80gb")
    said = table_error(tmp_path, "batch,context,time_us\n" + rows, hardware)
    assert "one decode iteration takes 11.1 us" in said
