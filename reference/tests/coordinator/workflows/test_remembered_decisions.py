"""Decisions made of what is remembered: whatever anybody changed meanwhile, the outcome is that of a fresh load."""

from __future__ import annotations

from contextlib import suppress

import pytest

from protocol3.contract.limits import LOCAL_LEDGER_BYTES, LOCAL_RECORDS
from protocol3.contract.models.delivery import AcquireCommand, ExtendSession
from protocol3.contract.refusal import Refusal
from protocol3.coordinator.assembly import assemble
from protocol3.coordinator.background.expiry import handle_lease
from protocol3.core.records import Agenda
from protocol3.store import remembered
from protocol3.store.database import open_pool
from protocol3.store.tables import record_of

_STATE = """
select t.state, t.version, t.cancel_requested_at is null as not_cancelled, t.attempt_count, a.renew_sequence,
  a.renew_intent, a.may_have_started, a.state as attempt_state, a.settled_at is null as not_settled,
  a.lease_expires_at = least(a.authority_deadline, s.expires_at) as capped, v.local_count, v.local_bytes, v.fork_count,
  v.fork_bytes, v.new_children, w.state as workflow_state, w.version as workflow_version, w.inbox_count,
  s.version as session_version, c.version as cursor_version,
  array(select key from local where activation_id = t.id order by key) as keys,
  array(select reason from history where task_id = t.id order by sequence) as reasons
from task t join attempt a on a.task_id = t.id and a.id = $2
join activation v on v.task_id = t.id join workflow w on w.id = v.workflow_id
join session s on s.id = a.session_id join cursor c on c.session_id = s.id and c.consumer_id = a.consumer_id
where t.id = $1
"""


@pytest.fixture(autouse=True)
def unhurried(monkeypatch):
    """However slow the machine is, and whatever missed before."""
    monkeypatch.setattr(remembered, "FRESH_S", 60.0)
    monkeypatch.setattr(remembered, "LAG_MS", 60_000)
    monkeypatch.setattr(remembered, "REST_S", 0.0)


@pytest.fixture
async def pool(database):
    """All its connections are there from the beginning: with a new one everything is forgotten."""
    pool = await open_pool(database, size=4)
    held = [await pool.acquire() for _ in range(4)]
    for connection in held:
        await pool.release(connection)
    yield pool
    await pool.close()


class _Ignored:
    def succeeded(self, now: float) -> None: ...

    def unavailable(self) -> None: ...


@pytest.fixture
def namespace(request):
    """One for each test: the database is that of the module."""
    return f"remembered-{request.node.name.partition('[')[2]}"


@pytest.fixture
def rival(pool, programs, namespace, still):
    """Another coordinator on the database."""
    return type(still)(assemble(pool, programs, recovery=_Ignored(), workflow_recovery=_Ignored()), namespace)


@pytest.fixture
def believed(monkeypatch, still):
    """Of each decision that might be made of memory, in order, whether it was."""
    transitions, found = still.services.transitions, []
    by_memory = transitions._by_memory

    async def watched(*arguments):
        verdict = await by_memory(*arguments)
        found.append(verdict is not None)
        return verdict

    monkeypatch.setattr(transitions, "_by_memory", watched)
    return found


async def renewal(run):
    reply = await run.dispatch(2)
    shown = {name: reply[name] for name in ("renew_sequence", "cancel_requested", "dispatch_allowed")}
    return shown | {"live": reply["remaining_ms"] > 0}


async def local(run):
    return await run.local("next")


