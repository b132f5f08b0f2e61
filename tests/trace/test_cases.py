"""cases.md T1 to T4: each case as it was reported, with its right result."""

from __future__ import annotations

from pathlib import Path

import pytest

from sim.core.units import NS_PER_S
from sim.trace import load_trace

AZURE = Path(__file__).parents[3] / "shared/data/traces/AzureLLMInferenceTrace_conv.csv"
MS = 1_000_000


def azure(path: Path, *rows: str, end: str = "\r\n") -> Path:
    path.write_bytes("\r\n".join(["TIMESTAMP,ContextTokens,GeneratedTokens", *rows]).encode() + end.encode())
    return path


def test_t1_fractions_of_seven_digits_stay_exact_with_crlf_and_no_last_newline(tmp_path: Path) -> None:
    times = ("00.0010000", "00.0020000", "00.0090000", "00.0110000", "01.0000001")
    rows = [f"2023-11-16 18:15:{time},10,5" for time in times]
    trace = load_trace(azure(tmp_path / "t.csv", *rows, end=""))
    assert trace.arrival_ns.tolist() == [0, 1 * MS, 8 * MS, 10 * MS, 999_000_100]


@pytest.mark.skipif(not AZURE.exists(), reason="needs the Azure trace in ../shared/data")
def test_t1_the_first_gap_of_the_conversation_trace_is_exact() -> None:
    trace = load_trace(AZURE)
    assert len(trace) == 19_366
    assert trace.arrival_ns[1] == 4_314_579_000
    assert trace.notices == () and not trace.dropped


def test_t2_zones_and_missing_fractions_parse_in_one_file(tmp_path: Path) -> None:
    trace = load_trace(
        azure(
            tmp_path / "t.csv",
            "2024-05-10 00:00:00,1,1",
            "2024-05-10 00:00:01.5Z,2,1",
            "2024-05-10 00:00:02.009930+00:00,3,1",
            "2024-05-10T02:00:03+02:00,4,1",
        )
    )
    assert trace.arrival_ns.tolist() == [0, 1_500 * MS, 2_009_930_000, 3 * NS_PER_S]


def test_t3_unsorted_rows_are_sorted_with_their_lengths_and_a_notice(tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    path.write_text("arrival_s,prompt_tokens,output_tokens\n5,50,5\n0,10,1\n3,30,3\n")
    trace = load_trace(path)
    assert trace.arrival_ns.tolist() == [0, 3 * NS_PER_S, 5 * NS_PER_S]
    assert trace.prompt_tokens.tolist() == [10, 30, 50]
    assert trace.output_tokens.tolist() == [1, 3, 5]
    assert any("sorted" in notice for notice in trace.notices)


def test_t4_equal_times_keep_the_order_of_the_file(tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    rows = "".join(f"{row // 10 % 2},{row + 1},1\n" for row in range(1000))
    path.write_text("arrival_s,prompt_tokens,output_tokens\n" + rows)
    trace = load_trace(path)
    for second in (0, 1):
        lengths = trace.prompt_tokens[trace.arrival_ns == second * NS_PER_S].tolist()
        assert lengths == sorted(lengths) and len(lengths) == 500
