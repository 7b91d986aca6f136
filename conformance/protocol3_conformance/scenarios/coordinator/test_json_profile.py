"""The JSON profile and the bounds of submissions (chapters 01 and 02)."""

from __future__ import annotations

from typing import Any

from protocol3_conformance.bounds import bound
from protocol3_conformance.lab import Lab
from protocol3_conformance.roles.answer import Answer
from protocol3_conformance.scenario import scenario
from protocol3_conformance.vectors import accepted, document_bytes, documents, section
from protocol3_conformance.wire.strict_json import InvalidJson, compact_size, decode, encode, same

MARK = "HERE"


def spelled(command: Any, data: bytes) -> bytes:
    """The command with these bytes where its data says HERE."""
    return encode(command).replace(encode(MARK), data)


@scenario(
    "json/accepted-documents",
    cites=["JSON-003", "JSON-007", "JSON-010", "JSON-020", "JSON-023", "JSON-025", "JSON-046"],
)
async def test_accepted_documents(lab: Lab) -> None:
    """Every valid document of the vectors is taken as data and comes back as the same value."""
    raw = [document_bytes(case).strip(b" \t\r\n") for case in documents("decode") if accepted(case)]
    body = spelled(lab.client.submission(data=MARK), b"[" + b",".join(raw) + b"]")
    task = (await lab.client.post("/v1/tasks", body)).accepted()
    for index, document in enumerate(raw):
        assert same(task["input"]["data"][index], decode(document)), f"document {document!r} came back changed"


@scenario(
    "json/refused-documents",
    cites=[
        "JSON-001",
        "JSON-002",
        "JSON-003",
        "JSON-005",
        "JSON-006",
        "JSON-009",
        "JSON-011",
        "JSON-024",
        "JSON-026",
        "TXT-008",
    ],
)
async def test_refused_documents(lab: Lab) -> None:
    """Every invalid document of the vectors, as data of a submission, is refused, and the key stays free."""
    command = lab.client.submission(data=MARK)
    for case in documents("decode"):
        body = spelled(command, document_bytes(case))
        if accepted(case) or _valid(body):
            continue
        with lab.case(case["id"]):
            (await lab.client.post("/v1/tasks", body)).refused("invalid_input")
    await _key_is_free(lab, command)


@scenario("json/whole-bodies", cites=["JSON-001", "JSON-002", "JSON-004", "TASK-030", "JSON-033"])
async def test_whole_bodies(lab: Lab) -> None:
    """A body is one JSON value: nothing before or after it, no byte order mark, no bottomless nesting."""
    command = lab.client.submission(data="x")
    body = encode(command)
    cases = {
        "empty": b"",
        "blank": b" \r\n\t",
        "byte order mark": b"\xef\xbb\xbf" + body,
        "second value": body + b"{}",
        "trailing comma": body + b",",
        "NUL behind": body + b"\x00",
        "form feed before": b"\x0c" + body,
        "no-break space behind": body + "\u00a0".encode(),
        "UTF-16": body.decode().encode("utf-16-le"),
        "array": b"[" + body + b"]",
        "string": encode("text"),
        "null": b"null",
        "unfinished": body[:-1],
        "nested 128 deep": spelled(lab.client.submission(data=MARK), b"[" * 126 + b"]" * 126),
        "nested without end": b"[" * 200_000,
    }
    for name, wrong in cases.items():
        with lab.case(name):
            (await lab.client.post("/v1/tasks", wrong)).refused("invalid_input")
    (await lab.client.post("/v1/tasks", b" \t\r\n" + body + b"\n")).accepted()


@scenario("json/deepest-document", cites=["JSON-033", "JSON-030", "LIM-020", "DLV-073"])
async def test_deepest_document(lab: Lab) -> None:
    """A document of depth 127 is read, though what is so deep is of no interest; one of depth 128 is refused."""
    await lab.client.task()
    claim = await (await lab.worker()).running()
    command = claim.success("done")
    command["report"]["report"]["more"] = MARK
    deepest = bound("REQUEST_DEPTH") - 3  # command, report, its body

    async def settle(levels: int) -> Answer:
        body = spelled(command, b"[" * levels + b"]" * levels)
        return await lab.client.post("/v1/settlements", body)

    (await settle(deepest + 1)).refused("invalid_input", 400)
    assert (await claim.inspect())["settlement"] is None
    assert (await settle(deepest)).accepted()["task_state"] == "succeeded"


@scenario("json/integer-fields", cites=["JSON-027", "TASK-036", "JSON-020"])
async def test_integer_fields(lab: Lab) -> None:
    """A field that is an integer takes only integer tokens within its bounds."""
    for case in documents("typed_integer_fields"):
        if (case["min"], case["max"]) != (1, bound("MAX_ATTEMPTS")):
            continue
        command = lab.client.submission(retry_policy={"max_attempts": MARK, "retry_delay_ms": 0})
        with lab.case(case["id"]):
            answer = await lab.client.post("/v1/tasks", spelled(command, case["raw"].encode()))
            answer.accepted() if accepted(case) else answer.refused("invalid_input")


