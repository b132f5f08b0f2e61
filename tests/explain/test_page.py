"""The HTML report without a browser: it stands alone, is well formed, escapes, and says what the run says."""

import json
import re
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import sim
from sim.cli import main
from sim.report.html import page
from sim.report.html.data import iteration_rows, request_columns, thinned
from sim.report.tables import COMPARISON, figure
from sim.report.view import RunView

VOID = {"meta", "input", "br", "img", "link", "hr"}


class Parsed(HTMLParser):
    """Elements and texts of a page; AssertionError where elements do not nest."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.texts: list[tuple[str, str]] = []
        self.feed(text)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        assert len(dict(attrs)) == len(attrs), (tag, attrs)
        self.elements.append((tag, dict(attrs)))
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open and self.open.pop() == tag, (tag, self.open)

    def handle_data(self, data: str) -> None:
        self.texts.append((self.open[-1] if self.open else "", data))

    def data(self) -> Any:
        place = next(i for i, (tag, attrs) in enumerate(self.elements) if attrs.get("id") == "data")
        assert self.elements[place][0] == "script"
        return json.loads(next(text for tag, text in self.texts if tag == "script" and text.startswith("{")))


@pytest.fixture
def runs(tiny: Path, capsys: pytest.CaptureFixture[str]) -> list[RunView]:
    """Two policies over three requests."""
    assert main(["compare", "config.yaml", "--policies", "continuous,stall_free"]) == 0
    capsys.readouterr()
    return [sim.load_run(tiny / "out-compare" / name).view for name in ("continuous", "stall_free")]


def test_the_command_writes_one_page_of_a_comparison_or_of_runs(
    runs: list[RunView], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["report", "out-compare", "--html", "pages/report.html"]) == 0
    assert "report: pages/report.html" in capsys.readouterr().out
    text = Path("pages/report.html").read_text()
    assert text == page(runs)
    folders = ["out-compare/continuous", "out-compare/stall_free"]
    assert main(["report", *folders, "--html", "report.html"]) == 0
    assert Path("report.html").read_text() == text
    assert main(["report", "nowhere", "--html", "report.html"]) == 2
    assert "nowhere: no such run folder" in capsys.readouterr().err


def test_it_needs_no_network_and_nests(runs: list[RunView]) -> None:
    text = page(runs)
    parsed = Parsed(text)
    loads = [
        value for tag, attributes in parsed.elements for name, value in attributes.items()
        if name in ("src", "href", "srcset", "data", "action", "poster") and tag != "canvas"
    ]  # fmt: skip
    assert loads == []
    assert not re.search(r"https?://|//[a-z]+\.|@import|url\(", text)
    policy = next(a["content"] for _, a in parsed.elements if a.get("http-equiv"))
    assert policy is not None and policy.startswith("default-src 'none'")
    ids = [attributes["id"] for _, attributes in parsed.elements if "id" in attributes]
    assert len(ids) == len(set(ids))
    referred = set(re.findall(r'element\("([a-z-]+)"\)', text))
    assert referred <= set(ids)


def test_its_figures_are_those_of_the_summaries(runs: list[RunView]) -> None:
    cells = [float(a["data-value"] or "") for tag, a in Parsed(page(runs)).elements if "data-value" in a]
    expected = [
        figure(run.summary, row.path)
        for section in COMPARISON for row in section for run in runs
        if any(figure(each.summary, row.path) is not None for each in runs)
    ]  # fmt: skip
    known = [value for value in expected if value is not None]
    assert cells[: len(known)] == known
    for run in runs:
        assert set(run.summary["tbt_s"].values()) <= set(cells)


def test_runs_of_different_traces_are_not_ranked(runs: list[RunView], tiny: Path) -> None:
    assert 'class="best"' in page(runs)
    Path("trace.csv").write_text("arrival_s,prompt_tokens,output_tokens\n0,200,5\n")
    assert main(["run", "config.yaml"]) == 0
    mixed = page([runs[0], sim.load_run(tiny / "out").view])
    assert 'class="best"' not in mixed
    assert "The runs served different traces" in mixed
    assert "3 requests of trace.csv and 1 requests of trace.csv" in mixed


def test_its_data_are_the_runs(runs: list[RunView]) -> None:
    data = Parsed(page(runs)).data()
    for run, drawn in zip(runs, data["runs"], strict=True):
        assert drawn["name"] == run.name
        assert drawn["requests"]["id"] == run.requests["request_id"].tolist()
        assert sum(drawn["rows"]["repeats"]) == run.summary["num_iterations"]
        assert sum(drawn["rows"]["prefill"]) == 550
        ttft = drawn["distributions"]["ttft_s"]
        assert ttft["value"][-1] == pytest.approx(run.summary["ttft_s"]["max"], rel=1e-5)
        assert ttft["share"] == [0, 0.5, 1]


def test_text_of_the_users_is_escaped(runs: list[RunView]) -> None:
    nasty = "</script><script>alert('&')</script>"
    requests = runs[0].requests.assign(request_id=[nasty, "<b>", "x"])
    summary = {**runs[0].summary, "notices": [nasty]}
    view = RunView(nasty, {"name": nasty, nasty: nasty}, summary, requests, runs[0].iterations, runs[0].tbt)
    parsed = Parsed(page([view]))
    assert [tag for tag, _ in parsed.elements].count("script") == 2
    assert "b" not in [tag for tag, _ in parsed.elements]
    assert parsed.data()["runs"][0]["requests"]["id"][0] == nasty
    assert any(text == nasty for tag, text in parsed.texts if tag == "h1")


def test_a_run_without_iterations_still_has_a_page(tiny: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["run", "config.yaml", "--set", "engine.record_iterations=false"]) == 0
    assert main(["report", "out", "--html", "report.html"]) == 0
    text = Path("report.html").read_text()
    assert "the runs recorded no iterations" in text
    assert Parsed(text).data()["window"] is None


def test_an_hour_of_traffic_stays_small(runs: list[RunView]) -> None:
    rng = np.random.default_rng(0)
    count, rows = 20_000, 150_000
    requests = pd.DataFrame({
        "request_id": [str(row) for row in range(count)], "arrival_s": np.sort(rng.uniform(0, 3600, count)),
        "prompt_tokens": rng.integers(1, 9999, count), "output_tokens": rng.integers(1, 999, count),
        "queue_s": rng.exponential(9, count), "ttft_s": 10 + rng.exponential(9, count),
        "tpot_s": rng.exponential(0.1, count), "max_tbt_s": rng.exponential(1, count),
        "e2e_s": 20 + rng.exponential(60, count), "num_preemptions": 0, "status": "finished", "reason": None,
    })  # fmt: skip
    requests["first_token_s"] = requests["arrival_s"] + requests["ttft_s"]
    requests["finish_s"] = requests["arrival_s"] + requests["e2e_s"]
    busy = iterations((3600 * rng.dirichlet(np.ones(rows))).tolist())
    view = RunView("hour", runs[0].config, runs[0].summary, requests, busy, runs[0].tbt)
    assert len(page([view]).encode()) < 5_000_000


def iterations(durations: list[float]) -> pd.DataFrame:
    number = np.arange(len(durations))
    end = np.cumsum(durations)
    return pd.DataFrame({
        "start_s": end - durations, "duration_s": durations, "num_decodes": number % 7,
        "num_prefills": 1, "prefill_tokens": number, "context_tokens": 0,
        "kv_blocks_used": number * 3 % 11, "waiting": number % 5, "repeats": number % 3 + 1,
    })  # fmt: skip


@settings(max_examples=50, deadline=None)
@given(st.lists(st.integers(1, 10**6), min_size=1, max_size=400), st.integers(40, 100))
def test_thinning_keeps_sums_extremes_and_the_longest(ticks: list[int], most: int) -> None:
    full = iterations([tick / 1e6 for tick in ticks])
    thin = thinned(full, most)
    assert len(thin) <= most + 1
    for column in ("prefill_tokens", "repeats"):
        assert thin[column].sum() == full[column].sum()
    for column in ("waiting", "kv_blocks_used"):
        assert thin[column].max() == full[column].max()
    assert thin["duration_s"].sum() == pytest.approx(full["duration_s"].sum())
    longest = (full["duration_s"] / full["repeats"]).idxmax()
    assert full["start_s"][longest] in thin["start_s"].tolist()
    rows = iteration_rows(full, most)
    assert np.cumsum(rows["start"])[-1] == round(thin["start_s"].iloc[-1] * 1e6)


def test_of_many_requests_the_slowest_are_kept() -> None:
    rng = np.random.default_rng(0)
    count = 1000
    requests = pd.DataFrame({
        "request_id": [str(row) for row in range(count)], "arrival_s": np.arange(count, dtype=float),
        "queue_s": 0.1, "ttft_s": rng.exponential(size=count), "e2e_s": 5.0,
        "max_tbt_s": rng.exponential(size=count), "prompt_tokens": 1, "output_tokens": 2,
        "num_preemptions": 0,
    })  # fmt: skip
    kept = request_columns(requests, 100)
    assert kept["total"] == count and len(kept["id"]) <= 101
    for column in ("ttft_s", "max_tbt_s"):
        assert set(requests.nlargest(25, column)["request_id"]) <= set(kept["id"])