class Meddler:
    """What may happen to a run between two of its exchanges, by any coordinator or by hand."""

    def __init__(self, flow, run):
        self.flow, self.pool = flow, flow.services.pool
        self.run = type(run)(flow=flow, assignment=run.assignment)

    async def nothing(self): ...

    async def cancel(self):
        await self.flow.cancel_task(self.run.task_id)

    async def cancel_workflow(self):
        await self.flow.cancel(self.run.workflow_id)

    async def event(self):
        await self.flow.send(self.run.workflow_id, "k")

    async def fork(self):
        await self.run.fork("x", "y")

    async def renewed(self):
        await self.run.dispatch(2)

    async def renewed_to_another_end(self):
        await self.set_attempt("renew_sequence = 2, renew_intent = 'keep_alive'")

    async def same_record(self):
        await self.run.local("next")

    async def another_record_under_the_key(self):
        await self.run.local("next", output="other")

    async def another_record(self):
        await self.run.local("other")

    async def full_of_records(self):
        await self.set_activation(f"local_count = {LOCAL_RECORDS}")

    async def full_of_bytes(self):
        await self.set_activation(f"local_bytes = {LOCAL_LEDGER_BYTES}")

    async def reported(self):
        await self.run.succeed(1, quiescence="unconfirmed")

    async def failed(self):
        await self.run.settle(error="io")

    async def decided(self):
        await self.run.decide("complete", output=1)

    async def expired(self):
        await self.set_attempt("lease_expires_at = 1, authority_deadline = 1")

    async def timed_out(self):
        await self.set_attempt("deadline = 1")

    async def reclaimed(self):
        await self.expired()
        text = "select a from agenda a where kind = 'lease' and ref = $1"
        entry = record_of(Agenda, await self.pool.fetchval(text, self.run.task_id))
        await handle_lease(self.flow.services, entry)

    async def acquired_by_another(self):
        await self.reclaimed()
        await self.flow.start()

    async def acquired_again(self):
        await self.reclaimed()
        consumer = {name: self.run.owner[name] for name in ("worker_session_id", "consumer_id")}
        poll = {"scope": self.flow.scope, "queue": "flows", "sequence": 2, "wait_ms": 0, **consumer}
        await self.flow.call("acquire", AcquireCommand.from_json(poll))

    async def session_extended(self):
        await self.flow.call("extend_session", ExtendSession(worker_session_id=self.run.owner["worker_session_id"]))

    async def session_expired(self):
        await self.set_session("expires_at = 1")

    async def session_shorter(self):
        await self.set_session("expires_at = expires_at - 86000000")

    async def cursor_moved(self):
        text = "update cursor set sequence = 2, task_id = null, version = version + 1 where session_id = $1"
        await self.pool.execute(text, self.run.owner["worker_session_id"])

    async def set_attempt(self, what):
        await self.pool.execute(f"update attempt set {what} where id = $1", self.run.owner["attempt_id"])
        await self.pool.execute("update task set version = version + 1 where id = $1", self.run.task_id)

    async def set_activation(self, what):
        await self.pool.execute(f"update activation set {what} where task_id = $1", self.run.task_id)
        await self.pool.execute("update task set version = version + 1 where id = $1", self.run.task_id)

    async def set_session(self, what):
        text = f"update session set {what}, version = version + 1 where id = $1"
        await self.pool.execute(text, self.run.owner["worker_session_id"])


MEDDLING = [name for name in vars(Meddler) if not name.startswith(("_", "set_"))]
ACTS = {"renewal": renewal, "local": local}


async def outcome(act):
    try:
        return await act
    except Refusal as refusal:
        return refusal.code


async def story(flow, meddling, act):
    """A run that loads and writes everything, what then happens to it, an exchange; what came of it."""
    await flow.submit("key")
    run = await flow.start()
    await run.context()
    await run.local("first")
    for other, name in meddling:
        with suppress(Refusal):
            await getattr(Meddler(other, run), name)()
    replies = [await outcome(ACTS[act](run))]
    row = await flow.services.pool.fetchrow(_STATE, run.task_id, run.owner["attempt_id"])
    replies += [await outcome(run.local("last")), await outcome(run.dispatch(7))]
    return replies, dict(row)


@pytest.mark.parametrize("elsewhere", [True, False], ids=["elsewhere", "here"])
@pytest.mark.parametrize("act", ACTS)
@pytest.mark.parametrize("meddling", MEDDLING)
async def test_whatever_changed_the_outcome_is_that_of_a_fresh_load(
    still, rival, monkeypatch, believed, meddling, act, elsewhere
):
    other = rival if elsewhere else still
    remembering = await story(still, [(other, meddling)], act)
    assert True in believed
    assert remembering == await without_memory(still, rival, believed, monkeypatch, [(other, meddling)], act)


@pytest.mark.parametrize("act", ACTS)
@pytest.mark.parametrize("here", ["event", "fork", "another_record", "session_extended", "renewed"])
@pytest.mark.parametrize("elsewhere", ["event", "fork", "another_record", "full_of_records", "session_extended"])
async def test_what_goes_on_here_hides_nothing_that_happened_elsewhere(
    still, rival, monkeypatch, believed, elsewhere, here, act
):
    """A commit of this process carries along only what it was made of."""
    meddling = [(rival, elsewhere), (still, here)]
    remembering = await story(still, meddling, act)
    assert True in believed
    assert remembering == await without_memory(still, rival, believed, monkeypatch, meddling, act)


async def without_memory(still, rival, believed, monkeypatch, meddling, act):
    """The same story in another scope, every decision made of a load."""
    monkeypatch.setattr(remembered, "FRESH_S", -1.0)
    for flow in (still, rival):
        flow.scope = flow.scope | {"namespace": "fresh " + flow.scope["namespace"]}
        flow._sessions = {}
    believed.clear()
    told = await story(still, meddling, act)
    assert believed == []
    return told
