"""`./dev chaos points`: what no load came to is a fault, never a pass."""

import importlib
import sys
from argparse import Namespace
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest

TOOLS = Path(__file__).parents[3] / "tools"


@pytest.fixture(scope="module")
def points() -> Iterator[ModuleType]:
    sys.path.insert(0, str(TOOLS))
    yield importlib.import_module("chaos.points")
    sys.path.remove(str(TOOLS))


async def test_a_point_that_nothing_comes_to(points: ModuleType) -> None:
    campaign = points.Campaign(Namespace(seed=1, rounds=1, load=2), points.POINTS[:1])
    await campaign._strike(None, 0, points.POINTS[0], Counter())
    assert campaign.faults == [f"{points.POINTS[0].name}: no story comes to this point"]
    assert campaign.rows == []


def test_an_occasion_by_its_number(points: ModuleType) -> None:
    """Each occasion of each story can be struck."""
    occasions = Counter({"a": 2, "b": 1})
    assert [next(points._at(occasions, number)) for number in range(3)] == [("a", 0), ("a", 1), ("b", 0)]
