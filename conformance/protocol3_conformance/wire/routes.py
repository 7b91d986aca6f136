"""The routes of the contract: method, path, reply limit, shape of a 200 reply, and what it must echo of its request."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from protocol3_conformance.bounds import bound
from protocol3_conformance.wire import delivery, tasks, workflows
from protocol3_conformance.wire.shapes import Check, brief, vocabulary
from protocol3_conformance.wire.strict_json import JsonValue, same
from protocol3_conformance.wire.values import require

Echo = Callable[[Any, Any], None]
"""(request, reply): the request is the decoded body, or the decoded query of a GET."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Route:
    method: str
    path: str
    reply_limit: str
    shape: Check
    echo: Echo


def _equal(reply: JsonValue, request: JsonValue, what: str, *rules: str) -> None:
    if isinstance(request, dict) and isinstance(reply, dict) and request.keys() > reply.keys():
        rules = ("JSON-080",)  # not of the reply: a member that nobody knows was taken, and left out
    _same(reply, request, what, *rules)


def _same(reply: JsonValue, request: JsonValue, what: str, *rules: str) -> None:
    """Of application JSON, where any member may stand."""
    require(bool(same(reply, request)), what, f"reply says {brief(reply)}, the request said {brief(request)}", *rules)


def _scope(query: dict[str, str]) -> dict[str, str]:
    return {"tenant_id": query["tenant_id"], "namespace": query["namespace"]}


def _number(digits: str) -> int:
    """Thousands of leading zeros are allowed (HTTP-056), but too long for int()."""
    return int(digits.lstrip("0") or "0")


def _submission(request: Any, reply: Any) -> None:
    """CLI-051…054: what was sent comes back, number classes included."""
    _equal(reply["idempotency_key"], request["idempotency_key"], "reply.idempotency_key", "CLI-051")
    sent = {name: value for name, value in request["input"].items() if name != "correlation_key"}
    _same(reply["input"]["data"], sent.pop("data"), "reply.input.data", "CLI-053", "TASK-037")
    for name, value in sent.items():
        _equal(reply["input"][name], value, f"reply.input.{name}", "CLI-053", "TASK-037")
    _equal(reply["input"].get("correlation_key"), request["input"].get("correlation_key"), "correlation_key", "CLI-054")


def _task(query: Any, reply: Any) -> None:
    scope = reply["scope"] if "scope" in reply else _scope(reply["input"])
    _equal(scope, _scope(query), "reply.scope", "CLI-030", "HTTP-069")
    _equal(reply["task_id"], query["task_id"], "reply.task_id", "CLI-030", "HTTP-069")


def _task_result(query: Any, reply: Any) -> None:
    _task(query, reply["task"])


def _history(query: Any, reply: Any) -> None:
    after = _number(query.get("after_sequence", "0"))
    for entry in reply:
        _equal(entry["event"]["task_id"], query["task_id"], "reply[].event.task_id", "TASK-133")
    first = not reply or reply[0]["sequence"] == after + 1
    require(first, "reply[0].sequence", f"the record after {after} is number {after + 1}", "TASK-131", "TASK-132")


def _attempt(query: Any, reply: Any) -> None:
    owner = reply["lease"]["owner"]
    _equal(owner["scope"], _scope(query), "reply.lease.owner.scope", "HTTP-069")
    _equal(owner["task_id"], query["task_id"], "reply.lease.owner.task_id", "HTTP-069")
    _equal(owner["attempt_id"], query["attempt_id"], "reply.lease.owner.attempt_id", "HTTP-069")


def _page(query: Any, reply: Any) -> None:
    """CLI-072…075."""
    limit = _number(query.get("limit", str(bound("DEFAULT_TASK_PAGE"))))
    items = reply["items"]
    bounded = ("DISC-011",) if "limit" in query else ("DISC-025", "HTTP-056")
    require(len(items) <= limit, "reply.items", f"{len(items)} items, limit {limit}", *bounded, "CLI-072")
    for item in items:
        _equal(item["scope"], _scope(query), "reply.items[].scope", "DISC-010", "CLI-072")
        for name in ("state", "queue", "correlation_key"):
            if name in query:
                _equal(item[name], query[name], f"reply.items[].{name}", "DISC-007", "CLI-074")
        since, until = _number(query.get("submitted_from", "0")), query.get("submitted_until")
        inside = since <= item["submitted_at"] and (until is None or item["submitted_at"] < _number(until))
        require(inside, "reply.items[].submitted_at", "is outside the requested range", "DISC-026", "CLI-074")
    cursor = reply["next_cursor"]
    require(cursor is None or len(items) == limit, "reply.next_cursor", "on a page not full", "DISC-012", "CLI-075")
    advances = cursor is None or cursor != query.get("cursor")
    require(advances, "reply.next_cursor", "equals the cursor sent", "DISC-015", "CLI-075")


def _session(request: Any, reply: Any) -> None:
    for name in ("scope", "queue", "concurrency"):
        _equal(reply[name], request[name], f"reply.{name}", "DLV-001")


def _extension(request: Any, reply: Any) -> None:
    _equal(reply["id"], request["worker_session_id"], "reply.id", "DLV-004")


def _acquisition(request: Any, reply: Any) -> None:
    _equal(reply["sequence"], request["sequence"], "reply.sequence", "HTTP-069")
    if reply["disposition"] != "assigned":
        return
    owner = reply["assignment"]["lease"]["owner"]
    for name in ("scope", "worker_session_id", "consumer_id"):
        _equal(owner[name], request[name], f"reply.assignment.lease.owner.{name}", "DLV-040")


