"""One coordinator process: database, loops, HTTP edge; from start to drain."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from contextlib import AsyncExitStack
from dataclasses import dataclass
from functools import partial

from protocol3.contract.fields import present
from protocol3.contract.strict_json import JsonValue
from protocol3.coordinator import log
from protocol3.coordinator.assembly import assemble, running
from protocol3.coordinator.health import Health
from protocol3.coordinator.http.exchange import Exchanges
from protocol3.coordinator.http.listener import Listener
from protocol3.coordinator.observation import Observer
from protocol3.coordinator.options import ServeOptions
from protocol3.coordinator.parts import PLAIN, Parts
from protocol3.coordinator.services import Services
from protocol3.coordinator.traces import trace_exchange
from protocol3.programs.errors import ProgramError
from protocol3.programs.stores import FilesystemStore
from protocol3.store.connections import Connection
from protocol3.store.database import is_current, is_read_only, open_pool
from protocol3.store.opening import Unusable, opening
from protocol3.store.outage import close
from protocol3.telemetry.tracing import UNTRACED, Tracing, from_environment


@dataclass(frozen=True, slots=True, kw_only=True)
class Addresses:
    """What was bound."""

    url: str
    metrics_url: str | None = None

    def to_json(self) -> dict[str, JsonValue]:
        return present(url=self.url, metrics_url=self.metrics_url)


async def serve(options: ServeOptions, *, ready: Callable[[Addresses], object]) -> None:
    """Serve until cancelled, then drain; a second cancellation ends at once. `ready` is called with what was bound.

    Metrics are served until the drain is over. Raises DatabaseError, ValueError or OSError, with what to do, when it
    cannot start.
    """
    asyncio.get_running_loop().set_exception_handler(log.unhandled)
    async with AsyncExitStack() as stack:
        programs, parts = _programs(options), _parts(options)
        stack.push_async_callback(programs.aclose)
        with opening():
            pool = await open_pool(options.database_url, size=parts.pool_size, on_change=log.database)
        stack.push_async_callback(close, pool)
        async with pool.acquire() as connection:
            await _check(connection)
        await parts.prepare(pool)
        tracing = from_environment("protocol3-coordinator")
        stack.push_async_callback(tracing.close)
        health = Health(time.monotonic)
        services = assemble(
            pool,
            programs,
            recovery=health.recovery,
            workflow_recovery=health.watch("workflow_recovery"),
            fixed_scope=options.fixed_scope,
            parts=parts,
            tracing=tracing,
        )
        await stack.enter_async_context(running(services))
        exchanges, metrics_url = await _edge(options, parts, services, health, tracing, stack)
        listener = await Listener.open(exchanges, host=options.listen_host, port=options.listen_port)
        health.startup_done()
        ready(Addresses(url=_url(options.listen_host, listener.port), metrics_url=metrics_url))
        try:
            await asyncio.Event().wait()
        finally:
            services.dispatchers.end_waits()
            await listener.close()


async def _check(connection: Connection) -> None:
    """Raises DatabaseError where this version cannot work."""
    if not await is_current(connection):
        raise Unusable(
            "the database's schema is not current",
            advice="bring it up to date: protocol3 orchestrator migrate --database-url URL",
        )
    if await is_read_only(connection):
        raise Unusable(
            "the database takes no writes", advice="give the server that takes them, not a standby, as --database-url"
        )


async def _edge(
    options: ServeOptions, parts: Parts, services: Services, health: Health, tracing: Tracing, stack: AsyncExitStack
) -> tuple[Exchanges, str | None]:
    """The exchanges with whoever observes them, and where metrics are served, until the stack is left."""
    observers: list[Observer] = [services.traffic.seen]
    if tracing is not UNTRACED:
        observers.append(partial(trace_exchange, tracing))
    if options.metrics_listen is None:
        return parts.exchanges(services, health, observers), None
    from protocol3.coordinator.metrics.collection import Metrics, ProcessState  # a process without metrics has no use
    from protocol3.coordinator.metrics.endpoint import PATH, serving

    metrics = Metrics()
    observers.append(metrics.observe)
    exchanges = parts.exchanges(services, health, observers)
    state = ProcessState(services, health, exchanges)
    host, port = options.metrics_listen
    bound = await stack.enter_async_context(serving(metrics, state, dsn=options.database_url, host=host, port=port))
    return exchanges, _url(host, bound) + PATH


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
