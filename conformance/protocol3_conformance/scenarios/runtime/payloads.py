"""Activation contexts that are valid, and such as are not: tables for `test_activation` (chapter 21)."""

from __future__ import annotations

from typing import Any

from protocol3_conformance.bounds import bound
from protocol3_conformance.wire.frames import Frame, traceparent
from protocol3_conformance.wire.strict_json import compact_size


def nested(depth: int, leaf: Any = None) -> Any:
    for _ in range(depth):
        leaf = [leaf]
    return leaf


def task_outcome(state: str = "succeeded", **changes: Any) -> Frame:
    ended = {"attempt_id": "a", "quiescence": "confirmed", "execution_may_have_started": True}
    lost = {**ended, "quiescence": "unconfirmed", "failure": {"kind": "attempt_lost"}}
    parts: dict[str, Frame] = {"succeeded": {**ended, "output": 1}, "failed": lost, "cancelled": {}}
    whole = {"kind": state} | parts[state] | changes
    outcome = {name: value for name, value in whole.items() if value is not ...}
    return {"task_id": "t", "state": state, "outcome": outcome}


def workflow_outcome(state: str = "succeeded", **changes: Any) -> Frame:
    parts: dict[str, Frame] = {
        "succeeded": {"output": 1},
        "failed": {"error": {"kind": "k", "message": ""}},
        "cancelled": {},
    }
    return {"kind": "workflow", "workflow_id": "w", "state": state, "outcome": {"kind": state} | parts[state] | changes}


def failure(**members: Any) -> Frame:
    return task_outcome("failed", failure=members)


def inputs(**children: Frame) -> Frame:
    return {"inputs": children}


def wake(**members: Any) -> Frame:
    return {"wake": members}


def event(**changes: Any) -> Frame:
    whole = {name: value for name, value in (EVENT | changes).items() if value is not ...}
    return wake(kind="event", key="k", event=whole, accepted_at=5)


def approval(**changes: Any) -> Frame:
    return {"revision": 5, "wake": {"kind": "approval", "approval": APPROVAL | changes}}


EXECUTION: Frame = {
    "kind": "execution",
    "error": {"kind": "runtime", "message": ""},
    "phase": "execution",
    "cleanup_error": None,
}
APPLICATION: Frame = {"kind": "application", "error": {"kind": "k", "message": "m"}}
RECORD: Frame = {"key": "k", "callable": "m:f", "input": [1], "output": None}
RECORD_ROOM = bound("LOCAL_RECORD_BYTES") - compact_size(RECORD | {"output": ""})
EVENT: Frame = {
    "specversion": "1.0",
    "id": "e",
    "source": "urn:s",
    "type": "t",
    "datacontenttype": "application/json",
    "data": None,
}
DECIDED: Frame = {"decision_id": "d", "decision": "approve", "reviewer": "r", "reason": None, "decided_at": 150}
APPROVAL: Frame = {
    "scope": {"tenant_id": "t", "namespace": "n"},
    "workflow_id": "wf_1",
    "key": "k",
    "activation_id": "before",
    "revision": 4,
    "action": {"name": "program:add", "version": "1", "arguments": {"x": 1, "y": 2}},
    "proposed_arguments": {"x": 9},
    "created_at": 100,
    "deadline": 200,
    "status": "approved",
    "decision": DECIDED,
    "resumed_activation_id": "task_1",
}
EXPIRED: Frame = {"status": "expired", "decision": None}
MOMENT, LATE = bound("MAX_TIMESTAMP_MS"), bound("MAX_TIMESTAMP_MS") + 1
YEAR = bound("MAX_WAIT_DURATION_MS")
ID = bound("ID_BYTES")
STATE = bound("STATE_BYTES") - 2
BIG = bound("U64_MAX")

