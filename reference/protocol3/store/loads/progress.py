"""What lets a workflow go on or end: children that ended, waits, drains, completions that cannot be applied."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from protocol3.core import records as r
from protocol3.core.workflow.completion import ChildState, WaitState
from protocol3.core.workflow.cutoff import CutoffState
from protocol3.core.workflow.drain import PASS_ITEMS, DrainItems, DrainState
from protocol3.store.clock import Sql, clock_of
from protocol3.store.connections import Reads
from protocol3.store.loads.children import ENDED, LINKED, owned, results
from protocol3.store.loads.decisions import buffered
from protocol3.store.tables import record_of, records_of
from protocol3.store.transition import Load

_CHILD_ENDED = f"""
select {{now(w.scope_id)}} as now, w, d, k.live, case when not k.live then cp end as cp,
  array(select o from obligation o where o.id = any($2)) as obligations
from workflow w
left join obligation d on d.workflow_id = w.id and d.kind = 'drain'
left join checkpoint cp on cp.workflow_id = w.id and w.state = 'waiting' and w.wait_key is null
cross join lateral (
  select exists (
    select from {LINKED} where c.workflow_id = w.id and c.key = any(cp.until) and {ENDED} is null) as live) k
where w.id = $1
"""
_MEMBERS = f"""
select b, k.children, k.ends from workflow_body b
cross join lateral (
  select array_agg(c order by array_position($2, c.key)) as children,
    array_agg({ENDED} order by array_position($2, c.key)) as ends
  from {LINKED} where c.workflow_id = b.workflow_id and c.key = any($2)) k
where b.workflow_id = $1
"""
_WAITS = """
select {now(w.scope_id)} as now, w, o, b, cp, x, i, ib from workflow w
join workflow_body b on b.workflow_id = w.id
left join obligation o on o.id = $2
left join wait x on x.workflow_id = w.id and x.key = w.wait_key
left join checkpoint cp on cp.workflow_id = x.workflow_id
left join inbox i on i.workflow_id = w.id and i.key = x.key
left join inbox_body ib on ib.workflow_id = w.id and ib.key = x.key
where w.id = any($1)
"""
_DRAIN = f"""
select {{now(w.scope_id)}} as now, w, o,
  array(
    select x.id from task x where x.workflow_id = w.id and x.terminal_at is null and x.cancel_requested_at is null
    order by x.id limit {PASS_ITEMS}) as tasks,
  array(
    select x.id from workflow x where x.parent_id = w.id and x.terminal_at is null and x.state <> 'cancelling'
    order by x.id limit {PASS_ITEMS}) as workflows,
  (select count(*) from task x where x.workflow_id = w.id and x.terminal_at is null)
    + (select count(*) from workflow x where x.parent_id = w.id and x.terminal_at is null) as live,
  greatest(
    (select max(x.terminal_at) from task x where x.workflow_id = w.id),
    (select max(x.terminal_at) from workflow x where x.parent_id = w.id)) as owned_end
from workflow w left join obligation o on o.id = $2
where w.id = $1
"""
_CUTOFF = """
select {now(w.scope_id)} as now, w, o from workflow w left join obligation o on o.id = $2 where w.id = $1
"""


def child_ended(sql: Sql, workflow_id: str, held: Sequence[r.Obligation]) -> Load[ChildState]:
    """The workflow, and once all members of its suspend have ended, what it goes on with (RCV-006).

    What ended does not change any more, so that may come from later statements; until then no end costs more for
    there being many members.
    """

    async def load(reads: Reads) -> ChildState:
        row = await reads.fetchrow(sql(_CHILD_ENDED), workflow_id, [obligation.id for obligation in held])
        assert row is not None
        checkpoint: r.Checkpoint | None = record_of(r.Checkpoint, row["cp"])
        over = None if checkpoint is None else await reads.fetchrow(_MEMBERS, workflow_id, checkpoint.until)
        awaited = () if over is None else owned(over["children"], over["ends"])
        return ChildState(
            obligations=records_of(r.Obligation, row["obligations"]),
            drain=record_of(r.Obligation, row["d"]),
            workflow=record_of(r.Workflow, row["w"]),
            live=row["live"],
            body=None if over is None else record_of(r.WorkflowBody, over["b"]),
            checkpoint=checkpoint,
            awaited=awaited,
            results=await results(reads, workflow_id, awaited),
            clock=clock_of(row),
        )

    return load


def wait(sql: Sql, workflow_id: str, held: r.Obligation | None) -> Load[WaitState]:
    """The open external wait of a workflow with the event of its key."""

    async def load(reads: Reads) -> WaitState:
        row = await reads.fetchrow(sql(_WAITS), [workflow_id], None if held is None else held.id)
        assert row is not None
        return _wait(row)

    return load


def waits(sql: Sql, workflow_ids: Sequence[str]) -> Load[list[WaitState]]:
    """The same for several workflows."""

    async def load(reads: Reads) -> list[WaitState]:
        return [_wait(row) for row in await reads.fetch(sql(_WAITS), workflow_ids, None)]

    return load


def _wait(row: Any) -> WaitState:
    return WaitState(
        obligation=record_of(r.Obligation, row["o"]),
        workflow=record_of(r.Workflow, row["w"]),
        body=record_of(r.WorkflowBody, row["b"]),
        checkpoint=record_of(r.Checkpoint, row["cp"]),
        wait=record_of(r.Wait, row["x"]),
        event=buffered(row),
        clock=clock_of(row),
    )


def drain(sql: Sql, held: r.Obligation) -> Load[DrainState]:
    """The workflow, what it owns that was not asked to end yet, and how much has not ended."""

    async def load(reads: Reads) -> DrainState:
        row = await reads.fetchrow(sql(_DRAIN), held.workflow_id, held.id)
        assert row is not None
        tasks = tuple(row["tasks"])
        return DrainState(
            obligation=record_of(r.Obligation, row["o"]),
            workflow=record_of(r.Workflow, row["w"]),
            items=DrainItems(tasks=tasks, workflows=tuple(row["workflows"])[: PASS_ITEMS - len(tasks)]),
            live=row["live"],
            owned_end=row["owned_end"],
            clock=clock_of(row),
        )

    return load


def cutoff(sql: Sql, held: r.Obligation) -> Load[CutoffState]:
    """The workflow of an obligation that could not be met."""

    async def load(reads: Reads) -> CutoffState:
        row = await reads.fetchrow(sql(_CUTOFF), held.workflow_id, held.id)
        assert row is not None
        return CutoffState(
            obligation=record_of(r.Obligation, row["o"]),
            workflow=record_of(r.Workflow, row["w"]),
            clock=clock_of(row),
        )

    return load
