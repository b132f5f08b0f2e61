"""`validate RUN_DIR --cost FILE_OR_PROFILE`: simulate a measured run; errors against the measurement."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sim.cli.console import note, progress_bars, say, show
from sim.cli.options import parse_overrides
from sim.core.errors import ConfigError

if TYPE_CHECKING:
    from sim.api.closed_loop import ClosedLoop
    from sim.api.validation import Validation

LABELS = {
    "ttft_queued_s": "TTFT, from queued",
    "ttft_s": "TTFT, from arrival",
    "tpot_s": "TPOT",
    "e2e_s": "E2E",
}


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "run_dir", metavar="RUN_DIR", nargs="?", help="a measured run (docs/run-format.md says what it holds)"
    )
    parser.add_argument("--cost", metavar="FILE_OR_PROFILE", help="a cost model file, or a profile folder")
    parser.add_argument(
        "--closed-loop",
        metavar="CSV",
        help="instead of RUN_DIR: benchmark points at fixed concurrency; without --cost each takes the "
        "shipped cost model of its GPU and model",
    )
    parser.add_argument("--seeds", type=int, default=1, metavar="N", help="for --closed-loop (default: 1)")
    parser.add_argument(
        "--set", dest="overrides", metavar="KEY=VALUE", action="append", default=[],
        help="override any key of the replay's config, e.g. kv_cache.prefix_caching=false",
    )  # fmt: skip
    parser.add_argument("--out", metavar="DIR", help="write validation.json and the plots there")
    parser.add_argument("--no-plots", action="store_true", help="only validation.json")


def main(arguments: argparse.Namespace) -> int:
    overrides = parse_overrides(arguments.overrides)
    if (arguments.run_dir is None) == (arguments.closed_loop is None):
        raise ConfigError("validate: give either RUN_DIR or --closed-loop CSV")
    if arguments.closed_loop is not None:
        return _closed_loop(arguments, overrides)
    if arguments.cost is None:
        raise ConfigError("validate: --cost is required: a cost model file, or a profile folder")
    from sim.api.validation import validate

    with progress_bars() as start:
        result = validate(arguments.run_dir, arguments.cost, overrides, progress=start("replay"))
    _print_run(result)
    if arguments.out:
        _say_written(result.save(arguments.out, plots=not arguments.no_plots))
    return 0


def _closed_loop(arguments: argparse.Namespace, overrides: dict[str, Any]) -> int:
    from sim.api.closed_loop import validate_closed_loop

    if arguments.seeds < 1:
        raise ConfigError(f"--seeds: must be at least 1, got {arguments.seeds}")
    with progress_bars() as start:
        result = validate_closed_loop(
            arguments.closed_loop,
            arguments.cost,
            overrides,
            seeds=arguments.seeds,
            progress=start("points"),
        )
    _print_closed_loop(result)
    if arguments.out:
        _say_written(result.save(arguments.out, plots=not arguments.no_plots))
    return 0


def _print_run(result: Validation) -> None:
    from rich.table import Table

    table = Table(title=f"{result.report['run']}: simulated against measured")
    for heading in ("", "statistic", "measured", "simulated", "error"):
        table.add_column(heading, justify="left" if heading in ("", "statistic") else "right")
    for metric, statistics in result.report["metrics"].items():
        for place, (statistic, figures) in enumerate(statistics.items()):
            if figures["measured"] is not None:
                table.add_row("" if place else LABELS[metric], statistic, *_figures(figures, 1e3, " ms"))
        table.add_section()
    table.add_row("makespan", "", *_figures(result.report["makespan_s"], 1, " s"))
    table.add_row("output tokens/s", "", *_figures(result.report["output_tokens_per_s"], 1, ""))
    show(table)
    error = result.report["mean_abs_error_pct"]
    say(f"mean absolute error over TTFT from queued, TPOT, E2E x mean, p50, p90, p95, p99: {error:.2f} %")
    per_request = ", ".join(
        f"{LABELS[metric]} {errors['median_error_pct']:+.1f} %"
        for metric, errors in result.report["per_request"].items()
        if errors["median_error_pct"] is not None
    )
    say(f"median error of single requests: {per_request}")
    for line in result.report["notices"]:
        note(line)


def _figures(figures: dict[str, float | None], scale: float, unit: str) -> tuple[str, str, str]:
    measured, simulated, error = (figures[key] for key in ("measured", "simulated", "error_pct"))
    shown = [("-" if x is None else f"{x * scale:,.1f}{unit}") for x in (measured, simulated)]
    return shown[0], shown[1], "-" if error is None else f"{error:+.2f} %"


def _print_closed_loop(result: ClosedLoop) -> None:
    from rich.table import Table

    table = Table(title=f"{result.report['source']}: {result.report['points']} measured points")
    for heading in ("points", "number", "TTFT MAPE", "TTFT bias", "TPOT MAPE", "TPOT bias"):
        table.add_column(heading, justify="left" if heading == "points" else "right")
    table.add_row("all", *_errors(result.report["all"]))
    table.add_row("not limited by KV", *_errors(result.report["not_kv_limited"]))
    for title, groups in result.report["by"].items():
        table.add_section()
        for key, errors in groups.items():
            table.add_row(f"{title.replace('_', ' ')} {key}", *_errors(errors))
    show(table)


def _errors(errors: dict[str, Any]) -> list[str]:
    ttft, tpot = errors["ttft"], errors["tpot"]
    return [
        str(ttft["points"]),
        f"{ttft['mape_pct']:.1f} %",
        f"{ttft['bias_pct']:+.1f} %",
        f"{tpot['mape_pct']:.1f} %",
        f"{tpot['bias_pct']:+.1f} %",
    ]


def _say_written(paths: list[Path]) -> None:
    say("written: " + ", ".join(str(path) for path in paths))
