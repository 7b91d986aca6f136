"""Scripted senders: a client, workers and a test that send to a served coordinator and note every exchange."""

from __future__ import annotations

import http.client
import json
import time
import urllib.parse
from collections.abc import Callable
from typing import Any

from system import SystemFailure
from transcripts.form import Exchange, asked

PROGRAM = {"id": "hello", "version": "1.0.0"}
LOOK_SECONDS, LOOKS = 0.02, 1500
WAIT_MS = 20_000

#: Members of a report and the attributes of the event that they repeat.
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
}


class Stage:
    """A scope of its own on a coordinator (host:port) with test controls; `exchanges` are in their order."""

    def __init__(self, target: str, namespace: str) -> None:
        self.target = target
        self.scope = {"tenant_id": "demo", "namespace": namespace}
        self.exchanges: list[Exchange] = []

    def post(self, sender: str, path: str, command: Any) -> Any:
        """The reply, whatever its status; None if the connection was closed without one."""
        return self._noted(sender, "POST", path, json.dumps(command).encode())

    def get(self, sender: str, path: str, **query: str) -> Any:
        return self._noted(sender, "GET", f"{path}?{urllib.parse.urlencode(self.scope | query)}", b"")

    def _noted(self, sender: str, method: str, path: str, body: bytes) -> Any:
        exchange = asked(sender, method, path, body)
        self.exchanges.append(exchange)
        try:
            status, reply = self._sent(method, path, body)
        except ConnectionError:
            return None
        exchange |= {"status": status, "reply": reply}
        return reply

    def _sent(self, method: str, path: str, body: bytes) -> tuple[int, Any]:
        connection = http.client.HTTPConnection(self.target, timeout=40)
        try:
            connection.request(method, path, body or None, {"Content-Type": "application/json"} if body else {})
            reply = connection.getresponse()
            return reply.status, json.load(reply)
        finally:
            connection.close()

    def until(self, path: str, enough: Callable[[Any], bool], **query: str) -> None:
        """Looks without a note: how often it looks is no part of the story."""
        for _ in range(LOOKS):
            _, found = self._sent("GET", f"{path}?{urllib.parse.urlencode(self.scope | query)}", b"")
            if enough(found):
                return
            time.sleep(LOOK_SECONDS)
        raise SystemFailure(f"{path}: waited in vain, last {found}")

    # the client

    def submit(self, key: str, data: Any) -> str:
        """Submits a workflow whose attempts are tried again at once; its id."""
        retry = {"max_attempts": 3, "retry_delay_ms": 0}
        chosen = {"queue": "workflows", "program": PROGRAM, "data": data, "retry_policy": retry}
        command = {"idempotency_key": key, "input": self.scope | chosen}
        return str(self.post("client", "/v1/workflows", command)["workflow_id"])

    def cancel(self, workflow_id: str) -> None:
        self.post("client", "/v1/workflows/cancel", {"scope": self.scope, "workflow_id": workflow_id})

    def status(self, workflow_id: str) -> None:
        self.get("client", "/v1/workflows/status", workflow_id=workflow_id)

    def result(self, workflow_id: str) -> None:
        self.get("client", "/v1/workflows/result", workflow_id=workflow_id)

    def until_in(self, workflow_id: str, state: str) -> None:
        self.until("/v1/workflows/status", lambda found: found["state"] == state, workflow_id=workflow_id)

    # the test

    def rule(self, match: dict[str, str], where: str, kind: str) -> None:
        """Adds a fault rule for one occasion."""
        members = {"scope": self.scope, "match": match, "where": where, "act": {"kind": kind}}
        self.post("test", "/testing/v1/faults", members)

    def until_held(self) -> None:
        """Then one look that is noted."""
        self.until("/testing/v1/faults", lambda found: found["held"] != [])
        self.get("test", "/testing/v1/faults")

    def release(self) -> None:
        self.post("test", "/testing/v1/faults/release", {"scope": self.scope})

    def advance(self, ms: int) -> None:
        self.post("test", "/testing/v1/clock", {"scope": self.scope, "advance_ms": ms})


class Worker:
    """A session with one consumer."""

    def __init__(self, stage: Stage, name: str = "worker", queue: str = "workflows") -> None:
        self.stage, self.name, self.queue = stage, name, queue
        command = {"scope": stage.scope, "queue": queue, "concurrency": 1}
        self.session = stage.post(name, "/v1/worker-sessions", command)["id"]
        self.sequence = 0

    def begin(self) -> Attempt:
        """The next assignment of the queue, with permission and context."""
        self.sequence += 1
        poll = {"queue": self.queue, "worker_session_id": self.session, "consumer_id": 0, "sequence": self.sequence}
        command = {"scope": self.stage.scope} | poll | {"wait_ms": WAIT_MS}
        reply = self.stage.post(self.name, "/v1/acquisitions", command)
        if reply["disposition"] != "assigned":
            raise SystemFailure(f"nothing to do: {reply}")
        attempt = Attempt(self, reply["assignment"])
        attempt.renew("dispatch")
        attempt.context = attempt.post("/v1/workflows/activations/context", attempt.owner)
        return attempt


class Attempt:
    """One attempt of an activation in the hands of a worker."""

    def __init__(self, worker: Worker, assignment: Any) -> None:
        self.worker = worker
        self.event, self.descriptor = assignment["event"], assignment["descriptor"]
        self.owner = assignment["lease"]["owner"]
        self.context: Any = None
        self.renewals = 0

    def post(self, path: str, command: Any) -> Any:
        return self.worker.stage.post(self.worker.name, path, command)

    def renew(self, intent: str = "keep_alive") -> None:
        self.renewals += 1
        self.post("/v1/renewals", {"owner": self.owner, "sequence": self.renewals, "intent": intent})

    def decide(self, kind: str, **members: Any) -> None:
        """Settles with a decision of the handler."""
        decision = {"v": 1, "activation_id": self.context["activation_id"], "revision": self.context["revision"]}
        outcome = {"status": "success", "output": decision | {"kind": kind} | members}
        ran = {"process_id": 1, "reused_process": False, "elapsed_ms": 5}
        self._settle("completed", ran | {"outcome": outcome})

    def stop(self) -> None:
        """Settles as a worker does that killed the process because of a cancellation."""
        error = {"kind": "cancelled", "message": "cancellation was requested"}
        self._settle("failed", {"error": error, "phase": "execution", "execution_may_have_started": True})

    def _settle(self, kind: str, report: dict[str, Any]) -> None:
        echoed = {name: self.event[attribute] for name, attribute in ECHOED.items() if attribute in self.event}
        whole = echoed | {"program": self.descriptor["program"], "digest": self.descriptor["digest"]} | report
        command = {"owner": self.owner, "operation_id": "worker-result-v1", "report": {"kind": kind, "report": whole}}
        self.post("/v1/settlements", command | {"quiescence": "confirmed"})
