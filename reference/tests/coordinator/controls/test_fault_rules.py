"""What a fault rule may say, and how it counts."""

from __future__ import annotations

import pytest

from protocol3.contract.models.common import Scope
from protocol3.coordinator.controls.faults import Faults, Rule
from protocol3.coordinator.controls.places import FaultyTransitions
from protocol3.coordinator.controls.rules import EXCHANGE_ACTS, STEP_ACTS, AddFault, Exchange, Pick
from protocol3.core.verdict import Accepted

SCOPE = {"tenant_id": "t", "namespace": "n"}
SETTLE = {"method": "POST", "path": "/v1/settlements"}
DECIDE = {"step": "decision.apply"}
ACTS = {
    "hold": {"kind": "hold"},
    "fail": {"kind": "fail"},
    "drop": {"kind": "drop"},
    "status": {"kind": "status", "status": 503, "body": {"code": "unavailable", "message": "m"}},
    "delay": {"kind": "delay", "ms": 60_000},
    "drip": {"kind": "drip", "bytes": 65_536, "every_ms": 60_000},
    "crash": {"kind": "crash"},
}
PLACES = ("received", "locked", "written", "committed")


@pytest.mark.parametrize("where", ["locked", "written"])
async def test_what_a_rule_waits_for_inside_is_applied_alone(where):
    """TST-026: were it applied together with others, they would be held or ended with it."""
    faults = Faults()
    transitions = FaultyTransitions(None, on_commit=lambda wakes: None, faults=faults)
    verdict = Accepted(reply=None, done=("obl",))
    faults.add(AddFault.from_json(rule(where=where)))
    struck, other = Exchange(**SETTLE), Exchange(method="POST", path="/v1/renewals")
    with transitions._group.under_way():
        for match, alone in ((struck, True), (other, False)):
            with faults.occasion(Scope.from_json(SCOPE), match, None):
                assert transitions._goes_alone(verdict) is alone
        assert not transitions._goes_alone(verdict)


def rule(**members):
    return {"scope": SCOPE, "match": SETTLE, "where": "received", "act": ACTS["hold"]} | members


@pytest.mark.parametrize("act", ACTS)
@pytest.mark.parametrize("where", PLACES)
@pytest.mark.parametrize(("match", "possible"), [(SETTLE, EXCHANGE_ACTS), (DECIDE, STEP_ACTS)])
def test_places_and_acts(refusal_of, match, possible, where, act):
    """TST-032: each act where it makes sense; the others are refused by name."""
    body = rule(match=match, where=where, act=ACTS[act])
    if act in possible[where]:
        assert Faults().add(AddFault.from_json(body)) == {
            "id": "fault_1",
            "match": match,
            "skip": 0,
            "times": 1,
            "where": where,
            "act": ACTS[act],
            "hits": 0,
        }
    else:
        assert refusal_of(lambda: AddFault.from_json(body)).message.startswith("body.act.kind: must be one of hold, ")


@pytest.mark.parametrize(
    ("match", "where"),
    [
        ({"method": "GET", "path": "/v1/tasks"}, "locked"),
        ({"method": "GET", "path": "/v1/tasks"}, "written"),
        ({"method": "POST", "path": "/v1/acquisitions"}, "locked"),
        ({"method": "POST", "path": "/v1/acquisitions"}, "written"),
        ({"method": "POST", "path": "/v1/workflows/activations/context"}, "locked"),
        ({"method": "POST", "path": "/v1/workflows/activations/context"}, "written"),
        ({"step": "task.claim"}, "locked"),
        ({"step": "program.resolve"}, "locked"),
        ({"step": "program.resolve"}, "written"),
        ({"step": "program.resolve"}, "committed"),
    ],
)
def test_places_that_do_not_exist(refusal_of, match, where):
    """TST-032: a read holds nothing, one claim serves several polls, the program store knows no transaction."""
    refusal = refusal_of(lambda: AddFault.from_json(rule(match=match, where=where)))
    assert refusal.message.startswith("body.where: must be one of received")
    assert AddFault.from_json(rule(match=match))


