"""Tables of rates for a terminal: capacities of policies, and their best goodput. Prints nothing."""

from __future__ import annotations

import pandas as pd
from rich.table import Table

from sim.report.limits import Limits, metric_name, metric_value
from sim.report.statistics import FEWEST_SEEDS, interval
from sim.report.tables import shown


def capacity_table(frame: pd.DataFrame, limits: Limits) -> Table:
    """One line a policy, means over seeds, and below them the rate that none can sustain."""
    table = Table("policy", header_style="bold")
    heads = ("requests/s", "x lowest", "output tokens/s", *map(metric_name, limits), "limited by")
    for head in heads:
        table.add_column(head, justify="right" if head != "limited by" else "left")
    means = frame.groupby("policy")["capacity_per_s"].mean()
    for policy in frame["policy"].unique():
        rows = frame[frame["policy"] == policy]
        cells = [_rate(rows["capacity_per_s"]), _times(means[policy], means.min())]
        cells += [shown(_mean(rows["output_tokens_per_s"]), "rate")]
        cells += [metric_value(name, _mean(rows[name])) for name in limits]
        table.add_row(str(policy), *cells, ", ".join(rows["limited_by"].unique()))
    bound = _mean(frame["bound_per_s"])
    if bound is not None:
        table.add_section()
        most = (shown(bound, "rate"), _times(bound, means.min()))
        table.add_row("no policy sustains more", *most, style="italic")
    return table


def goodput_table(best: pd.DataFrame) -> Table:
    """The rate with most goodput of each policy, as `best_goodput` has them."""
    table = Table("policy", title="most goodput", title_justify="left", header_style="bold")
    for head in ("at requests/s", "goodput/s", "SLO attainment", "within 1 % of it"):
        table.add_column(head, justify="right")
    for _, row in best.iterrows():
        attained = shown(float(row["slo_attainment"]), "share")
        near = f"{row['from_per_s']:.3g} to {row['to_per_s']:.3g}"
        table.add_row(str(row["policy"]), f"{row['rate_per_s']:.3g}", f"{row['goodput']:.3g}", attained, near)
    return table


def _rate(values: pd.Series[float]) -> str:
    known = values.dropna()
    if not len(known):
        return "-"
    found = interval(known.tolist())
    if found.low is None or found.high is None or len(known) < FEWEST_SEEDS:
        return f"{found.mean:.3g}"
    return f"{found.mean:.3g} [{max(found.low, 0):.3g}, {found.high:.3g}]"


def _times(value: float, lowest: float) -> str:
    return f"{value / lowest:.3g}" if lowest > 0 and value == value else "-"


def _mean(values: pd.Series[float]) -> float | None:
    known = values.dropna()
    return float(known.mean()) if len(known) else None
