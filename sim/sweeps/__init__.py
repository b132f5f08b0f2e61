"""Sweeps: one config run over a grid of values and seeds, on many processes, resumable (docs/sweeps.md).

Owns what lies between one run and a thousand: which cells there are, who runs them, what was
finished before, and the one table they end in. Leaves simulating to sim/api and printing to sim/cli.

    grid.py      the cells of a grid, checked before anything runs
    identity.py  digests: when two cells, files or simulators are the same
    worker.py    what a worker process does with a cell
    pool.py      who runs cells: joblib, and what happens when a worker dies
    journal.py   the file that survives a kill at any moment
    folder.py    a sweep's folder: its journal, its table, and whether they belong to this sweep
    table.py     outcomes to one tidy table
    backends.py  joblib on processes of this machine, on Dask or on Ray
    checks.py    that what a config names is there
    runner.py    sweep: all of these together
"""

from sim.sweeps.runner import sweep

__all__ = ["sweep"]
