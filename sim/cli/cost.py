"""`cost show FILE`: what a cost model predicts, as tables and a plot; `cost list`: the shipped ones."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from sim.cli.console import say, show


def configure(parser: argparse.ArgumentParser) -> None:
    actions = parser.add_subparsers(dest="action", metavar="ACTION", required=True)
    shown = actions.add_parser("show", help="prefill, decode and mixed times of a cost model")
    shown.add_argument("source", metavar="FILE", help="a cost model file, its name, or a profile folder")
    shown.add_argument("--plot", metavar="PNG", type=Path, help="draw them into this file")
    actions.add_parser("list", help="the cost model files that come with the package")


def main(arguments: argparse.Namespace) -> int:
    if arguments.action == "list":
        return _list()
    from sim.cost import load_cost_model

    is_folder = Path(arguments.source).is_dir()
    spec = {"kind": "profile", "path": arguments.source} if is_folder else {"file": arguments.source}
    model = load_cost_model(spec, "cost show")
    for table in (prefill_table(model), decode_table(model), hybrid_table(model)):
        show(table)
    if arguments.plot:
        from sim.report.cost_plots import draw_cost

        title = Path(arguments.source).name.removesuffix(".yaml")
        say(f"plot: {draw_cost(model, title, arguments.plot)}")
    return 0


def prefill_table(model: Any) -> Any:
    """Time and rate of one prompt alone, and where the rate stops growing."""
    from sim.cost import curves

    rows = [
        (f"{tokens:,}", f"{ms:.2f}", f"{1000 * tokens / ms:,.0f}", _mark(model, curves.prefill_batch(tokens)))
        for tokens in curves.PREFILL_TOKENS
        for ms in [curves.prefill_ms(model, tokens)]
    ]
    title = f"prefill of one prompt: 90 % of the best rate from {curves.saturation_tokens(model)} tokens"
    return _table(title, ("tokens", "ms", "tokens/s", ""), rows)


def decode_table(model: Any) -> Any:
    """Decode-only iterations by batch and context."""
    from sim.cost import curves

    rows = [
        (
            str(number),
            *(
                f"{curves.decode_ms(model, number, context):.2f}"
                + _mark(model, curves.decodes_at(number, context))
                for context in curves.CONTEXTS
            ),
        )
        for number in curves.DECODE_BATCHES
    ]
    headings = ("decodes", *(f"at {context:,}" for context in curves.CONTEXTS))
    return _table("decode-only iteration, ms, by context of each", headings, rows)


def hybrid_table(model: Any) -> Any:
    """Decodes with a prefill chunk beside them."""
    from sim.cost import curves

    rows = []
    for chunk in curves.HYBRID_CHUNKS:
        times = [curves.hybrid_ms(model, number, chunk) for number in curves.HYBRID_DECODES]
        rows.append((f"{chunk:,}", *("" if time is None else f"{time:.2f}" for time in times)))
    headings = ("prefill tokens", *(f"{number} decodes" for number in curves.HYBRID_DECODES))
    return _table(f"mixed iteration, ms, decodes at {curves.HYBRID_CONTEXT:,}", headings, rows)


def _mark(model: Any, batch: Any) -> str:
    """A star where the model was not measured; the tables say so."""
    return " *" if model.outside(batch) else ""


def _table(title: str, headings: Sequence[str], rows: Sequence[Sequence[str]]) -> Any:
    from rich.table import Table

    starred = any(cell.endswith("*") for row in rows for cell in row)
    caption = "* outside the measured range" if starred else None
    table = Table(title=title, title_justify="left", caption=caption, caption_justify="left")
    for heading in headings:
        table.add_column(heading, justify="right")
    for row in rows:
        table.add_row(*row)
    return table


def _list() -> int:
    from sim.cost.catalogue import catalogue_dir
    from sim.cost.fields import read_yaml

    rows = []
    for path in sorted((catalogue_dir() / "cost").glob("*.yaml")):
        content = read_yaml(path)
        held_out = content.get("errors", {}).get("held_out", {})
        errors = ", ".join(f"{kind} {found['median_pct']}" for kind, found in held_out.items())
        provenance = content.get("provenance", {})
        origin = (provenance.get("source", ""), provenance.get("licence", ""))
        rows.append((path.stem, content["kind"], errors, *origin))
    headings = ("file", "kind", "held-out median error, %", "source", "licence")
    table = _table("shipped cost models", headings, rows)
    for column in table.columns:
        column.justify = "left"
    show(table)
    return 0
