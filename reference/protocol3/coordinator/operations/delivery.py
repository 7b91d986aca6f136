"""Worker sessions, acquisitions, renewals, settlements, quiescence (chapter 07)."""

from __future__ import annotations

import asyncio
import logging
from typing import Final

from protocol3.contract.limits import WAIT_RESERVE_MS
from protocol3.contract.models.common import LeaseOwner
from protocol3.contract.models.delivery import (
    AcquireCommand,
    Authority,
    ExtendSession,
    OpenSession,
    RenewCommand,
    SettleCommand,
    SettleReply,
)
from protocol3.contract.refusal import Refusal
from protocol3.contract.strict_json import JsonValue
from protocol3.coordinator.background.survival import survived
from protocol3.coordinator.budget import computed, exchange_deadline
from protocol3.coordinator.observation import note
from protocol3.coordinator.services import Services
from protocol3.core import acquisition, renewal, sessions, settlement, task_views
from protocol3.core.acquisition import Admitted, Assigned
from protocol3.core.records import Session
from protocol3.core.verdict import Clock, Fresh, Replay, Verdict
from protocol3.core.workflow.settlement import Ending, SettlingActivation, ending_of, settle_activation
from protocol3.store.loads import decisions
from protocol3.store.loads import delivery as loads

_log: Final = logging.getLogger("protocol3.delivery")

#: How often a poll that may not wait looks for a task when others take those it saw.
LAST_LOOKS: Final = 2


async def open_session(services: Services, command: OpenSession) -> JsonValue:
    """A new worker session, beside any others of its queue (DLV-001..003, DLV-009)."""
    scope_id = await services.scopes.require(command.scope)
    session: Session = await services.transitions.run(
        ("open", object()),
        loads.clock(services.transitions.sql, scope_id),
        lambda clock, fresh: sessions.open_session(scope_id, command, clock, fresh),
    )
    note(worker_session_id=session.id)
    return task_views.session(command.scope, session).to_json()


async def extend_session(services: Services, command: ExtendSession) -> JsonValue:
    """The session with a new end (DLV-004..006). On a bound service a session of another scope is unknown (DLV-313)."""
    bound = None if services.fixed_scope is None else await services.scopes.require(services.fixed_scope)

    def decide(loaded: tuple[Session | None, Clock], _: Fresh) -> Verdict:
        session, clock = loaded
        if session is not None and bound not in (None, session.scope_id):
            session = None
        return sessions.extend_session(session, clock)

    load = loads.session(services.transitions.sql, command.worker_session_id)
    session: Session = await services.transitions.run(("session", command.worker_session_id), load, decide)
    return task_views.session(await services.scopes.named(session.scope_id), session).to_json()


async def acquire(services: Services, command: AcquireCommand) -> JsonValue | bytes:
    """An assignment, nothing, or the news that the assignment was lost (DLV-010..039).

    Identical polls at once: one claims, the other finds its sequence complete (DLV-020). Without a wait it is over at
    once (DLV-030).

    The dispatcher of its queue judges, serves and completes it together with others, and lets it wait. What it leaves
    (refusals, repetitions, a poll for whose task others were faster) takes a decision of its own. The last look is an
    atomic one: a task that is there is claimed.
    """
    scope_id = await services.scopes.find(command.scope)
    waits_until = _waits_until(command)
    last_looks = LAST_LOOKS
    while True:
        wait_s = services.dispatchers.patience(waits_until)
        reply: acquisition.PollReply | None = None
        if scope_id is not None:
            reply = await services.dispatchers.claim(scope_id, command, wait_s=wait_s)
        if reply is None:
            reply = await _judge(services, scope_id, command, wait=wait_s > 0, look=last_looks > 0)
            last_looks -= wait_s == 0
        if isinstance(reply, Assigned):
            return _assigned(command, reply)
        if not isinstance(reply, Admitted):
            return reply.to_json()


