"""What an activation that ended asks for, and what applying it touches."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from asyncpg import Record

from protocol3.contract.limits import INPUTS
from protocol3.contract.models.common import ApplicationError
from protocol3.contract.models.decisions import Complete, Continue, Decision, Fail, Suspend, Wait
from protocol3.contract.models.delivery import SettleCommand
from protocol3.core import records as r
from protocol3.core.settlement import EncodedCommand
from protocol3.core.workflow.decision import DecisionState
from protocol3.core.workflow.inputs import OwnedChild
from protocol3.core.workflow.judgement import Judged
from protocol3.core.workflow.settlement import Ending, SettlingActivation
from protocol3.core.workflow.waits import Buffered
from protocol3.store.clock import Sql, clock_of
from protocol3.store.connections import Reads
from protocol3.store.loads.children import ENDED, LINKED, owned, results
from protocol3.store.loads.delivery import SETTLING, settling_of
from protocol3.store.tables import record_of
from protocol3.store.transition import Load

_ENDED_ACTIVATION = """
select w, t, a, s from task t
join workflow w on w.id = t.workflow_id
left join attempt a on a.id = t.latest_attempt_id
left join settlement s on s.attempt_id = a.id
where t.id = $1
"""
#: What applying the decision of the activation `v` of the workflow `w` touches. Of the decision: $4 are the child keys
#: it names, $5 says if it goes on with what is pending, $6 is the key of its wait.
_TOUCHED = """w, b, v, u, i, ib, k.children, k.ends, p.pending, p.pending_ends,
  (select count(*) from task x
    where x.workflow_id = w.id and x.terminal_at is null and x.id <> v.task_id) as live_tasks,
  (select count(*) from workflow x where x.parent_id = w.id and x.terminal_at is null) as live_workflows,
  greatest(
    (select max(x.terminal_at) from task x where x.workflow_id = w.id),
    (select max(x.terminal_at) from workflow x where x.parent_id = w.id)) as owned_end"""
_BESIDE = f"""
left join workflow_body b on b.workflow_id = w.id
left join wait u on u.workflow_id = w.id and u.key = $6
left join inbox i on i.workflow_id = w.id and i.key = $6
left join inbox_body ib on ib.workflow_id = w.id and ib.key = $6
left join lateral (
  select array_agg(c) as children, array_agg({ENDED}) as ends
  from {LINKED} where c.workflow_id = w.id and c.key = any($4)) k on true
left join lateral (
  select array_agg(q.c order by q.ended, q.child_id) as pending,
    array_agg(q.ended order by q.ended, q.child_id) as pending_ends
  from (
    select c, c.child_id, {ENDED} as ended
    from {LINKED}
    where $5 and c.workflow_id = w.id and c.delivered_in is null and {ENDED} is not null
    order by ended, c.child_id limit {INPUTS}) q) p on true
"""
_STATE = f"""
select {{now(w.scope_id)}} as now, o, d, {_TOUCHED}
from activation v
join workflow w on w.id = v.workflow_id
left join obligation o on o.id = $2 and o.workflow_id = $3
left join obligation d on d.workflow_id = w.id and d.kind = 'drain'
{_BESIDE}
where v.task_id = $1
"""
_SETTLING = f"""
{SETTLING.format(more=f", {_TOUCHED}")}
left join activation v on v.task_id = t.id
left join workflow w on w.id = v.workflow_id
{_BESIDE}
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class EndedActivation:
    """An activation's task with its latest attempt and what that reported; the workflow as it was a moment ago."""

    workflow: r.Workflow
    task: r.Task
    attempt: r.Attempt | None
    settlement: r.Settlement | None


async def ended_activation(reads: Reads, task_id: str) -> EndedActivation:
    """The activation of an obligation of kind decision: terminal, so task, attempt and settlement are final."""
    row = await reads.fetchrow(_ENDED_ACTIVATION, task_id)
    assert row is not None
    return EndedActivation(
        workflow=record_of(r.Workflow, row["w"]),
        task=record_of(r.Task, row["t"]),
        attempt=record_of(r.Attempt, row["a"]),
        settlement=record_of(r.Settlement, row["s"]),
    )


