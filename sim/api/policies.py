"""Finding a policy: among the registered ones, or in a Python file outside the package.

Owns loading that file and saying what is wrong with it. The teaching interface (a class with
add_request and schedule_next_batch) is recognised here and adapted by sim/engine/teaching.py.
"""

from __future__ import annotations

import dataclasses
import hashlib
import importlib.util
import sys
import traceback
from pathlib import Path
from types import ModuleType
from typing import Any

import policies  # noqa: F401  registers the built-in ones
from sim.config import Config, Source
from sim.config.parameters import check_parameters
from sim.config.tree import PolicyConfig
from sim.core.errors import ConfigError, PolicyError, StalledError, UserError, suggestion
from sim.core.protocols import Policy
from sim.core.registry import POLICIES, param
from sim.engine.teaching import TeachingAdapter, is_teaching_scheduler
from sim.engine.watchdog import time_limit

LOAD_LIMIT_S = 30.0
"""Real seconds that a policy file may take to be read, its imports included."""


@dataclasses.dataclass
class TeachingParameters:
    """What the teaching interface's constructor takes."""

    token_budget: int = param(dataclasses.MISSING, "tokens an iteration", minimum=1)
    max_batch_size: int = param(dataclasses.MISSING, "requests running at once", minimum=1)


def policy_class(source: Source, name: str | None, path: str | None, section: str = "policy") -> type:
    """The class of a policy section; ConfigError or PolicyError, placed by `source`, if there is none."""
    if path is not None:
        return _class_from_file(source, name, path, section)
    if name is None or name not in POLICIES:
        raise source.error(f"{section}.name", f"unknown policy {name!r}: {suggestion(str(name), POLICIES)}")
    return POLICIES.get(name)


def declared_parameters(cls: type) -> type:
    """The dataclass whose fields are the parameters of policy class `cls`."""
    return TeachingParameters if is_teaching_scheduler(cls) else cls


def complete_parameters(cls: type, given: dict[str, Any], source: Source, section: str) -> dict[str, Any]:
    """`given` checked against what `cls` declares, with its defaults; ConfigError otherwise."""
    return check_parameters(declared_parameters(cls), given, source, section, PolicyConfig.model_fields)


def only_declared(cls: type, given: dict[str, Any]) -> dict[str, Any]:
    """Those of `given` that `cls` has as parameters."""
    names = {field.name for field in dataclasses.fields(declared_parameters(cls))}
    return {key: value for key, value in given.items() if key in names}


def make_policy(config: Config) -> Policy:
    """A fresh policy object as `config` describes it; UserError if its constructor refuses."""
    section = config.policy
    cls = policy_class(config.source, section.name, section.path)
    parameters = complete_parameters(cls, section.parameters, config.source, "policy")
    if is_teaching_scheduler(cls):
        return TeachingAdapter(cls, **parameters)
    try:
        made: Policy = cls(**parameters)
        return made
    except UserError as error:
        raise config.source.error("policy", str(error)) from None
    except (Exception, SystemExit) as error:
        raise PolicyError(f"policy {section.name!r} raised when made: {describe(error)}") from error


def describe(error: BaseException) -> str:
    """`ValueError: text (file, line n)`: the exception and the last line of user code it came from."""
    frames = traceback.extract_tb(error.__traceback__)
    where = f" ({frames[-1].filename}, line {frames[-1].lineno})" if frames else ""
    return f"{type(error).__name__}: {error}{where}"


def _class_from_file(source: Source, name: str | None, path: str, section: str) -> type:
    file = source.find(path)
    if not file.is_file():
        raise source.error(f"{section}.path", f"no such policy file: {path}")
    offered = _offers(file)
    if name is None and len(offered) == 1:
        return next(iter(offered.values()))
    if name is None:
        found = ", ".join(offered) or "none"
        raise source.error(f"{section}.name", f"is required, as {path} has these policies: {found}")
    if name in offered:
        return offered[name]
    hint = suggestion(name, offered) if offered else (
        "it has no class decorated with @policy, and none with add_request and schedule_next_batch"
    )
    raise source.error(f"{section}.name", f"{path} has no policy {name!r}: {hint}")


def _offers(file: Path) -> dict[str, type]:
    """The policies a file defines: by registered name, and teaching classes by class name.

    The registry is left as it was, so that one config's policies are not another's.
    """
    before = {name: POLICIES.get(name) for name in POLICIES}
    with POLICIES.left_as_it_is():
        module = _load_module(file)
        offered = {n: POLICIES.get(n) for n in POLICIES if POLICIES.get(n) is not before.get(n)}
    own = {n: c for n, c in vars(module).items() if getattr(c, "__module__", None) == module.__name__}
    return {**{n: c for n, c in own.items() if is_teaching_scheduler(c)}, **offered}


def _load_module(file: Path) -> ModuleType:
    """Run a policy file as a module of its own; PolicyError with file and line if it raises."""
    # two files of one name in different folders are two modules
    place = hashlib.sha256(str(file.resolve()).encode()).hexdigest()[:12]
    name = f"sim_policy_file_{file.stem}_{place}"
    spec = importlib.util.spec_from_file_location(name, file)
    if spec is None or spec.loader is None:
        raise ConfigError(f"{file}: a policy file must be a Python file (.py)")
    module = importlib.util.module_from_spec(spec)
    # dataclasses look their module up by name to resolve annotations
    sys.modules[name] = module
    try:
        with time_limit(LOAD_LIMIT_S, f"took more than {LOAD_LIMIT_S:g} s to read: it seems to loop"):
            spec.loader.exec_module(module)
    except BaseException as error:
        del sys.modules[name]
        if not isinstance(error, (Exception, SystemExit)):
            raise  # an interrupt is the user's, not the file's
        raise PolicyError(_problem(error, file)) from (None if isinstance(error, SyntaxError) else error)
    return module


def _problem(error: Exception | SystemExit, file: Path) -> str:
    """`file:line: problem`, the line left out where there is none."""
    frames = traceback.extract_tb(error.__traceback__)
    lines = [frame.lineno for frame in frames if Path(frame.filename) == file.resolve()]
    line = lines[-1] if lines else None
    problem = f"the policy file raised {type(error).__name__}: {error}"
    if isinstance(error, SyntaxError):
        line, problem = error.lineno, f"syntax error in the policy file: {error.msg}"
    elif isinstance(error, StalledError):
        problem = f"the policy file {error}"
    return f"{file}: {problem}" if line is None else f"{file}:{line}: {problem}"
