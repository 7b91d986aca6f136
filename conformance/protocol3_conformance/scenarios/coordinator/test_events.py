"""External events: profile, identity, buffering, delivery (chapter 15)."""

from __future__ import annotations

import asyncio
from typing import Any

from protocol3_conformance.bounds import bound
from protocol3_conformance.lab import Lab
from protocol3_conformance.roles.answer import Answer
from protocol3_conformance.scenario import scenario
from protocol3_conformance.scenarios.coordinator.spellings import DIFFERENT, EQUAL, STORED, with_data
from protocol3_conformance.vectors import accepted, section
from protocol3_conformance.wire.strict_json import compact_size, encode, same

RICH = {
    "subject": "order 9",
    "time": "2016-12-31T23:59:60.50z",
    "dataschema": "urn:s:1",
    "traceparent": "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
    "tracestate": "vendor=one",
    "ldgtaskid": "forwarded",
    "flag": True,
    "n": -(2**31),
    "data": {"rate": 1.0, "zero": -0.0, "n": 2**64 - 1, "text": "\u0000\u2028"},
}


@scenario(
    "events/wake",
    cites=[
        "EVT-001",
        "EVT-002",
        "EVT-004",
        "EVT-015",
        "EVT-017",
        "TMR-015",
        "TMR-020",
        "TMR-021",
        "TMR-022",
        "TRC-018",
        "TXT-028",
        "TXT-045",
        "ACT-022",
        "CLI-090",
    ],
)
async def test_wake(lab: Lab) -> None:
    """An event resumes the wait on its key, once, with the whole envelope, and every attempt sees the same wake."""
    workflow = await lab.client.workflow(retry_policy={"max_attempts": 2, "retry_delay_ms": 0})
    worker = await lab.worker()
    await (await worker.activation()).wait_event("paid", state="asked", continuation="settle")
    waiting = await lab.client.workflow_until(workflow["workflow_id"], "waiting")
    assert (waiting["revision"], waiting["activation_id"]) == (1, None)
    event = lab.client.event(**RICH)
    receipt = (await lab.client.send_event(workflow["workflow_id"], "paid", event)).accepted()
    assert receipt["already_accepted"] is False
    woken = await worker.activation()
    expected = {"kind": "event", "key": "paid", "event": event, "accepted_at": receipt["accepted_at"]}
    assert same(woken.wake("event"), expected)
    assert (woken.frozen["state"], woken.frozen["continuation"], woken.frozen["revision"]) == ("asked", "settle", 1)
    assert "traceparent" not in woken.event or RICH["traceparent"] not in woken.event.values()
    await woken.break_down("io")
    (await lab.client.send_event(workflow["workflow_id"], "later", lab.client.event())).accepted()
    again = await worker.activation()
    assert same(again.frozen, woken.frozen), "a retry is told another wake (TMR-021)"
    await again.go_on()
    following = await worker.activation()
    assert "wake" not in following.frozen, "a wake belongs to one activation (TMR-022)"
    replay = (await lab.client.send_event(workflow["workflow_id"], "paid", event)).accepted()
    assert replay == {**receipt, "already_accepted": True}


@scenario(
    "events/buffered-before-the-wait",
    cites=["EVT-015", "TMR-004", "TMR-012", "RACE-15", "TMR-010", "TMR-020", "WF-053", "CHD-055"],
)
async def test_buffered_before_the_wait(lab: Lab) -> None:
    """Events sent before the first activation, and while another wait is open, are kept for their own wait."""
    workflow = await lab.client.workflow()
    workflow_id = workflow["workflow_id"]
    early = (await lab.client.send_event(workflow_id, "first", lab.client.event(data=1))).accepted()
    worker = await lab.worker()
    activation = await worker.activation()
    (await lab.client.send_event(workflow_id, "third", lab.client.event(data=3))).accepted()
    # With no time at all to wait, an event accepted strictly before the decision still wins.
    await activation.wait_event("first", 0)
    second = await worker.activation()
    assert second.wake("event")["accepted_at"] == early["accepted_at"]
    await second.wait_event("second")
    await lab.client.workflow_until(workflow_id, "waiting", revision=2)
    (await lab.client.send_event(workflow_id, "second", lab.client.event(data=2))).accepted()
    third = await worker.activation()
    assert (third.wake("event")["key"], third.wake("event")["event"]["data"]) == ("second", 2)
    await third.wait_event("third")
    fourth = await worker.activation()
    assert (fourth.wake("event")["key"], fourth.wake("event")["event"]["data"]) == ("third", 3)
    assert fourth.frozen["revision"] == 3


