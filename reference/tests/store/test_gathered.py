"""What reads share a statement, and who is told what: on connections that answer when the test says so."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager

import asyncpg
import pytest

from protocol3.store import gathered, group_commit
from protocol3.store.gathered import Gathering, Kind, Reader, together
from protocol3.store.outage import DatabaseAway

PATIENCE_S = 20.0
TEXT = "select name from thing where id = $1"


class Answering:
    """Connections of a gathering and its readers: a statement waits until the test answers it.

    `sent` has of each statement which ids it asks for: one id, or a list for several.
    """

    def __init__(self):
        self.sent, self.answers = [], []
        self.connections = 0
        self.away = None
        self.gathering = Gathering(self.connect)

    @asynccontextmanager
    async def connect(self):
        if self.away is not None:
            raise self.away
        self.connections += 1
        try:
            yield self
        finally:
            self.connections -= 1

    async def fetchrow(self, query, *args):
        assert query == TEXT
        return await self._answer(args[0])

    async def fetch(self, query, *args):
        assert query == together(TEXT, ("text",))
        return await self._answer(list(args[0]))

    def _answer(self, ids):
        self.sent.append(ids)
        self.answers.append(asyncio.get_running_loop().create_future())
        return self.answers[-1]

    async def read(self, *values, text=TEXT):
        async with Reader(self.gathering, self.connect) as reader:
            return await reader.fetchrow(text, *values)

    async def asked(self, *ids):
        """Reads of these ids, sent or waiting."""
        reads = [asyncio.create_task(self.read(id)) for id in ids]
        await turns()
        return reads

    async def gathered(self, *ids):
        """Reads of these ids, in one statement, which is the second one."""
        first, *reads = await self.asked("first", *ids)
        assert self.sent == ["first"]
        await self.answer(0, ("first",))
        assert await ended(first) == [("first",)]
        return reads

    async def answer(self, number, answer):
        future = self.answers[number]
        future.set_exception(answer) if isinstance(answer, Exception) else future.set_result(answer)
        await turns()


async def turns():
    """As long as anything can go on by itself."""
    for _ in range(20):
        await asyncio.sleep(0)


async def ended(*reads):
    async with asyncio.timeout(PATIENCE_S):
        return await asyncio.gather(*reads, return_exceptions=True)


@pytest.fixture
def answering(patient):
    return Answering()


async def test_one_alone_goes_at_once(answering):
    """As it came, on a connection of its own, before anything else runs."""
    read = answering.read("a")
    read.send(None)
    assert answering.sent == ["a"]
    assert answering.connections == 1
    answering.answers[0].set_result(("A",))
    with pytest.raises(StopIteration) as end:
        read.send(None)
    assert end.value.value == ("A",)
    assert answering.connections == 0


async def test_what_comes_meanwhile_is_one_statement(answering):
    """On one connection; each gets its own row, in whatever order they are found, and None where there is none."""
    reads = await answering.gathered("a", "b", "c")
    assert answering.sent[1:] == [["a", "b", "c"]]
    assert answering.connections == 1
    await answering.answer(1, [(2, "C"), (0, "A")])
    assert await ended(*reads) == [(0, "A"), None, (2, "C")]
    assert answering.connections == 0


async def test_nobody_joins_what_was_sent(answering):
    """Its snapshot began before the read came."""
    early = await answering.gathered("a", "b")
    late = await answering.asked("c", "d")
    assert answering.sent[1:] == [["a", "b"]]
    await answering.answer(1, [(0, "A"), (1, "B")])
    assert answering.sent[2:] == [["c", "d"]]
    await answering.answer(2, [(0, "C"), (1, "D")])
    assert await ended(*early, *late) == [(0, "A"), (1, "B"), (0, "C"), (1, "D")]


async def test_who_waited_by_itself_reads_as_if_alone(answering):
    reads = await answering.gathered("a")
    assert answering.sent[1:] == ["a"]
    await answering.answer(1, ("A",))
    assert await ended(*reads) == [("A",)]


async def test_nothing_is_left_of_a_kind_that_is_idle(answering):
    """Kinds are as many as there are lists in parameters."""
    reads = await answering.gathered("a", "b")
    await answering.answer(1, [])
    assert await ended(*reads) == [None, None]
    assert answering.gathering._lines == {}
    assert answering.gathering._calls == set()


async def test_a_statement_has_a_most(answering, monkeypatch):
    monkeypatch.setattr(gathered, "MOST", 2)
    reads = await answering.gathered("a", "b", "c", "d", "e")
    await answering.answer(1, [])
    await answering.answer(2, [])
    await answering.answer(3, None)
    assert answering.sent[1:] == [["a", "b"], ["c", "d"], "e"]
    assert await ended(*reads) == [None] * 5


def test_reads_of_one_kind():
    """The text, the types of what it is asked for, and the same nulls and lists."""
    values = ["id", 1, True, None, ["k"]]
    kind = Kind.of(TEXT, values)
    assert kind == Kind.of(TEXT, ["other", 2, False, None, ["k"]])
    assert kind.arguments([values, ["other", 2, False, None, ["k"]]]) == [
        ("id", "other"),
        (1, 2),
        (True, False),
        None,
        ["k"],
    ]
    for position, value in enumerate((None, None, None, "k", ["l"])):
        assert kind != Kind.of(TEXT, [*values[:position], value, *values[position + 1 :]])
    assert kind != Kind.of(TEXT + " ", values)
    assert Kind.of(TEXT, [None, ["k"]]) is None  # it has nothing of its own
    assert Kind.of(TEXT, []) is None


def test_the_statement_for_several():
    """Numbers of two digits are numbers, and what all have in common stays a parameter."""
    text = "select $1, $2, $3, $11"
    columns = ("text", None, "bigint", *[None] * 7, "boolean")
    assert together(text, columns) == (
        "select given.place - 1 as place, one.* from unnest($1::text[], $3::bigint[], $11::boolean[])"
        " with ordinality as given(p1, p3, p11, place)\n"
        "cross join lateral (select given.p1, $2, given.p3, given.p11) as one"
    )


async def test_other_kinds_wait_for_nobody(answering):
    await answering.asked("a")
    other = answering.read(7)
    other.send(None)
    assert answering.sent == ["a", 7]
    other.close()


async def test_who_has_a_connection_waits_for_no_other(answering):
    """They might all be in use by those who wait."""
    await answering.asked("a")
    async with Reader(answering.gathering, answering.connect) as reader:
        assert await reader.connection() is answering
        read = reader.fetchrow(TEXT, "b")
        read.send(None)
        assert answering.sent == ["a", "b"]
        assert answering.connections == 2
        read.close()


async def test_one_that_cannot_be_answered_fails_no_other(answering):
    """A statement for several that is refused: each goes alone."""
    reads = await answering.gathered("a", "bad", "c")
    await answering.answer(1, asyncpg.DataError("an argument"))
    assert answering.sent[2:] == ["a", "bad", "c"]
    error = asyncpg.CharacterNotInRepertoireError("text")
    for number, answer in ((2, ("A",)), (3, error), (4, ("C",))):
        await answering.answer(number, answer)
    assert await ended(*reads) == [("A",), error, ("C",)]


async def test_a_refusal_of_one_is_its_own(answering):
    error = asyncpg.DataError("an argument")
    reads = await answering.gathered("bad")
    await answering.answer(1, error)
    assert await ended(*reads) == [error]
    assert answering.sent == ["first", "bad"]


AWAY = [
    OSError("reset"),
    TimeoutError("statement"),
    asyncpg.ConnectionDoesNotExistError("gone"),
    asyncpg.AdminShutdownError("shutdown"),
    asyncpg.QueryCanceledError("statement_timeout"),
    asyncpg.InterfaceError("pool is closing"),
]


@pytest.mark.parametrize("error", AWAY, ids=lambda error: type(error).__name__)
async def test_a_database_that_is_away_is_told_to_all(answering, error):
    """As if each had met it alone, and whoever comes later tries again."""
    reads = await answering.gathered("a", "b")
    await answering.answer(1, error)
    assert await ended(*reads) == [error, error]
    late = await answering.asked("c")
    await answering.answer(2, ("C",))
    assert await ended(*late) == [("C",)]


async def test_a_connection_that_cannot_be_had_is_told_to_all(answering):
    first, *reads = await answering.asked("first", "a", "b")
    answering.away = DatabaseAway()
    await answering.answer(0, ("first",))
    assert await ended(first, *reads) == [("first",), answering.away, answering.away]


async def test_who_is_cancelled_before_the_statement_is_left_out(answering):
    first, *reads = await answering.asked("first", "a", "b", "c")
    reads[1].cancel()
    await answering.answer(0, ("first",))
    assert answering.sent[1:] == [["a", "c"]]
    await answering.answer(1, [(0, "A"), (1, "C")])
    assert [type(end) for end in await ended(first, *reads)] == [tuple, tuple, asyncio.CancelledError, tuple]


async def test_who_is_cancelled_during_the_statement_takes_nobody_with_it(answering):
    reads = await answering.gathered("a", "b", "c")
    reads[1].cancel()
    await turns()
    assert not answering.answers[1].cancelled()
    await answering.answer(1, [(0, "A"), (1, "B"), (2, "C")])
    assert [type(end) for end in await ended(*reads)] == [tuple, asyncio.CancelledError, tuple]


async def test_one_alone_that_is_cancelled_lets_the_others_go(answering):
    first, *reads = await answering.asked("first", "a", "b")
    first.cancel()
    await turns()
    assert answering.sent[1:] == [["a", "b"]]
    await answering.answer(1, [(0, "A"), (1, "B")])
    assert await ended(*reads) == [(0, "A"), (1, "B")]


async def test_all_who_waited_may_be_cancelled(answering):
    """Then no statement is sent, nor does anything stay behind."""
    first, *reads = await answering.asked("first", "a", "b")
    for read in reads:
        read.cancel()
    await turns()
    await answering.answer(0, ("first",))
    assert answering.sent == ["first"]
    assert await ended(first) == [("first",)]
    assert answering.gathering._lines == {}


async def test_a_statement_that_takes_long_holds_up_nobody(answering, monkeypatch):
    """Neither one alone nor one of several."""
    monkeypatch.setattr(group_commit, "PATIENCE_S", 0)
    async with asyncio.timeout(PATIENCE_S):
        reads = await answering.asked("first", "a", "b")
        while len(answering.sent) < 2:
            await asyncio.sleep(0)
        reads += await answering.asked("c")
        while len(answering.sent) < 3:
            await asyncio.sleep(0)
        assert answering.sent == ["first", ["a", "b"], "c"]
        for number, answer in ((2, ("C",)), (1, [(0, "A"), (1, "B")]), (0, ("first",))):
            await answering.answer(number, answer)
        assert await ended(*reads) == [("first",), (0, "A"), (1, "B"), ("C",)]
