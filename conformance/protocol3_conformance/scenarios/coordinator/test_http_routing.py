"""Paths, methods, order of checks, connections, health (chapter 03)."""

from __future__ import annotations

from protocol3_conformance.bounds import bound
from protocol3_conformance.lab import Lab
from protocol3_conformance.roles.answer import Answer
from protocol3_conformance.scenario import scenario
from protocol3_conformance.wire.faults import TransportFault
from protocol3_conformance.wire.routes import PATHS, allowed_methods
from protocol3_conformance.wire.strict_json import encode
from protocol3_spec.documents import optional_routes

METHODS = ("GET", "POST", "PUT", "PATCH", "DELETE", "HEAD", "OPTIONS")
JSON_FIELDS = [("Content-Type", "application/json")]


@scenario("http/unknown-route", cites=["HTTP-004", "HTTP-010", "HTTP-070", "TASK-004"])
async def test_unknown_route(lab: Lab) -> None:
    """Paths match byte for byte: near misses are route_not_found for every method."""
    near_misses = ["/v1/tasks/", "/v1//tasks", "/v1/Tasks", "/v1/%74asks", "/v1/task", "/v2/tasks", "/v1/workflows/"]
    for path in near_misses:
        for method in ("GET", "POST", "DELETE"):
            with lab.case(f"{method} {path}"):
                Answer(await lab.peer.send(method, path, encode({}) if method == "POST" else b"")).refused(
                    "route_not_found"
                )


@scenario("http/wrong-method", cites=["HTTP-011", "HTTP-022", "TASK-005", "WF-002"])
async def test_wrong_method(lab: Lab) -> None:
    """A known path refuses every other method with 405 and an Allow field that lists exactly its methods."""
    for path in PATHS:
        allowed = allowed_methods(path)
        for method in METHODS:
            if method in allowed:
                continue
            with lab.case(f"{method} {path}"):
                exchange = await lab.peer.send(method, path)
                assert exchange.reply is not None
                assert exchange.reply.status == 405
                assert exchange.reply.field("Allow") == [", ".join(allowed)]
                if method != "HEAD":
                    Answer(exchange).refused("method_not_allowed")


@scenario("http/profiles-not-offered", cites=["HTTP-042", "APR-065"])
async def test_profiles_not_offered(lab: Lab) -> None:
    """A route of a profile that may be missing is unknown or refuses an empty command for good, never for a while."""
    codes = ["route_not_found", "method_not_allowed", "invalid_input", "not_found"]
    for route in optional_routes():
        if route["profile"] in ("approvals", "completions", "dispatch-claims"):
            with lab.case(f"{route['method']} {route['path']}"):
                body = encode({}) if route["method"] == "POST" else b""
                Answer(await lab.peer.send(route["method"], route["path"], body)).refused_with(*codes)


@scenario(
    "http/order-of-checks",
    cites=["HTTP-010", "HTTP-011", "HTTP-015", "HTTP-016", "HTTP-017", "HTTP-019", "HTTP-021", "WF-022"],
)
async def test_order_of_checks(lab: Lab) -> None:
    """Of several faults in one request the first of the contract's order decides."""
    oversized = b"{" + b" " * bound("BODY_BYTES")
    broken, empty = b"{", encode({})
    plain_text = [("Content-Type", "text/plain")]
    unknown = encode({"scope": lab.scope, "task_id": lab.unique("absent"), "more": 1})
    cases = [
        ("path before all", "DELETE", "/v1/nowhere?x", plain_text, broken, "route_not_found", 404),
        ("method before query and media type", "PUT", "/v1/tasks?x", plain_text, broken, "method_not_allowed", 405),
        ("query before media type", "POST", "/v1/tasks/cancel?", plain_text, broken, "invalid_input", 400),
        ("query before size", "POST", "/v1/tasks/cancel?a=b", JSON_FIELDS, oversized, "invalid_input", 400),
        ("media type before size", "POST", "/v1/tasks/cancel", plain_text, oversized, "invalid_input", 415),
        ("media type before JSON", "POST", "/v1/tasks/cancel", plain_text, broken, "invalid_input", 415),
        ("size before JSON", "POST", "/v1/tasks/cancel", JSON_FIELDS, oversized, "invalid_input", 413),
        ("JSON before schema", "POST", "/v1/tasks/cancel", JSON_FIELDS, broken, "invalid_input", 400),
        ("schema before lookup", "POST", "/v1/tasks/cancel", JSON_FIELDS, unknown, "invalid_input", 400),
        ("missing members", "POST", "/v1/tasks/cancel", JSON_FIELDS, empty, "invalid_input", 400),
    ]
    for name, method, target, fields, body, code, status in cases:
        with lab.case(name):
            headers = [*fields, ("Content-Length", str(len(body)))]
            Answer(await lab.peer.send(method, target, body, headers=headers)).refused(code, status)


@scenario("http/connection-goes-on", cites=["HTTP-001"])
async def test_connection_goes_on(lab: Lab) -> None:
    """One connection serves exchange after exchange, refusals of reads and commands included."""
    connection = await lab.peer.connect()
    absent = {"scope": lab.scope, "task_id": lab.unique("absent")}
    submission = encode(lab.client.submission())
    steps = [
        ("POST", "/v1/tasks", submission, 200),
        ("GET", "/v1/tasks/status?tenant_id=a", b"", 400),
        ("POST", "/v1/tasks/cancel", encode(absent), 404),
        ("GET", "/v1/nowhere", b"", 404),
        ("POST", "/v1/tasks", submission, 200),
    ]
    for number, (method, target, body, status) in enumerate(steps):
        with lab.case(f"exchange {number + 1} on one connection"):
            exchange = lab.peer.record(method, target, lab.peer.standard_headers(method, body), body)
            await lab.peer.run_on(connection, exchange, lab.peer.bytes_of(exchange))
            assert exchange.reply is not None
            assert exchange.reply.status == status
            assert exchange.reply.keeps_connection, "the service ended a connection after a complete exchange"
    connection.close()


