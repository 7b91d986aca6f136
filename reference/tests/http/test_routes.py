"""The route table against chapter 03, Routes and against the operations behind it."""

import json
from typing import Any

import pytest

from protocol3.contract.models.common import Scope
from protocol3.contract.refusal import Refusal
from protocol3.coordinator.http.routes import ROUTES, Route, scope_of, waits
from protocol3.coordinator.operations import OPERATIONS

KIB, MIB = 1 << 10, 1 << 20
TABLE = """
    GET  /v1/tasks                          16K   2M    list_tasks
    POST /v1/tasks                          2M    16M   submit_task
    GET  /v1/tasks/inspect                  8K    16M   inspect_task
    GET  /v1/tasks/status                   8K    16K   task_status
    GET  /v1/tasks/result                   8K    16M   task_result
    GET  /v1/tasks/history                  8K    16M   task_history
    GET  /v1/attempts/inspect               8K    16M   inspect_attempt
    POST /v1/tasks/cancel                   2M    16M   cancel_task
    POST /v1/worker-sessions                2M    16M   open_session
    POST /v1/worker-sessions/extend         2M    16M   extend_session
    POST /v1/acquisitions                   2M    16M   acquire
    POST /v1/renewals                       2M    16M   renew
    POST /v1/settlements                    8M    16M   settle
    POST /v1/quiescence-confirmations       2M    16M   confirm_quiescence
    POST /v1/workflows                      2M    16K   submit_workflow
    GET  /v1/workflows/status               8K    16K   workflow_status
    GET  /v1/workflows/result               8K    16M   workflow_result
    POST /v1/workflows/cancel               2M    16K   cancel_workflow
    POST /v1/workflows/events               70K   16K   send_event
    POST /v1/workflows/activations/context  2M    640K  activation_context
    POST /v1/workflows/local-results        2M    1K    commit_local_result
    POST /v1/workflows/forks                144K  32K   accept_fork
"""
BY_NAME = {route.operation: route for route in ROUTES}
HERE = {"tenant_id": "t", "namespace": "n"}
OWNER = {
    "scope": HERE,
    "task_id": "task",
    "attempt_id": "attempt",
    "lease_id": "lease",
    "generation": 1,
    "worker_session_id": "session",
    "consumer_id": 0,
}
REPORT = {
    "program": {"id": "p", "version": "1"},
    "digest": "sha256:" + "0" * 64,
    "source": "s",
    "event_id": "e",
    "tenant_id": "t",
    "namespace": "n",
    "run_id": "r",
    "task_id": "task",
    "attempt_id": "attempt",
    "attempt_no": 1,
    "process_id": 1,
    "reused_process": False,
    "elapsed_ms": 1,
    "outcome": {"status": "success", "output": None},
}
SUBMISSION = {
    "idempotency_key": "key",
    "input": HERE | {"queue": "q", "program": {"id": "p", "version": "1"}, "data": None},
}
EVENT = {"specversion": "1.0", "id": "1", "source": "s", "type": "t", "datacontenttype": "application/json"}
TASK_QUERY = "tenant_id=t&namespace=n&task_id=task"
WORKFLOW_QUERY = "tenant_id=t&namespace=n&workflow_id=w"
SAMPLES: dict[str, Any] = {
    "list_tasks": "tenant_id=t&namespace=n",
    "submit_task": SUBMISSION,
    "inspect_task": TASK_QUERY,
    "task_status": TASK_QUERY,
    "task_result": TASK_QUERY,
    "task_history": TASK_QUERY + "&after_sequence=7",
    "inspect_attempt": TASK_QUERY + "&attempt_id=attempt",
    "cancel_task": {"scope": HERE, "task_id": "task"},
    "open_session": {"scope": HERE, "queue": "q", "concurrency": 1},
    "extend_session": {"worker_session_id": "session"},
    "acquire": {"scope": HERE, "queue": "q", "worker_session_id": "s", "consumer_id": 0, "sequence": 1},
    "renew": {"owner": OWNER, "sequence": 1, "intent": "dispatch"},
    "settle": {
        "owner": OWNER,
        "operation_id": "o",
        "report": {"kind": "completed", "report": REPORT},
        "quiescence": "confirmed",
    },
    "confirm_quiescence": OWNER,
    "submit_workflow": SUBMISSION,
    "workflow_status": WORKFLOW_QUERY,
    "workflow_result": WORKFLOW_QUERY,
    "cancel_workflow": {"scope": HERE, "workflow_id": "w"},
    "send_event": {"scope": HERE, "workflow_id": "w", "key": "k", "event": EVENT | {"data": 1}},
    "activation_context": OWNER,
    "commit_local_result": {"owner": OWNER, "record": {"key": "k", "callable": "c", "input": 1, "output": 2}},
    "accept_fork": {
        "owner": OWNER,
        "fork": {"key": "f", "branches": [{"key": "b", "entrypoint": "e", "queue": "q", "data": None}]},
    },
}


