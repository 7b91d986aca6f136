"""What makes an activation (chapter 21, Workflow extension)."""

import json

import pytest

CALLED = "return ctx.complete(None)"  # a success if the handler were called


def nested(depth, leaf=None):
    for _ in range(depth):
        leaf = [leaf]
    return leaf


def task_outcome(state="succeeded", **outcome):
    parts = {
        "succeeded": {"attempt_id": "a", "quiescence": "confirmed", "execution_may_have_started": True, "output": 1},
        "failed": {
            "attempt_id": "a",
            "quiescence": "unconfirmed",
            "execution_may_have_started": True,
            "failure": {"kind": "attempt_lost"},
        },
        "cancelled": {},
    }
    whole = {"kind": state} | parts[state] | outcome
    outcome = {name: value for name, value in whole.items() if value is not ...}
    return {"task_id": "t", "state": state, "outcome": outcome}


def workflow_outcome(state="succeeded", **outcome):
    parts = {"succeeded": {"output": 1}, "failed": {"error": {"kind": "k", "message": ""}}, "cancelled": {}}
    whole = {"kind": state} | parts[state] | outcome
    outcome = {name: value for name, value in whole.items() if value is not ...}
    return {"kind": "workflow", "workflow_id": "w", "state": state, "outcome": outcome}


def failure(**members):
    return task_outcome("failed", failure=members)


EXECUTION = {
    "kind": "execution",
    "error": {"kind": "runtime", "message": ""},
    "phase": "execution",
    "cleanup_error": None,
}
APPLICATION = {"kind": "application", "error": {"kind": "k", "message": "m"}}
RECORD = {"key": "k", "callable": "m:f", "input": [1], "output": None}
RECORD_ROOM = 128 * 1024 - len(json.dumps(RECORD | {"output": ""}, separators=(",", ":")))
EVENT = {
    "specversion": "1.0",
    "id": "e",
    "source": "urn:s",
    "type": "t",
    "datacontenttype": "application/json",
    "data": None,
}
APPROVAL = {
    "scope": {"tenant_id": "t", "namespace": "n"},
    "workflow_id": "wf",
    "key": "k",
    "activation_id": "before",
    "revision": 4,
    "action": {"name": "m:f", "version": "1", "arguments": {"x": 1}},
    "proposed_arguments": None,
    "created_at": 100,
    "deadline": 200,
    "status": "approved",
    "decision": {"decision_id": "d", "decision": "approve", "reviewer": "r", "reason": None, "decided_at": 150},
    "resumed_activation_id": "act",
}
EXPIRED = APPROVAL | {"status": "expired", "decision": None}


def approval(**changes):
    return {"revision": 5, "wake": {"kind": "approval", "approval": APPROVAL | changes}}


def wake(**members):
    return {"wake": members}


def event(**changes):
    whole = {name: value for name, value in (EVENT | changes).items() if value is not ...}
    return wake(kind="event", key="k", event=whole, accepted_at=5)


VALID = {
    "defaults": {},
    "largest revision": {"revision": 2**64 - 1},
    "longest texts": {"continuation": "é" * 64},
    "state of 64 KiB": {"state": "x" * 65534},
    "state of depth 64": {"state": nested(64)},
    "state with floats gets an allowance": {"state": [1e-07] * 13107},
    "64 inputs": {"inputs": {f"k{number}": task_outcome() for number in range(64)}},
    "task outcomes": {"inputs": {state: task_outcome(state) for state in ("succeeded", "failed", "cancelled")}},
    "workflow outcomes": {"inputs": {state: workflow_outcome(state) for state in ("succeeded", "failed", "cancelled")}},
    "output of depth 64": {"inputs": {"k": task_outcome(output=nested(64))}},
    "application failure": {"inputs": {"k": failure(**APPLICATION)}},
    "application failure without a kind": {
        "inputs": {"k": failure(kind="application", error={"kind": "", "message": ""})}
    },
    "execution failure": {"inputs": {"k": failure(**EXECUTION)}},
    "clean-up error": {"inputs": {"k": failure(**EXECUTION | {"cleanup_error": {"kind": "io", "message": "m"}})}},
    "128 records": {"local_steps": [RECORD | {"key": f"k{number}"} for number in range(128)]},
    "record of 128 KiB": {"local_steps": [RECORD | {"output": "x" * RECORD_ROOM}]},
    "null wake": {"wake": None},
    "event wake": event(),
    "event with everything": event(
        subject="s",
        dataschema="urn:schema",
        time="2024-02-29T23:59:60Z".replace("02-29T23", "06-30T23"),
        traceparent="00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01",
        tracestate="a=1",
        custom="",
        flag=False,
        number=-(2**31),
        data=nested(64),
    ),
    "timeout wake": wake(kind="timeout", key="k", deadline=253402300799999),
    "timer wake": wake(kind="timer", key="k", deadline=0),
    "approved": approval(),
    "rejected": approval(status="rejected", decision=APPROVAL["decision"] | {"decision": "reject", "reason": "\n"}),
    "expired": approval(**EXPIRED),
    "proposed arguments": approval(proposed_arguments={}),
    "nested workflow": {"parent_workflow_id": "p", "root_workflow_id": "r"},
    "parent is root": {"parent_workflow_id": "p", "root_workflow_id": "p"},
}

