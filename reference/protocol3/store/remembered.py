"""What this process last wrote or loaded about whoever holds a lease, so that the next decision needs no load.

A remembered record is never believed: a decision made of it counts only if it is `Accepted` and `apply` finds every
version that it relied on, as for a decision made of a load. Anything else (a miss, a refusal, a replay) is decided anew
after a load. Several processes may write to the database; then decisions miss, and none is wrong.

What the decisions of `recalled_renewal` and `recalled_local` rely on, and what tells that it is still so:

    session                  its version, seen
    cursor                   its version, seen
    task                     its version, which both move
    attempt                  the version of its task: whoever changes an attempt moves it
    workflow                 its version, seen
    activation               both versions, of its task and of its workflow: a fork changes it and moves the workflow
                             alone, a local result changes it and moves the task alone
    no record under a key    the unique key of local records: a violation is a miss
    scope, owner, bodies     never change
    the scope's clock        its guard, where scopes have clocks of their own
    time                     `valid_until_real`: every instant at which the decision would differ, compared with the
                             database's clock after the locks

So attempt, activation and workflow are remembered with their task, as of one snapshot (`Leased`). A commit of this
process carries them along if it was made of exactly the remembered versions; after any other they are unknown.
Sessions and cursors are single records, true at their version.

Without a load the date of a decision comes from the latest loads, by the time that has passed since: never later than
the database's clock, and when it is applied at most `LAG_MS` earlier, which the database compares too. That is less
than what a worker leaves of every lease for itself (DLV-201). Nothing that lists show is dated so (DISC-020).
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, Final, TypeAlias, TypeVar

from protocol3.core.records import Activation, Attempt, Cursor, Session, Task, Workflow
from protocol3.core.renewal import Renewing
from protocol3.core.verdict import Accepted, Clock
from protocol3.core.workflow.context import ContextState
from protocol3.core.workflow.local import LocalState
from protocol3.store.outage import CutOff
from protocol3.store.tables import BY_RECORD, key_of, named

#: Tasks, sessions, cursors and clocks that a process remembers, 6 KiB at most each; beyond that the oldest go.
MOST: Final = 4_096
#: Seconds for which a look at the database's clock serves.
FRESH_S: Final = 0.25
#: Milliseconds that a date may be behind the database's clock when its decision is applied.
LAG_MS: Final = 250
#: Seconds after a miss in which nothing is recalled: other processes work on the same tasks, and each miss is a round
#: trip in vain, also for those that share its call.
REST_S: Final = 1.0

Key: TypeAlias = tuple[str, str, int]
Loaded = TypeVar("Loaded")

_REMEMBERED: Final = frozenset({Session, Cursor, Task, Attempt, Workflow, Activation})


@dataclass(frozen=True, slots=True, kw_only=True)
class Leased:
    """An active task with its current attempt at one version of the task; of an activation also its budgets and its
    workflow, at one version of both.
    """

    task: Task
    attempt: Attempt
    activation: Activation | None = None
    workflow: Workflow | None = None


class Memory:
    """Filled by every load and every commit of a process. `virtual` tells that scopes have clocks of their own."""

    def __init__(self, *, virtual: bool = False) -> None:
        self._virtual = virtual
        self._known: dict[Key, Any] = {}
        self._rests_until = 0.0
        self._era = 0
        self._ahead = self._told_at = float("-inf")
        self._latest = 0

    @property
    def ready(self) -> bool:
        """Whether it makes sense to ask."""
        self._look_around()
        now = time.monotonic()
        return now >= self._rests_until and now - self._told_at <= FRESH_S

    def clock(self, scope_id: int) -> Clock | None:
        """The time of a scope, at most a little behind; None where the latest loads do not tell."""
        estimated = int(self._ahead + time.monotonic() * 1_000)
        if self._latest - estimated > LAG_MS:
            return None  # the database's clock was set back
        self._latest = now = max(estimated, self._latest)
        if not self._virtual:
            return Clock(now=now)
        offset: int | None = self._find(("clock", str(scope_id), 0))
        return None if offset is None else Clock(now=now + offset, offset=offset, scope_id=scope_id)

    def in_time(self, verdict: Accepted) -> Accepted:
        """The verdict by the clock just given, which stands only if that is not late by the database's own."""
        bound, known = self._latest + LAG_MS, verdict.valid_until_real
        return replace(verdict, valid_until_real=bound if known is None else min(bound, known))

    def session(self, id: str) -> Session | None:
        found: Session | None = self._find(("session", id, 0))
        return found

    def cursor(self, session_id: str, consumer_id: int) -> Cursor | None:
        found: Cursor | None = self._find(("cursor", session_id, consumer_id))
        return found

    def leased(self, task_id: str) -> Leased | None:
        found: Leased | None = self._find(("task", task_id, 0))
        return found

    def learn(self, loaded: object) -> None:
        """What a load brought, from one snapshot, a moment ago."""
        self._look_around()
        clock = getattr(loaded, "clock", None)
        if isinstance(clock, Clock) and clock.now is not None:  # what was not found has no scope, and no time
            self._tell(clock)
        match loaded:
            case Renewing(session=session, cursor=cursor, task=task, attempt=attempt):
                if session is not None:
                    self._keep(("session", session.id, 0), session)
                if cursor is not None:
                    self._keep(("cursor", cursor.session_id, cursor.consumer_id), cursor)
                self._learn_leased(task, attempt)
            case LocalState(named=found) | ContextState(named=found):
                self._learn_leased(found.task, found.attempt, found.activation, found.workflow)

    def committed(self, verdict: Accepted) -> None:
        """This was applied just now: what it wrote is what there is."""
        self._look_around()
        versions = {(g.kind, g.id, g.part): g.version + 1 for g in verdict.guards if not g.seen}
        written: dict[tuple[type[Any], Any], Any] = {}
        followed: dict[str, None] = {}
        for record in verdict.records:
            if type(record) not in _REMEMBERED:
                continue
            key, table, left = key_of(record), BY_RECORD[type(record)], record
            if table.guard is not None:
                left = _at_version(record, versions.get(named(table, key), 0))
            match left:
                case Session(id=id):
                    self._keep(("session", id, 0), left)
                case Cursor(session_id=id, consumer_id=consumer_id):
                    self._keep(("cursor", id, consumer_id), left)
                case Task(id=id) | Attempt(task_id=id) | Activation(task_id=id) | Workflow(activation_id=str(id)):
                    followed[id] = None
            written[type(record), key] = left
        for task_id in followed:
            leased = _after(self._known.pop(("task", task_id, 0), None), task_id, written)
            if leased is not None:
                self._keep(("task", task_id, 0), leased)

    def missed(self, verdict: Accepted) -> None:
        """Something that this decision was made of is no longer so."""
        for guard in verdict.guards:
            self._known.pop((guard.kind, guard.id, guard.part), None)
        self._rests_until = time.monotonic() + REST_S

    def _learn_leased(
        self,
        task: Task | None,
        attempt: Attempt | None,
        activation: Activation | None = None,
        workflow: Workflow | None = None,
    ) -> None:
        if task is None or attempt is None or attempt.id != task.current_attempt_id:
            return
        key = ("task", task.id, 0)
        former: Leased | None = self._known.get(key)
        if activation is None and former is not None and former.task.version == task.version:
            activation, workflow = former.activation, former.workflow
        self._keep(key, Leased(task=task, attempt=attempt, activation=activation, workflow=workflow))

    def _tell(self, clock: Clock) -> None:
        """Of the looks at the database's clock the one that came fastest tells best how far ahead of ours it is."""
        arrived = time.monotonic()
        ahead = clock.real - arrived * 1_000
        if ahead >= self._ahead or arrived - self._told_at > FRESH_S:
            self._ahead, self._told_at = ahead, arrived
        if clock.scope_id is not None:
            self._keep(("clock", str(clock.scope_id), 0), clock.offset)

    def _look_around(self) -> None:
        """With every new connection all is forgotten: it may lead to another server, or to a restored database."""
        if self._era != CutOff.made:
            self._era = CutOff.made
            self._known.clear()
            self._ahead = self._told_at = float("-inf")
            self._latest = 0

    def _keep(self, key: Key, value: Any) -> None:
        self._known.pop(key, None)
        self._known[key] = value
        if len(self._known) > MOST:
            del self._known[next(iter(self._known))]

    def _find(self, key: Key) -> Any:
        value = self._known.pop(key, None)
        if value is not None:
            self._known[key] = value
        return value


#: Builds of what is remembered the state that a load would bring; None where something is missing.
Recall: TypeAlias = Callable[[Memory], Loaded | None]


def _at_version(record: Any, version: int) -> Any:
    return replace(record, version=version)


def _after(former: Leased | None, task_id: str, written: dict[tuple[type[Any], Any], Any]) -> Leased | None:
    """What is known of a task after a commit that wrote this; None where it has no attempt, or nobody knows which."""
    task = written.get((Task, task_id))
    if task is None:
        if former is None or (Attempt, former.attempt.id) in written:
            return None
        task = former.task
    elif former is not None and former.task.version + 1 != task.version:
        former = None
    attempt = written.get((Attempt, task.current_attempt_id))
    if attempt is None and former is not None and former.attempt.id == task.current_attempt_id:
        attempt = former.attempt
    if attempt is None:
        return None
    if former is None or former.workflow is None:
        return Leased(task=task, attempt=attempt)
    workflow = written.get((Workflow, former.workflow.id), former.workflow)
    if workflow is not former.workflow and workflow.version != former.workflow.version + 1:
        return Leased(task=task, attempt=attempt)
    activation = written.get((Activation, task_id), former.activation)
    return Leased(task=task, attempt=attempt, activation=activation, workflow=workflow)
