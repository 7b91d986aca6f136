"""Chapter 07: sessions, claims, the agenda entry of a lease."""

from __future__ import annotations

import pytest

from protocol3.contract.models.delivery import AcquireEmpty, OpenSession
from protocol3.core import records as r
from protocol3.core.claim import claim_for
from protocol3.core.expiry import expire
from protocol3.core.sessions import extend_session, open_session
from protocol3.core.verdict import AgendaWake, Replay

DAY = 86_400_000


def first_poll(make, **changes):
    empty = {"cursor": None, "task": None, "attempt": None, "body": None}
    return make.poll(sequence=1, **{**empty, **changes})


def test_new_attempt(make, written, reasons):
    """DLV-024, DLV-026, DLV-027, TASK-230: every field of a claim."""
    task = make.queued(attempt_count=1, latest_attempt_id="att0", attempt_timeout_ms=60_000)
    verdict = claim_for([first_poll(make)], [(task, make.body())], make.fresh())
    attempt, claimed, now = written(verdict, r.Attempt), written(verdict, r.Task), make.now
    assert (attempt.number, attempt.task_id, attempt.session_id, attempt.consumer_id) == (2, "task", "ws", 0)
    assert attempt.claimed_at == now
    assert (attempt.deadline, attempt.authority_deadline) == (now + 60_000, now + 90_000)
    assert attempt.lease_expires_at == now + 60_000
    assert (attempt.state, attempt.quiescence, attempt.may_have_started) == ("active", "unconfirmed", False)
    assert (attempt.renew_sequence, attempt.renew_intent, attempt.settled_at, attempt.finished_at) == (
        0,
        None,
        None,
        None,
    )
    assert len({attempt.id, attempt.lease_id, attempt.event_id}) == 3
    assert (claimed.state, claimed.attempt_count, claimed.available_at) == ("active", 2, task.available_at)
    assert claimed.current_attempt_id == claimed.latest_attempt_id == attempt.id
    cursor = written(verdict, r.Cursor)
    assert (cursor.sequence, cursor.task_id, cursor.attempt_id) == (1, "task", attempt.id)
    assert written(verdict, r.Agenda).due == attempt.lease_expires_at
    assert reasons(verdict) == ["claimed"]
    assert verdict.reply.assigned[0].attempt == attempt


def test_lease_ends_with_the_session(make, written):
    """DLV-027: at the latest; and the claim stands only while the session does."""
    session = make.session(expires_at=make.now + 9_000)
    verdict = claim_for([first_poll(make, session=session)], [(make.queued(), make.body())], make.fresh())
    assert written(verdict, r.Attempt).lease_expires_at == make.now + 9_000
    assert verdict.valid_until_real == make.now + 9_000


def test_several_polls_get_different_tasks(make):
    """DLV-025: in order of arrival; whoever cannot be admitted gets none, whoever is left over waits on."""
    answered = make.poll(sequence=4, command={"consumer_id": 1})
    polls = [first_poll(make), answered, *(first_poll(make, command={"worker_session_id": s}) for s in "bc")]
    tasks = [(make.queued(id=name), make.body(task_id=name)) for name in ("one", "two")]
    reply = claim_for(polls, tasks, make.fresh()).reply
    assert {position: claimed.task.id for position, claimed in reply.assigned.items()} == {0: "one", 2: "two"}
    assert reply.answered == (1,)


def test_whoever_cannot_wait_is_completed(make):
    """DLV-012, DLV-030: by the same decision, once the tasks are gone. What was not looked at stays out of it."""
    polls = [
        None,
        first_poll(make, last=True),
        first_poll(make, last=True, command={"consumer_id": 1}),
        first_poll(make, command={"consumer_id": 2}),
    ]
    verdict = claim_for(polls, [(make.queued(), make.body())], make.fresh())
    assert list(verdict.reply.assigned) == [1]
    assert verdict.reply.empty == {2: AcquireEmpty(sequence=1)}
    cursors = {record.consumer_id: record.attempt_id for record in verdict.records if isinstance(record, r.Cursor)}
    assert cursors == {0: verdict.reply.assigned[1].attempt.id, 1: None}


@pytest.mark.parametrize(
    ("sequences", "tasks", "next_ms"),
    [((1, 1), 1, 500), ((1, 1), 2, 0), ((4, 1), 2, 0), ((1, 1), 0, 500)],
)
def test_when_there_may_be_another_task(make, sequences, tasks, next_ms):
    """At once, if there were as many as were asked for or one was left; else when the next one is due."""
    polls = [make.poll(sequence=n) if n == 4 else first_poll(make, command={"consumer_id": 1}) for n in sequences]
    candidates = [(make.queued(id=f"t{n}"), make.body()) for n in range(tasks)]
    assert claim_for(polls, candidates, make.fresh(), ahead_ms=500).reply.next_ms == next_ms


def test_a_claim_of_nothing_writes_nothing(make):
    verdict = claim_for([first_poll(make), make.poll(sequence=4)], [], make.fresh())
    assert (verdict.records, verdict.guards) == ((), ())
    assert verdict.reply.answered == (1,)


def test_guards_of_a_claim(make):
    """Session seen, cursor and task changed; seen as well a former attempt that is over by time alone."""
    poll = make.poll(sequence=5, attempt=make.attempt(lease_expires_at=make.now))
    verdict = claim_for([poll], [(make.queued(id="next"), make.body())], make.fresh())
    found = {(guard.kind, guard.id, guard.seen) for guard in verdict.guards}
    assert found == {
        ("session", "ws", True),
        ("cursor", "ws", False),
        ("task", "next", False),
        ("task", "task", True),
    }


def test_open_session(make, written):
    """DLV-001: a fresh id, a day of validity."""
    command = OpenSession(scope=make.scope, queue="q", concurrency=3)
    verdict = open_session(7, command, make.clock(), make.fresh())
    assert verdict.reply == written(verdict, r.Session)
    assert (verdict.reply.expires_at, verdict.reply.concurrency) == (make.now + DAY, 3)


def test_extend_session(make):
    """DLV-004: only the end moves."""
    verdict = extend_session(make.session(expires_at=make.now + 1), make.clock())
    assert verdict.reply == make.session(expires_at=make.now + DAY)
    assert verdict.valid_until_real == make.now + 1  # DLV-005: an expired session is never revived


@pytest.mark.parametrize("over_by", [0, 1])
def test_extend_expired_session(make, word, over_by):
    """DLV-005."""
    verdict = extend_session(make.session(expires_at=make.now - over_by), make.clock())
    assert word(verdict) == "session_expired"
    assert verdict.guards
    assert word(extend_session(None, make.clock())) == "unknown_session"


def lease_entry(make):
    return r.Agenda(kind="lease", ref="task", scope_id=7, due=make.now)


def test_an_early_entry_moves(make, written):
    """Renewals leave the entry alone; it catches up when it is looked at."""
    loaded = make.in_hand(make.task(), make.attempt())
    verdict = expire(lease_entry(make), loaded, make.clock(), make.fresh())
    assert verdict.reply is False
    assert written(verdict, r.Agenda).due == make.now + 50_000
    assert [(guard.kind, guard.seen) for guard in verdict.guards] == [("task", True)]
    assert verdict.wakes == (AgendaWake(due_real=make.now + 50_000),)


def test_a_stale_entry_does_nothing(make):
    """DLV-112: somebody else ended the attempt."""
    for loaded in (None, make.in_hand(make.queued(), None)):
        assert expire(lease_entry(make), loaded, make.clock(), make.fresh()) == Replay(reply=False)
