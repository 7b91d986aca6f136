"""Decisions: which are invalid, and that a rejected one leaves no trace (chapter 12)."""

from __future__ import annotations

import asyncio
from typing import Any

from protocol3_conformance.bounds import bound
from protocol3_conformance.lab import Lab
from protocol3_conformance.roles.activation import Activation
from protocol3_conformance.scenario import scenario
from protocol3_conformance.wire.strict_json import compact_size, same

INVALID, FAILED = "decision_invalid", "decision_application_failed"


async def rejected(lab: Lab, activation: Activation, decision: Any, *kinds: str) -> None:
    """Settlement accepts the decision, the workflow rejects it, and nothing else changes (DEC-002, DEC-041)."""
    before = (await lab.client.workflow_status(activation.workflow_id)).accepted()
    assert (await activation.decide(decision))["task_state"] == "succeeded", "settlement judges no decision (DEC-002)"
    outcome = await lab.client.outcome_until(activation.workflow_id, "failed")
    assert outcome["error"]["kind"] in kinds, f"error kind {outcome['error']['kind']}, expected {' or '.join(kinds)}"
    after = (await lab.client.workflow_status(activation.workflow_id)).accepted()
    assert after["revision"] == before["revision"], "a rejected decision counted a revision (DEC-041)"


async def each_rejected(lab: Lab, cases: dict[str, Any], *kinds: str) -> None:
    """`cases`: name -> function that makes the decision for a fresh activation. All run side by side."""
    worker = await lab.worker(concurrency=len(cases))

    async def one(consumer: int, name: str) -> None:
        with lab.case(name):
            await lab.client.workflow()
            activation = await worker.activation(consumer)
            await rejected(lab, activation, cases[name](activation), *kinds)

    await asyncio.gather(*(one(consumer, name) for consumer, name in enumerate(cases)))
    await (await lab.worker(queue=lab.child_queue)).nothing()
    await (await lab.worker()).nothing()


@scenario(
    "decision/invalid-shapes",
    cites=["DEC-002", "DEC-010", "DEC-011", "DEC-012", "DEC-014", "DEC-040", "DEC-041", "DEC-020", "WF-019", "ACT-044"],
)
async def test_invalid_shapes(lab: Lab) -> None:
    """A decision whose shape is wrong fails the workflow with decision_invalid and changes nothing else."""
    suspend: dict[str, Any] = {"state": None, "continuation": "next", "commands": [], "until": []}

    def a(kind: str, **members: Any) -> Any:
        return lambda activation: activation.decision(kind, **members)

    def without(name: str) -> Any:
        return lambda activation: {
            key: value for key, value in activation.decision("suspend", **suspend).items() if key != name
        }

    await each_rejected(
        lab,
        {
            "no object": lambda activation: "complete",
            "null": lambda activation: None,
            "unknown kind": a("finish", output=1),
            "kind in upper case": a("Complete", output=1),
            "version 2": a("complete", output=1, v=2),
            "version 1.0": a("complete", output=1, v=1.0),
            "complete with commands": a("complete", output=1, commands=[]),
            "complete without output": a("complete"),
            "fail without message": a("fail", error={"kind": "x"}),
            "fail with a long message": a("fail", error={"kind": "x", "message": "m" * 4097}),
            "fail with an empty kind": a("fail", error={"kind": "", "message": ""}),
            "suspend without until": without("until"),
            "suspend without state": without("state"),
            "suspend without commands": without("commands"),
            "commands null": a("suspend", **{**suspend, "commands": None}),
            "until twice the same": a("suspend", **{**suspend, "until": ["a", "a"]}),
            "until of 65": a("suspend", **{**suspend, "until": [f"k{number}" for number in range(65)]}),
            "continue with until": a("continue", **suspend),
            "continuation too long": a("suspend", **{**suspend, "continuation": "c" * 129}),
            "wait of an unknown kind": a("wait", **_waiting({"kind": "signal", "key": "k", "timeout_ms": None})),
            "activation of another": a("complete", output=1, activation_id="someone-else"),
            "revision is a float": a("complete", output=1, revision=0.0),
        },
        INVALID,
    )


def _waiting(wait: Any) -> dict[str, Any]:
    return {"state": None, "continuation": "next", "commands": [], "wait": wait}


