"""One attempt from its assignment to the moment its slot is free again."""

import asyncio
from dataclasses import dataclass

from protocol3.contract.models.common import TraceContext
from protocol3.contract.models.delivery import Assignment, FailedReport, ProgramError, Report
from protocol3.contract.strict_json import JsonValue
from protocol3.telemetry.tracing import Span, Tracing, current_span
from protocol3.worker.admission import Admission
from protocol3.worker.authority import assigned
from protocol3.worker.clock import now_ms
from protocol3.worker.control import AttemptControl
from protocol3.worker.diagnostics import Diagnostics
from protocol3.worker.execution import Execution, Machinery
from protocol3.worker.failures import ExecutionFailed
from protocol3.worker.renewals import Renewals
from protocol3.worker.settings import Pacing, WorkerSettings
from protocol3.worker.settlement import Resolution, Settler, Unresolved, freeze
from protocol3.worker.transport import Coordinator
from protocol3.worker.workflow_host import WorkflowHost


@dataclass(frozen=True, slots=True, kw_only=True)
class Workshop:
    """What all attempts of a worker share."""

    settings: WorkerSettings
    coordinator: Coordinator
    admission: Admission
    machinery: Machinery
    settler: Settler
    tracing: Tracing
    diagnostics: Diagnostics

    @property
    def pacing(self) -> Pacing:
        return self.settings.pacing


class Attempt:
    """Runs user work at most once, under its lease, and reports exactly one outcome."""

    def __init__(self, workshop: Workshop, assignment: Assignment, acquire_started_ms: float) -> None:
        self._workshop = workshop
        self._assignment = assignment
        self._started_ms = acquire_started_ms
        self._span = self._begin()
        self._execution = Execution(
            workshop.machinery,
            event=assignment.event,
            descriptor=assignment.descriptor,
            host=self._workflow_host(),
            trace=self._span.carrier,
        )

    async def run(self) -> None:
        """Until the report is resolved and local work is quiescent (WRK-076)."""
        token = current_span.set(self._span)
        try:
            await self._run()
        finally:
            current_span.reset(token)

    async def _run(self) -> None:
        workshop, execution = self._workshop, self._execution
        control = AttemptControl(assigned(self._assignment.authority, self._started_ms, now_ms()))
        attempt_id = self._assignment.lease.owner.attempt_id
        if not workshop.admission.own(attempt_id, control):
            control.close()
            twice = ExecutionFailed("invalid_input", "this worker owns the attempt already")
            await self._settle(execution.refused(twice))
            return
        try:
            async with Renewals(workshop.coordinator, self._assignment, control, workshop.admission, workshop.pacing):
                await self._settle(await execution.report(control))
        finally:
            control.close()
            workshop.admission.disown(attempt_id)
        await execution.downloads_ended()

    async def _settle(self, report: Report) -> None:
        """WRK-069…075."""
        admission, settler, unfinished = self._workshop.admission, self._workshop.settler, self._execution.unfinished
        if unfinished is not None:
            admission.drain("a program could not be ended in time")
        settlement = freeze(
            self._assignment, report, "confirmed" if unfinished is None else "unconfirmed", self._span.carrier
        )
        try:
            resolution = await settler.settle(settlement)
            admission.count(resolution)
            self._end(report, resolution)
            self._tell(report)
            if unfinished is not None:
                await asyncio.shield(unfinished)
                if resolution == "accepted":
                    await settler.confirm(self._assignment)
        except Unresolved as unresolved:
            admission.fail(str(unresolved))
            await asyncio.get_running_loop().create_future()  # the report stays pending and holds its slot (WRK-075)

    def _begin(self) -> Span:
        """The processing span, whose context is captured once: for the program, forks and the settlement (WRK-069)."""
        owner, event = self._assignment.lease.owner, self._assignment.event
        return self._workshop.tracing.span(
            "process attempt",
            "consumer",
            parent=TraceContext.of_event(event),
            attributes={
                "protocol3.task_id": owner.task_id,
                "protocol3.attempt_id": owner.attempt_id,
                "protocol3.attempt_number": owner.generation,
                "protocol3.workflow_id": _text(event.get("ldgworkflowid")),
            },
        )

    def _end(self, report: Report, resolution: Resolution) -> None:
        """The span's error is a kind of the contract; whether the report was accepted is an attribute."""
        match report:
            case FailedReport():
                error: str | None = report.error.kind
            case _:
                error = "application" if isinstance(report.outcome, ProgramError) else None
        self._span.end(error=error, attributes={"protocol3.resolution": resolution})

    def _tell(self, report: Report) -> None:
        """Whose the traceback above is. Kind and phase alone: texts of a program may hold application data."""
        match report:
            case FailedReport():
                how = f"failed as {report.error.kind} in {report.phase}"
            case _ if isinstance(report.outcome, ProgramError):
                how = "ended with an error of the application"
            case _:
                return
        owner = self._assignment.lease.owner
        self._workshop.diagnostics.say(f"attempt {owner.generation} of task {owner.task_id} {how}")

    def _workflow_host(self) -> WorkflowHost | None:
        """Only activations have one; an ordinary task reads no context (WRK-078)."""
        if self._assignment.workflow_activation_id is None:
            return None
        return WorkflowHost(
            self._workshop.coordinator,
            self._assignment,
            span=self._span,
            retry_delay_ms=self._workshop.pacing.retry_delay_ms,
        )


def _text(value: JsonValue) -> str | None:
    return value if isinstance(value, str) else None
