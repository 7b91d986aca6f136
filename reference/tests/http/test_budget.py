"""The exchange budget, clients that leave, and the shutdown (chapter 03, Deadlines and shutdown)."""

import asyncio
import json

import pytest

JSON = "Content-Type: application/json"
SCOPE = {"tenant_id": "t", "namespace": "n"}


def poll(wait_ms: int) -> bytes:
    command = {"scope": SCOPE, "queue": "q", "worker_session_id": "s", "consumer_id": 0, "sequence": 1}
    return json.dumps(command | {"wait_ms": wait_ms}).encode()


@pytest.fixture
async def short(start):
    """An edge whose exchanges have a tenth of a second."""
    return await start(budget_s=0.1)


@pytest.mark.parametrize("field", ["Content-Length: 5", "Transfer-Encoding: chunked"])
async def test_a_body_that_does_not_come_in_time_is_503(short, field):
    """HTTP-080"""
    wire = await short.connect()
    answer = await wire.ask(wire.head("POST", "/v1/both", JSON, field))
    assert answer.code == (503, "unavailable")
    assert short.operations.commands == []


async def test_a_body_that_drips_beyond_the_budget_is_503(short):
    """HTTP-080: progress does not extend the budget"""
    wire = await short.connect()
    await wire.send(wire.head("POST", "/v1/both", JSON, "Content-Length: 100"))
    reply = asyncio.create_task(wire.answer())
    while not reply.done():
        await wire.send(b" ")
        await asyncio.sleep(0.005)
    assert reply.result().code == (503, "unavailable")


async def test_an_operation_that_takes_too_long_is_503_and_is_ended(short):
    """HTTP-080, HTTP-068"""
    wire = await short.connect()
    assert (await wire.post("/v1/held", b"1")).code == (503, "unavailable")
    assert short.operations.finished == ["cancelled"]


async def test_a_result_that_came_too_late_is_not_a_success(short):
    """HTTP-081: also where the loop had no chance to end the operation"""

    async def act():
        loop = asyncio.get_running_loop()
        end = loop.time() + 0.11
        while loop.time() < end:
            pass
        return 1

    short.operations.act = act
    wire = await short.connect()
    assert (await wire.post("/v1/both", b"1")).code == (503, "unavailable")


async def test_a_wait_does_not_extend_the_budget(short):
    """HTTP-082"""
    wire = await short.connect()
    assert (await wire.post("/v1/poll", poll(20000))).code == (503, "unavailable")


async def test_a_timeout_of_the_operation_itself_is_a_fault(edge, wire, caplog):
    """HTTP-067: not mistaken for the budget of the exchange"""

    async def act():
        raise TimeoutError

    edge.operations.act = act
    assert (await wire.post("/v1/both", b"1")).code == (503, "unavailable")
    assert "TimeoutError" in caplog.text


@pytest.mark.parametrize("leave", ["end", "reset"])
async def test_a_waiting_poll_ends_with_its_client(edge, wire, leave):
    """HTTP-084, DLV-034: an ordinary close looks like a half-close, so both count"""
    await wire.send(wire.request("/v1/poll", poll(20000)))
    await edge.entered()
    getattr(wire, leave)()
    await edge.drained()
    assert edge.operations.finished == ["cancelled"]
    if leave == "end":
        assert (await wire.answer()).code == (503, "unavailable")
        assert await wire.ended()


async def test_a_poll_whose_client_is_already_gone_is_not_waited_for(edge, wire):
    """DLV-034: it does not begin, or ends at once where it began before the client's end was seen."""
    await wire.send(wire.request("/v1/poll", poll(1)))
    wire.end()
    assert (await wire.answer()).code == (503, "unavailable")
    assert edge.operations.finished == ["cancelled"] * len(edge.operations.commands)


async def test_a_client_may_leave_after_its_poll(edge, wire, caplog):
    """Its budget is over by then and must not be touched."""
    edge.operations.release.set()
    assert (await wire.post("/v1/poll", poll(1))).json == "released"
    wire.end()
    assert await wire.ended()
    assert caplog.records == []


async def test_a_client_may_leave_while_its_poll_is_being_ended(short, caplog):
    """The budget ended the poll already; the client's end comes on top."""
    wire = await short.connect()
    await wire.send(wire.request("/v1/slow", poll(20000)))
    async with asyncio.timeout(10):
        await short.operations.ended.wait()
    left = asyncio.create_task(short.gone())
    await asyncio.sleep(0)
    wire.end()
    await left
    short.operations.release.set()
    assert (await wire.answer()).code == (503, "unavailable")
    assert await wire.ended()
    assert caplog.records == []


async def test_a_poll_that_does_not_wait_is_an_ordinary_command(edge, wire):
    """DLV-030"""
    await wire.send(wire.request("/v1/poll", poll(0)))
    wire.end()
    await edge.entered()
    edge.operations.release.set()
    assert (await wire.answer()).json == "released"


