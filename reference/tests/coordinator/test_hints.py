"""Telling other processes of queues: collected for a moment, and out of the way of what happens here."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from types import SimpleNamespace
from typing import Any

import pytest

from protocol3.coordinator.background.bell import Bell
from protocol3.coordinator.background.hints import Hints

HINTS = "protocol3.coordinator.background.hints"


class Connection:
    """Somebody else listens. `notified` has what was sent."""

    def __init__(self) -> None:
        self.notified: asyncio.Queue[str] = asyncio.Queue()

    def add_termination_listener(self, _: object) -> None: ...

    async def add_listener(self, *_: object) -> None: ...

    async def execute(self, text: str, *arguments: str) -> None:
        if arguments:
            self.notified.put_nowait(arguments[1])

    async def fetchval(self, *_: object) -> bool:
        return True

    def terminate(self) -> None: ...


@pytest.fixture
async def resting(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Hints on such a connection, that connection, and what each rest of theirs ended with."""
    monkeypatch.setattr(f"{HINTS}.LISTENERS_S", 3_600.0)
    woken: list[bool] = []
    rests = asyncio.Event()
    rest = Bell.rest

    async def told(bell: Bell, seconds: float) -> bool:
        rests.set()
        woken.append(await rest(bell, seconds))
        return woken[-1]

    monkeypatch.setattr(Bell, "rest", told)
    connection = Connection()

    @asynccontextmanager
    async def acquire() -> Any:
        yield connection

    hints = Hints(lambda _scope, _queue: None, on_scope=lambda _scope: None)
    services: Any = SimpleNamespace(pool=SimpleNamespace(acquire=acquire))
    run = asyncio.create_task(hints.run(services))
    await rests.wait()
    yield hints, connection, woken
    run.cancel()
    await asyncio.gather(run, return_exceptions=True)


async def test_wakes_of_a_moment_are_told_together(resting):
    hints, connection, woken = resting
    for scope_id, queue in ((1, "a"), (1, "b"), (1, "a"), (2, "a")):
        hints.tell(scope_id, queue)
    assert await connection.notified.get() == "1 a\n1 b\n2 a"
    hints.tell(1, "a")
    assert await connection.notified.get() == "1 a"
    assert connection.notified.empty()
    assert woken == [True, True]  # once for each message


async def test_a_wake_wakes_nobody_before_its_moment_is_over(resting, monkeypatch):
    """An assignment of this process comes first."""
    hints, connection, woken = resting
    monkeypatch.setattr(f"{HINTS}.COLLECT_S", 3_600.0)
    hints.tell(1, "a")
    for _ in range(10):
        await asyncio.sleep(0)
    assert woken == []
    assert connection.notified.empty()
