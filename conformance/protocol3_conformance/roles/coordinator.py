"""The scripted coordinator: one queue of assignments, and an answer of the scenario's own wherever it wants one."""

from __future__ import annotations

import asyncio
import copy
import math
from collections import defaultdict
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any

from protocol3_conformance.bounds import bound
from protocol3_conformance.roles.reports import identity
from protocol3_conformance.wire.faults import TransportFault
from protocol3_conformance.wire.pipes import Process
from protocol3_conformance.wire.server import LOST, Raw, Server, reply
from protocol3_conformance.wire.strict_json import JsonValue, same
from protocol3_conformance.wire.transcript import Transcript
from protocol3_conformance.wire.values import require
from protocol3_spec.loader import errors

SESSIONS, EXTEND, ACQUISITIONS = "/v1/worker-sessions", "/v1/worker-sessions/extend", "/v1/acquisitions"
RENEWALS, SETTLEMENTS, CONFIRMATIONS = "/v1/renewals", "/v1/settlements", "/v1/quiescence-confirmations"
CONTEXTS, COMMITS, FORKS = (
    "/v1/workflows/activations/context",
    "/v1/workflows/local-results",
    "/v1/workflows/forks",
)
SCOPE = {"tenant_id": "north", "namespace": "reports"}
FAR = bound("MAX_TIMESTAMP_MS")

Answer = Callable[[JsonValue], Awaitable[Raw]]


@dataclass(slots=True, kw_only=True)
class Attempt:
    """One assignment, and what the worker said of it. `cancelled` and the times shape its authorities."""

    assignment: dict[str, Any]
    remaining_ms: int = bound("LEASE_MS")
    execution_ms: int = bound("DEFAULT_ATTEMPT_TIMEOUT_MS")
    cancelled: bool = False
    renewals: list[JsonValue] = field(default_factory=list)
    settlements: list[JsonValue] = field(default_factory=list)
    context: dict[str, Any] | None = None

    @property
    def owner(self) -> dict[str, Any]:
        owner: dict[str, Any] = self.assignment["lease"]["owner"]
        return owner

    def authority(self, sequence: int, *, dispatch: bool, **changes: Any) -> dict[str, Any]:
        return {
            "owner": self.owner,
            "expires_at": FAR,
            "remaining_ms": self.remaining_ms,
            "execution_remaining_ms": 0 if self.cancelled else self.execution_ms,
            "renew_sequence": sequence,
            "cancel_requested": self.cancelled,
            "dispatch_allowed": dispatch and not self.cancelled,
            **changes,
        }

    @property
    def report(self) -> dict[str, Any]:
        report: dict[str, Any] = self.settlements[-1]["report"]["report"]
        return report

    def told(self) -> tuple[Any, ...]:
        """(status, output or kind) of a completed report, (kind, phase, started) of a failed one."""
        if self.settlements[-1]["report"]["kind"] == "completed":
            outcome = self.report["outcome"]
            return (outcome["status"], outcome.get("output", outcome.get("kind")))
        return (self.report["error"]["kind"], self.report["phase"], self.report["execution_may_have_started"])


