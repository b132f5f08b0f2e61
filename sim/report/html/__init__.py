"""The report: runs side by side on one HTML page that needs nothing else, neither files nor network.

    page(views) -> str                   the page
    write_page(views, path) -> Path      written whole or not at all

What it says is in tables (sections.py); the .js files draw, from data that data.py makes small. Text of
the user's (names, ids, configs) is escaped wherever it goes.
"""

from __future__ import annotations

import html
import json
import os
from collections.abc import Sequence
from pathlib import Path
from string import Template

from sim.core.errors import UserError
from sim.core.version import __version__
from sim.report.html import sections
from sim.report.html.data import page_data
from sim.report.view import RunView, distinct_names

__all__ = ["page", "write_page"]

_HERE = Path(__file__).parent
_SCRIPTS = ("canvas.js", "distributions.js", "timeline.js")


def page(views: Sequence[RunView]) -> str:
    """The page of one run, or of several side by side, in the order given."""
    named = distinct_names(views)
    data = json.dumps(page_data(named), separators=(",", ":"), allow_nan=False, ensure_ascii=False)
    template = Template((_HERE / "page.html").read_text(encoding="utf-8"))
    return template.substitute(
        title=html.escape(sections.title(named)),
        style=(_HERE / "page.css").read_text(encoding="utf-8"),
        intro=sections.intro(named),
        comparison=sections.comparison(named),
        latencies=sections.latencies(named),
        timeline=sections.timeline(named),
        worst=sections.worst_requests(named),
        differences=sections.differences(named),
        provenance=sections.provenance(named),
        configs=sections.configs(named),
        notices=sections.notices(named),
        version=html.escape(__version__),
        # a script element ends at the first "</", whatever stands around it
        data=data.replace("<", "\\u003c").replace("\u2028", "\\u2028").replace("\u2029", "\\u2029"),
        script="\n".join((_HERE / name).read_text(encoding="utf-8") for name in _SCRIPTS),
    )


def write_page(views: Sequence[RunView], path: Path) -> Path:
    """Write the page; UserError if the file cannot be written."""
    text = page(views)
    partial = path.with_name(f".{path.name}.part")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        partial.write_text(text, encoding="utf-8")
        os.replace(partial, path)
    except OSError as error:
        partial.unlink(missing_ok=True)
        raise UserError(f"cannot write {path}: {error.strerror or error}") from error
    return path
