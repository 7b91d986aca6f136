"""Wakes: events, timers and approvals, and the steps that an approval allows (1.6.3, 3.9)."""

from collections.abc import Iterator
from typing import Any

from parity.case import Case, Frame, controller
from parity.written.activations import SHOW

EVENT = {
    "specversion": "1.0",
    "id": "e",
    "source": "urn:s",
    "type": "t",
    "datacontenttype": "application/json",
    "data": {"b": 1, "a": 2},
}

EVENTS: dict[str, dict[str, Any]] = {
    "plain": {},
    "data-missing": {"data": ...},
    "data-null": {"data": None},
    "data-deep": {"data": [[[[[[[[[[[[1]]]]]]]]]]]]},
    "specversion": {"specversion": "1.1"},
    "content-type": {"datacontenttype": "application/json; charset=utf-8"},
    "content-type-missing": {"datacontenttype": ...},
    "id-128": {"id": "x" * 128},
    "id-129": {"id": "x" * 129},
    "id-empty": {"id": ""},
    "source-relative": {"source": "/a/b?c#d"},
    "source-space": {"source": "a b"},
    "source-percent": {"source": "a%2"},
    "source-empty": {"source": ""},
    "source-2049": {"source": "a" * 2049},
    "source-colon": {"source": "1:a"},
    "source-ip": {"source": "http://[::1]:80/"},
    "source-bad-ip": {"source": "http://[::1/"},
    "source-unicode": {"source": "ä"},
    "type-empty": {"type": ""},
    "subject": {"subject": "s"},
    "subject-empty": {"subject": ""},
    "schema": {"dataschema": "http://a/b"},
    "schema-relative": {"dataschema": "/b"},
    "schema-fragment": {"dataschema": "http://a/b#c"},
    "time": {"time": "2020-01-01T00:00:00Z"},
    "time-lower": {"time": "2020-01-01t00:00:00.123456789z"},
    "time-space": {"time": "2020-01-01 00:00:00Z"},
    "time-day": {"time": "2021-02-29T00:00:00Z"},
    "time-offset": {"time": "2020-01-01T00:00:00+23:59"},
    "time-offset-above": {"time": "2020-01-01T00:00:00+24:00"},
    "time-leap": {"time": "2016-12-31T23:59:60Z"},
    "time-leap-offset": {"time": "2017-01-01T01:59:60+02:00"},
    "time-leap-wrong": {"time": "2016-12-30T23:59:60Z"},
    "time-none": {"time": None},
    "extension": {"abc1": "x", "n": 5, "b": True},
    "extension-upper": {"Abc": "x"},
    "extension-underscore": {"a_b": "x"},
    "extension-big": {"n": 2**31},
    "extension-low": {"n": -(2**31)},
    "extension-float": {"n": 1.0},
    "extension-null": {"n": None},
    "extension-object": {"n": {}},
    "extension-control": {"n": "a\nb"},
    "extension-empty": {"n": ""},
    "data-base64": {"data_base64": "eA=="},
    "trace": {"traceparent": f"00-{'a' * 32}-{'b' * 16}-01"},
    "trace-zero": {"traceparent": f"00-{'0' * 32}-{'b' * 16}-01"},
    "trace-state": {"traceparent": f"00-{'a' * 32}-{'b' * 16}-01", "tracestate": "a=1"},
    "trace-state-alone": {"tracestate": "a=1"},
    "trace-state-bad": {"traceparent": f"00-{'a' * 32}-{'b' * 16}-01", "tracestate": "A=1"},
    "bytes": {"data": "x" * 65400},
    "bytes-above": {"data": "x" * 65536},
}

WAKES: dict[str, Any] = {
    "timeout": {"kind": "timeout", "key": "k", "deadline": 5},
    "timer": {"kind": "timer", "key": "k", "deadline": 253402300799999},
    "timer-above": {"kind": "timer", "key": "k", "deadline": 253402300800000},
    "timer-float": {"kind": "timer", "key": "k", "deadline": 5.0},
    "timer-negative": {"kind": "timer", "key": "k", "deadline": -1},
    "timer-key": {"kind": "timer", "key": "", "deadline": 1},
    "timer-extra": {"kind": "timer", "key": "k", "deadline": 1, "x": 1},
    "unknown": {"kind": "x", "key": "k", "deadline": 1},
    "kind-list": {"kind": [], "key": "k", "deadline": 1},
    "list": [],
    "text": "timer",
}

