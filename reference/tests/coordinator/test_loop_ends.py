"""The background loops end when they are cancelled, also if an error of a lost connection replaces the cancellation."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any

import pytest

from protocol3.coordinator import assembly
from protocol3.coordinator.background.claiming import Claiming
from protocol3.coordinator.background.dispatcher import Dispatcher
from protocol3.coordinator.background.due import AgendaLoop
from protocol3.coordinator.background.hints import Hints
from protocol3.coordinator.background.obligations import Obligations
from protocol3.coordinator.background.waiting import Waiter
from protocol3.telemetry.tracing import UNTRACED


class Ignored:
    def succeeded(self, now: float) -> None: ...

    def unavailable(self) -> None: ...


class LostPool:
    """The first one that waits for it and is cancelled meets the error of the dead connection instead."""

    def __init__(self) -> None:
        self.used = asyncio.Event()

    async def fetch(self, *_: object) -> Any:
        first = not self.used.is_set()
        self.used.set()
        try:
            await asyncio.Event().wait()
        finally:
            if first:
                raise ConnectionRefusedError

    def acquire(self) -> LostPool:
        return self

    async def __aenter__(self) -> Any:
        await self.fetch()

    async def __aexit__(self, *_: object) -> None: ...


@pytest.fixture
async def services() -> Any:
    pool = LostPool()
    return SimpleNamespace(pool=pool, transitions=SimpleNamespace(pool=pool, sql=str))


async def ends(task: asyncio.Task[Any], started: asyncio.Event) -> None:
    """Cancelled once, the task ends as cancelled."""
    async with asyncio.timeout(5):
        await started.wait()
    task.cancel()
    done, _ = await asyncio.wait([task], timeout=3)
    task.cancel()
    assert done, "the cancellation was lost"
    assert task.cancelled()


async def test_a_kept_loop_whose_clean_up_raises(services: Any) -> None:
    async def run(services: Any) -> None:
        await services.pool.fetch()

    await ends(asyncio.create_task(assembly._kept(run, services)), services.pool.used)


async def test_the_agenda(services: Any) -> None:
    await ends(asyncio.create_task(AgendaLoop({}, Ignored()).run(services)), services.pool.used)


async def test_the_look_at_obligations(services: Any) -> None:
    await ends(asyncio.create_task(Obligations({}, Ignored()).run(services)), services.pool.used)


async def test_a_worker_of_obligations(services: Any) -> None:
    async def handler(services: Any, _: object) -> None:
        await services.pool.fetch()

    obligations = Obligations({"test": handler}, Ignored())
    obligations.take(SimpleNamespace(id=1, workflow_id="w", kind="test", tries=0, version=1))  # type: ignore[arg-type]
    await ends(asyncio.create_task(obligations._work(services, "w")), services.pool.used)


async def test_a_dispatcher(services: Any) -> None:
    dispatcher = Dispatcher(
        services.transitions,
        Claiming(services.transitions, UNTRACED, 1, "main"),
        1,
        "main",
        place=lambda: True,
        on_end=lambda: None,
    )
    command: Any = SimpleNamespace(worker_session_id="s", consumer_id=0)
    dispatcher.add(Waiter(command=command, last=False))
    await ends(dispatcher.task, services.pool.used)


async def test_hints(services: Any) -> None:
    """Their connection is dropped, with the listener and the name."""
    listening = asyncio.Event()

    class Closed:
        async def __aenter__(self) -> Closed:
            return self

        async def __aexit__(self, *_: object) -> None: ...

        def add_termination_listener(self, _: object) -> None: ...

        async def add_listener(self, *_: object) -> None:
            listening.set()

        async def execute(self, text: str) -> None: ...

        def terminate(self) -> None: ...

    services.pool = SimpleNamespace(acquire=Closed)
    hints = Hints(lambda _scope, _queue: None, on_scope=lambda _scope: None)
    await ends(asyncio.create_task(hints.run(services)), listening)
