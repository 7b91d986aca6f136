"""Local results and the context of an activation (chapters 10 and 11)."""

import pytest

from protocol3.contract.models.workflows import LocalRecord, LocalResultCommand
from protocol3.contract.strict_json import decode
from protocol3.core import records as r
from protocol3.core.verdict import Accepted, Guard, Rejected, Replay
from protocol3.core.workflow.context import ContextState, decide_context
from protocol3.core.workflow.local import LocalState, decide_local, ledger_bytes

RECORD = LocalRecord(key="fx", callable="books:fx", input={"day": 2}, output=1.07)

#: Every way of not being live, by what differs (ACT-024 items 3 to 7).
NOT_LIVE = {
    "workflow waits": {"workflow": {"state": "waiting", "activation_id": None}},
    "workflow drains": {"workflow": {"state": "cancelling"}},
    "workflow ended": {"workflow": {"state": "succeeded", "activation_id": None}},
    "later activation": {"workflow": {"activation_id": "task_b"}},
    "task ended": {"task": {"state": "succeeded", "current_attempt_id": None}},
    "later attempt": {"task": {"current_attempt_id": "att_2", "latest_attempt_id": "att_2"}},
    "attempt over": {"attempt": {"state": "lost"}},
    "cancellation requested": {"task": {"cancel_requested_at": 5}},
    "settled": {"attempt": {"settled_at": 5}},
}
#: The same by time, as the difference of an instant to now.
EXPIRED = ["lease_expires_at", "authority_deadline", "deadline"]


@pytest.fixture
def named(make):
    def _named(workflow=None, task=None, attempt=None, **fields):
        built = {
            "workflow": make.workflow(**(workflow or {})),
            "task": make.task(**(task or {})),
            "attempt": make.attempt(**(attempt or {})),
        }
        return make.named(**(built | fields))

    return _named


@pytest.fixture
def commit(make, named):
    def _commit(record=RECORD, *, stored=None, owner=None, **found):
        command = LocalResultCommand(owner=make.owner(**(owner or {})), record=record)
        state = LocalState(named=named(**found), stored=stored, clock=make.clock())
        return decide_local(state, command, make.fresh())

    return _commit


@pytest.fixture
def read(make, named):
    def _read(*, records=(), owner=None, frozen=None, **found):
        context = {"task_id": "task_a", "continuation": "next", "state": b"null", "inputs": b"{}", "wake": None}
        state = ContextState(
            named=named(**found),
            frozen=r.ActivationContext(**(context | (frozen or {}))),
            records=records,
            clock=make.clock(),
        )
        return decide_context(state, make.owner(**(owner or {})), make.fresh())

    return _read


def stored_by(attempt_id, record=RECORD):
    return r.Local(
        activation_id="task_a", key=record.key, attempt_id=attempt_id, record=b"", identity=record.identity()
    )


def code(verdict):
    assert isinstance(verdict, Rejected), verdict
    return verdict.code


def test_a_new_record_is_stored_within_the_authority_of_its_attempt(make, commit, written):
    """LOC-002, LOC-010: task changed, workflow only relied on; the commit must come before the authority ends."""
    verdict = commit()
    (local,), (activation,) = written(verdict, r.Local), written(verdict, r.Activation)
    assert (local.key, local.attempt_id) == ("fx", "att_1")
    assert decode(local.record) == RECORD.to_json()
    assert (activation.local_count, activation.local_bytes) == (1, RECORD.size())
    assert (verdict.reply.key, verdict.reply.already_accepted) == ("fx", False)
    assert verdict.guards == (
        Guard(kind="workflow", id="wf_1", version=7, seen=True),
        Guard(kind="task", id="task_a", version=5),
    )
    assert written(verdict, r.Workflow) == []
    assert verdict.valid_until_real == make.attempt().lease_expires_at


@pytest.mark.parametrize("operation", ["commit", "read"])
def test_identity_is_checked_in_order(request, make, operation):
    """LOC-004 step 4, ACT-024, ACT-026: no activation, then scope, then the lease."""
    run = request.getfixturevalue(operation)
    assert code(run(activation=None)) == "ownership_lost"
    assert code(run(scope_id=2, attempt=None)) == "not_found"
    assert code(run(scope_id=None)) == "not_found"
    changes = {"lease_id": "l2", "generation": 2, "worker_session_id": "ws_2", "consumer_id": 1}
    for name, value in changes.items():
        assert code(run(owner={name: value})) == "ownership_lost"


def test_an_unknown_attempt_is_not_an_owner(make, commit):
    """LOC-004 step 4."""
    command = LocalResultCommand(owner=make.owner(), record=RECORD)
    state = LocalState(named=make.named(attempt=None), stored=None, clock=make.clock())
    assert code(decide_local(state, command, make.fresh())) == "ownership_lost"


@pytest.mark.parametrize("operation", ["commit", "read"])
@pytest.mark.parametrize("reason", NOT_LIVE)
def test_only_the_live_owner(request, operation, reason):
    """ACT-024, DRN-008, LOC-004 step 6, LOC-008, RACE-24."""
    assert code(request.getfixturevalue(operation)(**NOT_LIVE[reason])) == "ownership_lost"


