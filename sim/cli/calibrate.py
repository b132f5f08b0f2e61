"""`calibrate SOURCE... --out FILE`: measurements to a cost model file, with its errors."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sim.cli.console import note, say, show

if TYPE_CHECKING:
    from sim.cost.calibration import Calibration

EPILOG = """\
sources:
  DIR               layer times measured inside an engine: dense.csv, per_sequence.csv, attention.csv
  DIR               the table that `profile` wrote: iterations.csv
  FILE.csv ...      iterations; or prefill (prompt_tokens, batch, time_ms) and decode (batch, context,
                    time_ms); or whole-model rows (prompt_size, batch_size, prompt_time, token_time)
  aiconfigurator    operator tables of the optional package aiconfigurator-core, for --model and --gpu
"""


def configure(parser: argparse.ArgumentParser) -> None:
    parser.epilog = EPILOG
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.add_argument("sources", metavar="SOURCE", nargs="+", help="what was measured; see below")
    parser.add_argument("--out", metavar="FILE", type=Path, required=True, help="the cost model file")
    parser.add_argument("--kind", choices=("coefficients", "profile", "roofline"), help="default: by source")
    parser.add_argument("--plot", action="store_true", help="draw predicted against measured beside FILE")
    about = parser.add_argument_group("what was measured, where the source does not say")
    about.add_argument("--model", help="a model of configs/models")
    about.add_argument("--gpu", help="a GPU of configs/gpus")
    about.add_argument("--tensor-parallel", type=int, metavar="N", help="GPUs that share the model")
    about.add_argument("--link-gb-s", type=float, metavar="GB_S", help="link between them, one direction")
    about.add_argument("--link-latency-us", type=float, metavar="US", help="latency of a step over it")
    about.add_argument("--name", help="name of the cost model")
    about.add_argument("--source", help="where the measurement comes from, in words")
    about.add_argument("--licence", help="its licence")


def main(arguments: argparse.Namespace) -> int:
    from sim.cost.calibration import Options, calibrate, write_cost_file

    names = ("kind", "model", "gpu", "tensor_parallel", "name", "source", "licence")
    options = Options(
        **{name: getattr(arguments, name) for name in (*names, "link_gb_s", "link_latency_us")}
    )
    result = calibrate(arguments.sources, options)
    write_cost_file(arguments.out, result.spec)
    show(error_table(result))
    say(f"cost model: {arguments.out}")
    provenance = result.spec["provenance"]
    for sentence in (*provenance.get("left_out", ()), *provenance.get("assumed", ())):
        note(f"note: {sentence}")
    if arguments.plot:
        from sim.report.cost_plots import draw_parity

        picture = arguments.out.with_suffix(".png")
        say(f"plot: {draw_parity(result.seen, result.unseen, str(result.spec['name']), picture)}")
    return 0


def error_table(result: Calibration) -> Any:
    """Errors by kind of row, on rows never seen and on all."""
    from rich.table import Table

    title = f"{result.spec['name']} ({result.spec['kind']}): relative errors"
    table = Table(title=title, title_justify="left")
    for heading in ("rows", "of", "number", "median %", "p95 %", "worst %", "worst row"):
        table.add_column(heading, justify="left" if heading in ("rows", "of", "worst row") else "right")
    for which, kinds in result.spec["errors"].items():
        for kind, errors in kinds.items():
            numbers = (errors["rows"], errors["median_pct"], errors["p95_pct"], errors["worst_pct"])
            table.add_row(which.replace("_", " "), kind, *map(str, numbers), errors["worst_row"])
    return table
