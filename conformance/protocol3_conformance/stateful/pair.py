"""Two scopes at once, with the same keys and queues in both, and commands that name what belongs to the other one."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from protocol3_conformance.model.expected import refused
from protocol3_conformance.model.tasks import Attempt
from protocol3_conformance.stateful.goals import FLOWS, Goals
from protocol3_conformance.stateful.history import History, ref
from protocol3_conformance.stateful.machine import Operation, Operations, choose
from protocol3_conformance.stateful.workflows import WORDS as ONE_SCOPE
from protocol3_conformance.stateful.workflows import Flows

SIDES = ("one", "two")
EACH = {**ONE_SCOPE, "submit": 3, "foreign": 5}
WORDS = {f"{word} {side}": often for word, often in EACH.items() for side in SIDES}
"""A word and the side that it is said to."""


def both(operations: Operations) -> Operations:
    """Each operation on one side and then on the other."""
    return tuple((f"{word} {side}", *numbers) for word, *numbers in operations for side in SIDES)  # type: ignore[misc]  # a starred list has no length


NAMING = (
    *(("foreign", 0, 0, how) for how in range(3)),
    *(("foreign", 0, 1, how) for how in range(4)),
    *(("foreign", 0, what, 0) for what in (2, 3)),
)
"""Every command that can name what belongs to the other side."""
GOALS: Goals = {name: (*both(way), *both(NAMING)) for name, way in FLOWS.items()}
MEMBERS = ("task_id", "attempt_id", "lease_id", "generation", "worker_session_id", "consumer_id")


@dataclass(slots=True, kw_only=True)
class Pair:
    """`scopes` are templates."""

    history: History
    scopes: tuple[Any, Any]
    sides: dict[str, Flows] = field(init=False)

    def __post_init__(self) -> None:
        both = zip(SIDES, self.scopes, strict=True)
        self.sides = {side: Flows(history=self.history, scope=scope) for side, scope in both}
        one, two = self.sides.values()
        one.elsewhere, two.elsewhere = (lambda: names(two)), (lambda: names(one))

    async def do(self, operation: Operation) -> None:
        word, *numbers = operation
        told, _, side = word.partition(" ")
        if told == "foreign":
            await self.foreign(side, *numbers)
        else:
            await self.sides[side].do((told, numbers[0], numbers[1], numbers[2]))

    async def end(self) -> None:
        for side in self.sides.values():
            await side.end()

    async def foreign(self, side: str, number: int, what: int, how: int) -> None:
        """Name something of this side in the scope of the other, where it is unknown."""
        here = self.sides[side]
        (there,) = (other.scope for name, other in self.sides.items() if name != side)
        if what % 4 == 0 and (flow := choose(here.known(), number)):
            await self._workflow({"scope": there, "workflow_id": flow.name}, how)
        elif what % 4 == 1 and (task := choose(here.named(), number)):
            await self._task({"scope": there, "task_id": task.name}, how)
        elif what % 4 == 2 and (held := choose(here.held, number)):
            await self.history.post(
                "/v1/quiescence-confirmations", owner(held[0], there), refused("not_found", "DLV-342")
            )
        elif here.sessions:
            queue, session = next(iter(here.sessions.items()))
            poll = {"scope": there, "queue": here.queue(queue), "worker_session_id": session.name}
            body = {**poll, "consumer_id": 0, "sequence": session.cursors[0].sequence + 1}
            await self.history.post("/v1/acquisitions", body, refused("invalid_input", "DLV-011"))

    async def _workflow(self, command: Any, how: int) -> None:
        query = {**command["scope"], "workflow_id": command["workflow_id"]}
        if how % 3 == 0:
            await self.history.get("/v1/workflows/result", query, refused("not_found", "WF-042"))
        elif how % 3 == 1:
            await self.history.post("/v1/workflows/cancel", command, refused("not_found", "WF-063"))
        else:
            event = {"specversion": "1.0", "id": "event-0", "source": "urn:conformance:events", "type": "foreign"}
            sent = {**event, "datacontenttype": "application/json", "data": None}
            body = {**command, "key": "wait-0", "event": sent}
            await self.history.post("/v1/workflows/events", body, refused("not_found", "EVT-011"))

    async def _task(self, command: Any, how: int) -> None:
        query = {**command["scope"], "task_id": command["task_id"]}
        reads = ("/v1/tasks/status", "/v1/tasks/history", "/v1/tasks/result")
        if how % 4 == 3:
            await self.history.post("/v1/tasks/cancel", command, refused("not_found", "TASK-228", "TASK-050"))
        else:
            await self.history.get(reads[how % 4], query, refused("not_found", "TASK-121", "TASK-050"))


def owner(attempt: Attempt, scope: Any) -> Any:
    """The lease owner of an attempt under another scope."""
    number, *names = attempt.owner["$ref"]
    return {"scope": scope, **{member: ref(number, *names, member) for member in MEMBERS}}


def names(side: Flows) -> Iterable[Any]:
    """The ids of a side's tasks and workflows, those that are known."""
    return [*(task.name for task in side.named()), *(flow.name for flow in side.known())]
