"""Query strings at the edge (HTTP-003, HTTP-014, HTTP-015; the parser's own cases are tests of the contract)."""

import pytest


async def test_sixteen_kibibytes_of_query(wire):
    """HTTP-003, TASK-009"""
    answer = await wire.get("/v1/both?a=" + "x" * 16382)
    assert answer.json == {"a": "x" * 16382}
    assert (await wire.get("/v1/both?a=" + "x" * 16383)).code == (400, "invalid_input")
    assert await wire.still_serves()


@pytest.mark.parametrize(("size", "status"), [(49, 200), (50, 200), (51, 400)])
async def test_the_limit_of_a_query_counts_raw_bytes(wire, size, status):
    """HTTP-014: before decoding, so an escape counts three"""
    query = "a=" + "%41" * 15 + "x" * (size - 47)
    assert (await wire.get(f"/v1/get?{query}")).status == status


@pytest.mark.parametrize(
    "query",
    [
        "",
        "?",
        "?&",
        "?a",
        "?a=1&",
        "?&a=1",
        "?a=1&&b=2",
        "?a=%",
        "?a=%4",
        "?a=%GG",
        "?a=%ff",
        "?a=1#",
        "?a=1#b",
        "?#a=1",
    ],
)
async def test_malformed_queries(edge, wire, query):
    """HTTP-050, HTTP-051, HTTP-052 (a `#` is not legal in a query), HTTP-059"""
    answer = await wire.get("/v1/get" + query)
    assert answer.code == (400, "invalid_input")
    assert answer.json["message"].startswith("query")
    assert edge.operations.commands == []
    assert await wire.still_serves()


async def test_names_collide_after_decoding(wire):
    """HTTP-053"""
    assert (await wire.get("/v1/get?task_id=1&%74ask_id=2")).code == (400, "invalid_input")


@pytest.mark.parametrize(
    ("query", "value"),
    [
        ("a=/:@?=;~", "/:@?=;~"),
        ("a=b+c%20d%2Bd", "b c d+d"),
        ("a=%c3%A9", "\u00e9"),
        ("a=", ""),
        ("a=%00", "\x00"),
        ("a=%23", "#"),
        ("a=!$'()*,[]", "!$'()*,[]"),
    ],
)
async def test_values_arrive_decoded_once(wire, query, value):
    """HTTP-051, HTTP-052"""
    assert (await wire.get("/v1/get?" + query)).json == {"a": value}


@pytest.mark.parametrize("octets", ["\u00c3\u00a9", "\u00ff", "\x01", " x"])
async def test_raw_bytes_that_no_target_may_hold_get_a_bare_400(wire, octets):
    """Outside RFC 3986, so this is no request line; escaped they are data (HTTP-051)"""
    answer = await wire.ask(wire.head("GET", f"/v1/get?a={octets}"))
    assert (answer.status, answer.body) == (400, b"")


@pytest.mark.parametrize("target", ["/v1/get#", "/v1/get#x", "/v1/get#?a=1", "/v1/get#x?a=1", "/health/live#x"])
async def test_a_number_sign_before_the_query_belongs_to_the_path(wire, target):
    """HTTP-004, HTTP-010: a request target has no fragment"""
    assert (await wire.get(target)).code == (404, "route_not_found")
    assert await wire.still_serves()


async def test_a_post_has_no_query(edge, wire):
    """HTTP-015, TASK-012: a bare question mark is one"""
    for target in ("/v1/both?", "/v1/both?a=b", "/v1/both??"):
        assert (await wire.post(target, b"1")).code == (400, "invalid_input")
        assert await wire.still_serves()
