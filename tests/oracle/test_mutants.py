"""The mutants of the mutation run still fit the code; the run itself is a command (docs/testing.md)."""

from tests.oracle.mutants import EQUIVALENT, MUTANTS, ROOT


def test_every_mutant_fits_exactly_one_place() -> None:
    """After a change of the code that a mutant patches: change the mutant, not its rule."""
    places = {m.rule: (m.file, (ROOT / m.file).read_text().count(m.old)) for m in (*MUTANTS, *EQUIVALENT)}
    assert {rule: place for rule, place in places.items() if place[1] != 1} == {}
