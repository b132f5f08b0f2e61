"""Mutation run: break one rule of the product at a time, and see that the equality tests notice.

    python -m tests.oracle.mutants [--cases 60] [--only NAME ...]

Each mutant is a text patch to a temporary copy of the tree, not to the working tree. It is killed by the
oracle equality tests, else by the case tests, else it survives, and the exit status is 1. The unpatched copy
must pass first. `EQUIVALENT` are patches that change no run; docs/testing.md says why.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parents[2]
COPIED = ("sim", "policies", "tests", "configs", "docs", "pyproject.toml")
EQUALITY = "tests/oracle/test_oracle_equality.py"
CASES = "tests/cases/test_scheduling.py"


class Mutant(NamedTuple):
    """Replace `old`, which occurs exactly once in `file`, by `new`."""

    rule: str
    file: str
    old: str
    new: str


STEP, REPLICA, STATE = "sim/engine/step.py", "sim/engine/replica.py", "sim/engine/state.py"
PACE = "sim/engine/pace.py"
DECODES, EPOCHS, JUMP = "sim/engine/decodes.py", "sim/engine/epochs.py", "sim/engine/jump.py"

MUTANTS = (
    # Order.
    Mutant("equal arrivals in reverse row order", "sim/engine/arrivals.py",
           "return request.arrival_ns, request.row", "return request.arrival_ns, -request.row"),
    Mutant("an arrival at t comes after the decision at t", "sim/engine/arrivals.py",
           "Delay(self._env, delay_ns, URGENT)", "Delay(self._env, delay_ns, 2)"),
    Mutant("a preempted request goes to the back of the queue", "sim/engine/queue.py",
           "put_back = deque.appendleft", "put_back = deque.append"),
    Mutant("smaller requests overtake one that does not fit", STEP,
           "            if not self.schedule(request):\n                break",
           "            if not self.schedule(request):\n                continue"),
    # Preemption and growth.
    Mutant("the victim is the oldest", STEP,
           "victim = self._victim(self._state.running)", "victim = next(iter(self._state.running))"),
    Mutant("an iteration that preempted admits", STEP,
           "        if self.preempted:\n            return self._refuse",
           "        if False:\n            return self._refuse"),
    Mutant("recompute forgets the generated tokens", STATE,
           "request.prefill_tokens = request.prompt_tokens + request._generated",
           "request.prefill_tokens = request.prompt_tokens"),
    Mutant("a preempted chunk keeps its progress", STATE,
           "        request.prefilled_tokens = 0\n        request.admission = None",
           "        request.admission = None"),
    # One-offs.
    Mutant("context of a decode is one short", DECODES,
           "contexts = [state.context_tokens for state in self.members]",
           "contexts = [state.context_tokens - 1 for state in self.members]"),
    Mutant("the aggregated context is one short for each decode", EPOCHS,
           "self._context_offset += offset", "self._context_offset += offset - 1"),
    Mutant("a decode takes its block one entry early", DECODES,
           "    def needs_block(self, state: RequestState) -> bool:\n"
           "        return (state.context_tokens - 1) % self._block_size == 0\n\n"
           "    def blocks_to_grow(self, first: int = 0, iterations: int = 1) -> int:\n"
           "        return sum(\n            (state.context_tokens - 1 + ahead)",
           "    def needs_block(self, state: RequestState) -> bool:\n"
           "        return state.context_tokens % self._block_size == 0\n\n"
           "    def blocks_to_grow(self, first: int = 0, iterations: int = 1) -> int:\n"
           "        return sum(\n            (state.context_tokens + ahead)"),
    Mutant("reserve sets one entry too many aside", "sim/kv/memory.py",
           "return state.prompt_tokens + state._output_tokens - 1",
           "return state.prompt_tokens + state._output_tokens"),
    Mutant("paged admission takes the next entry's block too", "sim/kv/memory.py",
           "return state.prefill_tokens", "return state.prefill_tokens + 1"),
    Mutant("max_model_len itself is too long", REPLICA, "total > limit", "total >= limit"),
    Mutant("a request that just fits the cache is rejected", REPLICA,
           "blocks = kv.blocks_for(total - 1)", "blocks = kv.blocks_for(total)"),
    # Limits.
    Mutant("one request too many runs", STEP,
           "len(state.running) >= self.max_batch_size", "len(state.running) > self.max_batch_size"),
    Mutant("the watermark also binds an idle replica", STEP,
           "        entries = state.memory.admission_entries(request)\n"
           "        spare = self._watermark_blocks if state.running else 0",
           "        entries = state.memory.admission_entries(request)\n"
           "        spare = self._watermark_blocks"),
    Mutant("a chunk ignores what is cached", STEP,
           "make(Chunk, (tokens, request.prefilled_tokens))", "make(Chunk, (tokens, 0))"),
    Mutant("decodes are not charged to the budget", STEP,
           "        self.all_decodes = True\n        self.budget_left -= count",
           "        self.all_decodes = True"),
    # The policies.
    Mutant("new prompts before the partial one", "policies/stall_free.py",
           "        for request in step.prefilling:\n"
           "            scheduled |= step.schedule(request, self._chunk(step, request))\n",
           "        partial = list(step.prefilling)\n"
           "        for request in step.waiting:\n"
           "            if not step.schedule(request, self._chunk(step, request)):\n                break\n"
           "        for request in partial:\n"
           "            scheduled |= step.schedule(request, self._chunk(step, request))\n"),
    Mutant("prefill_first decodes beside its prompts", "policies/prefill_first.py",
           "if not step.num_prefills:", "if True:"),
    Mutant("static pads to the prompt only", "policies/static.py",
           "decode_context=longest_prompt + generated", "decode_context=longest_prompt"),
    Mutant("static waits past its limit", "policies/static.py",
           "if step.now_ns < due_ns:", "if step.now_ns <= due_ns:"),
    Mutant("static frees finished slots at once", "policies/static.py",
           "holds_finished = True", "holds_finished = False"),
    # The exact jump.
    Mutant("a short jump passes an arrival at an end", JUMP,
           "end_ns >= change_ns", "end_ns > change_ns"),
    Mutant("a long jump passes an arrival at an end", JUMP,
           "elapsed.searchsorted(change_ns - start_ns)",
           "elapsed.searchsorted(change_ns - start_ns, side='right')"),
    Mutant("a jump passes a completion", EPOCHS,
           "return self._next_due - self._epoch", "return self._next_due - self._epoch + 1"),
    Mutant("a jump takes a block that is not free", JUMP,
           "if blocks_to_grow(1, middle) <= free:", "if blocks_to_grow(1, middle) <= free + 1:"),
    Mutant("a jump begins beside a prefill", PACE,
           "elif not chunks and step.all_decodes and not is_behind and self._repeats_itself():",
           "elif step.all_decodes and not is_behind and (chunks or self._repeats_itself()):"),
    Mutant("a jump begins in an iteration that preempted", PACE,
           "            and not step.preempted\n", ""),
)

EQUIVALENT = (
    Mutant("decodes grow youngest first", STEP,
           "            if need > self.kv.free_blocks:\n"
           "                return self._decode_each(decodes.in_admission_order())",
           "            if need > self.kv.free_blocks:\n"
           "                return self._decode_each(decodes.in_admission_order()[::-1])"),
)


def copy_tree(target: Path) -> None:
    """Everything the tests need, without caches."""
    for name in COPIED:
        source = ROOT / name
        if source.is_dir():
            shutil.copytree(source, target / name, ignore=shutil.ignore_patterns("__pycache__", ".*"))
        elif source.exists():
            shutil.copy2(source, target / name)


def passes(tree: Path, tests: str, cases: int) -> bool:
    """Whether `tests` pass in `tree`; stops at the first failure. A hang of five minutes is a failure."""
    environment = os.environ | {"ORACLE_CASES": str(cases), "PYTHONPATH": str(tree)}
    environment["PYTHONDONTWRITEBYTECODE"] = "1"
    command = [sys.executable, "-m", "pytest", "-x", "-q", "-p", "no:cacheprovider", tests]
    try:
        done = subprocess.run(command, cwd=tree, env=environment, capture_output=True, timeout=300)
    except subprocess.TimeoutExpired:
        return False
    return done.returncode == 0


def judge(mutant: Mutant, tree: Path, cases: int) -> str:
    """Apply the mutant, run, and put the file back: "equality", "cases", or "survived"."""
    path = tree / mutant.file
    text = path.read_text()
    if text.count(mutant.old) != 1:
        raise SystemExit(f"{mutant.rule}: the patch fits {text.count(mutant.old)} places in {mutant.file}")
    path.write_text(text.replace(mutant.old, mutant.new))
    try:
        if not passes(tree, EQUALITY, cases):
            return "equality"
        return "survived" if passes(tree, CASES, cases) else "cases"
    finally:
        path.write_text(text)


def main() -> int:
    parser = argparse.ArgumentParser(description="break one rule at a time; every mutant must be noticed")
    parser.add_argument("--cases", type=int, default=60, help="random worlds in each of the 20 cells")
    parser.add_argument("--only", nargs="*", default=None, help="words; run the mutants whose rule has one")
    options = parser.parse_args()
    survivors = 0
    with tempfile.TemporaryDirectory() as folder:
        tree = Path(folder)
        copy_tree(tree)
        if not (passes(tree, EQUALITY, options.cases) and passes(tree, CASES, options.cases)):
            raise SystemExit("the tests fail without any mutant; mend that first")
        print("| rule broken | file | killed by |\n|---|---|---|")
        for mutant in (*MUTANTS, *EQUIVALENT):
            if options.only is not None and not any(word in mutant.rule for word in options.only):
                continue
            verdict = judge(mutant, tree, options.cases)
            if mutant in EQUIVALENT:
                verdict += " (equivalent)" if verdict == "survived" else " (thought equivalent)"
            survivors += verdict == "survived"
            print(f"| {mutant.rule} | `{mutant.file}` | {verdict} |", flush=True)
    print(f"\n{survivors} survived")
    return 1 if survivors else 0


if __name__ == "__main__":
    raise SystemExit(main())
