"""Tasks of one scope, played: submissions, polls, renewals, settlements, cancels, reads, and time."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar

from protocol3_conformance.bounds import bound
from protocol3_conformance.model.delivery import Cursor, Delivery
from protocol3_conformance.model.expected import accepted
from protocol3_conformance.model.tasks import Attempt, Policy, Task, Times
from protocol3_conformance.roles.reports import ECHOED
from protocol3_conformance.stateful.history import History, ref
from protocol3_conformance.stateful.machine import Operation, choose

WORDS = {"submit": 3, "acquire": 8, "renew": 3, "settle": 9, "confirm": 2, "cancel": 1, "read": 1, "advance": 3}
"""What may be done, and how often it is drawn."""
KEYS, CONSUMERS = 3, 2
POLICIES = (
    Policy(max_attempts=2, retry_delay=0),
    Policy(max_attempts=1, retry_delay=0),
    Policy(max_attempts=3, retry_delay=5_000),
)
NEXT, AGAIN, OLDER, BEYOND = 1, 0, -1, 2
SEQUENCES = (NEXT, NEXT, NEXT, AGAIN, NEXT, BEYOND, OLDER, NEXT)
"""What a poll or renewal asks for, counted from the latest sequence."""
REPORTS = ("success", "success", "application", "runtime", "success", "protocol")
STEPS_MS = (6_000, 31_000, 61_000, 301_000)
"""Past a retry delay, the grace after a cancel, a lease, an execution deadline."""
MARGIN_MS = 15_000
"""Nothing is judged so close before an instant at which it changes: the target's clock goes on by itself."""
TIMES = Times(lease=bound("LEASE_MS"), grace=bound("CLEANUP_GRACE_MS"), attempt=bound("DEFAULT_ATTEMPT_TIMEOUT_MS"))


@dataclass(slots=True)
class Session:
    """A worker session on one queue, and its consumers."""

    name: Any
    cursors: list[Cursor]


