"""One consumer: a slot, a sequence of acquisitions, one attempt at a time (WRK-005…013, WRK-089, WRK-090)."""

import asyncio
import contextlib
from dataclasses import dataclass, replace
from typing import Final

from protocol3.contract.models.delivery import (
    AcquireAssigned,
    AcquireCommand,
    AcquireEmpty,
    AcquireOwnershipLost,
    AcquireReply,
    Assignment,
    WorkerSession,
    acquire_reply_from_json,
)
from protocol3.contract.refusal import Refusal
from protocol3.contract.strict_json import JsonValue, encode
from protocol3.worker.attempt import Attempt, Workshop
from protocol3.worker.clock import now_ms
from protocol3.worker.interruption import Interrupted
from protocol3.worker.transport import Refused, Uncertain

_PATH: Final = "/v1/acquisitions"


@dataclass(frozen=True, slots=True, kw_only=True)
class Acquired:
    """A valid reply and when its request was started."""

    reply: AcquireReply
    started_ms: float


class InvalidAssignment(Exception):
    """A reply that contradicts the command: fatal, and the same command keeps being reconciled (WRK-009)."""


class Consumer:
    """Consumer number ``number`` of the session (WRK-005).

    It is one of the N slots, taken before it asks: it holds one attempt or asks for one (WRK-006).
    """

    def __init__(self, workshop: Workshop, session: WorkerSession, number: int) -> None:
        self._workshop = workshop
        self._admission = workshop.admission
        self._pacing = workshop.pacing
        self._command = AcquireCommand(
            scope=session.scope,
            queue=session.queue,
            worker_session_id=session.id,
            consumer_id=number,
            sequence=0,
            wait_ms=workshop.settings.acquire_wait_ms,
        )

    async def run(self) -> None:
        """Until admission ends and everything that this slot began is resolved."""
        while self._admission.is_open:
            cycle_started_ms = now_ms()
            self._command = replace(self._command, sequence=self._command.sequence + 1)
            acquired = await self._acquire()
            if acquired is None:
                return
            match acquired.reply:
                case AcquireAssigned(assignment=assignment):
                    await Attempt(self._workshop, assignment, acquired.started_ms).run()
                case AcquireOwnershipLost():  # WRK-011
                    self._admission.count("ownership_lost")
                case AcquireEmpty():
                    remainder_ms = cycle_started_ms + self._pacing.idle_delay_ms - now_ms()
                    await self._pause(remainder_ms)

    async def _acquire(self) -> Acquired | None:
        """The outcome of the current sequence, reconciled for as long as it takes (WRK-007); None without one."""
        while True:
            started_ms = now_ms()
            try:
                reply = await self._ask()
                return Acquired(reply=reply, started_ms=started_ms)
            except Refused as refused:
                if refused.code != "busy":
                    self._refused(refused.code)
                    return None
            except InvalidAssignment as error:
                self._admission.fail(str(error))
            except Interrupted:
                continue
            except (Uncertain, Refusal):
                pass
            await asyncio.sleep(self._pacing.retry_delay_ms / 1000)

    async def _ask(self) -> AcquireReply:
        """One exchange: it waits only while admission is open, and is cut short when that ends (WRK-090)."""
        if not self._admission.is_open:
            command = replace(self._command, wait_ms=0)
            return read_reply(await self._post(command), command)
        with self._admission.waiting():
            reply = await self._post(self._command)
        return read_reply(reply, self._command)

    async def _post(self, command: AcquireCommand) -> JsonValue:
        return await self._workshop.coordinator.post(_PATH, encode(command.to_json()))

    def _refused(self, code: str) -> None:
        """A definite refusal ends admission; nothing was acquired (WRK-012, WRK-097)."""
        advice = "; start a new worker" if code in ("unknown_session", "session_expired") else ""
        self._admission.drain(f"the coordinator refused an acquisition: {code}{advice}")

    async def _pause(self, delay_ms: float) -> None:
        """Between an empty cycle and the next (WRK-008), cut short by the end of admission."""
        if delay_ms > 0 and self._admission.is_open:
            with contextlib.suppress(Interrupted), self._admission.waiting():
                await asyncio.sleep(delay_ms / 1000)


def read_reply(value: JsonValue, command: AcquireCommand) -> AcquireReply:
    """The reply to ``command``. Raises Refusal if it is none at all, :class:`InvalidAssignment` if it is wrong."""
    try:
        reply = acquire_reply_from_json(value, "reply")
    except Refusal as refusal:
        if isinstance(value, dict) and value.get("disposition") == "assigned":
            raise InvalidAssignment(f"an assignment is not valid: {refusal}") from None
        raise
    if reply.sequence != command.sequence:
        raise InvalidAssignment("the reply to an acquisition names another sequence")
    if isinstance(reply, AcquireAssigned):
        check_assignment(reply.assignment, command)
    return reply


def check_assignment(assignment: Assignment, command: AcquireCommand) -> None:
    """What WRK-010 asks (WRK-053) beyond the assignment's own consistency, which its model has checked."""
    owner = assignment.lease.owner
    held = (owner.scope, owner.worker_session_id, owner.consumer_id)
    if held != (command.scope, command.worker_session_id, command.consumer_id):
        raise InvalidAssignment("an assignment belongs to another consumer")
    if owner.generation < 1:
        raise InvalidAssignment("an assignment has generation 0")
