"""Three coordinator processes on one database, and what a race needs of them: who gets a command, rules, row locks."""

from __future__ import annotations

import asyncio
import itertools
import random
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager, contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import asyncpg

from protocol3.contract.models.common import Descriptor, ProgramRef
from protocol3.programs.layout import descriptor_path, encode_descriptor
from protocol3_conformance.lab import Lab
from protocol3_conformance.roles.answer import Answer
from protocol3_conformance.target import PROFILES, Patience, Target
from protocol3_conformance.wire.exchange import Exchange, RequestIds
from protocol3_conformance.wire.faults import TransportFault
from protocol3_conformance.wire.peer import Endpoint, Peer
from system import System

PATIENCE_S = 30.0
"""A hang is a failure; nothing waits this long in a passing run."""
PROGRAM = ("hello", "1")
#: A program that every coordinator's store holds in another build.
TWIN = ("twin", "1")

#: The coordinator that gets the commands of this context; None: each one in turn.
PINNED: ContextVar[int | None] = ContextVar("pinned", default=None)


@contextmanager
def pinned(at: int) -> Iterator[None]:
    """Commands go to one coordinator."""
    token = PINNED.set(at)
    try:
        yield
    finally:
        PINNED.reset(token)


#: A common call waits for a lock for some milliseconds only, then its members go alone, to the end of the line.
_BLOCKED = """
with recursive blocked(pid, stays) as (
  select $1::integer, false
  union
  select a.pid, a.query not like 'select apply_together%'
  from pg_stat_activity a join blocked b on b.pid = any(pg_blocking_pids(a.pid)))
select count(*) from blocked where stays
"""
#: Only the race is under way in the database.
_WAITING = "select count(*) from pg_stat_activity where datname = current_database() and wait_event_type = 'Lock'"
_ROWS = {
    "workflow": "select from workflow where id = $1 for update",
    "task": "select from task where id = $1 for update",
    "clock": "select from scope where namespace = $1 for update",
}
_OWED = """
select 1 from obligation o join scope s on s.id = o.scope_id
where s.namespace = $1 and (o.kind <> 'drain' or o.version = 0) limit 1
"""


@dataclass(slots=True, kw_only=True)
class Arena:
    """The processes. `lost` counts exchanges that ended without a reply and were repeated at another coordinator."""

    system: System
    dsn: str
    names: list[str]
    lost: int = 0
    ids: RequestIds = field(default_factory=RequestIds)
    _rounds: itertools.count[int] = field(default_factory=itertools.count)

    @classmethod
    def start(cls, folder: Path, dsn: str, coordinators: int = 3) -> Arena:
        """Start the coordinators on a migrated database and wait until they are ready."""
        names = [f"coordinator-{n}" for n in range(coordinators)]
        arena = cls(system=System(folder, tenant="races", database_url=dsn), dsn=dsn, names=names)
        for number, name in enumerate(names):
            publish(folder / f"store-{name}", number)
        with ThreadPoolExecutor() as pool:
            list(pool.map(arena.start_one, names))
        return arena

    def start_one(self, name: str) -> None:
        store = str(self.system.folder / f"store-{name}")
        self.system.start_coordinator("--test-controls", "--store", store, name=name)

    def restart(self, name: str) -> None:
        """kill -9, then the same command again."""
        self.system.kill(name)
        self.start_one(name)

    def stop(self) -> None:
        for name in self.names:
            self.system.kill(name)

    @asynccontextmanager
    async def lab(self, check_id: str, seed: int = 0) -> AsyncIterator[RaceLab]:
        """A scope of its own for one race."""
        endpoints = [Endpoint.parse(self.system.urls[name]) for name in self.names]
        run = f"{check_id}-{next(self._rounds)}"
        target = Target(
            endpoint=endpoints[0],
            profiles=frozenset(PROFILES),
            scope=("races", run),
            program=PROGRAM,
            patience=Patience(),
            seed=seed,
            run=run,
            ids=self.ids,
        )
        peers = [Peer(endpoint=each, ids=self.ids, seconds=target.patience.exchange) for each in endpoints]
        path = {"search_path": "protocol3"}
        store = await asyncpg.create_pool(self.dsn, min_size=1, max_size=4, server_settings=path)
        chance = random.Random(f"{seed}:{run}")
        ring: Any = Ring(self, peers, chance)  # it has of a peer what the roles use
        try:
            yield RaceLab(
                target=target, check_id=check_id, peer=ring, random=chance, arena=self, each=peers, store=store
            )
        finally:
            await asyncio.gather(*(_clear(peer, target.scope) for peer in peers))
            for peer in peers:
                peer.close()
            await store.close()


async def _clear(peer: Peer, scope: tuple[str, str] | None) -> None:
    """Rules of a race that failed must not outlive it: shutting down and later races would wait for what they hold."""
    assert scope is not None
    await peer.post("/testing/v1/faults/clear", {"scope": {"tenant_id": scope[0], "namespace": scope[1]}})