@scenario("events/identity", cites=["EVT-010", "EVT-011", "EVT-013", "EVT-014", "LIM-001", "EVT-003"])
async def test_identity(lab: Lab) -> None:
    """A key takes one immutable event and an event one key; other workflows are independent."""
    workflow_id = (await lab.client.workflow())["workflow_id"]
    event = lab.client.event(data={"n": 1, "f": 1.0})
    first = (await lab.client.send_event(workflow_id, "k", event)).accepted()
    again = {**dict(reversed(event.items())), "data": {"f": 1.0, "n": 1}}
    assert (await lab.client.send_event(workflow_id, "k", again)).accepted() == {**first, "already_accepted": True}
    changes: dict[str, tuple[str, Any]] = {
        "number class": ("k", {**event, "data": {"n": 1.0, "f": 1.0}}),
        "another attribute": ("k", {**event, "subject": "s"}),
        "another id": ("k", {**event, "id": lab.unique("evt")}),
        "another source": ("k", {**event, "source": "urn:other"}),
        "another key": ("other", event),
        "another key and content": ("other", {**event, "type": "x"}),
    }
    for name, (key, changed) in changes.items():
        with lab.case(name):
            (await lab.client.send_event(workflow_id, key, changed)).refused("conflict")
    same_id = {**event, "source": "urn:other"}
    (await lab.client.send_event(workflow_id, "free", same_id)).accepted()
    elsewhere = (await lab.client.workflow())["workflow_id"]
    assert not (await lab.client.send_event(elsewhere, "k", event)).accepted()["already_accepted"]


@scenario(
    "events/json-identity", cites=["JSON-040", "JSON-041", "JSON-042", "JSON-043", "JSON-044", "EVT-013", "EVT-011"]
)
async def test_json_identity(lab: Lab) -> None:
    """An event repeats when its data are the same JSON value, however spelled; a receipt tells nothing else of them."""
    workflow_id = (await lab.client.workflow())["workflow_id"]
    event = lab.client.event(data="DATA")
    template = {"scope": lab.scope, "workflow_id": workflow_id, "key": "k", "event": event}

    async def send(data: bytes) -> Answer:
        return await lab.client.post("/v1/workflows/events", with_data(template, data))

    receipt = (await send(STORED)).accepted()
    for name, data in EQUAL.items():
        with lab.case(name):
            assert (await send(data)).accepted() == {**receipt, "already_accepted": True}
    for name, data in DIFFERENT.items():
        with lab.case(name):
            (await send(data)).refused("conflict")


