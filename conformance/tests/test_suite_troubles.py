"""The failures of real engines: all there, each with checks that exist or a reason."""

from __future__ import annotations

import dataclasses

import pytest

from protocol3_conformance import catalogue
from protocol3_conformance.troubles import COUNT, Trouble, faults, troubles

KNOWN = {"a/b", "c/d"}
ROWS = [Trouble(number=n, sources=("o/r#1",), report="It hangs.", checks=("a/b",)) for n in range(1, COUNT + 1)]


def test_every_trouble_has_its_checks() -> None:
    rows = troubles()
    assert len(rows) == COUNT
    assert not [*faults(rows, catalogue.everything())]


def test_sound_rows_have_no_fault() -> None:
    assert not [*faults(ROWS, KNOWN)]


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ({"checks": ()}, "needs checks or a reason"),
        ({"excluded": "no such thing"}, "needs checks or a reason"),
        ({"checks": ("a/b", "gone/away")}, "no check gone/away"),
        ({"checks": ("a/b", "a/b")}, "twice"),
        ({"sources": ()}, "no source"),
        ({"sources": ("o/r",)}, "no source"),
        ({"number": 8}, "each once and in order"),
    ],
)
def test_a_wrong_row_is_told(change: dict[str, object], told: str) -> None:
    rows = [*ROWS[:6], dataclasses.replace(ROWS[6], **change), *ROWS[7:]]  # type: ignore[arg-type]  # by parameters
    found = [*faults(rows, KNOWN)]
    assert len(found) == 1
    assert told in found[0]


def test_what_awaits_a_check_that_restarts() -> None:
    row = dataclasses.replace(ROWS[0], restart=True)
    assert row.awaits_restart
    assert not dataclasses.replace(row, checks=("crashes/c",)).awaits_restart
    assert not ROWS[0].awaits_restart
