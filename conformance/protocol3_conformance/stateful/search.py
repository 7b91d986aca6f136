"""Draws histories, plays them, shrinks the first that differs: hypothesis in a thread, the exchanges on the loop."""

from __future__ import annotations

import asyncio
import concurrent.futures
import contextlib
import itertools
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field

import hypothesis
from hypothesis import strategies

from protocol3_conformance.lab import Lab
from protocol3_conformance.stateful import script
from protocol3_conformance.stateful.history import Call, Difference, History
from protocol3_conformance.stateful.kinds import KINDS, Kind
from protocol3_conformance.stateful.machine import Machine, Operations
from protocol3_conformance.wire.exchange import Exchange
from protocol3_conformance.wire.faults import BrokenRule

LENGTH = 20
"""Operations of one history behind the way to its goal."""
SHRINK_SECONDS, SHRINK_PATIENCE = 30.0, 0.1
"""How long a failing history may be shrunk, and the part of the ordinary patience that it gets meanwhile."""
Make = Callable[[History], Machine]


class Stopped(BaseException):
    """The search is over; hypothesis lets it pass, where an Exception would be a failing example."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """A history that differs at its last operation, and how."""

    error: AssertionError
    operations: Operations
    calls: list[Call]
    exchanges: list[Exchange]


@dataclass(slots=True)
class Search:
    """`found` is what the thread has found; `ended` tells it that nobody waits any more."""

    lab: Lab
    make: Make
    loop: asyncio.AbstractEventLoop
    found: Found | None = None
    ended: threading.Event = field(default_factory=threading.Event)

    def example(self, operations: Operations) -> None:
        """Called by hypothesis. Raises Stopped at the first failing history."""
        if self.ended.is_set():
            raise Stopped
        playing = asyncio.run_coroutine_threadsafe(self.play(operations, 1.0), self.loop)
        while not playing.done() and not self.ended.is_set():
            concurrent.futures.wait([playing], timeout=1.0)
        if self.ended.is_set():
            raise Stopped
        self.found = playing.result()
        if self.found:
            raise Stopped

    async def play(self, operations: Operations, patience: float) -> Found | None:
        """One history with names of its own; what is wrong with it. `patience` is a part of the ordinary one."""
        seconds = self.lab.target.patience.progress * patience
        history = History(lab=self.lab, run=self.lab.unique("h"), patience=seconds)
        machine, before, done = self.make(history), len(self.lab.transcript.exchanges), 0
        try:
            for done, operation in enumerate(operations, 1):  # noqa: B007 - how far it came
                await machine.do(operation)
            await machine.end()
        except BrokenRule as error:
            exchanges = self.lab.transcript.exchanges[before:]
            return Found(error=error, operations=operations[:done], calls=history.calls, exchanges=exchanges)
        return None

    async def shrunk(self, first: Found) -> Found:
        """Without operations and numbers that are not needed for it; it has failed once more with full patience.

        Hypothesis' own shrinking works on bits and would play some hundred histories for it, this some ten: it knows
        what an operation is, and that what stands behind the failing one makes no difference.
        """
        found, deadline = first, time.monotonic() + SHRINK_SECONDS * max(1.0, self.lab.target.patience.factor)
        length = len(found.operations) // 2
        while length > 1:
            found = await self._first_of(_without_runs(found.operations, length), deadline) or found
            length = min(length, len(found.operations)) // 2
        size = -1
        while size != (size := _size(found.operations)):
            for index in reversed(range(len(found.operations))):
                found = await self._first_of(_smaller(found.operations, index), deadline) or found
        return await self.play(found.operations, 1.0) or first

    async def _first_of(self, candidates: Iterable[Operations], deadline: float) -> Found | None:
        """The first shorter history that differs as well, if there is one in time."""
        for candidate in candidates:
            if time.monotonic() > deadline:
                return None
            if again := await self.play(candidate, SHRINK_PATIENCE):
                return again
        return None


def _size(operations: Operations) -> int:
    return sum(8 * 3 + one + two + three for _, one, two, three in operations)


def _without_runs(operations: Operations, length: int) -> Iterator[Operations]:
    """Without one run of so many operations, the last ones first: what a failure needs is often the beginning."""
    for end in range(len(operations), length - 1, -length):
        yield operations[: end - length] + operations[end:]


def _smaller(operations: Operations, index: int) -> Iterator[Operations]:
    """Without the operation at a place, with zeros in it, and with one zero."""
    if index >= len(operations):
        return
    word, *numbers = operations[index]
    before, behind = operations[:index], operations[index + 1 :]
    yield before + behind
    shorter = dict.fromkeys([(0, 0, 0), *((*numbers[:at], 0, *numbers[at + 1 :]) for at in range(3))])
    for one, two, three in shorter:
        if [one, two, three] != numbers:
            yield (*before, (word, one, two, three), *behind)


def histories(words: Mapping[str, int]) -> strategies.SearchStrategy[Operations]:
    """All is drawn from single bits.

    For numbers hypothesis would also try the constants of whatever modules are loaded, so that a seed would mean
    another thing elsewhere, and would keep them in a folder.
    """
    drawn = [word for word, often in words.items() for _ in range(often)]

    def number(bits: int) -> strategies.SearchStrategy[int]:
        one = strategies.tuples(*[strategies.booleans()] * bits)
        return one.map(lambda drawn: sum(bit << place for place, bit in enumerate(drawn)))

    word = number(8).map(lambda one: drawn[one % len(drawn)])
    return strategies.tuples(*[strategies.tuples(word, number(3), number(3), number(3))] * LENGTH)


def draw(lab: Lab, kind: Kind, play: Callable[[Operations], None]) -> None:
    """All examples, or up to the first that fails, in this thread. The goals have their turns, from any of them on."""
    ways = tuple(kind.goals.values())
    turns = itertools.count(lab.random.randrange(len(ways)))
    settings = hypothesis.settings(
        max_examples=lab.target.examples,
        database=None,
        deadline=None,
        derandomize=False,
        phases=[hypothesis.Phase.generate],
        suppress_health_check=list(hypothesis.HealthCheck),
        verbosity=hypothesis.Verbosity.quiet,
        print_blob=False,
    )

    def test(operations: Operations) -> None:
        play(ways[next(turns) % len(ways)] + operations)

    seeded = hypothesis.seed(lab.random.randrange(2**32))
    with contextlib.suppress(Stopped):
        seeded(settings(hypothesis.given(histories(kind.words))(test)))()


async def explore(lab: Lab) -> None:
    """Play the examples of this check. Raises the shortest failure, with the path of its script."""
    kind = KINDS[lab.check_id]
    search = Search(lab, kind.make, asyncio.get_running_loop())
    done: concurrent.futures.Future[None] = concurrent.futures.Future()
    done.set_running_or_notify_cancel()

    def work() -> None:
        try:
            draw(lab, kind, search.example)
        except BaseException as error:  # noqa: BLE001 - raised again by who waits
            done.set_exception(error)
        else:
            done.set_result(None)

    threading.Thread(target=work, name=lab.check_id, daemon=True).start()
    try:
        await asyncio.wrap_future(done)
    finally:
        search.ended.set()
    if search.found:
        raise reported(lab, await search.shrunk(search.found))


def reported(lab: Lab, found: Found) -> AssertionError:
    """The failure; the transcript keeps the exchanges of its history alone. A script shows what the model saw."""
    lab.transcript.exchanges[:] = found.exchanges
    if isinstance(found.error, Difference):
        told = str(found.error)
        found.error.add_note(_exported(lab, told, found.calls))
    return found.error


def _exported(lab: Lab, told: str, calls: list[Call]) -> str:
    """Where the script lies; or that it cannot be written, which must not hide the failure itself."""
    try:
        path = script.export(lab.target.exports, lab.check_id, f"Found by {lab.check_id}.", told, calls)
    except OSError as error:
        return f"no script of these calls: {error}; name a folder with --export-dir"
    return f"{path} sends these calls again: python3 {path} {lab.target.endpoint.url}"
