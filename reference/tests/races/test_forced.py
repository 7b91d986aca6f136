"""Every race of the table in both orders. The order is seen in the database, not hoped for."""

import pytest

from races import table
from races.contest import RACES, Race

ROWS = {f"RACE-{number:02}" for number in range(1, 39)} - {"RACE-35", "RACE-36"}


def test_the_table_is_complete():
    """Every row of chapter 18 but the two about approvals, and no other."""
    assert {row for race in RACES for row in race.ids} == ROWS
    assert table.RACES is RACES


@pytest.mark.parametrize("first", [0, 1])
@pytest.mark.parametrize("race", RACES, ids=lambda race: race.name)
async def test_forced(arena, race: Race, first: int):
    """A session holds the contested row; the first side is seen to wait for it, then the second; then it is let go."""
    lost = arena.lost
    async with arena.lab(f"forced-{race.name}") as lab:
        await race.forced(lab, first)
    assert race.restarts or arena.lost == lost
