"""Limits that several messages reach together, over the wire: filled to the last unit, by values of several kinds.

What is too much by one unit is refused and leaves no trace; what fits exactly is accepted after that.
"""

import pytest

from protocol3_spec import limits
from protocol3_spec.boundaries import CHARACTERS, SPELLINGS, spelled, text, value
from protocol3_spec.compact import compact_bytes, same

MIXED = ["ascii", "four", "escaped", "floats", "nested"]
BRANCH = {
    "entrypoint": "double",
    "queue": "children",
    "retry_policy": {"max_attempts": 3, "retry_delay_ms": 0},
    "attempt_timeout_ms": 300_000,
}
EVENT = {"specversion": "1.0", "source": "/desk", "type": "signed", "datacontenttype": "application/json"}
ROOM = 2_000  # within every raw limit above the counted ones


def bound(name):
    return limits()[name].value


def sized(document, path, flavour, size, *, measured=lambda document: document):
    """The document with the member filled until what is measured has so many compact bytes."""
    holder = document
    for name in path[:-1]:
        holder = holder[name]
    holder[path[-1]] = ""
    holder[path[-1]] = value(flavour, size - compact_bytes(measured(document)) + 2)
    assert compact_bytes(measured(document)) == size
    return document


def post(world, path, document, flavour):
    """Status and document; the message is written otherwise than it is counted."""
    return world.http.post(path, spelled(document, SPELLINGS[flavour], ROOM))


def refused(world, path, document, flavour, code, status=400):
    """Refused by this code, and nothing is different afterwards."""
    before = world.seen()
    got, error = post(world, path, document, flavour)
    assert (got, error["code"]) == (status, code)
    assert world.seen() == before
    return error.get("message", "")


def accepted(world, path, document, flavour):
    status, receipt = post(world, path, document, flavour)
    assert status == 200, receipt
    assert receipt["already_accepted"] is False


def record(world, key, flavour, size):
    """A local result of so many bytes."""
    found = {"key": key, "callable": "books:fx", "input": None, "output": None}
    return {"owner": world.bindings["owner"], "record": sized(found, ["output"], flavour, size)}


def fork(world, key, flavour, size):
    """A fork of one branch whose request has so many bytes."""
    found = {"key": key, "branches": [{"key": f"{key}-a", **BRANCH, "data": None}]}
    return {"owner": world.bindings["owner"], "fork": sized(found, ["branches", 0, "data"], flavour, size)}


def event(world, key, flavour, size):
    found = sized({**EVENT, "id": key, "data": None}, ["data"], flavour, size)
    return {"scope": world.scope, "workflow_id": world.bindings["workflow_id"], "key": key, "event": found}


@pytest.mark.parametrize("flavour", MIXED)
def test_bytes_of_the_local_ledger(world, flavour):
    """LOC-004 step 7, LOC-009, LIM-012, LIM-020, LIM-031: an array of records, brackets and commas counted."""
    one, path = world("activation"), "/v1/workflows/local-results"
    large = bound("LOCAL_RECORD_BYTES")
    first, rest = record(one, "a", flavour, large), bound("LOCAL_LEDGER_BYTES") - large - 3
    accepted(one, path, first, flavour)
    assert "record" in refused(one, path, record(one, "b", flavour, rest + 1), flavour, "invalid_input")
    last = record(one, "b", flavour, rest)
    accepted(one, path, last, flavour)
    refused(
        one,
        path,
        {"owner": one.bindings["owner"], "record": {**last["record"], "key": "c", "output": 0}},
        flavour,
        "invalid_input",
    )
    steps = one.context(one.bindings["owner"])["local_steps"]
    assert same(steps, [first["record"], last["record"]])
    assert compact_bytes(steps) == bound("LOCAL_LEDGER_BYTES")
    assert post(one, path, first, flavour) == (200, {"key": "a", "already_accepted": True})


def test_records_of_the_local_ledger(world):
    """LOC-004 step 7, LOC-009, LIM-020."""
    one, path, most = world("activation"), "/v1/workflows/local-results", bound("LOCAL_RECORDS")
    for number in range(most):
        accepted(one, path, record(one, f"k{number}", "ascii", 100), "ascii")
    refused(one, path, record(one, "more", "ascii", 100), "ascii", "invalid_input")
    assert len(one.context(one.bindings["owner"])["local_steps"]) == most
    assert post(one, path, record(one, "k0", "ascii", 100), "ascii")[1]["already_accepted"]


