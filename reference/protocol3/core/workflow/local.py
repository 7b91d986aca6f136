"""Local results: the journal of an activation (chapter 11)."""

from __future__ import annotations

from dataclasses import dataclass, replace

from protocol3.contract.limits import LOCAL_LEDGER_BYTES, LOCAL_RECORDS
from protocol3.contract.models.workflows import LocalRecord, LocalResultCommand, LocalResultReceipt
from protocol3.contract.strict_json import encode
from protocol3.core.finalisation import changed
from protocol3.core.records import Activation, Local
from protocol3.core.verdict import Clock, Draft, Fresh, Rejected, Replay, Verdict
from protocol3.core.workflow.owner import Held, Named, authorised_until, identify, lost
from protocol3.core.workflow.states import seen


@dataclass(frozen=True, slots=True, kw_only=True)
class LocalState:
    """`stored` is the record that the activation already has under the command's key."""

    named: Named
    stored: Local | None
    clock: Clock


def decide_local(state: LocalState, command: LocalResultCommand, _: Fresh) -> Verdict:
    """Replies with a LocalResultReceipt; the order of the checks is LOC-004's.

    `stored` is of this activation alone (LOC-001). At once means one after the other (LOC-011).
    """
    held = identify(command.owner, state.named)
    if isinstance(held, Rejected):
        return held
    if state.stored is not None:
        return _replay(held, state.stored, command, state.clock)
    return lost(held, state.clock.now, dispatched=True) or _accept(held, command.record, state.clock)


def _replay(held: Held, stored: Local, command: LocalResultCommand, clock: Clock) -> Verdict:
    """Binding before liveness; the attempt that stored the record needs none (LOC-004 step 5, LOC-005)."""
    if stored.identity != command.record.identity():
        return Rejected(code="conflict")
    if stored.attempt_id != held.attempt.id:
        refused = lost(held, clock.now, dispatched=True)
        if refused is not None:
            return refused
    return Replay(reply=LocalResultReceipt(key=stored.key, already_accepted=True))


def _accept(held: Held, record: LocalRecord, clock: Clock) -> Verdict:
    text = encode(record.to_json())
    activation = replace(
        held.activation,
        local_count=held.activation.local_count + 1,
        local_bytes=held.activation.local_bytes + len(text),
    )
    if activation.local_count > LOCAL_RECORDS or ledger_bytes(activation) > LOCAL_LEDGER_BYTES:
        message = f"body.record: an activation keeps at most {LOCAL_RECORDS} records of {LOCAL_LEDGER_BYTES} bytes"
        return Rejected(code="invalid_input", message=message)
    draft = Draft()
    draft.guard(seen(held.workflow), changed(held.task))  # the workflow stays as it is (LOC-010)
    draft.write(
        held.task,
        activation,
        Local(
            activation_id=held.task.id,
            key=record.key,
            attempt_id=held.attempt.id,
            record=text,
            identity=record.identity(),
        ),
    )
    receipt = LocalResultReceipt(key=record.key, already_accepted=False)
    return draft.accepted(receipt, clock, valid_until=[authorised_until(held)])


def ledger_bytes(activation: Activation) -> int:
    """Compact size of the array of the activation's records: brackets, and commas between them (LIM-012)."""
    return activation.local_bytes + max(activation.local_count - 1, 0) + 2
