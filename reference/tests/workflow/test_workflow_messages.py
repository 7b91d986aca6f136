"""What the message of a rejected decision says: which command or key, and what is wrong with it (DEC-040, ERR-010)."""

import json

import pytest

from protocol3.contract.models.common import ApplicationError, ProgramRef
from protocol3.contract.models.decisions import DecisionInvalid, decode_decision
from protocol3.core import records as r
from protocol3.core.workflow.judgement import Registered, programs_to_resolve


@pytest.fixture
def message(written):
    def of(verdict):
        (outcome,) = written(verdict, r.Outcome)
        assert outcome.kind == "failed"
        return json.loads(outcome.body)["message"]

    return of


def test_a_key_of_another_submission_is_named(make, message):
    commands = [make.command("b"), make.command("a", queue="other")]
    verdict = make.apply(make.decision("continue", commands=commands), children={"a": make.child("a")})
    assert message(verdict) == "commands[1]: key a is registered with another submission"


def test_a_key_of_a_branch_is_named_safely(make, message):
    key = "\u202e a"
    branch = make.child(key, kind="workflow", fork_key="f")
    document = make.decision("continue", commands=[make.command(key, kind="workflow")])
    assert message(make.apply(document, children={key: branch})) == r"commands[0]: key '\u202e a' belongs to a fork"


def test_the_command_beyond_a_limit_is_named(make, message):
    document = make.decision("continue", commands=[make.command("a"), make.command("b")])
    verdict = make.apply(document, activation=make.activation(new_children=63))
    assert message(verdict) == "commands[1]: an activation registers at most 64 children"


def test_the_key_that_is_no_child_is_named(make, message):
    document = make.decision("suspend", commands=[make.command("a")], until=["a", "b"])
    assert message(make.apply(document)) == "until[1]: key b is no child of the workflow"


@pytest.mark.parametrize(
    ("wait", "state", "says"),
    [
        ({"kind": "event", "timeout_ms": None}, "used", "wait.key: signal was used by an earlier wait"),
        ({"kind": "timer", "delay_ms": 1}, "event", "wait.key: signal has an event already, and this is a timer"),
        ({"kind": "timer", "delay_ms": 31_536_000_000}, "late", "wait: its deadline lies beyond the last instant"),
    ],
)
def test_the_key_of_a_wait_is_named(make, message, wait, state, says):
    document = make.decision("wait", wait={"key": "signal", **wait})
    changes = {
        "used": {"used": make.wait()},
        "event": {"event": make.buffered()},
        "late": {"clock": make.clock(253_402_300_799_999)},
    }[state]
    assert message(make.apply(document, **changes)) == says


def test_a_key_of_another_program_is_named(make):
    """DEC step 5."""
    decision = decode_decision(make.decision("continue", commands=[make.command("b"), make.command("a")]))
    registered = {"a": Registered(kind="workflow", program=ProgramRef(id="rates", version="1"))}
    error = programs_to_resolve(decision, registered)
    assert isinstance(error, ApplicationError)
    assert error.message == "commands[1]: key a is registered with another kind or program"


@pytest.mark.parametrize(
    ("members", "says"),
    [
        ({"commands": ["a", "b", "a"]}, "decision.commands[2]: must not name a key twice"),
        ({"until": ["a", "a"]}, "decision.until[1]: must not name a key twice"),
        ({"untill": []}, "decision: unknown member untill; is until meant?"),
        ({"state": "x" * 65_536}, "decision.state: must be at most 65536 bytes of compact JSON"),
    ],
)
def test_the_place_in_a_document_is_named(make, members, says):
    """DEC-011."""
    members = {name: [make.command(key) for key in value] if name == "commands" else value
               for name, value in members.items()}  # fmt: skip
    with pytest.raises(DecisionInvalid) as caught:
        decode_decision(make.decision("suspend", **{"until": [], **members}))
    assert caught.value.reason == says