def application(sql: Sql, held: r.Obligation, judged: Judged | ApplicationError) -> Load[DecisionState]:
    """Everything that this decision touches and nothing else; results only if it goes on with them at once."""
    decision = judged.decision if isinstance(judged, Judged) else None
    asked = _asked(decision)

    async def load(reads: Reads) -> DecisionState:
        row = await reads.fetchrow(sql(_STATE), held.subject, held.id, held.workflow_id, *asked)
        assert row is not None
        return await _state(reads, row, decision)

    return load


def settling(
    sql: Sql, scope_id: int, command: SettleCommand, encoded: EncodedCommand, ending: Ending
) -> Load[SettlingActivation]:
    """The attempt of an activation's settlement, and what applying its decision touches; all but results at once."""
    owner = command.owner
    decision = None if isinstance(ending.decision, ApplicationError) else ending.decision
    asked = _asked(decision)

    async def load(reads: Reads) -> SettlingActivation:
        row = await reads.fetchrow(sql(_SETTLING), owner.task_id, scope_id, owner.attempt_id, *asked)
        assert row is not None
        return SettlingActivation(
            settling=settling_of(row, command, encoded),
            state=None if row["v"] is None else await _state(reads, row, decision),
        )

    return load


async def _state(reads: Reads, row: Record, decision: Decision | None) -> DecisionState:
    """What a row with the columns `_TOUCHED` found, with the results that the decision goes on with."""
    workflow: r.Workflow = record_of(r.Workflow, row["w"])
    children = {child.child.key: child for child in owned(row["children"], row["ends"])}
    pending = owned(row["pending"], row["pending_ends"])
    return DecisionState(
        obligation=record_of(r.Obligation, row.get("o")),
        drain=record_of(r.Obligation, row.get("d")),
        workflow=workflow,
        body=record_of(r.WorkflowBody, row["b"]),
        activation=record_of(r.Activation, row["v"]),
        children=children,
        pending=pending,
        results=await results(reads, workflow.id, _delivered(decision, children, pending)),
        live_tasks=row["live_tasks"],
        live_workflows=row["live_workflows"],
        owned_end=row["owned_end"],
        used=record_of(r.Wait, row["u"]),
        event=buffered(row),
        clock=clock_of(row),
    )


def _asked(decision: Decision | None) -> tuple[list[str], bool, str | None]:
    """The parameters of `_BESIDE`."""
    return _named(decision), isinstance(decision, Continue), _wait_key(decision)


def buffered(row: Any) -> Buffered | None:
    """The event in the columns `i` and `ib` of a load."""
    if row["i"] is None:
        return None
    return Buffered(receipt=record_of(r.Inbox, row["i"]), body=record_of(r.InboxBody, row["ib"]))


def _named(decision: Decision | None) -> list[str]:
    """The child keys that a decision names, in its commands and its `until`."""
    match decision:
        case None | Complete() | Fail():
            return []
        case Suspend(until=until):
            return list({command.key for command in decision.checkpoint.commands} | set(until))
        case Continue() | Wait():
            return [command.key for command in decision.checkpoint.commands]


def _wait_key(decision: Decision | None) -> str | None:
    return decision.wait.key if isinstance(decision, Wait) else None


def _delivered(
    decision: Decision | None, children: dict[str, OwnedChild], pending: Sequence[OwnedChild]
) -> Sequence[OwnedChild]:
    """Whose results the decision goes on with: those pending for a continue, all members of a suspend that is over."""
    if not isinstance(decision, Suspend):
        return pending
    members = [children[key] for key in decision.until if key in children]
    over = len(members) == len(decision.until) and all(member.terminal_at is not None for member in members)
    return members if over else ()
