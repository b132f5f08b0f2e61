"""The one run that a command is about, from its folder, to be simulated once more."""

from __future__ import annotations

from pathlib import Path

import pandas as pd

from sim.api.result import Result, load_run
from sim.cli.comparison import TABLE
from sim.cli.console import note
from sim.core.errors import UserError


def simulated_again(directory: str) -> Result:
    """The result in run folder `directory`, simulated again; notes say how that differs from the saved.

    UserError for a comparison's folder, which holds several runs, and if an input of the run is gone.
    """
    folder = Path(directory)
    if (folder / TABLE).is_file() and not (folder / "summary.json").is_file():
        places = [str(folder / str(place)) for place in pd.read_csv(folder / TABLE)["folder"]]
        raise UserError(f"{folder}: holds several runs; name one of them: {', '.join(places)}")
    result = load_run(folder)
    for notice in result.rerun.notices:
        note(f"note: {notice}")
    return result