@scenario("json/data-bounds", cites=["TASK-112", "JSON-060", "TASK-038", "JSON-055", "JSON-031", "LIM-020", "JSON-054"])
async def test_data_bounds(lab: Lab) -> None:
    """Data may take exactly 1 MiB in the service's own spelling and nest exactly 64 containers."""
    limit, deepest = bound("DATA_BYTES"), bound("DATA_DEPTH")
    small = [2.9802322387695312e-8, 1e-05, 1e16]
    rest = "x" * (limit - compact_size([*small, ""]))
    sizes: dict[str, tuple[bytes, bool]] = {
        "ASCII, exact": (encode("x" * (limit - 2)), True),
        "ASCII, one over": (encode("x" * (limit - 1)), False),
        "two bytes a character": (encode("\u00e9" * (limit // 2 - 1)), True),
        "two bytes a character, over": (encode("\u00e9" * (limit // 2 - 1) + "x"), False),
        "floats in the service's spelling": (encode([*small, rest]), True),
        "floats, one over": (encode([*small, rest + "x"]), False),
        "whitespace is not counted": (b"[" + b" " * 1000 + encode("x" * (limit - 4)) + b"]", True),
        "depth 64": (b"[" * deepest + b"]" * deepest, True),
        "depth 65": (b"[" * (deepest + 1) + b"]" * (deepest + 1), False),
        "brackets in a string": (encode(["[{" * deepest + '"[']), True),
        "objects 65 deep": (b'{"a":' * deepest + b"[]" + b"}" * deepest, False),
    }
    for name, (data, allowed) in sizes.items():
        with lab.case(name):
            answer = await lab.client.post("/v1/tasks", spelled(lab.client.submission(data=MARK), data))
            answer.accepted() if allowed else answer.refused("invalid_input", 400)


@scenario("text/identifiers", cites=["TXT-001", "TXT-002", "TXT-003", "TASK-041", "TASK-042", "TXT-009"])
async def test_identifiers(lab: Lab) -> None:
    """Queue names take every text of the identifier class unchanged and nothing else."""
    for case in section("identifier_128"):
        with lab.case(case["id"]):
            answer = await lab.client.submit_task(queue=case["value"])
            if accepted(case):
                assert answer.accepted()["input"]["queue"] == case["value"]
            else:
                answer.refused("invalid_input")
    for case in section("identifier_128_escaped"):
        with lab.case(case["id"]):
            body = spelled(lab.client.submission(queue=MARK), case["json"].encode())
            (await lab.client.post("/v1/tasks", body)).refused("invalid_input")


@scenario("text/keys-and-names", cites=["TXT-004", "TXT-005", "TASK-100", "DISC-008"])
async def test_keys_and_names(lab: Lab) -> None:
    """Idempotency keys, correlation keys and program names follow their own classes."""
    for case in section("correlation_key_512"):
        with lab.case(f"correlation key {case['id']}"):
            answer = await lab.client.submit_task(correlation_key=case["value"])
            if accepted(case):
                assert answer.accepted()["input"]["correlation_key"] == case["value"]
            else:
                answer.refused("invalid_input")
    for case in section("program_name_128"):
        with lab.case(f"program name {case['id']}"):
            # No store knows these names, so a well-formed one gets as far as not_found.
            answer = await lab.client.submit_task(program={"id": case["value"], "version": "0.0.0"})
            answer.refused("not_found") if accepted(case) else answer.refused("invalid_input")
    for case in section("idempotency_key_255"):
        with lab.case(f"idempotency key {case['id']}"):
            answer = await lab.client.submit_task(key=case["value"], program={"id": "no-such", "version": "0"})
            answer.refused("not_found") if accepted(case) else answer.refused("invalid_input")


@scenario(
    "text/trace-carriers",
    cites=["TRC-001", "TRC-002", "TRC-003", "TRC-004", "TRC-005", "TASK-046", "TASK-047", "TASK-048"],
)
async def test_trace_carriers(lab: Lab) -> None:
    """The origin trace of a submission is validated as the vectors say and comes back unchanged."""
    parent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
    cases = [(case, {"traceparent": case["value"]}) for case in section("traceparent")]
    cases += [(case, {"traceparent": parent, "tracestate": case["value"]}) for case in section("tracestate")]
    for case, carrier in cases:
        with lab.case(case["id"]):
            answer = await lab.client.submit_task(origin_trace=carrier)
            if accepted(case):
                assert answer.accepted()["origin_trace"]["traceparent"] == carrier["traceparent"]
            else:
                answer.refused("invalid_input")


def _valid(body: bytes) -> bool:
    try:
        decode(body)
    except InvalidJson:
        return False
    return True


async def _key_is_free(lab: Lab, command: Any) -> None:
    """None of the refused commands was stored: another one is accepted under their key (TASK-016)."""
    (await lab.client.post("/v1/tasks", command)).accepted()
