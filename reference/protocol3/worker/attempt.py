"""One attempt from its assignment to the moment its slot is free again."""

import asyncio
from dataclasses import dataclass

from protocol3.contract.models.delivery import Assignment, Report
from protocol3.programs.errors import ProgramError
from protocol3.worker import reports
from protocol3.worker.admission import Admission
from protocol3.worker.authority import assigned
from protocol3.worker.clock import now_ms
from protocol3.worker.control import AttemptControl, Stopped
from protocol3.worker.failures import ExecutionFailed
from protocol3.worker.frames import INTERACTIVE_PROTOCOL, Invocation, Result, RuntimeFailed
from protocol3.worker.invocation import invoke
from protocol3.worker.pool import ProcessKey, ProcessPool
from protocol3.worker.preparation import Preparer
from protocol3.worker.process import ProgramProcess
from protocol3.worker.renewals import Renewals
from protocol3.worker.reports import ProcessUse
from protocol3.worker.settings import WorkerSettings
from protocol3.worker.settlement import Settler, Unresolved, freeze
from protocol3.worker.transport import Coordinator
from protocol3.worker.workflow_host import WorkflowHost


@dataclass(frozen=True, slots=True, kw_only=True)
class Workshop:
    """What all attempts of a worker share."""

    settings: WorkerSettings
    coordinator: Coordinator
    admission: Admission
    preparer: Preparer
    pool: ProcessPool
    settler: Settler


class Attempt:
    """Runs user work at most once, and reports exactly one outcome."""

    def __init__(self, workshop: Workshop, assignment: Assignment, acquire_started_ms: float) -> None:
        self._workshop = workshop
        self._assignment = assignment
        self._started_ms = acquire_started_ms
        self._progress = reports.ADMISSION
        self._process: ProgramProcess | None = None
        self._ending: asyncio.Task[None] | None = None
        self._lingering: list[asyncio.Task[None]] = []

    async def run(self) -> None:
        """Until the report is resolved and local work is quiescent (WRK-076)."""
        control = AttemptControl(assigned(self._assignment.authority, self._started_ms, now_ms()))
        attempt_id = self._assignment.lease.owner.attempt_id
        admission = self._workshop.admission
        if not admission.own(attempt_id, control):
            control.close()
            twice = ExecutionFailed("invalid_input", "this worker owns the attempt already")
            await self._settle(reports.failed(self._assignment, twice, self._progress))
            return
        pacing = self._workshop.settings.pacing
        try:
            async with Renewals(self._workshop.coordinator, self._assignment, control, admission, pacing):
                report = await self._work(control)
                await self._settle(report)
        finally:
            control.close()
            admission.disown(attempt_id)
        for task in self._lingering:
            await task  # a download that nobody waits for still holds the slot (WRK-046)

    async def _work(self, control: AttemptControl) -> Report:
        """User work, then the end of a process that may not be used again (WRK-035, WRK-036).

        What fails carries the phase it had come to (WRK-054, WRK-056 … WRK-059, WRK-062).
        """
        try:
            with control.user_work():
                await control.take_permission()
                result, use = await self._execute()
        except Stopped as stopped:
            kind = stopped.stop.kind if control.permission_taken else "cancelled"  # WRK-052
            failure = ExecutionFailed(kind, stopped.stop.reason)
        except (ExecutionFailed, ProgramError) as error:
            failure = ExecutionFailed(error.kind, error.message)
        else:
            await self._release_process(healthy=not isinstance(result.outcome, RuntimeFailed))
            return reports.completed(self._assignment, result, use)
        cleanup = await self._release_process(healthy=False)
        return reports.failed(self._assignment, failure, self._progress, cleanup=cleanup)

    async def _execute(self) -> tuple[Result, ProcessUse]:
        assignment, settings = self._assignment, self._workshop.settings
        host, context = None, None
        if assignment.workflow_activation_id is not None:
            host = WorkflowHost(self._workshop.coordinator, assignment, retry_delay_ms=settings.pacing.retry_delay_ms)
            context = await host.context()
        process = self._process = await self._warm_process() or await self._new_process()
        self._progress = reports.EXECUTION
        process.begin_invocation()
        started_ms = now_ms()
        invocation = Invocation(protocol=process.protocol, event=assignment.event, activation=context)
        result = await invoke(process, invocation, host, settings.frame_bytes)
        elapsed_ms = int(now_ms() - started_ms)
        return result, ProcessUse(process_id=process.pid, reused=process.invocations > 1, elapsed_ms=elapsed_ms)

    async def _warm_process(self) -> ProgramProcess | None:
        """An idle process of the same package and scope, unless its package directory was touched (PKG-075)."""
        self._progress = reports.PREPARATION
        process = self._workshop.pool.take_idle(self._key)
        if process is None:
            return None
        self._process = process
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
        pin = await self._workshop.preparer.prepare(self._assignment.descriptor, self._lingering)
        try:
            self._require_protocol(pin.manifest.protocol)
        except ExecutionFailed:
            pin.release()
            raise
        self._progress = reports.STARTUP
        process = self._process = await self._workshop.pool.spawn(pin)
        await process.ready()
        return process

    def _require_protocol(self, protocol: int) -> None:
        """WRK-049, RUN-067: before anything is started or sent."""
        if self._assignment.workflow_activation_id is not None and protocol != INTERACTIVE_PROTOCOL:
            raise ExecutionFailed("incompatible", f"a workflow needs a package of protocol {INTERACTIVE_PROTOCOL}")

    async def _release_process(self, *, healthy: bool) -> ExecutionFailed | None:
        """Back to the pool, or retired; the error of a retirement that is not finished in time (WRK-066)."""
        process, self._process = self._process, None
        if process is None:
            return None
        if healthy:
            self._workshop.pool.give_back(process, self._key)
            return None
        self._ending = self._workshop.pool.retire(process)
        await asyncio.wait([self._ending], timeout=self._workshop.settings.pacing.shutdown_ms / 1000)
        if self._ending.done():
            return None
        return process.trouble or ExecutionFailed("timed_out", "the program has not ended yet")

    async def _settle(self, report: Report) -> None:
        """WRK-069…075."""
        admission, settler = self._workshop.admission, self._workshop.settler
        unfinished = self._ending if self._ending is not None and not self._ending.done() else None
        if unfinished is not None:
            admission.drain("a program could not be ended in time")
        settlement = freeze(self._assignment, report, "confirmed" if unfinished is None else "unconfirmed")
        try:
            resolution = await settler.settle(settlement)
            admission.count(resolution)
            if unfinished is not None:
                await asyncio.shield(unfinished)
                if resolution == "accepted":
                    await settler.confirm(self._assignment)
        except Unresolved as unresolved:
            admission.fail(str(unresolved))
            await asyncio.get_running_loop().create_future()  # the report stays pending and holds its slot (WRK-075)

    @property
    def _key(self) -> ProcessKey:
        scope = self._assignment.lease.owner.scope
        return ProcessKey(self._assignment.descriptor.digest, scope.tenant_id, scope.namespace)
