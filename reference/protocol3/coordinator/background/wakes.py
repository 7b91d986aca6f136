"""Hints that follow a commit: who in this process should look again at once.

A wake is never the truth. Whoever misses one finds the same rows at its next look, at most a second later.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias, assert_never

from protocol3.core.records import Obligation
from protocol3.core.verdict import AgendaWake, ObligationWake, QueueWake, Wake

OnQueue: TypeAlias = Callable[[int, str], None]
OnObligation: TypeAlias = Callable[[Obligation], None]
OnAgenda: TypeAlias = Callable[[int], None]


class Wakes:
    """Distributes the wakes of every applied decision to the loops that subscribed."""

    def __init__(self) -> None:
        self._on_queue: list[OnQueue] = []
        self._on_obligation: list[OnObligation] = []
        self._on_agenda: list[OnAgenda] = []
        self.published = {"queue": 0, "obligation": 0, "agenda": 0}
        """How many of each kind so far."""

    def subscribe(
        self,
        *,
        on_queue: OnQueue | None = None,
        on_obligation: OnObligation | None = None,
        on_agenda: OnAgenda | None = None,
    ) -> None:
        """Add listeners; they run inside `publish` and must neither block nor raise."""
        if on_queue is not None:
            self._on_queue.append(on_queue)
        if on_obligation is not None:
            self._on_obligation.append(on_obligation)
        if on_agenda is not None:
            self._on_agenda.append(on_agenda)

    def publish(self, wakes: tuple[Wake, ...]) -> None:
        """Called with the wakes of a decision right after its commit."""
        for wake in wakes:
            match wake:
                case QueueWake(scope_id=scope_id, queue=queue):
                    self.published["queue"] += 1
                    for tell_queue in self._on_queue:
                        tell_queue(scope_id, queue)
                case ObligationWake(obligation=obligation):
                    self.published["obligation"] += 1
                    for tell_obligation in self._on_obligation:
                        tell_obligation(obligation)
                case AgendaWake(due_real=due_real):
                    self.published["agenda"] += 1
                    for tell_agenda in self._on_agenda:
                        tell_agenda(due_real)
                case _:
                    assert_never(wake)
