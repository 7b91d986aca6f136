"""What generated histories reach, played against the model alone."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from rehearsal import Rehearsal, drawn, rehearsed

from protocol3_conformance.catalogue import everything
from protocol3_conformance.model.flows import Flow
from protocol3_conformance.model.tasks import Task
from protocol3_conformance.requirements import requirements
from protocol3_conformance.stateful.kinds import KINDS
from protocol3_conformance.stateful.pair import Pair

SEEDS = range(1, 4)
TASK_ENDS = {f"task {state}" for state in ("succeeded", "failed", "cancelled")}
ATTEMPTS = {"lease lost and retried", "retries used up"}
CANCELLED_TASKS = {
    f"task cancelled after {word}"
    for word in ("submitted", "claimed", "dispatch_authorized", "report_accepted", "retry_scheduled")
}
FLOW_ENDS = {f"workflow {state}" for state in ("succeeded", "failed", "cancelled")}
CANCELLED_FLOWS = {f"cancel while {state}" for state in ("running", "waiting", "cancelling", "cancelled")}
WORKFLOWS = {
    *("several inputs", "journal read by a retry", "revision 3"),
    *(f"wake {kind}" for kind in ("event", "timer", "timeout")),
    *(TASK_ENDS | ATTEMPTS | FLOW_ENDS | CANCELLED_FLOWS),
}
CHILDREN = {f"{kind} {state}" for kind in ("branch", "child") for state in ("succeeded", "failed", "cancelled")}
SNAPSHOTS = ("/v1/workflows", "/v1/workflows/status", "/v1/workflows/cancel")
EXPECTED = {
    "stateful/tasks": TASK_ENDS | ATTEMPTS | CANCELLED_TASKS,
    "stateful/workflows": WORKFLOWS | {"cancel while failing"},
    "stateful/forks": WORKFLOWS | CHILDREN | {"fork", "cancel while failing"},
    "stateful/two-scopes": WORKFLOWS,
}


def of_task(task: Task) -> Iterator[str]:
    reasons = [reason for reason, _ in task.history]
    yield f"task {task.state}"
    if "lease_expired" in reasons[:-1] and "retry_scheduled" in reasons:
        yield "lease lost and retried"
    if len(task.attempts) == task.policy.max_attempts > 1 and task.state == "failed":
        yield "retries used up"
    if "cancel_requested" in reasons:
        yield f"task cancelled after {reasons[reasons.index('cancel_requested') - 1]}"


def of_flow(flow: Flow) -> Iterator[str]:
    yield f"workflow {flow.state}"
    for child in flow.children.values():
        yield f"{'branch' if child.kind == 'branch' else 'child'} {child.state}"
    if flow.forks:
        yield "fork"
    if flow.revision >= 3:
        yield "revision 3"


def of_call(call: Any, answer: Any, shown: dict[Any, str]) -> Iterator[str]:
    """`shown` is the state in which each workflow was last seen."""
    if call["path"] == "/v1/workflows/activations/context" and call["status"] == 200:
        if len(answer["inputs"]) > 1:
            yield "several inputs"
        if "wake" in answer:
            yield f"wake {answer['wake']['kind']}"
    if call["path"] in SNAPSHOTS and call["status"] == 200:
        if call["path"].endswith("/cancel") and answer["workflow_id"] in shown:
            yield f"cancel while {shown[answer['workflow_id']]}"
        shown[answer["workflow_id"]] = answer["state"]


def reached(machine: Any, history: Rehearsal) -> Iterator[str]:
    """The words for what a history came to."""
    sides = machine.sides.values() if isinstance(machine, Pair) else [machine]
    for side in sides:
        for task in side.world.tasks:
            yield from of_task(task)
        for flow in getattr(side.world, "flows", []):
            yield from of_flow(flow)
            if any(one.journal and len(one.task.attempts) > 1 for one in flow.activations):
                yield "journal read by a retry"
    shown: dict[Any, str] = {}
    for call in history.calls:
        yield from of_call(call, history.answers[call["number"]], shown)


@pytest.mark.parametrize("check_id", KINDS)
@pytest.mark.parametrize("seed", SEEDS)
def test_the_default_examples_reach_every_situation(check_id: str, seed: int) -> None:
    found = {word for played in rehearsed(check_id, seed) for word in reached(*played)}
    assert EXPECTED[check_id] - found == set()


def rules_of(pattern: Any) -> Iterator[str]:
    """The requirements that a pattern names."""
    if isinstance(pattern, list):
        for item in pattern:
            yield from rules_of(item)
    elif isinstance(pattern, dict):
        for name, value in pattern.items():
            yield from value if name == "$by" else rules_of(value)


@pytest.mark.parametrize("check_id", KINDS)
def test_a_check_cites_no_rule_that_its_histories_do_not_reach(check_id: str) -> None:
    """With any of these seeds alone."""
    cited = set(everything()[check_id].cites)
    for seed in SEEDS:
        calls = [call for _, history in rehearsed(check_id, seed) for call in history.calls]
        found = {rule for call in calls for rule in [*call["rules"], *rules_of(call["expect"])]}
        assert found <= set(requirements())
        assert cited - found == set()


@pytest.mark.parametrize("check_id", KINDS)
def test_a_seed_means_its_histories(check_id: str) -> None:
    """Every goal has its turn, whatever the seed; what follows is drawn from it."""
    first, again, other = drawn(check_id, 1), drawn(check_id, 1), drawn(check_id, 2)
    assert first == again
    assert first != other
    ways = KINDS[check_id].goals.values()
    assert all(any(operations[: len(way)] == way for operations in first) for way in ways)
