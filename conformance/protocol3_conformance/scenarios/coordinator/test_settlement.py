"""Settlement: acceptance, replay before liveness, conflicts, order of checks (chapter 07)."""

from __future__ import annotations

import asyncio
from typing import Any

from protocol3_conformance.bounds import bound
from protocol3_conformance.lab import Lab
from protocol3_conformance.roles.claim import Claim
from protocol3_conformance.scenario import scenario
from protocol3_conformance.wire.strict_json import encode, same

TRACE = {"traceparent": "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"}

TWICE = {"max_attempts": 2, "retry_delay_ms": 0}


async def running(lab: Lab, **members: Any) -> Claim:
    await lab.client.task(**members)
    return await (await lab.worker()).running()


def edited(command: dict[str, Any], **report: Any) -> dict[str, Any]:
    """The command with members of its report body replaced; None removes one."""
    body = {**command["report"]["report"], **report}
    kept = {name: value for name, value in body.items() if value is not None}
    return {**command, "report": {**command["report"], "report": kept}}


@scenario(
    "settlement/success",
    cites=[
        "DLV-083",
        "DLV-085",
        "TASK-060",
        "TASK-061",
        "TASK-062",
        "TASK-129",
        "DLV-130",
        "TASK-216",
        "TASK-222",
        "TASK-231",
        "TASK-233",
        "TASK-236",
        "DLV-337",
        "DLV-346",
        "DLV-347",
    ],
)
async def test_success(lab: Lab) -> None:
    """A confirmed success ends task and attempt at once, and every read shows the same end."""
    claim = await running(lab, data=1)
    command = claim.success({"rows": 12, "rate": 1.0})
    reply = (await claim.settle(command)).accepted()
    assert (reply["already_accepted"], reply["task_state"]) == (False, "succeeded")
    result = (await lab.client.result(claim.task_id)).accepted()
    assert same(
        result["outcome"],
        {
            "kind": "succeeded",
            "attempt_id": claim.attempt_id,
            "quiescence": "confirmed",
            "execution_may_have_started": True,
            "output": {"rows": 12, "rate": 1.0},
        },
    )
    attempt = await claim.inspect()
    assert (attempt["state"], attempt["quiescence"]) == ("succeeded", "confirmed")
    assert result["task"]["terminal_at"] == attempt["finished_at"] == reply["receipt"]["accepted_at"]
    assert same(attempt["settlement"]["command"], {**command, "processing_trace": None})
    assert attempt["settlement"]["receipt"] == reply["receipt"]
    history = (await lab.client.history(claim.task_id)).accepted()
    assert [entry["event"]["reason"] for entry in history] == [
        "submitted",
        "claimed",
        "dispatch_authorized",
        "report_accepted",
        "succeeded",
    ]
    assert history[3]["event"]["at"] == history[4]["event"]["at"]
    assert {entry["event"]["attempt_id"] for entry in history[1:]} == {claim.attempt_id}


@scenario("settlement/null-output", cites=["TASK-064", "CLI-064", "CLI-061", "TASK-215"])
async def test_null_output(lab: Lab) -> None:
    """A success may return null, which is not the same as no outcome."""
    claim = await running(lab)
    assert (await lab.client.result(claim.task_id)).accepted()["outcome"] is None
    await claim.succeed(None)
    outcome = (await lab.client.result(claim.task_id)).accepted()["outcome"]
    assert outcome["kind"] == "succeeded"
    assert outcome["output"] is None


@scenario("settlement/replay-after-finish", cites=["DLV-074", "DLV-075", "DLV-080", "DLV-120"])
async def test_replay_after_finish(lab: Lab) -> None:
    """The identical command returns the first receipt for ever, changes nothing and writes no history."""
    claim = await running(lab)
    command = claim.success({"a": 1, "b": [1.0]})
    first = (await claim.settle(command)).accepted()
    history = await lab.client.reasons(claim.task_id)
    reordered = encode(dict(reversed(command.items()))).replace(b"[1.0]", b"[1e0]")
    for name, body in {"same bytes": encode(command), "other spelling": reordered}.items():
        with lab.case(name):
            again = (await lab.client.post("/v1/settlements", body)).accepted()
            assert again == {**first, "already_accepted": True}
    assert await lab.client.reasons(claim.task_id) == history


