"""run: one simulation in memory."""

from __future__ import annotations

import hashlib
from dataclasses import replace
from typing import Any

from sim.api.budget import budget_notices, with_resolved_budget
from sim.api.inputs import Inputs, build_inputs
from sim.api.load import ConfigLike, as_config
from sim.api.policies import make_policy
from sim.api.result import Result
from sim.api.settings import Progress, engine_settings, objectives
from sim.config import Config
from sim.core.errors import ConfigError, PolicyError
from sim.core.record import RunRecord
from sim.core.units import ns_to_seconds
from sim.core.version import __version__
from sim.engine import simulate
from sim.report.metrics import summarize
from sim.report.view import view_of


def run(config: ConfigLike, *, progress: Progress | None = None) -> Result:
    """Simulate `config` (or the one in that file) and return the result; nothing is written.

    `progress(finished, all)` is called now and then. Raises UserError for what is wrong with the
    config's trace, cost model or policy. An interrupt (Ctrl-C) ends the simulation early: the
    result is what was served until then, and `interrupted` is True.
    """
    config = as_config(config)
    return run_with(config, build_inputs(config), progress=progress)


def run_with(
    config: Config, inputs: Inputs, *, label: str | None = None, progress: Progress | None = None
) -> Result:
    """`run` over inputs that were built before, under the name `label` (default: the policy's)."""
    label = label or str(config.policy.name)
    record, resolved, summary = measure_with(config, inputs, label=label, progress=progress)
    view = view_of(record, name=label, config=resolved, summary=summary)
    return Result(
        view,
        interrupted=was_interrupted(record),
        made_from=lambda: config,
        token_times=_token_times(record),
    )


def measure_with(
    config: Config,
    inputs: Inputs,
    *,
    label: str | None = None,
    progress: Progress | None = None,
    record_events: bool = False,
) -> tuple[RunRecord, dict[str, Any], dict[str, Any]]:
    """Simulate without making frames: the record, the resolved config and the summary."""
    label = label or str(config.policy.name)
    asked, config = config, with_resolved_budget(config, inputs)
    settings = replace(engine_settings(config, inputs, progress), record_events=record_events)
    policy = make_policy(config)
    try:
        record = simulate(inputs.trace, policy, inputs.cost, settings)
    except PolicyError as error:
        raise PolicyError(f"policy {label!r}: {error}") from error
    except ConfigError as error:
        key, _, problem = str(error).partition(": ")
        raise config.source.error(key, problem) from None
    record.notices += budget_notices(asked, config, label)
    if config.policy.oracle:
        record.notices.append("policy.oracle: the policy may read true output lengths")
    resolved = resolved_config(config, record.num_blocks)
    slo, slo_classes = objectives(config)
    made_from = provenance(config, resolved)
    return record, resolved, summarize(record, slo=slo, slo_classes=slo_classes, provenance=made_from)


def _token_times(record: RunRecord) -> dict[str, list[float]] | None:
    """Seconds by request id; None where they were not asked for."""
    if record.token_times is None:
        return None
    return {
        record.trace.id_of(row): [ns_to_seconds(time_ns) for time_ns in times]
        for row, times in sorted(record.token_times.items())
    }


def was_interrupted(record: RunRecord) -> bool:
    """Whether Ctrl-C ended the simulation before all was served."""
    return any(notice.startswith("interrupted") for notice in record.notices)


def resolved_config(config: Config, num_blocks: int | None) -> dict[str, Any]:
    """Plain values of `config`, every default written out and `auto` replaced by what it came to."""
    blocks = "unlimited" if num_blocks is None else num_blocks
    return config.updated(kv_cache=config.kv_cache.updated(num_blocks=blocks)).to_dict()


def provenance(config: Config, resolved: dict[str, Any]) -> dict[str, Any]:
    """What made a result: enough to make it again."""
    path = config.policy.path
    file = None if path is None else config.source.find(path)
    return {
        "version": __version__,
        "seed": config.seed,
        "policy": config.policy.name,
        "policy_file_sha256": None if file is None else hashlib.sha256(file.read_bytes()).hexdigest(),
        "oracle": config.policy.oracle,
        "config": resolved,
    }
