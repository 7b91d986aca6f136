"""Loaded by schemathesis (tools/fuzz_api.py): gives requests a world to act on, judges replies by our own keywords.

Three of four valid requests are pointed at things that exist: the scope, programs, tasks, workflows, and attempts that
are claimed for them. The rest, and every request that is broken on purpose, goes out as it was generated.
"""

from __future__ import annotations

import atexit
import json
import os
import time
import urllib.error
import urllib.request
import zlib
from collections import Counter, defaultdict
from pathlib import Path
from typing import Any

import schemathesis

from protocol3_spec import limits, routes
from protocol3_spec.validation import problems

URL = os.environ["FUZZ_URL"]
SCOPE: dict[str, str] = json.loads(os.environ["FUZZ_SCOPE"])
PROGRAMS: dict[str, Any] = json.loads(os.environ["FUZZ_PROGRAMS"])
FRESH_S = 20
LONGEST_WAIT_MS = 20

ROUTES = {(route["method"], route["path"]): route for route in routes()}
REFUSED_LATER = {"acquire", "confirm_quiescence", "commit_local_result", "accept_fork"}
"""Operations that answer 400 to a valid body too: another consumer, no report yet, a full ledger (DLV-011, DLV-102)."""
SEEN: defaultdict[str, Counter[str]] = defaultdict(Counter)
atexit.register(lambda: Path(os.environ["FUZZ_SEEN"]).write_text(json.dumps(SEEN)))


class World:
    """Makes things on demand with ordinary requests; `claim` gives an attempt that is live and dispatched."""

    def __init__(self) -> None:
        self._number = 0
        self._claims: dict[str, tuple[float, dict[str, Any]]] = {}

    def submit(self, kind: str, queue: str) -> dict[str, Any]:
        """A task or workflow nobody works on."""
        self._number += 1
        program = PROGRAMS["mixed-workflow" if kind == "workflow" else "hello"]
        command = {"idempotency_key": f"fuzz:{self._number}", "input": {**SCOPE, "queue": queue, "program": program}}
        command["input"]["data"] = None
        made: dict[str, Any] = self._post("/v1/workflows" if kind == "workflow" else "/v1/tasks", command)
        return made

    def session(self, queue: str) -> dict[str, Any]:
        made: dict[str, Any] = self._post("/v1/worker-sessions", {"scope": SCOPE, "queue": queue, "concurrency": 1})
        return made

    def claim(self, kind: str, *, used_up: bool = False) -> dict[str, Any]:
        """The assignment of a task or of a workflow's activation; with `used_up` nobody is given it again."""
        since, assignment = self._claims.get(kind, (0.0, {}))
        if time.monotonic() - since > FRESH_S:
            since, assignment = time.monotonic(), self._claimed(kind)
        self._claims[kind] = (0.0 if used_up else since, assignment)
        return assignment

    def reported(self) -> dict[str, Any]:
        """The owner of an attempt whose report is accepted but not yet confirmed."""
        assignment = self.claim("report", used_up=True)
        failed = {"error": {"kind": "io", "message": ""}, "phase": "startup", "execution_may_have_started": True}
        command = {"operation_id": "op", "quiescence": "unconfirmed", "report": {"kind": "failed", "report": failed}}
        settled(command, assignment)
        self._post("/v1/settlements", command)
        owner: dict[str, Any] = assignment["lease"]["owner"]
        return owner

    def _claimed(self, kind: str) -> dict[str, Any]:
        queue = f"claims-{kind}-{self._number}"
        self.submit(kind, queue)
        poll = {"scope": SCOPE, "queue": queue, "worker_session_id": self.session(queue)["id"]}
        assignment = self._post("/v1/acquisitions", poll | {"consumer_id": 0, "sequence": 1})["assignment"]
        dispatch = {"owner": assignment["lease"]["owner"], "sequence": 1, "intent": "dispatch"}
        self._post("/v1/renewals", dispatch)
        made: dict[str, Any] = assignment
        return made

    def _post(self, path: str, body: Any) -> Any:
        request = urllib.request.Request(URL + path, json.dumps(body).encode(), {"Content-Type": "application/json"})
        try:
            with urllib.request.urlopen(request, timeout=30) as reply:
                return json.load(reply)
        except urllib.error.HTTPError as refused:
            raise AssertionError(f"{path}: {refused.code} {refused.read(400)!r}") from None


WORLD = World()


@schemathesis.hook
def before_call(context: Any, case: Any, kwargs: Any) -> None:
    """Point a valid request at something that exists."""
    if isinstance(case.body, dict) and type(case.body.get("wait_ms")) is int:
        case.body["wait_ms"] = min(case.body["wait_ms"], LONGEST_WAIT_MS)
    route = ROUTES.get((case.method, case.path))
    if route is None or not case.meta.generation.mode.is_positive:
        return
    given = case.query if route["method"] == "GET" else case.body
    if not isinstance(given, dict) or zlib.crc32(json.dumps(given, sort_keys=True).encode()) % 4 == 0:
        return
    point(route["operation"], given)


