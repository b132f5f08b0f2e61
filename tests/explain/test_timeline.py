"""The trace for Perfetto: it keeps the format's rules, and shows what happened."""

import gzip
import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sim.cli import main
from sim.core.record import RunRecord
from sim.report.perfetto import FIRST_REQUEST_TRACK, REPLICA, REQUESTS, trace_events
from tests.explain import trace_events as rules
from tests.worlds import LinearCost, World, serve, worlds

MICRO = LinearCost(base=10_000, per_prefill_token=1_000)
"""An iteration takes 10 us, and 1 us more a prefill token."""


def exported(
    record: RunRecord, stall_ns: int, window_ns: tuple[int, int] | None = None
) -> list[dict[str, Any]]:
    events = list(trace_events(record, name="test", stall_ns=stall_ns, window_ns=window_ns))
    rules.check({"traceEvents": events, "displayTimeUnit": "ms"})
    return events


def slices(events: list[dict[str, Any]], pid: int, tid: int) -> list[tuple[str, int, int]]:
    mine = [event for event in events if event["ph"] == "X" and (event["pid"], event["tid"]) == (pid, tid)]
    return [(event["name"], event["ts"], event["ts"] + event["dur"]) for event in mine]


def values(events: list[dict[str, Any]], counter: str) -> list[tuple[int, int]]:
    return [(e["ts"], e["args"]["value"]) for e in events if e["ph"] == "C" and e["name"] == counter]


@settings(max_examples=100, deadline=None)
@given(worlds(), st.integers(1, 60), st.none() | st.tuples(st.integers(0, 100), st.integers(1, 200)))
def test_every_world_keeps_the_rules(world: World, stall: int, window: tuple[int, int] | None) -> None:
    # Times of worlds are tens of ns; in ms nothing is lost in whole us.
    record = world.serve(record_events=True)
    events = record.events
    assert events is not None
    for table, columns in (("end_ns", None), ("starts", 1), ("seen", 2), ("preemptions", 3)):
        column = getattr(events, table) if columns is None else getattr(events, table)[:, columns]
        column.setflags(write=True)
        column *= 1_000
    record.arrival_ns *= 1_000
    record.iterations[:, 0] *= 1_000
    ends = None if window is None else (window[0] * 1_000, (window[0] + window[1]) * 1_000)
    exported(record, stall * 1_000, ends)


def test_a_stall_by_hand() -> None:
    rows = [(0, 4, 3), (5_000, 100, 1)]
    events = exported(serve(rows, "continuous", MICRO, record_events=True), stall_ns=50_000)
    assert slices(events, REPLICA, 1) == [("prefill", 0, 14), ("mixed", 14, 124), ("decode", 124, 134)]
    assert slices(events, REQUESTS, FIRST_REQUEST_TRACK) == [
        ("prefill", 0, 14), ("decode", 14, 134), ("stall", 14, 124),
    ]  # fmt: skip
    assert slices(events, REQUESTS, FIRST_REQUEST_TRACK + 1) == [("waiting", 5, 14), ("prefill", 14, 124)]
    start, finish = (next(event for event in events if event["ph"] == phase) for phase in "sf")
    assert (start["tid"] - FIRST_REQUEST_TRACK, start["ts"]) == (1, 14)
    assert (finish["tid"] - FIRST_REQUEST_TRACK, finish["ts"]) == (0, 69)
    assert values(events, "running requests") == [(0, 1), (5, 1), (14, 2), (124, 1), (134, 0)]
    assert values(events, "waiting requests") == [(0, 0), (5, 1), (14, 0), (124, 0), (134, 0)]


def test_a_preemption_by_hand() -> None:
    record = serve(
        [(0, 3, 4), (0, 3, 4)], "continuous", MICRO, record_events=True, num_blocks=4, block_size=2
    )
    events = exported(record, stall_ns=10**9)
    assert slices(events, REQUESTS, FIRST_REQUEST_TRACK + 1) == [
        ("prefill", 0, 16), ("decode", 16, 26),
        ("preempted", 26, 46), ("prefill", 46, 61), ("decode", 61, 71),
    ]  # fmt: skip
    assert values(events, "KV blocks used")[:2] == [(0, 4), (26, 3)]


def test_a_window_has_what_touches_it_and_no_half_arrows() -> None:
    rows = [(0, 4, 3), (5_000, 100, 1), (500_000, 4, 1)]
    record = serve(rows, "continuous", MICRO, record_events=True)
    events = exported(record, stall_ns=50_000, window_ns=(125_000, 130_000))
    assert slices(events, REPLICA, 1) == [("decode", 124, 134)]
    assert slices(events, REQUESTS, FIRST_REQUEST_TRACK) == [("decode", 14, 134)]
    assert slices(events, REQUESTS, FIRST_REQUEST_TRACK + 1) == []


def test_the_command_writes_one_file_the_same_each_time(
    tiny: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["run", "config.yaml"]) == 0
    assert main(["timeline", "out", "--out", "a/trace.json"]) == 0
    assert "events: a/trace.json" in capsys.readouterr().out
    trace = json.loads(Path("a/trace.json").read_text())
    rules.check(trace)
    assert trace["otherData"]["provenance"]["trace_name"]
    assert main(["timeline", "out"]) == 0
    zipped = Path("out/timeline.json.gz").read_bytes()
    assert json.loads(gzip.decompress(zipped)) == trace
    assert main(["timeline", "out"]) == 0
    assert Path("out/timeline.json.gz").read_bytes() == zipped


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--out", "trace.txt"], "--out trace.txt: must end in .json or .json.gz"),
        (["--window", "2", "1"], "--window 2 1: must be two times in seconds, ascending"),
    ],
)
def test_wrong_arguments(
    tiny: Path, capsys: pytest.CaptureFixture[str], arguments: list[str], message: str
) -> None:
    assert main(["run", "config.yaml"]) == 0
    assert main(["timeline", "out", *arguments]) == 2
    assert message in capsys.readouterr().err
