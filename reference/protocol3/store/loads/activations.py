"""Activations as their owners address them: by the task and attempt of a lease."""

from __future__ import annotations

import asyncpg

from protocol3.contract.models.common import LeaseOwner
from protocol3.contract.models.workflows import ForkCommand, LocalResultCommand
from protocol3.core.records import Activation, ActivationContext, Attempt, Fork, Local, Task, Workflow, WorkflowBody
from protocol3.core.workflow.context import ContextState
from protocol3.core.workflow.fork import ForkState
from protocol3.core.workflow.local import LocalState
from protocol3.core.workflow.owner import Named
from protocol3.store.clock import Sql, clock_of
from protocol3.store.connections import Reads
from protocol3.store.remembered import Memory, Recall
from protocol3.store.tables import record_of
from protocol3.store.transition import Load

_NAMED = """
select {{now(w.scope_id)}} as now, v, w, t, a, {more} from (select) one
left join activation v on v.task_id = $1
left join workflow w on w.id = v.workflow_id
left join task t on t.id = v.task_id
left join attempt a on a.id = $2 and a.task_id = v.task_id
"""
_CONTEXT = (
    _NAMED.format(more="c, array(select l.record from local l where l.activation_id = $1 order by l.key) as records")
    + "left join activation_context c on c.task_id = v.task_id"
)
_LOCAL = _NAMED.format(more="l") + "left join local l on l.activation_id = v.task_id and l.key = $3"
_FORK = (
    _NAMED.format(
        more="""b, f,
  array(select c.key from child c where c.workflow_id = w.id and c.key = any($4)) as taken,
  (select count(*) from workflow x where x.parent_id = w.id and x.terminal_at is null) as live"""
    )
    + """
left join workflow_body b on b.workflow_id = w.id
left join fork f on f.workflow_id = w.id and f.key = $3
"""
)


def context(sql: Sql, scope_id: int | None, owner: LeaseOwner) -> Load[ContextState]:
    """The frozen context of an activation and the records it has by now, in byte order of their keys."""

    async def load(reads: Reads) -> ContextState:
        row = await reads.fetchrow(sql(_CONTEXT), owner.task_id, owner.attempt_id)
        assert row is not None
        return ContextState(
            named=_named(row, scope_id),
            frozen=record_of(ActivationContext, row["c"]),
            records=tuple(row["records"]),
            clock=clock_of(row),
        )

    return load


def local(sql: Sql, scope_id: int | None, command: LocalResultCommand) -> Load[LocalState]:
    """An activation with the record it has under the command's key."""
    owner, key = command.owner, command.record.key

    async def load(reads: Reads) -> LocalState:
        row = await reads.fetchrow(sql(_LOCAL), owner.task_id, owner.attempt_id, key)
        assert row is not None
        return LocalState(named=_named(row, scope_id), stored=record_of(Local, row["l"]), clock=clock_of(row))

    return load


def recalled_local(scope_id: int | None, command: LocalResultCommand) -> Recall[LocalState]:
    """`local` from memory, for a key that has no record: the unique key tells if it has."""
    owner = command.owner

    def recall(memory: Memory) -> LocalState | None:
        leased = memory.leased(owner.task_id)
        if leased is None or leased.workflow is None or leased.attempt.id != owner.attempt_id:
            return None
        clock = memory.clock(leased.workflow.scope_id)
        if clock is None:
            return None
        named = Named(
            scope_id=scope_id,
            activation=leased.activation,
            workflow=leased.workflow,
            task=leased.task,
            attempt=leased.attempt,
        )
        return LocalState(named=named, stored=None, clock=clock)

    return recall


def fork(sql: Sql, scope_id: int | None, command: ForkCommand) -> Load[ForkState]:
    """An activation with the fork under the command's key and what its branches would meet."""
    owner, request = command.owner, command.fork
    branches = [branch.key for branch in request.branches]

    async def load(reads: Reads) -> ForkState:
        row = await reads.fetchrow(sql(_FORK), owner.task_id, owner.attempt_id, request.key, branches)
        assert row is not None
        return ForkState(
            named=_named(row, scope_id),
            body=record_of(WorkflowBody, row["b"]),
            stored=record_of(Fork, row["f"]),
            taken=frozenset(row["taken"]),
            live_workflows=row["live"],
            clock=clock_of(row),
        )

    return load


def _named(row: asyncpg.Record, scope_id: int | None) -> Named:
    return Named(
        scope_id=scope_id,
        activation=record_of(Activation, row["v"]),
        workflow=record_of(Workflow, row["w"]),
        task=record_of(Task, row["t"]),
        attempt=record_of(Attempt, row["a"]),
    )
