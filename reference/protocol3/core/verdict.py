"""What a decision returns, and what it is given: the clock and fresh identifiers.

Every transition is `decide(loaded, command, clock, fresh) -> Verdict`, a pure function. The store applies an
`Accepted` under its guards, or decides again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from hashlib import blake2b
from typing import Any, Literal, TypeAlias, TypeVar

from protocol3.core.records import Agenda, Obligation, Record

GuardKind: TypeAlias = Literal["clock", "session", "cursor", "workflow", "task", "obligation"]
#: The one lock order of the whole system; `apply` and the locked form both sort by it, then by id.
LOCK_ORDER: tuple[GuardKind, ...] = ("clock", "session", "cursor", "workflow", "task", "obligation")


@dataclass(frozen=True, slots=True, kw_only=True)
class Clock:
    """`now`: scope time in ms as the load read it; `offset`: what the scope is ahead of the database's own clock.

    `scope_id` is None where no scope can be ahead; else a decision stands only while the scope is that much ahead.
    """

    now: int
    offset: int = 0
    scope_id: int | None = None

    @property
    def real(self) -> int:
        """The database's own clock; claim leases and backoff use it, the contract's times never do."""
        return self.now - self.offset

    def at_least(self, *instants: int | None) -> Clock:
        """A clock that never runs behind an instant already recorded (time is monotone per record)."""
        newest = max((i for i in instants if i is not None), default=self.now)
        return self if newest <= self.now else replace(self, now=newest)

    @property
    def guards(self) -> tuple[Guard, ...]:
        """What a decision by this clock relies on: nobody advanced it meanwhile."""
        if self.scope_id is None:
            return ()
        return (Guard(kind="clock", id=str(self.scope_id), version=self.offset, seen=True),)


class Fresh:
    """Supplies identifiers derived from a seed and an instant in ms that the caller drew: the same give the same.

    A prefix and 128 random bits, of which another identifier tells nothing: opaque, unique, never used again
    (TASK-043). Between them stand 48 bits of the instant: new rows then lie side by side in an index, on few pages.
    Nothing relies on that order.
    """

    __slots__ = ("_count", "_drawn_at", "_seed")

    def __init__(self, seed: bytes, drawn_at: int) -> None:
        self._seed = seed
        self._drawn_at = f"{drawn_at:012x}"
        self._count = 0

    def __call__(self, prefix: str) -> str:
        self._count += 1
        drawn = blake2b(self._count.to_bytes(4, "big"), key=self._seed, digest_size=16)
        return f"{prefix}_{self._drawn_at}{drawn.hexdigest()}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Guard:
    """A record whose version the decision relied on. `seen` ones are compared, the others are also rewritten.

    `part` is the consumer number of a cursor and 0 elsewhere.
    """

    kind: GuardKind
    id: str
    version: int
    part: int = 0
    seen: bool = False

    @property
    def order(self) -> tuple[int, str, int]:
        return (LOCK_ORDER.index(self.kind), self.id, self.part)


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueWake:
    """A task of this queue may have become claimable: waiting polls look again."""

    scope_id: int
    queue: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ObligationWake:
    """This obligation was committed by this decision: handle it at once."""

    obligation: Obligation


@dataclass(frozen=True, slots=True, kw_only=True)
class AgendaWake:
    """An agenda entry was written: the due loop may have to rise earlier. `due_real` is by the database's own clock."""

    due_real: int


Wake: TypeAlias = QueueWake | ObligationWake | AgendaWake


@dataclass(frozen=True, slots=True, kw_only=True)
class Accepted:
    """The decision stands if the guards hold and the database's clock is before `valid_until_real` (None: no bound).

    `records` are written whole (inserted or replaced by key); `done` names obligations to delete, `unscheduled`
    agenda entries (kind, ref) to delete. `reply` is handed to the caller after the commit. Wakes are hints.
    """

    reply: Any
    records: tuple[Record, ...] = ()
    guards: tuple[Guard, ...] = ()
    valid_until_real: int | None = None
    done: tuple[str, ...] = ()
    unscheduled: tuple[tuple[str, str], ...] = ()
    wakes: tuple[Wake, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Replay:
    """Nothing to write: the identity was already decided, or the operation is a no-op."""

    reply: Any


@dataclass(frozen=True, slots=True, kw_only=True)
class Rejected:
    """Refused with a contract error code; nothing changes.

    `guards` are given when the refusal relies on the clock: a statement's snapshot is older than the clock it reads,
    so the decision is made again under these locks before it is believed.
    """

    code: str
    message: str | None = None
    guards: tuple[Guard, ...] = ()


Verdict: TypeAlias = Accepted | Replay | Rejected

Question = TypeVar("Question")


def judged(checks: Iterable[Callable[[Question], Verdict | None]], question: Question) -> Verdict | None:
    """The verdict of the first check that has one. The order of an operation's checks is the contract's, as data."""
    for check in checks:
        verdict = check(question)
        if verdict is not None:
            return verdict
    return None


@dataclass(slots=True)
class Draft:
    """Collects the parts of an `Accepted` while a decision is built from smaller pure steps."""

    records: list[Record] = field(default_factory=list)
    guards: list[Guard] = field(default_factory=list)
    done: list[str] = field(default_factory=list)
    unscheduled: list[tuple[str, str]] = field(default_factory=list)
    wakes: list[Wake] = field(default_factory=list)

    def write(self, *records: Record) -> None:
        self.records.extend(records)

    def guard(self, *guards: Guard) -> None:
        self.guards.extend(guards)

    def wake(self, *wakes: Wake) -> None:
        self.wakes.extend(wakes)

    def extend(self, other: Draft) -> None:
        for name in ("records", "guards", "done", "unscheduled", "wakes"):
            getattr(self, name).extend(getattr(other, name))

    def accepted(self, reply: Any, clock: Clock, *, valid_until: Iterable[int | None] = ()) -> Accepted:
        """Freeze. `valid_until` lists the scope instants at which the decision would differ; the earliest counts.

        Every agenda entry wakes the due loop.
        """
        bounds = [bound - clock.offset for bound in valid_until if bound is not None]
        entries = [AgendaWake(due_real=r.due - clock.offset) for r in self.records if isinstance(r, Agenda)]
        return Accepted(
            reply=reply,
            records=tuple(self.records),
            guards=(*clock.guards, *self.guards),
            valid_until_real=min(bounds, default=None),
            done=tuple(self.done),
            unscheduled=tuple(self.unscheduled),
            wakes=(*self.wakes, *entries),
        )
