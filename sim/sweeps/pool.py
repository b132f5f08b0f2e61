"""Pool: who runs the cells of a sweep: joblib, on processes of this machine, on Dask or on Ray.

Owns what happens when a worker dies: the cells it may have held are run again one at a time, so
that the one that kills its worker is found and the others go on. How each backend is reached is in
backends.py.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from typing import Any

import joblib

from sim.core.errors import UserError
from sim.sweeps.identity import code_digest
from sim.sweeps.worker import Outcome, Task, run_cell

DIED = "WorkerDied: the process that ran this cell died, and so did the next (out of memory, or killed)"


@dataclass(frozen=True)
class Pool:
    """Workers to run cells on. One worker of this machine is this process itself."""

    connect: Callable[[], AbstractContextManager[Any]]
    """A joblib backend, or the name of one, for one call; leaving it drops what it had begun."""
    workers: int
    options: Mapping[str, Any] = field(default_factory=dict)
    """For the joblib backend."""
    place: str | None = None
    """Where workers are that were started apart from this process, and may run other code."""

    def run(self, tasks: Sequence[Task]) -> Iterator[Outcome]:
        """Outcomes of `tasks` as they come, in any order. UserError if the workers are of no use."""
        if self.place is not None and tasks:
            self._check_workers()
        waiting = list(tasks)
        while waiting:
            sent: dict[int, Task] = {}
            done: set[int] = set()
            try:
                for outcome in self._outcomes(_noted(waiting, sent)):
                    done.add(outcome.index)
                    yield outcome
                return
            except UserError:
                raise
            except Exception:
                # run_cell raises nothing: a worker was lost, with any of the cells sent out
                if not sent:
                    self._check_workers()
                    raise
            for task in [task for index, task in sent.items() if index not in done]:
                yield self._alone(task)
            waiting = [task for task in waiting if task.index not in sent]

    def _outcomes(self, tasks: Iterable[Task]) -> Iterator[Outcome]:
        for outcome in self._map(run_cell, tasks):
            if outcome.code != code_digest():
                raise UserError(self._other_code())
            yield outcome

    def _alone(self, task: Task) -> Outcome:
        """The outcome of a task that may kill its worker, with no other task beside it."""
        try:
            [outcome] = self._outcomes([task])
            return outcome
        except UserError:
            raise
        except Exception as error:
            self._check_workers()
            return Outcome(task.index, None, DIED, traceback=f"{type(error).__name__}: {error}")

    def _check_workers(self) -> None:
        """Raise UserError if the workers cannot run this simulator at all."""
        try:
            found = list(self._map(_worker_code, [None]))
        except UserError:
            raise
        except Exception as error:
            lines = [line.strip() for line in f"{type(error).__name__}: {error}".splitlines() if line.strip()]
            reason = " ... ".join(dict.fromkeys((lines[0], lines[-1])))
            raise UserError(
                f"the workers{self._where()} cannot run the simulator ({reason}); this version of it must be "
                "installed wherever they run, and where a Dask scheduler runs, or lie on their PYTHONPATH"
            ) from error
        if found != [code_digest()]:
            raise UserError(self._other_code())

    def _map(self, function: Callable[[Any], Any], items: Iterable[Any]) -> Iterator[Any]:
        with self.connect() as backend:
            run = joblib.Parallel(
                n_jobs=self.workers,
                backend=backend,
                return_as="generator_unordered",
                batch_size=1,
                **self.options,
            )
            results = run(joblib.delayed(function)(item) for item in items)
            try:
                # not `yield from`, which would close `results` out of reach of the finally below
                for result in results:  # noqa: UP028
                    yield result
            finally:
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore")
                    results.close()

    def _where(self) -> str:
        return "" if self.place is None else f" at {self.place}"

    def _other_code(self) -> str:
        return (
            f"the workers{self._where()} run another version of the simulator than this process; "
            "restart them, and this process if its code was changed since it started"
        )


def _noted(tasks: Iterable[Task], sent: dict[int, Task]) -> Iterator[Task]:
    """`tasks` as they are sent out, each noted in `sent`."""
    for task in tasks:
        sent[task.index] = task
        yield task


def _worker_code(_: None) -> str:
    return code_digest()
