"""Turn the result of `vllm bench serve --save-result --save-detailed` into a run folder for `validate`.

    python scripts/vllm_bench_to_run.py RESULT.json RUN_DIR gpu=H100 max_num_seqs=256 num_gpu_blocks=27000

The benchmark does not record the engine's settings: give them as KEY=VALUE (docs/run-format.md lists
the keys), or fill in the nulls of RUN_DIR/run.json afterwards.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

import yaml

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from sim.core.errors import TraceError, UserError
from sim.measure.vllm_bench import convert_bench


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("result", type=Path, metavar="RESULT.json")
    parser.add_argument("out", type=Path, metavar="RUN_DIR")
    parser.add_argument("engine", nargs="*", metavar="KEY=VALUE", help="a setting of the engine")
    arguments = parser.parse_args()
    try:
        converted = convert_bench(arguments.result, arguments.out, dict(map(_setting, arguments.engine)))
    except UserError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    for notice in converted.notices:
        print(f"note: {notice}", file=sys.stderr)
    print(f"{arguments.out}: {converted.requests} requests")
    return 0


def _setting(text: str) -> tuple[str, object]:
    key, equals, value = text.partition("=")
    if not equals:
        raise TraceError(f"{text}: must look like KEY=VALUE")
    return key, yaml.safe_load(value)


if __name__ == "__main__":
    sys.exit(main())
