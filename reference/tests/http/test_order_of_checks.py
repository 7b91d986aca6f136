"""HTTP-010…021: the first failing step decides, and a refused request reaches no operation (TASK-016)."""

import pytest

from protocol3.contract.models.common import Scope

HERE = Scope(tenant_id="t", namespace="n")
WRONG_TYPE = "Content-Type: text/plain"


@pytest.mark.parametrize(
    "path",
    [
        "/v1/both/",
        "/v1//both",
        "//v1/both",
        "/V1/both",
        "/v1/bo%74h",
        "/v1/both;x",
        "/v1/./both",
        "/v1",
        "/",
        "/v1/both%3Fa=b",
        "/health",
        "/health/live/",
        "/v1/dispatch/claim",
    ],
)
async def test_a_path_matches_exactly_or_is_unknown(wire, path):
    """HTTP-004, HTTP-010, HTTP-070"""
    answer = await wire.get(path)
    assert answer.code == (404, "route_not_found")
    assert answer.json == {"code": "route_not_found"}
    assert await wire.still_serves()


@pytest.mark.parametrize("method", ["PUT", "DELETE", "PATCH", "OPTIONS", "TRACE", "PROPFIND"])
@pytest.mark.parametrize(("path", "allow"), [("/v1/both", "GET, POST"), ("/v1/get", "GET"), ("/v1/post", "POST")])
async def test_a_method_that_the_path_does_not_have(wire, method, path, allow):
    """HTTP-011, HTTP-022"""
    answer = await wire.ask(wire.head(method, path))
    assert answer.json == {"code": "method_not_allowed"}
    assert answer.status == 405
    assert answer.one("Allow") == allow
    assert await wire.still_serves()


async def test_head_is_a_wrong_method_and_its_reply_has_no_body(wire):
    """HTTP-022"""
    await wire.send(wire.head("HEAD", "/v1/both"))
    answer = await wire.answer(head_only=True)
    assert answer.status == 405
    assert answer.one("Allow") == "GET, POST"
    assert answer.one("Content-Type") == "application/json"
    assert await wire.still_serves()


async def test_an_unknown_path_comes_before_everything(wire):
    """HTTP-010 before HTTP-011, HTTP-015, HTTP-016"""
    answer = await wire.ask(wire.head("PUT", "/v1/unknown?", WRONG_TYPE, "Content-Length: 2") + b"{]")
    assert answer.code == (404, "route_not_found")


async def test_the_method_comes_before_query_media_type_and_body(wire):
    """HTTP-011 before HTTP-013…018"""
    answer = await wire.ask(wire.head("PUT", "/v1/both?", WRONG_TYPE, "Content-Length: 2") + b"{]")
    assert answer.code == (405, "method_not_allowed")


async def test_shutdown_comes_after_path_and_method_and_before_the_rest(edge):
    """HTTP-012, TASK-006"""
    wires = [await edge.connect() for _ in range(4)]
    edge.exchanges.begin_shutdown()
    assert (await wires[0].get("/v1/unknown")).code == (404, "route_not_found")
    assert (await wires[1].ask(wires[1].head("PUT", "/v1/both"))).code == (405, "method_not_allowed")
    answer = await wires[2].ask(wires[2].head("POST", "/v1/both?", WRONG_TYPE, "Content-Length: 1000"))
    assert answer.code == (503, "unavailable")
    assert (await wires[3].get("/v1/both?x")).code == (503, "unavailable")


async def test_a_body_on_get_comes_before_its_query(wire):
    """HTTP-013 before HTTP-014"""
    answer = await wire.ask(wire.head("GET", "/v1/both", "Content-Length: 2") + b"{}")
    assert answer.code == (400, "invalid_input")
    assert answer.json["message"].startswith("body:")


async def test_a_query_on_post_comes_before_media_type(wire):
    """HTTP-015 before HTTP-016"""
    answer = await wire.ask(wire.head("POST", "/v1/both?", WRONG_TYPE, "Content-Length: 2") + b"{}")
    assert answer.code == (400, "invalid_input")
    assert answer.json["message"].startswith("query:")
    assert await wire.still_serves()


async def test_the_media_type_comes_before_the_size(wire):
    """HTTP-016 before HTTP-017"""
    answer = await wire.ask(wire.head("POST", "/v1/both", WRONG_TYPE, "Content-Length: 101") + b" " * 101)
    assert answer.code == (415, "invalid_input")
    assert await wire.still_serves()


async def test_the_size_comes_before_the_json(wire):
    """HTTP-017 before HTTP-019"""
    assert (await wire.post("/v1/both", b"{" * 101)).code == (413, "invalid_input")


async def test_the_json_comes_before_the_scope(start):
    """HTTP-019 before HTTP-020; the operation sees neither"""
    edge = await start(fixed_scope=HERE)
    wire = await edge.connect()
    assert (await wire.post("/v1/both", b'{"scope":{"tenant_id":"","namespace":"n"}}')).code == (400, "invalid_input")
    assert (await wire.post("/v1/both", b'{"scope":{"tenant_id":"x","namespace":"n"}}')).code == (404, "not_found")
    assert (await wire.post("/v1/both", b'{"scope":{"tenant_id":"t","namespace":"N"}}')).code == (404, "not_found")
    assert edge.operations.commands == []
    assert (await wire.post("/v1/both", b'{"scope":{"tenant_id":"t","namespace":"n"}}')).status == 200
    assert (await wire.post("/v1/both", b"[]")).status == 200  # names no scope: for its operation to judge (DLV-313)


async def test_a_service_without_fixed_scope_takes_every_scope(wire):
    """HTTP-020"""
    assert (await wire.post("/v1/both", b'{"scope":{"tenant_id":"x","namespace":"y"}}')).status == 200


async def test_refused_requests_reach_no_operation(edge, wire):
    """TASK-016"""
    await wire.ask(wire.head("PUT", "/v1/both"))
    await wire.get("/v1/both?x")
    await wire.post("/v1/both?", b"1")
    await wire.post("/v1/both", b"1", WRONG_TYPE.replace("Type", "Encoding"))
    await wire.post("/v1/both", b"0" * 101)
    await wire.post("/v1/both", b"01")
    assert edge.operations.commands == []