@scenario("decision/invalid-commands", cites=["DEC-011", "CHD-001", "DEC-040", "DEC-041", "DEC-045", "TXT-005"])
async def test_invalid_commands(lab: Lab) -> None:
    """An ill-formed child command, or one whose program does not exist, makes the whole decision invalid."""

    def staging(*commands: Any) -> Any:
        def make(activation: Activation) -> Any:
            staged = [activation.command("good"), *(command(activation) for command in commands)]
            return activation.checkpoint("suspend", {}, commands=staged, until=[])

        return make

    def without(name: str) -> Any:
        return lambda activation: {key: value for key, value in activation.command("bad").items() if key != name}

    def with_(**members: Any) -> Any:
        return lambda activation: activation.command("bad", **members)

    await each_rejected(
        lab,
        {
            "no data": staging(without("data")),
            "no queue": staging(without("queue")),
            "no program": staging(without("program")),
            "unknown member": staging(with_(priority=1)),
            "null retry policy": staging(with_(retry_policy=None)),
            "no attempts": staging(with_(retry_policy={"max_attempts": 0, "retry_delay_ms": 0})),
            "short timeout": staging(with_(attempt_timeout_ms=59_999)),
            "unknown kind": staging(with_(kind="process")),
            "null kind": staging(lambda activation: {**activation.command("bad"), "kind": None}),
            "empty key": staging(lambda activation: activation.command("")),
            "same key twice": staging(lambda activation: activation.command("good")),
            "program in upper case": staging(with_(program={"id": "Program", "version": "1"})),
            "unknown program": staging(with_(program={"id": "no-such-program", "version": "9.9.9"})),
            "65 commands": lambda activation: activation.checkpoint(
                "suspend", {}, commands=[activation.command(f"k{number}") for number in range(65)], until=[]
            ),
        },
        INVALID,
    )


@scenario("decision/invalid-waits", cites=["TMR-001", "DEC-011", "DEC-040", "DEC-041"])
async def test_invalid_waits(lab: Lab) -> None:
    """A wait with missing, unknown or out-of-range members is invalid."""
    longest = bound("MAX_WAIT_DURATION_MS")

    def waiting(**wait: Any) -> Any:
        return lambda activation: activation.decision("wait", **_waiting(wait))

    await each_rejected(
        lab,
        {
            "event without timeout": waiting(kind="event", key="k"),
            "negative timeout": waiting(kind="event", key="k", timeout_ms=-1),
            "float timeout": waiting(kind="event", key="k", timeout_ms=1.0),
            "timeout too long": waiting(kind="event", key="k", timeout_ms=longest + 1),
            "event with a delay": waiting(kind="event", key="k", timeout_ms=1, delay_ms=1),
            "timer without delay": waiting(kind="timer", key="k"),
            "null delay": waiting(kind="timer", key="k", delay_ms=None),
            "true delay": waiting(kind="timer", key="k", delay_ms=True),
            "delay too long": waiting(kind="timer", key="k", delay_ms=longest + 1),
            "empty key": waiting(kind="timer", key="", delay_ms=1),
        },
        INVALID,
    )


@scenario("decision/stale-revision", cites=["DEC-042", "DEC-020", "DEC-040", "DEC-041"])
async def test_stale_revision(lab: Lab) -> None:
    """A revision that is not the activation's is a permanent rejection, lower or higher."""
    worker = await lab.worker()
    for wrong in (0, 2):
        with lab.case(f"revision {wrong} at revision 1"):
            await lab.client.workflow()
            await (await worker.activation()).go_on()
            activation = await worker.activation()
            await rejected(lab, activation, activation.decision("complete", output=1, revision=wrong), FAILED)
    await worker.nothing()


@scenario("decision/unknown-member", cites=["DEC-044", "DEC-013", "DEC-046", "DEC-041", "CHD-020"])
async def test_unknown_member(lab: Lab) -> None:
    """An `until` that names no child, or a wait key, rejects the decision, and its staged children never exist."""
    await lab.client.workflow()
    activation = await (await lab.worker()).activation()
    decision = activation.checkpoint("suspend", {}, commands=[activation.command("staged")], until=["staged", "ghost"])
    await rejected(lab, activation, decision, FAILED)
    await (await lab.worker(queue=lab.child_queue)).nothing()


@scenario(
    "decision/nothing-staged-is-left", cites=["DEC-041", "DEC-044", "DEC-046", "CHD-020"], profile="core discovery"
)
async def test_nothing_staged_is_left(lab: Lab) -> None:
    """After a rejected decision the task list knows no child of it, not even a cancelled one."""
    correlation = lab.unique("staged")
    await lab.client.workflow(correlation_key=correlation)
    activation = await (await lab.worker()).activation()
    decision = activation.checkpoint("suspend", {}, commands=[activation.command("staged")], until=["staged", "ghost"])
    await rejected(lab, activation, decision, FAILED)
    found = (await lab.client.list_tasks(correlation_key=correlation)).accepted()["items"]
    assert [task["task_id"] for task in found] == [activation.task_id]


