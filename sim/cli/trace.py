"""`trace info|convert|generate|fit|fetch`: look at, convert, make, model and download traces."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sim.cli.console import Progress, note, say, show
from sim.core.errors import ConfigError
from sim.trace.options import GAP_FITS, LENGTH_FITS

if TYPE_CHECKING:
    from sim.core.protocols import CostModel
    from sim.core.trace import Trace

Arguments = argparse.Namespace

CONFIG_SUFFIXES = (".yaml", ".yml")


def configure(parser: argparse.ArgumentParser) -> None:
    commands = parser.add_subparsers(metavar="ACTION", title="actions", required=True)
    for name, meaning, add, run in (
        ("info", "counts, rate, burstiness, lengths, prefix reuse, offered load", _info_arguments, _info),
        ("convert", "write a trace in another format, or a part of it", _convert_arguments, _convert),
        ("generate", "make a synthetic trace from a spec", _generate_arguments, _generate),
        ("fit", "model a trace as a spec and a quantile table", _fit_arguments, _fit),
        ("fetch", "download a public trace", _fetch_arguments, _fetch),
    ):
        sub = commands.add_parser(name, help=meaning, description=meaning)
        add(sub)
        sub.set_defaults(action=run)


def main(arguments: Arguments) -> int:
    action: Callable[[Arguments], int] = arguments.action
    return action(arguments)


def _load_arguments(parser: argparse.ArgumentParser) -> None:
    """What load_trace takes."""
    parser.add_argument("--format", default="auto", help="the file's format (default: found from the file)")
    parser.add_argument("--limit", type=int, metavar="N", help="only the first N requests")
    parser.add_argument("--window", metavar="FROM:TO", help="only these seconds after the first arrival")
    parser.add_argument("--thin", type=float, metavar="P", help="keep each request with probability P")
    parser.add_argument("--rate-scale", type=float, default=1.0, metavar="X", help="arrivals X times as fast")
    for name in ("prompt", "output", "total"):
        parser.add_argument(f"--max-{name}-tokens", type=int, metavar="N", help=f"cap of {name} tokens")
    parser.add_argument(
        "--over-cap",
        choices=("reject", "clip", "drop"),
        default="reject",
        help="what becomes of requests over a cap: an error, shortened, left out (default: reject)",
    )
    parser.add_argument("--seed", type=int, default=0, help="of whatever is random (default: 0)")


def _loaded(arguments: Arguments) -> Trace:
    """The trace that the arguments name; what was changed or left out goes to stderr."""
    from sim.trace.load import load_trace

    trace = load_trace(
        arguments.trace,
        format=arguments.format,
        limit=arguments.limit,
        window_s=_window(arguments.window),
        thin=arguments.thin,
        rate_scale=arguments.rate_scale,
        max_prompt_tokens=arguments.max_prompt_tokens,
        max_output_tokens=arguments.max_output_tokens,
        max_total_tokens=arguments.max_total_tokens,
        over_cap=arguments.over_cap,
        seed=arguments.seed,
    )
    _tell(trace)
    return trace


def _window(text: str | None) -> tuple[str, str] | None:
    if text is None:
        return None
    start, colon, end = text.partition(":")
    try:
        float(start), float(end)
    except ValueError:
        colon = ""
    if not colon:
        raise ConfigError(f"--window {text}: must look like FROM:TO, in seconds")
    return start, end


def _tell(trace: Trace) -> None:
    for notice in trace.notices:
        note(f"note: {notice}")
    for reason, count in trace.dropped.items():
        note(f"note: {count:,} rows dropped: {reason}")


def _info_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("trace", metavar="TRACE", help="a trace file, or a config (its trace and replica)")
    _load_arguments(parser)
    parser.add_argument("--cost", metavar="FILE", help="a cost model file, for the offered load")
    parser.add_argument("--max-batch-size", type=int, default=128, metavar="N", help="for it (default: 128)")
    parser.add_argument("--plot", metavar="PNG", help="draw the trace")
    parser.add_argument("--json", action="store_true", help="print JSON instead of tables")


def _info(arguments: Arguments) -> int:
    from sim.trace.describe import describe

    cost: CostModel | None = None
    kv_tokens: int | None = None
    if Path(arguments.trace).suffix in CONFIG_SUFFIXES:
        trace, cost, kv_tokens = _of_config(arguments)
    else:
        trace = _loaded(arguments)
    if arguments.cost:
        from sim.cost import load_cost_model

        cost = load_cost_model({"file": arguments.cost}, "--cost")
    about = describe(trace, cost, max_batch_size=arguments.max_batch_size, kv_tokens=kv_tokens)
    if arguments.json:
        import json

        say(json.dumps(about, indent=2))
    else:
        from sim.cli.trace_tables import trace_tables

        show(trace_tables(about))
    if arguments.plot:
        from sim.report.trace_plots import draw_trace

        note(f"plot: {draw_trace(trace, Path(arguments.plot))}")
    return 0


def _of_config(arguments: Arguments) -> tuple[Trace, CostModel, int | None]:
    """Trace, cost model and KV tokens of a config."""
    from sim.api.inputs import build_inputs
    from sim.api.load import load_config

    config = load_config(arguments.trace, {})
    arguments.max_batch_size = config.policy.parameters.get("max_batch_size", arguments.max_batch_size)
    inputs = build_inputs(config)
    _tell(inputs.trace)
    blocks = inputs.num_blocks
    return inputs.trace, inputs.cost, None if blocks is None else blocks * config.kv_cache.block_size


def _convert_arguments(parser: argparse.ArgumentParser) -> None:
    from sim.trace.write import WRITERS

    parser.add_argument("trace", metavar="TRACE", help="a trace file")
    parser.add_argument("out", metavar="OUT", help="the new file; .gz or .zst at its end compresses it")
    parser.add_argument(
        "--to",
        choices=("auto", *WRITERS),
        default="auto",
        help="its format (default: by its name, .csv plain, .jsonl mooncake, .parquet)",
    )
    _load_arguments(parser)


def _convert(arguments: Arguments) -> int:
    return _written(_loaded(arguments), arguments.out, arguments.to)


def _written(trace: Trace, path: str, format: str = "auto") -> int:
    from sim.trace.write import write_trace

    for loss in write_trace(trace, path, format=format):
        note(f"note: {loss}")
    say(f"{path}: {len(trace):,} requests over {trace.arrival_ns[-1] / 1e9:,.1f} s")
    return 0


def _generate_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("spec", metavar="SPEC", help="YAML with the keys of trace.synthetic, or a config")
    parser.add_argument(
        "--set",
        dest="overrides",
        metavar="KEY=VALUE",
        action="append",
        default=[],
        help="override a key of the spec, e.g. arrivals.rate_per_s=8; may be repeated",
    )
    parser.add_argument("--seed", type=int, default=0, help="default: 0")
    parser.add_argument("--out", metavar="FILE", required=True, help="where the trace goes")


def _generate(arguments: Arguments) -> int:
    from sim.cli.options import parse_overrides
    from sim.config.source import read_source
    from sim.trace.synthetic import generate

    source = read_source(arguments.spec)
    section = source.values.get("trace")
    inside = isinstance(section, dict) and "synthetic" in section
    prefix = "trace.synthetic." if inside else ""
    given = {prefix + key: value for key, value in parse_overrides(arguments.overrides).items()}
    spec: Any = source.overridden(given).values
    if inside:
        spec = spec["trace"]["synthetic"]
    trace = generate(spec, arguments.seed, base_dir=Path(arguments.spec).parent)
    return _written(trace, arguments.out)


def _fit_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("trace", metavar="TRACE", help="a trace file")
    _load_arguments(parser)
    parser.add_argument("--gaps", choices=GAP_FITS, default="empirical", help="gaps between arrivals")
    parser.add_argument("--lengths", choices=LENGTH_FITS, default="empirical", help="prompts and outputs")
    parser.add_argument("--rate-bins", type=int, default=60, metavar="N", help="bins of the rate over time")
    parser.add_argument(
        "--copula-bins",
        type=int,
        default=20,
        metavar="N",
        help="ranks of prompts and outputs are counted together in N x N bins (1: only their correlation)",
    )
    parser.add_argument("--comment", action="append", default=[], help="a line for the top of the files")
    parser.add_argument(
        "--out",
        metavar="SPEC.yaml",
        required=True,
        help="the spec; its quantile table goes beside it, as SPEC_quantiles.csv",
    )


def _fit(arguments: Arguments) -> int:
    from sim.cli.trace_tables import goodness_table
    from sim.trace.fit import fit_trace
    from sim.trace.goodness import goodness_of_fit
    from sim.trace.spec_file import write_fit
    from sim.trace.synthetic import generate

    trace = _loaded(arguments)
    path = Path(arguments.out)
    table_path = path.with_name(path.stem + "_quantiles.csv")
    fit = fit_trace(
        trace,
        gaps=arguments.gaps,
        lengths=arguments.lengths,
        rate_bins=arguments.rate_bins,
        copula_bins=arguments.copula_bins,
        table_name=table_path.name,
    )
    written = write_fit(fit, path, table_path, arguments.comment)
    say(f"{', '.join(map(str, written))}: a model of {len(trace):,} requests")
    show(goodness_table(goodness_of_fit(trace, generate(fit.spec, arguments.seed, base_dir=path.parent))))
    return 0


def _fetch_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("name", metavar="NAME", nargs="?", help="which; without it, they are listed")
    parser.add_argument("--dir", metavar="DIR", help="where to keep it (default: the cache, or $SIM_CACHE)")


def _fetch(arguments: Arguments) -> int:
    from sim.trace.catalogue import CATALOGUE
    from sim.trace.fetch import fetch_trace

    if arguments.name is None:
        from sim.cli.trace_tables import catalogue_table

        show(catalogue_table(CATALOGUE))
        return 0
    with _bytes_bar(arguments.name) as progress:
        path = fetch_trace(arguments.name, arguments.dir, progress)
    say(str(path))
    return 0


@contextmanager
def _bytes_bar(label: str) -> Iterator[Progress | None]:
    """A progress callback that draws a bar; None where stderr is no terminal."""
    if not sys.stderr.isatty():
        yield None
        return
    from rich import progress as rich
    from rich.console import Console

    columns = (
        rich.TextColumn("{task.description}"),
        rich.BarColumn(),
        rich.DownloadColumn(),
        rich.TransferSpeedColumn(),
        rich.TimeRemainingColumn(),
    )
    with rich.Progress(*columns, console=Console(stderr=True), transient=True) as bars:
        task = bars.add_task(label, total=None)
        yield lambda done, total: bars.update(task, completed=done, total=total or None)
