"""The parts of the page that are text and tables. Every function returns HTML with all text escaped.

Cells of figures carry the value itself as data-value, unrounded, for whoever reads the page by program.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from html import escape
from typing import Any

import pandas as pd
import yaml

from sim.report.tables import COMPARISON, LATENCIES, Row, figure, seconds, shown
from sim.report.view import RunView

STATISTICS = ("mean", "p50", "p90", "p95", "p99", "max")
MOST_WORST = 6
PROVENANCE = (
    ("policy", "policy"),
    ("seed", "seed"),
    ("trace", "trace_name"),
    ("trace SHA-256", "trace_sha256"),
    ("trace rows left out", "trace_rows_dropped"),
    ("policy file SHA-256", "policy_file_sha256"),
    ("policy reads true output lengths", "oracle"),
    ("simulator version", "version"),
)


def title(views: Sequence[RunView]) -> str:
    """What the page is called, not escaped."""
    names = list(dict.fromkeys(str(view.config.get("name", "run")) for view in views))
    policies = ", ".join(view.name for view in views)
    return f"{', '.join(names)}: {policies}"


def intro(views: Sequence[RunView]) -> str:
    """Heading, and in a sentence what was run."""
    config = views[0].config
    name = ", ".join(dict.fromkeys(str(view.config.get("name", "run")) for view in views))
    traces = dict.fromkeys(
        f"{view.summary['num_requests']:,} requests of {view.summary['provenance']['trace_name']}"
        for view in views
    )
    replica = config.get("replica") or {}
    on = [str(replica[key]) for key in ("model", "gpu") if replica.get(key)]
    ranks = int(replica.get("tensor_parallel") or 1)
    served = f" by {' on '.join(on)}{f' (tensor parallel {ranks})' if ranks > 1 else ''}" if on else ""
    policies = "one policy" if len(views) == 1 else f"{len(views)} runs"
    served_what = f"{' and '.join(traces)}, served{served}: {policies}."
    return f"<h1>{escape(name)}</h1>\n<p>{escape(served_what)}</p>"


def are_paired(views: Sequence[RunView]) -> bool:
    """Whether all runs served the same trace, so that their figures compare one to one."""
    return len({view.summary["provenance"]["trace_sha256"] for view in views}) == 1


def comparison(views: Sequence[RunView]) -> str:
    """The figures of all runs, one column a run, the best of a line in bold if the runs are paired."""
    body = []
    paired = are_paired(views)
    for section in COMPARISON:
        for place, row in enumerate(section):
            values = [figure(view.summary, row.path) for view in views]
            if any(value is not None for value in values):
                kind = ' class="first"' if place == 0 else ""
                cells = "".join(_figures(row, values, paired))
                body.append(f"<tr{kind}>{_head(row.label.strip())}{cells}</tr>")
    return _table(["", *(view.name for view in views)], body, names=True)


def latencies(views: Sequence[RunView]) -> str:
    """Every latency's statistics, one line a run."""
    body = []
    for label, key in LATENCIES:
        for place, view in enumerate(views):
            values = [view.summary[key][name] for name in STATISTICS]
            kind = ' class="first"' if place == 0 else ""
            named = _head(f"{label} {view.name}" if len(views) > 1 else label)
            body.append(f"<tr{kind}>{named}{''.join(_cell(value, 'time') for value in values)}</tr>")
    return _table(["", *STATISTICS], body)


def timeline(views: Sequence[RunView]) -> str:
    """The canvases of the timeline, one a run; a sentence where iterations were not recorded."""
    if not all(len(view.iterations) for view in views):
        return "<p>No timeline: the runs recorded no iterations (engine.record_iterations).</p>"
    panels = [
        f'<figure><figcaption>{escape(view.name)}</figcaption><canvas class="timeline" data-run="{place}" '
        f'tabindex="0" role="img" aria-label="{escape(_described(view))}"></canvas></figure>'
        for place, view in enumerate(views)
    ]
    return "\n".join(panels)


def _described(view: RunView) -> str:
    """The timeline in words, for who cannot see it."""
    tbt = view.summary["tbt_s"]
    return (
        f"Timeline of {view.name}: {view.summary['num_iterations']:,} iterations in "
        f"{seconds(view.summary['makespan_s'])}; TBT p99 {seconds(tbt['p99'])}, longest {seconds(tbt['max'])}"
    )


def worst_requests(views: Sequence[RunView]) -> str:
    """Per run the requests with the longest TTFT and the longest token gap, each a way into the timeline."""
    body = []
    for place, view in enumerate(views):
        for label, column in (("TTFT", "ttft_s"), ("token gap", "max_tbt_s")):
            worst = view.requests[view.requests[column].notna()].nlargest(MOST_WORST, column)
            for rank, record in enumerate(worst.to_dict("records")):
                kind = ' class="first"' if rank == 0 else ""
                body.append(f"<tr{kind}>{_worst_cells(view.name, place, label, column, record)}</tr>")
    heads = ["run", "longest", "request", "", "arrived", "prompt", "output", "waited", "preempted"]
    return _table(heads, body, kind="records")


