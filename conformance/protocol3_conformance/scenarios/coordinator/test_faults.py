"""The profile `faults`: rules, what they strike and where, holding, releasing, forgetting; and what 503 means then."""

from __future__ import annotations

import asyncio
from functools import partial
from typing import Any

from protocol3_conformance.lab import Lab
from protocol3_conformance.roles.controls import FAIL, HOLD, PASS, match_of
from protocol3_conformance.scenario import scenario
from protocol3_conformance.wire.actors import FAULTS
from protocol3_conformance.wire.faults import TransportFault

PROFILE = "core faults"
CANCEL, SETTLE, TASKS = "/v1/tasks/cancel", "/v1/settlements", "/v1/tasks"
PLACES = ("received", "locked", "written", "committed")


@scenario("faults/rules-as-they-stand", cites=["TST-031", "TST-033", "TST-036", "TST-035", "TST-034"], profile=PROFILE)
async def test_rules_as_they_stand(lab: Lab) -> None:
    """A rule is repeated with its defaults, listed in the order of arrival, forgotten by its ID or with all others."""
    controls = lab.controls
    first = (await controls.post(FAULTS, match=match_of(TASKS), where="received", act=HOLD)).accepted()
    assert {**first, "id": ""} == {
        "id": "", "match": match_of(TASKS), "skip": 0, "times": 1, "where": "received", "act": HOLD, "hits": 0,
    }  # fmt: skip
    others = [await controls.rule("decision.apply", FAIL, "locked", skip=number, times=None) for number in (3, 4)]
    assert len({first["id"], *others}) == 3, "IDs of rules are not unique"
    seen = await controls.look()
    assert [rule["id"] for rule in seen["faults"]] == [first["id"], *others]
    assert [rule["times"] for rule in seen["faults"]] == [1, None, None]
    assert seen["held"] == []
    for action in ("release", "clear"):
        (await controls.post(f"{FAULTS}/{action}", id=lab.unique("fault"))).refused("not_found")
        (await controls.post(f"{FAULTS}/{action}", scope=lab.other_scope, id=first["id"])).refused("not_found")
    assert await controls.clear(others[0]) == {"cleared": 1, "released": 0}
    assert [rule["id"] for rule in (await controls.look())["faults"]] == [first["id"], others[1]]
    assert await controls.clear() == {"cleared": 2, "released": 0}
    assert await controls.look() == {"faults": [], "held": []}
    (await lab.client.submit_task()).accepted()


@scenario("faults/invalid-rules", cites=["TST-002", "TST-031", "TST-032", "LIM-020"], profile=PROFILE)
async def test_invalid_rules(lab: Lab) -> None:
    """Shapes, places and acts that do not exist are refused, and no rule is made."""
    settle, step = match_of(SETTLE), match_of("decision.apply")
    rule: dict[str, Any] = {"match": settle, "where": "received", "act": HOLD}
    read = {"method": "GET", "path": TASKS}
    cases: dict[str, dict[str, Any]] = {
        "nothing matched": {"match": {}},
        "no path": {"match": {"method": "POST"}},
        "no such route": {"match": {"method": "POST", "path": "/v1/nothing"}},
        "its own routes": {"match": {"method": "POST", "path": "/testing/v1/clock"}},
        "route and step": {"match": {**settle, **step}},
        "no such step": {"match": {"step": "decision"}},
        "negative skip": {"skip": -1},
        "no times": {"times": 0},
        "float times": {"times": 1.0},
        "no such place": {"where": "before"},
        "a read at locked": {"match": read, "where": "locked"},
        "a poll at written": {"match": match_of("/v1/acquisitions"), "where": "written"},
        "a claim at locked": {"match": match_of("task.claim"), "where": "locked"},
        "the store at committed": {"match": match_of("program.resolve"), "where": "committed"},
        "no such act": {"act": {"kind": "explode"}},
        "hold with more": {"act": {**HOLD, "ms": 1}},
        "delay without time": {"act": {"kind": "delay"}},
        "delay beyond the bound": {"act": {"kind": "delay", "ms": 60_001}},
        "status below the bound": {"act": {"kind": "status", "status": 199}},
        "status with a forbidden body": {"act": {"kind": "status", "status": 204, "body": {}}},
        "a drip before the reply": {"act": {"kind": "drip", "bytes": 1, "every_ms": 0}},
        "a step that drops": {"match": step, "act": {"kind": "drop"}},
        "a step that fails when done": {"match": step, "where": "committed", "act": FAIL},
        "unknown member": {"more": 1},
    }
    for name, change in cases.items():
        with lab.case(name):
            (await lab.controls.post(FAULTS, **{**rule, **change})).refused("invalid_input")
    assert (await lab.controls.look())["faults"] == []


