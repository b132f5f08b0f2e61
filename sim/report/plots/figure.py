"""Figure: what all plots share - size, colours and line styles of runs, the legend, saving.

Colours are Okabe and Ito's, told apart by colour-blind readers; line styles tell them apart in grey.
"""

from __future__ import annotations

import io
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from sim.core.errors import UserError
from sim.report.tables import seconds
from sim.report.view import RunView

BLUE, VERMILLION, GREEN = "#0072B2", "#D55E00", "#009E73"
ORANGE, PURPLE, SKY, BLACK, GREY = "#E69F00", "#CC79A7", "#56B4E9", "#000000", "#999999"

DPI = 120


class Style(NamedTuple):
    """How one run's lines look."""

    color: str
    dashes: Any


# A policy looks the same in every figure, whichever others are beside it.
KNOWN_STYLES: Mapping[str, Style] = {
    "stall_free": Style(BLUE, "-"),
    "continuous": Style(VERMILLION, (0, (6, 1.5))),
    "static": Style(BLACK, (0, (1.5, 1.5))),
    "prefill_first": Style(PURPLE, (0, (6, 1.5, 1.5, 1.5))),
    "vllm_v1": Style(GREEN, (0, (10, 2))),
}
OTHER_STYLES = (
    Style(SKY, "-"),
    Style(ORANGE, (0, (4, 2))),
    Style(GREEN, (0, (2, 1))),
    Style(GREY, "-"),
    *KNOWN_STYLES.values(),
)


class ReportFigure(Figure):
    """A Figure that shows itself in a notebook without pyplot."""

    def _repr_png_(self) -> bytes:
        buffer = io.BytesIO()
        self.savefig(buffer, format="png", dpi=DPI)
        return buffer.getvalue()


def new_figure(width_in: float, height_in: float) -> ReportFigure:
    """An empty figure; no global state of pyplot is touched."""
    return ReportFigure(figsize=(width_in, height_in), dpi=DPI)


def styles(views: Sequence[RunView]) -> dict[str, Style]:
    """A style for every view by its name."""
    return styles_of([view.name for view in views])


def styles_of(names: Sequence[str]) -> dict[str, Style]:
    """A style for every name: the policy's own where it has one, else one still free."""
    found = {name: KNOWN_STYLES[name] for name in names if name in KNOWN_STYLES}
    others = [name for name in names if name not in found]
    free = [style for style in OTHER_STYLES if style not in found.values()]
    return found | {name: free[place % len(free)] for place, name in enumerate(others)}


def run_legend(figure: Figure, views: Sequence[RunView], extra: Sequence[Line2D] = ()) -> None:
    """A legend of the runs above the axes, where it covers no data."""
    name_legend(figure, [view.name for view in views], extra)


def name_legend(figure: Figure, names: Sequence[str], extra: Sequence[Line2D] = ()) -> None:
    """A legend of the lines of `names`, as `styles_of` has them, above the axes."""
    by_name = styles_of(names)
    handles = [
        Line2D([], [], color=by_name[name].color, linestyle=by_name[name].dashes, label=name)
        for name in names
    ]
    figure.legend(
        handles=[*handles, *extra],
        loc="upper center",
        ncols=min(len(handles) + len(extra), 5),
        frameon=False,
        handlelength=3.0,
    )


def tidy(axes: Axes) -> None:
    """Grid behind the data, no box around it."""
    axes.grid(True, color="0.9", linewidth=0.6)
    axes.set_axisbelow(True)
    axes.spines[["top", "right"]].set_visible(False)


def short_time(value_s: float, _position: int | None = None) -> str:
    """A duration for a tick: 50 ms, 1.5 s."""
    return seconds(value_s).replace(".00 ", " ").replace(".0 ", " ")


def save(figure: Figure, path: Path) -> Path:
    """Write a PNG, whole or not at all. UserError if that is impossible."""
    partial = path.with_name(f".{path.name}.part")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        figure.savefig(partial, format="png", dpi=DPI)
        os.replace(partial, path)
    except OSError as error:
        if partial.exists():
            partial.unlink()
        raise UserError(f"cannot write {path}: {error.strerror or error}") from error
    return path
