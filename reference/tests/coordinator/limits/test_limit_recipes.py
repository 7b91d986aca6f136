"""Every recipe of fixtures/vectors/limits.json over the wire: one below, at and one above each bound, in each flavour.

What fits is accepted and read back as it was sent; what does not is refused by the contract's status and code, with a
message that names the field, and leaves everything as it was (LIM-010, LIM-020, LIM-021, JSON-055).
"""

import json
from itertools import groupby
from pathlib import Path
from typing import Any

import pytest

from protocol3_spec import boundaries, limits
from protocol3_spec.compact import compact, same

VECTORS = json.loads((Path(__file__).parents[4] / "fixtures/vectors/limits.json").read_text(encoding="utf-8"))
MESSAGES, RECIPES = VECTORS["messages"], VECTORS["recipes"]
RAW = {"/v1/settlements": "SETTLEMENT_BODY_BYTES", "/v1/workflows/events": "EVENT_BODY_BYTES"} | {
    "/v1/workflows/forks": "FORK_BODY_BYTES"
}
DECISION = "decision_invalid"
PARAMETERS = [
    pytest.param(recipe, id=f"{recipe['message']}-{recipe['field'] or 'body'}-{number}")
    for number, recipe in enumerate(RECIPES)
]


def fits_with(case: boundaries.Case) -> str | None:
    """The code of a message within the bound, None if it is accepted."""
    code = case.recipe.get("fits", MESSAGES[case.recipe["message"]].get("reply"))
    return code[str(case.units)] if isinstance(code, dict) else code


def names(recipe: Any) -> str:
    """The word that a refusal must have: by default the last name of the path of what is counted."""
    steps = recipe.get("measured", recipe["field"]).split(".")
    return str(recipe.get("names", [step for step in steps if not step.isdigit()][-1]))


def send(world, recipe, case=None):
    """Status, document, and what was sent; the base message if no case is given."""
    message = MESSAGES[recipe["message"]]
    if "query" in message:
        return send_query(world, message, case)
    base, bindings = message["body"], world.bindings
    document = boundaries.filled(base, bindings) if case is None else boundaries.document(case, base, bindings)
    if case is not None and recipe["unit"] == "raw":
        body = compact(document).encode()
        return *world.http.post(message["path"], body + b" " * (case.units - len(body))), document
    room = limits()[RAW.get(message["path"], "BODY_BYTES")].value - len(compact(document).encode())
    body = compact(document).encode() if case is None else boundaries.spelled(document, case.spelling, max(0, room))
    return *world.http.post(message["path"], body), document


def send_query(world, message, case):
    query = boundaries.filled(message["query"], world.bindings)
    if case is None or case.recipe["unit"] != "query":
        query = query if case is None else boundaries.document(case, message["query"], world.bindings)
        return *world.http.get(message["path"], query), query
    field, number = case.recipe["field"], query.pop(case.recipe["field"], "0")
    shorter = "&".join(f"{name}={value}" for name, value in query.items()) + f"&{field}="
    return *world.http.get(message["path"], shorter + number.rjust(case.units - len(shorter), "0")), query


@pytest.mark.parametrize("recipe", [p for p in PARAMETERS if "decision" not in MESSAGES[p.values[0]["message"]]])
def test_messages(world, recipe):
    """LIM-033."""
    message = MESSAGES[recipe["message"]]
    for flavour, group in groupby(boundaries.cases(recipe), key=lambda case: case.flavour):
        one = world(message["needs"])
        before = one.seen()
        cases = list(group)
        for case in cases:
            code = fits_with(case) if case.fits else "invalid_input"
            if code is None:
                continue
            status, document, _ = send(one, recipe, case)
            assert document.get("code") == code, (flavour, case.units, document)
            if not case.fits:
                assert status == (413 if recipe.get("refused") == "too_large" else 400), (flavour, case.units)
                assert recipe["unit"] == "raw" or status == 413 or names(recipe) in document["message"], document
        assert one.seen() == before
        for case in cases:
            if case.fits and fits_with(case) is None:
                status, document, sent = send(one, recipe, case)
                assert status == 200, (flavour, case.units, document)
                READ_BACK.get(recipe["message"], lambda *_: None)(one, sent, document)
                one = world(message["needs"])
        status, document, _ = send(one, recipe)
        assert (status == 200) if "reply" not in message else document["code"] == message["reply"], document


def scope_of(sent):
    return {name: sent["input"][name] for name in ("tenant_id", "namespace")}


def read_task(world, sent, reply):
    query = scope_of(sent) | {"task_id": reply["task_id"]}
    status, seen = world.http.get("/v1/tasks/inspect", query)
    assert status == 200
    assert seen["idempotency_key"] == sent["idempotency_key"]
    assert same(seen["input"], sent["input"])
    assert same(seen["origin_trace"], sent["origin_trace"])


def read_workflow(world, sent, reply):
    claimed = world.claim(sent["input"]["queue"], scope_of(sent))
    assert same(claimed["event"]["data"], sent["input"]["data"])
    assert reply["correlation_key"] == sent["input"].get("correlation_key")
    assert claimed["event"].get("tracestate") == sent["origin_trace"].get("tracestate")


def read_session(world, sent, reply):
    assert sent.items() <= reply.items()


def read_acquisition(world, sent, reply):
    assert reply["disposition"] == "assigned"
    assert reply["assignment"]["lease"]["owner"]["consumer_id"] == sent["consumer_id"]