@pytest.mark.parametrize("leave", ["end", "reset"])
@pytest.mark.parametrize("method", ["GET", "POST"])
async def test_nothing_else_is_abandoned(edge, wire, leave, method):
    """HTTP-084: what may commit runs to its end"""
    await wire.send(wire.request("/v1/held", b"1") if method == "POST" else wire.head("GET", "/v1/held?a=b"))
    await edge.entered()
    left = asyncio.create_task(edge.gone())
    await asyncio.sleep(0)
    getattr(wire, leave)()
    await left
    edge.operations.release.set()
    await edge.drained()
    assert edge.operations.finished == ["done"]


async def test_a_client_that_leaves_in_the_middle_of_its_body_is_no_fault(edge, wire, caplog):
    """HTTP-018, HTTP-084: no operation, no line in the log"""
    await wire.send(wire.head("POST", "/v1/both", JSON, "Content-Length: 50", "Expect: 100-continue"))
    await wire.interim()
    wire.reset()
    await edge.drained()
    assert edge.operations.commands == []
    assert caplog.records == []


async def test_shutdown_refuses_the_new_and_finishes_the_old(edge):
    """HTTP-083, HTTP-092"""
    old, new = await edge.connect(), await edge.connect()
    await old.send(old.request("/v1/held", b"1"))
    await edge.entered()
    edge.exchanges.begin_shutdown()
    draining = asyncio.create_task(edge.exchanges.drained())
    answer = await new.post("/v1/both", b"1")
    assert answer.code == (503, "unavailable")
    assert answer.one("Connection") == "close"
    probe = await edge.connect()
    assert "shutting_down" in (await probe.get("/health/ready")).json["reasons"]
    assert (await probe.get("/health/live")).status == 200
    assert not draining.done()
    edge.operations.release.set()
    assert (await old.answer()).json == "released"
    await draining


async def test_closing_waits_for_replies_and_then_stops_listening(edge, wire):
    """HTTP-083"""
    idle = await edge.connect()
    await wire.send(wire.request("/v1/held", b"1"))
    await edge.entered()
    port = edge.listener.port
    closing = asyncio.create_task(edge.listener.close())
    await asyncio.sleep(0)
    edge.operations.release.set()
    assert (await wire.answer()).json == "released"
    await closing
    assert await wire.ended()
    assert await idle.ended()
    with pytest.raises(ConnectionRefusedError):
        await asyncio.open_connection("127.0.0.1", port)


async def test_closing_does_not_wait_longer_than_its_grace(edge, wire, monkeypatch, caplog):
    """What is cut off is no fault of the service."""
    monkeypatch.setattr("protocol3.coordinator.http.listener.FLUSH_S", 1000.0)
    reading = await edge.connect()
    await reading.send(wire.head("POST", "/v1/both", JSON, "Content-Length: 50", "Expect: 100-continue"))
    await reading.interim()
    await wire.send(wire.request("/v1/held", b"1"))
    await edge.entered()
    async with asyncio.timeout(10):
        await edge.listener.close(grace_s=0.05)
    assert edge.operations.finished == ["cancelled"]
    assert caplog.records == []


async def test_idle_connections_do_not_delay_the_end(edge, wire, monkeypatch):
    monkeypatch.setattr("protocol3.coordinator.http.listener.FLUSH_S", 1000.0)
    assert await wire.still_serves()
    async with asyncio.timeout(10):
        await edge.listener.close()
    assert await wire.ended()


async def test_drained_means_all_of_them(edge, wire):
    """HTTP-083"""
    await wire.send(wire.request("/v1/held", b"1"))
    await edge.entered()
    other = await edge.connect()
    assert await other.still_serves()
    draining = asyncio.create_task(edge.exchanges.drained())
    assert await other.still_serves()
    assert not draining.done()
    edge.operations.release.set()
    await draining


async def test_a_reader_that_stops_is_cut_off(start, monkeypatch):
    """A reply may not occupy its connection for ever."""
    monkeypatch.setattr("protocol3.coordinator.http.reply.SLOW_READER_S", 0.05)
    edge = await start()
    called = asyncio.Event()

    async def act():
        called.set()
        return b"0" * (8 << 20)

    edge.operations.act = act
    wire = await edge.connect()
    wire.writer.transport.pause_reading()
    await wire.send(wire.request("/v1/post", b"1"))
    await called.wait()
    await edge.gone()


async def test_an_exchange_that_never_waits_took_some_time(start):
    """Its time is not that of the loop, which uvloop keeps for a whole turn."""
    seen = []
    wire = await (await start(observers=[seen.append])).connect()
    await wire.get("/v1/nowhere")
    assert [exchange.seconds > 0 for exchange in seen] == [True]
