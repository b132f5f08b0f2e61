"""`profile`: measure a running OpenAI-compatible server into a table that `calibrate` reads.

Owns the options, the statement of what will be sent, and the closing words; the measuring is
sim/measure. docs/measuring-a-server.md explains the method.
"""

from __future__ import annotations

import argparse
import asyncio
import os
from pathlib import Path

from sim.cli.console import note, progress_bars, say
from sim.core.errors import UserError
from sim.measure.measurement import Measurement, Target
from sim.measure.plan import Caps, Grid, Plan, check_caps, make_plan
from sim.measure.table import write_table


def configure(parser: argparse.ArgumentParser) -> None:
    """The options; sizes default to those of sim.measure.plan.Grid."""
    parser.add_argument("--url", required=True, metavar="URL", help="base URL, as http://HOST:PORT/v1")
    parser.add_argument("--out", required=True, type=Path, metavar="DIR", help="folder for the table")
    parser.add_argument("--model", metavar="NAME", help="model to ask for (default: the only one served)")
    parser.add_argument("--dry-run", action="store_true", help="say what would be sent, and stop")
    _grid_arguments(parser.add_argument_group("what to measure, in tokens (lists as 1,2,4)"))
    _cap_arguments(parser.add_argument_group("caps, never passed"))
    _sending_arguments(parser.add_argument_group("how to send it"))


def main(arguments: argparse.Namespace) -> int:
    """Measure; the table is rewritten after every step, so Ctrl-C leaves what was finished."""
    grid = Grid(
        prompts=arguments.prompts,
        batch_sizes=arguments.batch_sizes,
        contexts=arguments.contexts,
        token_budget=arguments.token_budget,
        chunks=arguments.chunks,
        kv_tokens=arguments.kv_tokens,
        window_tokens=arguments.window_tokens,
        repeats=arguments.repeats,
    )
    plan = make_plan(grid)
    caps = Caps(arguments.max_requests, arguments.max_tokens, arguments.max_seconds)
    _announce(arguments.url, plan, caps)
    check_caps(plan, caps)
    if not arguments.dry_run:
        _measure(_target(arguments), plan, caps, arguments.out)
    return 0


def _grid_arguments(group: argparse._ArgumentGroup) -> None:
    grid = Grid()
    for name, meaning in (
        ("prompts", "lone prompts, each within the token budget"),
        ("batch_sizes", "requests decoding together"),
        ("contexts", "prompt lengths of the decoding requests"),
    ):
        default = getattr(grid, name)
        sizes = ",".join(map(str, default or grid.lone_prompts))
        shown = f"{meaning} (default {sizes})"
        group.add_argument(_option(name), dest=name, type=_sizes, default=default, metavar="N,N", help=shown)
    for name, meaning in (
        ("token_budget", "the server's tokens an iteration; vLLM: --max-num-batched-tokens"),
        ("chunks", "a prompt this many budgets long is measured too, in chunks; 1: none"),
        ("kv_tokens", "batches with more tokens of context than this are left out"),
        ("window_tokens", "undisturbed tokens behind a decode time"),
        ("repeats", "times each point is measured; the median counts"),
    ):
        _number(group, name, getattr(grid, name), meaning)


def _cap_arguments(group: argparse._ArgumentGroup) -> None:
    caps = Caps()
    _number(group, "max_requests", caps.max_requests, "requests")
    _number(group, "max_tokens", caps.max_tokens, "prompt and output tokens")
    _number(group, "max_seconds", caps.max_seconds, "seconds in all")


def _sending_arguments(group: argparse._ArgumentGroup) -> None:
    group.add_argument("--api-key-env", metavar="VAR", help="environment variable that holds the API key")
    group.add_argument(
        "--prompt-style", default="tokens", metavar="STYLE",
        help="tokens: random token ids (default); text: random words, counted by the server",
    )
    group.add_argument(
        "--token-ids", type=_token_ids, default=(1_000, 20_000), metavar="LOW-HIGH",
        help="range of the random token ids (default 1000-20000)",
    )
    group.add_argument(
        "--timeout", type=float, default=60.0, metavar="S", help="longest wait for a token (default 60)"
    )
    group.add_argument("--seed", type=int, default=0, help="of the random prompts (default 0)")


def _announce(url: str, plan: Plan, caps: Caps) -> None:
    say(f"measuring {url}: {plan.requests:,} requests, {plan.tokens:,} tokens")
    say(
        f"at most {caps.max_requests:,} requests, {caps.max_tokens:,} tokens, {caps.max_seconds:,g} s "
        "(--max-requests, --max-tokens, --max-seconds)"
    )
    for text in plan.left_out:
        note(f"left out: {text}")


def _target(arguments: argparse.Namespace) -> Target:
    api_key = None
    if arguments.api_key_env:
        api_key = os.environ.get(arguments.api_key_env)
        if not api_key:
            raise UserError(f"--api-key-env {arguments.api_key_env}: that variable is not set")
    return Target(
        arguments.url,
        arguments.model,
        api_key,
        arguments.prompt_style,
        arguments.token_ids,
        arguments.timeout,
        arguments.seed,
    )


def _measure(target: Target, plan: Plan, caps: Caps, out: Path) -> None:
    try:
        from sim.measure.runner import measure_server
    except ModuleNotFoundError as missing:
        if missing.name != "httpx":
            raise
        raise UserError("profile needs httpx: pip install 'llm-scheduler-sim[profile]'") from None

    latest: Measurement | None = None
    try:
        with progress_bars() as start:
            bar = start("measuring")

            def progress(done: Measurement) -> None:
                nonlocal latest
                latest = done
                write_table(out, done)
                if bar is not None:
                    bar(done.meter.requests, plan.requests)

            latest = asyncio.run(measure_server(target, plan, caps, progress))
    finally:
        if latest is not None:
            _close(out, latest)


def _close(out: Path, done: Measurement) -> None:
    """Write the table once more, and say what there is and what was left out."""
    rows = write_table(out, done)
    for notice in done.notices:
        note(f"note: {notice}")
    if not done.complete:
        note("not complete; the rows so far are usable")
    say(f"{out / 'iterations.csv'}: {rows} measured iterations")
    if rows:
        say(f"next: python -m sim calibrate {out} --out FILE")


def _option(name: str) -> str:
    return "--" + name.replace("_", "-")


def _number(group: argparse._ArgumentGroup, name: str, default: float, meaning: str) -> None:
    group.add_argument(
        _option(name), dest=name, type=type(default), default=default, metavar="N",
        help=f"{meaning} (default {default:g})",
    )


def _sizes(text: str) -> tuple[int, ...]:
    try:
        return tuple(int(part) for part in text.split(","))
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r}: integers separated by commas, as 1,2,4") from None


def _token_ids(text: str) -> tuple[int, int]:
    try:
        low, high = text.split("-")
        return int(low), int(high)
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r}: two token ids, as 1000-20000") from None
