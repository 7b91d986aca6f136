"""Scripted clients and workers: the exchanges of a trivial workflow or task without any handler process."""

from __future__ import annotations

import asyncio
import itertools
from collections import Counter
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any, TypeAlias

from bench.own import Own

#: An activation's decision, given its context.
Decide: TypeAlias = Callable[[Any], Any]

POLL_MS = 20_000
#: Of the children that workflows wait for.
UNPOLLED = "unpolled"
TERMINAL = ("succeeded", "failed", "cancelled")
#: What a report echoes of the event, by the name that it has there.
ECHOED = {
    "source": "source",
    "event_id": "id",
    "tenant_id": "ldgtenantid",
    "namespace": "ldgnamespace",
    "run_id": "ldgrunid",
    "task_id": "ldgtaskid",
    "attempt_id": "ldgattemptid",
    "attempt_no": "ldgattemptno",
    "workflow_id": "ldgworkflowid",
    "activation_id": "ldgactivationid",
    "parent_workflow_id": "ldgparentworkflowid",
    "root_workflow_id": "ldgrootworkflowid",
    "traceparent": "traceparent",
    "tracestate": "tracestate",
}


class Scripted:
    """Counts in `sent` the exchanges of everybody that speaks through it, by path."""

    def __init__(self, own: Own, queue: str = "scripted") -> None:
        self.own, self.queue = own, queue
        self.sent: Counter[str] = Counter()
        self._keys = itertools.count()

    async def post(self, path: str, body: Any) -> Any:
        reply = await self.own.post(path, body)
        self.sent[path] += 1
        return reply

    # submitters

    async def submit(self, space: str, data: Any = None) -> str:
        """The id of a new workflow or task."""
        key = f"{self.queue}:{next(self._keys)}"
        snapshot = await self.own.submit(space, "hello", key, data, self.queue)
        self.sent[f"/v1/{space}"] += 1
        return str(snapshot["workflow_id" if space == "workflows" else "task_id"])

    async def ended(self, workflow_id: str) -> bool:
        status = await self.own.get("/v1/workflows/status", workflow_id=workflow_id)
        self.sent["/v1/workflows/status"] += 1
        return status["state"] in TERMINAL

    # workers

    @asynccontextmanager
    async def working(self, consumers: int, decide: Decide | None = None) -> AsyncIterator[None]:
        """So many consumers of one session, until the block is left; `decide` makes an activation's decision."""
        session = await self.open(consumers)
        lanes = [asyncio.create_task(self._consume(session, n, decide)) for n in range(consumers)]
        try:
            yield
        finally:
            for lane in lanes:
                lane.cancel()
            ended = await asyncio.gather(*lanes, return_exceptions=True)
        for end in ended:
            if isinstance(end, Exception):
                raise end

    async def open(self, consumers: int) -> str:
        """A session, alive for as long as a round takes."""
        command = {"scope": self.own.scope, "queue": self.queue, "concurrency": consumers}
        return str((await self.post("/v1/worker-sessions", command))["id"])

    async def poll(self, session: str, consumer: int, sequence: int, wait_ms: int = POLL_MS) -> Any:
        """The assignment, None for an empty poll."""
        command: dict[str, Any] = {"scope": self.own.scope, "queue": self.queue, "worker_session_id": session}
        command |= {"consumer_id": consumer, "sequence": sequence, "wait_ms": wait_ms}
        reply = await self.post("/v1/acquisitions", command)
        return reply.get("assignment")

    async def _consume(self, session: str, consumer: int, decide: Decide | None) -> None:
        for sequence in itertools.count(1):
            assignment = await self.poll(session, consumer, sequence)
            if assignment is not None:
                await self.perform(assignment, decide)

    async def perform(self, assignment: Any, decide: Decide | None = None) -> None:
        """One attempt as a worker does it: dispatch, for an activation its context and one local record, settlement."""
        owner, event = assignment["lease"]["owner"], assignment["event"]
        await self.post("/v1/renewals", {"owner": owner, "sequence": 1, "intent": "dispatch"})
        output: Any = {"ok": True}
        if "ldgactivationid" in event:
            context = await self.post("/v1/workflows/activations/context", owner)
            record = {"key": "step", "callable": "bench:step", "input": None, "output": {"ok": True}}
            await self.post("/v1/workflows/local-results", {"owner": owner, "record": record})
            decision = {"v": 1, "activation_id": owner["task_id"], "revision": context["revision"]}
            output = decision | (decide or complete)(context)
        await self.settle(assignment, output)

    async def settle(self, assignment: Any, output: Any) -> None:
        event, descriptor = assignment["event"], assignment["descriptor"]
        report = {name: event[attribute] for name, attribute in ECHOED.items() if attribute in event}
        report |= {"program": descriptor["program"], "digest": descriptor["digest"], "process_id": 1}
        report |= {"reused_process": True, "elapsed_ms": 1, "outcome": {"status": "success", "output": output}}
        command = {"owner": assignment["lease"]["owner"], "operation_id": "op", "quiescence": "confirmed"}
        await self.post("/v1/settlements", command | {"report": {"kind": "completed", "report": report}})


def complete(context: Any) -> Any:
    """The decision of a trivial workflow."""
    return {"kind": "complete", "output": {"ok": True}}


def waiting(kind: str, delay_ms: int | None = None) -> Decide:
    """Decisions of a workflow that waits once and then completes: for an `event` that never comes, for a `timer`, or in
    a `join` for its child, a task in a queue that nobody polls."""

    def decide(context: Any) -> Any:
        if context["revision"] > 0:
            return complete(context)
        return _WAITS[kind](delay_ms) | {"continuation": "woken", "state": None}

    return decide


def _wait(kind: str, **length: int | None) -> Any:
    return {"kind": "wait", "wait": {"kind": kind, "key": "wait"} | length, "commands": []}


_CHILD = {"key": "child", "program": {"id": "hello", "version": "1.0.0"}, "queue": UNPOLLED, "data": None}
_WAITS: dict[str, Callable[[int | None], Any]] = {
    "event": lambda _: _wait("event", timeout_ms=None),
    "timer": lambda delay_ms: _wait("timer", delay_ms=delay_ms),
    "join": lambda _: {"kind": "suspend", "commands": [_CHILD], "until": ["child"]},
}
