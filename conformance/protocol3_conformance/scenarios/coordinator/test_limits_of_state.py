"""Bounds that no single message has: what an activation gets and registers altogether, and rules of faults."""

from __future__ import annotations

from typing import Any

from protocol3_conformance.bounds import bound
from protocol3_conformance.lab import Lab
from protocol3_conformance.roles.activation import Activation
from protocol3_conformance.roles.controls import match_of
from protocol3_conformance.scenario import scenario
from protocol3_conformance.scenarios.coordinator.contests import begun
from protocol3_conformance.wire.actors import FAULTS
from protocol3_conformance.wire.strict_json import compact_size


@scenario("limits/inputs-of-an-activation", cites=["CHD-056", "LIM-013", "LIM-020", "LIM-021", "LIM-033"])
async def test_inputs_of_an_activation(lab: Lab) -> None:
    """Inputs may take exactly 256 KiB with all that stands around an output; one byte more fails the workflow."""
    children = await lab.worker(queue=lab.child_queue)
    for surplus in (-1, 0, 1):
        with lab.case(f"limit {surplus:+}"):
            worker, first = await begun(lab)
            await first.suspend("sample", commands=[first.command(key, data=key) for key in ("sample", "whole")])
            claims = {claim.event["data"]: claim for claim in [await children.running() for _ in range(2)]}
            await claims["sample"].succeed("")
            second = await worker.activation()
            whole = claims["whole"]
            around = {**second.child("sample"), "task_id": whole.task_id}
            around["outcome"] = {**around["outcome"], "attempt_id": whole.attempt_id}
            size = bound("INPUTS_BYTES") + surplus - compact_size({"whole": around})
            await whole.succeed("x" * size)
            await second.suspend("whole")
            if surplus <= 0:
                third = await worker.activation()
                assert compact_size(third.frozen["inputs"]) == bound("INPUTS_BYTES") + surplus
                await third.complete()
            else:
                error = (await lab.client.outcome_until(second.workflow_id, "failed"))["error"]
                assert error["kind"] == "decision_application_failed"


def sized(activation: Activation, lab: Lab, key: str, size: int) -> list[Any]:
    """One branch that makes a fork request of exactly so many bytes with its defaults filled in."""
    policy = {"max_attempts": bound("DEFAULT_MAX_ATTEMPTS"), "retry_delay_ms": bound("DEFAULT_RETRY_DELAY_MS")}
    written_out: dict[str, Any] = {"retry_policy": policy, "attempt_timeout_ms": bound("DEFAULT_ATTEMPT_TIMEOUT_MS")}
    branch = activation.branch(f"branch of {key}", queue=lab.child_queue, data="", **written_out)
    empty = compact_size({"key": key, "branches": [branch]})
    return [{**branch, "data": "x" * (size - empty)}]


@scenario("limits/fork-ledger", cites=["FRK-010", "LIM-012", "LIM-020", "LIM-021"], profile="core forks")
async def test_fork_ledger(lab: Lab) -> None:
    """The forks of an activation may take 256 KiB together; one byte more is refused, and costs nothing."""
    _, activation = await begun(lab)
    most, whole = bound("FORK_LEDGER_BYTES"), bound("FORK_REQUEST_BYTES")
    assert most == 2 * whole, "the sizes below suppose that two whole requests fill the ledger"
    half = whole // 2
    (await activation.fork("a", sized(activation, lab, "a", whole))).accepted()
    (await activation.fork("b", sized(activation, lab, "b", half))).accepted()
    (await activation.fork("c", sized(activation, lab, "c", half + 1))).refused("invalid_input", 400)
    assert not (await activation.fork("c", sized(activation, lab, "c", half))).accepted()["already_accepted"]
    (await activation.fork("d", [activation.branch("d", queue=lab.child_queue)])).refused("invalid_input", 400)
    assert (await activation.fork("a", sized(activation, lab, "a", whole))).accepted()["already_accepted"]


@scenario("limits/forks", cites=["FRK-010", "CHD-024", "LIM-020", "LIM-021"], profile="core forks")
async def test_forks(lab: Lab) -> None:
    """An activation may register 64 forks of one branch each; a further one is refused."""
    _, activation = await begun(lab)
    for number in range(bound("FORKS")):
        branch = activation.branch(f"branch {number}", queue=lab.child_queue)
        (await activation.renew()).accepted()  # all of them may take longer than a lease
        (await activation.fork(f"fork {number}", [branch])).accepted()
    further = [activation.branch("further", queue=lab.child_queue)]
    (await activation.fork("further", further)).refused("invalid_input", 400)


@scenario("limits/fault-rules", cites=["TST-031", "LIM-020", "LIM-021"], profile="core faults")
async def test_fault_rules(lab: Lab) -> None:
    """Pauses, pieces and statuses of rules are taken up to their bounds and refused beyond them."""
    pause, piece = bound("FAULT_PAUSE_MS"), bound("FAULT_DRIP_BYTES")
    least, most = bound("FAULT_STATUS_MIN"), bound("FAULT_STATUS_MAX")

    def acts(beyond: int) -> list[dict[str, Any]]:
        return [
            {"kind": "delay", "ms": pause + beyond},
            {"kind": "drip", "bytes": piece + beyond, "every_ms": 0},
            {"kind": "drip", "bytes": 1, "every_ms": pause + beyond},
            {"kind": "status", "status": least - beyond},
            {"kind": "status", "status": most + beyond},
        ]

    rule = {"match": match_of("/v1/tasks"), "where": "committed"}
    for act in acts(1):
        with lab.case(str(act)):
            (await lab.controls.post(FAULTS, **rule, act=act)).refused("invalid_input")
    assert (await lab.controls.look())["faults"] == []
    for act in (*acts(-1), *acts(0)):
        with lab.case(str(act)):
            (await lab.controls.post(FAULTS, **rule, act=act)).accepted()
    await lab.controls.clear()