@scenario(
    "events/closed-doors",
    cites=["EVT-011", "EVT-012", "EVT-013", "EVT-021", "RACE-17", "RACE-20", "TMR-003", "DRN-014", "WF-060"],
)
async def test_closed_doors(lab: Lab) -> None:
    """Closed waits, timers and ended workflows refuse new events; accepted ones reconcile for ever."""
    workflow_id = (await lab.client.workflow())["workflow_id"]
    worker = await lab.worker()
    kept = lab.client.event(data="kept")
    receipt = (await lab.client.send_event(workflow_id, "buffered", kept)).accepted()
    await (await worker.activation()).wait_event("timed", 0)
    second = await worker.activation()
    second.wake("timeout")
    (await lab.client.send_event(workflow_id, "timed", lab.client.event())).refused("obsolete_operation")
    await second.wait_timer("alarm", 3_600_000)
    await lab.client.workflow_until(workflow_id, "waiting")
    (await lab.client.send_event(workflow_id, "alarm", lab.client.event())).refused("obsolete_operation")
    await lab.client.cancel_workflow(workflow_id)
    await lab.client.workflow_until(workflow_id, "cancelled")
    assert (await lab.client.send_event(workflow_id, "buffered", kept)).accepted() == {
        **receipt,
        "already_accepted": True,
    }
    (await lab.client.send_event(workflow_id, "buffered", lab.client.event())).refused("conflict")
    (await lab.client.send_event(workflow_id, "never used", lab.client.event())).refused("obsolete_operation")
    (await lab.client.send_event(workflow_id, "never used", kept)).refused("conflict")
    (await lab.client.send_event(lab.unique("absent"), "k", kept)).refused("not_found")
    await worker.nothing()


@scenario("events/draining-workflow", cites=["EVT-011", "EVT-013", "EVT-021", "EVT-012", "RACE-20"])
async def test_draining_workflow(lab: Lab) -> None:
    """A workflow that is failing or cancelling takes no new event, and answers the replay of an old one."""
    worker, children = await lab.worker(), await lab.worker(queue=lab.child_queue)
    for state in ("failing", "cancelling"):
        with lab.case(state):
            workflow_id = (await lab.client.workflow())["workflow_id"]
            kept = lab.client.event()
            receipt = (await lab.client.send_event(workflow_id, "kept", kept)).accepted()
            first = await worker.activation()
            await first.go_on(commands=[first.command("held")])
            child = await children.running()
            second = await worker.activation()
            if state == "failing":
                await second.fail()
            else:
                await lab.client.cancel_workflow(workflow_id)
            await lab.client.workflow_until(workflow_id, state)
            (await lab.client.send_event(workflow_id, "late", lab.client.event())).refused("obsolete_operation")
            replay = (await lab.client.send_event(workflow_id, "kept", kept)).accepted()
            assert replay == {**receipt, "already_accepted": True}
            await child.break_down()
            if state == "cancelling":
                await second.break_down()
            await lab.client.workflow_until(workflow_id, "failed" if state == "failing" else "cancelled")


@scenario("events/completed-workflow", cites=["EVT-012", "EVT-013", "DEC-050", "EVT-021"])
async def test_completed_workflow(lab: Lab) -> None:
    """Completion drops pending events from the inbox but keeps their receipts."""
    workflow_id = (await lab.client.workflow())["workflow_id"]
    event = lab.client.event()
    receipt = (await lab.client.send_event(workflow_id, "unread", event)).accepted()
    await (await (await lab.worker()).activation()).complete()
    ended = await lab.client.workflow_until(workflow_id, "succeeded")
    assert (await lab.client.send_event(workflow_id, "unread", event)).accepted() == {
        **receipt,
        "already_accepted": True,
    }
    (await lab.client.send_event(workflow_id, "late", lab.client.event())).refused("obsolete_operation")
    assert (await lab.client.workflow_status(workflow_id)).accepted() == ended


@scenario("events/inbox-count", cites=["EVT-011", "EVT-018", "EVT-019", "ERR-011", "LIM-020"])
async def test_inbox_count(lab: Lab) -> None:
    """128 events may be pending; the next is busy until one is consumed, and replays are answered even then."""
    workflow_id = (await lab.client.workflow())["workflow_id"]
    worker = await lab.worker()
    events = [lab.client.event(data=number) for number in range(bound("INBOX_EVENTS"))]
    for number, event in enumerate(events):
        (await lab.client.send_event(workflow_id, f"k{number}", event)).accepted()
    extra = lab.client.event(data="extra")
    (await lab.client.send_event(workflow_id, "extra", extra)).refused("busy")
    assert (await lab.client.send_event(workflow_id, "k7", events[7])).accepted()["already_accepted"]
    await (await worker.activation()).wait_event("k0")
    assert (await worker.activation()).wake("event")["event"]["data"] == 0
    assert not (await lab.client.send_event(workflow_id, "extra", extra)).accepted()["already_accepted"]
    (await lab.client.send_event(workflow_id, "more", lab.client.event())).refused("busy")


