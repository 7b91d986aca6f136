"""The derived list of fault points: whole, each once, and each a rule that can be added."""

from __future__ import annotations

from typing import get_args

import pytest

from protocol3.contract.refusal import Refusal
from protocol3.coordinator.controls.faults import Faults
from protocol3.coordinator.controls.points import POINTS
from protocol3.coordinator.controls.rules import AddFault, StepName, Where
from protocol3.coordinator.http.routes import ROUTES

SCOPE = {"tenant_id": "t", "namespace": "n"}


@pytest.mark.parametrize("point", POINTS, ids=lambda point: point.name)
def test_a_point_takes_a_crash(point):
    shown = Faults().add(AddFault.from_json(point.rule(dict(SCOPE), {"kind": "crash"}, skip=2)))
    assert (shown["match"], shown["where"], shown["skip"]) == (point.match.to_json(), point.where, 2)


def test_nothing_that_writes_is_left_out():
    """Every POST route and every step, each at its first and its last place at least, and no point twice."""
    names = [point.name for point in POINTS]
    assert len(set(names)) == len(names)
    writing = {route.operation for route in ROUTES if route.method == "POST"} | set(get_args(StepName))
    assert {point.of for point in POINTS} == writing
    assert set(names) >= {f"{of}:received" for of in writing}
    assert set(names) >= {f"{of}:committed" for of in writing - {"program.resolve"}}


def test_what_the_rules_refuse_is_no_point():
    """The list and the rules agree in both directions."""
    known = {(str(point.match.to_json()), point.where) for point in POINTS}
    for point in POINTS:
        for where in get_args(Where):
            body = point.rule(dict(SCOPE), {"kind": "crash"}) | {"where": where}
            try:
                AddFault.from_json(body)
            except Refusal:
                assert (str(point.match.to_json()), where) not in known
            else:
                assert (str(point.match.to_json()), where) in known
