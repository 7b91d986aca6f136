"""Dispatchers: each claims the work of one queue for all polls of this process that wait for it (chapter 07, Waiting).

Waiting commits nothing and holds nothing: a poll is an entry in a list. A dispatcher lives while polls wait. It looks
when a task may have become claimable (a wake after a commit), when a delayed retry becomes due, and once a second
besides. It claims for several polls with one decision; where several processes claim from a queue, tasks that nobody
else holds, so that consumers get different tasks and do not wait for each other (DLV-025, DLV-038).
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable
from contextvars import Context
from dataclasses import dataclass, field
from typing import Final

from protocol3.contract.models.delivery import AcquireCommand
from protocol3.contract.refusal import Refusal
from protocol3.coordinator.background.bell import Bell
from protocol3.coordinator.background.claiming import Claiming
from protocol3.coordinator.background.survival import ERRORS, survived
from protocol3.core.acquisition import Assigned
from protocol3.store.loads import claims as loads
from protocol3.store.transition import Connection, Transitions

#: Polls served by one transaction.
BATCH: Final = 16
#: Polls that may wait in one process (DLV-039).
WAITING: Final = 4_096
#: Seconds between looks when nothing rings (DLV-033).
LOOK_S: Final = 1.0

_log: Final = logging.getLogger("protocol3.dispatcher")


@dataclass(slots=True, eq=False)
class Waiter:
    """One admitted poll. Its answer is None when it should be judged again: it may be answered without a task."""

    command: AcquireCommand
    patient: bool
    answer: asyncio.Future[Assigned | None] = field(default_factory=lambda: asyncio.get_running_loop().create_future())

    @property
    def consumer(self) -> tuple[str, int]:
        return self.command.worker_session_id, self.command.consumer_id

    def release(self, answer: Assigned | None = None) -> None:
        if not self.answer.done():
            self.answer.set_result(answer)


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
            dispatcher.release_all()

    async def close(self) -> None:
        """Stop all dispatchers; polls that still wait are not answered."""
        tasks = [dispatcher.task for dispatcher in self._running.values()]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def claim(self, scope_id: int, command: AcquireCommand, *, wait_s: float) -> Assigned | None:
        """A task for this poll, which must have been admitted; None if there was none in time or it needs none.

        Nothing is held while it waits (DLV-038). Without a wait there is one look. Raises `unavailable` when too many
        polls wait, or when the look failed.
        """
        if self.waiting >= WAITING:
            raise Refusal("unavailable", "too many polls wait; repeat the poll later")
        if wait_s > 0 and self._draining:  # its patience was reckoned before the waits ended
            return None
        key = (scope_id, command.queue)
        dispatcher = self._running.get(key)
        if dispatcher is None:
            dispatcher = self._running[key] = Dispatcher(
                self._transitions, self._claiming(*key), *key, on_end=lambda: self._running.pop(key)
            )
        waiter = Waiter(command=command, patient=wait_s > 0)
        dispatcher.add(waiter)
        self.waiting += 1
        try:
            async with asyncio.timeout(wait_s or None):
                return await waiter.answer
        except TimeoutError:
            return None
        finally:
            self.waiting -= 1
            dispatcher.remove(waiter)


class Dispatcher:
    """Claims from one queue until no poll waits any more; then calls `on_end`."""

    def __init__(
        self,
        transitions: Transitions,
        claiming: Claiming,
        scope_id: int,
        queue: str,
        *,
        on_end: Callable[[], object],
    ) -> None:
        self._transitions = transitions
        self._claiming = claiming
        self._scope_id = scope_id
        self._queue = queue
        self._waiters: dict[Waiter, None] = {}
        self._bell = Bell()
        self._judged_at = asyncio.get_running_loop().time()
        self.task = asyncio.create_task(self._run(on_end), context=Context())  # not that of the first poll

    def ring(self) -> None:
        self._bell.ring()

    def judge_again(self) -> None:
        self._judged_at = float("-inf")
        self._bell.ring()

    def add(self, waiter: Waiter) -> None:
        self._waiters[waiter] = None
        self._bell.ring()

    def remove(self, waiter: Waiter) -> None:
        self._waiters.pop(waiter, None)
        if not self._waiters:
            self._bell.ring()

    def release_all(self) -> None:
        for waiter in self._waiters:
            waiter.release()

    async def _run(self, on_end: Callable[[], object]) -> None:
        rest = LOOK_S
        try:
            while True:
                rung = await self._bell.rest(rest)
                if not self._waiters:
                    return
                rest = await self._turn(hopeful=rung)
        finally:
            on_end()

    async def _turn(self, *, hopeful: bool) -> float:
        """Serve whom there is work for; the seconds after which something may have changed.

        `hopeful` if somebody said that there may be work: then a claim comes before the look.
        """
        impatient = [waiter for waiter in self._waiters if not waiter.patient]
        rest = LOOK_S
        try:
            async with self._transitions.pool.acquire() as connection:
                if hopeful:
                    await self._claim(connection, BATCH)
                while self._open():
                    work = await self._look(connection)
                    if work.ahead_ms is not None:
                        rest = min(work.ahead_ms / 1000, LOOK_S)
                    if not work.ready or not await self._claim(connection, work.ready):
                        break
                await self._judge_again(connection)
        except ERRORS as error:  # whoever is patient waits on
            survived(error, _log, "dispatching failed")
            for waiter in impatient:
                if not waiter.answer.done():
                    waiter.answer.set_exception(Refusal("unavailable", "the store could not be reached"))
            return LOOK_S
        for waiter in impatient:
            waiter.release()
        return rest

    def _open(self) -> list[Waiter]:
        """Those without an answer, one of each consumer, in order of arrival."""
        waiting: dict[tuple[str, int], Waiter] = {}
        for waiter in self._waiters:
            if not waiter.answer.done():
                waiting.setdefault(waiter.consumer, waiter)
        return list(waiting.values())

    async def _look(self, connection: Connection) -> loads.Work:
        return await loads.work(connection, self._transitions.sql, self._scope_id, self._queue, BATCH)

    async def _claim(self, connection: Connection, most: int) -> bool:
        """Serve the first waiters with one decision; whether anybody was served or is to be judged again."""
        served = self._open()[: min(most, BATCH)]
        if not served:  # they were answered or left while a connection was awaited
            return False
        claims = await self._claiming(connection, [waiter.command for waiter in served])
        if claims is None:
            return False
        for position, reply in claims.assigned.items():
            served[position].release(reply)
        self._release(served[n] for n in (*claims.assigned, *claims.answered))
        return bool(claims.assigned or claims.answered)

    async def _judge_again(self, connection: Connection) -> None:
        """Once a second, find waiting polls whose session ended (DLV-037) or whose sequence is complete elsewhere."""
        now = asyncio.get_running_loop().time()
        waiting = self._open()
        if not waiting or now - self._judged_at < LOOK_S:
            return
        self._judged_at = now
        commands = [waiter.command for waiter in waiting]
        self._release(waiting[n] for n in await loads.answerable(connection, self._transitions.sql, commands))

    def _release(self, waiters: Iterable[Waiter]) -> None:
        """Let these, and other polls of the same consumers, be judged again."""
        consumers = {waiter.consumer for waiter in waiters}
        for waiter in self._waiters:
            if waiter.consumer in consumers:
                waiter.release()