def point(operation: str, given: dict[str, Any]) -> None:
    """Put what exists into a body or a query."""
    match operation:
        case "submit_task" | "submit_workflow":
            program = PROGRAMS["hello" if operation == "submit_task" else "mixed-workflow"]
            given["input"] |= SCOPE | {"program": program}
        case "list_tasks":
            given |= SCOPE
            given.pop("cursor", None)
        case "inspect_task" | "task_status" | "task_result" | "task_history" | "inspect_attempt":
            owner = WORLD.claim("task")["lease"]["owner"]
            given |= SCOPE | {name: owner[name] for name in ("task_id", "attempt_id") if name in given}
        case "cancel_task":
            given |= {"scope": SCOPE, "task_id": WORLD.submit("task", "cancelled")["task_id"]}
        case "workflow_status" | "workflow_result":
            given |= SCOPE | {"workflow_id": WORLD.claim("workflow")["event"]["ldgworkflowid"]}
        case "cancel_workflow":
            given |= {"scope": SCOPE, "workflow_id": WORLD.submit("workflow", "cancelled")["workflow_id"]}
        case "send_event":
            given |= {"scope": SCOPE, "workflow_id": WORLD.submit("workflow", "events")["workflow_id"]}
        case "open_session":
            given["scope"] = SCOPE
        case "extend_session":
            given["worker_session_id"] = WORLD.session("any")["id"]
        case "acquire":
            session = WORLD.session(given["queue"])
            given |= {"scope": SCOPE, "worker_session_id": session["id"], "consumer_id": 0, "sequence": 1}
        case "renew":
            given |= {"owner": WORLD.claim("renewal", used_up=True)["lease"]["owner"], "sequence": 2}
        case "settle":
            settled(given, WORLD.claim("task", used_up=True))
        case "confirm_quiescence":
            given |= WORLD.reported()
        case "activation_context":
            given |= WORLD.claim("workflow")["lease"]["owner"]
        case "commit_local_result" | "accept_fork":
            given["owner"] = WORLD.claim("workflow")["lease"]["owner"]


def settled(command: Any, assignment: dict[str, Any]) -> None:
    """Make the report one about this attempt."""
    event, report = assignment["event"], command["report"]["report"]
    command["owner"] = assignment["lease"]["owner"]
    named = {"source": "source", "event_id": "id", "tenant_id": "ldgtenantid", "namespace": "ldgnamespace"}
    named |= {"run_id": "ldgrunid", "task_id": "ldgtaskid", "attempt_id": "ldgattemptid", "attempt_no": "ldgattemptno"}
    report |= {member: event[attribute] for member, attribute in named.items()}
    report |= {"program": assignment["descriptor"]["program"], "digest": assignment["descriptor"]["digest"]}
    for absent in (
        "traceparent",
        "tracestate",
        "workflow_id",
        "activation_id",
        "parent_workflow_id",
        "root_workflow_id",
    ):
        report.pop(absent, None)


@schemathesis.hook
def after_call(context: Any, case: Any, response: Any) -> None:
    SEEN[f"{case.method} {case.path}"][str(response.status_code)] += 1


@schemathesis.check
def protocol_vocabulary(context: Any, response: Any, case: Any) -> None:
    """Replies by the schemas with the keywords that plain JSON Schema ignores."""
    route = ROUTES.get((case.method, case.path))
    if route is None:
        return
    name = route["reply"] if response.status_code == 200 else "error"
    found = problems(name, json.loads(response.content))
    assert not found, f"{name}: {'; '.join(map(str, found))}"


def integer(digits: str) -> int | float:
    """JSON-020, JSON-022: the decoder's part of the verdict."""
    if digits == "-0":
        return -0.0
    if not limits()["INTEGER_MIN"].value <= int(digits) <= limits()["INTEGER_MAX"].value:
        raise ValueError("integer out of range")
    return int(digits)


@schemathesis.check
def request_verdict(context: Any, response: Any, case: Any) -> None:
    """A body that breaks its schema is refused as such; one that does not is refused only for what no schema says."""
    route = ROUTES.get((case.method, case.path))
    if route is None or "request" not in route or response.status_code in (413, 415):
        return
    try:
        body = json.loads(response.request.body or b"", parse_int=integer)
    except ValueError:
        assert response.status_code == 400, "took a body that breaks the JSON profile"
        return
    found = problems(route["request"], body)
    if found:
        late = {404, 409} if route["operation"] == "settle" else set()  # the texts of its trace are judged last
        assert response.status_code in {400} | late, f"took a body that is invalid: {'; '.join(map(str, found))}"
    elif response.status_code == 400:
        assert route["operation"] in REFUSED_LATER, f"refused a valid body: {response.text[:300]}"