INVALID = {
    "v true": {"v": True},
    "v 2": {"v": 2},
    "v 1.0": {"v": 1.0},
    "v missing": {"v": ...},
    "extra member": {"extra": 1},
    "no state": {"state": ...},
    "no inputs": {"inputs": ...},
    "no local_steps": {"local_steps": ...},
    "no continuation": {"continuation": ...},
    "revision -1": {"revision": -1},
    "revision too large": {"revision": 2**64},
    "revision true": {"revision": True},
    "revision 1.0": {"revision": 1.0},
    "continuation empty": {"continuation": ""},
    "continuation too long": {"continuation": "x" * 129},
    "continuation with control": {"continuation": "a\x85"},
    "continuation with noncharacter": {"continuation": "a\ufffe"},
    "continuation null": {"continuation": None},
    "state too long": {"state": "x" * 65535},
    "state too deep": {"state": nested(65)},
    "state with surrogate": {"state": "\ud800"},
    "state with integer out of range": {"state": 2**64},
    "inputs list": {"inputs": []},
    "65 inputs": {"inputs": {f"k{number}": task_outcome() for number in range(65)}},
    "input key too long": {"inputs": {"k" * 129: task_outcome()}},
    "inputs too long": {"inputs": {f"k{number}": task_outcome(output="x" * 90000) for number in range(3)}},
    "outcome with extra member": {"inputs": {"k": task_outcome() | {"extra": 1}}},
    "outcome without task id": {"inputs": {"k": {"state": "cancelled", "outcome": {"kind": "cancelled"}}}},
    "outcome kind differs": {"inputs": {"k": task_outcome("cancelled", kind="failed")}},
    "outcome state unknown": {"inputs": {"k": task_outcome("cancelled") | {"state": "running"}}},
    "not started but succeeded": {"inputs": {"k": task_outcome(execution_may_have_started=False)}},
    "started is 1": {"inputs": {"k": task_outcome(execution_may_have_started=1)}},
    "quiescence unknown": {"inputs": {"k": task_outcome(quiescence="maybe")}},
    "no output": {"inputs": {"k": task_outcome(output=...)}},
    "output too deep": {"inputs": {"k": task_outcome(output=nested(65))}},
    "cancelled with attempt": {"inputs": {"k": task_outcome("cancelled", attempt_id="a")}},
    "failure unknown": {"inputs": {"k": failure(kind="other")}},
    "application not started": {
        "inputs": {"k": task_outcome("failed", execution_may_have_started=False, failure=APPLICATION)}
    },
    "application extra": {"inputs": {"k": failure(**APPLICATION, phase="execution")}},
    "execution kind unknown": {"inputs": {"k": failure(**EXECUTION | {"error": {"kind": "odd", "message": ""}})}},
    "execution phase unknown": {"inputs": {"k": failure(**EXECUTION | {"phase": "later"})}},
    "execution without clean-up": {"inputs": {"k": failure(kind="execution", error=EXECUTION["error"], phase="x")}},
    "lost but confirmed": {"inputs": {"k": task_outcome("failed", quiescence="confirmed")}},
    "workflow kind unknown": {"inputs": {"k": workflow_outcome() | {"kind": "task"}}},
    "workflow with task id": {"inputs": {"k": workflow_outcome() | {"task_id": "t"}}},
    "workflow error kind empty": {"inputs": {"k": workflow_outcome("failed", error={"kind": "", "message": ""})}},
    "workflow error message too long": {
        "inputs": {"k": workflow_outcome("failed", error={"kind": "k", "message": "x" * 4097})}
    },
    "journal object": {"local_steps": {}},
    "129 records": {"local_steps": [RECORD | {"key": f"k{number}"} for number in range(129)]},
    "record key twice": {"local_steps": [RECORD, RECORD]},
    "record with extra member": {"local_steps": [RECORD | {"extra": 1}]},
    "record key too long": {"local_steps": [RECORD | {"key": "k" * 129}]},
    "record callable too long": {"local_steps": [RECORD | {"callable": "c" * 513}]},
    "record too long": {"local_steps": [RECORD | {"output": "x" * (RECORD_ROOM + 1)}]},
    "journal too long": {"local_steps": [RECORD | {"key": f"k{n}", "output": "x" * 90000} for n in range(3)]},
    "wake kind unknown": wake(kind="other", key="k"),
    "wake without kind": wake(key="k", deadline=1),
    "wake text": {"wake": "timer"},
    "timer with extra member": wake(kind="timer", key="k", deadline=1, extra=1),
    "timer key empty": wake(kind="timer", key="", deadline=1),
    "timer deadline too large": wake(kind="timer", key="k", deadline=253402300800000),
    "timer deadline 1.0": wake(kind="timer", key="k", deadline=1.0),
    "event without acceptance": wake(kind="event", key="k", event=EVENT),
    "event without data": event(data=...),
    "event specversion": event(specversion="1.1"),
    "event content type": event(datacontenttype="text/plain"),
    "event id empty": event(id=""),
    "event id too long": event(id="i" * 129),
    "event source space": event(source="a b"),
    "event type empty": event(type=""),
    "event attribute upper case": event(Custom="x"),
    "event attribute null": event(custom=None),
    "event attribute float": event(custom=1.0),
    "event attribute large": event(custom=2**31),
    "event attribute control": event(custom="a\n"),
    "event subject empty": event(subject=""),
    "event dataschema relative": event(dataschema="schema"),
    "event dataschema fragment": event(dataschema="urn:schema#x"),
    "event time": event(time="2024-02-30T00:00:00Z"),
    "event leap second": event(time="2024-02-28T23:59:60Z"),
    "event traceparent": event(traceparent="00-x"),
    "event tracestate alone": event(tracestate="a=1"),
    "event data too deep": event(data=nested(65)),
    "event too long": event(data="x" * 65536),
    "approval pending": approval(status="pending", decision=None, resumed_activation_id=None),
    "approval cancelled": approval(status="cancelled", decision=None, resumed_activation_id=None),
    "approval of another workflow": approval(workflow_id="other"),
    "approval resumes another activation": approval(resumed_activation_id="other"),
    "approval resumes nothing": approval(resumed_activation_id=None),
    "approval of another revision": approval(revision=5),
    "approval asked by this activation": approval(activation_id="act"),
    "approval without decision": approval(decision=None),
    "approval decision differs": approval(decision=APPROVAL["decision"] | {"decision": "reject"}),
    "approval decided too early": approval(decision=APPROVAL["decision"] | {"decided_at": 99}),
    "approval decided at the deadline": approval(decision=APPROVAL["decision"] | {"decided_at": 200}),
    "approval expired with decision": approval(status="expired"),
    "approval reason too long": approval(decision=APPROVAL["decision"] | {"reason": "x" * 4097}),
    "approval deadline before creation": approval(**EXPIRED | {"deadline": 99}),
    "approval deadline too late": approval(**EXPIRED | {"deadline": 100 + 31_536_000_001}),
    "approval extra": approval(extra=1),
    "approval scope extra": approval(scope={"tenant_id": "t", "namespace": "n", "x": 1}),
    "approval arguments list": approval(action={"name": "m:f", "version": "1", "arguments": []}),
    "approval action too long": approval(action={"name": "m:f", "version": "1", "arguments": {"x": "y" * 32768}}),
    "approval proposal list": approval(proposed_arguments=[]),
    "parent alone": {"parent_workflow_id": "p"},
    "root alone": {"root_workflow_id": "r"},
    "null lineage": {"parent_workflow_id": None, "root_workflow_id": None},
    "own parent": {"parent_workflow_id": "wf", "root_workflow_id": "r"},
    "own root": {"parent_workflow_id": "p", "root_workflow_id": "wf"},
}


