"""The record of edits drawn at random must count honestly: what was not shown to be harmless counts as a fault."""

import sys
from collections.abc import Iterator
from dataclasses import replace
from importlib import import_module
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

ROOT = Path(__file__).parents[3]
SEQUENCE = "command.sequence > accepted + 1"
CHECK = "renewal/sequences"


@pytest.fixture(scope="module")
def mutants() -> Iterator[SimpleNamespace]:
    """The modules of the tool by name."""
    sys.path.insert(0, str(ROOT / "tools"))
    names = ("at_random", "drawn", "entries", "judging", "record")
    yield SimpleNamespace(**{name: import_module(f"mutants.{name}") for name in names})
    sys.path.remove(str(ROOT / "tools"))


@pytest.fixture(scope="module")
def picked(mutants: SimpleNamespace) -> list[Any]:
    """Three as they are drawn."""
    old = (ROOT / "reference/protocol3/core/renewal.py").read_text()
    edit = mutants.entries.Edit(
        file="core/renewal.py", old=old, new=old.replace(SEQUENCE, "command.sequence > accepted - 1")
    )
    plain = {"sentence": "Add_Sub in a place", "role": "coordinator", "kind": "random", "breaks": ()}
    return [
        mutants.entries.Mutant(id=f"random-{number}", source="random", edits=(edit,), **plain) for number in range(3)
    ]


def ruled(verdict: str, unended: int = 0, digest: str = "") -> dict[str, Any]:
    return {"verdict": verdict, "unended": unended, "digest": digest}


@pytest.mark.parametrize(
    ("by_role", "fate"),
    [
        ({"coordinator": ruled("killed", unended=9)}, "killed"),
        ({"coordinator": ruled("survived"), "worker": ruled("killed")}, "killed"),
        ({"coordinator": ruled("survived"), "worker": ruled("survived")}, "survived"),
        ({"coordinator": ruled("survived", unended=1), "worker": ruled("survived")}, "undecided"),
        ({"coordinator": ruled("survived"), "worker": ruled("survived", unended=1)}, "undecided"),
        ({"coordinator": ruled("stillborn")}, "stillborn"),
        ({}, "unjudged"),
        ({"worker": ruled("survived")}, "unjudged"),
        ({"worker": ruled("killed")}, "killed"),
    ],
)
def test_what_becomes_of_one(mutants: SimpleNamespace, by_role: dict[str, Any], fate: str) -> None:
    assert mutants.at_random.fate(by_role) == fate


def test_a_run_goes_on_where_it_ended(mutants: SimpleNamespace, picked: list[Any]) -> None:
    """What is ruled as it is now is not ruled again, and what no coordinator's check killed goes on to workers'."""

    def left(kept: dict[str, Any], role: str, only: set[int] | None = None) -> list[str]:
        return [one.id for one in mutants.at_random.left(picked, only, kept, role)]

    kept = {
        "random-0": {"coordinator": ruled("survived", digest=picked[0].digest)},
        "random-1": {"coordinator": ruled("killed", digest="of another source")},
    }
    assert left(kept, "coordinator") == ["random-1", "random-2"]
    assert left(kept, "coordinator", {0, 2}) == ["random-2"]
    assert left(kept, "worker") == ["random-0", "random-2"]
    kept["random-0"]["worker"] = ruled("survived", digest=replace(picked[0], role="worker").digest)
    assert left(kept, "worker", {0, 1}) == []


def test_what_comes_is_kept_at_once(mutants: SimpleNamespace, picked: list[Any], tmp_path: Path) -> None:
    file, rulings = tmp_path / "verdicts.json", [mutants.judging.ruling(one, []) for one in picked]
    coming = mutants.at_random.kept_as_they_come(rulings, {}, file)
    for count in (1, 2, 3):
        next(coming)
        assert len(mutants.at_random.load(file)) == count


def test_the_numbers_asked_for(mutants: SimpleNamespace) -> None:
    assert mutants.at_random.numbers("3,17,40-42") == {3, 17, 40, 41, 42}


@pytest.fixture
def record(mutants: SimpleNamespace, picked: list[Any]) -> Any:
    """Of a run that killed one of three and let two live; a check kills one of them now, the other is harmless."""
    kept = {
        "random-0": {"coordinator": ruled("killed")},
        "random-1": {"coordinator": ruled("survived")},
        "random-2": {"coordinator": ruled("survived")},
    }
    made = mutants.at_random.made(picked, kept, (), seed=7, commit="abc")
    one, other = made.survivors
    return replace(made, survivors=[replace(one, killed_by=CHECK), replace(other, equivalent="why `|` not")])


def test_a_record_of_a_run_is_read_as_it_was_written(mutants: SimpleNamespace, record: Any, tmp_path: Path) -> None:
    mutants.record.write(record, tmp_path / "random.toml")
    assert mutants.record.read(tmp_path / "random.toml") == record
    assert record.survivors[0].edit == (
        *("Add_Sub", "core/renewal.py"),
        *(f"if command.sequence == 0 or {SEQUENCE}:", f"if command.sequence == 0 or {SEQUENCE[:-3]}- 1:"),
    )


def test_what_is_known_of_an_edit_outlives_the_next_run(
    mutants: SimpleNamespace, picked: list[Any], record: Any
) -> None:
    kept = {one.id: {"coordinator": ruled("survived")} for one in picked[:1]}
    again = mutants.at_random.made(picked[:1], kept, record.survivors[1:], seed=8, commit="def")
    assert [(one.number, one.equivalent) for one in again.survivors] == [(0, "why `|` not")]


def test_the_scores(mutants: SimpleNamespace, record: Any) -> None:
    """Before the checks that were written for survivors, and with them. What is not explained counts as a fault."""
    assert (record.counts["killed"], record.killed_now, record.real) == (1, 2, 2)
    untold = replace(record, survivors=[replace(one, equivalent=None, killed_by=None) for one in record.survivors])
    assert (untold.killed_now, untold.real) == (1, 3)
    page = "\n".join(mutants.record.section(record))
    assert "killed 1 (50%)" in page
    assert "kills 2 (100%)" in page
    assert "**not killed**" in "\n".join(mutants.record.section(untold))


@pytest.mark.parametrize(
    ("change", "fault"),
    [
        ({"drawn": 4}, "do not add up to 4"),
        (
            {"counts": {"killed": 2, "survived": 1, "stillborn": 0, "undecided": 0, "unjudged": 0}},
            "2 survived are listed, 1 counted",
        ),
        (
            {"counts": {"killed": 0, "survived": 2, "stillborn": 0, "undecided": 0, "unjudged": 1}},
            "0 unjudged are listed, 1 counted",
        ),
        ({"counts": {"killed": 1, "survived": 2}}, "do not add up"),
    ],
)
def test_a_record_that_does_not_add_up(
    mutants: SimpleNamespace, record: Any, change: dict[str, Any], fault: str
) -> None:
    assert list(mutants.record.faults(record)) == []
    assert fault in next(mutants.record.faults(replace(record, **change)))


@pytest.mark.parametrize(
    ("change", "fault"),
    [
        ({"number": 2}, "survivor 2 is listed 2 times"),
        ({"number": 3}, "survivor 3 is listed 1 times, of 3"),
        ({"equivalent": "why"}, "not both"),
        ({"killed_by": "no/check"}, "there is no check no/check"),
    ],
)
def test_a_survivor_that_is_not_as_it_must_be(
    mutants: SimpleNamespace, record: Any, change: dict[str, Any], fault: str
) -> None:
    one, other = record.survivors
    (found,) = mutants.record.faults(replace(record, survivors=[replace(one, **change), other]))
    assert fault in found
