"""Reproductions: published figures and tables, redone by this simulator and set beside the originals.

Owns which experiments there are, what was published, and what is compared with it. Leaves simulating
to sim/api, intervals to sim/report/statistics, and how a run's own figures look to sim/report/plots.
Each reproduction is one module with one config (or two) in configs/reproductions/; docs/reproductions.md
says what came out and why it differs.

    catalogue.py         the names, and running one of them
    configs.py           their configs, full size or reduced
    outcome.py           what a reproduction gives: findings beside the paper's, tables, figures, runs
    saving.py            an outcome as a folder
    generation_stall.py  Sarathi-Serve, Figure 1: decodes that wait for prompts
    ablation.py          Sarathi-Serve, its ablation table: hybrid batches, chunks, both
    prefill_cost.py      Sarathi-Serve: where prefill saturates, what chunks and whole prompts cost
    static_batching.py   Orca: what request-level batching wastes
    phases.py            Splitwise: prompt and token phases on two GPUs, and two Azure hours within SLO
    figures/             their figures, in the style of the report's
"""

from sim.reproduce.catalogue import REPRODUCTIONS, reproduce
from sim.reproduce.outcome import Finding, Outcome

__all__ = ["REPRODUCTIONS", "Finding", "Outcome", "reproduce"]
