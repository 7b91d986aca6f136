"""Media types, encodings, body limits, transfer codings, bodies of GET requests (chapter 03)."""

from __future__ import annotations

from protocol3_conformance.bounds import bound
from protocol3_conformance.lab import Lab
from protocol3_conformance.roles.answer import Answer
from protocol3_conformance.scenario import scenario
from protocol3_conformance.vectors import accepted, section
from protocol3_conformance.wire.http import chunked
from protocol3_conformance.wire.strict_json import encode

JSON_TYPE = ("Content-Type", "application/json")


@scenario("http/media-types", cites=["HTTP-016", "HTTP-030", "HTTP-031", "TASK-013"])
async def test_media_types(lab: Lab) -> None:
    """One Content-Type field of the allowed spellings; anything else is 415."""
    body = encode({"scope": lab.scope, "task_id": lab.unique("absent")})
    length = ("Content-Length", str(len(body)))
    cases = [(case["id"], [("Content-Type", case["value"])], accepted(case)) for case in section("content_type")]
    cases += [("none", [], False), ("two fields", [JSON_TYPE, JSON_TYPE], False)]
    for name, fields, allowed in cases:
        with lab.case(name):
            answer = Answer(await lab.peer.send("POST", "/v1/tasks/cancel", body, headers=[*fields, length]))
            answer.refused("not_found") if allowed else answer.refused("invalid_input", 415)


@scenario("http/content-encodings", cites=["HTTP-016", "HTTP-032", "TASK-014"])
async def test_content_encodings(lab: Lab) -> None:
    """No Content-Encoding or one `identity`; everything else is 415, an empty field and a doubled one included."""
    body = encode({"scope": lab.scope, "task_id": lab.unique("absent")})
    fields = [JSON_TYPE, ("Content-Length", str(len(body)))]
    cases = {
        "identity": (["identity"], True),
        "gzip": (["gzip"], False),
        "upper case": (["Identity"], False),
        "empty": ([""], False),
        "two fields": (["identity", "identity"], False),
        "list": (["identity, identity"], False),
    }
    for name, (values, allowed) in cases.items():
        with lab.case(name):
            headers = [*fields, *(("Content-Encoding", value) for value in values)]
            answer = Answer(await lab.peer.send("POST", "/v1/tasks/cancel", body, headers=headers))
            answer.refused("not_found") if allowed else answer.refused("invalid_input", 415)


@scenario("http/body-limits", cites=["HTTP-017", "HTTP-025", "HTTP-002", "JSON-062", "JSON-064", "TASK-015", "WF-003"])
async def test_body_limits(lab: Lab) -> None:
    """A raw body of exactly the route's limit is read, one byte more is 413; whitespace counts, chunked or not."""
    absent = {"scope": lab.scope, "task_id": lab.unique("absent")}
    event = {"scope": lab.scope, "workflow_id": lab.unique("absent"), "key": "k", "event": lab.client.event()}
    for path, limit, command in [
        ("/v1/tasks/cancel", bound("BODY_BYTES"), absent),
        ("/v1/workflows/events", bound("EVENT_BODY_BYTES"), event),
    ]:
        body = encode(command)
        for size in (limit, limit + 1):
            padded = b" " + body + b"\n" * (size - len(body) - 1)
            for coding in ("Content-Length", "chunked"):
                with lab.case(f"{path}: {size} bytes, {coding}"):
                    answer = await _post(lab, path, padded, as_chunks=coding == "chunked")
                    answer.refused("not_found") if size == limit else answer.refused("invalid_input", 413)


@scenario("http/fork-and-settlement-limits", cites=["HTTP-017", "FRK-010", "TASK-015"], profile="core forks")
async def test_fork_and_settlement_limits(lab: Lab) -> None:
    """The routes with limits of their own: forks and settlements."""
    for path, limit in [
        ("/v1/workflows/forks", bound("FORK_BODY_BYTES")),
        ("/v1/settlements", bound("SETTLEMENT_BODY_BYTES")),
    ]:
        for size, status in ((limit, 400), (limit + 1, 413)):
            with lab.case(f"{path}: {size} bytes"):
                padded = b"{}" + b" " * (size - 2)
                (await _post(lab, path, padded, as_chunks=False)).refused("invalid_input", status)


