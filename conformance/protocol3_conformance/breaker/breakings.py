"""The rules that the proxy can break. Each breaking sees one exchange at a time and may remember earlier ones."""

from __future__ import annotations

import gzip
import secrets
import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

from protocol3_conformance.wire.http import Reply
from protocol3_conformance.wire.strict_json import InvalidJson, JsonValue, decode, encode


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """A request on its way to the service."""

    method: str
    path: str
    body: bytes

    @property
    def value(self) -> Any:
        """The decoded body, or None."""
        try:
            return decode(self.body)
        except InvalidJson:
            return None


def keep_request(request: Request, memory: dict[str, Any]) -> Request:
    return request


@dataclass(frozen=True, slots=True, kw_only=True)
class Breaking:
    """`reply` changes what comes back, `request` what is passed on; `memory` lives as long as the proxy."""

    name: str
    sentence: str
    rules: tuple[str, ...]
    reply: Callable[[Request, Reply, dict[str, Any]], Reply]
    request: Callable[[Request, dict[str, Any]], Request] = field(default=keep_request)


def with_value(reply: Reply, value: JsonValue) -> Reply:
    """The reply with another body."""
    return replace(reply, body=encode(value))


def without_field(reply: Reply, name: str) -> Reply:
    return replace(reply, headers=tuple(entry for entry in reply.headers if entry[0].lower() != name.lower()))


def on(
    path: str, change: Callable[[Any, Any, dict[str, Any]], Any]
) -> Callable[[Request, Reply, dict[str, Any]], Reply]:
    """Change the JSON of successful replies of one path: change(request value, reply value, memory)."""

    def apply(request: Request, reply: Reply, memory: dict[str, Any]) -> Reply:
        if request.path != path or reply.status != 200:
            return reply
        return with_value(reply, change(request.value, decode(reply.body), memory))

    return apply


def _created(request: Request, reply: Reply, memory: dict[str, Any]) -> Reply:
    submitted = request.method == "POST" and request.path == "/v1/tasks" and reply.status == 200
    return replace(reply, status=201) if submitted else reply


def _cacheable(request: Request, reply: Reply, memory: dict[str, Any]) -> Reply:
    return without_field(reply, "Cache-Control")


def _same_request_id(request: Request, reply: Reply, memory: dict[str, Any]) -> Reply:
    return replace(
        without_field(reply, "Request-Id"), headers=(*without_field(reply, "Request-Id").headers, ("Request-Id", "one"))
    )


def _compressed(request: Request, reply: Reply, memory: dict[str, Any]) -> Reply:
    return replace(reply, body=gzip.compress(reply.body), headers=(*reply.headers, ("Content-Encoding", "gzip")))


def _integral_floats(request: Request, reply: Reply, memory: dict[str, Any]) -> Reply:
    """1.0 turns into 1 wherever it stands."""

    def rounded(value: Any) -> Any:
        if isinstance(value, float) and value.is_integer() and abs(value) < 2**53:
            return int(value)
        if isinstance(value, list):
            return [rounded(item) for item in value]
        return {name: rounded(item) for name, item in value.items()} if isinstance(value, dict) else value

    return with_value(reply, rounded(decode(reply.body))) if reply.status == 200 and reply.body else reply


def _chatty_conflict(request: Request, reply: Reply, memory: dict[str, Any]) -> Reply:
    return with_value(reply, {"code": "conflict", "message": "differs"}) if b'"conflict"' in reply.body else reply


def _null_lineage(request: Any, reply: Any, memory: dict[str, Any]) -> Any:
    return {"parent_workflow_id": None, "root_workflow_id": None, **reply}


def _replay_forgets(request: Any, reply: Any, memory: dict[str, Any]) -> Any:
    return {**reply, "already_accepted": False}


def _renewal_replay_extends(request: Any, reply: Any, memory: dict[str, Any]) -> Any:
    """A repeated renewal looks as if it had extended the lease."""
    seen = memory.setdefault("renewals", set())
    named = (request["owner"]["lease_id"], request["sequence"])
    repeated = named in seen
    seen.add(named)
    return {**reply, "expires_at": reply["expires_at"] + 5} if repeated else reply


def _event_twice(request: Any, reply: Any, memory: dict[str, Any]) -> Any:
    """The first activation after the woken one gets the same wake again."""
    wakes: dict[str, tuple[str, Any]] = memory.setdefault("wakes", {})
    workflow, activation = reply["workflow_id"], reply["activation_id"]
    if "wake" in reply:
        wakes.setdefault(workflow, (activation, reply["wake"]))
        return reply
    woken, wake = wakes.get(workflow, (activation, None))
    return reply if woken == activation else {**reply, "inputs": {}, "wake": wake}


