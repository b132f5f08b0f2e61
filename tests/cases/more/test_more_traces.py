"""Cases T7 to T11 of docs/cases.md, found in public reports: replaying what a trace says."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from sim.core.errors import TraceError
from sim.core.record import FINISHED
from sim.core.trace import Trace
from sim.trace import load_trace
from tests.cases.timeline import ONE_NS
from tests.worlds import serve

HEADER = "arrival_s,prompt_tokens,output_tokens"


def load(folder: Path, *lines: str, header: str = HEADER, **options: float) -> Trace:
    path = folder / "trace.csv"
    path.write_text("\n".join([header, *lines]))
    return load_trace(path, **options)  # type: ignore[arg-type]


def test_t7_rate_scale_scales_the_gaps_and_not_the_clock(tmp_path: Path) -> None:
    trace = load(tmp_path, "1000,5,2", "1002,5,2", "1006,5,2", rate_scale=2.0)
    assert trace.arrival_ns.tolist() == [0, 1_000_000_000, 3_000_000_000]


@pytest.mark.parametrize("time", ["nan", "inf", "-inf", ""])
def test_t8_a_time_that_is_no_number_is_refused_with_its_row(tmp_path: Path, time: str) -> None:
    with pytest.raises(TraceError, match=r"trace\.csv.*\b3\b.*arrival_s"):
        load(tmp_path, "0.5,5,2", f"{time},5,2")


def test_t8_a_clock_that_begins_below_zero_is_only_another_origin(tmp_path: Path) -> None:
    assert load(tmp_path, "-1.5,5,2", "0.5,5,2").arrival_ns.tolist() == [0, 2_000_000_000]


def test_t9_times_since_1970_replay_from_zero_and_everyone_is_served(tmp_path: Path) -> None:
    trace = load(tmp_path, "1787000000.000000001,5,2", "1787000000.000000008,5,2")
    assert trace.arrival_ns.tolist() == [0, 7]
    record = serve(trace, "stall_free", ONE_NS)
    assert record.token_times == {0: [1, 2], 1: [8, 9]}
    assert all(record.status == FINISHED)


def test_t10_prefix_hashes_that_differ_above_bit_31_stay_different(tmp_path: Path) -> None:
    hashes = (1, 2**32 + 1, 2**63 + 1)
    lines = [f"0,16,2,{value}" for value in hashes]
    trace = load(tmp_path, *lines, header=f"{HEADER},prefix_hashes")
    assert list(trace.prefix_hashes or []) == [(value,) for value in hashes]


def load_mooncake(folder: Path, *rows: tuple[int, list[int]]) -> Trace:
    path = folder / "trace.jsonl"
    objects = [{"timestamp": 0, "input_length": n, "output_length": 2, "hash_ids": ids} for n, ids in rows]
    path.write_text("\n".join(json.dumps(row) for row in objects))
    return load_trace(path)


def test_t10_mooncake_block_ids_are_read_with_all_their_bits(tmp_path: Path) -> None:
    trace = load_mooncake(tmp_path, (512, [1]), (512, [2**32 + 1]), (512, [2**63 + 1]))
    assert list(trace.prefix_hashes or []) == [(1,), (2**32 + 1,), (2**63 + 1,)]


def test_t11_more_block_ids_than_blocks_is_an_error_that_names_the_row(tmp_path: Path) -> None:
    assert load_mooncake(tmp_path, (600, [0, 1])).hash_block_tokens == 512
    with pytest.raises(TraceError, match=r"trace\.jsonl.*\b2\b.*hash_ids: 2 ids for input_length 20"):
        load_mooncake(tmp_path, (600, [0, 1]), (20, [0, 1]))
