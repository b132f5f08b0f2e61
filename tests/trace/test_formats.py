"""Every trace format: recognised by its content, read to the same three requests, odd rows accounted for."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import pytest

from sim.core.errors import TraceError
from sim.core.trace import Trace
from sim.trace import load_trace
from sim.trace.formats import trace_formats
from tests.trace.files import ARRIVALS_NS, BENCH_WITHOUT_TIMES, FILES, OUTPUTS, PROMPTS, SHAREGPT


def put(folder: Path, name: str, text: str) -> Path:
    path = folder / name
    path.write_bytes(text.encode())
    return path


def expect_the_three(trace: Trace) -> None:
    assert trace.arrival_ns.tolist() == ARRIVALS_NS
    assert trace.prompt_tokens.tolist() == PROMPTS
    assert trace.output_tokens.tolist() == OUTPUTS


@pytest.mark.parametrize("name", FILES)
def test_a_format_is_recognised_and_read(name: str, tmp_path: Path) -> None:
    path = put(tmp_path, *FILES[name])
    expect_the_three(load_trace(path))
    expect_the_three(load_trace(path, format=name))


@pytest.mark.parametrize("name", FILES)
def test_gzip_is_transparent_whatever_the_file_is_called(name: str, tmp_path: Path) -> None:
    path = tmp_path / "some.trace"
    path.write_bytes(gzip.compress(FILES[name][1].encode()))
    expect_the_three(load_trace(path))


def test_zstandard_is_transparent(tmp_path: Path) -> None:
    zstandard = pytest.importorskip("zstandard", reason="needs the extra `traces`")
    path = tmp_path / "plain.csv.zst"
    path.write_bytes(zstandard.ZstdCompressor().compress(FILES["plain"][1].encode()))
    expect_the_three(load_trace(path))


@pytest.mark.parametrize(
    "name", [name for name, (file, _) in FILES.items() if file.endswith((".csv", ".jsonl"))]
)
def test_crlf_a_byte_order_mark_blank_lines_and_no_last_newline_change_nothing(
    name: str, tmp_path: Path
) -> None:
    lines = FILES[name][1].replace("\r\n", "\n").rstrip("\n").split("\n")
    odd = "\ufeff" + "\r\n".join([*lines[:2], "", *lines[2:]])
    expect_the_three(load_trace(put(tmp_path, "odd", odd)))


def test_every_format_documents_its_columns() -> None:
    for name, format_ in trace_formats().items():
        assert format_.name == name
        assert format_.title and format_.columns


def test_parquet_reads_the_plain_columns(tmp_path: Path) -> None:
    pa = pytest.importorskip("pyarrow", reason="needs the extra `parquet`")
    import pyarrow.parquet as parquet

    table = pa.table(
        {
            "arrival_s": [1.0, 1.5, 3.0],
            "prompt_tokens": PROMPTS,
            "output_tokens": OUTPUTS,
            "client": ["a", None, "b"],
            "prefix_hashes": [[1, 2], [1, 3], []],
            "hash_block_tokens": [16] * 3,
        }
    )
    parquet.write_table(table, tmp_path / "t.parquet")
    trace = load_trace(tmp_path / "t.parquet")
    expect_the_three(trace)
    assert trace.client == ["a", None, "b"]
    assert trace.prefix_hashes == [(1, 2), (1, 3), ()]


def test_t5_mooncake_has_an_id_for_every_block_the_partial_last_one_included(tmp_path: Path) -> None:
    rows = [
        {"timestamp": 0, "input_length": 1024, "output_length": 1, "hash_ids": [1, 2]},
        {"timestamp": 0, "input_length": 1025, "output_length": 1, "hash_ids": [1, 2, 3]},
    ]
    trace = load_trace(put(tmp_path, "t.jsonl", "\n".join(map(json.dumps, rows))))
    assert trace.hash_block_tokens == 512
    assert trace.prefix_hashes == [(1, 2), (1, 2, 3)]


def test_a_row_with_too_few_block_ids_is_an_error_that_names_it(tmp_path: Path) -> None:
    rows = [
        {"timestamp": 0, "input_length": 1024, "output_length": 1, "hash_ids": [1, 2]},
        {"timestamp": 0, "input_length": 4000, "output_length": 1, "hash_ids": [1]},
    ]
    with pytest.raises(TraceError, match=r"line 2: hash_ids: 1 ids for input_length 4000.* make 8"):
        load_trace(put(tmp_path, "t.jsonl", "\n".join(map(json.dumps, rows))))


def test_blocks_of_16_are_found_from_the_rows(tmp_path: Path) -> None:
    rows = [
        {"timestamp": 0.5, "input_length": length, "output_length": 1, "hash_ids": list(range(length // 16))}
        for length in (2358, 100, 33)
    ]
    trace = load_trace(put(tmp_path, "t.jsonl", "\n".join(map(json.dumps, rows))))
    assert trace.hash_block_tokens == 16


def test_t6_burstgpt_failures_are_dropped_and_counted_and_time_need_not_start_at_0(tmp_path: Path) -> None:
    trace = load_trace(put(tmp_path, *FILES["burstgpt"]))
    expect_the_three(trace)
    assert trace.dropped == {"failed (0 response tokens)": 1}
    assert trace.session is None


def test_burstgpt_sessions_come_with_the_later_columns(tmp_path: Path) -> None:
    text = (
        "Timestamp,Session ID,Elapsed time,Model,Request tokens,Response tokens,Total tokens,Log Type\n"
        "10,a,2,ChatGPT,100,10,110,Conversation log\n"
        "11,b,1,ChatGPT,50,5,55,Conversation log\n"
        "15.5,a,1,ChatGPT,200,20,220,Conversation log\n"
        "15.75,a,1,ChatGPT,300,30,330,Conversation log\n"
    )
    path = put(tmp_path, "t.csv", text)
    trace = load_trace(path)
    assert trace.session is not None and trace.think_ns is not None
    assert trace.session.tolist() == [0, 1, 0, 0]
    assert trace.think_ns.tolist() == [0, 0, 3_500_000_000, 0]  # 15.5 - (10 + 2); overlap counts as 0
    assert load_trace(path, sessions=False).session is None


def test_llmservingsim_token_ids_become_chained_ids_of_whole_blocks(tmp_path: Path) -> None:
    trace = load_trace(put(tmp_path, *FILES["llmservingsim"]))
    assert trace.prefix_hashes is not None
    first, second, third = trace.prefix_hashes
    assert len(first) == 100 // 16 and len(second) == 200 // 16 and third == ()
    assert second[: len(first)] == first


def test_llmservingsim_sessions_become_turns_with_think_times(tmp_path: Path) -> None:
    call = {"input_toks": 5, "output_toks": 2}
    rows = [
        {
            "session_id": "s",
            "arrival_time_ns": 100,
            "sub_requests": [{**call, "tool_duration_ns": 30}, {**call, "tool_duration_ns": 40}, call],
        },
        {**call, "arrival_time_ns": 120},
    ]
    trace = load_trace(put(tmp_path, "t.jsonl", "\n".join(map(json.dumps, rows))))
    assert trace.arrival_ns.tolist() == [0, 20, 30, 70]
    assert trace.session is not None and trace.think_ns is not None
    assert trace.session.tolist() == [0, 1, 0, 0]
    assert trace.think_ns.tolist() == [0, 0, 30, 40]


def test_aiperf_turns_of_a_conversation_are_a_session(tmp_path: Path) -> None:
    trace = load_trace(put(tmp_path, *FILES["aiperf"]))
    assert trace.session is not None and trace.think_ns is not None
    assert trace.session.tolist() == [0, 0, 1]
    assert trace.think_ns.tolist() == [0, 500_000_000 - 100, 0]
    assert trace.dropped == {"failed requests": 1}


def test_files_without_arrivals_say_so_unless_a_process_is_given(tmp_path: Path) -> None:
    path = put(tmp_path, "bench.json", BENCH_WITHOUT_TIMES)
    trace = load_trace(path)
    assert trace.arrival_ns.tolist() == [0, 0, 0]
    assert any("no arrival times" in notice for notice in trace.notices)
    spread = load_trace(path, arrivals={"process": "constant", "rate_per_s": 2})
    assert spread.arrival_ns.tolist() == [0, 500_000_000, 1_000_000_000]
    assert not any("no arrival times" in notice for notice in spread.notices)


def test_vidur_may_hold_lengths_only(tmp_path: Path) -> None:
    text = (
        "num_prefill_tokens,num_decode_tokens,num_total_tokens,pd_ratio\n100,10,110,10.0\n200,20,220,10.0\n"
    )
    trace = load_trace(put(tmp_path, "t.csv", text))
    assert trace.prompt_tokens.tolist() == [100, 200]
    assert trace.arrival_ns.tolist() == [0, 0]


def test_sharegpt_lengths_are_estimated_from_words_and_said_to_be(tmp_path: Path) -> None:
    trace = load_trace(put(tmp_path, "sharegpt.json", SHAREGPT))
    assert trace.prompt_tokens.tolist() == [100, 200, 300]
    assert trace.output_tokens.tolist() == [12, 20, 32]
    assert trace.dropped == {"no question and answer": 1}
    assert any("estimates" in notice for notice in trace.notices)


def test_appended_sglang_results_give_the_last_run(tmp_path: Path) -> None:
    older = json.dumps({"input_lens": [1], "output_lens": [1]})
    trace = load_trace(put(tmp_path, "runs.jsonl", f"{older}\n{BENCH_WITHOUT_TIMES}\n"))
    assert trace.prompt_tokens.tolist() == PROMPTS
    assert trace.dropped == {"failed requests": 1}


def test_azure_rows_without_output_are_dropped_and_counted(tmp_path: Path) -> None:
    text = FILES["azure"][1] + "\r\n2023-11-16 18:15:49,5,0\r\n2023-11-16 18:15:50,0,5"
    trace = load_trace(put(tmp_path, "t.csv", text))
    expect_the_three(trace)
    assert trace.dropped == {"no output tokens": 1, "no prompt tokens": 1}