@pytest.mark.parametrize("operation", ["commit", "read"])
@pytest.mark.parametrize("instant", EXPIRED)
def test_authority_ends_at_its_instant(request, make, operation, instant):
    """ACT-024 item 7; a refusal by the clock is decided again under locks."""
    run = request.getfixturevalue(operation)
    verdict = run(attempt={instant: make.now})
    assert code(verdict) == "ownership_lost"
    assert {g.kind for g in verdict.guards} == {"workflow", "task"}
    assert not isinstance(run(attempt={instant: make.now + 1}), Rejected)


def test_a_record_needs_dispatch_and_the_context_does_not(commit, read):
    """LOC-007, ACT-025, RACE-23."""
    assert code(commit(attempt={"may_have_started": False})) == "ownership_lost"
    assert isinstance(read(attempt={"may_have_started": False, "renew_intent": None}), Replay)


@pytest.mark.parametrize("reason", NOT_LIVE)
def test_the_attempt_that_stored_a_record_always_gets_its_receipt(commit, reason):
    """LOC-004 step 5, LOC-005, RACE-22: after expiry, settlement, cancellation, completion."""
    verdict = commit(stored=stored_by("att_1"), **NOT_LIVE[reason])
    assert isinstance(verdict, Replay)
    assert verdict.reply.already_accepted


@pytest.mark.parametrize("instant", EXPIRED)
def test_and_after_its_authority_ended(make, commit, instant):
    """LOC-005."""
    assert isinstance(commit(stored=stored_by("att_1"), attempt={instant: make.now - 1}), Replay)


def test_but_only_with_its_exact_lease(commit):
    """LOC-006."""
    assert code(commit(stored=stored_by("att_1"), owner={"lease_id": "l2"})) == "ownership_lost"


def test_another_attempt_replays_while_it_is_live_and_dispatched(commit):
    """LOC-003, LOC-004 step 5, RACE-23."""
    assert isinstance(commit(stored=stored_by("att_0")), Replay)
    assert code(commit(stored=stored_by("att_0"), attempt={"may_have_started": False})) == "ownership_lost"
    for changes in NOT_LIVE.values():
        assert code(commit(stored=stored_by("att_0"), **changes)) == "ownership_lost"


@pytest.mark.parametrize("change", [{"callable": "books:gx"}, {"input": {"day": 2.0}}, {"output": 1.08}])
@pytest.mark.parametrize("found", [{}, *NOT_LIVE.values()])
def test_another_record_under_the_key_is_a_conflict_before_any_liveness(commit, change, found):
    """LOC-003, LOC-004 step 5, RACE-25."""
    fields = {"key": "fx", "callable": "books:fx", "input": {"day": 2}, "output": 1.07} | change
    assert code(commit(LocalRecord(**fields), stored=stored_by("att_1"), **found)) == "conflict"


def test_the_ledger_holds_128_records(make, commit, written):
    """LOC-004 step 7, LOC-009, LIM-020."""
    full = {"local_count": 127, "local_bytes": 10}
    assert isinstance(commit(activation=make.activation(**full)), Accepted)
    assert code(commit(activation=make.activation(**(full | {"local_count": 128})))) == "invalid_input"


@pytest.mark.parametrize(("more", "fits"), [(0, True), (1, False)])
def test_the_ledger_is_the_array_of_all_records(make, commit, more, fits):
    """LIM-012: two brackets, one comma between neighbours."""
    before = 262_144 - RECORD.size() - 2 - 1 + more
    verdict = commit(activation=make.activation(local_count=1, local_bytes=before))
    assert isinstance(verdict, Accepted) == fits
    assert ledger_bytes(make.activation(local_count=2, local_bytes=before + RECORD.size())) == 262_144 + more


def test_liveness_counts_before_the_ledger(make, commit):
    """LOC-004: step 6 before step 7."""
    full = make.activation(local_count=128)
    assert code(commit(activation=full, attempt={"may_have_started": False})) == "ownership_lost"


def test_the_context_is_what_was_frozen_with_the_journal_of_now(read):
    """ACT-020, ACT-021, ACT-022, ACT-028: no wake and no lineage where there is none."""
    frozen = {"state": b'{"n":1.0}', "inputs": b'{"a":{"x":1}}'}
    verdict = read(records=(b'{"key":"a"}', b'{"key":"b"}'), frozen=frozen)
    assert verdict.reply == (
        b'{"v":1,"workflow_id":"wf_1","activation_id":"task_a","revision":3,"continuation":"next","state":{"n":1.0},'
        b'"inputs":{"a":{"x":1}},"local_steps":[{"key":"a"},{"key":"b"}]}'
    )


def test_the_context_of_an_owned_workflow_shows_wake_and_lineage(read):
    """ACT-022, WF-032."""
    verdict = read(frozen={"wake": b'{"kind":"timer"}'}, workflow={"parent_id": "wf_0", "root_id": "wf_r"})
    context = decode(verdict.reply)
    assert context["wake"] == {"kind": "timer"}
    assert (context["parent_workflow_id"], context["root_workflow_id"]) == ("wf_0", "wf_r")
