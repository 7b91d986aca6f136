"""A scripted worker: one session, its consumers, and nothing that the scenario did not ask for."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from protocol3_conformance.roles.activation import Activation
from protocol3_conformance.roles.answer import Answer
from protocol3_conformance.roles.claim import Claim

if TYPE_CHECKING:
    from protocol3_conformance.lab import Lab


CONSUMERS = 100
"""Enough that a scenario need not think about consumers: every claim takes one that holds nothing."""


@dataclass(slots=True)
class Worker:
    """A worker session. `sequences` holds the last completed acquisition sequence per consumer."""

    lab: Lab
    session: dict[str, Any]
    sequences: dict[int, int] = field(default_factory=dict)
    idle: list[int] = field(default_factory=list)

    @classmethod
    async def open(cls, lab: Lab, *, queue: str, concurrency: int = CONSUMERS) -> Worker:
        command = {"scope": lab.scope, "queue": queue, "concurrency": concurrency}
        session = Answer(await lab.peer.post("/v1/worker-sessions", command)).accepted()
        return cls(lab, session, idle=list(range(min(concurrency, CONSUMERS))))

    def command(self, sequence: int, consumer: int = 0, **members: Any) -> dict[str, Any]:
        """An acquisition command; `members` replace or extend."""
        return {
            "scope": self.session["scope"],
            "queue": self.session["queue"],
            "worker_session_id": self.session["id"],
            "consumer_id": consumer,
            "sequence": sequence,
            **members,
        }

    async def acquire(self, sequence: int, consumer: int = 0, **members: Any) -> Answer:
        """One acquisition with exactly this sequence; nothing is counted."""
        return Answer(await self.lab.peer.post("/v1/acquisitions", self.command(sequence, consumer, **members)))

    async def poll(self, consumer: int, **members: Any) -> Any:
        """The next sequence of a consumer; the accepted reply."""
        sequence = self.sequences.get(consumer, 0) + 1
        reply = (await self.acquire(sequence, consumer, **members)).accepted()
        self.sequences[consumer] = sequence
        if reply["disposition"] == "assigned" and consumer in self.idle:
            self.idle.remove(consumer)
        return reply

    async def claim(self, consumer: int | None = None) -> Claim:
        """Poll until something is assigned to this consumer, or to an idle one. Fails when patience is over."""
        chosen = self.idle[0] if consumer is None else consumer
        deadline = time.monotonic() + self.lab.target.patience.progress
        while (reply := await self.poll(chosen, wait_ms=self.lab.target.patience.poll_ms))["disposition"] == "empty":
            limit = f"{self.lab.target.patience.progress:g} s"
            assert time.monotonic() < deadline, f"nothing came from queue {self.session['queue']} within {limit}"
        assert reply["disposition"] == "assigned", f"a new sequence cannot be {reply['disposition']}"
        return Claim(self.lab, reply["assignment"])

    async def running(self, consumer: int | None = None) -> Claim:
        """A claim with dispatch authorised."""
        claim = await self.claim(consumer)
        authority = await claim.dispatch()
        assert authority["dispatch_allowed"], "a fresh attempt was not allowed to dispatch (DLV-058)"
        return claim

    async def activation(self, consumer: int | None = None) -> Activation:
        """A claimed, dispatched activation with its context."""
        claim = await self.running(consumer)
        return Activation(self.lab, claim.assignment, claim.renewed, (await claim.context()).accepted())

    async def nothing(self) -> None:
        """A poll of an idle consumer, without waiting, must find nothing."""
        reply = await self.poll(self.idle[0])
        assert reply["disposition"] == "empty", f"expected an empty poll, came {reply['disposition']}"
