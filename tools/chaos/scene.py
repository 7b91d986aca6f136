"""A scope of its own with scripted clients and workers, which write down in a ledger whatever was acknowledged."""

from __future__ import annotations

import asyncio
import itertools
import json
from collections.abc import Callable
from typing import Any

from chaos.lane import Lane
from chaos.ledger import TERMINAL, Flow, Ledger

PROGRAM = {"id": "hello", "version": "1.0.0"}
#: Its descriptor is spoilt: whoever asks for it is told to come again.
SPOILT = {"id": "spoilt", "version": "1.0.0"}
#: Longer than a lease.
PAST_LEASE_MS = 61_000
POLL_MS = 500
LOOK_S = 0.05
#: Looks after which whatever a dead process left is handed over at once, not after its real-time pause.
HURRY = 4

_ECHOED = {
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


class Unexpected(Exception):
    """An answer that a story cannot go on with."""


class Scene:
    """One story's scope."""

    def __init__(self, lane: Lane, namespace: str) -> None:
        self.lane = lane
        self.scope = {"tenant_id": "points", "namespace": namespace}
        self.ledger = Ledger()
        self._sessions: dict[str, str] = {}
        self._consumers = itertools.count()
        self._keys = itertools.count(1)

    async def post(self, path: str, body: Any) -> Any:
        """The reply of a 200; raises Unexpected for another definite answer."""
        content = json.dumps(body).encode()
        answer = await self.lane.send(path, content)
        self.lane.counts["commands"] += 1
        self.lane.counts["replays"] += answer.sent > 1
        if answer.status != 200:
            raise Unexpected(f"{path}: {answer.status} {answer.document}, sent {answer.sent} times")
        self.ledger.acknowledge(path, content, answer)
        return answer.document

    async def get(self, path: str, **query: str) -> Any:
        answer = await self.lane.read(path, self.scope | query)
        if answer.status != 200:
            raise Unexpected(f"{path}: {answer.status} {answer.document}")
        return answer.document

    async def command(self, path: str, **members: Any) -> Any:
        return await self.post(path, {"scope": self.scope} | members)

    # clients

    async def task(self, queue: str = "main", *, attempts: int = 3) -> str:
        """Submits a task; its id."""
        task_id = str((await self._submit("/v1/tasks", queue, attempts))["task_id"])
        self.ledger.add(task_id, "submitted")
        return task_id

    async def workflow(self, queue: str = "main", *, attempts: int = 3) -> str:
        """Submits a workflow; its id."""
        snapshot = await self._submit("/v1/workflows", queue, attempts)
        self.ledger.flows[snapshot["workflow_id"]] = Flow()
        self.ledger.add(snapshot["activation_id"], "submitted")
        return str(snapshot["workflow_id"])

    async def _submit(self, path: str, queue: str, attempts: int) -> Any:
        retry = {"max_attempts": attempts, "retry_delay_ms": 0}
        chosen = {"queue": queue, "program": PROGRAM, "data": {"path": path}, "retry_policy": retry}
        return await self.post(path, {"idempotency_key": f"key {next(self._keys)}", "input": self.scope | chosen})

    async def cancel_task(self, task_id: str, *happened: str) -> None:
        await self.command("/v1/tasks/cancel", task_id=task_id)
        self.ledger.add(task_id, *happened)

    async def cancel_workflow(self, workflow_id: str) -> None:
        await self.command("/v1/workflows/cancel", workflow_id=workflow_id)

    async def event(self, workflow_id: str, key: str, data: Any = None) -> Any:
        """Sends an event; the envelope."""
        event = {"specversion": "1.0", "id": f"id {key}", "source": "/desk", "type": "signed", "data": data}
        event["datacontenttype"] = "application/json"
        await self.command("/v1/workflows/events", workflow_id=workflow_id, key=key, event=event)
        return event

    async def unclaimed(self, queue: str) -> str:
        """The task of a queue that no worker has seen, once it is there."""
        page = await self._once("/v1/tasks", lambda page: page["items"], queue=queue, limit="100")
        (found,) = [task["task_id"] for task in page["items"]]
        self.ledger.add(found, "submitted")
        return str(found)

    # time

    async def advance(self, ms: int) -> None:
        """A repetition of it only goes further; attempts that nobody renews run out."""
        await self.command("/testing/v1/clock", advance_ms=ms, leases="expire")

    async def until(self, workflow_id: str, *states: str) -> None:
        """Until the workflow is in one of the states, a terminal one by default."""
        wanted = states or TERMINAL
        await self._once("/v1/workflows/status", lambda status: status["state"] in wanted, workflow_id=workflow_id)

    async def until_all_ended(self) -> None:
        """The last decisions are applied after they were settled."""
        for workflow_id in self.ledger.flows:
            await self.until(workflow_id)

    async def until_stopped(self, task_id: str) -> None:
        """Until the cancellation of an active task was requested by its workflow's drain."""
        await self._once("/v1/tasks/status", lambda status: status["cancel_requested_at"] is not None, task_id=task_id)
        self.ledger.add(task_id, "cancel_requested")

    async def until_over(self, task_id: str, *happened: str) -> None:
        """Until an active task left that state without its worker."""
        await self._once("/v1/tasks/status", lambda status: status["state"] != "active", task_id=task_id)
        self.ledger.add(task_id, *happened)

    async def _once(self, path: str, enough: Callable[[Any], Any], **query: str) -> Any:
        """What is read, once that is enough."""
        looks = 0
        while not enough(found := await self.get(path, **query)):
            looks += 1
            await asyncio.sleep(LOOK_S)
            if looks % HURRY == 0:
                await self.advance(0)
        return found

    def ends(self, workflow_id: str, kind: str, **members: Any) -> None:
        """How a workflow must end."""
        self.ledger.flows.setdefault(workflow_id, Flow()).outcome = {"kind": kind, **members}

    # workers

    async def session(self, queue: str) -> str:
        if queue not in self._sessions:
            opened = await self.command("/v1/worker-sessions", queue=queue, concurrency=1000)
            self._sessions[queue] = opened["id"]
            await self.post("/v1/worker-sessions/extend", {"worker_session_id": opened["id"]})
        return self._sessions[queue]

    async def claim(self, queue: str = "main") -> Claim:
        """The next task of a queue, dispatched."""
        poll = {"queue": queue, "worker_session_id": await self.session(queue), "consumer_id": next(self._consumers)}
        for sequence in itertools.count(1):
            reply = await self.command("/v1/acquisitions", **poll, sequence=sequence, wait_ms=POLL_MS)
            if reply["disposition"] == "assigned":
                break
            self.ledger.expect("disposition", reply["disposition"], "empty")
            await self.advance(0)
        claim = Claim(self, reply["assignment"])
        if claim.task_id not in self.ledger.history:  # a child, or a later activation
            self.ledger.add(claim.task_id, "submitted")
        if claim.workflow_id is not None:
            self.ledger.flows.setdefault(claim.workflow_id, Flow())
        self.ledger.add(claim.task_id, "claimed")
        number = self.ledger.history[claim.task_id].count("claimed")
        self.ledger.expect(f"attempt of {claim.task_id}", claim.event["ldgattemptno"], number)
        await claim.dispatch()
        return claim


class Claim:
    """One attempt in the hands of a scripted worker."""

    def __init__(self, scene: Scene, assignment: Any) -> None:
        self.scene = scene
        self.event, self.descriptor = assignment["event"], assignment["descriptor"]
        self.owner = assignment["lease"]["owner"]
        self.task_id: str = self.owner["task_id"]
        self.workflow_id: str | None = self.event.get("ldgworkflowid")
        self.renewals = 0
        self.revision = 0

    async def dispatch(self) -> None:
        authority = await self.renew("dispatch")
        self.scene.ledger.expect("dispatch", authority["dispatch_allowed"], True)
        self.scene.ledger.add(self.task_id, "dispatch_authorized")

    async def renew(self, intent: str = "keep_alive") -> Any:
        self.renewals += 1
        command = {"owner": self.owner, "sequence": self.renewals, "intent": intent}
        return await self.scene.post("/v1/renewals", command)

    async def settle(self, report: Any, *happened: str, quiescence: str = "confirmed") -> None:
        kind = "failed" if "error" in report else "completed"
        echoed = {name: self.event[attribute] for name, attribute in _ECHOED.items() if attribute in self.event}
        whole = echoed | {"program": self.descriptor["program"], "digest": self.descriptor["digest"]} | report
        command = {"owner": self.owner, "operation_id": "op", "quiescence": quiescence}
        reply = await self.scene.post("/v1/settlements", command | {"report": {"kind": kind, "report": whole}})
        ledger = self.scene.ledger
        ledger.add(self.task_id, "report_accepted", *happened)
        ledger.receipts[self.task_id, self.owner["attempt_id"]] = reply["receipt"]

    async def succeed(self, output: Any, *, ends: str = "succeeded") -> None:
        await self.settle(_completed({"status": "success", "output": output}), ends)

    async def refuse(self) -> None:
        """The program says that it failed."""
        await self.settle(_completed({"status": "failure", "kind": "declined", "message": "no"}), "failed")

    async def break_down(self, *happened: str) -> None:
        """The execution could not be carried through."""
        error = {"kind": "io", "message": "broken"}
        report = {"error": error, "phase": "execution", "execution_may_have_started": True}
        await self.settle(report, *happened)

    async def unconfirmed(self, output: Any) -> None:
        outcome = {"status": "success", "output": output}
        await self.settle(_completed(outcome), quiescence="unconfirmed")

    async def confirm(self) -> None:
        await self.scene.post("/v1/quiescence-confirmations", self.owner)
        self.scene.ledger.add(self.task_id, "cleanup_confirmed", "succeeded")

    # activations

    async def context(self) -> Any:
        context = await self.scene.post("/v1/workflows/activations/context", self.owner)
        self.revision = context["revision"]
        return context

    async def local(self, key: str) -> Any:
        """Commits a local record; the record."""
        record = {"key": key, "callable": "story:step", "input": None, "output": {"of": key}}
        await self.scene.post("/v1/workflows/local-results", {"owner": self.owner, "record": record})
        return record

    async def fork(self, *keys: str, queue: str = "branches") -> None:
        branches = [{"key": key, "entrypoint": "branch", "queue": queue, "data": key} for key in keys]
        await self.scene.post("/v1/workflows/forks", {"owner": self.owner, "fork": {"key": "f", "branches": branches}})

    async def decide(self, kind: str, *, applied: bool = True, ends: str = "succeeded", **members: Any) -> None:
        """Settles with a decision; `applied` if it counts, `ends` how the activation does."""
        await self.context()
        decision = {"v": 1, "activation_id": self.task_id, "revision": self.revision, "kind": kind}
        if kind not in ("complete", "fail"):
            decision |= {"state": {"seen": self.revision}, "continuation": "next", "commands": []}
        await self.succeed(decision | members, ends=ends)
        assert self.workflow_id is not None
        self.scene.ledger.flows[self.workflow_id].decisions += applied

    async def complete(self, output: Any = "done") -> None:
        assert self.workflow_id is not None
        self.scene.ends(self.workflow_id, "succeeded", output=output)
        await self.decide("complete", output=output)

    async def wait_event(self, key: str, timeout_ms: int | None = None, **members: Any) -> None:
        await self.decide("wait", wait={"kind": "event", "key": key, "timeout_ms": timeout_ms}, **members)

    async def sleep(self, key: str, delay_ms: int) -> None:
        await self.decide("wait", wait={"kind": "timer", "key": key, "delay_ms": delay_ms})


def _completed(outcome: Any) -> Any:
    return {"process_id": 1, "reused_process": False, "elapsed_ms": 5, "outcome": outcome}
