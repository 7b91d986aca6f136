"""The model of generated histories by itself: what it says of well-known stories, and how its patterns match."""

from __future__ import annotations

from typing import Any

import pytest

from protocol3_conformance.model.delivery import Cursor, Delivery
from protocol3_conformance.model.expected import ABSENT, SOME, by, exactly, fresh, one_of
from protocol3_conformance.model.flows import Flow
from protocol3_conformance.model.tasks import Attempt, Policy, Task, Times
from protocol3_conformance.model.workflows import Workflows
from protocol3_conformance.stateful import replay
from protocol3_conformance.stateful.script import needed

TIMES = Times(lease=60_000, grace=30_000, attempt=300_000)
TWICE = Policy(max_attempts=2, retry_delay=5_000)
EVENT = {"source": "urn:s", "id": "e"}


class Names:
    """A new name at each call."""

    count = 0

    def __call__(self) -> str:
        self.count += 1
        return f"name {self.count}"


name = Names()


def submitted(world: Delivery, key: str = "k") -> Task:
    world.submit(key, {"queue": "q", "data": key}, TWICE, 0, name())
    return world.tasks[-1]


def claimed(world: Delivery, task: Task, now: int = 0) -> tuple[Attempt, Cursor]:
    cursor = Cursor(task.queue)
    poll = world.poll(cursor, 1, now)
    assert task in poll.candidates
    return world.claim(cursor, task, now, name=name(), owner=name(), event=name()), cursor


def report(kind: str = "success", output: Any = None) -> Any:
    if kind == "success":
        return {"kind": "completed", "report": {"outcome": {"status": "success", "output": output}}}
    error = {"error": {"kind": kind, "message": "m"}, "phase": "execution", "execution_may_have_started": False}
    return {"kind": "failed", "report": error}


def settle(world: Delivery, attempt: Attempt, told: Any, now: int = 0, *, confirmed: bool = True) -> Any:
    quiescence = "confirmed" if confirmed else "unconfirmed"
    command = {"owner": attempt.owner, "operation_id": "op", "report": told, "quiescence": quiescence}
    return world.settle(attempt, command, name(), now)


def plain(pattern: Any) -> Any:
    """The pattern without its requirements."""
    inner, _ = replay.unwrapped(pattern, [])
    return {name: plain(value) for name, value in inner.items()} if isinstance(inner, dict) else inner


def reasons(task: Task) -> list[str]:
    return [reason for reason, _ in task.history]


@pytest.mark.parametrize(
    ("story", "expected"),
    [
        ("success", "submitted claimed report_accepted succeeded"),
        ("confirmed later", "submitted claimed report_accepted cleanup_confirmed succeeded"),
        ("never confirmed", "submitted claimed report_accepted lease_expired succeeded"),
        ("lost twice", "submitted claimed lease_expired retry_scheduled claimed lease_expired failed"),
        ("cancelled, no report", "submitted claimed cancel_requested lease_expired cancelled"),
    ],
)
def test_histories_of_chapter_06(story: str, expected: str) -> None:
    """DLV-130's table."""
    world = Delivery(times=TIMES)
    task = submitted(world)
    attempt, _ = claimed(world, task)
    match story:
        case "success":
            settle(world, attempt, report())
        case "confirmed later":
            settle(world, attempt, report(), confirmed=False)
            assert plain(world.confirm(attempt, 1).value) == "succeeded"
        case "never confirmed":
            settle(world, attempt, report(), confirmed=False)
            world.recover(60_000)
        case "lost twice":
            world.recover(60_000)
            assert not world.poll(Cursor("q"), 1, 64_999).candidates
            claimed(world, task, 65_000)
            world.recover(125_000)
        case _:
            world.cancel(task, 0)
            world.recover(30_000)
    assert reasons(task) == expected.split()


