"""A whole server in a thread, one per module, and worlds in it: a namespace each, with what a message needs."""

from __future__ import annotations

import asyncio
import http.client
import itertools
import json
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Future
from contextlib import suppress
from typing import Any
from urllib.parse import quote, urlencode, urlsplit

import pytest

from protocol3.contract.models.common import Descriptor, ProgramRef
from protocol3.coordinator.options import ServeOptions
from protocol3.coordinator.server import serve
from protocol3.programs.layout import descriptor_path, encode_descriptor
from protocol3_spec.compact import compact

PATIENCE_S = 20.0
PROGRAM = {"id": "hello", "version": "1"}
TRACEPARENT = f"00-{'1' * 32}-{'2' * 16}-00"
ECHOED = {
    "source": "source",
    "event_id": "id",
    "tenant_id": "ldgtenantid",
    "namespace": "ldgnamespace",
    "run_id": "ldgrunid",
    "task_id": "ldgtaskid",
    "attempt_id": "ldgattemptid",
    "attempt_no": "ldgattemptno",
    "traceparent": "traceparent",
    "tracestate": "tracestate",
    "workflow_id": "ldgworkflowid",
    "activation_id": "ldgactivationid",
    "parent_workflow_id": "ldgparentworkflowid",
    "root_workflow_id": "ldgrootworkflowid",
}

_numbers = itertools.count()
Reply = tuple[int, Any]


class Http:
    """One persistent connection; documents in, status and document out."""

    def __init__(self, url: str) -> None:
        self._connection = http.client.HTTPConnection(urlsplit(url).netloc, timeout=PATIENCE_S + 20)

    def exchange(self, method: str, target: str, body: bytes | None = None) -> Reply:
        fields = {} if body is None else {"Content-Type": "application/json"}
        with suppress(BrokenPipeError, ConnectionResetError):  # a body that is too large is answered before its end
            self._connection.request(method, target, body, fields)
        reply = self._connection.getresponse()
        return reply.status, json.loads(reply.read())

    def post(self, path: str, body: Any) -> Reply:
        return self.exchange("POST", path, body if isinstance(body, bytes) else compact(body).encode())

    def get(self, path: str, query: Mapping[str, str] | str) -> Reply:
        return self.exchange("GET", f"{path}?{query if isinstance(query, str) else urlencode(query, quote_via=quote)}")


