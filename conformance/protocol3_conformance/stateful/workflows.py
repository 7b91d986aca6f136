"""Workflows of one scope, played: activations and their decisions, children, forks, waits, events, cancels, time."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar

from protocol3_conformance.model.expected import accepted
from protocol3_conformance.model.flows import Flow
from protocol3_conformance.model.tasks import Attempt, Policy, Task
from protocol3_conformance.model.workflows import Workflows
from protocol3_conformance.stateful.history import ref
from protocol3_conformance.stateful.machine import choose
from protocol3_conformance.stateful.tasks import NEXT, REPORTS, TIMES, Tasks, command_of, retry_policy

WORDS = {
    "decide": 14,
    "work": 7,
    "start": 1,
    "local": 2,
    "event": 5,
    "settle": 6,
    "confirm": 1,
    "context": 1,
    "stop": 1,
    "cancel": 1,
    "advance": 2,
}
"""The first is drawn more often than it says: hypothesis likes zeros."""
FORKS = {**WORDS, "fork": 4}
AT_ONCE = Policy(max_attempts=2, retry_delay=0)
DECISIONS = ("continue", "suspend", "wait", "timer", "suspend", "continue", "complete", "fail")
SPAN_MS = 30_000
LONG_MS = 3_600_000
"""Of a timeout that nobody can bring about: longer than any example takes, however slow the target."""


@dataclass(slots=True, kw_only=True)
class Flows(Tasks):
    """`nested`: whether commands may start workflows as well."""

    nested: bool = False
    world: Workflows = field(default_factory=lambda: Workflows(times=TIMES))
    queues: ClassVar[Sequence[str]] = ("flows", "tasks", "inner")

    async def do(self, operation: tuple[str, int, int, int]) -> None:
        before = self._shown()
        await Tasks.do(self, operation if self.world.flows else ("start", *operation[1:]))
        self.world.progress(self.now)
        await self._await_changes(before)

    async def end(self) -> None:
        await Tasks.end(self)
        for flow in self.known():
            await self.look_at(flow)

    # What goes on in the background

    def _shown(self) -> dict[int, Any]:
        """What reads show of everything whose id is known."""
        flows = {id(flow): flow.snapshot for flow in self.known()}
        return flows | {id(task): task.status for task in self.named()}

    async def _await_changes(self, before: dict[int, Any]) -> None:
        """Wait until reads show what the model has come to."""
        for flow in self.known():
            if before.get(id(flow)) != flow.snapshot:
                await self._see(flow)
        for task in self.named():
            if id(task) in before and before[id(task)] != task.status:
                place = {**self.scope, "task_id": task.name}
                await self.history.get("/v1/tasks/status", place, accepted(task.status, "TASK-052"), until=True)

    async def _see(self, flow: Flow) -> None:
        number, place = self.history.next, {**self.scope, "workflow_id": flow.name}
        await self.history.get("/v1/workflows/status", place, accepted(flow.snapshot, "WF-034"), until=True)
        if flow.state == "running" and flow.activation.task.name is None:
            flow.activation.task.name = ref(number, "activation_id")

    async def look_at(self, flow: Flow) -> None:
        """Both reads of a workflow agree with the model."""
        place = {**self.scope, "workflow_id": flow.name}
        shown = {"workflow": flow.snapshot, "outcome": flow.outcome}
        await self.history.get("/v1/workflows/status", place, accepted(flow.snapshot, "WF-034"))
        await self.history.get("/v1/workflows/result", place, accepted(shown, "WF-066"))

    def known(self) -> list[Flow]:
        """The workflows whose id somebody has learnt."""
        return [flow for flow in self.world.flows if flow.name is not None]

    def learn(self, task: Task, number: int) -> None:
        Tasks.learn(self, task, number)
        if task.owner is not None and task.owner.name is None:
            task.owner.name = ref(number, "assignment", "event", "ldgworkflowid")

    # Commands of clients

    async def start(self, key: int, other: int, _: int) -> None:
        """A new workflow, the same submission again, or another one under its key."""
        name = f"key-{key % 2}:{{run}}"
        flow = self.world.begun(name)
        data = {"flow": key % 2, "other": flow is not None and other % 3 == 2}
        binding = self.input("flows", data, AT_ONCE) if flow is None or data["other"] else flow.binding
        number = self.history.next
        answer = self.world.start(
            name,
            binding,
            AT_ONCE,
            self.now,
            name=ref(number, "workflow_id"),
            activation=ref(number, "activation_id"),
            others=list(self.elsewhere()),
        )
        await self.history.post("/v1/workflows", {"idempotency_key": name, "input": binding}, answer)

    async def cancel(self, number: int, what: int, _: int) -> None:
        """A child mostly; an activation that is cancelled ends its workflow."""
        tasks = [task for task in self.named() if what > 5 or not task.activation]
        if task := choose(tasks, number):
            body = {"scope": self.scope, "task_id": task.name}
            await self.history.post("/v1/tasks/cancel", body, self.world.cancel(task, self.now))

    async def stop(self, number: int, really: int, _: int) -> None:
        flow = choose(self.known(), number)
        if flow and (really > 4 or flow.draining or flow.terminal):
            body = {"scope": self.scope, "workflow_id": flow.name}
            await self.history.post("/v1/workflows/cancel", body, self.world.stop(flow))

    async def event(self, number: int, key: int, other: int) -> None:
        """An event for one of the keys that waits use; again as it was, or with another identity or content."""
        flow = choose(self.known(), number)
        if flow is None:
            return
        key_now = flow.waiting.key if flow.waiting and other % 2 == 0 else f"wait-{key % 3}"
        await self._send(flow, key_now, f"wait-{key % 3 if other % 4 != 3 else 0}", other=other == 6)

    async def _send(self, flow: Flow, key: str, identity: str, *, other: bool) -> None:
        event = {
            "specversion": "1.0",
            "id": f"event of {identity}",
            "source": "urn:conformance:events",
            "type": "conformance.signal",
            "datacontenttype": "application/json",
            "data": {"weight": 1.0, "other": other},
        }
        receipt = ref(self.history.next, "accepted_at")
        answer = self.world.send(flow, key, event, receipt, self.now)
        body = {"scope": self.scope, "workflow_id": flow.name, "key": key, "event": event}
        await self.history.post("/v1/workflows/events", body, answer)

    # Commands of workers

    async def work(self, queue: int, how: int, _: int) -> None:
        """Poll, mostly where there is something; what comes is dispatched, and the context of an activation is read."""
        full = [name for name in self.queues if any(t.ready(self.queue(name), self.now) for t in self.world.tasks)]
        if not full and how != 7:
            await self._unblock()
            return
        among = full if full and how != 7 else self.queues
        session = await self.session(among[queue % len(among)])
        free = [one for one in session.cursors if one.attempt is None or not one.attempt.live(self.now)]
        if not free:
            return
        cursor = free[0]
        attempt = await self.poll(session, cursor, cursor.sequence + NEXT)
        if attempt and how % 4 != 3:
            await self.renewal(attempt, cursor, NEXT, "dispatch")
            if attempt.task.activation:
                await self._context(attempt)

    async def _unblock(self) -> None:
        """Nothing can be acquired: do what somebody waits for."""
        held = [attempt for attempt, _ in self.held if attempt.live(self.now) and attempt.command is None]
        child = choose([attempt for attempt in held if not attempt.task.activation], 0)
        waits = [(flow, flow.waiting) for flow in self.known() if flow.waiting]
        if child:
            await self.settlement(child, command_of(child, self.report(child, "success", {"attempt": child.number})))
        elif waits and waits[-1][1].kind == "event":
            await self._send(waits[-1][0], waits[-1][1].key, waits[-1][1].key, other=False)
        elif waits:
            await self.advance(1, 0, 0)

    async def context(self, number: int, _: int, __: int) -> None:
        if attempt := choose(self._activations(), number):
            await self._context(attempt)

    async def _context(self, attempt: Attempt) -> None:
        answer = self.world.context(attempt, self.now)
        await self.history.post("/v1/workflows/activations/context", attempt.owner, answer)

    def _activations(self) -> list[Attempt]:
        """The attempts of activations, those that may still decide at the end."""
        held = [attempt for attempt, _ in self.held if attempt.task.activation]
        return sorted(held, key=lambda attempt: attempt.command is None and attempt.live(self.now))

    def _able(self, number: int, *, late: bool) -> Attempt | None:
        """An attempt that may commit; where it is to be too `late`, any."""
        held = self._activations()
        able = [attempt for attempt in held if self.world.current(attempt, self.now) and attempt.started]
        return choose(held if late else able, number)

    async def settle(self, number: int, report: int, how: int) -> None:
        """A report on a child, which is acquired first where there is none; at times anything else, as in `Tasks`."""
        open_ = [attempt for attempt, _ in self.held if attempt.live(self.now) and attempt.command is None]
        child = choose([attempt for attempt in open_ if not attempt.task.activation], number)
        stored = [attempt for attempt, _ in self.held if attempt.command is not None]
        failing = choose(open_, 0) if how == 6 and report > 3 else None
        if failing:  # an activation that ends without a decision, mostly
            await self.settlement(failing, command_of(failing, self.report(failing, REPORTS[report % 4 + 2], None)))
        elif how == 2 and (again := choose(stored, number)):
            await self.settlement(again, again.command if report % 2 else command_of(again, again.command["report"]))
        elif child is None:
            await self.work(number, how, report)
        else:
            told = self.report(child, REPORTS[report % len(REPORTS)], {"attempt": child.number})
            await self.settlement(child, command_of(child, told, "unconfirmed" if how == 1 else "confirmed"))

    async def local(self, number: int, key: int, other: int) -> None:
        if attempt := self._able(number, late=other == 7):
            output = {"rate": 1.0, "other": other % 4 == 3}
            record = {"key": f"step-{key % 2}", "callable": "conformance:step", "input": None, "output": output}
            answer = self.world.local(attempt, record, self.now)
            await self.history.post("/v1/workflows/local-results", {"owner": attempt.owner, "record": record}, answer)

    async def fork(self, number: int, key: int, other: int) -> None:
        """One or two branches, at times with a key that a child or another fork has."""
        attempt = self._able(number, late=other == 5)
        if attempt is None:
            return
        flow = attempt.task.owner
        names = (
            [f"child-{key % 3}"] if other % 4 == 3 else [f"branch-{key % 2}", f"branch-{key % 2}-too"][: 1 + other % 2]
        )
        branches = [self._branch(flow, name) for name in names]
        stored, _ = flow.forks.get(f"fork-{key % 2}", (None, None))
        request = stored if stored and other < 6 else {"key": f"fork-{key % 2}", "branches": branches}
        answer = self.world.fork(attempt, request, AT_ONCE, self.now)
        await self.history.post("/v1/workflows/forks", {"owner": attempt.owner, "fork": request}, answer)

    def _branch(self, flow: Flow, key: str) -> Any:
        return {
            "key": key,
            "entrypoint": "branch",
            "queue": self.queue("inner"),
            "data": {"of": self.world.flows.index(flow), "branch": key},
            "retry_policy": retry_policy(AT_ONCE),
        }

    # Decisions

    async def decide(self, number: int, kind: int, detail: int) -> None:
        """Settle a success whose output is a decision; where nobody is to decide, look for work."""
        attempt = choose(self._activations(), number)
        if attempt is None or ((attempt.command or not attempt.live(self.now)) and detail != 6):
            await self.work(number, kind, detail)
            return
        flow = attempt.task.owner
        decision = self._decision(flow, attempt, DECISIONS[kind], detail)
        told = self.report(attempt, "success", decision)
        await self.settlement(attempt, command_of(attempt, told))

    def _decision(self, flow: Flow, attempt: Attempt, kind: str, detail: int) -> Any:
        _, activation = self.world.owned(attempt)
        common = {"v": 1, "activation_id": attempt.task.name, "revision": activation.revision}
        saved = {"state": {"step": flow.revision}, "continuation": f"step-{flow.revision}", "commands": []}
        commands = [self._command(flow, detail)] if detail % 4 else []
        wait = f"wait-{detail % 3}"
        match kind:
            case "complete":
                return {**common, "kind": "complete", "output": {"of": flow.revision, "exact": 1.0}}
            case "fail" if detail % 2:
                return {**common, "revision": activation.revision + 1, "kind": "continue", **saved}
            case "fail":
                return {**common, "kind": "fail", "error": {"kind": "given_up", "message": "by the controller"}}
            case "continue":
                return {**common, "kind": "continue", **saved, "commands": commands}
            case "timer":
                timer = {
                    "kind": "timer",
                    "key": wait,
                    "delay_ms": 0 if detail > 4 or not self.history.lab.target.moves_time else SPAN_MS,
                }
                return {**common, "kind": "wait", **saved, "wait": timer}
            case "wait":
                span = SPAN_MS if self.history.lab.target.moves_time else LONG_MS
                event = {"kind": "event", "key": wait, "timeout_ms": span if detail > 4 else None}
                return {**common, "kind": "wait", **saved, "wait": event, "commands": commands}
        keys = [*flow.children, *(command["key"] for command in commands)]
        until = list(dict.fromkeys(keys))[-1 - detail % 2 :]
        return {**common, "kind": "suspend", **saved, "commands": commands, "until": until}

    def _command(self, flow: Flow, detail: int) -> Any:
        """A child: mostly one key means one binding."""
        program, version = self.history.lab.target.program
        key = f"child-{detail % 3}"
        inner = self.nested and detail % 3 == 2
        command = {
            "key": key,
            "program": {"id": program, "version": version},
            "queue": self.queue("inner" if inner else "tasks"),
            "data": {"of": self.world.flows.index(flow), "child": key, "other": detail == 7},
            "retry_policy": retry_policy(AT_ONCE),
        }
        return {"kind": "workflow", **command} if inner else command