def test_replays_and_conflicts_of_a_settlement() -> None:
    """DLV-074, DLV-076: the state is that of now, under a later attempt too."""
    world = Delivery(times=TIMES)
    task = submitted(world)
    attempt, _ = claimed(world, task)
    assert plain(settle(world, attempt, report("runtime")).value)["task_state"] == "queued"
    claimed(world, task, 5_000)
    again = plain(settle(world, attempt, report("runtime"), 5_000).value)
    assert (again["already_accepted"], again["task_state"]) == (True, "active")
    assert settle(world, attempt, report("io")).code == "conflict"


def test_sequences_of_a_consumer() -> None:
    """DLV-315…322."""
    world = Delivery(times=TIMES)
    attempt, cursor = claimed(world, submitted(world))
    assert [world.poll(cursor, number, 0).answer.code for number in (0, 2, 3)] == [
        "out_of_order",
        "busy",
        "out_of_order",
    ]
    assert world.poll(cursor, 1, 0).answer.value["disposition"] == "assigned"
    settle(world, attempt, report())
    assert world.poll(cursor, 1, 0).answer.value["disposition"] == "ownership_lost"
    assert world.poll(cursor, 2, 0).answer.value["disposition"] == "empty"
    assert world.poll(cursor, 1, 0).answer.code == "obsolete_operation"


def test_several_tasks_may_come() -> None:
    world = Delivery(times=TIMES)
    both = [submitted(world, key) for key in "ab"]
    poll = world.poll(Cursor("q"), 1, 0)
    assert poll.candidates == both
    assert len(poll.answer.value["$any"]) == 2


# Workflows


def begun(world: Workflows) -> Flow:
    binding = {"queue": "q", "data": "d"}
    world.start("k", binding, TWICE, 0, name=name(), activation=name())
    return world.flows[0]


def decided(world: Workflows, flow: Flow, kind: str, now: int = 0, **members: Any) -> None:
    """Claim the present activation and let it end so."""
    task = flow.activation.task
    task.name = task.name or name()
    attempt, _ = claimed(world, task, now)
    common = {"activation_id": task.name, "revision": flow.activation.revision, "kind": kind}
    saved = {} if kind in ("complete", "fail") else {"continuation": "next", "state": 7, "commands": []}
    settle(world, attempt, report(output={**common, **saved, **members}), now)
    world.progress(now)


def test_an_event_before_its_wait() -> None:
    """EVT-015, TMR-010, TMR-022."""
    world = Workflows(times=TIMES)
    flow = begun(world)
    assert world.send(flow, "e", EVENT, "instant", 0).value["already_accepted"] is False
    decided(world, flow, "wait", wait={"kind": "event", "key": "e", "timeout_ms": None})
    assert (flow.state, flow.revision) == ("running", 1)
    assert flow.activation.wake == exactly({"kind": "event", "key": "e", "event": EVENT, "accepted_at": "instant"})
    decided(world, flow, "continue")
    assert flow.activation.wake is None
    assert world.send(flow, "e", EVENT, "later", 0).value["accepted_at"] == "instant"
    assert world.send(flow, "e", {**EVENT, "id": "other"}, "later", 0).code == "conflict"


def test_a_timeout() -> None:
    """TMR-010, EVT-011: past the deadline the key is closed."""
    world = Workflows(times=TIMES)
    flow = begun(world)
    decided(world, flow, "wait", wait={"kind": "event", "key": "e", "timeout_ms": 1_000})
    world.progress(999)
    assert flow.state == "waiting"
    world.progress(1_000)
    assert flow.activation.wake == exactly({"kind": "timeout", "key": "e", "deadline": SOME})
    assert world.send(flow, "e", EVENT, "instant", 1_000).code == "obsolete_operation"


