"""Laws of loading: exact times, a clock shift changes nothing, order is stable, writing reads back."""

from __future__ import annotations

import tempfile
from fractions import Fraction
from importlib.util import find_spec
from pathlib import Path

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from sim.core.trace import Trace
from sim.core.units import NS_PER_S
from sim.trace import load_trace
from sim.trace.decimals import INT64_MAX, read_decimal, read_decimals
from sim.trace.raw import RawTrace
from sim.trace.select import build_trace, scaled_rate
from sim.trace.write import write_trace

numbers = st.one_of(
    st.decimals(allow_nan=False, allow_infinity=False, places=12, min_value=-(10**9), max_value=10**9).map(
        str
    ),
    st.integers(-(10**20), 10**20).map(str),
    st.floats(allow_nan=False, allow_infinity=False).map(repr),
    st.text("0123456789.-+e ", max_size=12),
    st.sampled_from(["nan", "inf", "", "1/2", "1_0", ".5", "5.", ".", "0.5", "1.5", "2.5"]),
)


@given(st.lists(numbers, min_size=1, max_size=30), st.sampled_from([0, 3, 6, 9]))
def test_a_column_of_decimals_reads_as_each_of_them_alone(texts: list[str], places: int) -> None:
    column = read_decimals(texts, places)
    for row, text in enumerate(texts):
        alone = read_decimal(text, places)
        together = (int(column.values[row]), bool(column.exact[row])) if column.valid[row] else None
        assert together == alone, text


@given(st.lists(st.integers(-(10**19), 10**19), min_size=1, max_size=10), st.sampled_from([0, 6, 9]))
def test_integers_read_as_their_texts(values: list[int], places: int) -> None:
    given_ints, texts = read_decimals(values, places), read_decimals(list(map(str, values)), places)
    assert given_ints.valid.tolist() == texts.valid.tolist()
    assert given_ints.values.tolist() == texts.values.tolist()
    assert all(abs(value) * 10**places <= INT64_MAX for value in np.array(values)[texts.valid])


times_ns = st.lists(st.integers(0, 10**15), min_size=1, max_size=40)


def plain_file(folder: str, arrivals_ns: list[int]) -> Path:
    path = Path(folder) / "trace.csv"
    rows = (f"{ns // NS_PER_S}.{ns % NS_PER_S:09d},{row + 1},1" for row, ns in enumerate(arrivals_ns))
    path.write_text("\n".join(["arrival_s,prompt_tokens,output_tokens", *rows]))
    return path


@settings(deadline=None, max_examples=40)
@given(times_ns, st.integers(0, 2 * 10**18))
def test_a_constant_shift_of_the_clock_changes_nothing(arrivals_ns: list[int], shift_ns: int) -> None:
    with tempfile.TemporaryDirectory() as folder:
        here = load_trace(plain_file(folder, arrivals_ns))
        there = load_trace(plain_file(folder, [ns + shift_ns for ns in arrivals_ns]))
    assert here.hash == there.hash
    assert here.arrival_ns[0] == 0


@settings(deadline=None, max_examples=40)
@given(st.lists(st.integers(0, 5), min_size=1, max_size=60))
def test_rows_come_in_order_of_arrival_and_equal_ones_in_file_order(arrivals_s: list[int]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        trace = load_trace(plain_file(folder, [second * NS_PER_S for second in arrivals_s]))
    expected = sorted(range(len(arrivals_s)), key=lambda row: (arrivals_s[row], row))
    assert trace.prompt_tokens.tolist() == [row + 1 for row in expected]
    assert bool(trace.notices) == (arrivals_s != sorted(arrivals_s))


scales = st.one_of(
    st.floats(1e-3, 1e3), st.sampled_from([0.1, 1.1, 1.37, 2.0, 3.0, 7.0, 1 / 3, 1e-9, 123456.789])
)


@given(st.lists(st.integers(0, 10**9), min_size=1, max_size=20).map(sorted), scales, st.integers(1, 10**6))
def test_scaling_the_rate_is_exact_division_rounded_once(offsets: list[int], scale: float, tick: int) -> None:
    times = [offset * tick for offset in offsets] if scale > 1e-6 else offsets
    ones = np.ones(len(times), np.int64)
    scaled = scaled_rate(Trace("t", np.array(times, np.int64), ones, ones), scale)
    assert scaled.arrival_ns.tolist() == [round(time / Fraction(str(scale))) for time in times]


requests = st.lists(
    st.tuples(st.integers(0, 10**12), st.integers(1, 10**6), st.integers(1, 10**5)), min_size=1, max_size=20
)
labels = st.one_of(st.none(), st.text("ab,\" x'é", max_size=4).filter(lambda text: text == text.strip()))


FILE_NAMES = ["t.csv", "t.csv.gz", *(["t.parquet"] if find_spec("pyarrow") else [])]


def made(rows: list[tuple[int, int, int]], **columns: object) -> Trace:
    raw = RawTrace(Path("t"))
    arrival, prompt, output = (np.array(column, dtype=np.int64) for column in zip(*rows, strict=True))
    raw.add(
        line=np.arange(len(rows)), arrival_ns=arrival, prompt_tokens=prompt, output_tokens=output, **columns
    )
    raw.hash_block_tokens = 16 if columns.get("prefix_hashes") else None
    return build_trace(raw, "t")


@settings(deadline=None, max_examples=40)
@given(requests, st.data(), st.sampled_from(FILE_NAMES))
def test_what_the_plain_format_holds_reads_back_equal(
    rows: list[tuple[int, int, int]], data: st.DataObject, name: str
) -> None:
    count = len(rows)
    clients = data.draw(st.lists(labels, min_size=count, max_size=count))
    trace = made(
        rows,
        client=[client or None for client in clients],
        priority=np.arange(count, dtype=np.int64) - 2,
        session=[str(row % 3) for row in range(count)],
        think_ns=np.arange(count, dtype=np.int64) * 1001,
        prefix_hashes=[tuple(range(row % 4)) for row in range(count)],
    )
    with tempfile.TemporaryDirectory() as folder:
        assert write_trace(trace, Path(folder) / name) == []
        back = load_trace(Path(folder) / name)
    assert back.hash == trace.hash
    assert back.hash_block_tokens == trace.hash_block_tokens


@settings(deadline=None, max_examples=40)
@given(requests, st.sampled_from(["mooncake", "vidur", "azure"]))
def test_other_formats_read_back_equal_in_what_they_hold(rows: list[tuple[int, int, int]], name: str) -> None:
    if name == "azure":
        rows = [(time // 100 * 100, prompt, output) for time, prompt, output in rows]
    trace = made(rows)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "t"
        assert write_trace(trace, path, format=name) == []
        assert load_trace(path).hash == trace.hash
