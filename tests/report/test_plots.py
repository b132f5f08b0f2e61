"""Plots: what their lines add up to, that they draw for every kind of run, and leave no global state."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest

from sim.core.errors import UserError
from sim.report import plots
from sim.report.folder import load_run, write_run
from sim.report.metrics import summarize
from sim.report.plots.figure import save, styles
from sim.report.plots.over_time import (
    bin_edges,
    mean_in_bins,
    offered,
    output_tokens,
    prefill_tokens,
    running,
)
from sim.report.plots.tail_curves import tbt_points, ttft_points
from sim.report.view import RunView, view_of
from tests.report.records import Served, record_of
from tests.report.runs import POLICIES, real_view, small_trace

FILES = ["distributions.png", "timeline.png", "load.png", "throughput.png"]
PNG = b"\x89PNG"


@pytest.fixture(scope="module")
def views() -> list[RunView]:
    return [real_view(policy, slo={"tbt_s": 0.1}, num_blocks=1500) for policy in POLICIES]


def empty_view(*served: Served) -> RunView:
    record = record_of(*served)
    return view_of(record, name="x", config={}, summary=summarize(record, slo=None, provenance={}))


def test_every_plot_is_drawn_for_all_runs_together(views, tmp_path):
    written = plots.draw_all(views, tmp_path / "plots")
    assert [path.name for path in written] == FILES
    assert sorted(path.name for path in (tmp_path / "plots").iterdir()) == sorted(FILES)
    assert all(path.read_bytes().startswith(PNG) for path in written)


def test_a_folder_is_redrawn_to_the_same_bytes_as_the_run_in_memory(views, tmp_path):
    folder = write_run(views[1], tmp_path / "run")
    memory = plots.draw_all([views[1]], tmp_path / "memory")
    again = plots.draw_all([load_run(folder)], tmp_path / "again")
    assert [path.read_bytes() for path in memory] == [path.read_bytes() for path in again]


@pytest.mark.parametrize(
    "served",
    [
        pytest.param([Served(rejected="too long")], id="nothing finished"),
        pytest.param([Served(tokens=[1.0])], id="one token"),
    ],
)
def test_a_run_with_next_to_nothing_in_it_draws_what_it_can(served, tmp_path):
    assert [path.name for path in plots.draw_all([empty_view(*served)], tmp_path)] == FILES[:1]


def test_every_figure_can_be_made_twice(views):
    for make in ("distributions", "timeline", "load", "throughput"):
        assert getattr(plots, make)(views[:1]).axes
        assert getattr(plots, make)(views[:1]).axes


def test_a_window_may_be_asked_for(views):
    figure = plots.timeline(views, window_s=(0.5, 1.0))
    assert figure.axes[0].get_xlim() == (0.5, 1.0)
    assert len(figure.axes) == 2 * len(views)


def test_a_figure_shows_itself_in_a_notebook(views):
    assert plots.throughput(views)._repr_png_().startswith(PNG)


def test_pyplot_is_never_touched_and_matplotlib_only_when_drawing(tmp_path):
    code = (
        "import sys; import sim.report.plots as p; assert 'matplotlib' not in sys.modules;"
        "from tests.report.runs import real_view; p.draw_all([real_view('static')], sys.argv[1]);"
        "assert 'matplotlib.pyplot' not in sys.modules"
    )
    done = subprocess.run([sys.executable, "-c", code, tmp_path], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def test_a_place_that_cannot_be_written_is_the_users_error(views, tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(UserError, match=r"cannot write .*distributions\.png"):
        save(plots.distributions(views), tmp_path / "file" / "distributions.png")


def test_runs_never_share_a_style_while_there_are_enough():
    names = ["static", "mine", "stall_free", "yours", "theirs"]
    found = styles([RunView(name, {}, {}, None, None, None) for name in names])  # type: ignore[arg-type]
    assert len({(style.color, str(style.dashes)) for style in found.values()}) == len(names)
    assert found["stall_free"] == styles([RunView("stall_free", {}, {}, None, None, None)])["stall_free"]  # type: ignore[arg-type]


@pytest.mark.parametrize("policy", POLICIES)
def test_rates_over_time_add_up_to_the_tokens_of_the_run(policy):
    view, trace = real_view(policy), small_trace()
    edges = bin_edges([view], 37)
    width = np.diff(edges)
    assert (output_tokens(view, edges) * width).sum() == pytest.approx(trace.output_tokens.sum())
    assert (offered(view, "output_tokens", edges) * width).sum() == pytest.approx(trace.output_tokens.sum())
    if policy != "static":  # which prefills padding too
        assert (prefill_tokens(view, edges) * width).sum() == pytest.approx(trace.prompt_tokens.sum())


@pytest.mark.parametrize("policy", POLICIES)
def test_running_is_what_is_in_the_system_and_not_waiting(policy):
    view = real_view(policy)
    rows = view.iterations
    now = rows["start_s"].to_numpy()[:, None]
    finished = view.requests["finish_s"].to_numpy()
    began = (view.requests["arrival_s"] + view.requests["queue_s"]).to_numpy().round(9)
    assert running(view).tolist() == ((began <= now) & (finished > now)).sum(axis=1).tolist()


def test_the_mean_in_bins_keeps_the_area_under_the_curve():
    view = real_view("continuous")
    edges = bin_edges([view], 11)
    area = (view.iterations["waiting"] * view.iterations["duration_s"]).sum()
    means = mean_in_bins(view, view.iterations["waiting"].to_numpy(dtype=float), edges)
    assert (means * np.diff(edges)).sum() == pytest.approx(area)


def test_distribution_points_fall_from_everyone_to_the_one_worst():
    view = real_view("continuous")
    values, share = ttft_points(view)
    order = np.argsort(values)
    assert share[order][0] == 1.0 and share[order][-1] == 1 / len(view.requests)
    assert (np.diff(share[order]) < 0).all()
    assert values.max() == view.summary["ttft_s"]["max"]
    gaps, share = tbt_points(view)
    assert gaps[-1] == view.summary["tbt_s"]["max"] and share[-1] == 1 / view.summary["num_tbt"]
    assert (np.diff(gaps) >= 0).all() and (np.diff(share) <= 0).all()
