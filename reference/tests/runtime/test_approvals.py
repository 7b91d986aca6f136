"""Approvals (chapter 23)."""

import hashlib

import pytest

ACTION = {"name": "program:add", "version": "1", "arguments": {"x": 1, "y": 2}}
APPROVAL = {
    "scope": {"tenant_id": "t", "namespace": "n"},
    "workflow_id": "wf",
    "key": "k",
    "activation_id": "before",
    "revision": 4,
    "action": ACTION,
    "proposed_arguments": {"x": 9},
    "created_at": 100,
    "deadline": 200,
    "status": "approved",
    "decision": {"decision_id": "d", "decision": "approve", "reviewer": "r", "reason": "ok", "decided_at": 150},
    "resumed_activation_id": "act",
}
STEP_KEY = "_approval:8254c329a92850f6d539dd376f4816ee2764517da5e0235514af433164480d7a"
MADE = "ApprovalAction('n', version='1', arguments={'x': 1})"
REQUEST = f"ctx.request_approval('k', action={MADE}, state=None, timeout_ms=5, resume='c')"


def approved(**changes):
    return {"revision": 5, "wake": {"kind": "approval", "approval": APPROVAL | changes}}


def test_the_decision_has_this_form(lab):
    """HLP-085: `wait_approval` is the same method (HLP-145)."""
    for code in (REQUEST, REQUEST.replace("resume=", "continuation="), REQUEST.replace("request_", "wait_")):
        decision = lab.decision(f"return {code}", revision=2)
        assert decision == {
            "v": 1,
            "activation_id": "act",
            "revision": 2,
            "kind": "wait",
            "continuation": "c",
            "state": None,
            "commands": [],
            "wait": {
                "kind": "approval",
                "key": "k",
                "action": {"name": "n", "version": "1", "arguments": {"x": 1}},
                "timeout_ms": 5,
            },
        }


@pytest.mark.parametrize(
    "changed",
    [
        REQUEST.replace("timeout_ms=5", "timeout_ms=0"),
        REQUEST.replace("timeout_ms=5", "timeout_ms=31536000000"),
        REQUEST.replace("state", "proposed_arguments={}, state"),
        REQUEST.replace(MADE, "{'name': 'n', 'version': '1', 'arguments': {}}"),
    ],
)
def test_accepted_requests(lab, changed):
    """HLP-085."""
    assert lab.decision(f"return {changed}")["kind"] == "wait"


@pytest.mark.parametrize(
    "changed",
    [
        REQUEST.replace("resume='c'", "resume='c', continuation='c'"),
        REQUEST.replace(", resume='c'", ""),
        REQUEST.replace("resume='c'", "resume=None"),
        REQUEST.replace("'k'", "''"),
        *(REQUEST.replace("=5", f"={value}") for value in ("None", "-1", "31536000001", "1.0", "True", "'5'")),
        *(
            REQUEST.replace("state", f"proposed_arguments={value}, state")
            for value in ("[]", "'x'", "{'x': object()}", "{'x': 'y' * 32768}", "{1: 2}")
        ),
        *(
            REQUEST.replace(MADE, value)
            for value in (
                "None",
                "'n'",
                "{}",
                "{'name': 'n', 'version': '1'}",
                "{'name': 'n', 'version': '1', 'arguments': []}",
                "{'name': 'n', 'version': '1', 'arguments': {}, 'extra': 1}",
                "{'name': '', 'version': '1', 'arguments': {}}",
                "{'name': 'n', 'version': None, 'arguments': {}}",
                "{'name': 'n', 'version': '1', 'arguments': {'x': 'y' * 32768}}",
            )
        ),
    ],
)
def test_refused_requests(lab, changed):
    """HLP-085."""
    assert lab.completed(f"return ctx.complete(refused(lambda: {changed}))") is True


def test_proposed_arguments_are_part_of_the_wait_only_if_given(lab):
    """HLP-085."""
    decision = lab.decision("return " + REQUEST.replace("state", "proposed_arguments={'x': (1,)}, state"))
    assert decision["wait"]["proposed_arguments"] == {"x": [1]}


