"""What a scene's clients were told, kept apart from the service and compared with what it says in the end.

Every acknowledged command adds to the history that its task must have, to the decisions that its workflow must count,
and to the commands that are sent once more when all is over: whatever was applied must be found, once.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from chaos.lane import Answer, Lane

TERMINAL: Final = ("succeeded", "failed", "cancelled")


def _accepted_before(reply: Any) -> Any:
    return reply | {"already_accepted": True}


#: Of each route whose commands are sent once more: what the reply must be then, from the first reply (DLV-074, LOC-005,
#: FRK-013, EVT-012), or the part of it that stays (TASK-104, WF-013). The others answer with a state: a terminal one.
SAME: Final[Mapping[str, Callable[[Any], Any]]] = {
    "/v1/workflows/local-results": _accepted_before,
    "/v1/workflows/forks": _accepted_before,
    "/v1/workflows/events": _accepted_before,
    "/v1/settlements": lambda reply: (reply["receipt"], True),
    "/v1/tasks": lambda reply: (reply["task_id"], reply["run_id"], reply["submitted_at"]),
    "/v1/workflows": lambda reply: (reply["workflow_id"], reply["submitted_at"]),
}
#: How the reply to the repetition is looked at.
AGAIN: Final[Mapping[str, Callable[[Any], Any]]] = SAME | {
    "/v1/workflows/local-results": lambda reply: reply,
    "/v1/workflows/forks": lambda reply: reply,
    "/v1/workflows/events": lambda reply: reply,
    "/v1/settlements": lambda reply: (reply["receipt"], reply["already_accepted"]),
}
#: Their repetition finds an end and changes nothing (TASK-204, WF-062, DLV-101).
ENDS: Final = ("/v1/tasks/cancel", "/v1/workflows/cancel", "/v1/quiescence-confirmations")


@dataclass(slots=True)
class Flow:
    """A workflow: decisions that were acknowledged and count, and how it must end."""

    decisions: int = 0
    outcome: dict[str, Any] | None = None


@dataclass(slots=True)
class Ledger:
    """Of one scene. `history`: by task, the reasons that its history must have, in order."""

    history: dict[str, list[str]] = field(default_factory=dict)
    flows: dict[str, Flow] = field(default_factory=dict)
    acknowledged: list[tuple[str, bytes, Any]] = field(default_factory=list)
    receipts: dict[tuple[str, str], Any] = field(default_factory=dict)
    faults: list[str] = field(default_factory=list)

    def expect(self, what: str, found: Any, wanted: Any) -> None:
        if found != wanted:
            self.faults.append(f"{what}: {found!r} instead of {wanted!r}")

    def acknowledge(self, path: str, body: bytes, answer: Answer) -> None:
        """A command was answered with 200."""
        reply = answer.document
        if answer.sent == 1 and isinstance(reply, dict) and reply.get("already_accepted"):
            self.faults.append(f"{path}: accepted before it was sent")
        if path in SAME or path in ENDS:
            self.acknowledged.append((path, body, reply))

    def add(self, task_id: str, *reasons: str) -> None:
        """These things happened to a task, a new one with `submitted`."""
        if (task_id in self.history) == (reasons[0] == "submitted"):
            self.faults.append(f"task {task_id}: {reasons} after {self.history.get(task_id)}")
        self.history.setdefault(task_id, []).extend(reasons)


async def account(lane: Lane, scope: dict[str, str], ledger: Ledger) -> None:
    """Send every acknowledged command once more, then read everything back; adds to the ledger's faults."""
    for path, body, reply in ledger.acknowledged:
        answer = await lane.send(path, body)
        if answer.status != 200:
            ledger.faults.append(f"{path} once more: {answer.status} {answer.document}")
        elif path in ENDS:
            state = answer.document["state"] if isinstance(answer.document, dict) else answer.document
            ledger.expect(f"{path} once more ends", state in TERMINAL, True)
        else:
            ledger.expect(f"{path} once more", AGAIN[path](answer.document), SAME[path](reply))
    for workflow_id, flow in ledger.flows.items():
        await _check_workflow(lane, scope, ledger, workflow_id, flow)
    listed = await _listed(lane, scope)
    ledger.expect("tasks of the scope", sorted(listed), sorted(ledger.history))
    for task_id, reasons in ledger.history.items():
        await _check_task(lane, scope, ledger, task_id, reasons)
    for (task_id, attempt_id), receipt in ledger.receipts.items():
        shown = await lane.read("/v1/attempts/inspect", scope | {"task_id": task_id, "attempt_id": attempt_id})
        ledger.expect(f"receipt of attempt {attempt_id}", shown.document["settlement"]["receipt"], receipt)


async def _check_workflow(lane: Lane, scope: dict[str, str], ledger: Ledger, workflow_id: str, flow: Flow) -> None:
    result = (await lane.read("/v1/workflows/result", scope | {"workflow_id": workflow_id})).document
    status = (await lane.read("/v1/workflows/status", scope | {"workflow_id": workflow_id})).document
    what = f"workflow {workflow_id}"
    ledger.expect(f"{what}: outcome", result["outcome"], flow.outcome)
    ledger.expect(f"{what}: state", status["state"], None if flow.outcome is None else flow.outcome["kind"])
    ledger.expect(f"{what}: status and result", result["workflow"], status)
    ledger.expect(f"{what}: decisions", status["revision"], flow.decisions)


async def _check_task(lane: Lane, scope: dict[str, str], ledger: Ledger, task_id: str, reasons: list[str]) -> None:
    records = (await lane.read("/v1/tasks/history", scope | {"task_id": task_id})).document
    status = (await lane.read("/v1/tasks/status", scope | {"task_id": task_id})).document
    what = f"task {task_id}"
    ledger.expect(f"{what}: history", [record["event"]["reason"] for record in records], reasons)
    ledger.expect(f"{what}: sequence", [record["sequence"] for record in records], list(range(1, len(records) + 1)))
    ledger.expect(f"{what}: state", status["state"], reasons[-1])
    ledger.expect(f"{what}: attempts", status["attempt_count"], reasons.count("claimed"))


async def _listed(lane: Lane, scope: dict[str, str]) -> list[str]:
    """The ids of all tasks of the scope, page by page."""
    found: list[str] = []
    cursor: dict[str, str] = {}
    while True:
        page = (await lane.read("/v1/tasks", scope | {"limit": "100"} | cursor)).document
        found += [task["task_id"] for task in page["items"]]
        if page["next_cursor"] is None:
            return found
        cursor = {"cursor": page["next_cursor"]}
