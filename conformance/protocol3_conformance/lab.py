"""What a scenario works with: a scope and queue of its own, actors, and polling with a deadline."""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from typing import TypeVar

from protocol3_conformance.crashes.outage import Outage
from protocol3_conformance.roles.client import Client
from protocol3_conformance.roles.controls import Controls
from protocol3_conformance.roles.worker import CONSUMERS, Worker
from protocol3_conformance.target import Target
from protocol3_conformance.wire.peer import Peer
from protocol3_conformance.wire.shapes import brief
from protocol3_conformance.wire.strict_json import JsonValue
from protocol3_conformance.wire.transcript import Transcript

T = TypeVar("T")
FIRST_PAUSE, LONGEST_PAUSE = 0.01, 0.25


@dataclass(slots=True, kw_only=True)
class Lab:
    """One scenario's view of the target. Everything it names is its own; nothing is shared with another scenario.

    `random` is seeded by `--seed` and the check ID, so that a run can be repeated. `outage` is when the target dies,
    None where it does not. `notes` go into the report.
    """

    target: Target
    check_id: str
    peer: Peer
    random: random.Random
    outage: Outage | None = None
    notes: list[str] = field(default_factory=list)
    controls: Controls = field(init=False)
    _counter: int = 0

    def __post_init__(self) -> None:
        self.controls = Controls(self)

    @classmethod
    @asynccontextmanager
    async def open(cls, target: Target, check_id: str, outage: Outage | None = None) -> AsyncIterator[Lab]:
        peer = Peer(endpoint=target.endpoint, ids=target.ids, seconds=target.patience.exchange)
        chosen = random.Random(f"{target.seed}:{check_id}")  # noqa: S311 - not for secrets
        lab = cls(target=target, check_id=check_id, peer=peer, random=chosen, outage=outage)
        try:
            yield lab
        finally:
            await lab.controls.close()
            peer.close()

    @property
    def transcript(self) -> Transcript:
        return self.peer.transcript

    @property
    def scope(self) -> dict[str, str]:
        """The scenario's scope: a namespace of its own, or the fixed scope of the target."""
        tenant, namespace = self.target.scope or ("conformance", f"{self.target.run}:{self.check_id}")
        return {"tenant_id": tenant, "namespace": namespace}

    @property
    def other_scope(self) -> dict[str, str]:
        """A second scope; on a target bound to one scope it is a foreign one."""
        return {**self.scope, "namespace": f"{self.scope['namespace']}:other"}

    @property
    def queue(self) -> str:
        return f"{self.target.queue}:{self.target.run}:{self.check_id}"

    @property
    def child_queue(self) -> str:
        """A second queue, for the children of workflows."""
        return f"{self.queue}:children"

    def unique(self, name: str) -> str:
        """A name that no other call of any run gives."""
        self._counter += 1
        return f"{name}:{self.target.run}:{self.check_id}:{self._counter}"

    @property
    def client(self) -> Client:
        """A scripted client in the scenario's scope."""
        return Client(lab=self, scope=self.scope)

    def client_in(self, scope: dict[str, str]) -> Client:
        """A scripted client in another scope."""
        return Client(lab=self, scope=scope)

    async def worker(self, *, concurrency: int = CONSUMERS, queue: str | None = None) -> Worker:
        """A scripted worker with a fresh session on the scenario's queue (or another one)."""
        return await Worker.open(self, queue=queue or self.queue, concurrency=concurrency)

    async def until(
        self,
        what: str,
        look: Callable[[], Awaitable[T]],
        holds: Callable[[T], bool],
        *,
        show: Callable[[T], JsonValue] = lambda seen: seen,
        not_before_ms: int = 0,
    ) -> T:
        """Look again and again until the condition holds. Fails with the last look, shown as JSON, when time is up.

        `not_before_ms`: a time that must pass first, such as the rest of a lease; nobody looks meanwhile.
        """
        await self.pass_time(not_before_ms)
        deadline = time.monotonic() + self.target.patience.progress
        pause = FIRST_PAUSE
        while not holds(seen := await look()):
            if time.monotonic() > deadline:
                limit = f"{self.target.patience.progress:g} s"
                raise AssertionError(f"{what}: not seen within {limit}; the last look gave {brief(show(seen), 600)}")
            await asyncio.sleep(pause)
            pause = min(pause * 2, LONGEST_PAUSE)
        return seen

    async def pass_time(self, milliseconds: int) -> None:
        """Let time pass that a rule itself is about, such as the rest of a lease; never to let something settle.

        The clock of the scope is moved where the target offers that; leases and sessions run out by it.
        """
        if self.target.moves_time and milliseconds > 0:
            await self.controls.advance(milliseconds)
        else:
            await asyncio.sleep(milliseconds / 1000)

    def measure(self, name: str, value: float, unit: str) -> None:
        """Report a figure that nobody judges, such as ("from restart to delivery", 412, "ms")."""
        self.transcript.measurements.append({"name": name, "value": value, "unit": unit})

    @contextmanager
    def case(self, name: str) -> Iterator[None]:
        """Name the case of a table in the failure message."""
        try:
            yield
        except AssertionError as failure:
            failure.add_note(f"in the case: {name}")
            raise