def _assigned(command: AcquireCommand, reply: Assigned) -> bytes:
    note(task_id=reply.task.id, attempt_id=reply.attempt.id, workflow_id=reply.task.workflow_id)
    return task_views.assigned(command.scope, reply)


def _waits_until(command: AcquireCommand) -> float:
    """Loop time at which the wait ends, in time for a decision within the exchange (DLV-036)."""
    ends = asyncio.get_running_loop().time() + command.wait_ms / 1000
    answered_by = exchange_deadline.get()
    return ends if answered_by is None else min(ends, answered_by - WAIT_RESERVE_MS / 1000)


async def _judge(
    services: Services, scope_id: int | None, command: AcquireCommand, *, wait: bool, look: bool
) -> acquisition.PollReply:
    """One decision about a poll: `wait` if it may wait for work, `look` if it may take what is there."""

    def decide(poll: acquisition.Poll, _: Fresh) -> Verdict:
        verdict = acquisition.judge(poll)
        if verdict is not None:
            return verdict
        return Replay(reply=Admitted()) if wait or (look and poll.work) else acquisition.complete_empty(poll)

    reply: acquisition.PollReply = await services.transitions.run(
        ("cursor", command.worker_session_id, command.consumer_id),
        loads.poll(services.transitions.sql, scope_id, command),
        decide,
    )
    return reply


async def renew(services: Services, command: RenewCommand) -> JsonValue:
    """The authority of the owner at this instant (DLV-050..068)."""
    scope_id = await services.scopes.find(command.owner.scope)
    authority: Authority = await services.transitions.run(
        ("task", command.owner.task_id),
        loads.renewing(services.transitions.sql, scope_id, command),
        lambda asked, _: renewal.renew(asked),
        recall=loads.recalled_renewal(scope_id, command),
    )
    return authority.to_json()


async def settle(services: Services, command: SettleCommand) -> JsonValue:
    """The receipt and the state of the task (DLV-070..091).

    With it goes what the report says to a workflow, unless programs have to be resolved: that comes after (DEC-003).
    """
    scope_id = await _scope_id(services, command.owner)
    encoded, ending = await computed(lambda: _prepared(command))
    key = ("task", command.owner.task_id)  # of no workflow: it may turn out that the report changes none
    reply: SettleReply
    if ending is not None and services.applies_at_once(command.owner.scope):
        reply = await services.transitions.run(
            key,
            decisions.settling(services.transitions.sql, scope_id, command, encoded, ending),
            lambda asked, fresh: _settled_at_once(asked, ending, fresh),
        )
    else:
        reply = await services.transitions.run(
            key, loads.settling(services.transitions.sql, scope_id, command, encoded), settlement.settle
        )
    return reply.to_json()


def _settled_at_once(asked: SettlingActivation, ending: Ending, fresh: Fresh) -> Verdict:
    """What fails here would be no fault of the report: it is accepted, and the decision owed (RCV-008, RCV-020)."""
    try:
        return settle_activation(asked, ending, fresh)
    except Exception as error:  # noqa: BLE001  # whatever it is, the obligation is met or given up
        survived(error, _log, "the decision of %s was not applied at once", asked.settling.command.owner.task_id)
        return settlement.settle(asked.settling, fresh)


def _prepared(command: SettleCommand) -> tuple[settlement.EncodedCommand, Ending | None]:
    encoded = settlement.EncodedCommand.of(command)
    return encoded, ending_of(command, encoded)


async def confirm_quiescence(services: Services, owner: LeaseOwner) -> JsonValue:
    """The state of the task (DLV-100..105)."""
    scope_id = await _scope_id(services, owner)
    state: str = await services.transitions.run(
        ("task", owner.task_id),
        loads.confirming(services.transitions.sql, scope_id, owner),
        settlement.confirm_quiescence,
    )
    return state


async def _scope_id(services: Services, owner: LeaseOwner) -> int:
    scope_id = await services.scopes.find(owner.scope)
    if scope_id is None:
        raise Refusal("not_found")
    return scope_id