@scenario("settlement/replay-under-a-later-attempt", cites=["DLV-074", "DLV-075", "DLV-082", "DLV-043"])
async def test_replay_under_a_later_attempt(lab: Lab) -> None:
    """An old report replays while the next attempt runs, shows the state of now, and decides nothing again."""
    await lab.client.task(retry_policy={"max_attempts": 3, "retry_delay_ms": 0})
    worker = await lab.worker()
    first = await worker.running()
    command = first.breakdown("io", phase="execution")
    receipt = (await first.settle(command)).accepted()["receipt"]
    second = await worker.running()
    replay = (await first.settle(command)).accepted()
    assert replay == {"receipt": receipt, "already_accepted": True, "task_state": "active"}
    # The operation id belongs to the attempt: the next one may use it again.
    reply = (await second.settle(second.success("done", operation_id=first.operation_id))).accepted()
    assert (reply["already_accepted"], reply["task_state"]) == (False, "succeeded")
    assert (await first.settle(command)).accepted()["task_state"] == "succeeded"


@scenario("settlement/any-difference-conflicts", cites=["DLV-076", "DLV-091", "JSON-082"])
async def test_any_difference_conflicts(lab: Lab) -> None:
    """With a report stored every other command is a conflict; absent and null optionals are the same."""
    claim = await running(lab)
    command = claim.success({"n": 1})
    first = (await claim.settle(command)).accepted()
    stored = await claim.inspect()
    changes = {
        "operation id": {**command, "operation_id": lab.unique("op")},
        "quiescence": {**command, "quiescence": "unconfirmed"},
        "output number class": claim.success({"n": 1.0}),
        "output": claim.success({"n": 2}),
        "processing trace": {**command, "processing_trace": TRACE},
        "elapsed time": edited(command, elapsed_ms=8),
        "process": edited(command, reused_process=True),
        "failure instead": claim.failure(),
        "observations": edited(command, observations=observations()),
    }
    for name, other in changes.items():
        with lab.case(name):
            (await claim.settle(other)).refused("conflict")
    equal = {**command, "processing_trace": None}
    assert (await claim.settle(equal)).accepted() == {**first, "already_accepted": True}
    assert same(await claim.inspect(), stored)


@scenario("settlement/foreign-report", cites=["DLV-078", "DLV-079", "DLV-071", "TASK-016", "DLV-335"])
async def test_foreign_report(lab: Lab) -> None:
    """A report must echo the event and the descriptor exactly, else it conflicts; then the right one is accepted."""
    await lab.client.task(origin_trace=TRACE)
    claim = await (await lab.worker()).running()
    command = claim.success("mine")
    program = claim.assignment["descriptor"]["program"]
    changes: dict[str, dict[str, Any]] = {
        "event id": {"event_id": lab.unique("evt")},
        "source": {"source": "urn:someone:else"},
        "tenant": {"tenant_id": "elsewhere"},
        "namespace": {"namespace": "elsewhere"},
        "run": {"run_id": lab.unique("run")},
        "task": {"task_id": lab.unique("task")},
        "attempt": {"attempt_id": lab.unique("att")},
        "attempt number": {"attempt_no": 2},
        "program": {"program": {**program, "version": "0.0.0-other"}},
        "digest": {"digest": "sha256:" + "0" * 64},
        "trace left out": {"traceparent": None, "tracestate": None},
        "claims an activation": {"activation_id": claim.task_id},
        "claims a workflow": {"workflow_id": lab.unique("wf")},
    }
    for name, change in changes.items():
        with lab.case(name):
            (await claim.settle(edited(command, **change))).refused("conflict")
    attempt = await claim.inspect()
    assert (attempt["settlement"], attempt["state"]) == (None, "active")
    assert (await claim.settle(command)).accepted()["already_accepted"] is False


