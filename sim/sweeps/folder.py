"""Folder: what a sweep leaves on disk, and whether what is there belongs to this sweep.

    sweep.journal   what the sweep is, then one line a finished cell (journal.py)
    sweep.csv       the table (or sweep.parquet), written when the sweep ends or is interrupted
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Self

from sim.config.source import show
from sim.core.errors import UserError
from sim.sweeps.journal import Journal
from sim.sweeps.worker import Outcome

JOURNAL = "sweep.journal"
FORMAT = 1
"""Of the journal; a journal of another one is not read."""
CONTENTS = ("files", "policies")
"""Parts of a description that are digests of contents by name."""
SHOWN = 4
"""Differences named in a message."""

Description = Mapping[str, Any]
"""What makes a sweep this one: config, grid, seeds, files, code, version; plain values."""


class SweepFolder:
    """A sweep's folder, open for adding outcomes."""

    def __init__(
        self, directory: Path, description: Description, *, restart: bool = False, retry_failed: bool = False
    ) -> None:
        """Open `directory`, or make it. UserError if it holds another sweep, unless `restart`.

        With `retry_failed`, cells that failed count as not finished.
        """
        self.directory = directory
        try:
            directory.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise UserError(f"{directory}: cannot make the folder: {error.strerror or error}") from None
        self._journal = Journal(directory / JOURNAL)
        try:
            self.finished = self._resume(description, restart, retry_failed)
        except BaseException:
            self._journal.close()
            raise

    def add(self, outcome: Outcome) -> None:
        """Note a finished cell; it survives whatever happens to this process from now on."""
        entry = dataclasses.asdict(outcome)
        entry["cell"] = entry.pop("index")
        del entry["code"]
        self._journal.append(entry)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._journal.close()

    def _resume(self, description: Description, restart: bool, retry_failed: bool) -> dict[int, Outcome]:
        """Outcomes that are there already, by cell."""
        header = {"sweep": FORMAT, **description}
        if restart:
            self._journal.clear()
        elif self._journal.entries or self._journal.foreign:
            self._check_same(header)
            outcomes = map(_outcome, self._journal.entries[1:])
            latest = {outcome.index: outcome for outcome in outcomes}
            return {i: o for i, o in latest.items() if o.error is None or not retry_failed}
        self._journal.append(header)
        return {}

    def _check_same(self, header: Description) -> None:
        old = self._journal.entries[0] if self._journal.entries else None
        if not isinstance(old, dict) or old.get("sweep") != FORMAT:
            raise self._refusal("holds a file sweep.journal that is not one of this version's")
        if old != header:
            found = list(_differences(old, header))
            named = "; ".join(found[:SHOWN] + ["..."] * (len(found) > SHOWN))
            raise self._refusal(f"holds another sweep: {named}")

    def _refusal(self, problem: str) -> UserError:
        return UserError(
            f"{self.directory} {problem}. Choose another folder (--out), or discard what is there "
            "(--restart; in Python restart=True)"
        )


def _outcome(entry: Mapping[str, Any]) -> Outcome:
    values = {**entry, "index": entry["cell"], "notices": tuple(entry["notices"])}
    del values["cell"]
    return Outcome(**values)


def _differences(old: Description, new: Description) -> Iterator[str]:
    """What tells two sweeps apart, in words, the most telling first."""
    for section in ("grid", "order", "seeds", "config", *CONTENTS):
        before, after = _flat(old.get(section), section), _flat(new.get(section), section)
        for key in dict.fromkeys([*before, *after]):
            if before.get(key) != after.get(key):
                yield _difference(section, key, before.get(key), after.get(key))
    if old.get("code") != new.get("code"):
        versions = f"{old.get('version')}, now {new.get('version')}"
        yield f"the simulator's code has changed since (version {versions})"
    elif old.get("cells") != new.get("cells"):
        yield "the config file writes out other keys, which its policies take"


def _difference(section: str, key: str, before: Any, after: Any) -> str:
    name = "the grid's order" if key == "order" else key.removeprefix("config.").replace("grid.", "grid ", 1)
    if section in CONTENTS:
        name = key.removeprefix(f"{section}.")
        return f"{name} has changed since" if before and after else f"{name} is {'new' if after else 'gone'}"
    return f"{name} was {_shown(section, before)}, now {_shown(section, after)}"


def _shown(section: str, value: Any) -> str:
    return "not there" if section == "grid" and value is None else show(value)


def _flat(values: Any, prefix: str) -> dict[str, Any]:
    """Values by dotted path; grid keys have dots of their own and are not gone into."""
    if not isinstance(values, Mapping):
        return {prefix: values}
    flat: dict[str, Any] = {}
    for key, value in values.items():
        deeper = prefix not in ("grid", *CONTENTS) and isinstance(value, Mapping)
        flat.update(_flat(value, f"{prefix}.{key}") if deeper else {f"{prefix}.{key}": value})
    return flat
