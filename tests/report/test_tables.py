"""Tables: what a reader of a terminal sees, and that it fits there."""

from __future__ import annotations

import re

import pandas as pd
import pytest
from rich.console import Console

from sim.api.comparison import Contender, Outcome, tidy_row
from sim.api.result import Result
from sim.report.comparison_tables import comparison_of
from sim.report.metrics import summarize
from sim.report.tables import run_table, seconds
from sim.report.view import RunView, view_of
from tests.report.records import Served, record_of
from tests.report.runs import real_view


def shown(renderable: object, width: int = 80) -> str:
    console = Console(width=width, record=True, file=None, force_terminal=False)
    with console.capture() as capture:
        console.print(renderable)
    return capture.get()


def comparison(views: list[RunView]) -> object:
    """The table of one seed of each view."""
    rows = [tidy_row(Outcome(Contender(view.name, 0, None), Result(view), {})) for view in views]
    return comparison_of(pd.DataFrame(rows))


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (None, "-"), (0.0, "0.00 µs"), (9.4e-7, "0.94 µs"), (0.0123456, "12.3 ms"), (0.9999, "1.00 s"),
        (0.9985, "998 ms"), (1.0, "1.00 s"), (12.345, "12.3 s"), (99.96, "100 s"), (1306.9, "1,307 s"),
    ],
)  # fmt: skip
def test_a_duration_has_three_digits_and_a_unit(value, text):
    assert seconds(value) == text


def test_policies_stand_side_by_side_in_80_columns_with_the_best_in_bold():
    views = [real_view(policy, slo={"tbt_s": 0.1}) for policy in ("static", "continuous", "stall_free")]
    text = shown(comparison(views))
    assert max(map(len, text.splitlines())) <= 80
    head = next(line for line in text.splitlines() if "stall_free" in line)
    assert head.index("static") < head.index("continuous") < head.index("stall_free")
    for label in ("TTFT p99", "TBT p99", "output tokens/s", "SLO attainment", "idle slots"):
        assert label in text
    best = min(views, key=lambda view: view.summary["tbt_s"]["p99"])
    console = Console(width=80, force_terminal=True, color_system="standard")
    with console.capture() as capture:
        console.print(comparison(views))
    line = next(line for line in capture.get().splitlines() if "TBT p99" in line)
    shortest = seconds(best.summary["tbt_s"]["p99"])
    assert re.search(rf"\x1b\[1m *{re.escape(shortest)}\x1b\[0m", line)


def test_a_line_that_no_run_has_a_figure_for_is_left_out():
    text = shown(comparison([real_view("continuous")]))
    assert "SLO attainment" not in text and "idle slots" not in text
    assert "3,834 blocks" in text  # of a cache without end, which has no share


def test_one_run_shows_its_latencies_and_its_facts():
    text = shown(run_table(real_view("static", slo={"ttft_s": 1.0}, num_blocks=2000)), width=100)
    for word in ("TTFT", "TBT", "p99", "40 of 40 finished", "of 2,000 blocks", "TTFT <= 1.00 s", "idle"):
        assert word in text


def test_a_run_without_results_is_shown_with_dashes_and_its_notices():
    record = record_of(Served(rejected="too long"), notices=["rows were sorted by arrival"])
    view = view_of(record, name="x", config={}, summary=summarize(record, slo=None, provenance={}))
    assert "0 of 1 finished, 1 rejected" in shown(run_table(view))
    assert shown(run_table(view)).count("rows were sorted") == 1
