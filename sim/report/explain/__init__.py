"""Why a request's latency was long: every nanosecond of a TTFT or of a gap between tokens, by cause.

    Explainer(record)         of a RunRecord with events (EngineSettings.record_events)
      .request(id, top)       its TTFT and its longest gaps
      .worst(what, top)       the longest of the run; `what` is ttft or tbt
      .percentile(what, p)    the one at that percentile, and what the tail from there on is made of
    Explanation               one latency: parts whose ns sum to it exactly
    frame(explanations)       a tidy DataFrame: one row a cause

Pure: it reads what the run wrote down, asks no policy and no cost model again. Which iteration did what
for a request is in lives.py, whose time it was in causes.py, which latencies to look at in choose.py.
"""

from sim.report.explain.causes import CAUSES, Part
from sim.report.explain.choose import WHAT, Explainer, Explanation, Tail
from sim.report.explain.frames import frame

__all__ = ["CAUSES", "WHAT", "Explainer", "Explanation", "Part", "Tail", "frame"]