def _worst_cells(
    name: str, place: int, label: str, column: str, record: Mapping[Any, Any]
) -> str:
    end = record["first_token_s"] if column == "ttft_s" else record["finish_s"]
    end = record["arrival_s"] + record["ttft_s"] if pd.isna(end) else end
    zoom = f'data-from="{record["arrival_s"]:.6f}" data-to="{end:.6f}" data-run="{place}"'
    request = escape(str(record["request_id"]))
    return "".join([
        _head(name),
        f"<td class='text'>{escape(label)}</td>",
        f"<td class='text'><button type='button' class='zoom' {zoom}>{request}</button></td>",
        _cell(record[column], "time"),
        _cell(record["arrival_s"], "time"),
        *(_cell(int(record[key]), "count") for key in ("prompt_tokens", "output_tokens")),
        _cell(record["queue_s"], "time"),
        _cell(int(record["num_preemptions"]), "count"),
    ])  # fmt: skip


def differences(views: Sequence[RunView]) -> str:
    """What differs between the configs; empty for one run, or if nothing does."""
    flat = [dict(_flat(view.config, "")) for view in views]
    keys = list(dict.fromkeys(key for config in flat for key in config))
    body = []
    for key in keys:
        values = [_plain(config.get(key)) if key in config else "-" for config in flat]
        if len(set(values)) > 1:
            cells = "".join(f"<td class='text'>{escape(value)}</td>" for value in values)
            body.append(f"<tr>{_head(key)}{cells}</tr>")
    if not body:
        return ""
    table = _table(["", *(view.name for view in views)], body, names=True, kind="texts")
    return f"<h3>What differs in their configs</h3>\n{table}"


def provenance(views: Sequence[RunView]) -> str:
    """What each run was made from."""
    body = []
    for label, key in PROVENANCE:
        values = [view.summary["provenance"].get(key) for view in views]
        if any(value not in (None, {}) for value in values):
            cells = "".join(f"<td class='text hash'>{escape(_plain(value))}</td>" for value in values)
            body.append(f"<tr>{_head(label)}{cells}</tr>")
    return _table(["", *(view.name for view in views)], body, names=True, kind="texts")


def configs(views: Sequence[RunView]) -> str:
    """The resolved configs, folded."""
    return "\n".join(
        f"<details><summary>config of {escape(view.name)}</summary>"
        f"<pre>{escape(yaml.safe_dump(view.config, sort_keys=False, allow_unicode=True))}</pre></details>"
        for view in views
    )


def notices(views: Sequence[RunView]) -> str:
    """What the runs had to say, each sentence once, with the runs that said it if not all did."""
    said: dict[str, list[str]] = {}
    for view in views:
        for notice in view.summary["notices"]:
            said.setdefault(str(notice), []).append(view.name)
    if not are_paired(views):
        said["The runs served different traces: their figures do not compare one to one."] = [
            view.name for view in views
        ]
    if not said:
        return ""
    lines = [
        notice if len(names) == len(views) else f"{', '.join(names)}: {notice}"
        for notice, names in said.items()
    ]
    return "<ul class='notices'>" + "".join(f"<li>{escape(line)}</li>" for line in lines) + "</ul>"


def _figures(row: Row, values: Sequence[Any], paired: bool) -> Iterable[str]:
    known = {value for value in values if value is not None}
    best = {"low": min, "high": max}.get(row.better) if paired else None
    winner = best(known) if best and len(known) > 1 else None
    return (_cell(value, row.unit, winner is not None and value == winner) for value in values)


def _cell(value: float | None, unit: str, is_best: bool = False) -> str:
    if value is None or pd.isna(value):
        return "<td>-</td>"
    kind = ' class="best"' if is_best else ""
    return f'<td{kind} data-value="{value!r}">{escape(shown(value, unit))}</td>'


def _head(text: str) -> str:
    return f'<th scope="row">{escape(text)}</th>'


def _table(heads: Sequence[str], body: Sequence[str], names: bool = False, kind: str = "figures") -> str:
    """A table that scrolls by itself where it is too wide; `names`: the heads are runs, drawn with a key.

    `kind` is figures, set to the right; texts, set to the left; or records, with three texts in front.
    """
    keys = [f' data-key="{place - 1}"' if names and place else "" for place in range(len(heads))]
    cells = [f'<th scope="col"{key}>{escape(head)}</th>' for key, head in zip(keys, heads, strict=True)]
    lines = "\n".join(body)
    return (
        f'<div class="scroll"><table class="{kind}">\n<thead><tr>{"".join(cells)}</tr></thead>\n'
        f"<tbody>\n{lines}\n</tbody></table></div>"
    )


def _flat(values: Mapping[str, Any], prefix: str) -> Iterable[tuple[str, Any]]:
    for key, value in values.items():
        if isinstance(value, Mapping) and value:
            yield from _flat(value, f"{prefix}{key}.")
        else:
            yield f"{prefix}{key}", value


def _plain(value: Any) -> str:
    """A value as YAML writes it on a line."""
    if isinstance(value, str):
        return value
    text = yaml.safe_dump(value, default_flow_style=True, width=1 << 20, allow_unicode=True)
    return text.removesuffix("\n...\n").strip()
