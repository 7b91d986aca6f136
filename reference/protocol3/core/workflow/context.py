"""Reading the context of an activation (chapter 10, The context)."""

from __future__ import annotations

from dataclasses import dataclass

from protocol3.contract.models.common import LeaseOwner
from protocol3.contract.strict_json import encode
from protocol3.core.records import ActivationContext
from protocol3.core.verdict import Clock, Fresh, Rejected, Replay, Verdict
from protocol3.core.workflow.compact import compact_array, compact_object
from protocol3.core.workflow.owner import Held, Named, identify, lost


@dataclass(frozen=True, slots=True, kw_only=True)
class ContextState:
    """`records` are the accepted local records, ordered by key (ACT-021)."""

    named: Named
    frozen: ActivationContext | None
    records: tuple[bytes, ...]
    clock: Clock


def decide_context(state: ContextState, owner: LeaseOwner, _: Fresh) -> Verdict:
    """Replies with the encoded context to the live owner, dispatched or not (ACT-024 to ACT-027); changes nothing."""
    held = identify(owner, state.named)
    if isinstance(held, Rejected):
        return held
    refused = lost(held, state.clock.now, dispatched=False)
    if refused is not None:
        return refused
    assert state.frozen is not None
    return Replay(reply=_context(held, state.frozen, state.records))


def _context(held: Held, frozen: ActivationContext, records: tuple[bytes, ...]) -> bytes:
    """The ActivationContext, compact; `wake` and the lineage are left out where there is none (ACT-022, ACT-028).

    What is frozen was written with the activation: every attempt gets the same (TMR-021, CHD-058).
    """
    workflow = held.workflow
    members = {
        "v": encode(1),
        "workflow_id": encode(workflow.id),
        "activation_id": encode(held.task.id),
        "revision": encode(held.activation.revision),
        "continuation": encode(frozen.continuation),
        "state": frozen.state,
        "inputs": frozen.inputs,
        "local_steps": compact_array(records),
    }
    if frozen.wake is not None:
        members["wake"] = frozen.wake
    if workflow.parent_id is not None:
        members["parent_workflow_id"] = encode(workflow.parent_id)
        members["root_workflow_id"] = encode(workflow.root_id)
    return compact_object(members)