def test_children_are_delivered_once_by_continue_and_drained_in_the_end() -> None:
    """CHD-050, CHD-053, DRN-003, DEC-043."""
    world = Workflows(times=TIMES)
    flow = begun(world)
    policy = {"max_attempts": 1, "retry_delay_ms": 0}
    child = {"key": "c", "queue": "children", "data": 1, "retry_policy": policy}
    decided(world, flow, "suspend", commands=[child], until=["c"])
    assert flow.state == "waiting"
    task = flow.children["c"].task
    assert task is not None
    attempt, _ = claimed(world, task)
    settle(world, attempt, report(output=5))
    world.progress(0)
    assert list(flow.activation.inputs) == ["c"]
    decided(world, flow, "continue", commands=[{**child, "key": "d"}])
    assert dict(flow.activation.inputs) == {}
    decided(world, flow, "complete", output=None)
    assert (flow.state, flow.revision) == ("failed", 2)
    assert plain(flow.outcome)["$exactly"]["error"]["$exactly"]["kind"] == "decision_application_failed"
    assert flow.children["d"].state == "cancelled"


def test_a_cancelled_workflow_waits_for_what_is_active() -> None:
    """WF-060, DRN-006."""
    world = Workflows(times=TIMES)
    flow = begun(world)
    claimed(world, flow.activation.task)
    assert plain(world.stop(flow).value)["$exactly"]["state"] == "cancelling"
    world.progress(0)
    assert (flow.state, flow.activation.task.cancelling) == ("cancelling", True)
    world.recover(30_000)
    world.progress(30_000)
    assert flow.state == "cancelled"


# Patterns and scripts


@pytest.mark.parametrize(
    ("pattern", "right", "wrong"),
    [
        ({"a": 1}, {"a": 1, "b": 2}, {"a": 1.0}),
        ({"a": 1}, {"a": 1}, {"a": True}),
        ({"a": None}, {"a": None}, {}),
        ({"a": ABSENT}, {}, {"a": None}),
        (exactly({"a": SOME}), {"a": 0}, {"a": 0, "b": 1}),
        (SOME, False, None),
        (fresh(["x", None]), "y", "x"),
        (one_of([{"a": 1}, {"a": 2}]), {"a": 2}, {"a": 3}),
        ([1, SOME], [1, 2], [1]),
    ],
)
def test_patterns(pattern: Any, right: Any, wrong: Any) -> None:
    assert list(replay.differences(pattern, right, "answer", [])) == []
    assert len(list(replay.differences(pattern, wrong, "answer", []))) == 1


@pytest.mark.parametrize(
    ("answer", "rules"),
    [
        ({"a": 1, "b": [2, 3]}, []),
        ({"a": 0, "b": [2, 3]}, [["A-1"]]),
        ({"a": 1, "b": [2]}, [["B-1"]]),
        ({"a": 1, "b": [2, 0]}, [["B-2"]]),
        ({"a": 1}, [["B-1"]]),
        ({"a": 1, "b": [2, 3], "c": 0}, [["C-1"]]),
        ({"a": 1, "b": [2, 3], "d": 0}, [["ALL"]]),
    ],
)
def test_the_innermost_rule_is_the_broken_one(answer: Any, rules: list[list[str]]) -> None:
    members = {"a": by(1, "A-1"), "b": by([2, by(3, "B-2")], "B-1"), "c": by(ABSENT, "C-1")}
    assert [wrong.rules for wrong in replay.differences(exactly(members), answer, "answer", ["ALL"])] == rules


def test_references() -> None:
    answers = {1: {"id": "x", "inner": {"n": 1.0}}}
    template = {"a": {"$ref": [1, "inner", "n"]}, "b": {"$optional": [1, "none"]}, "c": ["{run}:k", {"$ref": [1, "z"]}]}
    assert replay.fill(template, "r", answers) == {"a": 1.0, "c": ["r:k", None]}


def test_reads_that_nothing_needs_are_left_out() -> None:
    def call(number: int, method: str, **members: Any) -> dict[str, Any]:
        return {"number": number, "method": method, "query": {}, "body": None, "expect": {}} | members

    calls = [
        call(1, "POST"),
        call(2, "GET"),
        call(3, "GET"),
        call(4, "GET", until=True),
        call(5, "POST", body={"$ref": [3]}),
        call(6, "GET"),
    ]
    assert [one["number"] for one in needed(calls)] == [1, 3, 4, 5, 6]
