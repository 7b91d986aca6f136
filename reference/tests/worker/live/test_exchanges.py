"""Uncertain exchanges and definite refusals, at each exchange of an attempt (WRK-004…015, WRK-025…027, WRK-073…075)."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from aiohttp import web

from protocol3.worker.sessions import CannotOpen

Start = Callable[..., Awaitable[Any]]
Publish = Callable[..., Any]

SESSIONS, ACQUISITIONS = "/v1/worker-sessions", "/v1/acquisitions"
RENEWALS, SETTLEMENTS = "/v1/renewals", "/v1/settlements"


def raw(coordinator: Any, path: str) -> list[bytes]:
    return [exchange.raw for exchange in coordinator.exchanges if exchange.path == path]


async def stalled(_: Any, __: Any) -> Any:
    await asyncio.Event().wait()


@pytest.mark.parametrize("path", [ACQUISITIONS, RENEWALS, SETTLEMENTS])
async def test_a_lost_reply_is_repeated_byte_by_byte(
    coordinator: Any, start: Start, publish: Publish, lost: Any, path: str
) -> None:
    """WRK-007, WRK-025, WRK-073, WRK-074: the identical command, and one execution."""
    attempt = coordinator.assign(publish(), {"do": "echo", "value": 1})
    coordinator.script(path, lost, lost)
    bench = await start()
    await attempt.end()
    await coordinator.until(lambda: len(coordinator.seen(path)) >= 3)
    delivery = await bench.stop()
    assert len(set(raw(coordinator, path)[:3])) == 1
    assert delivery.settled_attempts == 1
    assert attempt.report["reused_process"] is False


JSON = {"Content-Type": "application/json"}
NO_ANSWERS: list[tuple[int, dict[str, str], bytes]] = [
    (503, JSON, b'{"code":"unavailable","message":"later"}'),
    (409, JSON, b'{"code":"busy"}'),
    (200, JSON, b"{"),
    (200, JSON, b"{}"),
    (200, JSON, b"null"),
    (200, JSON, b""),
    (200, {"Content-Type": "text/plain"}, b'"x"'),
    (502, {"Content-Type": "text/html"}, b"<html>"),
    (302, {"Location": "/elsewhere"}, b""),
    (409, JSON, b'{"code":"conflict","message":"x"}'),
    (400, JSON, b'{"code":"conflict"}'),
    (404, JSON, b'{"code":"route_not_found"}'),
    (500, JSON, b'{"code":"unheard_of"}'),
    (409, JSON, b'{"code":"conflict","more":1}'),
    (200, {**JSON, "Content-Encoding": "deflate"}, b"{}"),
]


@pytest.mark.parametrize("path", [ACQUISITIONS, RENEWALS, SETTLEMENTS])
async def test_what_is_no_answer_is_repeated(coordinator: Any, start: Start, publish: Publish, path: str) -> None:
    """TASK-022, DLV-207, DLV-208: unavailable, busy, malformed, foreign or wrongly paired replies."""
    program = publish()
    bench = await start(acquire_wait_ms=20)
    for status, headers, body in NO_ANSWERS:

        async def once(
            _: Any, __: Any, status: int = status, headers: dict[str, str] = headers, body: bytes = body
        ) -> web.Response:
            return web.Response(status=status, body=body, headers=headers)

        coordinator.script(path, once)
        attempt = coordinator.assign(program, {"do": "echo", "value": 1})
        assert (await attempt.end())["report"]["kind"] == "completed", (status, body)
        await coordinator.until(lambda: not coordinator.scripts[path])
    delivery = await bench.stop()
    sent = raw(coordinator, path)
    assert len(sent) - len(set(sent)) >= len(NO_ANSWERS)
    assert (delivery.settled_attempts, delivery.failure) == (len(NO_ANSWERS), None)


@pytest.mark.parametrize("path", [ACQUISITIONS, RENEWALS, SETTLEMENTS])
async def test_a_silent_exchange_times_out_and_is_repeated(
    coordinator: Any, start: Start, publish: Publish, quick: Any, path: str
) -> None:
    """The request timeout of 2.1: expiry means that the outcome is unknown."""
    attempt = coordinator.assign(publish(), {"do": "echo", "value": 1})
    coordinator.script(path, stalled)
    await start(pacing=quick(request_timeout_ms=300), acquire_wait_ms=100)
    await attempt.end()
    assert len(set(raw(coordinator, path)[:2])) == 1


async def test_an_empty_poll_is_followed_by_the_next_sequence(coordinator: Any, start: Start, publish: Publish) -> None:
    """WRK-007, WRK-008: the sequence advances with each valid reply, not faster than the idle delay allows."""
    bench = await start(acquire_wait_ms=0)
    await coordinator.until(lambda: len(coordinator.seen(ACQUISITIONS)) == 5)
    attempt = coordinator.assign(publish(), {"do": "echo"})
    await attempt.end()
    sequences = [body["sequence"] for body in coordinator.seen(ACQUISITIONS)]
    assert sequences == list(range(1, len(sequences) + 1))
    await bench.stop()
    all_of_them = [body["sequence"] for body in coordinator.seen(ACQUISITIONS)]
    assert all_of_them in [  # a poll that the stop cut short is sent once more (WRK-090)
        (upto := list(range(1, all_of_them[-1] + 1))),
        [*upto, upto[-1]],
    ]


async def test_acquired_but_lost_counts_as_lost(coordinator: Any, start: Start, publish: Publish, reply: Any) -> None:
    """WRK-011."""
    lost = {"disposition": "ownership_lost", "sequence": 1, "assignment": {"task_id": "t", "attempt_id": "a"}}
    coordinator.script(ACQUISITIONS, reply(lost))
    attempt = coordinator.assign(publish(), {"do": "echo"})
    coordinator._cursors[0] = (1, None)
    bench = await start()
    await attempt.end()
    delivery = await bench.stop()
    assert (delivery.lost_attempts, delivery.settled_attempts) == (1, 1)


@pytest.mark.parametrize(("code", "status"), [("unknown_session", 404), ("session_expired", 410)])
async def test_a_lost_session_drains_the_worker(
    coordinator: Any, start: Start, publish: Publish, refuse: Any, ordinary: Any, code: str, status: int
) -> None:
    """WRK-012: admission ends, owned work is finished, no second session is opened."""
    attempt = coordinator.assign(publish(), {"do": "echo", "value": 7})
    coordinator.script(ACQUISITIONS, ordinary, refuse(code, status))
    bench = await start()
    command = await attempt.end()
    delivery = await bench.end()
    assert command["report"]["report"]["outcome"]["status"] == "success"
    assert (delivery.finished, delivery.settled_attempts) == (True, 1)
    assert code in delivery.failure
    assert len(coordinator.seen(SESSIONS)) == 1


@pytest.mark.parametrize(
    ("code", "status"),
    [("external_dispatch_required", 409), ("conflict", 409), ("out_of_order", 409), ("obsolete_operation", 409)],
)
async def test_a_refused_acquisition_ends_admission(
    coordinator: Any, start: Start, publish: Publish, refuse: Any, ordinary: Any, code: str, status: int
) -> None:
    """WRK-097: it is not repeated; owned work is finished."""
    attempt = coordinator.assign(publish(), {"do": "echo", "value": 7})
    coordinator.script(ACQUISITIONS, ordinary, refuse(code, status))
    bench = await start()
    command = await attempt.end()
    delivery = await bench.end()
    assert command["report"]["report"]["outcome"]["output"] == 7
    assert code in delivery.failure
    assert len(coordinator.seen(ACQUISITIONS)) == 2


async def test_a_wrong_assignment_is_fatal_and_reconciled(
    coordinator: Any, start: Start, publish: Publish, reply: Any
) -> None:
    """WRK-009: admission stops; the same command is repeated without waiting; what is then assigned is not run."""
    attempt = coordinator.assign(publish(), {"do": "echo"})
    coordinator.script(ACQUISITIONS, reply({"disposition": "empty", "sequence": 9}))
    bench = await start()
    command = await attempt.end()
    delivery = await bench.end()
    assert command["report"]["report"]["error"]["kind"] == "cancelled"
    assert command["report"]["report"]["phase"] == "admission"
    first, second = coordinator.seen(ACQUISITIONS)
    assert first["sequence"] == second["sequence"] == 1
    assert second.get("wait_ms", 0) == 0
    assert "another sequence" in delivery.failure


@pytest.mark.parametrize(("code", "status"), [("ownership_lost", 409), ("not_found", 404)])
async def test_a_lost_lease_stops_user_work(
    coordinator: Any, start: Start, publish: Publish, refuse: Any, code: str, status: int
) -> None:
    """WRK-027, WRK-052: the report is made all the same; the worker goes on."""
    program = publish()
    attempt, after = coordinator.assign(program, {"do": "echo"}), coordinator.assign(program, {"do": "echo"})
    coordinator.script(RENEWALS, refuse(code, status))
    coordinator.script(SETTLEMENTS, refuse("ownership_lost", 409))
    bench = await start()
    await after.end()
    delivery = await bench.stop()
    assert (delivery.settled_attempts, delivery.lost_attempts, delivery.failure) == (1, 1, None)
    report = coordinator.seen(SETTLEMENTS)[0]["report"]["report"]
    assert report["attempt_id"] == attempt.owner["attempt_id"]
    assert (report["error"]["kind"], report["phase"], report["execution_may_have_started"]) == (
        "cancelled",
        "admission",
        False,
    )


@pytest.mark.parametrize(("code", "status"), [("unknown_session", 404), ("session_expired", 410)])
async def test_a_session_lost_in_a_renewal_stops_the_worker(
    coordinator: Any, start: Start, publish: Publish, refuse: Any, code: str, status: int
) -> None:
    """WRK-027."""
    attempt = coordinator.assign(publish(), {"do": "echo"})
    coordinator.script(RENEWALS, refuse(code, status))
    bench = await start()
    await attempt.end()
    delivery = await bench.end()
    assert attempt.report["error"]["kind"] == "cancelled"
    assert len(coordinator.seen(ACQUISITIONS)) == 1
    assert delivery.finished


@pytest.mark.parametrize(
    "change", [{"renew_sequence": 2}, {"renew_sequence": 0, "dispatch_allowed": False}, {"owner": 1}]
)
async def test_a_contradictory_renewal_is_fatal(
    coordinator: Any, start: Start, publish: Publish, change: dict[str, Any]
) -> None:
    """WRK-026."""
    attempt = coordinator.assign(publish(), {"do": "echo"})

    async def wrong(scripted: Any, exchange: Any) -> Any:
        given = scripted.authority(attempt, 1, dispatch=True)
        return {**given, **({"owner": {**given["owner"], "lease_id": "other"}} if "owner" in change else change)}

    coordinator.script(RENEWALS, wrong)
    bench = await start()
    await attempt.end()
    delivery = await bench.end()
    assert attempt.report["error"]["kind"] == "cancelled"
    assert "another owner or sequence" in delivery.failure


async def test_a_refused_renewal_is_fatal(coordinator: Any, start: Start, publish: Publish, refuse: Any) -> None:
    """WRK-026."""
    attempt = coordinator.assign(publish(), {"do": "echo"})
    coordinator.script(RENEWALS, refuse("out_of_order", 409))
    bench = await start()
    await attempt.end()
    assert "out_of_order" in (await bench.end()).failure


async def test_the_first_renewal_asks_for_dispatch_and_counts_from_the_assignment(
    coordinator: Any, start: Start, publish: Publish, quick: Any
) -> None:
    """WRK-015, WRK-024, WRK-028: sequence + 1, dispatch until permission is taken, keep_alive afterwards."""
    attempt = coordinator.assign(publish("import time\ndef handle(event):\n    time.sleep(0.3)\n"))

    async def later(scripted: Any, exchange: Any) -> Any:
        given = await scripted.answer(exchange.path, exchange.body)
        given["assignment"]["authority"]["renew_sequence"] = 4
        return given

    async def not_yet(scripted: Any, exchange: Any) -> Any:
        return scripted.authority(attempt, exchange.body["sequence"], dispatch=False)

    coordinator.script(ACQUISITIONS, later)
    coordinator.script(RENEWALS, not_yet)
    await start(pacing=quick(renew_interval_ms=30))
    await attempt.end()
    sent = [(body["sequence"], body["intent"]) for body in coordinator.seen(RENEWALS)]
    assert sent[:2] == [(5, "dispatch"), (6, "dispatch")]
    assert sent[2:] == [(number, "keep_alive") for number in range(7, 5 + len(sent))]
    assert len(sent) > 3


async def test_dispatch_must_be_confirmed_in_time(
    coordinator: Any, start: Start, publish: Publish, quick: Any, refuse: Any
) -> None:
    """WRK-015: one deadline over all retries; a later positive reply does not help."""
    attempt = coordinator.assign(publish(), {"do": "echo"})
    coordinator.script(RENEWALS, *[refuse("unavailable", 503, "later")] * 40)
    await start(pacing=quick(dispatch_confirmation_ms=100))
    await attempt.end()
    assert (attempt.report["error"]["kind"], attempt.report["phase"]) == ("cancelled", "admission")


@pytest.mark.parametrize(("code", "status"), [("conflict", 409), ("not_found", 404), ("out_of_order", 409)])
async def test_a_refused_settlement_stays_pending(
    coordinator: Any, start: Start, publish: Publish, refuse: Any, code: str, status: int
) -> None:
    """WRK-075: fatal for admission; the slot stays held, so the worker does not finish."""
    coordinator.assign(publish(), {"do": "echo"})
    coordinator.script(SETTLEMENTS, refuse(code, status))
    bench = await start(concurrency=2)
    await coordinator.until(lambda: coordinator.seen(SETTLEMENTS))
    await bench.until(lambda: bench.worker.delivery(finished=False).failure)
    assert code in bench.worker.delivery(finished=False).failure
    assert not bench.run.done()
    assert bench.worker.delivery(finished=False).settled_attempts == 0


@pytest.mark.parametrize("member", ["operation_id", "task_id", "attempt_id"])
async def test_a_receipt_of_another_attempt_is_fatal(
    coordinator: Any, start: Start, publish: Publish, member: str
) -> None:
    """WRK-074, WRK-075."""
    coordinator.assign(publish(), {"do": "echo"})

    async def wrong(scripted: Any, exchange: Any) -> Any:
        reply = await scripted.answer(exchange.path, exchange.body)
        return {**reply, "receipt": {**reply["receipt"], member: "other"}}

    coordinator.script(SETTLEMENTS, wrong)
    bench = await start()
    await bench.until(lambda: bench.worker.delivery(finished=False).failure)
    assert not bench.run.done()


@pytest.mark.parametrize(
    "change",
    [
        {"queue": "other"},
        {"concurrency": 2},
        {"scope": {"tenant_id": "x", "namespace": "y"}},
        {"id": ""},
        {"id": "i" * 129},
    ],
)
async def test_a_session_for_something_else_is_fatal(
    coordinator: Any, start: Start, reply: Any, change: dict[str, Any]
) -> None:
    """WRK-004."""
    coordinator.script(SESSIONS, reply(lambda body: {"id": "ws_1", "expires_at": 1, **body, **change}))
    with pytest.raises(CannotOpen):
        await start()


async def test_opening_is_repeated_while_uncertain(coordinator: Any, start: Start, lost: Any, refuse: Any) -> None:
    """WRK-004: the unused session just expires; a definite refusal ends the start."""
    coordinator.script(SESSIONS, lost, refuse("unavailable", 503, "starting"))
    bench = await start()
    await bench.stop()
    assert len(coordinator.seen(SESSIONS)) == 3
    coordinator.script(SESSIONS, refuse("not_found", 404))
    with pytest.raises(CannotOpen, match="not_found"):
        await start()


async def test_the_session_is_extended_and_its_end_drains(
    coordinator: Any, start: Start, quick: Any, reply: Any, refuse: Any
) -> None:
    """WRK-012, 2.1: at its interval, repeated while uncertain."""
    path = "/v1/worker-sessions/extend"
    plain = {"id": "ws_1", "scope": {"tenant_id": "north", "namespace": "reports"}, "queue": "main", "concurrency": 1}
    extended = reply({**plain, "expires_at": 1})
    coordinator.script(path, extended, refuse("unavailable", 503, "x"), extended, refuse("session_expired", 410))
    bench = await start(pacing=quick(extend_interval_ms=10))
    delivery = await bench.end()
    assert coordinator.seen(path) == [{"worker_session_id": "ws_1"}] * 4
    assert delivery.finished
    assert "session_expired" in delivery.failure
