"""What time brings about in a generated history is the same in whichever order a service meets it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from copy import deepcopy
from typing import Any

import pytest
from rehearsal import rehearsed

from protocol3_conformance.model.delivery import Delivery
from protocol3_conformance.model.workflows import Workflows
from protocol3_conformance.stateful import replay

RECOVER = Delivery.recover
SEEDS = (1, 2, 3, 1298347390)
"""With the last one, an advance used to end a branch and the workflow above it together."""


def leases_first(world: Workflows, now: int) -> None:
    RECOVER(world, now)
    world.progress(now)


def workflows_first(world: Workflows, now: int) -> None:
    world.progress(now)
    leases_first(world, now)


def one_by_one(world: Workflows, now: int) -> None:
    """All that a lost lease leads to, and then the next one."""
    _each(world, now, list(world.tasks))


def latest_first(world: Workflows, now: int) -> None:
    _each(world, now, world.tasks[::-1])


def _each(world: Workflows, now: int, tasks: list[Any]) -> None:
    for task in tasks:
        if task.current and not task.current.live(now):
            task.lose(now)
            world.progress(now)
    world.progress(now)


ORDERS: tuple[Callable[[Workflows, int], None], ...] = (leases_first, workflows_first, one_by_one, latest_first)


def shown(world: Workflows) -> list[str]:
    """All that reads say of it."""
    tasks = [(t.status, t.records, t.outcome, [a.shown for a in t.attempts]) for t in world.tasks]
    flows = [(flow.snapshot, flow.outcome) for flow in world.flows]
    return sorted(repr(plain(one)) for one in [*map(list, tasks), *map(list, flows)])


def plain(pattern: Any) -> Any:
    """Without the requirements."""
    pattern, _ = replay.unwrapped(pattern, [])
    if isinstance(pattern, list):
        return [plain(item) for item in pattern]
    return {name: plain(value) for name, value in pattern.items()} if isinstance(pattern, dict) else pattern


@pytest.fixture
def worlds(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[tuple[Workflows, int]]]:
    """Each world in which time has moved, before anything came of it, and the instant."""
    met: list[tuple[Workflows, int]] = []

    def seen(world: Delivery, now: int) -> None:
        if isinstance(world, Workflows):
            met.append((deepcopy(world), now))
        RECOVER(world, now)

    with monkeypatch.context() as patched:
        patched.setattr(Workflows, "recover", seen)
        yield met


@pytest.mark.parametrize("check_id", ["stateful/workflows", "stateful/forks"])
@pytest.mark.parametrize("seed", SEEDS)
def test_time_leaves_no_order_open(check_id: str, seed: int, worlds: list[tuple[Workflows, int]]) -> None:
    """Else two services that are both right would answer otherwise."""
    for _ in rehearsed(check_id, seed):
        pass
    assert worlds
    for world, now in worlds:
        outcomes = []
        for order in ORDERS:
            tried = deepcopy(world)
            order(tried, now)
            outcomes.append(shown(tried))
        assert all(outcome == outcomes[0] for outcome in outcomes)
