"""However the bytes of a connection are cut into packets, the replies are the same."""

import asyncio
from itertools import pairwise

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

JSON = b"Content-Type: application/json\r\n"
POST = b"POST /v1/both HTTP/1.1\r\nHost: test\r\n"

REQUESTS = {
    b"GET /v1/get?a=b HTTP/1.1\r\nHost: test\r\n\r\n": 200,
    b"GET /v1/get HTTP/1.1\r\nHost: test\r\n\r\n": 400,
    b"GET /v1/get?a=b HTTP/1.1\r\nHost: test\r\nContent-Length: 3\r\n\r\nabc": 400,
    b"GET /v1/nowhere HTTP/1.1\r\nHost: test\r\n\r\n": 404,
    b"PUT /v1/both HTTP/1.1\r\nHost: test\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n": 405,
    POST + JSON + b"Content-Length: 3\r\n\r\n123": 200,
    POST + JSON + b"Transfer-Encoding: chunked\r\n\r\n1\r\n1\r\n2\r\n23\r\n0\r\n\r\n": 200,
    POST + JSON + b"Content-Length: 3\r\n\r\nabc": 400,
    POST + b"Content-Length: 3\r\n\r\n123": 415,
    POST + JSON + b"Content-Length: 102\r\n\r\n" + b" " * 102: 413,
    POST + JSON + b"Transfer-Encoding: chunked\r\n\r\n66\r\n" + b" " * 102 + b"\r\n0\r\n\r\n": 413,
}
"""Requests that leave the connection open, with the status of their reply."""

LAST = {
    b"": None,
    b"nonsense\r\n\r\n": 400,
    POST + JSON + JSON + b"Content-Length: 3\r\n\r\n123": 415,
    POST + JSON + b"Content-Length: 3\r\n\r\n12": 400,
    POST + JSON + b"Transfer-Encoding: chunked\r\n\r\n3\r\n12": 400,
}
"""What may come before the client's end, with the status of its reply."""


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture], derandomize=True)
@given(
    requests=st.lists(st.sampled_from(sorted(REQUESTS)), max_size=6),
    last=st.sampled_from(sorted(LAST)),
    cuts=st.lists(st.integers(min_value=0, max_value=2000), max_size=12),
)
async def test_packets_do_not_matter(edge, requests, last, cuts):
    """HTTP-001, HTTP-002, HTTP-018, HTTP-025: pipelined requests, refusals among them, then the client's end"""
    stream = b"".join(requests) + last
    wire = await edge.connect()
    places = sorted({0, len(stream), *(cut for cut in cuts if cut < len(stream))})
    for start, end in pairwise(places):
        await wire.send(stream[start:end])
        await asyncio.sleep(0)
    wire.end()
    expected = [REQUESTS[request] for request in requests] + [LAST[last]] * bool(last)
    assert [(await wire.answer()).status for _ in expected] == expected
    assert await wire.ended()
    wire.writer.close()