@scenario(
    "events/inbox-bytes", cites=["EVT-011", "EVT-018", "LIM-012", "LIM-010", "LIM-020", "EVT-005", "LIM-030", "TXT-026"]
)
async def test_inbox_bytes(lab: Lab) -> None:
    """An event may take exactly 64 KiB in the service's spelling, and 256 KiB of them fill the inbox exactly."""
    workflow_id = (await lab.client.workflow())["workflow_id"]
    worker = await lab.worker()
    activation = await worker.activation()
    limit = bound("EVENT_BYTES")

    def sized(size: int) -> Any:
        event = lab.client.event(data=[2.9802322387695312e-8, ""])
        event["data"][1] = "x" * (size - compact_size(event))
        return event

    (await lab.client.send_event(workflow_id, "over", sized(limit + 1))).refused("invalid_input", 400)
    exact = sized(limit)
    receipt = (await lab.client.send_event(workflow_id, "exact", exact)).accepted()
    for number in range(bound("INBOX_BYTES") // limit - 2):
        (await lab.client.send_event(workflow_id, f"k{number}", sized(limit))).accepted()
    (await lab.client.send_event(workflow_id, "half", sized(limit // 2))).accepted()
    (await lab.client.send_event(workflow_id, "last", sized(limit // 2 + 1))).refused("busy")
    (await lab.client.send_event(workflow_id, "last", sized(limit // 2))).accepted()
    (await lab.client.send_event(workflow_id, "small", lab.client.event())).refused("busy")
    await activation.wait_event("exact")
    woken = await worker.activation()
    assert same(woken.wake("event")["event"], exact)
    replay = (await lab.client.send_event(workflow_id, "exact", exact)).accepted()
    assert replay == {**receipt, "already_accepted": True}
    (await lab.client.send_event(workflow_id, "small", lab.client.event())).accepted()


@scenario(
    "events/profile",
    cites=["TXT-020", "TXT-021", "TXT-022", "TXT-024", "TXT-025", "TXT-026", "TXT-027", "EVT-011"],
)
async def test_profile(lab: Lab) -> None:
    """The envelope follows the event profile of the vectors, judged before the workflow is looked up."""
    absent = lab.unique("absent")
    for name, value in (("specversion", "1.0.2"), ("specversion", "1.1"), ("subject", ""), ("time", "")):
        with lab.case(f"{name} {value!r}"):
            answer = await lab.client.send_event(absent, "k", lab.client.event(**{name: value}))
            answer.refused("invalid_input", 400)
    for case in section("external_event"):
        event = {**lab.client.event(), **case["value"]}
        event = {name: value for name, value in event.items() if value != "__DELETE__"}
        with lab.case(case["id"]):
            answer = await lab.client.send_event(absent, "k", event)
            answer.refused("not_found") if accepted(case) else answer.refused("invalid_input", 400)
    for case in section("event_attribute_name"):
        with lab.case(f"attribute name {case['id']}"):
            answer = await lab.client.send_event(absent, "k", lab.client.event(**{case["value"]: "x"}))
            answer.refused("not_found") if accepted(case) else answer.refused("invalid_input", 400)
    template = {"scope": lab.scope, "workflow_id": absent, "key": "k", "event": lab.client.event(extension="HERE")}
    for case in section("event_attribute_value"):
        with lab.case(f"attribute value {case['id']}"):
            body = encode(template).replace(b'"HERE"', case["json"].encode())
            answer = await lab.client.post("/v1/workflows/events", body)
            answer.refused("not_found") if accepted(case) else answer.refused("invalid_input", 400)


@scenario(
    "events/uris-and-times",
    cites=["TXT-023", "TXT-024", "TXT-030", "TXT-031", "TXT-032", "TXT-041", "TXT-042", "TXT-043", "TXT-044"],
)
async def test_uris_and_times(lab: Lab) -> None:
    """Source, dataschema and time follow RFC 3986 and RFC 3339 as the vectors say."""
    absent = lab.unique("absent")
    for attribute, name in (("source", "uri_reference"), ("dataschema", "absolute_uri"), ("time", "rfc3339")):
        for case in section(name):
            if case["value"].endswith("#") and attribute == "dataschema":
                continue  # an empty fragment is an open point of the contract (TXT-024)
            with lab.case(f"{attribute} {case['id']}"):
                answer = await lab.client.send_event(absent, "k", lab.client.event(**{attribute: case["value"]}))
                answer.refused("not_found") if accepted(case) else answer.refused("invalid_input", 400)


@scenario("events/at-once", cites=["EVT-020", "RACE-18", "RACE-19", "EVT-010"])
async def test_at_once(lab: Lab) -> None:
    """Racing sends of one event are accepted once with one time; of two events for one key one wins."""
    workflow_id = (await lab.client.workflow())["workflow_id"]
    for number in range(4):
        event = lab.client.event()
        sends = [lab.client.send_event(workflow_id, f"same{number}", event) for _ in range(4)]
        receipts = [answer.accepted() for answer in await asyncio.gather(*sends)]
        assert sorted(receipt["already_accepted"] for receipt in receipts) == [False, True, True, True]
        assert len({receipt["accepted_at"] for receipt in receipts}) == 1
        rivals = [lab.client.send_event(workflow_id, f"rival{number}", lab.client.event()) for _ in range(2)]
        assert sorted(answer.status for answer in await asyncio.gather(*rivals)) == [200, 409]


@scenario("events/start-and-event-back-to-back", cites=["EVT-015", "EVT-021", "TMR-012", "ACT-009", "RACE-12"])
async def test_start_and_event_back_to_back(lab: Lab) -> None:
    """A wait and its event sent at once never miss each other, and schedule exactly one activation."""
    worker = await lab.worker()
    for _ in range(6):
        workflow_id = (await lab.client.workflow())["workflow_id"]
        activation = await worker.activation()
        event = lab.client.event()
        await asyncio.gather(
            activation.wait_event("signal", 3_600_000), lab.client.send_event(workflow_id, "signal", event)
        )
        woken = await worker.activation()
        assert same(woken.wake("event")["event"], event)
        await worker.nothing()
        await woken.complete()
        await lab.client.workflow_until(workflow_id, "succeeded", revision=2)


@scenario("events/children-do-not-wake-it", cites=["CHD-055", "RACE-21", "CHD-034", "ACT-022", "TMR-005", "CHD-052"])
async def test_children_do_not_wake_it(lab: Lab) -> None:
    """In an event wait a child's end stays pending; the wake brings no inputs, the next `continue` does."""
    workflow_id = (await lab.client.workflow())["workflow_id"]
    worker, children = await lab.worker(), await lab.worker(queue=lab.child_queue)
    first = await worker.activation()
    await first.wait_event("go", commands=[first.command("beside")])
    child = await children.running()
    await child.succeed("kept")
    snapshot = (await lab.client.workflow_status(workflow_id)).accepted()
    assert (snapshot["state"], snapshot["revision"]) == ("waiting", 1)
    (await lab.client.send_event(workflow_id, "go", lab.client.event())).accepted()
    second = await worker.activation()
    assert second.wake("event")["key"] == "go"
    assert second.frozen["inputs"] == {}
    await second.go_on()
    third = await worker.activation()
    assert third.output_of("beside") == "kept"