@scenario("decision/unfinished-children", cites=["DEC-043", "DEC-040", "DRN-007", "DRN-003", "DEC-041"])
async def test_unfinished_children(lab: Lab) -> None:
    """`complete` beside a running child is rejected; the child is drained and the workflow fails."""
    await lab.client.workflow()
    worker = await lab.worker()
    first = await worker.activation()
    await first.go_on(commands=[first.command("running"), first.command("idle", queue=lab.unique("idle"))])
    child = await (await lab.worker(queue=lab.child_queue)).running()
    second = await worker.activation()
    await second.complete("too early")
    failing = await lab.client.workflow_until(second.workflow_id, "failing")
    assert failing["revision"] == 1
    await lab.until(
        "the running child is asked to stop",
        lambda: lab.client.status(child.task_id),
        lambda seen: seen.accepted()["cancel_requested_at"] is not None,
        show=lambda seen: seen.value,
    )
    assert (await child.succeed())["task_state"] == "cancelled"
    outcome = await lab.client.outcome_until(second.workflow_id, "failed")
    assert outcome["error"]["kind"] == FAILED


@scenario(
    "decision/size-limits",
    cites=["DEC-010", "DEC-015", "LIM-020", "LIM-021", "LIM-011", "LIM-031", "DEC-011", "JSON-068"],
)
async def test_size_limits(lab: Lab) -> None:
    """State and decision may take exactly their limits in the service's spelling; one byte more is invalid."""
    worker = await lab.worker()

    async def fresh() -> Activation:
        await lab.client.workflow()
        return await worker.activation()

    state = [1e-05, 2.9802322387695312e-8, ""]
    state[2] = "s" * (bound("STATE_BYTES") - compact_size(state))
    exact = await fresh()
    await exact.go_on(state=state)
    following = await worker.activation()
    assert same(following.frozen["state"], state)
    whole = following.decision("complete", output="")
    output = "o" * (bound("DECISION_BYTES") - compact_size(whole))
    await following.complete(output)
    outcome = await lab.client.outcome_until(following.workflow_id, "succeeded")
    assert outcome["output"] == output
    over = await fresh()
    longer = [*state[:2], f"{state[2]}s"]
    await rejected(lab, over, over.checkpoint("continue", {"state": longer}), INVALID)
    over = await fresh()
    whole = over.decision("complete", output="")
    output = "o" * (bound("DECISION_BYTES") - compact_size(whole) + 1)
    await rejected(lab, over, over.decision("complete", output=output), INVALID)


@scenario("decision/defaults-count", cites=["DEC-010", "LIM-011", "LIM-002"])
async def test_defaults_count(lab: Lab) -> None:
    """A decision that only fits without its defaults written out is too large."""
    await lab.client.workflow()
    activation = await (await lab.worker()).activation()
    decision = activation.checkpoint("suspend", {}, commands=[activation.command("k", data="")], until=[])
    decision["commands"][0]["data"] = "d" * (bound("DECISION_BYTES") - compact_size(decision))
    await rejected(lab, activation, decision, INVALID)


@scenario("decision/metadata-depth", cites=["DEC-002", "DEC-011", "JSON-032", "DLV-071", "LIM-020"])
async def test_metadata_depth(lab: Lab) -> None:
    """A controller's output may nest 96 containers in the report; as a decision its values keep the limit of 64."""
    worker = await lab.worker()
    await lab.client.workflow()
    activation = await worker.activation()
    too_deep: Any = "x"
    for _ in range(bound("CONTROLLER_OUTPUT_DEPTH") + 1):
        too_deep = [too_deep]
    (await activation.settle(activation.success(too_deep))).refused("invalid_input")
    await rejected(lab, activation, too_deep[0], INVALID)
    await lab.client.workflow()
    activation = await worker.activation()
    deep: Any = "x"
    for _ in range(bound("DATA_DEPTH")):
        deep = [deep]
    await activation.complete(deep)
    outcome = await lab.client.outcome_until(activation.workflow_id, "succeeded")
    assert same(outcome["output"], deep)
    await lab.client.workflow()
    activation = await worker.activation()
    await rejected(lab, activation, activation.decision("complete", output=[deep]), INVALID)