def test_an_action_is_immutable_and_hands_out_copies(lab):
    """HLP-082."""
    code = """
        arguments = {"b": [1], "a": 2}
        action = ApprovalAction("n", version="1", arguments=arguments)
        arguments["b"].append(2)
        action.arguments["b"].append(3)
        action.to_dict()["arguments"]["b"].append(4)
        try:
            action.name = "other"
        except (AttributeError, TypeError):
            return ctx.complete([action.name, action.version, action.arguments, action.to_dict()])
    """
    arguments = {"a": 2, "b": [1]}
    whole = {"name": "n", "version": "1", "arguments": arguments}
    assert lab.completed(code) == ["n", "1", arguments, whole]


@pytest.mark.parametrize(
    "arguments",
    [
        "'', version='1', arguments={}",
        "'n' * 513, version='1', arguments={}",
        "1, version='1', arguments={}",
        "'n', version='', arguments={}",
        "'n', version='v' * 129, arguments={}",
        "'n', version='1', arguments=None",
        "'n', version='1', arguments=[]",
        "'n', version='1', arguments=__import__('collections').OrderedDict()",
        "'n', version='1', arguments={1: 2}",
        "'n', version='1', arguments={'x': object()}",
        "'n', version='1', arguments={'x': nested(64)}",
        "'n', version='1', arguments={'x': 'y' * (32768 - 8)}",
        "'n' * 512, version='1', arguments={'x': 'y' * (32768 - 100)}",
    ],
)
def test_refused_actions(lab, arguments):
    """HLP-082, HLP-026: an action of 32 KiB, its arguments 64 levels deep."""
    assert lab.completed(f"return ctx.complete(refused(ApprovalAction, {arguments}))") is True


def test_an_action_of_32_kib_is_the_largest(lab):
    """HLP-082."""
    code = """
        room = 32768 - len('{"arguments":{"x":""},"name":"n","version":"1"}')
        make = lambda size: ApprovalAction("n", version="1", arguments={"x": "y" * size})
        return ctx.complete([refused(make, room), refused(make, room + 1)])
    """
    assert lab.completed(code) == [False, True]


def test_for_callable_takes_name_and_effective_arguments(lab):
    """HLP-083."""
    code = """
        action = ApprovalAction.for_callable(add, version="1", arguments={"x": 1})
        make = ApprovalAction.for_callable
        found = [refused(make, add, version="1", arguments={"z": 1}), refused(make, "add", version="1", arguments={})]
        return ctx.complete([action.to_dict(), *found])
    """
    expected = {"name": "program:add", "version": "1", "arguments": {"x": 1, "y": 0}}
    assert lab.completed(code) == [expected, True, True]


def test_the_approval_of_the_wake(lab):
    """HLP-084: every getter, and copies only."""
    code = """
        approval = ctx.approval
        approval.to_dict().clear()
        approval.scope.clear()
        approval.proposed_arguments.clear()
        decision = approval.decision
        try:
            decision.reviewer = "other"
        except (AttributeError, TypeError):
            pass
        assert type(approval) is Approval and type(approval.action) is ApprovalAction
        assert approval.status is ApprovalStatus.APPROVED and type(decision) is ApprovalDecision
        plain = ["key", "scope", "workflow_id", "activation_id", "revision", "resumed_activation_id",
                 "proposed_arguments", "created_at", "deadline"]
        decided = ["decision_id", "decision", "reviewer", "reason", "decided_at"]
        return ctx.complete([
            {name: getattr(approval, name) for name in plain},
            approval.action.to_dict(),
            approval.to_dict(),
            {name: getattr(decision, name) for name in decided},
        ])
    """
    plain = {name: value for name, value in APPROVAL.items() if name not in ("action", "status", "decision")}
    assert lab.completed(code, **approved()) == [plain, ACTION, APPROVAL, APPROVAL["decision"]]


@pytest.mark.parametrize(
    ("status", "changes"),
    [
        ("rejected", {"decision": APPROVAL["decision"] | {"decision": "reject"}}),
        ("expired", {"decision": None, "proposed_arguments": None}),
    ],
)
def test_after_rejection_or_expiry_the_status_tells(lab, status, changes):
    """HLP-084, HLP-086, HLP-090."""
    code = """
        approval = ctx.approval
        decision = approval.decision and approval.decision.decision
        return ctx.complete([approval.status, refused(ctx.approved_local, add, version="1"), decision])
    """
    code = code.replace("[approval.status,", "[approval.status.value,")
    decision = changes["decision"] and "reject"
    assert lab.completed(code, **approved(status=status, **changes)) == [status, True, decision]


