"""Owing something after a commit: the durable row and the hint to handle it at once."""

from __future__ import annotations

from typing import Final, Literal, TypeAlias

from protocol3.core.records import Obligation
from protocol3.core.verdict import Clock, Draft, Fresh, Guard, ObligationWake

Kind: TypeAlias = Literal["decision", "child", "wake", "drain"]

#: Kinds of which those that wait for one workflow are met together, so many at most. Their handlers take several.
TOGETHER: Final[frozenset[Kind]] = frozenset({"child"})
MOST_TOGETHER: Final = 64
#: Real time that the committing process keeps a new obligation to itself before others may take it over.
HANDOVER_MS = 2_000
#: Real time that a process which took over an obligation has before the next may (RCV-004). Who still works on one
#: renews the claim every second, so this is how long the obligations of a process that died are left alone.
CLAIM_MS = 5_000
#: Backoff after a transient failure: the first delay, doubled up to the last (RCV-030).
FIRST_RETRY_MS = 500
LAST_RETRY_MS = 30_000
#: A drain pass that found something unfinished looks again after this time (DRN-012).
DRAIN_PAUSE_MS = 1_000


def owe(
    draft: Draft, kind: Kind, *, workflow_id: str, subject: str, scope_id: int, clock: Clock, fresh: Fresh
) -> Obligation:
    """Record an obligation in the same atomic step as its cause (RCV-001)."""
    obligation = Obligation(
        id=fresh("obl"),
        scope_id=scope_id,
        kind=kind,
        workflow_id=workflow_id,
        subject=subject,
        created_at=clock.now,
        ready_real=clock.real + HANDOVER_MS,
        tries=0,
    )
    draft.write(obligation)
    draft.wake(ObligationWake(obligation=obligation))
    return obligation


def settle(draft: Draft, *met: Obligation) -> None:
    """These obligations are met: they disappear with this transition, exactly once (RCV-003)."""
    for obligation in met:
        draft.guard(Guard(kind="obligation", id=obligation.id, version=obligation.version))
        draft.done.append(obligation.id)


def meet_at_once(draft: Draft) -> None:
    """The step that would owe something does it: its one obligation never comes to be."""
    (obligation,) = (record for record in draft.records if isinstance(record, Obligation))
    draft.records.remove(obligation)
    draft.wakes.remove(ObligationWake(obligation=obligation))


def retry_delay(tries: int) -> int:
    """Real milliseconds until the next try after `tries` failed ones."""
    return min(FIRST_RETRY_MS << min(tries, 16), LAST_RETRY_MS)
