"""One invocation from its descriptor to a report: package, process, frames, and its end (WRK-032…065)."""

import asyncio
from contextlib import ExitStack
from dataclasses import dataclass

from protocol3.contract.models.common import Descriptor, TraceContext
from protocol3.contract.models.delivery import Report, ReportIdentity
from protocol3.contract.strict_json import JsonValue
from protocol3.programs.cache import PackageCache
from protocol3.programs.errors import ProgramError
from protocol3.programs.stores import ProgramStore
from protocol3.worker import reports
from protocol3.worker.clock import now_ms
from protocol3.worker.control import AttemptControl, Stopped
from protocol3.worker.diagnostics import Diagnostics
from protocol3.worker.failures import ExecutionFailed
from protocol3.worker.frames import INTERACTIVE_PROTOCOL, Invocation, Result, RuntimeFailed
from protocol3.worker.invocation import invoke
from protocol3.worker.orphans import Orphans
from protocol3.worker.pool import ProcessKey, ProcessPool
from protocol3.worker.preparation import Preparer
from protocol3.worker.process import Launcher, ProgramProcess
from protocol3.worker.reports import ProcessUse
from protocol3.worker.settings import ProgramSettings
from protocol3.worker.starts import Starts
from protocol3.worker.workflow_host import WorkflowHost


@dataclass(frozen=True, slots=True, kw_only=True)
class Machinery:
    """What all executions share. ``clean_up_ms`` bounds how long a report waits for the end of a process."""

    preparer: Preparer
    pool: ProcessPool
    starts: Starts
    frame_bytes: int
    clean_up_ms: int


def assemble(
    settings: ProgramSettings,
    cache: PackageCache,
    store: ProgramStore,
    diagnostics: Diagnostics,
    orphans: Orphans | None = None,
) -> Machinery:
    """The machinery for these settings. Raises InvalidSetting."""
    pacing = settings.pacing
    launcher = Launcher.of(settings, diagnostics, orphans)
    pool = ProcessPool(launcher, settings.concurrency, on_stuck=diagnostics.say)
    preparer = Preparer(cache, store, fetch_timeout_ms=pacing.fetch_timeout_ms, make_room=pool.retire_idle)
    return Machinery(
        preparer=preparer,
        pool=pool,
        starts=Starts(patience_s=pacing.startup_ms / 1000 / 2),
        frame_bytes=settings.frame_bytes,
        clean_up_ms=pacing.shutdown_ms,
    )


class Execution:
    """Runs user work at most once, under a control that can stop it."""

    def __init__(
        self,
        machinery: Machinery,
        *,
        event: dict[str, JsonValue],
        descriptor: Descriptor,
        host: WorkflowHost | None,
        trace: TraceContext | None = None,
    ) -> None:
        self._machinery = machinery
        self._event = event
        self._descriptor = descriptor
        self._host = host
        self._trace = trace
        self._identity = ReportIdentity.of(event, descriptor)
        self._key = ProcessKey(descriptor.digest, self._identity.tenant_id, self._identity.namespace)
        self._progress = reports.ADMISSION
        self._process: ProgramProcess | None = None
        self._ending: asyncio.Task[None] | None = None
        self._lingering: list[asyncio.Task[None]] = []

    @property
    def unfinished(self) -> "asyncio.Task[None] | None":
        """The clean-up that was not over when the report was made; None when local work is quiescent (WRK-070)."""
        return None if self._ending is None or self._ending.done() else self._ending

    async def report(self, control: AttemptControl) -> Report:
        """User work, then the end of a process that may not be used again (WRK-035, WRK-036).

        What fails carries the phase it had come to (WRK-054, WRK-056 … WRK-059, WRK-062).
        """
        try:
            with control.user_work():
                await control.take_permission()
                result, use = await self._run(control)
        except Stopped as stopped:
            kind = stopped.stop.kind if control.permission_taken else "cancelled"  # WRK-052
            failure = ExecutionFailed(kind, stopped.stop.reason)
        except (ExecutionFailed, ProgramError) as error:
            failure = ExecutionFailed(error.kind, error.message)
        else:
            await self._release_process(healthy=not isinstance(result.outcome, RuntimeFailed))
            return reports.completed(self._identity, result, use)
        cleanup = await self._release_process(healthy=False)
        return reports.failed(self._identity, failure, self._progress, cleanup=cleanup)

    def refused(self, failure: ExecutionFailed) -> Report:
        """The report of an execution that was never begun."""
        return reports.failed(self._identity, failure, self._progress)

    async def downloads_ended(self) -> None:
        """A download that nobody waits for any more still holds the slot (WRK-046)."""
        for task in self._lingering:
            await task

    async def _run(self, control: AttemptControl) -> tuple[Result, ProcessUse]:
        context = await self._host.context() if self._host is not None else None
        process = self._process = await self._warm_process() or await self._new_process()
        self._progress = reports.EXECUTION
        process.begin_invocation()
        started_ms = now_ms()
        result = await invoke(
            process,
            Invocation(protocol=process.protocol, event=self._event, activation=context, trace=self._trace),
            self._host,
            limit=self._machinery.frame_bytes,
            check=control.check,
        )
        elapsed_ms = int(now_ms() - started_ms)
        return result, ProcessUse(process_id=process.pid, reused=process.invocations > 1, elapsed_ms=elapsed_ms)

    async def _warm_process(self) -> ProgramProcess | None:
        """An idle process of the same package and scope, unless its package directory was touched (PKG-075)."""
        self._progress = reports.PREPARATION
        process = self._process = self._machinery.pool.take_idle(self._key)
        if process is None:
            return None
        if not process.pin.is_untouched():
            await self._release_process(healthy=False)
            return None
        try:
            self._require_protocol(process.protocol)
        except ExecutionFailed:
            await self._release_process(healthy=True)
            raise
        return process

    async def _new_process(self) -> ProgramProcess:
        """From the descriptor of the assignment, never from a label (WRK-013)."""
        pin = await self._machinery.preparer.prepare(self._descriptor, self._lingering)
        try:
            self._require_protocol(pin.manifest.protocol)
        except ExecutionFailed:
            pin.release()
            raise
        self._progress = reports.STARTUP
        with ExitStack() as kept:
            kept.callback(pin.release)
            async with self._machinery.starts.turn():
                warm = await self._warm_process()  # one may have become idle before the turn came
                if warm is not None:
                    return warm
                self._progress = reports.STARTUP
                kept.pop_all()  # the pool takes the pin over
                process = self._process = await self._machinery.pool.spawn(pin)
                await process.ready()
        return process

    def _require_protocol(self, protocol: int) -> None:
        """WRK-049, RUN-067: before anything is started or sent."""
        if self._host is not None and protocol != INTERACTIVE_PROTOCOL:
            raise ExecutionFailed("incompatible", f"a workflow needs a package of protocol {INTERACTIVE_PROTOCOL}")

    async def _release_process(self, *, healthy: bool) -> ExecutionFailed | None:
        """Back to the pool, or retired; the error of a retirement that is not finished in time (WRK-066)."""
        process, self._process = self._process, None
        if process is None:
            return None
        if healthy:
            self._machinery.pool.give_back(process, self._key)
            return None
        self._ending = self._machinery.pool.retire(process)
        await asyncio.wait([self._ending], timeout=self._machinery.clean_up_ms / 1000)
        if self._ending.done():
            return None
        return process.trouble or ExecutionFailed("timed_out", "the program has not ended yet")
