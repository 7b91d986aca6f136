"""The five stories of `spec/42-stories.md`, each in a scope of its own; alternatives follow one another."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from transcripts.form import Exchange
from transcripts.scripted import Stage, Worker

HOUR_MS: Final = 3_600_000
#: Longer than a lease.
PAST_LEASE_MS: Final = 61_000


def submit_to_settle(stage: Stage) -> None:
    workflow = stage.submit("greeting-1", {"name": "Ada"})
    Worker(stage).begin().decide("complete", output="Hello, Ada")
    stage.until_in(workflow, "succeeded")
    stage.result(workflow)


def lost_acknowledgement(stage: Stage) -> None:
    workflow = stage.submit("order-1", {"sku": "A1"})
    attempt = Worker(stage).begin()
    stage.rule({"method": "POST", "path": "/v1/workflows/local-results"}, "committed", "drop")
    record = {"key": "price", "callable": "program:price", "input": {"sku": "A1"}, "output": 12}
    for _ in range(2):
        attempt.post("/v1/workflows/local-results", {"owner": attempt.owner, "record": record})
    attempt.decide("complete", output={"price": 12})
    stage.until_in(workflow, "succeeded")
    stage.result(workflow)


def fork_and_crash(stage: Stage) -> None:
    """The first worker is heard of no more after its fork. The other branch stays in a queue that nobody serves."""
    workflow = stage.submit("numbers-1", {"values": [1, 2, 3]})
    queues = {"double": "workflows", "triple": "later"}
    branches = [
        {"key": f"{name}:0", "entrypoint": name, "queue": queue, "data": {"values": [1, 2, 3]}}
        for name, queue in queues.items()
    ]
    fork = {"key": "calculations:0", "branches": branches}
    first = Worker(stage, "first worker").begin()
    first.post("/v1/workflows/forks", {"owner": first.owner, "fork": fork})
    second = Worker(stage, "second worker")
    second.begin().decide("complete", output=12)
    stage.advance(PAST_LEASE_MS)
    again = second.begin()
    again.post("/v1/workflows/forks", {"owner": again.owner, "fork": fork})
    until = ["double:0", "triple:0"]
    again.decide("suspend", state={"sum": 6}, continuation="collect", commands=[], until=until)
    stage.until_in(workflow, "waiting")
    stage.status(workflow)


def event_against_deadline(stage: Stage) -> None:
    """The end of the wait is held, once after the event and past the deadline, once before the event."""
    worker: Worker | None = None
    for order, early in (("order-1", True), ("order-2", False)):
        workflow = stage.submit(order, {"order": order})
        worker = worker or Worker(stage)
        wait = {"kind": "event", "key": "payment", "timeout_ms": HOUR_MS}
        worker.begin().decide("wait", state=order, continuation="paid", commands=[], wait=wait)
        stage.until_in(workflow, "waiting")
        stage.rule({"step": "wait.fire"}, "received", "hold")
        if not early:
            stage.advance(HOUR_MS)
            stage.until_held()
        event: dict[str, Any] = {"specversion": "1.0", "id": f"payment-{order}", "source": "/till/4", "type": "paid"}
        event |= {"datacontenttype": "application/json", "data": {"amount": 12}}
        command = {"scope": stage.scope, "workflow_id": workflow, "key": "payment", "event": event}
        stage.post("client", "/v1/workflows/events", command)
        if early:
            stage.until_held()
            stage.advance(HOUR_MS)
        stage.release()
        attempt = worker.begin()
        attempt.decide("complete", output=attempt.context["wake"]["kind"])
        stage.until_in(workflow, "succeeded")
        stage.result(workflow)


def cancel_against_completion(stage: Stage) -> None:
    workflow = stage.submit("report-1", {"month": 1})
    worker = Worker(stage)
    attempt = worker.begin()
    stage.cancel(workflow)
    task = attempt.owner["task_id"]
    stage.until("/v1/tasks/status", lambda found: found["cancel_requested_at"] is not None, task_id=task)
    attempt.renew()
    attempt.stop()
    stage.until_in(workflow, "cancelled")
    stage.status(workflow)

    workflow = stage.submit("report-2", {"month": 2})
    attempt = worker.begin()
    stage.rule({"step": "decision.apply"}, "received", "hold")
    attempt.decide("complete", output="done")
    stage.until_held()
    stage.cancel(workflow)
    stage.release()
    stage.until_in(workflow, "cancelled")
    stage.status(workflow)

    workflow = stage.submit("report-3", {"month": 3})
    worker.begin().decide("complete", output="done")
    stage.until_in(workflow, "succeeded")
    stage.cancel(workflow)


#: By the names of their transcripts.
STORIES: Final[dict[str, Callable[[Stage], None]]] = {
    "submit-to-settle": submit_to_settle,
    "lost-acknowledgement": lost_acknowledgement,
    "fork-and-crash": fork_and_crash,
    "event-against-deadline": event_against_deadline,
    "cancel-against-completion": cancel_against_completion,
}


def played(name: str, target: str) -> list[Exchange]:
    """The exchanges of one story on the coordinator at `target` (host:port), as they were."""
    stage = Stage(target, name)
    STORIES[name](stage)
    return stage.exchanges
