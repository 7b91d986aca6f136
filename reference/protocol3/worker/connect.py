"""The worker as a whole: from its settings to its last line (WRK-001…004, WRK-089…093)."""

import asyncio
import os
import signal
from collections.abc import Callable
from dataclasses import dataclass

from protocol3.contract.models.delivery import WorkerSession
from protocol3.contract.strict_json import JsonValue
from protocol3.programs.cache import PackageCache
from protocol3.programs.stores import ProgramStore, open_store
from protocol3.telemetry.tracing import UNTRACED, Tracing, from_environment
from protocol3.worker.admission import Admission
from protocol3.worker.attempt import Workshop
from protocol3.worker.consumer import Consumer
from protocol3.worker.diagnostics import Diagnostics
from protocol3.worker.execution import assemble
from protocol3.worker.orphans import Orphans
from protocol3.worker.sessions import keep_session, open_session
from protocol3.worker.settings import WorkerSettings
from protocol3.worker.settlement import Settler
from protocol3.worker.transport import Coordinator
from protocol3.worker.working_directory import remove_leftovers


@dataclass(frozen=True, slots=True, kw_only=True)
class Delivery:
    """What a worker did. ``failure`` is why it ended by itself, None if a signal asked for the end."""

    session_id: str
    finished: bool
    settled_attempts: int
    lost_attempts: int
    failure: str | None

    def to_json(self) -> dict[str, JsonValue]:
        """The line of WRK-093."""
        return {
            "delivery": {
                "session_id": self.session_id,
                "finished": self.finished,
                "settled_attempts": self.settled_attempts,
                "lost_attempts": self.lost_attempts,
            }
        }


class Worker:
    """One session and its consumers; :meth:`run` ends once everything is resolved.

    One number governs consumers and processes (WRK-001). The cache is this process's own (WRK-003). Nothing of it
    outlives the process: a new one opens a new session (WRK-077).
    """

    def __init__(
        self,
        settings: WorkerSettings,
        *,
        coordinator: Coordinator,
        cache: PackageCache,
        store: ProgramStore,
        session: WorkerSession,
        diagnostics: Diagnostics,
        tracing: Tracing = UNTRACED,
        orphans: Orphans | None = None,
    ) -> None:
        self._session = session
        self._admission = Admission(diagnostics)
        machinery = assemble(settings, cache, store, diagnostics, orphans)
        self._pool = machinery.pool
        self._workshop = Workshop(
            settings=settings,
            coordinator=coordinator,
            admission=self._admission,
            machinery=machinery,
            settler=Settler(coordinator, retry_delay_ms=settings.pacing.retry_delay_ms),
            tracing=tracing,
            diagnostics=diagnostics,
        )

    def stop(self, reason: str) -> None:
        """End admission and user work; resolve what is owned (WRK-089)."""
        self._admission.stop(reason)

    async def run(self) -> Delivery:
        """Until all slots are released and every process is certainly gone (WRK-091)."""
        workshop = self._workshop
        keeper = asyncio.create_task(
            keep_session(workshop.coordinator, self._session, self._admission, workshop.pacing)
        )
        keeper.add_done_callback(self._keeper_ended)
        try:
            async with asyncio.TaskGroup() as consumers:
                for number in range(workshop.settings.concurrency):
                    consumers.create_task(Consumer(workshop, self._session, number).run())
            await self._pool.close()
        except BaseException:
            await self._pool.abandon()
            raise
        finally:
            keeper.cancel()
        return self.delivery(finished=True)

    def _keeper_ended(self, task: asyncio.Task[None]) -> None:
        if not task.cancelled() and (error := task.exception()) is not None:
            self._admission.fail(f"the session is not extended any more: {error!r}")

    def abandon(self) -> Delivery:
        """Forced end: kill the processes and leave the rest to the coordinator's recovery (WRK-092)."""
        self._pool.discard_all()
        return self.delivery(finished=False)

    def delivery(self, *, finished: bool) -> Delivery:
        return Delivery(
            session_id=self._session.id,
            finished=finished,
            settled_attempts=self._admission.settled_attempts,
            lost_attempts=self._admission.lost_attempts,
            failure=self._admission.failure,
        )


async def run_worker(
    settings: WorkerSettings,
    *,
    diagnostics: Diagnostics,
    on_end: Callable[[Delivery], None],
    orphans: Orphans | None = None,
) -> Delivery:
    """Connect, work until a signal or a fatal answer, report the end.

    Raises InvalidSetting, ProgramError (cache or store) or CannotOpen before any work is taken. ``on_end`` gets the
    delivery also when the second signal forces the process to exit (WRK-092). With ``orphans`` nothing that a program
    started outlives it; that needs a process of the worker's own.
    """
    settings.version()
    settings.bootstrap_file()
    await asyncio.to_thread(remove_leftovers)
    store = open_store(settings.store)
    cache = PackageCache(settings.cache)
    coordinator = Coordinator(
        settings.server, request_timeout_ms=settings.pacing.request_timeout_ms, notice=diagnostics.say
    )
    tracing = from_environment("protocol3-worker", instance=settings.display_name)
    try:
        session = await open_session(coordinator, settings)
        worker = Worker(
            settings,
            coordinator=coordinator,
            cache=cache,
            store=store,
            session=session,
            diagnostics=diagnostics,
            tracing=tracing,
            orphans=orphans,
        )
        name = "" if settings.display_name is None else f" for {settings.display_name!r}"
        diagnostics.say(f"session {session.id} is open{name}; {settings.concurrency} consumers")
        _handle_signals(worker, diagnostics, on_end)
        delivery = await worker.run()
        on_end(delivery)
        return delivery
    finally:
        await coordinator.close()
        await tracing.close()
        await store.aclose()
        cache.close()


def _handle_signals(worker: Worker, diagnostics: Diagnostics, on_end: Callable[[Delivery], None]) -> None:
    signals = 0

    def received() -> None:
        nonlocal signals
        signals += 1
        if signals == 1:
            worker.stop("a signal asked for it; a second one exits at once")
            return
        on_end(worker.abandon())
        diagnostics.say("exits with unresolved work")
        diagnostics.close()
        os._exit(1)

    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, received)
