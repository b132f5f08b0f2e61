"""The rules of the Chrome trace-event format, as far as the exporter uses it; raises AssertionError.

Source: "Trace Event Format" (Google, 2016), and what Perfetto's importer asks beyond it: slices of a
thread nest, a flow's ends lie in slices, counters are numbers.
"""

from __future__ import annotations

from collections import defaultdict
from typing import Any

Event = dict[str, Any]

REQUIRED = {
    "X": {"name", "ts", "dur", "pid", "tid"},
    "C": {"name", "ts", "pid", "args"},
    "M": {"name", "pid", "args"},
    "s": {"name", "cat", "id", "ts", "pid", "tid"},
    "f": {"name", "cat", "id", "ts", "pid", "tid", "bp"},
}
METADATA = {
    "process_name": "name",
    "thread_name": "name",
    "process_sort_index": "sort_index",
    "thread_sort_index": "sort_index",
}


def check(trace: Any) -> None:
    """Assert that `trace`, as json.load gave it, is one that viewers load as it was meant."""
    assert isinstance(trace["traceEvents"], list)
    assert trace["displayTimeUnit"] in ("ms", "ns")
    events = trace["traceEvents"]
    for event in events:
        assert event["ph"] in REQUIRED, event
        assert REQUIRED[event["ph"]] <= event.keys(), event
        for key in ("ts", "dur", "pid", "tid", "id"):
            assert isinstance(event.get(key, 0), int) and event.get(key, 0) >= 0, event
    _check_names([event for event in events if event["ph"] == "M"], events)
    slices = [event for event in events if event["ph"] == "X"]
    for on_thread in _by_thread(slices).values():
        _check_nesting(on_thread)
    _check_counters([event for event in events if event["ph"] == "C"])
    _check_flows([event for event in events if event["ph"] in "sf"], _by_thread(slices))


def _by_thread(events: list[Event]) -> dict[tuple[int, int], list[Event]]:
    threads: dict[tuple[int, int], list[Event]] = defaultdict(list)
    for event in events:
        threads[event["pid"], event["tid"]].append(event)
    return threads


def _check_names(metadata: list[Event], events: list[Event]) -> None:
    for event in metadata:
        assert METADATA[event["name"]] in event["args"], event
    named = {(event["pid"], event.get("tid")) for event in metadata}
    for event in events:
        assert (event["pid"], event.get("tid")) in named, event


def _check_nesting(slices: list[Event]) -> None:
    """A stable sort by start, as importers do: whoever starts inside another must end inside it."""
    open_until: list[int] = []
    for event in sorted(slices, key=lambda event: event["ts"]):
        while open_until and open_until[-1] <= event["ts"]:
            open_until.pop()
        end = event["ts"] + event["dur"]
        assert not open_until or end <= open_until[-1], event
        open_until.append(end)


def _check_counters(counters: list[Event]) -> None:
    latest: dict[tuple[int, str], int] = {}
    for event in counters:
        assert event["args"] and all(isinstance(value, int | float) for value in event["args"].values())
        key = (event["pid"], event["name"])
        assert event["ts"] >= latest.get(key, 0), event
        latest[key] = event["ts"]


def _check_flows(flows: list[Event], slices: dict[tuple[int, int], list[Event]]) -> None:
    pairs: dict[int, dict[str, Event]] = defaultdict(dict)
    for event in flows:
        assert event["ph"] not in pairs[event["id"]], event
        pairs[event["id"]][event["ph"]] = event
        around = slices[event["pid"], event["tid"]]
        assert any(one["ts"] <= event["ts"] <= one["ts"] + one["dur"] for one in around), event
    for pair in pairs.values():
        assert pair.keys() == {"s", "f"}, pair
        assert pair["s"]["ts"] <= pair["f"]["ts"]
        assert pair["s"]["name"] == pair["f"]["name"] and pair["s"]["cat"] == pair["f"]["cat"]