@pytest.mark.parametrize("name", VALID)
def test_a_valid_payload_runs_the_handler(lab, name):
    """RUN-062, RUN-068 … RUN-070, HLP-044, HLP-047."""
    assert lab.completed("return ctx.complete('ran')", **VALID[name]) == "ran"


@pytest.mark.parametrize("name", INVALID)
def test_an_invalid_payload_is_a_workflow_error_and_the_handler_is_not_called(lab, name):
    """RUN-062, RUN-068 … RUN-070; RUN-065: the process takes the next one (HLP-146)."""
    assert lab.refused(CALLED, **INVALID[name])


@pytest.mark.parametrize(
    "extension",
    [
        {},
        [],
        "text",
        1,
        False,
        {"schema": "ledgence.workflow.activation.v1"},
        {"schema": "ledgence.workflow.activation.v2", "payload": {}},
        {"schema": None, "payload": {}},
        {"schema": "ledgence.workflow.activation.v1", "payload": None},
        {"schema": "ledgence.workflow.activation.v1", "payload": {}, "extra": 1},
    ],
)
def test_an_unknown_extension_is_a_workflow_error(lab, extension):
    """RUN-061, vector 'wrong schema': the next invocation works."""
    result = lab.host.invoke({"code": CALLED}, extension=extension, event={"ldgactivationid": "act"})
    assert (result["status"], result["error"]["kind"]) == ("runtime_error", "workflow_error")
    assert lab.completed("return ctx.complete(1)") == 1


