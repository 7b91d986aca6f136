"""The ledger of `./dev chaos points`: whatever a service lost, invented or did twice is a fault in its account."""

import importlib
import sys
from collections.abc import Iterator
from copy import deepcopy
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

TOOLS = Path(__file__).parents[3] / "tools"
SCOPE = {"tenant_id": "t", "namespace": "n"}
RECEIPT = {"operation_id": "op", "task_id": "a", "attempt_id": "a1", "accepted_at": 5}
EVENT = {"key": "paid", "accepted_at": 4, "already_accepted": False}
SUBMITTED = {"workflow_id": "w", "submitted_at": 1}
REASONS = ["submitted", "claimed", "dispatch_authorized", "report_accepted", "succeeded"]
STATUS = {"state": "succeeded", "revision": 1}

#: What a faultless service says: an event, a workflow of one activation, and a task that was cancelled.
TRUTH: dict[str, Any] = {
    "/v1/workflows": SUBMITTED,
    "/v1/workflows/events": EVENT | {"already_accepted": True},
    "/v1/settlements": {"receipt": RECEIPT, "already_accepted": True, "task_state": "succeeded"},
    "/v1/tasks/cancel": "cancelled",
    "/v1/workflows/result": {"workflow": STATUS, "outcome": {"kind": "succeeded", "output": 1}},
    "/v1/workflows/status": STATUS,
    "/v1/tasks": {"items": [{"task_id": "a"}, {"task_id": "b"}], "next_cursor": None},
    "/v1/attempts/inspect": {"settlement": {"receipt": RECEIPT}},
    "history a": REASONS,
    "history b": ["submitted", "cancel_requested", "cancelled"],
    "status a": {"state": "succeeded", "attempt_count": 1},
    "status b": {"state": "cancelled", "attempt_count": 0},
}


@pytest.fixture(scope="module")
def ledger() -> Iterator[ModuleType]:
    sys.path.insert(0, str(TOOLS))
    yield importlib.import_module("chaos.ledger")
    sys.path.remove(str(TOOLS))


class Service:
    """Answers as it is told."""

    def __init__(self, answer: Any, says: dict[str, Any]) -> None:
        self._answer = answer
        self._says = says

    async def send(self, path: str, body: bytes) -> Any:
        return self._answer(status=200, document=self._says[path], sent=1)

    async def read(self, path: str, query: dict[str, str]) -> Any:
        kind = path.removeprefix("/v1/tasks/")
        found = self._says[f"{kind} {query['task_id']}" if kind in ("history", "status") else path]
        if kind == "history":
            found = [{"sequence": n, "event": {"reason": reason}} for n, reason in enumerate(found, 1)]
        return self._answer(status=200, document=found, sent=1)


def written(ledger: ModuleType) -> Any:
    """The ledger of the driver's side of the same."""
    lane = importlib.import_module("chaos.lane")
    book = ledger.Ledger()
    book.flows["w"] = ledger.Flow(decisions=1, outcome={"kind": "succeeded", "output": 1})
    for path, reply in {
        "/v1/workflows": SUBMITTED,
        "/v1/workflows/events": EVENT,
        "/v1/settlements": {"receipt": RECEIPT, "already_accepted": False, "task_state": "succeeded"},
        "/v1/tasks/cancel": "cancelled",
    }.items():
        book.acknowledge(path, b"{}", lane.Answer(status=200, document=reply, sent=1))
    book.add("a", "submitted")
    book.add("a", *REASONS[1:])
    book.add("b", "submitted", "cancel_requested", "cancelled")
    book.receipts["a", "a1"] = RECEIPT
    return book


async def faults(ledger: ModuleType, says: dict[str, Any]) -> list[str]:
    book, lane = written(ledger), importlib.import_module("chaos.lane")
    await ledger.account(Service(lane.Answer, says), SCOPE, book)
    return list(book.faults)


async def test_a_faultless_service(ledger: ModuleType) -> None:
    assert await faults(ledger, TRUTH) == []


@pytest.mark.parametrize(
    ("path", "change", "fault"),
    [
        ("/v1/workflows", lambda says: says.update(workflow_id="w2"), "/v1/workflows once more"),
        ("/v1/workflows/events", lambda says: says.update(accepted_at=9), "/v1/workflows/events once more"),
        ("/v1/workflows/events", lambda says: says.update(already_accepted=False), "/v1/workflows/events once more"),
        ("/v1/settlements", lambda says: says["receipt"].update(accepted_at=9), "/v1/settlements once more"),
        ("/v1/settlements", lambda says: says.update(already_accepted=False), "/v1/settlements once more"),
        ("/v1/workflows/status", lambda says: says.update(revision=2), "decisions: 2 instead of 1"),
        ("/v1/workflows/status", lambda says: says.update(state="running"), "state: 'running'"),
        ("/v1/workflows/result", lambda says: says["outcome"].update(output=2), "outcome"),
        ("/v1/tasks", lambda says: says["items"].pop(), "tasks of the scope"),
        ("/v1/tasks", lambda says: says["items"].append({"task_id": "c"}), "tasks of the scope"),
        (
            "/v1/attempts/inspect",
            lambda says: says["settlement"]["receipt"].update(accepted_at=9),
            "receipt of attempt",
        ),
        ("history a", lambda says: says.pop(), "task a: history"),
        ("history a", lambda says: says.append("succeeded"), "task a: history"),
        ("history b", lambda says: says.insert(1, "claimed"), "task b: history"),
        ("status a", lambda says: says.update(attempt_count=2), "task a: attempts"),
    ],
)
async def test_a_service_at_fault(ledger: ModuleType, path: str, change: Any, fault: str) -> None:
    """Lost, invented or done twice, each where it shows."""
    says = deepcopy(TRUTH)
    change(says[path])
    assert fault in "\n".join(await faults(ledger, says))


async def test_an_end_that_is_none(ledger: ModuleType) -> None:
    """A cancellation that was acknowledged finds an end when it is repeated."""
    assert "ends: False" in "\n".join(await faults(ledger, TRUTH | {"/v1/tasks/cancel": "queued"}))


def test_acceptance_before_the_command(ledger: ModuleType) -> None:
    """Sent once it cannot have been accepted before; sent again it can."""
    lane = importlib.import_module("chaos.lane")
    for sent, count in ((1, 1), (2, 0)):
        book = ledger.Ledger()
        reply = EVENT | {"already_accepted": True}
        book.acknowledge("/v1/workflows/events", b"{}", lane.Answer(status=200, document=reply, sent=sent))
        assert len(book.faults) == count
