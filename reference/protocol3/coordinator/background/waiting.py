"""Polls that wait for one dispatcher, and whose turn it is among them."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import chain, islice
from typing import Final, TypeAlias

from protocol3.contract.models.delivery import AcquireCommand, AcquireEmpty
from protocol3.contract.refusal import Refusal
from protocol3.core.acquisition import Assigned

#: Polls served by one transaction.
BATCH: Final = 16
#: Of these, while it is time to claim, so many for who came first; the others for who is owed an answer, if anybody is.
FIRST: Final = 8

Reply: TypeAlias = Assigned | AcquireEmpty
Consumer: TypeAlias = tuple[str, int]


@dataclass(slots=True, eq=False)
class Waiter:
    """One poll. Its answer is None when it takes a decision of its own.

    `last` if it cannot wait (any longer); `placed` once it waits; `judged` while it need not be judged again. Once it
    is in a line, `Line` changes `last` and `judged`.
    """

    command: AcquireCommand
    last: bool
    placed: bool = False
    judged: bool = False
    answer: asyncio.Future[Reply | None] = field(default_factory=lambda: asyncio.get_running_loop().create_future())

    @property
    def consumer(self) -> Consumer:
        return self.command.worker_session_id, self.command.consumer_id

    @property
    def urgency(self) -> int:
        return 2 if self.last else 0 if self.judged else 1

    def release(self, answer: Reply | None = None) -> None:
        if not self.answer.done():
            self.answer.set_result(answer)

    def refuse(self, message: str) -> None:
        if not self.answer.done():
            self.answer.set_exception(Refusal("unavailable", message))


class Line:
    """Polls in order of arrival; of each consumer the most urgent one stands for all, at the place of the first.

    Every wake asks whose turn it is while the assignment waits, so that costs the same however many polls wait.
    """

    def __init__(self) -> None:
        self._polls: dict[Consumer, list[Waiter]] = {}
        self._urgent: dict[Consumer, None] = {}

    def __bool__(self) -> bool:
        return bool(self._polls)

    def __iter__(self) -> Iterator[Waiter]:
        """One for each consumer. The line must not change meanwhile."""
        return map(self._most_urgent, self._polls)

    def everybody(self) -> list[Waiter]:
        return list(chain.from_iterable(self._polls.values()))

    def turn(self, *, claims: bool) -> list[Waiter]:
        """The first ones of those that cannot be left alone; if it is time to claim, after the first ones of all.

        It may always be time to claim, and neither may then keep the other waiting (DLV-035).
        """
        turn = dict.fromkeys(islice(self._polls, FIRST) if claims else ())
        for consumer in chain(self._urgent, self._polls if claims else ()):
            if len(turn) == BATCH:
                break
            turn.setdefault(consumer)
        return [self._most_urgent(consumer) for consumer in turn]

    def add(self, waiter: Waiter) -> None:
        self._polls.setdefault(waiter.consumer, []).append(waiter)
        self._sort(waiter.consumer)

    def remove(self, waiter: Waiter) -> None:
        """It is answered, or left."""
        polls = self._polls.get(waiter.consumer, [])
        if waiter in polls:
            polls.remove(waiter)
            if not polls:
                del self._polls[waiter.consumer]
            self._sort(waiter.consumer)

    def hurry(self, waiter: Waiter) -> None:
        """Its wait is over."""
        waiter.last = True
        self._sort(waiter.consumer)

    def rest(self, waiter: Waiter) -> None:
        """It was judged: until something happens it is left alone, unless its wait is over."""
        waiter.judged = True
        self._sort(waiter.consumer)

    def judge(self, consumer: Consumer) -> None:
        """A poll of this consumer was answered: so may be its other ones."""
        for waiter in self._polls.get(consumer, ()):
            waiter.judged = False
        self._sort(consumer)

    def _most_urgent(self, consumer: Consumer) -> Waiter:
        polls = self._polls[consumer]
        return polls[0] if len(polls) == 1 else max(polls, key=lambda waiter: waiter.urgency)

    def _sort(self, consumer: Consumer) -> None:
        if any(waiter.urgency for waiter in self._polls.get(consumer, ())):
            self._urgent.setdefault(consumer)
        else:
            self._urgent.pop(consumer, None)
