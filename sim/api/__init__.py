"""What `import sim` offers: loading configs, running and comparing policies, reading runs back.

Owns putting the layers together for one purpose after another. Leaves simulating to sim/engine,
metrics, tables, plots and files to sim/report, and everything printed to sim/cli.

    load.py      load_config: a config checked against everything it names
    policies.py  finding a policy class, in the package or in a file of the user's
    inputs.py    what a config describes, built: trace, cost model, KV size
    settings.py  the engine's settings, and the objectives
    simulation.py  run: one simulation in memory
    result.py    Result: its metrics, frames, plots and files; load_run
    rerun.py     rerun: a finished run simulated once more, with its events
    comparison.py  compare: several policies and seeds over one trace
    bounding.py  bounds: what no policy can beat
    bench.py     one policy over the same requests at any arrival rate
    capacity.py  capacity: the highest rate that meets an SLO; its search is bisection.py
    attainment.py  attainment, best_goodput: SLO attainment and goodput over rates
    frontier.py  frontier: throughput against latency over token budgets and batch sizes
"""

from sim.api.attainment import attainment, best_goodput
from sim.api.bounding import bounds
from sim.api.capacity import capacity
from sim.api.comparison import compare
from sim.api.frontier import frontier
from sim.api.load import load_config
from sim.api.result import Result, load_run
from sim.api.simulation import run
from sim.report.statistics import differences, means

__all__ = [
    "Result",
    "attainment",
    "best_goodput",
    "bounds",
    "capacity",
    "compare",
    "differences",
    "frontier",
    "load_config",
    "load_run",
    "means",
    "run",
]
