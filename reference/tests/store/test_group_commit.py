"""What is applied together, what is not, and who is told what: with a store that answers when the test says so."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from dataclasses import replace

import asyncpg
import pytest

from protocol3.core import records as r
from protocol3.core.verdict import Accepted, Guard
from protocol3.store import group_commit
from protocol3.store.group_commit import GroupCommit, Member, next_batch, size_of, together, touches
from protocol3.store.outage import DatabaseAway

PATIENCE_S = 20.0


class Answering:
    """`write` of a group: a call waits until the test answers it, with a result or an error."""

    def __init__(self):
        self.calls = []
        self.told = []
        self.connected = asyncio.Event()
        self.connected.set()
        self.group = GroupCommit(self.connect, self.write, lambda verdict: self.told.append(verdict.reply))

    @asynccontextmanager
    async def connect(self):
        await self.connected.wait()
        yield "connection"

    async def write(self, connection, verdict):
        answer = asyncio.get_running_loop().create_future()
        self.calls.append((verdict, answer))
        return await answer

    async def gathered(self, *verdicts):
        """The outcomes of verdicts that gathered while another apply was under way; their call awaits its answer."""
        with self.group.under_way():
            outcomes = [asyncio.create_task(self.group.applied(verdict)) for verdict in verdicts]
            await asyncio.sleep(0)
            assert self.calls == []
        await asyncio.sleep(0)
        return outcomes

    def names(self):
        """The tasks of each call so far."""
        return [[record.id for record in verdict.records] for verdict, _ in self.calls]


async def ended(*outcomes):
    async with asyncio.timeout(PATIENCE_S):
        return await asyncio.gather(*outcomes, return_exceptions=True)


@pytest.fixture
def answering(patient):
    return Answering()


@pytest.fixture
def changing(blank):
    """A verdict that changes a task; its reply is the task's id."""

    def change(name, version=0, **more):
        guard = Guard(kind="task", id=name, version=version)
        return Accepted(reply=name, records=(blank(r.Task, id=name),), guards=(guard,), **more)

    return change


async def test_what_gathers_is_one_call(answering, changing):
    """And everybody is told after it, wakes first."""
    outcomes = await answering.gathered(*map(changing, "abc"))
    assert answering.names() == [["a", "b", "c"]]
    assert answering.told == []
    assert not any(outcome.done() for outcome in outcomes)
    answering.calls[0][1].set_result(True)
    assert await ended(*outcomes) == [True, True, True]
    assert answering.told == ["a", "b", "c"]


async def test_the_next_gather_while_a_call_is_under_way(answering, changing):
    """One call at a time, and nobody is forgotten."""
    first = await answering.gathered(changing("a"))
    late = [asyncio.create_task(answering.group.applied(changing(name))) for name in "bc"]
    await asyncio.sleep(0)
    assert answering.names() == [["a"]]
    answering.calls[0][1].set_result(True)
    assert await ended(*first) == [True]
    await asyncio.sleep(0)
    assert answering.names() == [["a"], ["b", "c"]]
    answering.calls[1][1].set_result(True)
    assert await ended(*late) == [True, True]


async def test_a_call_that_takes_long_holds_up_nobody(answering, changing, monkeypatch):
    """Neither one of several nor one alone: it may wait for a lock that a rule or another process keeps."""
    monkeypatch.setattr(group_commit, "PATIENCE_S", 0)
    async with asyncio.timeout(PATIENCE_S):
        with answering.group.under_way():
            outcomes = [asyncio.create_task(answering.group.applied(changing("a")))]
            while not answering.calls:
                await asyncio.sleep(0)
            outcomes.append(asyncio.create_task(answering.group.applied(changing("b"))))
            while len(answering.calls) < 2:
                await asyncio.sleep(0)
            for _, answer in answering.calls:
                answer.set_result(True)
            assert await ended(*outcomes) == [True, True]
    assert not answering.group.busy


def test_the_sum_stands_if_all_do(changing):
    """The earliest bound, everything of everybody, a common guard once."""
    common = Guard(kind="session", id="s", version=3, seen=True)
    one = changing("a", valid_until_real=9, done=("o1",), unscheduled=(("lease", "a"),))
    two = changing("b", valid_until_real=7, done=("o2",), unscheduled=(("lease", "b"),))
    verdicts = [replace(each, guards=(common, *each.guards)) for each in (one, two, changing("c"))]
    total = together(verdicts)
    assert total.valid_until_real == 7
    assert [record.id for record in total.records] == ["a", "b", "c"]
    assert [guard.id for guard in total.guards] == ["s", "a", "b", "c"]
    assert (total.done, total.unscheduled) == (("o1", "o2"), (("lease", "a"), ("lease", "b")))
    assert together([changing("c")]).valid_until_real is None