def _renewal(request: Any, reply: Any) -> None:
    _equal(reply["owner"], request["owner"], "reply.owner", "HTTP-069")
    _equal(reply["renew_sequence"], request["sequence"], "reply.renew_sequence", "DLV-056")


def _settlement(request: Any, reply: Any) -> None:
    receipt, owner = reply["receipt"], request["owner"]
    _equal(receipt["operation_id"], request["operation_id"], "reply.receipt.operation_id", "HTTP-069")
    for name in ("task_id", "attempt_id"):
        _equal(receipt[name], owner[name], f"reply.receipt.{name}", "HTTP-069")


def _workflow_submission(request: Any, reply: Any) -> None:
    sent = request["input"]
    _equal(reply["scope"], _scope(sent), "reply.scope", "WF-020", "CLI-080")
    _equal(reply["correlation_key"], sent.get("correlation_key"), "reply.correlation_key", "WF-020", "CLI-084")


def _workflow(request: Any, reply: Any) -> None:
    _equal(reply["scope"], request.get("scope") or _scope(request), "reply.scope", "CLI-080")
    _equal(reply["workflow_id"], request["workflow_id"], "reply.workflow_id", "CLI-080")


def _workflow_result(query: Any, reply: Any) -> None:
    _workflow(query, reply["workflow"])


def _event(request: Any, reply: Any) -> None:
    for name in ("scope", "workflow_id", "key"):
        _equal(reply[name], request[name], f"reply.{name}", "CLI-090")
    _equal(reply["event_id"], request["event"]["id"], "reply.event_id", "CLI-090")
    _equal(reply["event_source"], request["event"]["source"], "reply.event_source", "CLI-090")


def _context(request: Any, reply: Any) -> None:
    _equal(reply["activation_id"], request["task_id"], "reply.activation_id", "ACT-001")


def _local_result(request: Any, reply: Any) -> None:
    _equal(reply["key"], request["record"]["key"], "reply.key", "LOC-002")


def _fork(request: Any, reply: Any) -> None:
    _equal(reply["key"], request["fork"]["key"], "reply.key", "HTTP-069")
    branches = [branch["key"] for branch in request["fork"]["branches"]]
    _equal(reply["branch_keys"], branches, "reply.branch_keys", "HTTP-069")


def _nothing(request: Any, reply: Any) -> None:
    """A bare state names nothing of its request."""


def _route(method: str, path: str, reply_limit: str, shape: Check, echo: Echo) -> Route:
    return Route(method=method, path=path, reply_limit=reply_limit, shape=shape, echo=echo)


TASK_STATE = vocabulary("task_state")

ROUTES = (
    _route("GET", "/v1/tasks", "TASK_PAGE_REPLY_BYTES", tasks.PAGE, _page),
    _route("POST", "/v1/tasks", "REPLY_BYTES", tasks.SUBMITTED, _submission),
    _route("GET", "/v1/tasks/inspect", "REPLY_BYTES", tasks.SNAPSHOT, _task),
    _route("GET", "/v1/tasks/status", "TASK_STATUS_REPLY_BYTES", tasks.STATUS, _task),
    _route("GET", "/v1/tasks/result", "REPLY_BYTES", tasks.RESULT, _task_result),
    _route("GET", "/v1/tasks/history", "REPLY_BYTES", tasks.history, _history),
    _route("GET", "/v1/attempts/inspect", "REPLY_BYTES", tasks.ATTEMPT, _attempt),
    _route("POST", "/v1/tasks/cancel", "REPLY_BYTES", TASK_STATE, _nothing),
    _route("POST", "/v1/worker-sessions", "REPLY_BYTES", delivery.SESSION, _session),
    _route("POST", "/v1/worker-sessions/extend", "REPLY_BYTES", delivery.SESSION, _extension),
    _route("POST", "/v1/acquisitions", "REPLY_BYTES", delivery.ACQUIRED, _acquisition),
    _route("POST", "/v1/renewals", "REPLY_BYTES", delivery.AUTHORITY, _renewal),
    _route("POST", "/v1/settlements", "REPLY_BYTES", delivery.SETTLED, _settlement),
    _route("POST", "/v1/quiescence-confirmations", "REPLY_BYTES", TASK_STATE, _nothing),
    _route("POST", "/v1/workflows", "WORKFLOW_REPLY_BYTES", workflows.submitted, _workflow_submission),
    _route("GET", "/v1/workflows/status", "WORKFLOW_REPLY_BYTES", workflows.SNAPSHOT, _workflow),
    _route("GET", "/v1/workflows/result", "CLIENT_WORKFLOW_RESULT_REPLY_BYTES", workflows.RESULT, _workflow_result),
    _route("POST", "/v1/workflows/cancel", "WORKFLOW_REPLY_BYTES", workflows.SNAPSHOT, _workflow),
    _route("POST", "/v1/workflows/events", "EVENT_REPLY_BYTES", workflows.EVENT_RECEIPT, _event),
    _route("POST", "/v1/workflows/activations/context", "CONTEXT_REPLY_BYTES", workflows.CONTEXT, _context),
    _route("POST", "/v1/workflows/local-results", "LOCAL_RESULT_REPLY_BYTES", workflows.LOCAL_RECEIPT, _local_result),
    _route("POST", "/v1/workflows/forks", "FORK_REPLY_BYTES", workflows.FORK_RECEIPT, _fork),
)

BY_METHOD_AND_PATH = {(route.method, route.path): route for route in ROUTES}
PATHS = tuple(dict.fromkeys(route.path for route in ROUTES))


def allowed_methods(path: str) -> list[str]:
    """The methods of one path, as `Allow` lists them (HTTP-011)."""
    return sorted({route.method for route in ROUTES if route.path == path})
