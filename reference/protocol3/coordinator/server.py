"""One coordinator process: database, loops, HTTP edge; from start to drain."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable

from protocol3.coordinator.assembly import assemble, running
from protocol3.coordinator.health import Health
from protocol3.coordinator.http.listener import Listener
from protocol3.coordinator.options import ServeOptions
from protocol3.coordinator.parts import PLAIN, Parts
from protocol3.programs.errors import ProgramError
from protocol3.programs.stores import FilesystemStore
from protocol3.store.database import is_current, open_pool
from protocol3.store.opening import Unusable, opening


async def serve(options: ServeOptions, *, ready: Callable[[str], object]) -> None:
    """Serve until cancelled, then drain; a second cancellation ends at once. `ready` is called with the bound URL.

    Raises DatabaseError, ValueError or OSError, with what to do, when it cannot start.
    """
    programs, parts = _programs(options), _parts(options)
    with opening():
        pool = await open_pool(options.database_url, size=parts.pool_size)
    try:
        async with pool.acquire() as connection:
            if not await is_current(connection):
                raise Unusable(
                    "the database's schema is not current",
                    advice="bring it up to date: protocol3 orchestrator migrate --database-url URL",
                )
        await parts.prepare(pool)
        health = Health(time.monotonic)
        services = assemble(
            pool,
            programs,
            recovery=health.recovery,
            workflow_recovery=health.watch("workflow_recovery"),
            fixed_scope=options.fixed_scope,
            parts=parts,
        )
        async with running(services):
            exchanges = parts.exchanges(services, health)
            listener = await Listener.open(exchanges, host=options.listen_host, port=options.listen_port)
            health.startup_done()
            ready(_url(options.listen_host, listener.port))
            try:
                await asyncio.Event().wait()
            finally:
                services.dispatchers.end_waits()
                await listener.close()
    finally:
        await programs.aclose()
        await pool.close()


def _programs(options: ServeOptions) -> FilesystemStore:
    try:
        return FilesystemStore(options.store)
    except ProgramError as error:
        raise ValueError(error.message) from None


def _parts(options: ServeOptions) -> Parts:
    if not options.test_controls:
        return PLAIN
    from protocol3.coordinator.controls.parts import ControlledParts  # nothing of it is even read otherwise

    return ControlledParts()


def _url(host: str, port: int) -> str:
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"
