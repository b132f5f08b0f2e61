"""The fast CSV against Python's own writer, field by field."""

from __future__ import annotations

import csv
import io

import numpy as np
import pandas as pd
from hypothesis import given
from hypothesis import strategies as st

from sim.report import csvfile
from sim.report.csvfile import read_csv, write_csv

COLUMNS = ("request_id", "arrival_s", "waiting", "tpot_s", "reason")
DAYS_20_NS = 20 * 86_400 * 10**9

text = st.text(st.characters(codec="utf-8", exclude_characters="\0\r"), max_size=8)
row = st.tuples(
    text,
    st.none() | st.integers(0, DAYS_20_NS),
    st.integers(0, 2**62),
    st.none() | st.floats(0, 1e6),
    st.none() | text.filter(bool),
)


def plain(rows):
    """What the file must be, by the csv module and integer arithmetic."""
    buffer = io.StringIO()
    writer = csv.writer(buffer, lineterminator="\n")
    writer.writerow(COLUMNS)
    for name, time_ns, number, value, reason in rows:
        time = "" if time_ns is None else f"{time_ns // 10**9}.{time_ns % 10**9:09d}"
        writer.writerow([name, time, number, "" if value is None else repr(value), reason or ""])
    return buffer.getvalue().encode()


def frame_of(rows):
    columns = list(zip(*rows, strict=True))
    return pd.DataFrame(
        {
            "request_id": pd.Series(columns[0], dtype=object),
            "arrival_s": [np.nan if ns is None else ns / 10**9 for ns in columns[1]],
            "waiting": np.array(columns[2], dtype=np.int64),
            "tpot_s": [np.nan if value is None else value for value in columns[3]],
            "reason": pd.Series(columns[4], dtype=object),
        }
    )


@given(st.lists(row, min_size=1, max_size=12))
def test_the_fast_writer_equals_the_plain_one_and_reads_back(tmp_path_factory, rows):
    path = tmp_path_factory.mktemp("csv") / "x.csv"
    frame = frame_of(rows)
    write_csv(frame, path)
    assert path.read_bytes() == plain(rows)
    pd.testing.assert_frame_equal(read_csv(path, COLUMNS), frame, check_exact=True, check_dtype=False)


def test_chunks_do_not_show(tmp_path, monkeypatch):
    frame = frame_of([(str(n), n * 10**7, 10**n % 997, n / 7, None) for n in range(25)])
    write_csv(frame, tmp_path / "one.csv")
    monkeypatch.setattr(csvfile, "_CHUNK_ROWS", 4)
    write_csv(frame, tmp_path / "seven.csv")
    assert (tmp_path / "one.csv").read_bytes() == (tmp_path / "seven.csv").read_bytes()
