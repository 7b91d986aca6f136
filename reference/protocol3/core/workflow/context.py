"""Reading the context of an activation (part 20 section 4.2)."""

from __future__ import annotations

from dataclasses import dataclass

from protocol3.contract.fields import Fields
from protocol3.contract.models.common import LeaseOwner
from protocol3.contract.models.workflows import ActivationContext
from protocol3.contract.strict_json import decode
from protocol3.core import records as r
from protocol3.core.verdict import Clock, Fresh, Rejected, Replay, Verdict
from protocol3.core.workflow.owner import Held, Named, identify, lost


@dataclass(frozen=True, slots=True, kw_only=True)
class ContextState:
    """`records` are the accepted local records, ordered by key (ACT-021)."""

    named: Named
    frozen: r.ActivationContext | None
    records: tuple[bytes, ...]
    clock: Clock


def decide_context(state: ContextState, owner: LeaseOwner, _: Fresh) -> Verdict:
    """Replies with the context to the live owner, dispatched or not (ACT-024 to ACT-027); changes nothing."""
    held = identify(owner, state.named)
    if isinstance(held, Rejected):
        return held
    refused = lost(held, state.clock.now, dispatched=False)
    if refused is not None:
        return refused
    assert state.frozen is not None
    return Replay(reply=_context(held, state.frozen, state.records))


def _context(held: Held, frozen: r.ActivationContext, records: tuple[bytes, ...]) -> ActivationContext:
    raise NotImplementedError