VALID: dict[str, Frame] = {
    "defaults": {},
    "largest revision": {"revision": BIG},
    "longest texts": {"continuation": "é" * (ID // 2)},
    "state below the limit": {"state": "x" * (STATE - 1)},
    "state of the limit": {"state": "x" * STATE},
    "state of depth 63": {"state": nested(63)},
    "state of depth 64": {"state": nested(64)},
    "state with the allowance for floats": {"state": [1e-07] * 13107},
    "63 inputs": inputs(**{f"k{number}": task_outcome() for number in range(63)}),
    "64 inputs": inputs(**{f"k{number}": task_outcome() for number in range(64)}),
    "task outcomes": inputs(**{state: task_outcome(state) for state in ("succeeded", "failed", "cancelled")}),
    "workflow outcomes": inputs(**{state: workflow_outcome(state) for state in ("succeeded", "failed", "cancelled")}),
    "output of depth 64": inputs(k=task_outcome(output=nested(64))),
    "application failure": inputs(k=failure(**APPLICATION)),
    "execution failure": inputs(k=failure(**EXECUTION)),
    "clean-up error": inputs(k=failure(**EXECUTION | {"cleanup_error": {"kind": "io", "message": "m"}})),
    "127 records": {"local_steps": [RECORD | {"key": f"k{number}"} for number in range(127)]},
    "128 records": {"local_steps": [RECORD | {"key": f"k{number}"} for number in range(128)]},
    "record below the limit": {"local_steps": [RECORD | {"output": "x" * (RECORD_ROOM - 1)}]},
    "record of the limit": {"local_steps": [RECORD | {"output": "x" * RECORD_ROOM}]},
    "null wake": {"wake": None},
    "event wake": event(),
    "event with everything": event(
        subject="s",
        dataschema="urn:schema",
        time="2024-06-30T23:59:60Z",
        traceparent=traceparent(),
        tracestate="a=1",
        custom="",
        flag=False,
        number=-(2**31),
        data=nested(64),
    ),
    "timeout wake": wake(kind="timeout", key="k", deadline=MOMENT),
    "timer wake": wake(kind="timer", key="k", deadline=0),
    "nested workflow": {"parent_workflow_id": "p", "root_workflow_id": "r"},
    "parent is root": {"parent_workflow_id": "p", "root_workflow_id": "p"},
}
VALID_APPROVALS: dict[str, Frame] = {
    "approved": approval(),
    "rejected": approval(status="rejected", decision=DECIDED | {"decision": "reject", "reason": "\n"}),
    "expired": approval(**EXPIRED),
    "no proposed arguments": approval(proposed_arguments=None),
    "a year": approval(**EXPIRED | {"deadline": 100 + YEAR}),
}
INVALID_SHAPE: dict[str, Frame] = {
    "v true": {"v": True},
    "v 2": {"v": 2},
    "v 1.0": {"v": 1.0},
    "extra member": {"extra": 1},
    **{f"no {name}": {name: ...} for name in ("v", "revision", "continuation", "state", "inputs", "local_steps")},
    "revision -1": {"revision": -1},
    "revision too large": {"revision": BIG + 1},
    "revision true": {"revision": True},
    "revision 1.0": {"revision": 1.0},
    "continuation empty": {"continuation": ""},
    "continuation too long": {"continuation": "x" * (ID + 1)},
    "continuation with control": {"continuation": "a\x85"},
    "continuation with noncharacter": {"continuation": "a\ufffe"},
    "continuation null": {"continuation": None},
    "state too long": {"state": "x" * (STATE + 1)},
    "state too deep": {"state": nested(65)},
    "inputs list": {"inputs": []},
    "65 inputs": inputs(**{f"k{number}": task_outcome() for number in range(65)}),
    "input key too long": inputs(**{"k" * (ID + 1): task_outcome()}),
    "inputs too long": inputs(**{f"k{number}": task_outcome(output="x" * 90_000) for number in range(3)}),
    "journal object": {"local_steps": {}},
    "129 records": {"local_steps": [RECORD | {"key": f"k{number}"} for number in range(129)]},
    "record key twice": {"local_steps": [RECORD, RECORD]},
    "record with extra member": {"local_steps": [RECORD | {"extra": 1}]},
    "record key too long": {"local_steps": [RECORD | {"key": "k" * (ID + 1)}]},
    "record callable too long": {"local_steps": [RECORD | {"callable": "c" * (bound("CALLABLE_BYTES") + 1)}]},
    "record too long": {"local_steps": [RECORD | {"output": "x" * (RECORD_ROOM + 1)}]},
    "journal too long": {"local_steps": [RECORD | {"key": f"k{n}", "output": "x" * 90_000} for n in range(3)]},
    "parent alone": {"parent_workflow_id": "p"},
    "root alone": {"root_workflow_id": "r"},
    "null lineage": {"parent_workflow_id": None, "root_workflow_id": None},
    "own parent": {"parent_workflow_id": "wf_1", "root_workflow_id": "r"},
    "own root": {"parent_workflow_id": "p", "root_workflow_id": "wf_1"},
}
INVALID_INPUTS: dict[str, Frame] = {
    "extra member": inputs(k=task_outcome() | {"extra": 1}),
    "no task id": inputs(k={"state": "cancelled", "outcome": {"kind": "cancelled"}}),
    "kind differs from state": inputs(k=task_outcome("cancelled", kind="failed")),
    "unknown state": inputs(k=task_outcome("cancelled") | {"state": "running"}),
    "not started but succeeded": inputs(k=task_outcome(execution_may_have_started=False)),
    "started is 1": inputs(k=task_outcome(execution_may_have_started=1)),
    "quiescence unknown": inputs(k=task_outcome(quiescence="maybe")),
    "no output": inputs(k=task_outcome(output=...)),
    "output too deep": inputs(k=task_outcome(output=nested(65))),
    "cancelled with attempt": inputs(k=task_outcome("cancelled", attempt_id="a")),
    "failure unknown": inputs(k=failure(kind="other")),
    "application not started": inputs(k=task_outcome("failed", execution_may_have_started=False, failure=APPLICATION)),
    "application with a phase": inputs(k=failure(**APPLICATION, phase="execution")),
    "execution kind unknown": inputs(k=failure(**EXECUTION | {"error": {"kind": "odd", "message": ""}})),
    "execution phase unknown": inputs(k=failure(**EXECUTION | {"phase": "later"})),
    "execution without clean-up": inputs(k=failure(kind="execution", error=EXECUTION["error"], phase="execution")),
    "lost but confirmed": inputs(k=task_outcome("failed", quiescence="confirmed")),
    "kind unknown": inputs(k=workflow_outcome() | {"kind": "task"}),
    "workflow with task id": inputs(k=workflow_outcome() | {"task_id": "t"}),
    "workflow error kind empty": inputs(k=workflow_outcome("failed", error={"kind": "", "message": ""})),
    "workflow error message too long": inputs(
        k=workflow_outcome("failed", error={"kind": "k", "message": "x" * (bound("FREE_TEXT_BYTES") + 1)})
    ),
}
INVALID_WAKES: dict[str, Frame] = {
    "unknown kind": wake(kind="other", key="k"),
    "no kind": wake(key="k", deadline=1),
    "a text": {"wake": "timer"},
    "timer with extra member": wake(kind="timer", key="k", deadline=1, extra=1),
    "timer key empty": wake(kind="timer", key="", deadline=1),
    "timer key too long": wake(kind="timer", key="k" * (ID + 1), deadline=1),
    "timer deadline too large": wake(kind="timer", key="k", deadline=LATE),
    "timer deadline negative": wake(kind="timer", key="k", deadline=-1),
    "timer deadline 1.0": wake(kind="timer", key="k", deadline=1.0),
    "timeout without deadline": wake(kind="timeout", key="k"),
    "event without acceptance": wake(kind="event", key="k", event=EVENT),
}
INVALID_EVENTS: dict[str, Frame] = {
    "no data": event(data=...),
    "specversion": event(specversion="1.1"),
    "content type": event(datacontenttype="text/plain"),
    "id empty": event(id=""),
    "id too long": event(id="i" * (ID + 1)),
    "source with a blank": event(source="a b"),
    "type empty": event(type=""),
    "attribute upper case": event(Custom="x"),
    "attribute null": event(custom=None),
    "attribute float": event(custom=1.0),
    "attribute of more than 32 bits": event(custom=2**31),
    "attribute with control": event(custom="a\n"),
    "subject empty": event(subject=""),
    "dataschema relative": event(dataschema="schema"),
    "dataschema with fragment": event(dataschema="urn:schema#x"),
    "time that is no day": event(time="2024-02-30T00:00:00Z"),
    "leap second in February": event(time="2024-02-28T23:59:60Z"),
    "traceparent": event(traceparent="00-x"),
    "tracestate alone": event(tracestate="a=1"),
    "data too deep": event(data=nested(65)),
    "too long": event(data="x" * bound("EVENT_BYTES")),
}
INVALID_APPROVALS: dict[str, Frame] = {
    "pending": approval(status="pending", decision=None, resumed_activation_id=None),
    "cancelled": approval(status="cancelled", decision=None, resumed_activation_id=None),
    "of another workflow": approval(workflow_id="other"),
    "resumes another activation": approval(resumed_activation_id="other"),
    "resumes nothing": approval(resumed_activation_id=None),
    "of another revision": approval(revision=5),
    "asked by this activation": approval(activation_id="task_1"),
    "approved without decision": approval(decision=None),
    "decision differs": approval(decision=DECIDED | {"decision": "reject"}),
    "decided before it was asked": approval(decision=DECIDED | {"decided_at": 99}),
    "decided at the deadline": approval(decision=DECIDED | {"decided_at": 200}),
    "expired with decision": approval(status="expired"),
    "reason too long": approval(decision=DECIDED | {"reason": "x" * (bound("FREE_TEXT_BYTES") + 1)}),
    "deadline before creation": approval(**EXPIRED | {"deadline": 99}),
    "longer than a year": approval(**EXPIRED | {"deadline": 100 + YEAR + 1}),
    "extra member": approval(extra=1),
    "extra member of scope": approval(scope={"tenant_id": "t", "namespace": "n", "x": 1}),
    "arguments list": approval(action={"name": "m:f", "version": "1", "arguments": []}),
    "action too long": approval(
        action={"name": "m:f", "version": "1", "arguments": {"x": "y" * bound("ACTION_BYTES")}}
    ),
    "proposed list": approval(proposed_arguments=[]),
}
MISMATCHES: list[tuple[Frame, Frame]] = [
    ({"ldgtaskid": "other"}, {}),
    ({"ldgtaskid": ...}, {}),
    ({"ldgactivationid": "other"}, {}),
    ({"ldgworkflowid": "other"}, {}),
    ({"ldgworkflowid": ...}, {}),
    ({"ldgparentworkflowid": "p"}, {}),
    ({"ldgrootworkflowid": "other"}, {}),
    ({"ldgparentworkflowid": ...}, {"parent_workflow_id": "p", "root_workflow_id": "r"}),
    ({"ldgparentworkflowid": "other"}, {"parent_workflow_id": "p", "root_workflow_id": "r"}),
    ({"ldgrootworkflowid": "other"}, {"parent_workflow_id": "p", "root_workflow_id": "r"}),
    ({"ldgrootworkflowid": ...}, {"parent_workflow_id": "p", "root_workflow_id": "r"}),
]
"""(change of the event, change of the payload) that do not fit together."""