@scenario("faults/failure-at-every-place", cites=["HTTP-067", "HTTP-068", "TST-023", "TST-025"], profile=PROFILE)
async def test_failure_at_every_place(lab: Lab) -> None:
    """An exchange that fails is 503/`unavailable`: undone before its commit, stored after; a repetition finds out."""
    for where in PLACES:
        with lab.case(where):
            task_id = (await lab.client.task())["task_id"]
            rule = await lab.controls.rule(CANCEL, FAIL, where)
            (await lab.client.cancel_task(task_id)).refused("unavailable")
            state = (await lab.client.status(task_id)).accepted()["state"]
            assert state == ("cancelled" if where == "committed" else "queued")
            assert (await lab.client.cancel_task(task_id)).accepted() == "cancelled"
            assert (await lab.client.reasons(task_id)).count("cancel_requested") == 1
            assert await lab.controls.hits(rule) == 1


@scenario("faults/lost-replies", cites=["TST-025", "HTTP-068", "TASK-104", "DLV-075", "DLV-013"], profile=PROFILE)
async def test_lost_replies(lab: Lab) -> None:
    """A reply that is lost after the commit: the identical command gets what was decided, once."""
    command = lab.client.submission()
    await _lost(lab, TASKS, command)
    task = (await lab.client.post(TASKS, command)).accepted()
    worker = await lab.worker()
    await _lost(lab, "/v1/acquisitions", worker.command(1))
    assignment = (await worker.acquire(1)).accepted()["assignment"]
    assert assignment["lease"]["owner"]["task_id"] == task["task_id"]
    assert await lab.client.reasons(task["task_id"]) == ["submitted", "claimed"]
    worker.sequences[0] = 1
    other = await lab.client.task()
    claim = await worker.running(1)
    assert claim.task_id == other["task_id"]
    report = claim.success("once")
    await _lost(lab, SETTLE, report)
    assert (await claim.settle(report)).accepted()["already_accepted"] is True
    assert (await lab.client.reasons(claim.task_id))[-2:] == ["report_accepted", "succeeded"]


async def _lost(lab: Lab, path: str, command: Any) -> None:
    await lab.controls.rule(path, {"kind": "drop"}, "committed")
    try:
        answer = await lab.client.post(path, command)
    except TransportFault:
        return
    raise AssertionError(f"the connection was not closed: {answer.status}")


@scenario("faults/skip-and-times", cites=["TST-023", "TST-024"], profile=PROFILE)
async def test_skip_and_times(lab: Lab) -> None:
    """The first occasions pass, then so many are struck; of two rules at one place the first ends the occasion."""
    struck = await lab.controls.rule(TASKS, FAIL, skip=1, times=2)
    after = await lab.controls.rule(TASKS, PASS, times=None)
    codes = [(await lab.client.submit_task()).code for _ in range(5)]
    assert codes == [None, "unavailable", "unavailable", None, None]
    assert [await lab.controls.hits(rule) for rule in (struck, after)] == [2, 3]
    await lab.controls.clear()
    before = await lab.controls.rule(TASKS, PASS)
    failing = await lab.controls.rule(TASKS, FAIL)
    (await lab.client.submit_task()).refused("unavailable")
    assert [await lab.controls.hits(rule) for rule in (before, failing)] == [1, 1]


