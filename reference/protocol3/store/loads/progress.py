"""What lets a workflow go on or end: children that ended, waits, drains, completions that cannot be applied."""

from __future__ import annotations

from protocol3.core import records as r
from protocol3.core.workflow.completion import ChildState, WaitState
from protocol3.core.workflow.cutoff import CutoffState
from protocol3.core.workflow.drain import PASS_ITEMS, DrainItems, DrainState
from protocol3.store.clock import Sql, clock_of
from protocol3.store.loads.children import ENDED, LINKED, owned, results
from protocol3.store.loads.decisions import buffered
from protocol3.store.tables import record_of
from protocol3.store.transition import Connection, Load

_CHILD_ENDED = f"""
select {{now(w.scope_id)}} as now, w, o, d, cp, k.children, k.ends from workflow w
left join obligation o on o.id = $2
left join obligation d on d.workflow_id = w.id and d.kind = 'drain'
left join checkpoint cp on cp.workflow_id = w.id and w.state = 'waiting' and w.wait_key is null
left join lateral (
  select array_agg(c order by array_position(cp.until, c.key)) as children,
    array_agg({ENDED} order by array_position(cp.until, c.key)) as ends
  from {LINKED} where c.workflow_id = w.id and c.key = any(cp.until)) k on true
where w.id = $1
"""
_BODY = "select b from workflow_body b where b.workflow_id = $1"
_WAIT = """
select {now(w.scope_id)} as now, w, o, b, cp, x, i, ib from workflow w
join workflow_body b on b.workflow_id = w.id
left join obligation o on o.id = $2
left join wait x on x.workflow_id = w.id and x.key = w.wait_key
left join checkpoint cp on cp.workflow_id = x.workflow_id
left join inbox i on i.workflow_id = w.id and i.key = x.key
left join inbox_body ib on ib.workflow_id = w.id and ib.key = x.key
where w.id = $1
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


def child_ended(sql: Sql, held: r.Obligation) -> Load[ChildState]:
    """The workflow and the members of its suspend; their results and its body once all of them ended (RCV-006)."""

    async def load(connection: Connection) -> ChildState:
        row = await connection.fetchrow(sql(_CHILD_ENDED), held.workflow_id, held.id)
        assert row is not None
        awaited = owned(row["children"], row["ends"])
        over = bool(awaited) and all(member.terminal_at is not None for member in awaited)
        return ChildState(
            obligation=record_of(r.Obligation, row["o"]),
            drain=record_of(r.Obligation, row["d"]),
            workflow=record_of(r.Workflow, row["w"]),
            body=record_of(r.WorkflowBody, await connection.fetchval(_BODY, held.workflow_id)) if over else None,
            checkpoint=record_of(r.Checkpoint, row["cp"]),
            awaited=awaited,
            results=await results(connection, held.workflow_id, awaited if over else ()),
            clock=clock_of(row),
        )

    return load


def wait(sql: Sql, workflow_id: str, held: r.Obligation | None) -> Load[WaitState]:
    """The open external wait of a workflow with the event of its key."""

    async def load(connection: Connection) -> WaitState:
        row = await connection.fetchrow(sql(_WAIT), workflow_id, None if held is None else held.id)
        assert row is not None
        return WaitState(
            obligation=record_of(r.Obligation, row["o"]),
            workflow=record_of(r.Workflow, row["w"]),
            body=record_of(r.WorkflowBody, row["b"]),
            checkpoint=record_of(r.Checkpoint, row["cp"]),
            wait=record_of(r.Wait, row["x"]),
            event=buffered(row),
            clock=clock_of(row),
        )

    return load


def drain(sql: Sql, held: r.Obligation) -> Load[DrainState]:
    """The workflow, what it owns that was not asked to end yet, and how much has not ended."""

    async def load(connection: Connection) -> DrainState:
        row = await connection.fetchrow(sql(_DRAIN), held.workflow_id, held.id)
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

    async def load(connection: Connection) -> CutoffState:
        row = await connection.fetchrow(sql(_CUTOFF), held.workflow_id, held.id)
        assert row is not None
        return CutoffState(
            obligation=record_of(r.Obligation, row["o"]),
            workflow=record_of(r.Workflow, row["w"]),
            clock=clock_of(row),
        )

    return load
