"""What is owed to workflows: decisions, ends of children, wakes, drains; and deadlines of waits (chapter 17).

Every handler may be repeated at any time: its transition finds an obligation that was met gone (RCV-003).
"""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Mapping, Sequence
from typing import Final

from protocol3.contract.models.common import ApplicationError, ProgramRef
from protocol3.contract.models.decisions import Complete, Decision, Fail
from protocol3.contract.refusal import Refusal
from protocol3.contract.strict_json import encode
from protocol3.coordinator.background import due, obligations
from protocol3.coordinator.background.courtesy import give_way
from protocol3.coordinator.operations.acceptance import resolve
from protocol3.coordinator.services import Services
from protocol3.core.cancellation import cancel_task
from protocol3.core.records import Agenda, Obligation
from protocol3.core.verdict import Accepted, Fresh
from protocol3.core.workflow.cancel import decide_cancel
from protocol3.core.workflow.completion import WaitState, all_of, decide_child_ended, decide_wait
from protocol3.core.workflow.cutoff import decide_cutoff
from protocol3.core.workflow.decision import decide_application
from protocol3.core.workflow.drain import DrainItems, decide_drain
from protocol3.core.workflow.ending import service_error
from protocol3.core.workflow.judgement import Judged, judge, processing_trace, programs_to_resolve
from protocol3.store.loads import children, decisions, progress, tasks, workflows

#: Seconds that the programs of one decision may take to resolve before the whole application is tried again (RCV-030).
RESOLUTION_S: Final = 20.0


async def handle_decision(services: Services, held: Obligation) -> None:
    """An activation ended: apply what it decided, or fail the workflow (DEC-003, chapter 10)."""
    async with services.pool.acquire() as connection:
        ended = await decisions.ended_activation(connection, held.subject)
    if ended.workflow.state != "running" or ended.workflow.activation_id != held.subject:
        await handle_child_ended(services, held)  # nothing of it is looked at (6.3 step 1)
        return
    judged = await _judged(services, ended)
    await services.transitions.run(
        ("workflow", held.workflow_id),
        decisions.application(services.transitions.sql, held, judged),
        lambda state, fresh: decide_application(state, held, judged, fresh),
    )


async def _judged(services: Services, ended: decisions.EndedActivation) -> Judged | ApplicationError:
    """Steps 2 to 5. No lock is held, and none is needed: all that is read here is final (RCV-007)."""
    decision = judge(ended.task, ended.attempt, ended.settlement)
    if isinstance(decision, ApplicationError):
        return decision
    async with services.pool.acquire() as connection:
        registered = await children.registered(connection, ended.workflow.id, _command_keys(decision))
    programs = programs_to_resolve(decision, registered)
    descriptors = programs if isinstance(programs, ApplicationError) else await _resolved(services, programs)
    if isinstance(descriptors, ApplicationError):
        return descriptors
    return Judged(decision=decision, descriptors=descriptors, processing_trace=processing_trace(ended.settlement))


def _command_keys(decision: Decision) -> list[str]:
    if isinstance(decision, Complete | Fail):
        return []
    return [command.key for command in decision.checkpoint.commands]


async def _resolved(
    services: Services, programs: Collection[ProgramRef]
) -> Mapping[ProgramRef, bytes] | ApplicationError:
    """Descriptors of new children, compact, each program asked for once (DEC-021).

    A definite refusal of the first program that has one fails the workflow (DEC-045); anything else is transient.
    """
    descriptors: dict[ProgramRef, bytes] = {}
    if not programs:
        return descriptors  # a store that stalls is nothing to this decision
    async with services.obligations.aside(), asyncio.timeout(RESOLUTION_S):
        for program in programs:
            try:
                descriptors[program] = encode((await resolve(services, program)).to_json())
            except Refusal as refusal:
                if refusal.code == "unavailable":
                    raise
                message = f"commands: program {program.id} {program.version} is {_WORDS[refusal.code]}"
                return service_error("decision_invalid", message)
    return descriptors


_WORDS: Final = {"not_found": "not published", "invalid_input": "refused by the program store"}


async def handle_child_ended(services: Services, *held: Obligation) -> None:
    """Owned tasks or workflows of one workflow ended: a suspend may be over (CHD-030 to CHD-036)."""
    workflow_id = held[0].workflow_id
    await services.transitions.run(
        ("workflow", workflow_id),
        progress.child_ended(services.transitions.sql, workflow_id, held),
        lambda state, fresh: decide_child_ended(state, held, fresh),
    )


async def handle_wake(services: Services, held: Obligation) -> None:
    """An awaited event was accepted (EVT-011 step 7)."""
    await services.transitions.run(
        ("workflow", held.workflow_id),
        progress.wait(services.transitions.sql, held.workflow_id, held),
        lambda state, fresh: decide_wait(state, held, fresh),
    )


async def handle_wait_due(services: Services, entry: Agenda) -> None:
    """The deadline of a wait has come (TMR-013, TMR-014); ending the wait removes the entry."""
    await services.transitions.run(
        ("workflow", entry.ref),
        progress.wait(services.transitions.sql, entry.ref, None),
        lambda state, fresh: decide_wait(state, None, fresh),
    )


async def handle_waits_due(services: Services, entries: Sequence[Agenda]) -> bool:
    """The same for several waits in one transition; False if it did not stand: nothing happened then.

    Each is decided in a step of its own, and exchanges go on in between.
    """
    load = progress.waits(services.transitions.sql, [entry.ref for entry in entries])
    async with services.pool.acquire() as connection:
        return await services.transitions.run_in_steps(connection, load, _decide_waits) is not None


async def _decide_waits(states: Sequence[WaitState], fresh: Fresh) -> Accepted:
    ends = []
    for state in states:
        await give_way()
        ends.append(decide_wait(state, None, fresh))
    await give_way()  # before what cannot be parted: writing it all into one statement
    return all_of(ends)


async def handle_drain(services: Services, held: Obligation) -> None:
    """Ask everything owned to end, each item under its own guards, then look whether it has (DRN-003 to DRN-006)."""
    sql, run = services.transitions.sql, services.transitions.run
    scope = await services.scopes.named(held.scope_id)
    while True:
        items: DrainItems | None = await run(
            ("workflow", held.workflow_id),
            progress.drain(sql, held),
            lambda state, fresh: decide_drain(state, held, fresh),
        )
        if items is None:
            return
        for task_id in items.tasks:
            load = tasks.current(sql, held.scope_id, task_id)
            await run(("task", task_id), load, lambda loaded, fresh: cancel_task(*loaded, fresh))
        for child_id in items.workflows:
            await run(("workflow", child_id), workflows.cancelling(sql, scope, held.scope_id, child_id), decide_cancel)


async def give_up(services: Services, held: Obligation) -> None:
    """After a transient failure: a completion that is a day old fails its workflow (RCV-020 to RCV-023)."""
    await services.transitions.run(
        ("workflow", held.workflow_id),
        progress.cutoff(services.transitions.sql, held),
        lambda state, fresh: decide_cutoff(state, held, fresh),
    )


OBLIGATIONS: Final[Mapping[str, obligations.Handler]] = {
    "decision": handle_decision,
    "child": handle_child_ended,
    "wake": handle_wake,
    "drain": handle_drain,
}
AGENDA: Final[Mapping[str, due.Handler]] = {"wait": handle_wait_due}
AGENDA_TOGETHER: Final[Mapping[str, due.Together]] = {"wait": handle_waits_due}