APPROVAL: Frame = {
    "scope": {"tenant_id": "t", "namespace": "n"},
    "workflow_id": "wf",
    "key": "k",
    "activation_id": "before",
    "revision": 0,
    "action": {"name": "program:add", "version": "1", "arguments": {"x": 1, "y": 2}},
    "proposed_arguments": None,
    "created_at": 10,
    "deadline": 20,
    "status": "approved",
    "decision": {"decision_id": "d", "decision": "approve", "reviewer": "r", "reason": None, "decided_at": 15},
    "resumed_activation_id": "act",
}
REJECTED = {"status": "rejected", "decision": APPROVAL["decision"] | {"decision": "reject", "reason": "no"}}
APPROVALS: dict[str, dict[str, Any]] = {
    "approved": {},
    "rejected": REJECTED,
    "expired": {"status": "expired", "decision": None},
    "cancelled": {"status": "cancelled", "decision": None, "resumed_activation_id": None},
    "pending": {"status": "pending", "decision": None, "resumed_activation_id": None},
    "no-decision": {"decision": None},
    "wrong-decision": {"decision": REJECTED["decision"]},
    "expired-decision": {"status": "expired"},
    "other-workflow": {"workflow_id": "x"},
    "other-activation": {"resumed_activation_id": "x"},
    "same-activation": {"activation_id": "act"},
    "other-revision": {"revision": 1},
    "late-decision": {"decision": APPROVAL["decision"] | {"decided_at": 20}},
    "early-decision": {"decision": APPROVAL["decision"] | {"decided_at": 9}},
    "long-reason": {"decision": APPROVAL["decision"] | {"reason": "x" * 4097}},
    "empty-reason": {"decision": APPROVAL["decision"] | {"reason": ""}},
    "control-reason": {"decision": APPROVAL["decision"] | {"reason": "a\nb"}},
    "reviewer": {"decision": APPROVAL["decision"] | {"reviewer": ""}},
    "decision-extra": {"decision": APPROVAL["decision"] | {"x": 1}},
    "extra": {"x": 1},
    "missing": {"proposed_arguments": ...},
    "proposed": {"proposed_arguments": {"b": 1, "a": 2}},
    "proposed-list": {"proposed_arguments": []},
    "scope": {"scope": {"tenant_id": "t"}},
    "scope-extra": {"scope": {"tenant_id": "t", "namespace": "n", "x": 1}},
    "action-list": {"action": {"name": "n", "version": "1", "arguments": []}},
    "deadline-before": {"deadline": 9, "decision": None, "status": "expired"},
    "deadline-same": {"deadline": 10, "decision": None, "status": "expired"},
    "deadline-far": {"deadline": 10 + 31_536_000_000},
    "deadline-too-far": {"deadline": 11 + 31_536_000_000},
    "status-unknown": {"status": "x"},
    "status-list": {"status": []},
}

APPROVED_BODIES = {
    "run": "return ctx.complete(await ctx.approved_local(add, version='1'))",
    "other-version": "return ctx.complete(refused(ctx.approved_local, add, version='2'))",
    "other-function": "return ctx.complete(refused(ctx.approved_local, identity, version='1'))",
    "twice": "return ctx.complete(await ctx.gather(ctx.approved_local(add, version='1'), ctx.approved_local(add, version='1')))",
    "other-object": (
        "def f(x, y):\n    return 9\nf.__qualname__ = 'add'\nf.__module__ = 'program'\nr = ctx.approved_local(add, version='1')\n"
        "return ctx.complete([refused(ctx.approved_local, f, version='1'), await r])"
    ),
    "default-missing": "def add(x, y, z=3):\n    return 9\nadd.__qualname__ = 'add'\nreturn ctx.complete(refused(ctx.approved_local, add, version='1'))",
    "argument-missing": "def add(x):\n    return 9\nadd.__qualname__ = 'add'\nreturn ctx.complete(refused(ctx.approved_local, add, version='1'))",
    "with-arguments": "try:\n    ctx.approved_local(add, version='1', x=1)\nexcept TypeError:\n    return ctx.complete('type')",
    "frozen": "try:\n    ctx.approval.status = 'x'\nexcept Exception as e:\n    return ctx.complete([isinstance(e, AttributeError), type(ctx.approval).__name__])",
    "show": (
        "a = ctx.approval\nd = a.decision\nreturn ctx.complete([a.status, a.key, a.scope, a.workflow_id, a.activation_id, a.revision, a.resumed_activation_id,"
        " a.proposed_arguments, a.created_at, a.deadline, a.action.to_dict(), [d.decision_id, d.decision, d.reviewer, d.reason, d.decided_at]])"
    ).replace("a.status", "str(a.status)"),
    "types": "a = ctx.approval\nreturn ctx.complete([type(x).__name__ for x in (a.status, a.action, a.decision, a.scope, a.decision.decision)] + [a is ctx.approval, a == ctx.approval, hash(a) == hash(ctx.approval)])",
    "copies": "ctx.approval.scope['x'] = 1\nctx.approval.to_dict()['key'] = 'x'\nctx.wake['approval']['key'] = 'y'\nreturn ctx.complete([ctx.approval.scope, ctx.approval.key, ctx.wake['approval']['key']])",
    "fail": "try:\n    await ctx.approved_local(add, version=1)\nexcept workflow.WorkflowError:\n    return ctx.complete('refused')",
}


def cases() -> Iterator[Case]:
    for name, changes in EVENTS.items():
        event = {key: value for key, value in (EVENT | changes).items() if value is not ...}
        yield controller(
            f"wake/event/{name}", SHOW, wake={"kind": "event", "key": "k", "event": event, "accepted_at": 5}
        )
    yield controller(
        "wake/event/extra", SHOW, wake={"kind": "event", "key": "k", "event": EVENT, "accepted_at": 5, "x": 1}
    )
    for name, wake in WAKES.items():
        yield controller(f"wake/{name}", SHOW, wake=wake)
    for name, changes in APPROVALS.items():
        approval = {key: value for key, value in (APPROVAL | changes).items() if value is not ...}
        yield controller(f"wake/approval/{name}", SHOW, revision=1, wake={"kind": "approval", "approval": approval})
    for name, body in APPROVED_BODIES.items():
        yield controller(f"approved/{name}", body, revision=1, wake={"kind": "approval", "approval": APPROVAL})
    rejected = {"kind": "approval", "approval": APPROVAL | REJECTED}
    yield controller(
        "approved/rejected", APPROVED_BODIES["other-version"].replace("'2'", "'1'"), revision=1, wake=rejected
    )