def _thawing_inputs(request: Any, reply: Any, memory: dict[str, Any]) -> Any:
    """A consumed child result is delivered again to every later activation."""
    delivered = memory.setdefault(reply["workflow_id"], {})
    if "wake" in reply:
        return reply
    delivered.update(reply["inputs"])
    return {**reply, "inputs": dict(delivered)}


def _receipt_of_now(request: Any, reply: Any, memory: dict[str, Any]) -> Any:
    """The time of acceptance moves with every repetition."""
    memory["repeats"] = memory.get("repeats", 0) + 1
    return {**reply, "accepted_at": reply["accepted_at"] + memory["repeats"]} if reply["already_accepted"] else reply


def _deaf_to_cancel(request: Request, memory: dict[str, Any]) -> Request:
    """A cancel of a task is turned into a cancel of nothing; the reply is invented."""
    if request.path != "/v1/tasks/cancel" or not isinstance(request.value, dict):
        return request
    return replace(request, method="GET", path="/health/live", body=b"")


def _cancel_acknowledged(request: Request, reply: Reply, memory: dict[str, Any]) -> Reply:
    if request.path != "/v1/tasks/cancel":
        return reply
    memory["number"] = memory.get("number", 0) + 1
    headers = (
        ("Content-Type", "application/json"),
        ("Cache-Control", "no-store"),
        ("Request-Id", f"c{memory['number']}"),
    )
    return replace(reply, status=200, headers=headers, body=b'"active"')


def _failures_become_retryable(request: Request, memory: dict[str, Any]) -> Request:
    """A failure that the program reports reaches the service as an interrupted execution."""
    value = request.value
    if request.path != "/v1/settlements" or not isinstance(value, dict):
        return request
    outer = value.get("report")
    inner = outer.get("report") if isinstance(outer, dict) else None
    outcome = inner.get("outcome") if isinstance(inner, dict) else None
    if not isinstance(inner, dict) or not isinstance(outcome, dict) or outcome.get("status") != "failure":
        return request
    process = ("process_id", "reused_process", "elapsed_ms", "outcome")
    report = {name: item for name, item in inner.items() if name not in process}
    report["error"] = {"kind": "runtime", "message": str(outcome.get("message"))}
    report |= {"phase": "execution", "execution_may_have_started": True}
    return replace(request, body=encode({**value, "report": {"kind": "failed", "report": report}}))


def _attempts_not_counted(request: Request, reply: Reply, memory: dict[str, Any]) -> Reply:
    """Reads show one attempt, however many there were."""
    if request.path not in ("/v1/tasks/status", "/v1/tasks/result") or reply.status != 200:
        return reply
    value: Any = decode(reply.body)
    status = value.get("task", value)
    status["attempt_count"] = min(status["attempt_count"], 1)
    return with_value(reply, value)


def _remember_scopes(request: Request, reply: Reply, memory: dict[str, Any]) -> Reply:
    if request.method == "POST" and request.path in ("/v1/tasks", "/v1/workflows") and reply.status == 200:
        value: Any = decode(reply.body)
        sent = request.value["input"]
        scope = {name: sent[name] for name in ("tenant_id", "namespace")}
        memory[value["workflow_id" if request.path == "/v1/workflows" else "task_id"]] = scope
    return reply


def _cancel_in_any_scope(request: Request, memory: dict[str, Any]) -> Request:
    """The id alone finds what is cancelled."""
    value = request.value
    if request.path not in ("/v1/tasks/cancel", "/v1/workflows/cancel") or not isinstance(value, dict):
        return request
    scope = memory.get(str(value.get("task_id", value.get("workflow_id"))), value.get("scope"))
    return replace(request, body=encode({**value, "scope": scope}))


def _note_waits(request: Request, memory: dict[str, Any]) -> None:
    """Which keys the decisions of which workflow have waited for."""
    value = request.value
    if request.path == SETTLEMENTS and isinstance(value, dict):
        report = value["report"]["report"]
        decision = report.get("outcome", {}).get("output")
        if isinstance(decision, dict) and "wait" in decision and "workflow_id" in report:
            memory.setdefault("waits", set()).add((report["workflow_id"], decision["wait"]["key"]))


