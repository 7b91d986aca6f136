"""Owned tasks and workflows: their links, when they ended, and how."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from protocol3.contract.limits import INPUTS_BYTES, OBSERVATIONS_BYTES
from protocol3.contract.models.common import Descriptor
from protocol3.contract.strict_json import decode
from protocol3.core.records import Attempt, Child, Outcome, Settlement, Task, Workflow
from protocol3.core.workflow.inputs import OwnedChild, task_result
from protocol3.core.workflow.judgement import Registered
from protocol3.core.workflow.views import child_result
from protocol3.store.connections import Reads
from protocol3.store.tables import record_of, records_of

#: A report above this size holds more than any inputs may: what surrounds output and message is much smaller.
_TOO_LARGE = INPUTS_BYTES + OBSERVATIONS_BYTES + 65_536

#: From clause for the children `c` of a workflow; `ct` or `cw` is the task or workflow that one is.
LINKED = """child c
left join task ct on c.kind = 'task' and ct.id = c.child_id
left join workflow cw on c.kind = 'workflow' and cw.id = c.child_id"""
#: When such a child ended.
ENDED = "coalesce(ct.terminal_at, cw.terminal_at)"

_REGISTERED = """
select c.key, c.kind, coalesce(tb.descriptor, wb.descriptor) as descriptor from child c
left join task_body tb on c.kind = 'task' and tb.task_id = c.child_id
left join workflow_body wb on c.kind = 'workflow' and wb.workflow_id = c.child_id
where c.workflow_id = $1 and c.key = any($2)
"""
_RESULTS = f"""
select c.key, ct, a, case when r.size <= {_TOO_LARGE} then s end as s, r.size > {_TOO_LARGE} as too_large, cw, o
from {LINKED}
left join attempt a on a.id = ct.latest_attempt_id
left join settlement s on s.attempt_id = a.id and ct.state <> 'cancelled'
left join lateral (select octet_length(s.command) + coalesce(octet_length(s.output), 0) as size) r on true
left join outcome o on o.workflow_id = cw.id
where c.workflow_id = $1 and c.key = any($2)
"""


async def registered(reads: Reads, workflow_id: str, keys: Sequence[str]) -> Mapping[str, Registered]:
    """What these child keys are bound to; keys that are free are left out. A binding never changes."""
    rows = await reads.fetch(_REGISTERED, workflow_id, keys) if keys else ()
    return {
        row["key"]: Registered(kind=row["kind"], program=Descriptor.from_json(decode(row["descriptor"])).program)
        for row in rows
    }


async def results(reads: Reads, workflow_id: str, children: Iterable[OwnedChild]) -> Mapping[str, bytes | None]:
    """The encoded results of children that ended, None where one is too large to be delivered (CHD-056).

    What ended does not change any more, so this may be a statement after the one that found them ended.
    """
    keys = [owned.child.key for owned in children]
    rows = await reads.fetch(_RESULTS, workflow_id, keys) if keys else ()
    return {row["key"]: _result(row) for row in rows}


def _result(row: Any) -> bytes | None:
    if row["too_large"]:
        return None
    if row["ct"] is not None:
        attempt, settlement = record_of(Attempt, row["a"]), record_of(Settlement, row["s"])
        return task_result(record_of(Task, row["ct"]), attempt, settlement)
    return child_result(record_of(Workflow, row["cw"]), record_of(Outcome, row["o"]))


def owned(children: Any, ends: Any) -> tuple[OwnedChild, ...]:
    """Children from the two arrays that a load aggregates in one order."""
    pairs = zip(records_of(Child, children), ends or (), strict=True)
    return tuple(OwnedChild(child=child, terminal_at=end) for child, end in pairs)
