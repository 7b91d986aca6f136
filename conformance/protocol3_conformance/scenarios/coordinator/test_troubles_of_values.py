"""What real engines got wrong with values: numbers, U+0000, surrogates, sizes; `troubles.toml` says where."""

from __future__ import annotations

from typing import Any

from protocol3_conformance.bounds import bound
from protocol3_conformance.lab import Lab
from protocol3_conformance.roles.views import unchanged
from protocol3_conformance.scenario import scenario
from protocol3_conformance.scenarios.coordinator.contests import begun, with_child
from protocol3_conformance.wire.strict_json import encode, same

FAILED = "decision_application_failed"
VALUE: Any = {
    "integers": [2**53 - 1, 2**53, 2**53 + 1, 2**63 - 1, 2**63, 2**64 - 1, -(2**53) - 1, -(2**63), 0],
    "floats": [0.1 + 0.2, -0.0, 0.0, 9007199254740992.0, 1e16, 5e-324, 1.7976931348623157e308, 1.0],
    "text": ["\u0000", "a\u0000b", "\u2028\u2029", "e\u0301", "\u00e9", "\U0001f600", "\uffff", "\u0085"],
    "\u0000": "a key",
    "\U0001f600 e\u0301 \u2028": {"": None},
}
PLACE = "PLACE"
UNUSABLE = {
    "lone high surrogate": b'"\\ud800"',
    "lone low surrogate": b'"a\\udfffb"',
    "surrogates the wrong way round": b'"\\udc00\\ud800"',
    "surrogate in a key": b'{"\\ud83d":1}',
    "surrogate in UTF-8": b'"\xed\xa0\x80"',
    "too great an integer": b"18446744073709551616",
    "infinite float": b"1e400",
    "no number": b"NaN",
    "infinity": b"-Infinity",
}
NUL = "nul\u0000nul"


@scenario(
    "trouble/values-through-a-workflow",
    cites=["JSON-046", "JSON-012", "JSON-021", "JSON-022", "CHD-021", "LOC-001", "EVT-002", "DEC-011", "TMR-022"],
)
async def test_values_through_a_workflow(lab: Lab) -> None:
    """Great integers, 17 digits, -0.0, U+0000 and rare characters come back from every place that keeps a value."""
    worker, first = await begun(lab, data=VALUE)
    assert same(first.event["data"], VALUE)
    (await first.local("step", VALUE, input=VALUE)).accepted()
    kept = (await first.context()).accepted()["local_steps"][0]
    assert same([kept["input"], kept["output"]], [VALUE, VALUE])
    (await lab.client.send_event(first.workflow_id, "go", lab.client.event(data=VALUE))).accepted()
    await first.wait_event("go", state=VALUE, commands=[first.command("c", data=VALUE)])
    child = await (await lab.worker(queue=lab.child_queue)).running()
    assert same(child.event["data"], VALUE)
    second = await worker.activation()
    assert same([second.wake("event")["event"]["data"], second.frozen["state"]], [VALUE, VALUE])
    await child.succeed(VALUE)
    await second.suspend("c")
    third = await worker.activation()
    assert same(third.output_of("c"), VALUE)
    await third.complete(VALUE)
    assert same((await lab.client.outcome_until(first.workflow_id, "succeeded"))["output"], VALUE)


@scenario("trouble/nul-in-texts", cites=["TXT-001", "TXT-007", "TXT-009", "DLV-072", "ERR-010", "ACT-042"])
async def test_nul_in_texts(lab: Lab) -> None:
    """U+0000 is kept in every error text, in the end of a workflow too, and refused in keys and names; all ends."""
    worker, activation = await begun(lab)
    await lab.client.task()
    claim = await worker.running()
    async with unchanged(lab.client, workflows=[activation.workflow_id], claims=[claim, activation]):
        (await lab.client.submit_task(key=NUL)).refused("invalid_input")
        (await lab.client.submit_task(queue=NUL)).refused("invalid_input")
        (await lab.client.submit_task(correlation_key=NUL)).refused("invalid_input")
        (await lab.client.send_event(activation.workflow_id, NUL, lab.client.event())).refused("invalid_input")
        (await lab.client.send_event(activation.workflow_id, "k", lab.client.event(id=NUL))).refused("invalid_input")
        (await activation.local(NUL)).refused("invalid_input")
    report = claim.breakdown("io", phase="cleanup", message=NUL, cleanup_error={"kind": "io", "message": NUL})
    assert (await claim.settle(report)).accepted()["task_state"] == "queued"
    stored = (await claim.inspect())["settlement"]["command"]["report"]["report"]
    assert (stored["error"]["message"], stored["cleanup_error"]["message"]) == (NUL, NUL)
    await activation.fail(message=NUL)
    error = (await lab.client.outcome_until(activation.workflow_id, "failed"))["error"]
    assert error == {"kind": "given_up", "message": NUL}