def _batches(*verdicts):
    """The replies, call by call."""
    waiting = [Member(v, None, touches(v), len(v.records) + len(v.guards), size_of(v)) for v in verdicts]
    batches = []
    while waiting:
        batch = next_batch(waiting)
        batches.append([member.verdict.reply for member in batch])
        waiting = [member for member in waiting if member not in batch]
    return batches


def test_what_has_a_row_in_common_is_not_one_call(changing, blank):
    """Guards and records of a row are the same thing; whatever is deleted is touched too."""
    obligation = blank(r.Obligation, id="o")
    entry = blank(r.Agenda, kind="lease", ref="u")
    history = blank(r.History, task_id="t", sequence=1)
    pairs = [
        (changing("a"), changing("a", version=1)),
        (changing("a"), Accepted(reply="record", records=(blank(r.Task, id="a"),))),
        (changing("a"), Accepted(reply="seen", guards=(Guard(kind="task", id="a", version=0, seen=True),))),
        (Accepted(reply=1, records=(obligation,)), Accepted(reply=2, done=("o",))),
        (Accepted(reply=1, unscheduled=(("lease", "u"),)), Accepted(reply=2, records=(entry,))),
        (Accepted(reply=1, records=(history,)), Accepted(reply=2, records=(history,))),
    ]
    for one, two in pairs:
        assert _batches(one, two) == [[one.reply], [two.reply]]
        assert _batches(two, one) == [[two.reply], [one.reply]]


def test_what_is_only_compared_may_be_common(changing):
    """With the same version: of two versions one is stale."""
    seen = [Guard(kind="clock", id="1", version=version, seen=True) for version in (5, 5, 6)]
    verdicts = [replace(changing(name), guards=(guard,)) for name, guard in zip("abc", seen, strict=True)]
    assert _batches(*verdicts) == [["a", "b"], ["c"]]
    cursors = [Guard(kind="cursor", id="s", part=part, version=0) for part in (1, 2, 1)]
    verdicts = [replace(changing(name), guards=(guard,)) for name, guard in zip("abc", cursors, strict=True)]
    assert _batches(*verdicts) == [["a", "b"], ["c"]]


def test_nobody_overtakes_what_concerns_it(changing):
    """`ac` waits for `a`, and `c` for `ac`, which came before."""
    both = together([changing("a", version=1), changing("c")])
    verdicts = changing("a"), replace(both, reply="ac"), changing("c", version=1), changing("b")
    assert _batches(*verdicts) == [["a", "b"], ["ac"], ["c"]]


def test_what_is_compared_later_does_not_hide_a_change(changing):
    """`b` and `c` compare what `a` changes, so both wait, in any company."""
    seen = (Guard(kind="task", id="a", version=0, seen=True),)
    b, c = (Accepted(reply=name, guards=seen) for name in "bc")
    assert _batches(changing("a"), b, c) == [["a"], ["b", "c"]]
    assert _batches(b, changing("a"), c) == [["b"], ["a"], ["c"]]
    other = replace(b, reply="d", guards=(replace(seen[0], version=1),))
    assert _batches(b, other, c) == [["b"], ["d"], ["c"]]


def test_a_call_is_bounded(changing, blank, monkeypatch):
    """In verdicts, rows and bytes; the first one goes whatever its size."""
    many = [changing(str(number)) for number in range(2 * group_commit.MOST + 1)]
    assert [len(batch) for batch in _batches(*many)] == [group_commit.MOST, group_commit.MOST, 1]
    monkeypatch.setattr(group_commit, "ROWS", 5)
    assert _batches(*many[:3]) == [["0", "1"], ["2"]]
    monkeypatch.setattr(group_commit, "ROWS", 100)
    monkeypatch.setattr(group_commit, "BYTES", 10)
    bodies = [Accepted(reply=n, records=(blank(r.TaskBody, task_id=f"t{n}"),)) for n in range(3)]
    body = size_of(bodies[0])
    assert 0 < body <= 5
    large = replace(bodies[0].records[0], task_id="large", data=b"x" * 100)
    assert _batches(Accepted(reply="large", records=(large,)), *bodies) == [["large"], [0, 1, 2]]