class World:
    """A namespace of its own; `bindings` are what the placeholders of a message stand for."""

    def __init__(self, http: Http) -> None:
        number = next(_numbers)
        self.http = http
        self.scope = {"tenant_id": "t", "namespace": f"n{number}"}
        self._sessions: dict[str, str] = {}
        self._consumers = itertools.count()
        self.bindings: dict[str, Any] = {
            "tenant": "t",
            "namespace": f"n{number}",
            "key": f"key-{number}",
            "queue": "q",
            "children": "children",
            "program": PROGRAM,
            "traceparent": TRACEPARENT,
        }

    def post(self, path: str, body: Any) -> Any:
        status, document = self.http.post(path, body)
        assert status == 200, document
        return document

    def get(self, path: str, **query: str) -> Any:
        status, document = self.http.get(path, self.scope | query)
        assert status == 200, document
        return document

    def prepare(self, needs: str) -> None:
        """Make what a message needs: nothing, task, attempt, settled attempt or activation."""
        if needs == "nothing":
            return
        submission = {"queue": "q", "program": PROGRAM, "data": None, "retry_policy": RETRY_AT_ONCE}
        kind = "workflows" if needs == "activation" else "tasks"
        made = self.post(f"/v1/{kind}", {"idempotency_key": self.bindings["key"], "input": self.scope | submission})
        if needs == "task":
            self.bindings |= {"task_id": made["task_id"], "session": self.session("q")}
            return
        assignment = self.claim("q")
        self.bindings |= {
            "owner": assignment["lease"]["owner"],
            "identity": identity(assignment),
            "task_id": assignment["event"]["ldgtaskid"],
        }
        if needs == "activation":
            self.dispatch(assignment)
            self.bindings |= {
                "workflow_id": made["workflow_id"],
                "activation_id": self.bindings["task_id"],
                "revision": 0,
            }
        if needs == "settled attempt":
            self.settle(assignment, None, quiescence="unconfirmed")

    def session(self, queue: str, scope: dict[str, str] | None = None) -> str:
        opened = self.post(
            "/v1/worker-sessions", {"scope": scope or self.scope, "queue": queue, "concurrency": 2**32 - 1}
        )
        return str(opened["id"])

    def claim(self, queue: str, scope: dict[str, str] | None = None, *, wait_ms: int = 15_000) -> Any:
        """The next assignment of a queue, by a consumer of its own; None if there is none and no wait."""
        scope = scope or self.scope
        where = f"{scope} {queue}"
        if where not in self._sessions:
            self._sessions[where] = self.session(queue, scope)
        command = {
            "scope": scope,
            "queue": queue,
            "worker_session_id": self._sessions[where],
            "consumer_id": next(self._consumers),
            "sequence": 1,
            "wait_ms": wait_ms,
        }
        reply = self.post("/v1/acquisitions", command)
        return reply.get("assignment")

    def dispatch(self, assignment: Any) -> None:
        self.post("/v1/renewals", {"owner": assignment["lease"]["owner"], "sequence": 1, "intent": "dispatch"})

    def activation(self, queue: str = "q") -> Any:
        """The next activation of a queue, dispatched, and its context."""
        assignment = self.claim(queue)
        self.dispatch(assignment)
        return assignment, self.context(assignment["lease"]["owner"])

    def context(self, owner: Any) -> Any:
        return self.post("/v1/workflows/activations/context", owner)

    def settle(self, assignment: Any, output: Any, *, quiescence: str = "confirmed") -> Any:
        return self.report(assignment["lease"]["owner"], identity(assignment), output, quiescence=quiescence)

    def report(self, owner: Any, said: Any, output: Any, *, quiescence: str = "confirmed") -> Any:
        outcome = {"status": "success", "output": output}
        completed = {**said, "process_id": 1, "reused_process": False, "elapsed_ms": 5, "outcome": outcome}
        command = {"owner": owner, "operation_id": "op", "report": {"kind": "completed", "report": completed}}
        return self.post("/v1/settlements", command | {"quiescence": quiescence})

    def decide(self, assignment: Any, revision: int, kind: str, **members: Any) -> Any:
        """Settle an activation with a decision; checkpoint kinds get their members by default."""
        decision = {"v": 1, "activation_id": assignment["event"]["ldgtaskid"], "revision": revision, "kind": kind}
        if kind in ("suspend", "continue", "wait"):
            decision |= {"state": None, "continuation": "next", "commands": []}
        return self.settle(assignment, decision | members)

    def workflow(self) -> Any:
        return self.get("/v1/workflows/status", workflow_id=self.bindings["workflow_id"])

    def outcome(self) -> Any:
        """How the workflow ended, once it has."""
        self.until(lambda: self.workflow()["terminal_at"])
        return self.get("/v1/workflows/result", workflow_id=self.bindings["workflow_id"])["outcome"]

    def until(self, look: Callable[[], Any]) -> Any:
        """What a look found, once that is something."""
        deadline = time.monotonic() + PATIENCE_S
        while not (found := look()):
            assert time.monotonic() < deadline, "never seen"
            time.sleep(0.002)
        return found

    def seen(self) -> Any:
        """Everything that a client and the owner can see of this namespace, authority apart."""
        found: dict[str, Any] = {"tasks": self.get("/v1/tasks")["items"]}
        found["history"] = [self.get("/v1/tasks/history", task_id=task["task_id"]) for task in found["tasks"]]
        if "workflow_id" in self.bindings:
            found["workflow"] = self.workflow()
            if found["workflow"]["activation_id"] == self.bindings["activation_id"]:
                found["context"] = self.context(self.bindings["owner"])
        elif "owner" in self.bindings:
            owner = self.bindings["owner"]
            query = {"task_id": owner["task_id"], "attempt_id": owner["attempt_id"]}
            found["attempt"] = self.get("/v1/attempts/inspect", **query)
        return found


RETRY_AT_ONCE = {"max_attempts": 3, "retry_delay_ms": 0}


def identity(assignment: Any) -> dict[str, Any]:
    """What a report must echo (chapter 07, Settlement)."""
    event, descriptor = assignment["event"], assignment["descriptor"]
    echoed = {name: event[attribute] for name, attribute in ECHOED.items() if attribute in event}
    return echoed | {"program": descriptor["program"], "digest": descriptor["digest"]}


@pytest.fixture(scope="module")
def url(database: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A server on the module's database, in a thread of its own; `hello` is published."""
    store = tmp_path_factory.mktemp("store")
    descriptor = Descriptor(program=ProgramRef(**PROGRAM), digest="sha256:" + "a" * 64, size=4321)
    path = store / descriptor_path(descriptor.program)
    path.parent.mkdir(parents=True)
    path.write_bytes(encode_descriptor(descriptor))
    options = ServeOptions(listen_host="127.0.0.1", listen_port=0, database_url=database, store=store)
    ready: Future[str] = Future()
    loop = asyncio.new_event_loop()
    task = loop.create_task(serve(options, ready=lambda bound: ready.set_result(bound.url)))

    def run() -> None:
        with suppress(asyncio.CancelledError):
            loop.run_until_complete(task)
        loop.close()

    thread = threading.Thread(target=run)
    thread.start()
    try:
        yield ready.result(PATIENCE_S)
    finally:
        loop.call_soon_threadsafe(task.cancel)
        thread.join(PATIENCE_S)


@pytest.fixture
def world(url: str) -> Callable[..., World]:
    """`world(needs)`: a namespace of its own with what a message needs."""
    http = Http(url)

    def made(needs: str = "nothing") -> World:
        found = World(http)
        found.prepare(needs)
        return found

    return made
