"""The journal keeps every entry that was written whole, whatever happens to the rest of the file."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sim.core.errors import UserError
from sim.sweeps.journal import Journal

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=6,
)
ENTRIES = st.lists(JSON, min_size=1, max_size=6)


def written(path: Path, entries: list[Any]) -> bytes:
    path.unlink(missing_ok=True)
    with Journal(path) as journal:
        for entry in entries:
            journal.append(entry)
    return path.read_bytes()


def read(path: Path) -> list[Any]:
    with Journal(path) as journal:
        return journal.entries


@pytest.fixture(scope="module")
def path() -> Any:
    with tempfile.TemporaryDirectory() as folder:
        yield Path(folder) / "journal"


@given(entries=ENTRIES)
def test_what_was_appended_is_read_back(path: Path, entries: list[Any]) -> None:
    written(path, entries)
    assert read(path) == entries


@given(entries=ENTRIES, data=st.data())
def test_cut_off_anywhere_the_whole_entries_remain_and_writing_goes_on(
    path: Path, entries: list[Any], data: st.DataObject
) -> None:
    content = written(path, entries)
    cut = data.draw(st.integers(0, len(content)))
    path.write_bytes(content[:cut])
    whole = content[:cut].count(b"\n")
    with Journal(path) as journal:
        assert journal.entries == entries[:whole]
        assert not journal.foreign
        journal.append("the next")
    assert read(path) == [*entries[:whole], "the next"]


@given(entries=ENTRIES, data=st.data())
def test_a_damaged_byte_costs_at_most_the_entries_it_touches(
    path: Path, entries: list[Any], data: st.DataObject
) -> None:
    content = bytearray(written(path, entries))
    place = data.draw(st.integers(0, len(content) - 1))
    content[place] ^= data.draw(st.integers(1, 255))
    path.write_bytes(content)
    line = bytes(content[:place]).count(b"\n")
    with Journal(path) as journal:
        journal.append("the next")
    kept = [*entries, "the next"]
    # a lost line end costs the entry behind it too
    assert read(path) in ([*kept[:line], *kept[line + 1 :]], [*kept[:line], *kept[line + 2 :]])


def test_a_file_of_something_else_is_left_as_it_is(path: Path) -> None:
    path.write_text("time,value\n1,2\n")
    with Journal(path) as journal:
        assert journal.foreign
        assert journal.entries == []
    assert path.read_text() == "time,value\n1,2\n"


def test_two_writers_are_kept_apart(path: Path) -> None:
    path.unlink(missing_ok=True)
    with Journal(path), pytest.raises(UserError, match="another sweep is writing it"):
        Journal(path)
    with Journal(path):
        pass


def test_a_folder_in_its_place_is_told(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="cannot write: Is a directory"):
        Journal(tmp_path)
