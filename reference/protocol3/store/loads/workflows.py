"""Workflows as clients address them: by key, by id, with an event."""

from __future__ import annotations

from protocol3.contract.models.common import Scope
from protocol3.contract.models.workflows import EventCommand
from protocol3.core.records import Inbox, Outcome, Submission, Wait, Workflow
from protocol3.core.workflow.cancel import CancelState
from protocol3.core.workflow.events import EventState
from protocol3.core.workflow.submission import SPACE, SubmissionState
from protocol3.store.clock import Sql, clock_of
from protocol3.store.connections import Reads
from protocol3.store.tables import record_of, records_of
from protocol3.store.transition import Load

_SUBMITTED = f"""
select {{now($1)}} as now, s, w from (select) one
left join submission s on s.scope_id = $1 and s.space = '{SPACE}' and s.key = $2
left join workflow w on w.id = s.subject_id
"""
_STATUS = "select w from workflow w where w.id = $1 and w.scope_id = $2"
_RESULT = """
select w, o from workflow w left join outcome o on o.workflow_id = w.id and w.terminal_at is not null
where w.id = $1 and w.scope_id = $2
"""
_CURRENT = """
select {now($2)} as now, w from (select) one left join workflow w on w.id = $1 and w.scope_id = $2
"""
_EVENT = """
select {now($2)} as now, w, x, array(
  select i from inbox i where i.workflow_id = $1 and (i.key = $3 or (i.source = $4 and i.event_id = $5))
) as receipts
from (select) one
left join workflow w on w.id = $1 and w.scope_id = $2
left join wait x on x.workflow_id = w.id and x.key = $3
"""


def submitted(sql: Sql, scope_id: int, key: str) -> Load[SubmissionState]:
    """What an idempotency key is bound to."""

    async def load(reads: Reads) -> SubmissionState:
        row = await reads.fetchrow(sql(_SUBMITTED), scope_id, key)
        assert row is not None
        return SubmissionState(
            scope_id=scope_id,
            submission=record_of(Submission, row["s"]),
            workflow=record_of(Workflow, row["w"]),
            clock=clock_of(row),
        )

    return load


async def status(reads: Reads, scope_id: int, workflow_id: str) -> Workflow | None:
    """The control record of a workflow in its scope."""
    row = await reads.fetchrow(_STATUS, workflow_id, scope_id)
    workflow: Workflow | None = None if row is None else record_of(Workflow, row["w"])
    return workflow


async def result(reads: Reads, scope_id: int, workflow_id: str) -> tuple[Workflow, Outcome | None] | None:
    """A workflow with its outcome once it is terminal, from one snapshot (WF-033)."""
    row = await reads.fetchrow(_RESULT, workflow_id, scope_id)
    return None if row is None else (record_of(Workflow, row["w"]), record_of(Outcome, row["o"]))


def cancelling(sql: Sql, scope: Scope, scope_id: int, workflow_id: str) -> Load[CancelState]:
    """A workflow of a scope, to be cancelled."""

    async def load(reads: Reads) -> CancelState:
        row = await reads.fetchrow(sql(_CURRENT), workflow_id, scope_id)
        assert row is not None
        return CancelState(scope=scope, workflow=record_of(Workflow, row["w"]), clock=clock_of(row))

    return load


def event(sql: Sql, scope_id: int, command: EventCommand) -> Load[EventState]:
    """The workflow of an event, the receipts that share its key or its source and id, the wait with its key."""

    async def load(reads: Reads) -> EventState:
        row = await reads.fetchrow(
            sql(_EVENT), command.workflow_id, scope_id, command.key, command.event_source, command.event_id
        )
        assert row is not None
        return EventState(
            workflow=record_of(Workflow, row["w"]),
            receipts=records_of(Inbox, row["receipts"]),
            wait=record_of(Wait, row["x"]),
            clock=clock_of(row),
        )

    return load
