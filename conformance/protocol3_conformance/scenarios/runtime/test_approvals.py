"""Approvals, as far as the helper has them (chapter 23, Approvals)."""

from __future__ import annotations

from typing import Any

from protocol3_conformance.bounds import bound
from protocol3_conformance.runtime_lab import RuntimeLab
from protocol3_conformance.scenarios.runtime import runtime_check
from protocol3_conformance.scenarios.runtime.payloads import APPROVAL, DECIDED, EVENT, approval
from protocol3_conformance.wire.frames import Frame
from protocol3_conformance.wire.strict_json import compact_size, same

ACTION: Frame = APPROVAL["action"]
ASK = "ctx.request_approval('k', action=ACTION, state=None, timeout_ms=1, resume='c')"
MAKE = "ACTION = ApprovalAction('n', version='1', arguments={'x': 1})\n"
YEAR = bound("MAX_WAIT_DURATION_MS")
STEP_KEY = "_approval:8254c329a92850f6d539dd376f4816ee2764517da5e0235514af433164480d7a"


def changed(**changes: Any) -> Frame:
    return approval(**changes)


@runtime_check("runtime-approvals/actions", cites=["HLP-082", "HLP-083"])
async def test_actions(lab: RuntimeLab) -> None:
    """An action is immutable, bounded, and hands out copies; `for_callable` takes effective arguments."""
    code = """
        action = ApprovalAction.for_callable(add, version="1", arguments={"x": 1})
        action.arguments["x"] = 2
        action.to_dict()["arguments"]["x"] = 2
        try:
            action.name = "other"
        except (AttributeError, TypeError):
            return ctx.complete([action.name, action.version, action.arguments, action.to_dict()])
    """
    effective = {"x": 1, "y": 0}
    whole = {"name": "program:add", "version": "1", "arguments": effective}
    await lab.holds(code, ["program:add", "1", effective, whole])
    room = bound("ACTION_BYTES") - compact_size({"name": "n", "version": "1", "arguments": {"x": ""}})
    await lab.passing(
        [
            f"ApprovalAction('n', version='1', arguments={{'x': 'y' * {room}}})",
            "ApprovalAction('n' * 512, version='v' * 128, arguments={})",
        ]
    )
    await lab.raising(
        (
            "ApprovalAction('', version='1', arguments={})",
            "ApprovalAction('n' * 513, version='1', arguments={})",
            "ApprovalAction('n', version='v' * 129, arguments={})",
            "ApprovalAction('n', version='', arguments={})",
            "ApprovalAction('n', version='1', arguments=[])",
            "ApprovalAction('n', version='1', arguments=None)",
            "ApprovalAction('n', version='1', arguments=__import__('collections').OrderedDict())",
            f"ApprovalAction('n', version='1', arguments={{'x': 'y' * {room + 1}}})",
            "ApprovalAction.for_callable(add, version='1', arguments={'z': 1})",
            "ApprovalAction.for_callable(len, version='1', arguments={})",
        )
    )


@runtime_check("runtime-approvals/request", cites=["HLP-085", "HLP-117"])
async def test_request(lab: RuntimeLab) -> None:
    """`request_approval` makes a wait of kind approval; exactly one target, a mandatory timeout, bounded proposals."""
    wait = {"kind": "approval", "key": "k", "action": {"name": "n", "version": "1", "arguments": {"x": 1}}}
    for call, timeout, more in (
        (ASK, 1, {}),
        (ASK.replace("request_", "wait_"), 1, {}),
        (ASK.replace("resume", "continuation"), 1, {}),
        (ASK.replace("=1,", "=0,"), 0, {}),
        (ASK.replace("=1,", f"={YEAR},"), YEAR, {}),
        (ASK.replace("=1,", "=1, proposed_arguments={'y': 2},"), 1, {"proposed_arguments": {"y": 2}}),
        (ASK.replace("=1,", "=1, proposed_arguments=None,"), 1, {}),
        (ASK.replace("ACTION", repr(wait["action"])), 1, {}),
    ):
        with lab.case(call):
            decision = await lab.decision(f"{MAKE}return {call}")
            assert (decision["kind"], decision["continuation"], decision["commands"]) == ("wait", "c", [])
            assert same(decision["wait"], wait | {"timeout_ms": timeout} | more)
    big = bound("PROPOSED_ARGUMENTS_BYTES") - compact_size({"x": ""})
    await lab.passing([ASK.replace("=1,", f"=1, proposed_arguments={{'x': 'y' * {big}}},")], before=MAKE)
    await lab.raising(
        (
            *(ASK.replace("=1,", f"={value},") for value in ("None", "-1", YEAR + 1, "1.0", "True")),
            ASK.replace("resume='c'", "resume='c', continuation='c'"),
            ASK.replace(", resume='c'", ""),
            ASK.replace("'k'", "''"),
            ASK.replace("'k'", "'k' * 129"),
            ASK.replace("ACTION", "None"),
            ASK.replace("ACTION", "{'name': 'n'}"),
            ASK.replace("=1,", "=1, proposed_arguments=[],"),
            ASK.replace("=1,", f"=1, proposed_arguments={{'x': 'y' * {big + 1}}},"),
        ),
        before=MAKE,
    )


