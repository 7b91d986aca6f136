"""Protocol 3: every invocation in an event loop of its own (RUN-052, RUN-059, RUN-061, RUN-064)."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Callable
from contextvars import Context
from typing import TYPE_CHECKING, Any

from . import _tasks
from ._frames import FrameReader, FrameWriter
from ._invocation import Invocation, running
from ._observations import Meter
from ._registrations import REGISTRATIONS
from ._results import Results, report

if TYPE_CHECKING:
    from ._context import WorkflowContext

Handler = Callable[..., Any]


class Runner:
    """Runs invocations one after the other; loop-bound objects of one cannot be used in the next."""

    __slots__ = ("_limit", "_reader", "_writer")

    def __init__(self, reader: FrameReader, writer: FrameWriter, output_limit: int) -> None:
        self._reader = reader
        self._writer = writer
        self._limit = output_limit

    def run(self, handler: Handler, invocation: Invocation, results: Results) -> bytes:
        """The result frame. `CancelledError` and other non-`Exception` raises of the handler pass through (RUN-058)."""
        loop = asyncio.new_event_loop()
        try:
            return Context().run(loop.run_until_complete, self._main(handler, invocation, results))
        except BaseException:  # it ends the process; what it left running in this loop is cancelled all the same
            loop.run_until_complete(_leave_loop())
            raise
        finally:
            loop.close()

    async def _main(self, handler: Handler, invocation: Invocation, results: Results) -> bytes:
        running.set(invocation)
        bridge = REGISTRATIONS.bridge
        token = bridge.attach(invocation.carrier) if bridge else None
        try:
            if invocation.extension is None:
                frame = await _ordinary(handler, invocation, results)
            else:
                frame = await self._workflow(handler, invocation, results)
        finally:
            if bridge:
                bridge.detach(token)
        await _leave_loop()
        return frame

    async def _workflow(self, handler: Handler, invocation: Invocation, results: Results) -> bytes:
        meter = Meter() if invocation.observe else None
        try:
            context = self._context(invocation, meter)
            decision = await context._run(handler, invocation.event)
            frame = results.success(decision)
            if frame is None:
                raise ValueError(f"the decision does not fit a frame of {results.limit} bytes")
        except Exception as error:  # noqa: BLE001 - RUN-064; the process stays usable (RUN-065)
            report(error)
            frame = results.failure("runtime_error", "workflow_error", error)
        return results.observed(frame, meter.read() if meter else None)

    def _context(self, invocation: Invocation, meter: Meter | None) -> WorkflowContext:
        # Imported with the first activation: ordinary tasks of protocol 3 do without.
        from ._activation import accept
        from ._context import WorkflowContext
        from ._exchange import Exchange

        payload = accept(invocation)
        identity = {"v": 3, "event_id": invocation.event_id, "attempt_id": invocation.attempt_id}
        exchange = Exchange(self._reader, self._writer, self._limit, identity)
        context = WorkflowContext(payload, exchange.request)
        if meter is not None:
            context._observe(meter)
        return context


async def _ordinary(handler: Handler, invocation: Invocation, results: Results) -> bytes:
    """A task: whatever it returns is output and no decision (RUN-060)."""
    meter = Meter() if invocation.observe else None
    try:
        value, error = handler(invocation.event), None
        if inspect.isawaitable(value):
            value = await value
    except Exception as raised:  # noqa: BLE001 - RUN-056
        value, error = None, raised
    observations = meter.read() if meter else None
    frame = _tasks.returned(results, value) if error is None else _tasks.failed(results, error)
    return results.observed(frame, observations)


async def _leave_loop() -> None:
    """Cancel what the application left running and wait for it, its generators and its threads."""
    loop = asyncio.get_running_loop()
    others = asyncio.all_tasks() - {asyncio.current_task()}
    if others:
        for task in others:
            task.cancel()
        for outcome in await asyncio.gather(*others, return_exceptions=True):
            if isinstance(outcome, Exception):
                report(outcome)
    await loop.shutdown_asyncgens()
    await loop.shutdown_default_executor()