@scenario("http/limit-while-streaming", cites=["HTTP-025"])
async def test_limit_while_streaming(lab: Lab) -> None:
    """The limit is enforced while the body arrives: 413 comes although the body never ends."""
    size = bound("EVENT_BODY_BYTES") + 1
    headers = [JSON_TYPE, ("Transfer-Encoding", "chunked")]
    exchange = lab.peer.record("POST", "/v1/workflows/events", headers, b"")
    connection = await lab.peer.connect()
    unfinished = chunked(b" " * size, 4096).removesuffix(b"0\r\n\r\n")
    await lab.peer.run_on(connection, exchange, lab.peer.bytes_of(exchange) + unfinished)
    Answer(exchange).refused("invalid_input", 413)
    connection.close()


@scenario("http/chunked-command", cites=["HTTP-002"])
async def test_chunked_command(lab: Lab) -> None:
    """A chunked command is the same command."""
    command = lab.client.submission(data=list(range(50)))
    plain = (await lab.client.post("/v1/tasks", command)).accepted()
    again = (await _post(lab, "/v1/tasks", encode(command), as_chunks=True)).accepted()
    assert again == plain


@scenario("http/get-body", cites=["HTTP-013", "TASK-008"])
async def test_get_body(lab: Lab) -> None:
    """A GET with a body is refused; an announced empty body is none."""
    task = await lab.client.task()
    query = "&".join(f"{name}={_percent(value)}" for name, value in {**lab.scope, "task_id": task["task_id"]}.items())
    target = f"/v1/tasks/status?{query}"
    cases = {
        "length 0": ([("Content-Length", "0")], b"", True),
        "empty chunked": ([("Transfer-Encoding", "chunked")], b"0\r\n\r\n", True),
        "two bytes": ([("Content-Length", "2")], b"{}", False),
        "chunked bytes": ([("Transfer-Encoding", "chunked")], chunked(b"{}", 2), False),
    }
    for name, (headers, wire_body, allowed) in cases.items():
        with lab.case(name):
            answer = Answer(await lab.peer.send("GET", target, headers=headers, wire_body=wire_body))
            answer.accepted() if allowed else answer.refused("invalid_input")


@scenario("http/message-keeps-quiet", cites=["HTTP-065"])
async def test_message_keeps_quiet(lab: Lab) -> None:
    """The message of a refusal does not repeat application data."""
    mark = "correct-horse-battery-staple"
    command = lab.client.submission(data={"card": mark}, attempt_timeout_ms=1)
    for name, body in {"field": encode(command), "syntax": encode(command)[:-1]}.items():
        with lab.case(name):
            answer = await lab.client.post("/v1/tasks", body)
            answer.refused("invalid_input")
            assert mark not in answer.value["message"]


@scenario("http/message-of-a-long-name", cites=["HTTP-065", "HTTP-094", "HTTP-019"])
async def test_message_of_a_long_name(lab: Lab) -> None:
    """A refusal stays within its bounds whatever the length of the name that is wrong."""
    name = "n" * (2 * bound("ERROR_REPLY_BYTES"))
    (await lab.client.post("/v1/tasks", {**lab.client.submission(), name: 1})).refused("invalid_input")
    twice = encode({name: 1})[:-1] + b"," + encode({name: 2})[1:]
    (await lab.client.post("/v1/tasks", twice)).refused("invalid_input")
    word = lab.client.submission(retry_policy={name: 1})
    (await lab.client.post("/v1/tasks", word)).refused("invalid_input")


async def _post(lab: Lab, path: str, body: bytes, *, as_chunks: bool) -> Answer:
    if as_chunks:
        headers = [JSON_TYPE, ("Transfer-Encoding", "chunked")]
        return Answer(await lab.peer.send("POST", path, body, headers=headers, wire_body=chunked(body, 16000)))
    return Answer(await lab.peer.post(path, body))


def _percent(text: str) -> str:
    return "".join(f"%{byte:02X}" for byte in text.encode())