def _swallow_early_events(request: Request, memory: dict[str, Any]) -> Request:
    """An event that comes before its wait never reaches the service."""
    _note_waits(request, memory)
    value = request.value
    if request.path != EVENTS or not isinstance(value, dict):
        return request
    named = (value.get("workflow_id"), value.get("key"))
    if named in memory.get("waits", ()) or named in memory.get("lost", ()):
        return request
    memory.setdefault("swallowed", set()).add(request.body)
    return replace(request, method="GET", path="/health/live", body=b"")


def _receipt_of_nothing(request: Request, reply: Reply, memory: dict[str, Any]) -> Reply:
    swallowed = memory.get("swallowed", set())
    if request.path != EVENTS or request.body not in swallowed:
        return reply
    swallowed.remove(request.body)
    value = request.value
    memory.setdefault("lost", set()).add((value["workflow_id"], value["key"]))
    receipt = {name: value[name] for name in ("scope", "workflow_id", "key")}
    receipt |= {"event_id": value["event"]["id"], "event_source": value["event"]["source"]}
    receipt |= {"accepted_at": int(time.time() * 1000), "already_accepted": False}
    headers = (
        ("Content-Type", "application/json"),
        ("Cache-Control", "no-store"),
        ("Request-Id", secrets.token_hex(8)),
    )
    return replace(reply, status=200, headers=headers, body=encode(receipt))


def unchanged(request: Request, reply: Reply, memory: dict[str, Any]) -> Reply:
    return reply


def _breaking(name: str, sentence: str, rules: str, reply: Any, request: Any = keep_request) -> Breaking:
    return Breaking(name=name, sentence=sentence, rules=tuple(rules.split()), reply=reply, request=request)


SETTLEMENTS, EVENTS, CONTEXT = "/v1/settlements", "/v1/workflows/events", "/v1/workflows/activations/context"
_ALL = (
    _breaking("nothing", "Passes everything on unchanged.", "", unchanged),
    _breaking("created", "Answers a submission with 201.", "HTTP-060", _created),
    _breaking("cacheable", "Leaves Cache-Control out.", "HTTP-061", _cacheable),
    _breaking("same-request-id", "Gives every exchange one Request-Id.", "HTTP-062", _same_request_id),
    _breaking("compressed", "Compresses replies.", "HTTP-033", _compressed),
    _breaking("integral-floats", "Returns 1 where 1.0 was sent.", "JSON-046 TASK-037", _integral_floats),
    _breaking("chatty-conflict", "Adds a message to `conflict`.", "HTTP-064", _chatty_conflict),
    _breaking(
        "null-lineage",
        "Writes a root's missing ancestors as null.",
        "CLI-023 WF-032",
        on("/v1/workflows", _null_lineage),
    ),
    _breaking(
        "settlement-replay-forgets",
        "Answers the replay of a settlement as if it were the first.",
        "DLV-074",
        on(SETTLEMENTS, _replay_forgets),
    ),
    _breaking(
        "renewal-replay-extends",
        "Moves the lease when a renewal is repeated.",
        "DLV-057",
        on("/v1/renewals", _renewal_replay_extends),
    ),
    _breaking(
        "event-twice", "Delivers an event to two activations.", "TMR-021 TMR-022 EVT-021", on(CONTEXT, _event_twice)
    ),
    _breaking("inputs-twice", "Delivers consumed results again.", "CHD-053", on(CONTEXT, _thawing_inputs)),
    _breaking("receipt-of-now", "Moves accepted_at of a replayed event.", "EVT-012", on(EVENTS, _receipt_of_now)),
    _breaking(
        "deaf-to-cancel", "Acknowledges a cancel and forgets it.", "TASK-206", _cancel_acknowledged, _deaf_to_cancel
    ),
    _breaking(
        "retries-program-failures",
        "Retries a failure that the program itself reported.",
        "DLV-087",
        unchanged,
        _failures_become_retryable,
    ),
    _breaking(
        "fork-replay-forgets",
        "Answers the replay of a fork as if it were the first.",
        "FRK-010 FRK-014",
        on("/v1/workflows/forks", _replay_forgets),
    ),
    _breaking("attempts-not-counted", "Counts no attempt after the first.", "DLV-024", _attempts_not_counted),
    _breaking(
        "cancel-in-any-scope",
        "Finds what is to be cancelled by its id alone.",
        "TASK-050 TASK-228 WF-063",
        _remember_scopes,
        _cancel_in_any_scope,
    ),
    _breaking(
        "early-events-lost",
        "Accepts an event before its wait, and forgets it.",
        "EVT-012 EVT-013 EVT-015 TMR-010",
        _receipt_of_nothing,
        _swallow_early_events,
    ),
)
BREAKINGS = {breaking.name: breaking for breaking in _ALL}
