"""docs/glossary.md names every metric, column and foreign word there is, so that it cannot fall behind."""

from __future__ import annotations

from pathlib import Path

import pytest

from sim.core.errors import FOREIGN_TERMS
from sim.core.registry import POLICIES
from sim.report.folder import TABLES
from sim.report.metrics import summarize
from tests.report import runs
from tests.report.records import Served, record_of

GLOSSARY = (Path(__file__).parents[2] / "docs" / "glossary.md").read_text(encoding="utf-8")
SUMMARY = summarize(record_of(Served(tokens=[1.0, 2.0])), slo=None, provenance={})


@pytest.mark.parametrize("key", SUMMARY)
def test_every_key_of_the_summary_is_defined(key):
    assert f"`{key}`" in GLOSSARY


@pytest.mark.parametrize("table", TABLES)
def test_every_column_of_a_run_folder_is_named(table):
    assert f"`{table}.csv`" in GLOSSARY
    for column in TABLES[table]:
        assert f"`{column}`" in GLOSSARY


@pytest.mark.parametrize("term", sorted(set(FOREIGN_TERMS.values()) - {"tbt"}))
def test_every_term_that_has_another_name_is_there(term):
    assert term in GLOSSARY


@pytest.mark.parametrize("policy", runs.POLICIES)
def test_the_policies_of_the_quickstart_are_there(policy):
    assert policy in POLICIES and f"`{policy}`" in GLOSSARY