@dataclass(slots=True, kw_only=True)
class Coordinator:
    """Answers like a coordinator. `script` puts answers before the ordinary one, for the next requests of a route."""

    transcript: Transcript
    seconds: float
    queue: str
    attempts: dict[str, Attempt] = field(default_factory=dict)
    server: Server = field(init=False)
    _scripts: dict[str, list[Answer]] = field(default_factory=lambda: defaultdict(list))
    _waiting: list[Attempt] = field(default_factory=list)
    _cursors: dict[int, tuple[int, Attempt | None]] = field(default_factory=dict)
    _sessions: int = 0
    _changed: asyncio.Condition = field(default_factory=asyncio.Condition)

    def __post_init__(self) -> None:
        self.server = Server(answer=self._answer, transcript=self.transcript)

    def script(self, path: str, *answers: Answer) -> None:
        self._scripts[path].extend(answers)

    def unscript(self) -> None:
        """Answer ordinarily again."""
        self._scripts.clear()

    def sent(self, path: str) -> list[JsonValue]:
        """The commands of a route in order."""
        return [one.value for one in self.transcript.exchanges if one.path == path]

    def bodies(self, path: str) -> list[bytes]:
        return [one.body for one in self.transcript.exchanges if one.path == path]

    def times(self, path: str) -> list[float]:
        """When the requests of a route began, in milliseconds."""
        return [one.started_ms for one in self.transcript.exchanges if one.path == path]

    def replied(self, path: str, before: float = math.inf) -> float:
        """When the last reply of a route up to a moment was sent: what the worker does upon it comes later, however
        long a request is on its way.
        """
        return max(
            one.ended_ms
            for one in self.transcript.exchanges
            if one.path == path and one.ended_ms is not None and one.ended_ms < before
        )

    async def until(self, what: str, condition: Callable[[], Any], seconds: float | None = None) -> None:
        """Wait for a condition that exchanges change."""
        limit = seconds or self.seconds
        try:
            async with asyncio.timeout(limit), self._changed:
                await self._changed.wait_for(condition)
        except TimeoutError:
            raise TransportFault(f"{what}: not seen within {limit:g} s") from None

    async def until_ended(self, what: str, process: Process, condition: Callable[[], Any]) -> None:
        """Wait for a condition, no longer than the process lives."""
        ended = asyncio.create_task(process.ended())
        held = asyncio.create_task(self.until(what, condition))
        try:
            await asyncio.wait((ended, held), return_when=asyncio.FIRST_COMPLETED)
            if held.done():
                held.result()
            elif not condition():
                raise TransportFault(f"{what}: {process.said()}")
        finally:
            for task in (ended, held):
                task.cancel()
            await asyncio.gather(ended, held, return_exceptions=True)

    async def settled(self, attempt: Attempt, seconds: float | None = None) -> tuple[Any, ...]:
        """What the accepted report says."""
        await self.until(f"the report of {attempt.owner['attempt_id']}", lambda: attempt.settlements, seconds)
        return attempt.told()

    def prepare(self, descriptor: dict[str, Any], data: JsonValue = None, **changes: Any) -> Attempt:
        """An assignment that nobody has asked for yet; `event` changes the event."""
        number = len(self.attempts) + 1
        event = {
            "specversion": "1.0",
            "id": f"evt_{number}",
            "source": "urn:ledgence:orchestrator",
            "type": "com.ledgence.task.invocation.requested.v1",
            "subject": f"tasks/task_{number}",
            "time": "2026-03-01T12:00:01.543Z",
            "datacontenttype": "application/json",
            "ldgtenantid": SCOPE["tenant_id"],
            "ldgnamespace": SCOPE["namespace"],
            "ldgrunid": f"run_{number}",
            "ldgtaskid": f"task_{number}",
            "ldgattemptid": f"att_{number}",
            "ldgattemptno": 1,
            "data": data,
            **changes.pop("event", {}),
        }
        owner = {
            "scope": SCOPE,
            "task_id": f"task_{number}",
            "attempt_id": f"att_{number}",
            "lease_id": f"lease_{number}",
            "generation": 1,
            "worker_session_id": "ws_1",
            "consumer_id": 0,
        }
        assignment = {
            "descriptor": descriptor,
            "event": event,
            "lease": {"owner": owner, "expires_at": FAR},
            "authority": None,
            "attempt_deadline": FAR,
            **changes,
        }
        attempt = self.attempts[f"att_{number}"] = Attempt(assignment=assignment)
        return attempt

    async def assign(self, descriptor: dict[str, Any], data: JsonValue = None, **changes: Any) -> Attempt:
        """Give the next consumer that asks an attempt of this program."""
        attempt = self.prepare(descriptor, data, **changes)
        await self.offer(attempt)
        return attempt

    async def offer(self, attempt: Attempt) -> None:
        async with self._changed:
            self._waiting.append(attempt)
            self._changed.notify_all()

    async def activate(self, descriptor: dict[str, Any], data: JsonValue = None, **context: Any) -> Attempt:
        """Like `assign`, for a workflow activation with this context."""
        task_id = f"task_{len(self.attempts) + 1}"
        event = {"ldgworkflowid": "wf_1", "ldgactivationid": task_id}
        attempt = self.prepare(descriptor, data, event=event, workflow_activation_id=task_id)
        attempt.context = {
            "v": 1,
            "workflow_id": "wf_1",
            "activation_id": task_id,
            "revision": 0,
            "continuation": "start",
            "state": None,
            "inputs": {},
            "local_steps": [],
            **context,
        }
        await self.offer(attempt)
        return attempt

    async def again(self, first: Attempt, **context: Any) -> Attempt:
        """The next attempt of the same activation; `context` replaces members of its context."""
        event = first.assignment["event"]
        kept = {name: event[name] for name in event if name not in ("id", "ldgattemptid")}
        kept["ldgattemptno"] = event["ldgattemptno"] + 1
        activation_id = first.assignment["workflow_activation_id"]
        descriptor = first.assignment["descriptor"]
        attempt = self.prepare(descriptor, event=kept, workflow_activation_id=activation_id)
        attempt.owner.update(task_id=first.owner["task_id"], generation=kept["ldgattemptno"])
        assert first.context is not None
        attempt.context = {**first.context, **context}
        await self.offer(attempt)
        return attempt

    async def _answer(self, path: str, command: JsonValue) -> Raw:
        async with self._changed:
            self._changed.notify_all()
        scripted = self._scripts[path]
        raw = await (scripted.pop(0)(command) if scripted else self.ordinary(path, command))
        async with self._changed:
            self._changed.notify_all()
        return raw

    async def ordinary(self, path: str, command: JsonValue) -> Raw:
        """What a coordinator answers."""
        if path == SESSIONS:
            self._cursors.clear()
            self._sessions += 1
            return reply({"id": "ws_1", "expires_at": FAR, **command})
        if path == EXTEND:
            return reply({"id": "ws_1", "expires_at": FAR, "scope": SCOPE, "queue": self.queue, "concurrency": 1})
        if path == ACQUISITIONS:
            return reply(await self._acquire(command))
        attempt = self._owned(command if path in (CONTEXTS, CONFIRMATIONS) else command["owner"])
        if path == RENEWALS:
            attempt.renewals.append(command)
            return reply(attempt.authority(command["sequence"], dispatch=command["intent"] == "dispatch"))
        if path == SETTLEMENTS:
            return reply(self.accept(attempt, command))
        if path == CONTEXTS:
            return reply(attempt.context)
        if path == COMMITS:
            return reply({"key": command["record"]["key"], "already_accepted": False})
        if path == FORKS:
            keys = [branch["key"] for branch in command["fork"]["branches"]]
            return reply({"key": command["fork"]["key"], "branch_keys": keys, "already_accepted": False})
        return reply("succeeded")

    def accept(self, attempt: Attempt, command: JsonValue) -> dict[str, Any]:
        """Judge a settlement and take it; its reply."""
        report = command["report"]["report"]
        expected = identity(attempt.assignment)
        named = {name: report[name] for name in expected if name in report}
        require(bool(same(named, expected)), "report", f"identity {named}, expected {expected}", "WRK-050", "DLV-090")
        again = bool(attempt.settlements)
        attempt.settlements.append(command)
        receipt = {name: attempt.owner[name] for name in ("task_id", "attempt_id")}
        receipt |= {"operation_id": command["operation_id"], "accepted_at": 1}
        return {"receipt": receipt, "already_accepted": again, "task_state": "succeeded"}

    def _owned(self, owner: dict[str, Any]) -> Attempt:
        attempt = self.attempts.get(owner["attempt_id"])
        whole = attempt is not None and bool(same(attempt.owner, owner))
        require(whole, "owner", f"{owner} is no owner that was assigned", "WRK-069", "WRK-078")
        assert attempt is not None
        return attempt

    async def _acquire(self, command: JsonValue) -> dict[str, Any]:
        consumer, sequence = command["consumer_id"], command["sequence"]
        latest, held = self._cursors.get(consumer, (0, None))
        if sequence != latest:
            session = self._sessions
            held = await self._next(command.get("wait_ms", 0), session)
            if session == self._sessions:
                self.give(consumer, sequence, held)
        if held is None:
            return {"disposition": "empty", "sequence": sequence}
        return {"disposition": "assigned", "sequence": sequence, "assignment": copy.deepcopy(held.assignment)}

    def give(self, consumer: int, sequence: int, attempt: Attempt | None) -> None:
        """Let a consumer's acquisition be answered with this attempt, now and when it is repeated."""
        if attempt is not None:
            attempt.owner["consumer_id"] = consumer
            attempt.assignment["authority"] = attempt.authority(0, dispatch=False)
        self._cursors[consumer] = (sequence, attempt)

    async def _next(self, wait_ms: int, session: int) -> Attempt | None:
        """What waits. A poll of a worker that is gone takes nothing from the one in its place."""
        try:
            async with asyncio.timeout(wait_ms / 1000), self._changed:
                await self._changed.wait_for(lambda: self._waiting or self._sessions != session)
                return self._waiting.pop(0) if self._sessions == session else None
        except TimeoutError:
            return None


def refusing(code: str, *, times: int = 1) -> list[Answer]:
    """Answers with an error code."""
    entry = errors()[code]
    body = {"code": code} | ({"message": "scripted"} if entry.message else {})

    async def answer(command: JsonValue) -> Raw:
        return reply(body, entry.statuses[0])

    return [answer] * times


async def losing(command: JsonValue) -> Raw:
    """The request arrives, its reply does not."""
    return LOST


def replying(value: JsonValue | Callable[[JsonValue], JsonValue]) -> Answer:
    """A reply of the scenario's own, or one made from the command."""

    async def answer(command: JsonValue) -> Raw:
        return reply(value(command) if callable(value) else value)

    return answer


def sending(status: int, body: bytes, media_type: str = "application/json") -> Answer:
    """Bytes that are no proper reply."""

    async def answer(command: JsonValue) -> Raw:
        return Raw(status=status, body=body, headers=(("Content-Type", media_type),))

    return answer