@pytest.mark.parametrize("flavour", MIXED)
def test_bytes_of_the_fork_ledger(world, flavour):
    """FRK-010 step 7, FRK-011, FRK-017, LIM-012, LIM-020, LIM-031: a plain sum of requests."""
    one, path, large = world("activation"), "/v1/workflows/forks", bound("FORK_REQUEST_BYTES")
    rest = bound("FORK_LEDGER_BYTES") - 2 * large + 3000
    forks = [fork(one, "a", flavour, large), fork(one, "b", flavour, large - 3000), fork(one, "c", flavour, rest)]
    for found in forks[:2]:
        accepted(one, path, found, flavour)
    refused(one, path, fork(one, "c", flavour, rest + 1), flavour, "invalid_input")
    accepted(one, path, forks[2], flavour)
    refused(one, path, fork(one, "d", "ascii", 300), "ascii", "invalid_input")
    for found in forks:
        assert post(one, path, found, flavour)[1]["already_accepted"]
    datas = [one.claim("children")["event"]["data"] for _ in forks]
    for found in forks:
        assert any(same(data, found["fork"]["branches"][0]["data"]) for data in datas)
    assert one.claim("children", wait_ms=0) is None


def test_forks_and_new_children(world):
    """FRK-010 steps 7 and 8, CHD-024, LIM-020: 64 forks of one branch are 64 children; one more is neither."""
    one, path, most = world("activation"), "/v1/workflows/forks", bound("FORKS")
    assert most == bound("NEW_CHILDREN")
    for number in range(most - 1):
        accepted(one, path, fork(one, f"f{number}", "ascii", 300), "ascii")
    two = fork(one, "two", "ascii", 300)
    two["fork"]["branches"].append({"key": "other", **BRANCH, "data": None})
    refused(one, path, two, "ascii", "invalid_input")
    accepted(one, path, fork(one, "last", "ascii", 300), "ascii")
    refused(one, path, fork(one, "more", "ascii", 300), "ascii", "invalid_input")
    assert post(one, path, fork(one, "f0", "ascii", 300), "ascii")[1]["already_accepted"]


@pytest.mark.parametrize("live", [63, 64, 65])
def test_live_subworkflows_of_a_decision(world, live):
    """CHD-023, CHD-026, LIM-020: branches of one activation and staged workflows of the next count together."""
    one = world("activation")
    assert bound("LIVE_SUBWORKFLOWS") == 64
    branches = [{"key": f"b{number}", **BRANCH, "data": None} for number in range(60)]
    command = {"owner": one.bindings["owner"], "fork": {"key": "f", "branches": branches}}
    one.post("/v1/workflows/forks", command)
    decision = {"v": 1, "activation_id": one.bindings["activation_id"], "revision": 0, "kind": "continue"}
    saved = {"state": None, "continuation": "next", "commands": []}
    one.report(one.bindings["owner"], one.bindings["identity"], decision | saved)
    assignment, _ = one.activation()
    staged = {"kind": "workflow", "program": one.bindings["program"], "queue": "staged", "data": None}
    one.decide(assignment, 1, "continue", commands=[{"key": f"s{number}", **staged} for number in range(live - 60)])
    if live > bound("LIVE_SUBWORKFLOWS"):
        assert one.outcome()["error"]["kind"] == "decision_application_failed"
        assert one.workflow()["revision"] == 1
        assert one.claim("staged", wait_ms=0) is None
        return
    one.until(lambda: one.workflow()["revision"] == 2)
    assert [one.claim("staged")["event"]["ldgworkflowid"] for _ in range(live - 60)]


@pytest.mark.parametrize("flavour", MIXED)
def test_bytes_of_the_inbox(world, flavour):
    """EVT-011 step 6, EVT-018, EVT-019, LIM-012, LIM-030, LIM-031: a plain sum of events, free again once consumed."""
    one, path, large = world("activation"), "/v1/workflows/events", bound("EVENT_BYTES")
    many, spare = bound("INBOX_BYTES") // large, 2_000
    events = [event(one, f"k{number}", flavour, large - (spare if number == 0 else 0)) for number in range(many)]
    for found in events:
        accepted(one, path, found, flavour)
    refused(one, path, event(one, "last", flavour, spare + 1), flavour, "busy", 409)
    accepted(one, path, event(one, "last", flavour, spare), flavour)
    refused(one, path, event(one, "more", "ascii", 200), "ascii", "busy", 409)
    assert post(one, path, events[0], flavour)[1]["already_accepted"]
    wait = {"kind": "event", "key": "k1", "timeout_ms": None}
    decision = {"v": 1, "activation_id": one.bindings["activation_id"], "revision": 0, "kind": "wait", "wait": wait}
    saved = {"state": None, "continuation": "next", "commands": []}
    one.report(one.bindings["owner"], one.bindings["identity"], decision | saved)
    _, context = one.activation()
    assert same(context["wake"]["event"], events[1]["event"])
    accepted(one, path, event(one, "more", flavour, large), flavour)
    assert post(one, path, event(one, "again", "ascii", 200), "ascii")[1]["code"] == "busy"


def test_events_of_the_inbox(world):
    """EVT-011 step 6, EVT-019, LIM-020."""
    one, path, most = world("activation"), "/v1/workflows/events", bound("INBOX_EVENTS")
    for number in range(most):
        accepted(one, path, event(one, f"k{number}", "ascii", 200), "ascii")
    refused(one, path, event(one, "more", "ascii", 200), "ascii", "busy", 409)
    assert post(one, path, event(one, "k0", "ascii", 200), "ascii")[1]["already_accepted"]