def publish(store: Path, number: int) -> None:
    """A store in which the programs are published, as far as a coordinator looks."""
    for (name, version), digest in ((PROGRAM, "sha256:" + "a" * 64), (TWIN, digest_at(number))):
        program = ProgramRef(id=name, version=version)
        path = store / descriptor_path(program)
        path.parent.mkdir(parents=True)
        path.write_bytes(encode_descriptor(Descriptor(program=program, digest=digest, size=4321)))


def digest_at(number: int) -> str:
    """The digest of the twin program in the store of a coordinator."""
    return "sha256:" + f"{number:x}" * 64


class Ring:
    """Sends to each coordinator in turn, or to the pinned one; a lost exchange is repeated at the next (HTTP-068)."""

    def __init__(self, arena: Arena, peers: Sequence[Peer], chance: random.Random) -> None:
        self._arena = arena
        self._peers = peers
        self._turn = itertools.count(chance.randrange(len(peers)))

    async def get(self, path: str, query: dict[str, str] | str = "") -> Exchange:
        return await self._persist(lambda peer: peer.get(path, query))

    async def post(self, path: str, body: Any) -> Exchange:
        return await self._persist(lambda peer: peer.post(path, body))

    async def _persist(self, send: Callable[[Peer], Any]) -> Exchange:
        pinned = PINNED.get()
        for at in itertools.count(next(self._turn) if pinned is None else pinned):
            try:
                exchange: Exchange = await send(self._peers[at % len(self._peers)])
                return exchange
            except TransportFault:
                self._arena.lost += 1
                if at > 100:
                    raise
        raise AssertionError


@dataclass(slots=True, kw_only=True)
class RaceLab(Lab):
    """A scenario's lab with hands on the processes: `each` speaks to one coordinator, `store` to the database."""

    arena: Arena
    each: list[Peer]
    store: asyncpg.Pool[asyncpg.Record]

    async def test(self, at: int, path: str, **members: Any) -> Any:
        """A command of the testing profiles to one coordinator."""
        return Answer(await self.each[at].post(f"/testing/v1/{path}", {"scope": self.scope} | members)).accepted()

    async def rule(self, what: str, *acts: str, where: str = "received", at: int | None = None, **more: Any) -> None:
        """Rules for one coordinator or all, of a step by its name or of a POST route by its path. They strike once."""
        match = {"method": "POST", "path": what} if what.startswith("/") else {"step": what}
        for number in range(len(self.each)) if at is None else (at,):
            for act in acts:
                shape = {"kind": act, "ms": 0} if act == "delay" else {"kind": act}
                await self.test(number, "faults", match=match, where=where, act=shape, **more)

    async def held(self, at: int) -> int:
        """How many occasions a coordinator holds in this scope."""
        return len(Answer(await self.each[at].get("/testing/v1/faults", self.scope)).accepted()["held"])

    async def until_held(self, at: int, count: int = 1) -> None:
        await self.eventually(lambda: self.held(at), lambda held: held >= count)

    async def release(self, *at: int) -> None:
        """Let go what these coordinators hold, or all of them."""
        await asyncio.gather(*(self.test(number, "faults/release") for number in at or range(len(self.each))))

    async def clear(self) -> None:
        """Forget all rules of the scope, and let go what they hold."""
        await asyncio.gather(*(self.test(number, "faults/clear") for number in range(len(self.each))))

    async def advance(self, ms: int) -> Any:
        """The clock of the scope; leases and sessions run out."""
        at = PINNED.get() or 0
        return await self.test(at, "clock", advance_ms=ms)

    async def eventually(self, look: Callable[[], Any], enough: Callable[[Any], bool]) -> Any:
        async with asyncio.timeout(PATIENCE_S):
            while not enough(found := await look()):
                await asyncio.sleep(0.003)
        return found

    async def until_somebody_waits(self) -> None:
        """A session waits for another one's lock."""
        await self.eventually(lambda: self.store.fetchval(_WAITING), bool)

    async def nothing_owed(self) -> None:
        """Every decision, end and wake of the scope was handled, and every drain has asked what it has to."""
        namespace = self.scope["namespace"]
        await self.eventually(lambda: self.store.fetchval(_OWED, namespace), lambda owed: owed is None)

    @asynccontextmanager
    async def holding(self, table: str, key: str) -> AsyncIterator[Callable[[int], Any]]:
        """Hold a row in a session of its own; yields a coroutine that returns once so many sessions wait behind it."""
        holder = await asyncpg.connect(self.arena.dsn, server_settings={"search_path": "protocol3"})
        try:
            async with holder.transaction():
                await holder.execute(_ROWS[table].replace("$1", f"'{key}'"))
                pid = holder.get_server_pid()

                async def until_blocked(count: int) -> None:
                    await self.eventually(lambda: self.store.fetchval(_BLOCKED, pid), lambda blocked: blocked >= count)

                yield until_blocked
        finally:
            await holder.close()