def read_renewal(world, sent, reply):
    assert world.seen()["attempt"]["last_renewal"] == sent


def read_settlement(world, sent, reply):
    """The stored command, unknown and absent members apart, is the one that was sent."""
    if "workflow_id" in world.bindings:
        output = world.get("/v1/tasks/result", task_id=world.bindings["task_id"])["outcome"]["output"]
        assert same(output, sent["report"]["report"]["outcome"]["output"])
        return
    stored = world.seen()["attempt"]["settlement"]["command"]
    sent["processing_trace"].setdefault("tracestate", None)
    stored["processing_trace"].setdefault("tracestate", None)
    assert same(stored, sent)


def read_event(world, sent, reply):
    """Delivered with the wait for its key (EVT-001)."""
    assert not reply["already_accepted"]
    wait = {"kind": "event", "key": sent["key"], "timeout_ms": None}
    head = {"v": 1, "activation_id": world.bindings["activation_id"], "revision": 0, "kind": "wait"}
    decision = head | {"state": None, "continuation": "next", "commands": [], "wait": wait}
    world.report(world.bindings["owner"], world.bindings["identity"], decision)
    _, context = world.activation()
    assert same(context["wake"]["event"], sent["event"])


def read_record(world, sent, reply):
    assert same(world.context(sent["owner"])["local_steps"], [sent["record"]])


def read_fork(world, sent, reply):
    branches = {branch["key"]: branch for branch in sent["fork"]["branches"]}
    assert reply == {"key": sent["fork"]["key"], "branch_keys": [*branches], "already_accepted": False}
    first = next(iter(branches.values()))
    assignment, context = world.activation(first["queue"])
    assert same(assignment["event"]["data"], first["data"])
    assert context["continuation"] == first["entrypoint"]
    assert assignment["event"].get("tracestate") == (sent.get("processing_trace") or {}).get("tracestate")
    pinned = world.get("/v1/tasks/inspect", task_id=assignment["event"]["ldgtaskid"])["input"]
    assert {name: pinned[name] for name in ("retry_policy", "attempt_timeout_ms")}.items() >= {
        name: first[name] for name in ("retry_policy", "attempt_timeout_ms") if name in first
    }.items()


READ_BACK = {
    "task-submission": read_task,
    "workflow-submission": read_workflow,
    "session-opening": read_session,
    "acquisition": read_acquisition,
    "renewal": read_renewal,
    "settlement": read_settlement,
    "observed-settlement": read_settlement,
    "failure": read_settlement,
    "controller-settlement": read_settlement,
    "event": read_event,
    "local-result": read_record,
    "fork": read_fork,
    "fork-with-defaults": read_fork,
}


@pytest.mark.parametrize("recipe", [p for p in PARAMETERS if "decision" in MESSAGES[p.values[0]["message"]]])
def test_decisions(world, recipe):
    """DEC-002, DEC-010, DEC-011, DEC-040, DEC-041: the settlement takes it; a bad one fails its workflow, unapplied.

    LIM-033.
    """
    for case in boundaries.cases(recipe):
        one = world("activation")
        decision = boundaries.document(case, MESSAGES[recipe["message"]]["decision"], one.bindings)
        outcome = {"status": "success", "output": decision}
        report = {**one.bindings["identity"], "process_id": 1, "reused_process": False, "elapsed_ms": 5}
        command = {"owner": one.bindings["owner"], "operation_id": "op", "quiescence": "confirmed"}
        command["report"] = {"kind": "completed", "report": report | {"outcome": outcome}}
        body = boundaries.spelled(command, case.spelling, limits()["SETTLEMENT_BODY_BYTES"].value // 2)
        status, document = one.http.post("/v1/settlements", body)
        if "refused" not in recipe and not case.fits:
            assert (status, document["code"]) == (400, "invalid_input")
            assert names(recipe) in document["message"]
            continue
        assert (status, document.get("task_state")) == (200, "succeeded"), (case.flavour, case.units, document)
        code = fits_with(case) if case.fits else DECISION
        if code is not None:
            error = one.outcome()["error"]
            assert error["kind"] == code, (case.flavour, case.units, error)
            assert case.fits or names(recipe) in error["message"], error
            assert one.workflow()["revision"] == 0
            assert [task["task_id"] for task in one.get("/v1/tasks")["items"]] == [one.bindings["task_id"]]
            continue
        one.until(lambda one=one: one.workflow()["revision"] or one.workflow()["state"] == "failed")
        assert one.workflow()["revision"] == 1, (case.flavour, case.units, one.outcome())
        read_decision(one, decision)


def read_decision(world, decision):
    """What was decided is what is there now."""
    match decision["kind"]:
        case "continue":
            _, context = world.activation()
            assert same(context["state"], decision["state"])
            assert context["continuation"] == decision["continuation"]
        case "suspend" | "wait":
            assert world.workflow()["state"] in ("waiting", "running")
        case "complete":
            assert same(world.outcome(), {"kind": "succeeded", "output": decision["output"]})
        case "fail":
            assert same(world.outcome(), {"kind": "failed", "error": decision["error"]})
    for command in decision.get("commands", [])[:1]:
        task_id = world.claim(command["queue"])["event"]["ldgtaskid"]
        child = world.get("/v1/tasks/inspect", task_id=task_id)["input"]
        for name in ("program", "queue", "data", "retry_policy", "attempt_timeout_ms"):
            assert name not in command or same(child[name], command[name])