REFUSALS = [
    asyncpg.UniqueViolationError("taken"),
    asyncpg.SerializationError("unguarded"),
    asyncpg.DeadlockDetectedError("deadlock"),
    asyncpg.LockNotAvailableError("locked"),
    asyncpg.CharacterNotInRepertoireError("text"),
    asyncpg.DataError("argument"),
]


@pytest.mark.parametrize("answer", [False, *REFUSALS], ids=lambda answer: type(answer).__name__)
async def test_a_call_that_misses_or_is_refused_is_nobodys_end(answering, changing, answer):
    """All are told that nothing is applied; no wake."""
    outcomes = await answering.gathered(*map(changing, "ab"))
    call = answering.calls[0][1]
    call.set_result(answer) if answer is False else call.set_exception(answer)
    assert await ended(*outcomes) == [False, False]
    assert answering.told == []
    assert not answering.group.busy


AWAY = [
    DatabaseAway(),
    OSError("reset"),
    TimeoutError("statement"),
    asyncpg.ConnectionDoesNotExistError("gone"),
    asyncpg.AdminShutdownError("shutdown"),
    asyncpg.QueryCanceledError("statement_timeout"),
    asyncpg.InterfaceError("pool is closing"),
]


@pytest.mark.parametrize("error", AWAY, ids=lambda error: type(error).__name__)
async def test_a_database_that_is_away_is_told_to_all(answering, changing, error):
    """As if each had met it alone: what became of the call is unknown."""
    outcomes = await answering.gathered(*map(changing, "ab"))
    answering.calls[0][1].set_exception(error)
    assert await ended(*outcomes) == [error, error]
    assert answering.told == []
    assert not answering.group.busy


async def test_a_wake_that_cannot_be_told_leaves_nobody_waiting(changing):
    """It must not happen; if it does, what was committed is found by the looks at the rows."""
    answering, broken = Answering(), RuntimeError("a listener")

    def break_down(verdict):
        raise broken

    answering.group = GroupCommit(answering.connect, answering.write, break_down)
    outcomes = await answering.gathered(*map(changing, "ab"))
    answering.calls[0][1].set_result(True)
    assert await ended(*outcomes) == [broken, broken]
    assert not answering.group.busy


async def test_who_is_cancelled_before_the_call_is_left_out(answering, changing):
    with answering.group.under_way():
        outcomes = [asyncio.create_task(answering.group.applied(changing(name))) for name in "abc"]
        await asyncio.sleep(0)
        outcomes[1].cancel()
        await asyncio.sleep(0)
    await asyncio.sleep(0)
    assert answering.names() == [["a", "c"]]
    answering.calls[0][1].set_result(True)
    assert [type(outcome) for outcome in await ended(*outcomes)] == [bool, asyncio.CancelledError, bool]
    assert answering.told == ["a", "c"]


@pytest.mark.parametrize("staying", ["ac", ""])
async def test_who_is_cancelled_while_a_connection_is_awaited_is_left_out(answering, changing, staying):
    """A database that stalls outlasts exchanges, and what they were told must not become untrue long afterwards."""
    answering.connected.clear()
    outcomes = await answering.gathered(*map(changing, "abc"))
    for name, outcome in zip("abc", outcomes, strict=True):
        if name not in staying:
            outcome.cancel()
    await asyncio.sleep(0)
    answering.connected.set()
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    assert answering.names() == ([[*staying]] if staying else [])
    for _, answer in answering.calls:
        answer.set_result(True)
    ends = await ended(*outcomes)
    assert [end is True for end in ends] == [name in staying for name in "abc"]
    assert answering.told == [*staying]
    await asyncio.sleep(0)
    assert not answering.group.busy


async def test_who_is_cancelled_during_the_call_takes_nobody_with_it(answering, changing):
    """Its own verdict is committed too, and what it wakes is told."""
    outcomes = await answering.gathered(*map(changing, "abc"))
    outcomes[1].cancel()
    await asyncio.sleep(0)
    assert not answering.calls[0][1].cancelled()
    answering.calls[0][1].set_result(True)
    assert [type(outcome) for outcome in await ended(*outcomes)] == [bool, asyncio.CancelledError, bool]
    assert answering.told == ["a", "b", "c"]


async def test_a_call_that_is_cancelled_ends_for_all(answering, changing):
    """When the process ends: nobody waits for good."""
    outcomes = await answering.gathered(*map(changing, "ab"))
    answering.calls[0][1].cancel()
    assert [type(outcome) for outcome in await ended(*outcomes)] == [asyncio.CancelledError] * 2
