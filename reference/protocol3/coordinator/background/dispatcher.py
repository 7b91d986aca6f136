"""Dispatchers: each claims the work of one queue for all polls of this process that wait for it (chapter 07, Waiting).

Waiting commits nothing and holds nothing: a poll is an entry in a list. A dispatcher lives while polls wait. It claims
when a task may have become claimable (a wake after a commit), when a delayed retry becomes due, and once a second
besides; otherwise a poll that arrives is only judged, in one statement, and then costs none until then. One decision
claims for several polls; where several processes claim from a queue, tasks that nobody else holds, so that consumers
get different tasks and do not wait for each other (DLV-025, DLV-038).
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from contextvars import Context
from typing import Final

from protocol3.contract.models.delivery import AcquireCommand
from protocol3.coordinator.background.bell import Bell
from protocol3.coordinator.background.claiming import Claiming
from protocol3.coordinator.background.survival import ERRORS, survived
from protocol3.coordinator.background.waiting import Line, Reply, Waiter
from protocol3.store.connections import Connection
from protocol3.store.loads import claims as loads
from protocol3.store.loads.claims import Asked
from protocol3.store.transition import Transitions

#: Polls that may wait in one process (DLV-039).
WAITING: Final = 4_096
#: Seconds between looks when nothing rings (DLV-033).
LOOK_S: Final = 1.0

_log: Final = logging.getLogger("protocol3.dispatcher")


class Dispatchers:
    """The dispatchers of this process by queue."""

    def __init__(self, transitions: Transitions, claiming: Callable[[int, str], Claiming]) -> None:
        self._transitions = transitions
        self._claiming = claiming
        self._running: dict[tuple[int, str], Dispatcher] = {}
        self._draining = False
        self.waiting = 0

    def wake(self, scope_id: int, queue: str) -> None:
        """A task of this queue may have become claimable."""
        dispatcher = self._running.get((scope_id, queue))
        if dispatcher is not None:
            dispatcher.ring()

    def look_again(self, scope_id: int) -> None:
        """All polls of a scope look and are judged again, as after an advance of its clock."""
        for (scope, _), dispatcher in self._running.items():
            if scope == scope_id:
                dispatcher.judge_again()

    def patience(self, until: float) -> float:
        """Seconds that a poll may still wait; none once the waits are over."""
        return 0.0 if self._draining else max(until - asyncio.get_running_loop().time(), 0.0)

    def end_waits(self) -> None:
        """Let every waiting poll come to its end at once, so that a shutdown need not outlast them (HTTP-083)."""
        self._draining = True
        for dispatcher in self._running.values():
            dispatcher.hurry_all()

    async def close(self) -> None:
        """Stop all dispatchers; polls that still wait are not answered."""
        tasks = [dispatcher.task for dispatcher in self._running.values()]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def claim(self, scope_id: int, command: AcquireCommand, *, wait_s: float) -> Reply | None:
        """A task for this poll, or nothing if there was none in time; None if it takes a decision of its own.

        Nothing is held while it waits (DLV-038). Without a wait there is one look. Raises `unavailable` when it would
        have to wait and too many polls do, and when the last look failed.
        """
        if wait_s > 0 and self._draining:  # its patience was reckoned before the waits ended
            wait_s = 0.0
        key = (scope_id, command.queue)
        dispatcher = self._running.get(key)
        if dispatcher is None:
            dispatcher = self._running[key] = Dispatcher(
                self._transitions,
                self._claiming(*key),
                *key,
                place=self._place,
                on_end=lambda: self._running.pop(key),
            )
        waiter = Waiter(command=command, last=wait_s == 0)
        dispatcher.add(waiter)
        try:
            if wait_s > 0:
                await asyncio.wait([waiter.answer], timeout=wait_s)
                dispatcher.hurry(waiter)
            return await waiter.answer
        finally:
            waiter.answer.cancel()  # whoever left takes no place any more
            self.waiting -= waiter.placed
            dispatcher.remove(waiter)

    def _place(self) -> bool:
        """Take a place among the polls that wait, if there is one."""
        free = self.waiting < WAITING
        self.waiting += free
        return free


class Dispatcher:
    """Claims from one queue until no poll waits any more; then calls `on_end`."""

    def __init__(
        self,
        transitions: Transitions,
        claiming: Claiming,
        scope_id: int,
        queue: str,
        *,
        place: Callable[[], bool],
        on_end: Callable[[], object],
    ) -> None:
        self._transitions = transitions
        self._claiming = claiming
        self._scope_id = scope_id
        self._queue = queue
        self._place = place
        self._line = Line()
        self._bell = Bell()
        self._now = asyncio.get_running_loop().time
        self._judged_at = self._now()
        self._claims_at = self._judged_at
        self.task = asyncio.create_task(self._run(on_end), context=Context())  # not that of the first poll

    def ring(self) -> None:
        """There may be a task."""
        self._claims_at = 0.0
        self._bell.ring()

    def judge_again(self) -> None:
        self._judged_at = 0.0
        self.ring()

    def add(self, waiter: Waiter) -> None:
        self._line.add(waiter)
        self._bell.ring()

    def remove(self, waiter: Waiter) -> None:
        self._line.remove(waiter)
        if not self._line:
            self._bell.ring()

    def hurry(self, waiter: Waiter) -> None:
        """Its wait is over: one more look, then it is answered."""
        if not waiter.answer.done():
            self._line.hurry(waiter)
            self._bell.ring()

    def hurry_all(self) -> None:
        for waiter in self._line.everybody():
            self.hurry(waiter)

    async def _run(self, on_end: Callable[[], object]) -> None:
        try:
            while True:
                await self._bell.rest(self._claims_at - self._now())
                if not self._line:
                    return
                await self._turn()
        finally:
            on_end()

    async def _turn(self) -> None:
        """Serve whom there is work for, and everybody who has not been judged or cannot wait."""
        try:
            async with self._transitions.pool.acquire() as connection:
                while served := self._line.turn(claims=self._now() >= self._claims_at):
                    await self._serve(connection, served)
                    await self._judge_again(connection)
        except ERRORS as error:  # whoever can wait waits on
            survived(error, _log, "dispatching failed")
            self._claims_at = self._now() + LOOK_S
            for waiter in self._line.everybody():
                if waiter.last:
                    self._refuse(waiter, "the store could not be reached")

    async def _serve(self, connection: Connection, served: list[Waiter]) -> None:
        """One decision for these. A claim looks for tasks; who cannot wait is owed one."""
        claim = self._now() >= self._claims_at or any(waiter.last for waiter in served)
        if claim:
            self._claims_at = self._now() + LOOK_S  # unless it rings meanwhile
        asked = [Asked(command=w.command, judged=w.urgency > 0, last=w.last) for w in served]
        claims = await self._claiming(connection, asked, claim=claim)
        if claim and claims.next_ms is not None:
            self._claims_at = min(self._claims_at, self._now() + claims.next_ms / 1000)
        for position, waiter in enumerate(served):
            reply = claims.assigned.get(position) or claims.empty.get(position)
            if reply is not None or position in claims.answered or asked[position].last:
                self._release(waiter, reply)
            elif waiter.placed or waiter.answer.done():
                self._line.rest(waiter)
            elif self._place():
                waiter.placed = True
                self._line.rest(waiter)
            else:
                self._refuse(waiter, "too many polls wait; repeat the poll later")

    def _release(self, waiter: Waiter, reply: Reply | None = None) -> None:
        waiter.release(reply)
        self._line.remove(waiter)
        self._line.judge(waiter.consumer)

    def _refuse(self, waiter: Waiter, message: str) -> None:
        waiter.refuse(message)
        self._line.remove(waiter)

    async def _judge_again(self, connection: Connection) -> None:
        """Once a second, find waiting polls whose session ended (DLV-037) or whose sequence is complete elsewhere."""
        if not self._line or self._now() - self._judged_at < LOOK_S:
            return
        self._judged_at = self._now()
        waiting = list(self._line)
        commands = [waiter.command for waiter in waiting]
        for position in await loads.answerable(connection, self._transitions.sql, commands):
            self._release(waiting[position])
