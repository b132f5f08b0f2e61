"""Result: a finished run as metrics, frames, plots and files; from memory or from a run folder."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sim.api.load import load_config
from sim.config import Config
from sim.core.errors import UserError
from sim.core.units import seconds_to_ns
from sim.report import folder
from sim.report.view import RunView

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.figure import Figure

    from sim.api.rerun import Rerun
    from sim.report.explain import Explainer


class Result:
    """One run. Frames have the columns of design.md section 9; plots are matplotlib Figures."""

    def __init__(
        self,
        view: RunView,
        *,
        interrupted: bool = False,
        made_from: Callable[[], Config] | None = None,
        token_times: dict[str, list[float]] | None = None,
    ) -> None:
        self.view = view
        self._token_times = token_times
        self._made_from = made_from
        self.interrupted = interrupted
        """Ctrl-C ended the simulation early; requests not served by then are `unfinished`."""

    @property
    def name(self) -> str:
        """What the run is called in tables and legends: the policy's name unless told otherwise."""
        return self.view.name

    @property
    def config(self) -> dict[str, Any]:
        """The resolved config."""
        return dict(self.view.config)

    @property
    def summary(self) -> dict[str, Any]:
        """All metrics, counts and provenance: the contents of summary.json."""
        return dict(self.view.summary)

    @property
    def requests(self) -> pd.DataFrame:
        """One row a request."""
        return self.view.requests

    @property
    def iterations(self) -> pd.DataFrame:
        """One row an iteration; an exact jump over equal batches is one row with `repeats`."""
        return self.view.iterations

    @property
    def token_times(self) -> dict[str, list[float]]:
        """When each token of each request appeared: request_id to seconds, in order of emission.

        Kept only where the config says `engine: {token_times: true}`, and in memory only: UserError
        otherwise. A request without a token has no entry.
        """
        if self._token_times is None:
            raise UserError(
                f"run {self.name!r} has no token times: they are kept in memory only, and only with "
                "engine.token_times: true"
            )
        return self._token_times

    def save(self, directory: str | Path, *, plots: bool = True) -> Path:
        """Write the run folder (design.md section 9), with its plots unless told not to."""
        target = Path(directory)
        file_format = self.config["output"]["format"]
        folder.write_run(self.view, target, file_format=file_format)
        if plots:
            self.plot(target / "plots")
        return target

    def plot(self, directory: str | Path) -> list[Path]:
        """Draw every plot of the run as PNG files in `directory`; their paths."""
        from sim.report.plots import draw_all

        return draw_all([self.view], Path(directory))

    def plot_distributions(self, *others: Result) -> Figure:
        """TTFT and TBT distributions with log tails; `others` are drawn beside this run."""
        from sim.report.plots import distributions

        return distributions(self._with(others))

    def plot_timeline(self, *others: Result, window_s: tuple[float, float] | None = None) -> Figure:
        """Iterations over a few seconds: prefill and decode work, and the decodes that stalled.

        `window_s` is (start, end) on the run's clock; by default around the worst stall.
        """
        from sim.report.plots import timeline

        return timeline(self._with(others), window_s=window_s)

    def plot_load(self, *others: Result) -> Figure:
        """Running and waiting requests and KV use over time."""
        from sim.report.plots import load

        return load(self._with(others))

    def plot_throughput(self, *others: Result) -> Figure:
        """Throughput over time."""
        from sim.report.plots import throughput

        return throughput(self._with(others))

    def explain(
        self,
        request: str | None = None,
        *,
        worst: str | None = None,
        percentile: tuple[str, float] | None = None,
        top: int = 10,
    ) -> pd.DataFrame:
        """Why latencies were long: one row a cause, whose seconds sum to the latency exactly.

        Of `request` (an id) its TTFT and `top` longest token gaps; else the `top` longest of the run,
        `worst` being ttft or tbt (default tbt); or the one at a `percentile`, e.g. ("ttft", 99). Simulates
        the run once more on the first call, to see what its results alone do not tell. UserError for an
        unknown request.
        """
        from sim.report.explain import frame

        if request is not None:
            return frame(self.explainer.request(request, top))
        if percentile is not None:
            return frame([self.explainer.percentile(*percentile)[0]])
        return frame(self.explainer.worst(worst or "tbt", top))

    def export_timeline(self, path: str | Path, *, window_s: tuple[float, float] | None = None) -> int:
        """Write the run, or what touches the window, as a trace for Perfetto; the number of its events.

        `path` ends in .json or .json.gz. Gaps beyond the TBT objective, else beyond 3 times the usual
        gap, are marked as stalls. Simulates the run once more, as `explain` does.
        """
        from sim.report.perfetto import trace_events, write_trace
        from sim.report.plots.lanes import stall_threshold_s

        stall_s = stall_threshold_s([self.view])
        events = trace_events(
            self.rerun.record,
            name=self.name,
            stall_ns=seconds_to_ns(stall_s) if stall_s < float("inf") else 1 << 62,
            window_ns=None if window_s is None else (seconds_to_ns(window_s[0]), seconds_to_ns(window_s[1])),
        )
        about = {"run": self.name, "stall_s": stall_s if stall_s < float("inf") else None}
        return write_trace(events, Path(path), about | {"provenance": self.summary["provenance"]})

    @cached_property
    def rerun(self) -> Rerun:
        """The run simulated once more with its events; notices say how it differs, which it should not."""
        from sim.api.rerun import rerun

        if self._made_from is None:
            raise UserError(f"run {self.name!r} has no config to simulate it from")
        return rerun(self._made_from(), self.view.summary)

    @cached_property
    def explainer(self) -> Explainer:
        """Explains latencies of the run; see sim.report.explain."""
        from sim.report.explain import Explainer

        for notice in self.rerun.notices:
            warnings.warn(notice, stacklevel=3)
        return Explainer(self.rerun.record)

    def _with(self, others: Sequence[Result]) -> list[RunView]:
        return [self.view, *(other.view for other in others)]

    def __repr__(self) -> str:
        finished, total = self.summary["num_finished"], self.summary["num_requests"]
        return f"Result({self.name!r}, {finished}/{total} requests finished)"


def load_run(directory: str | Path) -> Result:
    """The result in a run folder; UserError if it is none."""
    config_file = Path(directory) / "config.yaml"
    return Result(folder.load_run(Path(directory)), made_from=lambda: load_config(config_file))