@scenario("settlement/wrong-owner", cites=["DLV-077", "TASK-122", "DLV-080"])
async def test_wrong_owner(lab: Lab) -> None:
    """An owner that resolves to no attempt is not_found, one that differs from the lease has lost ownership."""
    claim = await running(lab)
    command = claim.success()
    other = await lab.worker()
    owner = claim.owner
    cases = {
        "lease": ({**owner, "lease_id": lab.unique("lease")}, "ownership_lost"),
        "generation": ({**owner, "generation": 2}, "ownership_lost"),
        "session": ({**owner, "worker_session_id": other.session["id"]}, "ownership_lost"),
        "session never issued": ({**owner, "worker_session_id": lab.unique("ws")}, "ownership_lost"),
        "consumer": ({**owner, "consumer_id": 1}, "ownership_lost"),
        "unknown task": ({**owner, "task_id": lab.unique("task")}, "not_found"),
        "unknown attempt": ({**owner, "attempt_id": lab.unique("att")}, "not_found"),
    }
    for name, (wrong, code) in cases.items():
        with lab.case(name):
            (await claim.settle({**command, "owner": wrong})).refused(code)
    assert (await claim.inspect())["settlement"] is None


@scenario("settlement/order-of-checks", cites=["DLV-071", "DLV-078", "DLV-075", "TASK-016"])
async def test_order_of_checks(lab: Lab) -> None:
    """Bounds before lookup, owner before identity, identity before replay, replay before liveness."""
    claim = await running(lab)
    deep = claim.success(nested(bound("DATA_DEPTH") + 1))
    stranger = {**claim.owner, "task_id": lab.unique("task")}
    (await claim.settle({**deep, "owner": stranger})).refused("invalid_input")
    lost = {**claim.owner, "lease_id": lab.unique("lease")}
    foreign = edited(claim.success(), run_id=lab.unique("run"))
    (await claim.settle({**foreign, "owner": lost})).refused("ownership_lost")
    await claim.succeed("first")
    (await claim.settle({**claim.success("first"), "owner": lost})).refused("ownership_lost")
    (await claim.settle(edited(claim.success("first"), run_id=lab.unique("run")))).refused("conflict")
    assert (await claim.settle(claim.success("first"))).accepted()["already_accepted"]


@scenario("settlement/invalid-shapes", cites=["DLV-070", "DLV-071", "DLV-091", "JSON-080", "TRC-016", "TASK-016"])
async def test_invalid_shapes(lab: Lab) -> None:
    """Unknown words, missing members, wrong types and unknown members of the command are refused unseen."""
    claim = await running(lab)
    success, failure = claim.success(), claim.breakdown("io")
    cases = {
        "unknown report kind": {**success, "report": {**success["report"], "kind": "finished"}},
        "kind and body do not fit": {**success, "report": {**success["report"], "kind": "failed"}},
        "unknown status": edited(success, outcome={"status": "ok", "output": 1}),
        "success without output": edited(success, outcome={"status": "success"}),
        "failure without message": edited(success, outcome={"status": "failure", "kind": "x"}),
        "unknown error kind": edited(failure, error={"kind": "Timeout", "message": ""}),
        "unknown phase": edited(failure, phase="running"),
        "no phase": edited(failure, phase=None),
        "process id is a float": edited(success, process_id=1.0),
        "elapsed is negative": edited(success, elapsed_ms=-1),
        "no digest": edited(success, digest=None),
        "unknown quiescence": {**success, "quiescence": "maybe"},
        "no quiescence": {name: value for name, value in success.items() if name != "quiescence"},
        "unknown member": {**success, "force": True},
        "operation id too long": {**success, "operation_id": "x" * 129},
        "empty operation id": {**success, "operation_id": ""},
        "observations with a stranger": edited(success, observations={**observations(), "extra": 1}),
        "observations of a wrong type": edited(success, observations={**observations(), "runtime_elapsed_us": "7"}),
        "program with a stranger": edited(success, program={**success["report"]["report"]["program"], "tag": "x"}),
        "invalid processing trace": {**success, "processing_trace": {"traceparent": "00-zz"}},
    }
    for name, command in cases.items():
        with lab.case(name):
            (await claim.settle(command)).refused("invalid_input")
    assert (await claim.inspect())["settlement"] is None
    (await claim.settle(success)).accepted()


