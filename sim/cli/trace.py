"""`trace info|convert|generate|fit|fetch`: look at, convert, make, model and download traces."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sim.cli.console import note, say, show
from sim.cli.options import parse_overrides

if TYPE_CHECKING:
    from sim.core.trace import Trace
    from sim.trace.goodness import Fitness

Arguments = argparse.Namespace


def configure(parser: argparse.ArgumentParser) -> None:
    commands = parser.add_subparsers(metavar="ACTION", title="actions", required=True)
    for name, meaning, add, run in (
        ("generate", "make a synthetic trace from a spec", _generate_arguments, _generate),
        ("fit", "model a trace as a spec and a quantile table", _fit_arguments, _fit),
    ):
        sub = commands.add_parser(name, help=meaning, description=meaning)
        add(sub)
        sub.set_defaults(action=run)


def main(arguments: Arguments) -> int:
    action: Callable[[Arguments], int] = arguments.action
    return action(arguments)


def _generate_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("spec", metavar="SPEC", help="YAML file with the keys of trace.synthetic, or a config")
    parser.add_argument(
        "--set", dest="overrides", metavar="KEY=VALUE", action="append", default=[],
        help="override a key of the spec, e.g. arrivals.rate_per_s=8; may be repeated",
    )
    parser.add_argument("--seed", type=int, default=0, help="default 0")
    parser.add_argument("--out", metavar="FILE", required=True, help="where the trace goes")


def _generate(arguments: Arguments) -> int:
    from sim.config.source import read_source
    from sim.trace.synthetic import generate
    from sim.trace.write import write_plain

    source = read_source(arguments.spec).overridden(parse_overrides(arguments.overrides))
    spec: Any = source.values
    if isinstance(spec.get("trace"), dict) and "synthetic" in spec["trace"]:
        spec = spec["trace"]["synthetic"]
    trace = generate(spec, arguments.seed, base_dir=Path(arguments.spec).parent)
    write_plain(trace, Path(arguments.out))
    say(f"{arguments.out}: {len(trace)} requests over {trace.arrival_ns[-1] / 1e9:.1f} s")
    return 0


def _fit_arguments(parser: argparse.ArgumentParser) -> None:
    from sim.trace.options import GAP_FITS, LENGTH_FITS

    parser.add_argument("trace", metavar="TRACE", help="a trace file")
    parser.add_argument("--format", default="auto", help="its format (default: found from the file)")
    parser.add_argument("--gaps", choices=GAP_FITS, default="empirical", help="gaps between arrivals")
    parser.add_argument("--lengths", choices=LENGTH_FITS, default="empirical", help="prompt and output lengths")
    parser.add_argument("--rate-bins", type=int, default=60, metavar="N", help="bins of the rate over time")
    parser.add_argument("--seed", type=int, default=0, help="of the trace that the fit is judged by")
    parser.add_argument("--comment", action="append", default=[], help="a line for the top of the files")
    parser.add_argument("--out", metavar="SPEC.yaml", required=True, help="the table goes beside it, as SPEC_quantiles.csv")


def _fit(arguments: Arguments) -> int:
    from sim.trace.fit import fit_trace
    from sim.trace.goodness import goodness_of_fit
    from sim.trace.load import load_trace
    from sim.trace.spec_file import write_fit
    from sim.trace.synthetic import generate

    trace = load_trace(arguments.trace, format=arguments.format)
    _notices(trace)
    path = Path(arguments.out)
    table_path = path.with_name(path.stem + "_quantiles.csv")
    fit = fit_trace(
        trace, gaps=arguments.gaps, lengths=arguments.lengths, rate_bins=arguments.rate_bins,
        table_name=table_path.name,
    )
    write_fit(fit, path, table_path, arguments.comment)
    made = generate(fit.spec, arguments.seed, base_dir=path.parent)
    say(f"{path}, {table_path}: a model of {len(trace)} requests")
    show(_goodness_table(goodness_of_fit(trace, made)))
    return 0


def _notices(trace: Trace) -> None:
    """What was changed or left out on reading, to stderr."""
    for notice in trace.notices:
        note(f"note: {notice}")
    for reason, count in trace.dropped.items():
        note(f"note: {count} rows dropped: {reason}")


def _goodness_table(rows: list[Fitness]) -> Any:
    from rich.table import Table

    table = Table("figure", "trace", "model", "KS distance", "p value", title="Goodness of fit")
    for column in table.columns[1:]:
        column.justify = "right"
    for row in rows:
        table.add_row(row.figure, *(number(value) for value in (row.real, row.model, row.ks, row.p_value)))
    return table


def number(value: float | None) -> str:
    """Four significant digits, thousands set apart; a dash for None."""
    if value is None:
        return "-"
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.4g}"
