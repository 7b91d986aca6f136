"""The renewals of one attempt: at most one in flight, until the attempt is resolved (WRK-015, WRK-024…031)."""

import asyncio
from typing import Final

from protocol3.contract.models.delivery import Assignment, Authority, RenewCommand
from protocol3.contract.refusal import Refusal
from protocol3.contract.strict_json import encode
from protocol3.worker.admission import Admission
from protocol3.worker.authority import INVALID_AUTHORITY, Stop
from protocol3.worker.clock import now_ms
from protocol3.worker.control import AttemptControl
from protocol3.worker.settings import Pacing
from protocol3.worker.transport import Coordinator, Refused, Uncertain

_PATH: Final = "/v1/renewals"
_LOST: Final = Stop(kind="cancelled", reason="ownership was lost")
_UNCONFIRMED: Final = Stop(kind="cancelled", reason="the first dispatch renewal was not confirmed in time")
_MONITOR_ENDED: Final = Stop(kind="cancelled", reason="the lease is not monitored any more")
_REFUSED: Final = Stop(kind="cancelled", reason="the coordinator refused a renewal")


class Renewals:
    """Keeps the lease of one attempt alive: ``async with Renewals(...)``. Each renewal is a task, a timer between."""

    def __init__(
        self,
        coordinator: Coordinator,
        assignment: Assignment,
        control: AttemptControl,
        admission: Admission,
        pacing: Pacing,
    ) -> None:
        self._coordinator = coordinator
        self._owner = assignment.lease.owner
        self._sequence = assignment.authority.renew_sequence
        self._control = control
        self._admission = admission
        self._pacing = pacing

    async def __aenter__(self) -> None:
        loop = asyncio.get_running_loop()
        within_ms = self._pacing.dispatch_confirmation_ms
        self._confirm_by_ms = now_ms() + within_ms
        self._confirmation = loop.call_later(within_ms / 1000, self._control.stop_unless_permitted, _UNCONFIRMED)
        self._next: asyncio.TimerHandle | None = None
        self._left = False
        self._begin()

    async def __aexit__(self, *_: object) -> None:
        self._left = True
        self._confirmation.cancel()
        if self._next is not None:
            self._next.cancel()
        if not self._task.done():
            self._task.cancel()
            await asyncio.wait([self._task])

    def _begin(self) -> None:
        self._task = asyncio.get_running_loop().create_task(self._renew())
        self._task.add_done_callback(self._ended)

    async def _renew(self) -> bool:
        """One renewal, repeated identically until it is answered (WRK-025); False when it was the last."""
        self._sequence += 1
        command = RenewCommand(owner=self._owner, sequence=self._sequence, intent=self._control.intent)
        body = encode(command.to_json())
        while True:
            started_ms = now_ms()
            try:
                reply = await self._coordinator.post(_PATH, body)
                authority = Authority.from_json(reply, "authority")
            except Refused as refused:
                if refused.code != "busy":
                    self._refused(refused.code)
                    return False
            except (Uncertain, Refusal):  # a malformed reply is no answer either (DLV-207)
                pass
            else:
                return self._accepted(authority, started_ms)
            await asyncio.sleep(self._pacing.retry_delay_ms / 1000)

    def _accepted(self, authority: Authority, started_ms: float) -> bool:
        if authority.owner == self._owner and authority.renew_sequence == self._sequence:
            if now_ms() >= self._confirm_by_ms:  # the timer does not know that the machine slept
                self._control.stop_unless_permitted(_UNCONFIRMED)
            self._control.renewed(authority, started_ms)
            return True
        self._control.stop(INVALID_AUTHORITY)
        self._admission.fail("the reply to a renewal names another owner or sequence")
        return False

    def _refused(self, code: str) -> None:
        """WRK-026, WRK-027."""
        if code in ("ownership_lost", "not_found"):
            self._control.stop(_LOST)
        elif code in ("unknown_session", "session_expired"):
            self._control.stop(_LOST)
            self._admission.fail(f"the coordinator answered {code}; start a new worker")
        else:
            self._control.stop(_REFUSED)
            self._admission.fail(f"the coordinator refused a renewal: {code}")

    def _ended(self, task: asyncio.Task[bool]) -> None:
        """The next one is due, unless this was the last: without a monitor there is no user work (WRK-031)."""
        error = None if task.cancelled() else task.exception()
        if self._left:
            return
        if not task.cancelled() and error is None and task.result():
            after_s = self._pacing.renew_interval_ms / 1000
            self._next = asyncio.get_running_loop().call_later(after_s, self._begin)
            return
        self._control.stop(_MONITOR_ENDED)
        if error is not None:
            self._admission.fail(f"a lease monitor failed: {error!r}")