def size(text: str) -> int:
    return int(text[:-1]) * {"K": KIB, "M": MIB}[text[-1]]


def sample(route: Route) -> bytes:
    value = SAMPLES[route.operation]
    return value.encode() if isinstance(value, str) else json.dumps(value).encode()


def test_the_table_is_the_contracts():
    """HTTP-010, HTTP-011, HTTP-014, HTTP-017, JSON-062, JSON-070: paths, methods and limits of chapter 03, Routes"""
    expected = set()
    for line in TABLE.split("\n")[1:-1]:
        method, path, request, reply, operation = line.split()
        query, body = (size(request), 0) if method == "GET" else (0, size(request))
        expected.add((method, path, query, body, size(reply), operation))
    declared = [(r.method, r.path, r.query_limit, r.request_limit, r.reply_limit, r.operation) for r in ROUTES]
    assert len(declared) == len(set(declared)) == 22
    assert set(declared) == expected


@pytest.mark.parametrize("route", ROUTES, ids=lambda route: route.operation)
def test_every_command_names_its_scope_except_the_extension_of_a_session(route):
    """HTTP-020, DLV-313"""
    expected = None if route.operation == "extend_session" else Scope(tenant_id="t", namespace="n")
    assert scope_of(route.decode(sample(route))) == expected


@pytest.mark.parametrize("route", ROUTES, ids=lambda route: route.operation)
def test_a_route_refuses_what_it_does_not_know(route):
    """HTTP-019, HTTP-053, JSON-080"""
    raw = sample(route)
    with pytest.raises(Refusal, match="unknown"):
        route.decode(raw + b"&zzz=1" if route.method == "GET" else raw[:-1] + b',"zzz":1}')


@pytest.mark.parametrize("route", [route for route in ROUTES if route.method == "POST"], ids=lambda r: r.operation)
@pytest.mark.parametrize("raw", [b"", b"[]", b"null", b"{}", b'{"scope":1,"scope":2}'])
def test_a_body_that_is_not_the_object(route, raw):
    """HTTP-019"""
    with pytest.raises(Refusal) as refused:
        route.decode(raw)
    assert (refused.value.status, refused.value.code) == (400, "invalid_input")
    assert refused.value.message is not None
    assert refused.value.message.startswith("body")


@pytest.mark.parametrize(("wait_ms", "expected"), [(0, False), (1, True), (20000, True)])
def test_only_an_acquisition_with_a_wait_is_a_poll(wait_ms, expected):
    """DLV-030, DLV-034"""
    command = json.dumps(SAMPLES["acquire"] | {"wait_ms": wait_ms}).encode()
    assert waits(BY_NAME["acquire"].decode(command)) == expected


def test_routes_and_operations_are_the_same_in_number_and_name():
    """HTTP-042: nothing optional is declared, nothing required is missing"""
    assert sorted(BY_NAME) == sorted(operation.__name__ for operation in OPERATIONS)


def test_nothing_else_waits():
    """HTTP-084"""
    assert [route.operation for route in ROUTES if waits(route.decode(sample(route)))] == []


@pytest.mark.parametrize("operation", OPERATIONS, ids=lambda operation: operation.__name__)
def test_every_operation_has_a_route_that_makes_its_command(operation):
    """The operations are called by name; this is what the type checker cannot see."""
    route = BY_NAME[operation.__name__]
    services, expected, _ = operation.__annotations__.values()
    assert services == "Services"
    assert type(route.decode(sample(route))).__name__ == expected


@pytest.mark.parametrize(
    "path",
    [
        "/v1/workflows/approvals/inspect",
        "/v1/workflows/approvals/list",
        "/v1/workflows/approvals/decide",
        "/v1/completion-subscriptions",
        "/v1/completion-subscriptions/status",
        "/v1/completion-subscriptions/retry",
        "/v1/dispatch/claim",
        "/v1/programs/publication-capabilities",
    ],
)
def test_routes_of_optional_profiles_are_unknown(path: str) -> None:
    """HTTP-042: not declared, so that they answer like any path that does not exist."""
    assert path not in {route.path for route in ROUTES}