@pytest.mark.parametrize(
    ("change", "at"),
    [
        ({"match": {}}, "body.match.method"),
        ({"match": {"method": "POST"}}, "body.match.path"),
        ({"match": {"method": "PUT", "path": "/v1/settlements"}}, "body.match"),
        ({"match": {"method": "POST", "path": "/testing/v1/clock"}}, "body.match"),
        ({"match": {"method": "POST", "path": "/v1/nothing"}}, "body.match"),
        ({"match": SETTLE | DECIDE}, "body.match"),
        ({"match": {"step": "decision"}}, "body.match.step"),
        ({"skip": -1}, "body.skip"),
        ({"times": 0}, "body.times"),
        ({"times": 1.0}, "body.times"),
        ({"where": "before"}, "body.where"),
        ({"act": {"kind": "explode"}}, "body.act.kind"),
        ({"act": {"kind": "hold", "ms": 1}}, "body.act"),
        ({"act": {"kind": "delay"}}, "body.act.ms"),
        ({"act": {"kind": "delay", "ms": 60_001}}, "body.act.ms"),
        ({"where": "committed", "act": {"kind": "drip", "bytes": 0, "every_ms": 1}}, "body.act.bytes"),
        ({"where": "committed", "act": {"kind": "drip", "bytes": 65_537, "every_ms": 1}}, "body.act.bytes"),
        ({"where": "committed", "act": {"kind": "drip", "bytes": 1}}, "body.act.every_ms"),
        ({"act": {"kind": "status"}}, "body.act.status"),
        ({"act": {"kind": "status", "status": 199}}, "body.act.status"),
        ({"act": {"kind": "status", "status": 600}}, "body.act.status"),
        ({"act": {"kind": "status", "status": 204, "body": None}}, "body.act.body"),
        ({"act": {"kind": "status", "status": 205, "body": {}}}, "body.act.body"),
        ({"act": {"kind": "status", "status": 304, "body": {}}}, "body.act.body"),
        ({"more": 1}, "body"),
        ({"scope": None}, "body.scope"),
    ],
)
def test_what_is_no_rule(refusal_of, change, at):
    """TST-002, TST-031: refused with the field's name."""
    refusal = refusal_of(lambda: AddFault.from_json(rule(**change)))
    assert refusal.code == "invalid_input"
    assert refusal.message.startswith(f"{at}: ")


@pytest.mark.parametrize("act", [{"kind": "status", "status": 599}, {"kind": "status", "status": 200, "body": None}])
def test_a_reply_with_and_without_body(act):
    """No body is not the body null."""
    assert Faults().add(AddFault.from_json(rule(act=act)))["act"] == act


@pytest.mark.parametrize(
    ("skip", "times", "struck"), [(0, 1, [0]), (2, 1, [2]), (1, 2, [1, 2]), (0, None, list(range(6))), (9, 1, [])]
)
def test_counting(skip, times, struck):
    """TST-023: the first ones are skipped, then so many are struck."""
    counted = Rule(id="fault_1", says=AddFault.from_json(rule(skip=skip, times=times)))
    assert [n for n in range(6) if counted.strikes()] == struck
    assert counted.hits == len(struck)


@pytest.mark.parametrize("method", ["release", "clear"])
def test_unknown_ids(refusal_of, method):
    """TST-003, TST-035: ids belong to a scope."""
    faults = Faults()
    id = faults.add(AddFault.from_json(rule()))["id"]
    for other in ({"scope": SCOPE, "id": "fault_2"}, {"scope": SCOPE | {"namespace": "other"}, "id": id}):
        refusal = refusal_of(lambda other=other: getattr(faults, method)(Pick.from_json(other)))
        assert refusal.code == "not_found"
    assert getattr(faults, method)(Pick.from_json({"scope": SCOPE, "id": id}))["released"] == 0


def test_clearing():
    """TST-036: one rule, then all of them."""
    faults = Faults()
    first, *_ = [faults.add(AddFault.from_json(rule(skip=n)))["id"] for n in range(3)]
    assert faults.clear(Pick.from_json({"scope": SCOPE, "id": first})) == {"cleared": 1, "released": 0}
    assert [shown["skip"] for shown in faults.shown(Pick.from_json({"scope": SCOPE}).scope)["faults"]] == [1, 2]
    assert faults.clear(Pick.from_json({"scope": SCOPE})) == {"cleared": 2, "released": 0}
    assert faults.shown(Pick.from_json({"scope": SCOPE}).scope) == {"faults": [], "held": []}
