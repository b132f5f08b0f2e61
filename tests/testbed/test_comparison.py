"""compare with seeds and bounds, and what its commands print and leave behind."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import yaml
from rich.console import Console

import sim
from sim.api.comparison import line_up, reseeded
from sim.cli import main
from sim.config import Config
from sim.report.comparison_tables import comparison_of, verdict_lines
from sim.report.plots import attainment_curves, capacity_bars, comparison_dots, frontiers

POLICIES = ["static", "continuous", "stall_free"]
LONGER = "arrival_s,prompt_tokens,output_tokens\n" + "".join(
    f"{0.05 * k + 0.02 * (k % 3)},{50 + 37 * k % 400},{5 + 11 * k % 40}\n" for k in range(60)
)


@pytest.fixture
def config(tiny: Path) -> Config:
    Path("trace.csv").write_text(LONGER)
    return sim.load_config("config.yaml", {"slo.ttft_s": 0.2, "slo.tbt_s": 0.02})


def printed(*renderables: object) -> str:
    console = Console(width=200, record=True, file=open("/dev/null", "w"))  # noqa: SIM115
    for renderable in renderables:
        console.print(renderable)
    return console.export_text()


def test_a_file_is_itself_in_the_first_seed_and_drawn_again_after_it(config: Config) -> None:
    seeds = [contender.config.trace.bootstrap for contender in line_up(config, ["static"], 3)]
    assert seeds == [None, 20, 20]
    frame = sim.compare(config, ["continuous"], seeds=3)
    assert frame["ttft_s.mean"].nunique() == 3
    assert frame.iloc[0]["ttft_s.mean"] == sim.compare(config, ["continuous"]).iloc[0]["ttft_s.mean"]


def test_a_trace_that_the_seed_draws_anyway_is_left_alone(tiny: Path) -> None:
    for overrides in (
        {"trace.thin": 0.5},
        {"trace.arrivals.process": "poisson"},
        {"trace": {"synthetic": {"num_requests": 5}}},
        {"trace.bootstrap": 7},
    ):
        given = sim.load_config("config.yaml", overrides)
        assert reseeded(given, 5).trace.bootstrap == overrides.get("trace.bootstrap")


def test_the_run_folder_of_a_seed_makes_the_same_run_again(config: Config, tiny: Path) -> None:
    assert main(["compare", "config.yaml", "--policies", "continuous", "--seeds", "2", "--out", "c"]) == 0
    again = sim.run(sim.load_config("c/continuous/seed-1/config.yaml"))
    assert again.requests.equals(sim.load_run("c/continuous/seed-1").requests)


def test_every_row_stays_within_the_bounds_of_its_seed(config: Config) -> None:
    frame = sim.compare(config, seeds=3)
    for name in (column for column in frame if column.startswith("bound.")):
        result, bound = frame[name.removeprefix("bound.")] if name[6:] in frame else None, frame[name]
        if result is None:
            assert name == "bound.sustainable_requests_per_s"
        elif name.partition(".")[2].partition(".")[0] in ("throughput", "goodput", "slo_attainment"):
            assert (result <= bound * (1 + 1e-9)).all(), name
        else:
            assert (result >= bound * (1 - 1e-9)).all(), name
    assert (frame.groupby("seed")["bound.makespan_s"].nunique() == 1).all()


def test_bounds_of_a_config_are_those_of_its_comparison(config: Config) -> None:
    frame = sim.compare(config, ["stall_free"])
    assert sim.bounds(config)["ttft_s"]["p99"] == frame.iloc[0]["bound.ttft_s.p99"]


def test_the_long_form_has_policy_seed_metric_and_value(config: Config) -> None:
    long = sim.compare(config, ["continuous"], seeds=2, long=True)
    assert list(long.columns) == ["policy", "seed", "metric", "value"]
    assert {"tbt_s.p99", "bound.ttft_s.p50"} <= set(long["metric"])


def test_the_table_shows_means_intervals_bounds_and_distances(config: Config) -> None:
    text = printed(comparison_of(sim.compare(config, POLICIES, seeds=5), ["said once"]))
    assert "no policy beats" in text and "TTFT p99 / its bound" in text
    assert text.count("note: said once") == 1
    assert "[" in text.split("TTFT p50")[1].split("TTFT p99")[0]


def test_the_simulators_own_time_needs_no_interval(config: Config) -> None:
    text = printed(comparison_of(sim.compare(config, ["continuous"], seeds=5)))
    assert "[" not in text.split("simulated in")[1].split("its bound")[0]


def test_a_few_seeds_show_their_means_and_say_why_no_interval(config: Config) -> None:
    text = printed(comparison_of(sim.compare(config, POLICIES, seeds=2)))
    assert "[" not in text
    assert "note: means of 2 seeds, too few for their intervals to say much; 5 show them" in text


def test_where_the_cache_is_unlimited_the_peak_is_in_blocks(config: Config) -> None:
    frame = sim.compare(config, ["continuous"])
    frame.loc[0, ["kv_cache.peak_share", "kv_peak"]] = [None, 5636]
    line = next(line for line in printed(comparison_of(frame)).splitlines() if "KV peak" in line)
    assert "5,636 blocks" in line


def test_one_seed_shows_no_interval(config: Config) -> None:
    assert "[" not in printed(comparison_of(sim.compare(config, POLICIES)))


def test_the_command_writes_means_and_differences_and_says_them(
    config: Config, capsys: pytest.CaptureFixture[str]
) -> None:
    arguments = ["--policies", ",".join(POLICIES), "--seeds", "4", "--baseline", "continuous", "--out", "c"]
    assert main(["compare", "config.yaml", *arguments]) == 0
    out = capsys.readouterr().out
    assert "stall_free against continuous" in out and "static against continuous" in out
    assert "requests drawn again from the trace in blocks of 3" in out
    pairs = pd.read_csv("c/differences.csv")
    assert len(pairs[pairs["metric"] == "tbt_s.p99"]) == 6
    assert not pairs["metric"].str.startswith("simulator.").any()
    means = pd.read_csv("c/means.csv").set_index(["policy", "metric"])
    table = pd.read_csv("c/comparison.csv")
    expected = table.loc[table["policy"] == "static", "ttft_s.p50"].mean()
    assert means.loc[("static", "ttft_s.p50"), "mean"] == pytest.approx(expected)
    again = printed(verdict_lines(table, "continuous"))
    assert all(line.strip() in out for line in again.splitlines())


def test_a_baseline_that_does_not_run_is_answered(
    config: Config, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["compare", "config.yaml", "--policies", "static,continuous", "--baseline", "statik"]) == 2
    assert "--baseline statik: did you mean 'static'?" in capsys.readouterr().err


def test_a_comparison_without_bounds_says_why_and_goes_on(
    config: Config, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    from sim.report.bounds import NoBounds

    def refuse(*_: object) -> None:
        raise NoBounds("no bounds: because")

    monkeypatch.setattr("sim.api.bounding.bounds_of", refuse)
    assert main(["compare", "config.yaml", "--policies", "static,continuous"]) == 0
    out = capsys.readouterr().out
    assert "note: no bounds: because" in out and "no policy beats" not in out


def test_capacity_and_frontier_commands_leave_tables_and_plots(
    config: Config, capsys: pytest.CaptureFixture[str]
) -> None:
    values = yaml.safe_load(Path("config.yaml").read_text())
    values["slo"] = {"tbt_s": 0.02, "ttft_s": 0.5}
    values["output"]["plots"] = True
    Path("config.yaml").write_text(yaml.safe_dump(values))
    policies = ["--policies", "continuous,stall_free"]
    assert main(["capacity", "config.yaml", *policies, "--limit", "tbt_s.p99=0.02", "--curves"]) == 0
    found = {path.relative_to("out-capacity").as_posix() for path in Path("out-capacity").rglob("*.*")}
    tables = {"capacity.csv", "trials.csv", "attainment.csv"}
    assert found == tables | {"plots/capacity.png", "plots/attainment.png"}
    assert "highest rate with TBT p99 <= 20.0 ms" in capsys.readouterr().out
    assert main(["frontier", "config.yaml", *policies, "--budgets", "64,256", "--batch-sizes", "2,4"]) == 0
    assert len(pd.read_csv("out-frontier/frontier.csv")) == 6
    assert (Path("out-frontier/plots") / "frontier.png").stat().st_size > 10_000


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["capacity", "--limit", "tbt_s.p99=fast"], "--limit tbt_s.p99=fast: must be a number above 0"),
        (["capacity", "--limit", "0.1"], "--limit 0.1: must look like section.key=value"),
        (["frontier", "--budgets", "1,x"], "--budgets 1,x: must be whole numbers with commas between"),
        (["frontier", "--batch-sizes", "0"], "--batch-sizes 0: must be at least 1"),
        (["frontier", "--rate", "-1"], "--rate -1: must be a number above 0, or own"),
    ],
)
def test_wrong_arguments_are_answered(
    config: Config, capsys: pytest.CaptureFixture[str], arguments: list[str], said: str
) -> None:
    assert main([arguments[0], "config.yaml", *arguments[1:]]) == 2
    assert said in capsys.readouterr().err


def test_an_interrupted_capacity_keeps_what_was_found(
    config: Config, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    from sim.api.bench import Bench

    run = Bench.run

    def interrupted(self: Bench, rate: float | None) -> object:
        if self.contender.label == "static":
            raise KeyboardInterrupt
        return run(self, rate)

    monkeypatch.setattr(Bench, "run", interrupted)
    arguments = ["--policies", "continuous,static", "--limit", "tbt_s.p99=0.02"]
    assert main(["capacity", "config.yaml", *arguments]) == 130
    assert pd.read_csv("out-capacity/capacity.csv")["policy"].tolist() == ["continuous"]
    assert "interrupted" in capsys.readouterr().err


def test_plots_can_be_drawn_twice_from_what_a_file_holds(config: Config) -> None:
    """The functions of sim.report.plots are still functions after their modules are imported."""
    frame = sim.compare(config, POLICIES, seeds=2)
    for _ in range(2):
        figure = comparison_dots(frame)
    assert len(figure.axes) == 8
    searched = sim.capacity(config, ["continuous"], limits={"tbt_s.p99": 0.05})
    curves = sim.attainment(config, ["continuous"], rates=[2, 4])
    points = sim.frontier(config, ["stall_free", "continuous"], token_budgets=[64, 128])
    for _ in range(2):
        assert capacity_bars(searched, "title").axes
        assert attainment_curves(curves, sim.best_goodput(curves), "TTFT").axes
        assert len(frontiers(points, "title").axes) == 2


def test_no_dot_of_the_plot_lies_where_no_policy_can_be(config: Config) -> None:
    frame = sim.compare(config, POLICIES, seeds=3)
    figure = comparison_dots(frame)
    ttft = figure.axes[0]
    shade = ttft.patches[0].get_extents().transformed(ttft.transData.inverted())
    assert shade.x1 == pytest.approx(frame["bound.ttft_s.p50"].min())
    drawn = np.concatenate([line.get_xdata() for line in ttft.lines if line.get_marker() == "o"])
    assert (drawn >= frame["bound.ttft_s.p50"].min() * 0.999).all()