@runtime_check("runtime-approvals/view", cites=["HLP-084", "HLP-038"])
async def test_view(lab: RuntimeLab) -> None:
    """`ctx.approval` is a typed view of the wake that hands out copies."""
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
        types = [type(approval) is Approval, type(approval.action) is ApprovalAction,
                 approval.status is ApprovalStatus.APPROVED, type(decision) is ApprovalDecision]
        plain = ["key", "scope", "workflow_id", "activation_id", "revision", "resumed_activation_id",
                 "proposed_arguments", "created_at", "deadline"]
        decided = ["decision_id", "decision", "reviewer", "reason", "decided_at"]
        return ctx.complete([types, {name: getattr(approval, name) for name in plain}, approval.action.to_dict(),
                             approval.to_dict(), {name: getattr(decision, name) for name in decided}])
    """
    plain = {name: value for name, value in APPROVAL.items() if name not in ("action", "status", "decision")}
    await lab.holds(code, [[True] * 4, plain, ACTION, APPROVAL, DECIDED], **changed())


@runtime_check("runtime-approvals/approved-local", cites=["HLP-086", "HLP-087", "HLP-088", "HLP-089"])
async def test_approved_local(lab: RuntimeLab) -> None:
    """The approved function runs once with exactly the saved arguments, as a step with a key of its own."""
    code = """
        first, second = ctx.approved_local(add, version="1"), ctx.approved_local(add, version="1")
        return ctx.complete([await first, await second, len(calls)])
    """
    await lab.holds(code, [3, 3, 1], **changed())
    [request] = lab.requests
    assert (request["payload"]["key"], request["payload"]["output"]) == (STEP_KEY, 3)
    recorded = request["payload"] | {"output": "recorded"}
    await lab.holds(code, ["recorded", "recorded", 0], local_steps=[recorded], **changed())


@runtime_check("runtime-approvals/what-was-not-approved", cites=["HLP-086", "HLP-087", "HLP-089"])
async def test_what_was_not_approved(lab: RuntimeLab) -> None:
    """Another function, version or function object is refused, and so are arguments that the signature would change."""
    await lab.raising(
        (
            "ctx.approved_local(identity, version='1')",
            "ctx.approved_local(add, version='2')",
            "ctx.approved_local(add, version=1)",
            "ctx.approved_local('add', version='1')",
            "ctx.approved_local(lambda x, y: x, version='1')",
        ),
        **changed(),
    )
    for arguments in ({"x": 1}, {"x": 1, "y": 2, "z": 3}, {}):
        with lab.case(repr(arguments)):
            await lab.raising(
                ["ctx.approved_local(add, version='1')"], **changed(action=ACTION | {"arguments": arguments})
            )
    copy = """
import types
ctx.approved_local(add, version="1")
copy = types.FunctionType(add.__code__, globals(), "add", add.__defaults__)
copy.__module__ = add.__module__
"""
    await lab.raising(["ctx.approved_local(copy, version='1')"], before=copy, **changed())


@runtime_check("runtime-approvals/no-approval", cites=["HLP-086", "HLP-090", "HLP-091"])
async def test_no_approval(lab: RuntimeLab) -> None:
    """After rejection or expiry the workflow runs and knows; neither they nor an event carry the authority."""
    code = "return ctx.complete([ctx.approval.status.value, refused(ctx.approved_local, add, version='1')])"
    rejected = changed(status="rejected", decision=DECIDED | {"decision": "reject"})
    await lab.holds(code, ["rejected", True], **rejected)
    await lab.holds(code, ["expired", True], **changed(status="expired", decision=None))
    event = EVENT | {"type": "approval", "data": APPROVAL}
    wake = {"kind": "event", "key": "k", "event": event, "accepted_at": 5}
    code = "return ctx.complete([ctx.approval, refused(ctx.approved_local, add, version='1')])"
    await lab.holds(code, [None, True], wake=wake, revision=5)
    await lab.holds(code, [None, True])