@scenario("trouble/unusable-values", cites=["JSON-011", "JSON-020", "JSON-024", "TXT-008", "TASK-016", "LIM-021"])
async def test_unusable_values(lab: Lab) -> None:
    """Lone surrogates and numbers that are none are refused wherever a value may stand, and break no later read."""
    _, activation, child = await with_child(lab)
    decision = activation.decision("complete", output=PLACE)
    record = {"key": "r", "callable": "conformance:step", "input": None, "output": PLACE}
    event = {"scope": lab.scope, "workflow_id": activation.workflow_id, "key": "e"}
    commands: dict[str, Any] = {
        "/v1/tasks": lab.client.submission(data=PLACE),
        "/v1/workflows": lab.client.submission(data=PLACE),
        "/v1/workflows/events": {**event, "event": lab.client.event(data=PLACE)},
        "/v1/workflows/local-results": {"owner": activation.owner, "record": record},
        "/v1/settlements": child.success(PLACE),
    }
    placed = [*commands.items(), ("/v1/settlements", activation.success(decision))]
    for path, command in placed:
        for claim in (activation, child):  # all of it may take longer than a lease
            (await claim.renew()).accepted()
        async with unchanged(lab.client, workflows=[activation.workflow_id], claims=[activation, child]):
            for name, token in UNUSABLE.items():
                with lab.case(f"{path}: {name}"):
                    body = encode(command).replace(f'"{PLACE}"'.encode(), token)
                    (await lab.client.post(path, body)).refused("invalid_input", 400)
    for path, command in placed:
        with lab.case(f"{path}: the same with a value"):
            (await lab.client.post(path, command)).accepted()


@scenario("trouble/over-limit-is-definite", cites=["LIM-021", "TASK-016", "LOC-009", "JSON-060", "JSON-063"])
async def test_over_limit_is_definite(lab: Lab) -> None:
    """What is too large is refused by the same code each time, nothing of it stays, and the place is free after it."""
    _, activation = await begun(lab)
    sizes = {"data": bound("DATA_BYTES"), "event": bound("EVENT_BYTES"), "record": bound("LOCAL_RECORD_BYTES")}
    key, event = lab.unique("key"), lab.client.event()
    huge = {name: "x" * size for name, size in sizes.items()}
    async with unchanged(lab.client, workflows=[activation.workflow_id], claims=[activation]):
        for _ in range(3):
            (await lab.client.submit_task(key=key, data=huge["data"])).refused("invalid_input", 400)
            large = {**event, "data": huge["event"]}
            (await lab.client.send_event(activation.workflow_id, "e", large)).refused("invalid_input", 400)
            (await activation.local("r", huge["record"])).refused("invalid_input", 400)
    assert (await lab.client.task(key=key))["state"] == "queued"
    assert not (await lab.client.send_event(activation.workflow_id, "e", event)).accepted()["already_accepted"]
    assert not (await activation.local("r")).accepted()["already_accepted"]


@scenario("trouble/oversized-decision-is-not-retried", cites=["DEC-002", "DEC-040", "DEC-041", "LIM-021"])
async def test_oversized_decision_is_not_retried(lab: Lab) -> None:
    """A decision beyond its limit fails its workflow once and for all; its many commands leave no child."""
    worker, activation = await begun(lab, retry_policy={"max_attempts": 5, "retry_delay_ms": 0})
    share = "x" * (bound("DECISION_BYTES") // bound("COMMANDS"))
    commands = [activation.command(f"c{number}", data=share) for number in range(bound("COMMANDS"))]
    assert (await activation.go_on(commands=commands))["task_state"] == "succeeded"
    error = (await lab.client.outcome_until(activation.workflow_id, "failed"))["error"]
    assert error["kind"] == "decision_invalid"
    assert (await lab.client.workflow_status(activation.workflow_id)).accepted()["revision"] == 0
    await worker.nothing()
    await (await lab.worker(queue=lab.child_queue)).nothing()


@scenario("trouble/fan-out-whose-sum-is-too-large", cites=["CHD-056", "LIM-013", "LIM-021", "WF-052"])
async def test_fan_out_whose_sum_is_too_large(lab: Lab) -> None:
    """Many small results whose sum is beyond the inputs fail their own workflow with a kind; the one beside it ends."""
    worker, first = await begun(lab)
    _, beside = await begun(lab)
    children = await lab.worker(queue=lab.child_queue)
    size, keys = 8192, [f"c{number}" for number in range(bound("INPUTS_BYTES") // 8192 + 1)]
    await first.suspend(*keys, commands=[first.command(key) for key in keys])
    for _ in keys:
        await (await children.claim()).succeed("x" * size)
    error = (await lab.client.outcome_until(first.workflow_id, "failed"))["error"]
    assert error["kind"] == FAILED
    await beside.complete("untouched")
    assert (await lab.client.outcome_until(beside.workflow_id, "succeeded"))["output"] == "untouched"
    await worker.nothing()
