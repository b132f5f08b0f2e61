"""Registry: names to entries, filled by one decorator each; and the parameters a class declares."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Generic, TypeVar, dataclass_transform

from sim.core.errors import ConfigError, PolicyError, suggestion

T = TypeVar("T")
C = TypeVar("C", bound=type)


class Registry(Generic[T]):
    """Named entries of one kind. An unknown name is answered with the valid ones."""

    def __init__(self, kind: str) -> None:
        self.kind = kind
        self._entries: dict[str, T] = {}

    def add(self, name: str, entry: T) -> None:
        """Register `entry`. A later one of the same name replaces it, as when a notebook cell reruns."""
        self._entries[name] = entry

    def get(self, name: str) -> T:
        """The entry called `name`; ConfigError with the nearest name otherwise."""
        if name not in self._entries:
            raise ConfigError(f"unknown {self.kind} {name!r}: {suggestion(name, self)}")
        return self._entries[name]

    @contextmanager
    def left_as_it_is(self) -> Iterator[None]:
        """Forget, after the block, what was added or replaced inside it."""
        before = dict(self._entries)
        try:
            yield
        finally:
            self._entries = before

    def __iter__(self) -> Iterator[str]:
        return iter(sorted(self._entries))

    def __contains__(self, name: object) -> bool:
        return name in self._entries


POLICIES: Registry[type] = Registry("policy")


def param(
    default: Any,
    doc: str,
    *,
    minimum: float | None = None,
    maximum: float | None = None,
    allowed: tuple[Any, ...] | None = None,
) -> Any:
    """A documented parameter of a policy, with its default and the values it takes."""
    metadata = {"doc": doc, "minimum": minimum, "maximum": maximum, "allowed": allowed}
    return dataclasses.field(default=default, metadata=metadata)


@dataclass_transform(field_specifiers=(param, dataclasses.field))
def policy(name: str, *, source: str = "", steady: bool | None = None) -> Callable[[C], C]:
    """Class decorator: make the class a dataclass of its parameters and register it as `name`.

    `source` is the paper or engine the policy follows. `steady=True` promises that while the same
    requests run, none arrives and KV does not get freer, a decode-only plan repeats itself; the
    engine may then advance many iterations at once (the exact jump). A class whose promise holds
    only at times has an attribute `steady` of its own and sets it as it plans.
    """

    def register(cls: C) -> C:
        if not callable(getattr(cls, "plan", None)):
            raise PolicyError(f"policy {name!r} has no method plan(self, step)")
        entry: Any = dataclasses.dataclass(cls)
        entry.name, entry.source = name, source
        entry.steady = getattr(cls, "steady", False) if steady is None else steady
        POLICIES.add(name, entry)
        return cls

    return register