@scenario("settlement/output-depth", cites=["DLV-071", "TASK-038", "JSON-032", "LIM-020"])
async def test_output_depth(lab: Lab) -> None:
    """Output may nest 64 containers; the containers of the command around it do not count."""
    claim = await running(lab)
    deepest = bound("DATA_DEPTH")
    (await claim.settle(claim.success(nested(deepest + 1)))).refused("invalid_input")
    await claim.succeed(nested(deepest))
    outcome = (await lab.client.result(claim.task_id)).accepted()["outcome"]
    assert same(outcome["output"], nested(deepest))


@scenario(
    "settlement/unconfirmed-then-confirmed",
    cites=["DLV-084", "DLV-086", "DLV-100", "DLV-101", "DLV-104", "TASK-125", "TASK-065"],
)
async def test_unconfirmed_then_confirmed(lab: Lab) -> None:
    """An unconfirmed report decides nothing yet; the confirmation does, once, without touching the stored command."""
    claim = await running(lab)
    command = claim.success("kept", quiescence="unconfirmed")
    reply = (await claim.settle(command)).accepted()
    assert reply["task_state"] == "active"
    attempt = await claim.inspect()
    assert (attempt["state"], attempt["quiescence"], attempt["finished_at"]) == ("active", "unconfirmed", None)
    assert (await lab.client.result(claim.task_id)).accepted()["outcome"] is None
    (await claim.settle({**command, "quiescence": "confirmed"})).refused("conflict")
    assert (await claim.confirm()).accepted() == "succeeded"
    assert (await claim.confirm()).accepted() == "succeeded"
    outcome = (await lab.client.result(claim.task_id)).accepted()["outcome"]
    assert (outcome["quiescence"], outcome["output"]) == ("confirmed", "kept")
    assert (await claim.inspect())["settlement"]["command"]["quiescence"] == "unconfirmed"
    assert (await lab.client.reasons(claim.task_id))[-3:] == ["report_accepted", "cleanup_confirmed", "succeeded"]
    assert (await claim.settle(command)).accepted()["task_state"] == "succeeded"


@scenario("settlement/confirmation-order", cites=["DLV-102", "DLV-101", "DLV-100", "DLV-342"])
async def test_confirmation_order(lab: Lab) -> None:
    """A confirmation needs a report and the exact owner; after a confirmed report it just tells the state."""
    claim = await running(lab)
    (await claim.confirm(task_id=lab.unique("task"))).refused("not_found")
    (await claim.confirm(attempt_id=lab.unique("att"))).refused("not_found")
    (await claim.confirm(lease_id=lab.unique("lease"))).refused("ownership_lost")
    (await claim.confirm()).refused("invalid_input")
    await claim.succeed()
    (await claim.confirm(lease_id=lab.unique("lease"))).refused("ownership_lost")
    assert (await claim.confirm()).accepted() == "succeeded"
    assert "cleanup_confirmed" not in await lab.client.reasons(claim.task_id)


@scenario("settlement/without-dispatch", cites=["DLV-081", "DLV-062", "DLV-130"])
async def test_without_dispatch(lab: Lab) -> None:
    """No dispatch is needed to settle; a completed report says that execution started, and none takes that back."""
    await lab.client.task()
    claim = await (await lab.worker()).claim()
    await claim.succeed()
    assert (await claim.inspect())["execution_may_have_started"]
    assert await lab.client.reasons(claim.task_id) == ["submitted", "claimed", "report_accepted", "succeeded"]
    await lab.client.task(retry_policy={"max_attempts": 1, "retry_delay_ms": 0})
    second = await (await lab.worker()).claim()
    (await second.settle(second.breakdown("io", execution_may_have_started=False))).accepted()
    outcome = (await lab.client.result(second.task_id)).accepted()["outcome"]
    assert not outcome["execution_may_have_started"]
    third = await running(lab)
    (await third.settle(third.breakdown("io", execution_may_have_started=False))).accepted()
    assert (await third.inspect())["execution_may_have_started"]


