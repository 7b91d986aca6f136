"""Putting a coordinator together: services, the handlers of its loops, the loops."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from functools import partial
from typing import Final

import asyncpg

from protocol3.contract.models.common import Scope
from protocol3.coordinator.background.courtesy import Traffic
from protocol3.coordinator.background.dispatcher import Dispatchers
from protocol3.coordinator.background.due import AgendaLoop
from protocol3.coordinator.background.hints import Hints
from protocol3.coordinator.background.obligations import Obligations
from protocol3.coordinator.background.passes import Passes
from protocol3.coordinator.background.survival import ERRORS, survived
from protocol3.coordinator.background.wakes import Wakes
from protocol3.coordinator.parts import PLAIN, Parts
from protocol3.coordinator.services import Services
from protocol3.programs.stores import ProgramStore
from protocol3.store.scopes import Scopes
from protocol3.telemetry.tracing import UNTRACED, Tracing

#: Seconds until a loop that failed by itself is started again.
RESTART_S: Final = 1.0

_log: Final = logging.getLogger("protocol3.background")


def assemble(
    pool: asyncpg.Pool[asyncpg.Record],
    programs: ProgramStore,
    *,
    recovery: Passes,
    workflow_recovery: Passes,
    fixed_scope: Scope | None = None,
    parts: Parts = PLAIN,
    tracing: Tracing = UNTRACED,
) -> Services:
    """The services of a coordinator on a current database; nothing runs yet.

    Nothing is kept here alone: another one on the same database goes on where this one ended (DLV-121).

    Pool and program store stay the caller's. `recovery` is told of the agenda's passes, `workflow_recovery` of those of
    the obligations.
    """
    wakes = Wakes()
    transitions = parts.transitions(pool, wakes.publish)
    scopes = Scopes(pool)
    dispatchers = Dispatchers(transitions, partial(parts.claiming, transitions, scopes, tracing))
    services = Services(
        pool=pool,
        transitions=transitions,
        scopes=scopes,
        programs=parts.programs(programs),
        wakes=wakes,
        obligations=Obligations(
            parts.obligations,
            workflow_recovery,
            on_transient_failure=parts.give_up,
            workers=parts.obligation_workers,
        ),
        agenda=AgendaLoop(parts.agenda, recovery, parts.scans, together=parts.agenda_together),
        dispatchers=dispatchers,
        hints=Hints(dispatchers.wake, on_scope=lambda scope_id: services.look_again(scope_id)),
        traffic=Traffic(),
        applies_at_once=parts.applies_at_once,
        submissions=asyncio.Semaphore(parts.submissions),
        fixed_scope=fixed_scope,
    )
    wakes.subscribe(
        on_queue=services.dispatchers.wake,
        on_obligation=services.obligations.take,
        on_agenda=services.agenda.ring,
    )
    wakes.subscribe(on_queue=services.hints.tell)
    return services


@asynccontextmanager
async def running(services: Services) -> AsyncIterator[Services]:
    """The services with their loops running until the block is left. One connection of the pool is kept for hints."""
    loops = [
        asyncio.create_task(_kept(run, services))
        for run in (services.agenda.run, services.obligations.run, services.hints.run)
    ]
    try:
        yield services
    finally:
        for loop in loops:
            loop.cancel()
        await asyncio.gather(*loops, return_exceptions=True)
        await services.dispatchers.close()


async def _kept(run: Callable[[Services], Awaitable[None]], services: Services) -> None:
    """Run a loop, again and again should it fail: a fault in one pass must not end recovery for good."""
    while True:
        try:
            await run(services)
        except ERRORS as error:
            survived(error, _log, "a background loop failed")
        await asyncio.sleep(RESTART_S)
