"""Every race of the table free: both sides at once, at two of three processes."""

import pytest

from races import table  # noqa: F401 - fills RACES
from races.contest import RACES, Race

ROUNDS = 3


@pytest.mark.parametrize("race", RACES, ids=lambda race: race.name)
async def test_free(arena, race: Race):
    """One of the two outcomes each time, and what is read back fits it. `./dev chaos races` plays it more often."""
    for number in range(1 if race.restarts else ROUNDS):
        async with arena.lab(f"free-{race.name}", seed=number) as lab:
            await race.free(lab)
