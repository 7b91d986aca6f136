"""How the end of an activation changes its workflow, and what ends a wait (chapters 12, 13 and 16)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from protocol3_conformance.model.expected import SOME, by, exactly, one_of
from protocol3_conformance.model.flows import Activation, Child, Flow, Wait
from protocol3_conformance.model.tasks import Policy, Task

INVALID, REJECTED = "decision_invalid", "decision_application_failed"
"""Error kinds of DEC-040."""


def activate(
    flow: Flow, now: int, *rules: str, children: Mapping[str, Child] | None = None, wake: Any = None
) -> Activation:
    """Schedule the next activation by these rules (ACT-002, ACT-009, CHD-053, TMR-021)."""
    task = Task(data=flow.data, queue=flow.queue, policy=flow.policy, available=now, owner=flow, activation=True)
    taken = children or {}
    continuation, state = flow.checkpoint
    frozen = {key: child.result for key, child in taken.items()}
    one = Activation(
        task=task,
        revision=flow.revision,
        continuation=continuation,
        state=state,
        inputs=frozen,
        consumes=tuple(taken.values()),
        why=rules,
    )
    if wake is not None:
        one.wake = exactly(wake)
    flow.activations.append(one)
    flow.state, flow.why = "running", rules
    flow.applied, flow.waiting, flow.until = False, None, None
    return one


def apply(flow: Flow, now: int) -> tuple[Activation | None, Mapping[str, Child]]:
    """The activation's task is terminal: the next activation if there is one at once, and the new children."""
    task = flow.activation.task
    if task.state != "succeeded":
        _fail(flow, *_failure(task))
        return None, {}
    decision = task.attempts[-1].command["report"]["report"]["outcome"]["output"]
    wrong = _wrong(flow, decision)
    if wrong:
        kinds, rule = wrong
        _fail(flow, {"kind": one_of(kinds), "message": SOME}, rule)  # DEC-040, DEC-041
        return None, {}
    adopted = {
        command["key"]: _child(flow, command)
        for command in decision.get("commands", [])
        if command["key"] not in flow.children
    }
    for child in flow.activation.consumes:  # CHD-053
        child.consumed = True
    flow.revision += 1  # WF-051
    if "continuation" in decision:
        flow.checkpoint = (decision["continuation"], decision["state"])
    return _disposed(flow, decision, now, {**flow.children, **adopted}), adopted


def _failure(task: Task) -> tuple[Any, str]:
    """The error of an activation without a decision, and the row that says so."""
    if task.state == "cancelled":
        return {"kind": "workflow_activation_cancelled", "message": SOME}, "ACT-047"
    command = task.attempts[-1].command
    if command is not None and command["report"]["kind"] == "completed":
        told = command["report"]["report"]["outcome"]
        return {"kind": told["kind"], "message": told["message"]}, "ACT-045"
    return {"kind": "workflow_activation_failed", "message": SOME}, "ACT-046"


def _fail(flow: Flow, error: Any, rule: str) -> None:
    """T6 and T7."""
    flow.state, flow.why, flow.kept = "failing", (rule,), flow.activation
    flow.ending = by(exactly({"kind": "failed", "error": exactly(error)}), rule)
    flow.drop_pending()


def _wrong(flow: Flow, decision: Any) -> tuple[list[str], str] | None:
    """The error kinds that are right for a decision that cannot be applied (DEC-020), and the rule; else None."""
    if not isinstance(decision, dict) or decision["activation_id"] != flow.activation.task.name:
        return [INVALID], "DEC-040"
    commands = decision.get("commands", [])
    for command in commands:
        child = flow.children.get(command["key"])
        if child is not None and (child.kind == "branch" or child.binding != command):
            return [INVALID, REJECTED], "CHD-013" if child.kind == "branch" else "CHD-012"
    if decision["revision"] != flow.activation.revision:
        return [REJECTED], "DEC-042"
    if decision["kind"] == "complete" and flow.unfinished():
        return [REJECTED], "DEC-043"
    keys = {*flow.children, *(command["key"] for command in commands)}
    if set(decision.get("until", [])) - keys:
        return [REJECTED], "DEC-044"
    rule = _misplaced(flow, decision.get("wait"))
    return ([REJECTED], rule) if rule else None


def _misplaced(flow: Flow, wait: Any) -> str | None:
    """The rule that a wait breaks."""
    if wait is None:
        return None
    if wait["key"] in flow.waits:
        return "TMR-003"
    taken = any(event.key == wait["key"] for event in flow.events)
    return "TMR-004" if wait["kind"] == "timer" and taken else None


def _child(flow: Flow, command: Any) -> Child:
    """CHD-021, CHD-022."""
    given = command["retry_policy"]
    policy = Policy(max_attempts=given["max_attempts"], retry_delay=given["retry_delay_ms"])
    data, queue = command["data"], command["queue"]
    if command.get("kind") == "workflow":
        inner = Flow(data=data, queue=queue, policy=policy, parent=flow)
        return Child(kind="workflow", binding=command, flow=inner)
    return Child(kind="task", binding=command, task=Task(data=data, queue=queue, policy=policy, owner=flow))


def _disposed(flow: Flow, decision: Any, now: int, children: Mapping[str, Child]) -> Activation | None:
    """Step 11 of DEC-020."""
    kind = decision["kind"]
    if kind == "fail":
        _fail(flow, decision["error"], "DEC-051")
        return None
    if kind == "complete":
        flow.state, flow.why = "succeeded", ("DEC-050",)
        flow.ending = by(exactly({"kind": "succeeded", "output": decision["output"]}), "DEC-050")
        flow.drop_pending()
        return None
    if kind == "continue":
        ready = {key: child for key, child in children.items() if child.terminal and not child.consumed}
        return activate(flow, now, "CHD-052", "CHD-053", children=ready)
    flow.state, flow.why = "waiting", ("CHD-050" if kind == "suspend" else "TMR-010",)
    if kind == "suspend":
        flow.until = tuple(decision["until"])
        return _joined(flow, now, children)
    wait = decision["wait"]
    span = wait["timeout_ms"] if wait["kind"] == "event" else wait["delay_ms"]
    deadline = None if span is None else now + span  # TMR-002
    flow.waiting = flow.waits[wait["key"]] = Wait(key=wait["key"], kind=wait["kind"], deadline=deadline)
    return _woken(flow, flow.waiting, now)


def resume(flow: Flow, now: int) -> Activation | None:
    """T4: the next activation, where what the workflow waits for has come."""
    return _woken(flow, flow.waiting, now) if flow.waiting else _joined(flow, now, flow.children)


def _joined(flow: Flow, now: int, children: Mapping[str, Child]) -> Activation | None:
    """CHD-050, CHD-051, CHD-054."""
    assert flow.until is not None
    named = {key: children[key] for key in flow.until}
    over = all(child.terminal for child in named.values())
    return activate(flow, now, "CHD-050", children=named) if over else None


def _woken(flow: Flow, wait: Wait, now: int) -> Activation | None:
    """TMR-010: an event, which was accepted before the deadline or it would not be pending; else the deadline."""
    found = next((event for event in flow.events if event.pending and event.key == wait.key), None)
    if found is not None and wait.kind == "event":
        wake = {"kind": "event", "key": wait.key, "event": found.event, "accepted_at": found.accepted_at}
        found.pending = False
    elif wait.over(now):
        kind = "timeout" if wait.kind == "event" else "timer"
        wake = {"kind": kind, "key": wait.key, "deadline": SOME}
    else:
        return None
    wait.open = False
    return activate(flow, now, "TMR-010", wake=wake)