@scenario("settlement/other-scope", cites=["DLV-055", "DLV-329", "DLV-336", "DLV-342"], profile="core any-scope")
async def test_other_scope(lab: Lab) -> None:
    """An owner whose scope is another one that exists finds nothing there, whatever else is right."""
    await lab.client_in(lab.other_scope).task()
    claim = await running(lab)
    other = lab.other_scope
    owner = {**claim.owner, "scope": other}
    (await claim.renew("keep_alive", scope=other)).refused("not_found")
    report = edited(claim.success("stray"), tenant_id=other["tenant_id"], namespace=other["namespace"])
    (await claim.settle({**report, "owner": owner})).refused("not_found")
    (await claim.settle({**claim.success("stray"), "owner": owner})).refused("not_found")
    assert (await claim.settle(claim.success("mine", quiescence="unconfirmed"))).accepted()["task_state"] == "active"
    (await lab.client.post("/v1/quiescence-confirmations", owner)).refused("not_found")
    assert (await claim.confirm()).accepted() == "succeeded"


@scenario("settlement/observations", cites=["DLV-090", "DLV-091", "DLV-076"])
async def test_observations(lab: Lab) -> None:
    """Observations are kept with the command, compared on replay, and decide nothing: no outcome and no retry."""
    claim = await running(lab)
    command = edited(claim.success(), observations=observations())
    assert (await claim.settle(command)).accepted()["task_state"] == "succeeded"
    assert (await claim.settle(command)).accepted()["already_accepted"]
    (await claim.settle(claim.success())).refused("conflict")
    stored = (await claim.inspect())["settlement"]["command"]["report"]["report"]
    assert same(stored["observations"], observations())
    for observed in ({}, {"observations": observations()}):
        with lab.case("with observations" if observed else "without"):
            succeeding, failing, retried = [await running(lab, retry_policy=TWICE) for _ in range(3)]
            for claim, command, state in (
                (succeeding, succeeding.success("x"), "succeeded"),
                (failing, failing.failure("x"), "failed"),
                (retried, retried.breakdown("io"), "queued"),
            ):
                whole = edited(command, **observed)
                reply = (await claim.settle(whole)).accepted()
                assert reply["task_state"] == state
                assert (await claim.settle(whole)).accepted() == {**reply, "already_accepted": True}
            ends = [(await lab.client.result(each.task_id)).accepted()["outcome"] for each in (succeeding, failing)]
            assert [each["kind"] for each in ends] == ["succeeded", "failed"]
            again = await (await lab.worker()).claim()
            assert (again.task_id, again.event["ldgattemptno"]) == (retried.task_id, 2)
            await again.succeed()


@scenario("settlement/identical-at-once", cites=["DLV-074", "DLV-083", "DLV-112"])
async def test_identical_at_once(lab: Lab) -> None:
    """Identical settlements that race are accepted once; opposing ones have one winner and a conflict."""
    for _ in range(4):
        claim = await running(lab)
        replies = await asyncio.gather(*(claim.settle(claim.success("x")) for _ in range(4)))
        assert sorted(reply.accepted()["already_accepted"] for reply in replies) == [False, True, True, True]
        assert (await lab.client.reasons(claim.task_id)).count("report_accepted") == 1
        rival = await running(lab)
        answers = await asyncio.gather(rival.settle(rival.success("x")), rival.settle(rival.failure("x")))
        assert sorted(answer.status for answer in answers) == [200, 409]
        loser = next(answer for answer in answers if answer.status != 200)
        loser.refused("conflict")
        winner = next(answer for answer in answers if answer.status == 200)
        assert (await lab.client.status(rival.task_id)).accepted()["state"] == winner.value["task_state"]


def nested(levels: int) -> Any:
    """Arrays in arrays, `levels` deep."""
    value: Any = []
    for _ in range(levels - 1):
        value = [value]
    return value


def observations() -> dict[str, Any]:
    """Small valid observations."""
    step = {"key": "fx", "callable": "m:fx", "started_at_ms": 1, "elapsed_us": 2, "state": "returned"}
    return {
        "runtime_started_at_ms": 1,
        "runtime_elapsed_us": 2,
        "process_cpu_user_us": None,
        "process_cpu_system_us": 3,
        "process_lifetime_peak_rss_bytes": 4,
        "local_steps": [step],
        "local_steps_truncated": False,
    }