@dataclass(slots=True, kw_only=True)
class Tasks:
    """`scope` is a template. `elsewhere` gives the ids of tasks in other scopes, which none here may have."""

    history: History
    scope: Any
    world: Delivery = field(default_factory=lambda: Delivery(times=TIMES))
    elsewhere: Callable[[], Iterable[Any]] = tuple
    now: int = 0
    sessions: dict[str, Session] = field(default_factory=dict)
    held: list[tuple[Attempt, Cursor]] = field(default_factory=list)

    queues: ClassVar[Sequence[str]] = ("tasks",)

    async def do(self, operation: Operation) -> None:
        word, *numbers = operation
        await getattr(self, word)(*numbers)

    async def end(self) -> None:
        for task in self.named():
            await self.look(task)

    # Commands of clients

    async def submit(self, key: int, other: int, policy: int) -> None:
        """A new task, the same submission again, or another one under its key."""
        name = f"key-{key % KEYS}:{{run}}"
        task = self.world.keyed(name)
        chosen = POLICIES[policy % len(POLICIES)]
        data = {"key": key % KEYS, "other": task is not None and other % 3 == 2}
        binding = self.input("tasks", data, chosen) if task is None or data["other"] else task.binding
        others = list(self.elsewhere())
        answer = self.world.submit(name, binding, chosen, self.now, ref(self.history.next, "task_id"), others)
        await self.history.post("/v1/tasks", {"idempotency_key": name, "input": binding}, answer)

    def input(self, queue: str, data: Any, policy: Policy) -> Any:
        """The `input` of a submission."""
        program, version = self.history.lab.target.program
        return {
            **self.scope,
            "queue": self.queue(queue),
            "program": {"id": program, "version": version},
            "data": data,
            "retry_policy": retry_policy(policy),
        }

    def queue(self, name: str) -> str:
        return f"{self.history.lab.target.queue}:{name}:{{run}}"

    async def cancel(self, number: int, what: int, _: int) -> None:
        if task := choose(self.named(), number):
            body = {"scope": self.scope, "task_id": task.name}
            await self.history.post("/v1/tasks/cancel", body, self.world.cancel(task, self.now))

    async def read(self, number: int, _: int, __: int) -> None:
        if task := choose(self.named(), number):
            await self.look(task)

    def named(self) -> list[Task]:
        """The tasks whose id somebody has learnt."""
        return [task for task in self.world.tasks if task.name is not None]

    async def look(self, task: Task) -> None:
        """All reads of a task agree with the model."""
        place = {**self.scope, "task_id": task.name}
        await self.history.get("/v1/tasks/status", place, accepted(task.status, "TASK-052"))
        shown = {"task": task.status, "outcome": task.outcome}
        await self.history.get("/v1/tasks/result", place, accepted(shown, "TASK-124"))
        await self.history.get("/v1/tasks/history", place, accepted(task.records, "TASK-132"))
        for attempt in task.attempts:
            query = {**place, "attempt_id": attempt.name}
            await self.history.get("/v1/attempts/inspect", query, accepted(attempt.shown, "TASK-123"))

    # Commands of workers

    async def session(self, queue: str) -> Session:
        """The session on a queue, opened when it is first needed."""
        if queue not in self.sessions:
            name = ref(self.history.next, "id")
            body = {"scope": self.scope, "queue": self.queue(queue), "concurrency": CONSUMERS}
            await self.history.post("/v1/worker-sessions", body, accepted(body))
            cursors = [Cursor(self.queue(queue)) for _ in range(CONSUMERS)]
            self.sessions[queue] = Session(name, cursors)
        return self.sessions[queue]

    async def acquire(self, queue: int, consumer: int, which: int) -> None:
        """A poll, with any sequence, that does not wait."""
        session = await self.session(self.queues[queue % len(self.queues)])
        cursor = session.cursors[consumer % CONSUMERS]
        await self.poll(session, cursor, max(0, cursor.sequence + SEQUENCES[which]))

    async def poll(self, session: Session, cursor: Cursor, sequence: int) -> Attempt | None:
        """The attempt, where the poll brought a new one."""
        body = {
            "scope": self.scope,
            "queue": cursor.queue,
            "worker_session_id": session.name,
            "consumer_id": session.cursors.index(cursor),
            "sequence": sequence,
        }
        expected, number = self.world.poll(cursor, sequence, self.now), self.history.next
        came = await self.history.post("/v1/acquisitions", body, expected.answer)
        if not expected.candidates:
            return None
        data = came["assignment"]["event"]["data"]
        (task,) = (one for one in expected.candidates if self.history.value(one.data) == data)
        if len(expected.candidates) > 1:
            self.history.calls[-1]["seen"] = {"assignment": {"event": {"data": data}}}
        self.learn(task, number)
        owner = ("assignment", "lease", "owner")
        attempt = self.world.claim(
            cursor,
            task,
            self.now,
            name=ref(number, *owner, "attempt_id"),
            owner=ref(number, *owner),
            event=ref(number, "assignment", "event"),
        )
        self.held.append((attempt, cursor))
        return attempt

    def learn(self, task: Task, number: int) -> None:
        """The id of a task that a poll brought."""
        if task.name is None:
            task.name = ref(number, "assignment", "event", "ldgtaskid")

    async def renew(self, number: int, which: int, intent: int) -> None:
        if chosen := choose(self.held, number):
            attempt, cursor = chosen
            word = "keep_alive" if intent % 3 == 2 else "dispatch"
            await self.renewal(attempt, cursor, max(0, attempt.sequence + SEQUENCES[which]), word)

    async def renewal(self, attempt: Attempt, cursor: Cursor, sequence: int, intent: str) -> None:
        body = {"owner": attempt.owner, "sequence": sequence, "intent": intent}
        until = ref(self.history.next, "expires_at")
        answer = self.world.renew(cursor, attempt, sequence, intent, until, self.now)
        await self.history.post("/v1/renewals", body, answer)

    async def settle(self, number: int, report: int, how: int) -> None:
        """A first report, or the stored one again, as it was or with another operation id."""
        chosen = choose(self.held, number)
        if chosen is None:
            return
        attempt, _ = chosen
        if attempt.command is not None and how % 4 != 3:
            await self.settlement(attempt, attempt.command)
            return
        quiescence = "unconfirmed" if how % 4 == 1 else "confirmed"
        told = self.report(attempt, REPORTS[report % len(REPORTS)], {"attempt": attempt.number})
        await self.settlement(attempt, command_of(attempt, told, quiescence))

    async def settlement(self, attempt: Attempt, command: Any) -> None:
        receipt = ref(self.history.next, "receipt", "accepted_at")
        answer = self.world.settle(attempt, command, receipt, self.now)
        await self.history.post("/v1/settlements", command, answer)

    def report(self, attempt: Attempt, kind: str, output: Any) -> Any:
        """A report of a success with this output, of the program's own failure, or of an error kind."""
        common = identity(attempt)
        if kind in ("success", "application"):
            failure = {"status": "failure", "kind": "declined", "message": "by the program"}
            outcome = {"status": "success", "output": output} if kind == "success" else failure
            process = {"process_id": 4242, "reused_process": False, "elapsed_ms": 7}
            return {"kind": "completed", "report": {**common, **process, "outcome": outcome}}
        error = {"error": {"kind": kind, "message": "scripted"}, "phase": "execution"}
        return {"kind": "failed", "report": {**common, **error, "execution_may_have_started": False}}

    async def confirm(self, number: int, _: int, __: int) -> None:
        if chosen := choose(self.held, number):
            attempt, _cursor = chosen
            answer = self.world.confirm(attempt, self.now)
            await self.history.post("/v1/quiescence-confirmations", attempt.owner, answer)

    # Time

    async def advance(self, step: int, _: int, __: int) -> None:
        """Let time pass, and what is due by then come about."""
        if not self.history.lab.target.moves_time:
            return
        goal = self.now + STEPS_MS[step % len(STEPS_MS)]
        while soon := [due for due in self.world.due() if goal < due <= goal + MARGIN_MS]:
            goal = max(soon)
        if self.world.order_open(goal):  # contests judge what happens at once
            return
        body = {"scope": self.scope, "advance_ms": goal - self.now}
        await self.history.post("/testing/v1/clock", body, accepted({"advanced_ms": goal - self.now}))
        self.now = goal
        lost = self.world.lost(goal)
        self.world.recover(goal)
        for task in lost:
            await self.history.get(
                "/v1/tasks/status", {**self.scope, "task_id": task.name}, accepted(task.status, "TASK-052"), until=True
            )


def retry_policy(policy: Policy) -> Any:
    return {"max_attempts": policy.max_attempts, "retry_delay_ms": policy.retry_delay}


def identity(attempt: Attempt) -> Any:
    """What a report repeats of the assignment; attributes that an event may lack are left out with it."""
    number = attempt.owner["$ref"][0]
    always = ("source", "event_id", "tenant_id", "namespace", "run_id", "task_id", "attempt_id", "attempt_no")
    event = {
        member: {"$ref" if member in always else "$optional": [number, "assignment", "event", attribute]}
        for member, attribute in ECHOED.items()
    }
    descriptor = {name: ref(number, "assignment", "descriptor", name) for name in ("program", "digest")}
    return {**event, **descriptor}


def command_of(attempt: Attempt, report: Any, quiescence: str = "confirmed") -> Any:
    """A settlement; every attempt may use the same operation id (DLV-082)."""
    operation = "again" if attempt.command is not None else "operation"
    return {"owner": attempt.owner, "operation_id": operation, "report": report, "quiescence": quiescence}