@pytest.mark.parametrize("flavour", MIXED)
@pytest.mark.parametrize("beyond", [-1, 0, 1])
def test_bytes_of_the_inputs(world, flavour, beyond):
    """CHD-056, LIM-013, LIM-020, LIM-031: the results of a wait, exactly; one byte more fails the workflow."""
    one, size = world("activation"), bound("INPUTS_BYTES") + beyond
    child = {"key": "é\u2028", "program": one.bindings["program"], "queue": "children", "data": None}
    head = {"v": 1, "activation_id": one.bindings["activation_id"], "revision": 0, "kind": "suspend"}
    decision = head | {"state": None, "continuation": "next", "commands": [child], "until": [child["key"]]}
    one.report(one.bindings["owner"], one.bindings["identity"], decision)
    task = one.claim("children")
    outcome = {
        "kind": "succeeded",
        "attempt_id": task["event"]["ldgattemptid"],
        "quiescence": "confirmed",
        "execution_may_have_started": True,
        "output": None,
    }
    inputs = {child["key"]: {"task_id": task["event"]["ldgtaskid"], "state": "succeeded", "outcome": outcome}}
    sized(inputs, [child["key"], "outcome", "output"], flavour, size)
    one.settle(task, inputs[child["key"]]["outcome"]["output"])
    if beyond > 0:
        assert one.outcome()["error"]["kind"] == "decision_application_failed"
        assert one.workflow()["revision"] == 1
        return
    _, context = one.activation()
    assert same(context["inputs"], inputs)


@pytest.mark.parametrize("flavour", CHARACTERS["free"])
@pytest.mark.parametrize("beyond", [-1, 0, 1])
@pytest.mark.parametrize(
    ("member", "limit", "kind"), [("kind", "ID_BYTES", "identifier"), ("message", "FREE_TEXT_BYTES", "free")]
)
def test_a_failure_of_the_program(world, flavour, beyond, member, limit, kind):
    """ACT-042, DLV-072, LIM-020: taken as it is by the settlement, and by the workflow if it can show it."""
    one = world("activation")
    error = {"kind": "mismatch", "message": "why"} | {member: text(CHARACTERS[kind][flavour], bound(limit) + beyond)}
    done = {**one.bindings["identity"], "process_id": 1, "reused_process": False, "elapsed_ms": 5}
    report = {"kind": "completed", "report": done | {"outcome": {"status": "failure", **error}}}
    command = {"owner": one.bindings["owner"], "operation_id": "op", "report": report, "quiescence": "confirmed"}
    status, reply = post(one, "/v1/settlements", command, flavour)
    assert (status, reply["task_state"]) == (200, "failed")
    shown = one.get("/v1/tasks/result", task_id=one.bindings["task_id"])["outcome"]["failure"]
    assert shown == {"kind": "application", "error": error}
    outcome = one.outcome()
    assert outcome["kind"] == "failed"
    if beyond > 0:
        assert outcome["error"]["kind"] == "decision_application_failed"
    else:
        assert outcome["error"] == error


def test_a_page_of_tasks(world):
    """DISC-011, DISC-012, DISC-013, DISC-003: one below, at and one above a full page."""
    one, most = world(), bound("TASK_PAGE")
    for number in range(most + 1):
        command = {"queue": "q", "program": one.bindings["program"], "data": None}
        one.post("/v1/tasks", {"idempotency_key": f"k{number}", "input": one.scope | command})
        page = one.get("/v1/tasks", limit=str(most)) if number >= most - 2 else {"items": [], "next_cursor": None}
        assert len(page["items"]) in (0, min(number + 1, most))
        assert (page["next_cursor"] is not None) == (number == most)
    rest = one.get("/v1/tasks", limit=str(most), cursor=page["next_cursor"])
    assert (len(rest["items"]), rest["next_cursor"]) == (1, None)
    assert len(one.get("/v1/tasks")["items"]) == bound("DEFAULT_TASK_PAGE")


@pytest.mark.parametrize("brackets", [b"[]", b'{"x":}'])
def test_depth_of_a_request(world, brackets):
    """JSON-030, JSON-033: at 127 its members are looked at, at 128 nothing is; either way nothing is stored."""
    one, deepest = world(), bound("REQUEST_DEPTH")
    opening, closing = brackets[:-1], brackets[-1:]
    for containers, judged in ((deepest - 1, True), (deepest, True), (deepest + 1, False)):
        body = opening * (containers - 1) + (b"[]" if closing == b"]" else b"{}") + closing * (containers - 1)
        status, error = one.http.post("/v1/tasks", body)
        assert (status, error["code"]) == (400, "invalid_input")
        assert (str(deepest) not in error["message"]) == judged, error
    assert one.get("/v1/tasks")["items"] == []