@scenario("http/split-bytes", cites=["HTTP-001", "HTTP-002"])
async def test_split_bytes(lab: Lab) -> None:
    """A request is the same however its bytes are cut into packets."""
    body = encode(lab.client.submission(data={"text": "\u00e9\U0001f600" * 20}))
    exchange = lab.peer.record("POST", "/v1/tasks", lab.peer.standard_headers("POST", body), body)
    data = lab.peer.bytes_of(exchange)
    connection = await lab.peer.connect()
    for at in range(0, len(data) - 1, 17):
        await connection.send(data[at : min(at + 17, len(data) - 1)])
    await lab.peer.run_on(connection, exchange, data[-1:])
    Answer(exchange).accepted()
    connection.close()


@scenario("http/incomplete-body", cites=["HTTP-018", "TASK-016"])
async def test_incomplete_body(lab: Lab) -> None:
    """A body that ends early is refused or left unanswered, and the command in it, though whole, never happened."""
    command = lab.client.submission(data="cut off")
    body = encode(command) + b" " * 10
    exchange = lab.peer.record("POST", "/v1/tasks", lab.peer.standard_headers("POST", body), body)
    connection = await lab.peer.connect()
    await connection.send(lab.peer.bytes_of(exchange)[:-10])
    connection.finish_sending()
    try:
        Answer(await lab.peer.run_on(connection, exchange, b"")).refused("invalid_input")
    except TransportFault:
        # A server may drop a client that closed its half; what counts then is that nothing was stored.
        assert exchange.reply is None
    connection.close()
    other = {**command, "input": {**command["input"], "data": "complete"}}
    (await lab.client.post("/v1/tasks", other)).accepted()


@scenario("http/foreign-headers", cites=["TRC-011", "TASK-017", "TASK-018", "HTTP-024", "CLI-001"])
async def test_foreign_headers(lab: Lab) -> None:
    """Trace and idempotency header fields neither enter the command nor make it fail; a GET's media type is ignored."""
    traceparent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
    fields = {
        "valid trace": [("traceparent", traceparent), ("tracestate", "vendor=one")],
        "two traces": [("traceparent", traceparent), ("traceparent", traceparent)],
        "malformed trace": [("traceparent", "00-zz"), ("tracestate", ",,==")],
        "idempotency key": [("Idempotency-Key", "one for all")],
    }
    tasks = set()
    for name, extra in fields.items():
        with lab.case(name):
            body = encode(lab.client.submission(data=name))
            headers = [*lab.peer.standard_headers("POST", body), *extra]
            task = Answer(await lab.peer.send("POST", "/v1/tasks", body, headers=headers)).accepted()
            assert task["origin_trace"] is None
            tasks.add(task["task_id"])
    assert len(tasks) == len(fields)
    query = f"/v1/tasks/status?tenant_id=x&namespace=y&task_id={lab.unique('absent').replace(':', '%3A')}"
    Answer(await lab.peer.send("GET", query, headers=[("Content-Type", "text/plain")])).refused("not_found")


@scenario("http/health", cites=["HTTP-023", "HTTP-090", "HTTP-091", "HTTP-093"])
async def test_health(lab: Lab) -> None:
    """The health routes answer without a scope and without a Request-Id, to a HEAD without a body, to nothing else."""
    live = await lab.peer.send("GET", "/health/live")
    assert live.value == {"status": "ok", "reasons": []}
    ready = await lab.peer.send("GET", "/health/ready")
    assert ready.reply is not None
    assert ready.value["status"] == {200: "ok", 503: "not_ready"}[ready.reply.status]
    assert isinstance(ready.value["reasons"], list)
    assert (ready.value["reasons"] == []) == (ready.reply.status == 200)
    age = ready.value["recovery_last_success_age_ms"]
    assert age is None or (isinstance(age, int) and age >= 0)
    for exchange in (live, ready):
        assert exchange.reply is not None
        assert exchange.reply.field("Request-Id") == []
        assert exchange.reply.field("Cache-Control") == ["no-store"]
        assert [value.split(";")[0] for value in exchange.reply.field("Content-Type")] == ["application/json"]
    for path in ("/health/live", "/health/ready"):
        with lab.case(path):
            mirrored = await lab.peer.send("HEAD", path)
            assert mirrored.reply is not None
            assert mirrored.reply.status in (200, 503)
            assert mirrored.reply.body == b""
            refused = await lab.peer.send("POST", path)
            assert refused.reply is not None
            assert refused.reply.status == 405
            assert b"method_not_allowed" not in refused.reply.body


@scenario("http/fixed-scope", cites=["HTTP-020", "DLV-313"], profile="core fixed-scope")
async def test_fixed_scope(lab: Lab) -> None:
    """A service bound to one scope answers not_found to every other scope, whatever else is wrong."""
    foreign = lab.client_in(lab.other_scope)
    (await foreign.submit_task()).refused("not_found")
    (await foreign.submit_workflow()).refused("not_found")
    (await foreign.list_tasks()).refused("not_found")
    (await foreign.status("any")).refused("not_found")
    (await foreign.cancel_workflow("any")).refused("not_found")
    (await foreign.send_event("any", "key", foreign.event())).refused("not_found")
    opening = {"scope": foreign.scope, "queue": lab.queue, "concurrency": 1}
    (await foreign.post("/v1/worker-sessions", opening)).refused("not_found")
    worker = await lab.worker()
    (await worker.acquire(1, scope=foreign.scope)).refused("not_found")
