"""docs/cases.md names a test for every case, and every test it names exists."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "cases.md").read_text()
NAMED = sorted(set(re.findall(r"`(tests/[\w/]+\.py)::(\w+)`", PAGE)))


def test_every_test_that_the_page_names_exists() -> None:
    missing = [
        f"{file}::{name}"
        for file, name in NAMED
        if not (ROOT / file).exists() or f"def {name}(" not in (ROOT / file).read_text()
    ]
    assert missing == []


def test_every_case_has_its_place_on_the_page() -> None:
    cases = {f"{kind}{n}" for kind, last in (("S", 33), ("M", 10), ("T", 11)) for n in range(1, last + 1)}
    found = set(re.findall(r"^(?:\| |\*\*)([SMT]\d+)(?: \||\*\*)", PAGE, flags=re.MULTILINE))
    assert cases - found == set()