def test_an_approved_action_runs_with_exactly_the_saved_arguments(lab):
    """HLP-086 … HLP-088; vector of chapter 23."""
    code = "return ctx.complete([await ctx.approved_local(add, version='1'), calls])"
    assert lab.completed(code, **approved()) == [3, [["add", 1, 2]]]
    [request] = lab.host.requests
    assert request["payload"]["key"] == STEP_KEY == "_approval:" + hashlib.sha256(b"k").hexdigest()
    assert request["payload"]["output"] == 3


def test_an_approved_step_is_replayed_and_shared(lab):
    """HLP-088, HLP-089."""
    code = """
        first, second = ctx.approved_local(add, version="1"), ctx.approved_local(add, version="1")
        return ctx.complete([await first, await second, calls])
    """
    assert lab.completed(code, **approved()) == [3, 3, [["add", 1, 2]]]
    [request] = lab.host.requests
    record = request["payload"] | {"output": "recorded"}
    assert lab.completed(code, local_steps=[record], **approved()) == ["recorded", "recorded", []]


def test_an_approved_step_may_be_asynchronous(lab):
    """HLP-088, HLP-052."""
    action = {"name": "program:later", "version": "1", "arguments": {"value": 5, "turns": 2}}
    code = "return ctx.complete(await ctx.approved_local(later, version='1'))"
    assert lab.completed(code, **approved(action=action)) == 5


@pytest.mark.parametrize(
    "call",
    [
        "ctx.approved_local(identity, version='1')",
        "ctx.approved_local(add, version='2')",
        "ctx.approved_local(add, version=1)",
        "ctx.approved_local('add', version='1')",
        "ctx.approved_local(lambda x, y: x, version='1')",
    ],
)
def test_another_function_or_version_is_refused(lab, call):
    """HLP-086."""
    assert lab.completed(f"return ctx.complete([refused(lambda: {call}), calls])", **approved()) == [True, []]


@pytest.mark.parametrize(
    "action",
    [
        ACTION | {"arguments": {"x": 1}},
        ACTION | {"arguments": {"x": 1, "y": 2, "z": 3}},
        ACTION | {"arguments": {}},
    ],
)
def test_arguments_that_the_signature_would_change_are_refused(lab, action):
    """HLP-087: a default that no reviewer saw, too many, too few."""
    code = "return ctx.complete([refused(ctx.approved_local, add, version='1'), calls])"
    assert lab.completed(code, **approved(action=action)) == [True, []]


def test_another_function_object_is_refused(lab):
    """HLP-089: even one of the same name."""
    code = """
        import types
        ctx.approved_local(add, version="1")
        copy = types.FunctionType(add.__code__, globals(), "add", add.__defaults__)
        copy.__module__ = add.__module__
        return ctx.complete([refused(ctx.approved_local, fn, version="1") for fn in (copy, add)])
    """
    assert lab.completed(code, **approved()) == [True, False]


def test_events_carry_no_approval(lab):
    """HLP-091: whatever an event says."""
    event = {
        "specversion": "1.0",
        "id": "e",
        "source": "urn:s",
        "type": "approval",
        "datacontenttype": "application/json",
        "data": APPROVAL,
    }
    wake = {"kind": "event", "key": "k", "event": event, "accepted_at": 5}
    code = "return ctx.complete([ctx.approval, refused(ctx.approved_local, add, version='1')])"
    assert lab.completed(code, wake=wake, revision=5) == [None, True]


def test_an_accepted_action_with_floats_gets_an_allowance(lab):
    """HLP-044, HLP-084: the server counted it as 32 KiB, Python's text is longer."""
    action = {"name": "program:identity", "version": "1", "arguments": {"value": [1e-07] * 6000}}
    code = "return ctx.complete(len(await ctx.approved_local(identity, version='1')))"
    assert lab.completed(code, **approved(action=action, proposed_arguments=None)) == 6000