@scenario("faults/hold-and-release", cites=["TST-026", "TST-033", "TST-034", "TST-022", "TST-036"], profile=PROFILE)
async def test_hold_and_release(lab: Lab) -> None:
    """What is held is listed with its subject, keeps nobody else waiting, and goes on when it is released."""
    for where in PLACES:
        with lab.case(where):
            task_id, other = [(await lab.client.task())["task_id"] for _ in range(2)]
            rule = await lab.controls.rule(CANCEL, HOLD, where)
            cancelling = asyncio.ensure_future(lab.client.cancel_task(task_id))
            held = (await lab.controls.until_held(rule))[0]
            wanted = {"fault": rule, "match": match_of(CANCEL), "where": where, "subject": task_id}
            assert held == {"id": held["id"], **wanted}
            state = (await lab.client.status(task_id)).accepted()["state"]
            assert state == ("cancelled" if where == "committed" else "queued")
            assert (await lab.client.cancel_task(other)).accepted() == "cancelled"
            assert not cancelling.done()
            assert await lab.controls.release(held["id"]) == 1
            assert (await cancelling).accepted() == "cancelled"
            seen = await lab.controls.look()
            assert seen["held"] == []
            assert [each["hits"] for each in seen["faults"]] == [1]
            await lab.controls.clear()


@scenario("faults/records-are-held", cites=["TST-026", "TST-022"], profile=PROFILE)
async def test_records_are_held(lab: Lab) -> None:
    """An exchange at `locked` or `written` holds its records: what needs them comes after it, the rest goes on."""
    for where in ("locked", "written"):
        with lab.case(where):
            await lab.client.task()
            worker = await lab.worker()
            claim = await worker.running()
            settle = partial(claim.settle, claim.success())
            async with lab.controls.holding(SETTLE, settle, where) as settling:
                came = await lab.controls.rule(CANCEL, PASS)
                cancelling = asyncio.ensure_future(lab.client.cancel_task(claim.task_id))
                await lab.controls.until_hit(came)
                await lab.client.task()
                await (await worker.running()).succeed()
                assert not settling.done()
                assert not cancelling.done(), "a cancel did not wait for the report that holds its task"
            assert settling.result().accepted()["task_state"] == "succeeded"
            assert (await cancelling).accepted() == "succeeded"


@scenario("faults/whose-exchange", cites=["TST-021", "TST-004", "TST-003"], profile=PROFILE)
async def test_whose_exchange(lab: Lab) -> None:
    """A rule strikes its own scope only; an extension belongs to that of its session, what cannot be read to none."""
    other = lab.client_in(lab.other_scope)
    worker = await lab.worker()
    extension = {"worker_session_id": worker.session["id"]}
    rule = await lab.controls.rule("/v1/worker-sessions/extend", FAIL, times=None)
    (await lab.client.post("/v1/worker-sessions/extend", extension)).refused("unavailable")
    (await lab.client.post("/v1/worker-sessions/extend", b"{")).refused("invalid_input")
    assert await lab.controls.hits(rule) == 1
    tasks = await lab.controls.rule(TASKS, FAIL, times=None)
    (await other.submit_task()).accepted()
    (await lab.client.post(TASKS, b'{"input": 1}')).refused("invalid_input")
    assert await lab.controls.hits(tasks) == 0
    (await lab.client.submit_task()).refused("unavailable")


@scenario("faults/ordinary-replies", cites=["TST-031", "TST-025"], profile=PROFILE)
async def test_ordinary_replies(lab: Lab) -> None:
    """A delay and a drip change nothing but the time that a reply takes."""
    task_id = (await lab.client.task())["task_id"]
    await lab.controls.rule(CANCEL, {"kind": "delay", "ms": 1})
    await lab.controls.rule(CANCEL, {"kind": "drip", "bytes": 7, "every_ms": 1}, "committed", times=2)
    for _ in range(2):
        assert (await lab.client.cancel_task(task_id)).accepted() == "cancelled"


@scenario("faults/exchange-budget", cites=["HTTP-080", "HTTP-081", "TST-025"], profile=PROFILE, slow=True)
async def test_exchange_budget(lab: Lab) -> None:
    """An exchange whose time is over is 503/`unavailable`, never a late success, and undone if it was not committed."""
    task_id = (await lab.client.task())["task_id"]
    rule = await lab.controls.rule(CANCEL, HOLD)
    (await lab.client.cancel_task(task_id)).refused("unavailable")
    assert await lab.controls.hits(rule) == 1
    assert (await lab.client.status(task_id)).accepted()["state"] == "queued"
    assert (await lab.client.reasons(task_id)) == ["submitted"]
    await lab.controls.clear()
    assert (await lab.client.cancel_task(task_id)).accepted() == "cancelled"
