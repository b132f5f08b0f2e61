"""The table: medians over repeats, one row a batch, whole files."""

from __future__ import annotations

import csv

import yaml

from sim.measure.measurement import Measurement, Target
from sim.measure.meter import Meter
from sim.measure.plan import Caps, make_plan
from sim.measure.table import Row, rows_of, spread_pct, write_table
from sim.measure.timeline import Refusal, Sample
from tests.measure.measuring import SMALL

ONE = Sample("1 decodes", "decode", 0, 0, 1, 100.0, 0.006)
TWO = Sample("2 decodes", "decode", 0, 0, 2, 200.0, 0.006)
TTFT_ONE = Sample("prompt of 1", "ttft", 1, 0, 0, 0.0, 0.010)
TTFT = Sample("prompt of 64", "ttft", 64, 0, 0, 0.0, 0.016)


def measurement(*samples: Sample) -> Measurement:
    caps = Caps()
    plan = make_plan(SMALL)
    return Measurement(Target("http://host/v1"), plan, caps, Meter(caps), "2026-01-01", samples=list(samples))


def test_a_row_is_the_median_time_and_mean_context_of_its_repeats():
    found = ((0.006, 100), (0.009, 104), (0.007, 105))
    repeats = [ONE._replace(time_s=t, decode_context_tokens=c) for t, c in found]
    assert rows_of(measurement(*repeats)) == [Row(0, 0, 1, 103, 7_000.0)]


def test_lone_prompts_wait_for_the_front_end_delay():
    assert rows_of(measurement(TTFT, ONE)) == [Row(0, 0, 1, 100, 6_000.0)]
    # 10 ms to the first token of one, of which a decode iteration is 6: 4 ms are taken off
    rows = rows_of(measurement(TTFT_ONE, TTFT, ONE, TWO))
    assert rows[0] == Row(64, 0, 0, 0, 12_000.0)
    assert len(rows) == 3


def test_a_point_that_lost_half_its_repeats_has_no_row_and_is_named():
    done = measurement(ONE, ONE)
    done.keep(ONE.cell, Refusal("a stall"))
    assert len(rows_of(done)) == 1
    assert done.notices == ["1 disturbed repeats of other points were left out (see meta.yaml)"]
    done.keep(ONE.cell, Refusal("a stall"))
    assert rows_of(done) == []
    assert done.notices == ["1 decodes: no row: a stall"]


def test_two_points_that_are_the_same_batch_share_a_row():
    other = ONE._replace(cell="another", time_s=0.008)
    assert rows_of(measurement(ONE, other)) == [Row(0, 0, 1, 100, 7_000.0)]


def test_the_spread_is_the_worst_relative_range_by_kind():
    samples = [ONE, ONE._replace(time_s=0.0066), TWO, TTFT]
    assert spread_pct(samples) == {"decode": 9.52, "ttft": 0.0}


def test_the_folder(tmp_path):
    done = measurement(TTFT_ONE, TTFT, ONE, TWO)
    assert write_table(tmp_path / "a" / "b", done) == 3
    files = sorted(path.name for path in (tmp_path / "a" / "b").iterdir())
    assert files == ["iterations.csv", "meta.yaml", "samples.csv"]
    meta = yaml.safe_load((tmp_path / "a" / "b" / "meta.yaml").read_text())
    assert (meta["kind"], meta["front_end_us"], meta["complete"]) == ("iterations", 4_000.0, False)
    with (tmp_path / "a" / "b" / "samples.csv").open() as file:
        assert [row["kind"] for row in csv.DictReader(file)] == ["ttft", "ttft", "decode", "decode"]
