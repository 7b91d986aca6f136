"""Lease and permission arithmetic of one attempt (WRK-014…024): pure, all times in milliseconds of the monotonic clock.

Every remaining time of a reply counts from the moment its *request* was started, less the safety margin, so the local
deadline is always earlier than the service's own (WRK-016).
"""

from dataclasses import dataclass, replace
from typing import Final, Literal

from protocol3.contract import limits
from protocol3.contract.models.delivery import Authority
from protocol3.contract.vocabulary import RenewalIntent

StopKind = Literal["cancelled", "timed_out"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Stop:
    """Why user work ended for good, and the error kind that reports it (WRK-067)."""

    kind: StopKind
    reason: str


LEASE_ENDED: Final = Stop(kind="cancelled", reason="the lease ended")
EXECUTION_ENDED: Final = Stop(kind="timed_out", reason="the execution deadline passed")
CANCEL_REQUESTED: Final = Stop(kind="cancelled", reason="cancellation was requested")
INVALID_AUTHORITY: Final = Stop(kind="cancelled", reason="the coordinator sent an invalid authority")


@dataclass(frozen=True, slots=True, kw_only=True)
class LocalAuthority:
    """What the replies so far allow. Once ``stop`` is set it stays, whatever later replies say (WRK-018, DLV-204)."""

    sequence: int
    lease_deadline_ms: float
    execution_deadline_ms: float
    permitted: bool = False
    stop: Stop | None = None

    @property
    def work_deadline_ms(self) -> float:
        """User work ends here (WRK-018)."""
        return min(self.lease_deadline_ms, self.execution_deadline_ms)

    def stopped(self, stop: Stop) -> "LocalAuthority":
        """With ``stop``, unless an earlier one holds."""
        return self if self.stop is not None else replace(self, permitted=False, stop=stop)

    def at(self, now_ms: float) -> "LocalAuthority":
        """As it stands at ``now_ms``: reaching the deadline stops user work (``now >= deadline``)."""
        if self.stop is not None or now_ms < self.work_deadline_ms:
            return self
        timed_out = self.execution_deadline_ms <= self.lease_deadline_ms
        return self.stopped(EXECUTION_ENDED if timed_out else LEASE_ENDED)


def assigned(authority: Authority, started_ms: float, now_ms: float) -> LocalAuthority:
    """A new assignment: never with permission, stopped at once if its own authority says so (WRK-014)."""
    local = LocalAuthority(
        sequence=authority.renew_sequence,
        lease_deadline_ms=_deadline(started_ms, authority.remaining_ms),
        execution_deadline_ms=_deadline(started_ms, authority.execution_remaining_ms),
    )
    return _judged(local, authority).at(now_ms)


def renewed(local: LocalAuthority, authority: Authority, started_ms: float, now_ms: float) -> LocalAuthority:
    """After the reply to a renewal that was started at ``started_ms`` (WRK-017, WRK-019…022)."""
    if authority.renew_sequence < local.sequence:
        return _judged(local, authority).at(now_ms)  # too old for time and permission, never for a stop
    lease_deadline = _deadline(started_ms, authority.remaining_ms)
    permitted = authority.dispatch_allowed
    if authority.renew_sequence == local.sequence:  # may only shorten and withdraw
        lease_deadline = min(lease_deadline, local.lease_deadline_ms)
        permitted = permitted and local.permitted
    following = LocalAuthority(
        sequence=authority.renew_sequence,
        lease_deadline_ms=lease_deadline,
        execution_deadline_ms=min(local.execution_deadline_ms, _deadline(started_ms, authority.execution_remaining_ms)),
        permitted=permitted and local.stop is None,
        stop=local.stop,
    )
    return _judged(following, authority).at(now_ms)


def intent(local: LocalAuthority, permission_taken: bool) -> RenewalIntent:
    """What the next renewal asks for (WRK-024)."""
    return "keep_alive" if permission_taken or local.stop is not None else "dispatch"


def _deadline(started_ms: float, remaining_ms: int) -> float:
    return started_ms + remaining_ms - limits.SAFETY_MARGIN_MS


def _judged(local: LocalAuthority, authority: Authority) -> LocalAuthority:
    """The stops that hold whatever the age of the reply (WRK-021, WRK-022)."""
    if authority.dispatch_allowed and authority.renew_sequence == 0:
        return local.stopped(INVALID_AUTHORITY)
    if authority.cancel_requested:
        return local.stopped(CANCEL_REQUESTED)
    if authority.remaining_ms == 0:
        return local.stopped(LEASE_ENDED)
    return local