@pytest.mark.parametrize(
    ("changed", "payload"),
    [
        ({"ldgtaskid": "other"}, {}),
        ({"ldgtaskid": ...}, {}),
        ({"ldgactivationid": "other"}, {}),
        ({"ldgworkflowid": "other"}, {}),
        ({"ldgworkflowid": ...}, {}),
        ({"ldgparentworkflowid": "p"}, {}),
        ({"ldgrootworkflowid": "other"}, {}),
        ({"ldgrootworkflowid": None}, {}),
        ({"ldgparentworkflowid": ...}, {"parent_workflow_id": "p", "root_workflow_id": "r"}),
        ({"ldgparentworkflowid": "other"}, {"parent_workflow_id": "p", "root_workflow_id": "r"}),
        ({"ldgrootworkflowid": "other"}, {"parent_workflow_id": "p", "root_workflow_id": "r"}),
        ({"ldgrootworkflowid": ...}, {"parent_workflow_id": "p", "root_workflow_id": "r"}),
    ],
)
def test_a_payload_of_another_event_is_a_workflow_error(lab, changed, payload):
    """RUN-063."""
    assert lab.refused(CALLED, invoke={"event": changed}, **payload)


def test_a_root_may_name_itself_in_the_event(lab):
    """RUN-063."""
    assert lab.completed("return ctx.complete(1)", invoke={"event": {"ldgrootworkflowid": "wf"}}) == 1


@pytest.mark.parametrize(
    "code",
    [
        "raise ValueError('x')",
        "return 1",
        "return {1}",
        "return ctx.complete(object())",
        "await asyncio.wait_for(asyncio.Event().wait(), 0)",
    ],
)
def test_every_exception_of_an_activation_is_a_workflow_error(lab, code):
    """RUN-064, RUN-065."""
    lab.refused(code)
    assert lab.completed("return ctx.complete(1)") == 1


def test_a_decision_larger_than_the_frame_is_a_workflow_error(hosts, package):
    """RUN-064: `invalid_output` never occurs in an activation."""
    source = """
        from ledgence.worker.workflow import workflow_context
        def handle(event):
            return workflow_context().complete("x" * event["data"])
    """
    host = hosts(package(source), limit=2048).ready()
    payload = {
        "v": 1,
        "workflow_id": "wf",
        "activation_id": "act",
        "revision": 0,
        "continuation": "start",
        "state": None,
        "inputs": {},
        "local_steps": [],
    }
    result = host.invoke(5000, payload=payload)
    assert (result["status"], result["error"]["kind"]) == ("runtime_error", "workflow_error")
    assert host.invoke(10, payload=payload)["status"] == "success"


def test_the_event_may_hold_fewer_bytes_than_the_payload_but_more_than_an_event(lab):
    """HLP-044: an event that the server counts as 64 KiB may be longer in Python's float text."""
    data = [1e-07] * 13000
    size = len(json.dumps(EVENT | {"data": data}, separators=(",", ":")))
    assert 65536 < size + 100 < 65536 + 2 * len(data)
    assert lab.completed("return ctx.complete(len(ctx.wake['event']['data']))", **event(data=data)) == 13000
