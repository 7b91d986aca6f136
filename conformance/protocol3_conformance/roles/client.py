"""A scripted client: every command of the task and workflow routes, with nothing hidden."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from protocol3_conformance.bounds import words
from protocol3_conformance.roles.answer import Answer
from protocol3_conformance.wire.strict_json import JsonValue

if TYPE_CHECKING:
    from protocol3_conformance.lab import Lab


@dataclass(frozen=True, slots=True, kw_only=True)
class Client:
    """Commands in one scope. Methods return the Answer; `task`, `workflow` and `…_until` return what was accepted."""

    lab: Lab
    scope: dict[str, str]

    async def post(self, path: str, body: JsonValue | bytes) -> Answer:
        return Answer(await self.lab.peer.post(path, body))

    async def get(self, path: str, **query: str) -> Answer:
        return Answer(await self.lab.peer.get(path, {**self.scope, **query}))

    # Submission

    def submission(self, *, key: str | None = None, origin_trace: JsonValue = None, **members: JsonValue) -> Any:
        """A complete command; `members` replace or extend those of `input`."""
        program_id, version = self.lab.target.program
        command: dict[str, Any] = {
            "idempotency_key": self.lab.unique("key") if key is None else key,
            "input": {
                **self.scope,
                "queue": self.lab.queue,
                "program": {"id": program_id, "version": version},
                "data": None,
                **members,
            },
        }
        if origin_trace is not None:
            command["origin_trace"] = origin_trace
        return command

    async def submit_task(self, **members: Any) -> Answer:
        return await self.post("/v1/tasks", self.submission(**members))

    async def submit_workflow(self, **members: Any) -> Answer:
        return await self.post("/v1/workflows", self.submission(**members))

    async def task(self, **members: Any) -> Any:
        """The snapshot of a freshly accepted task."""
        return (await self.submit_task(**members)).accepted()

    async def workflow(self, **members: Any) -> Any:
        """The snapshot of a freshly accepted workflow."""
        return (await self.submit_workflow(**members)).accepted()

    # Tasks

    async def inspect(self, task_id: str) -> Answer:
        return await self.get("/v1/tasks/inspect", task_id=task_id)

    async def status(self, task_id: str) -> Answer:
        return await self.get("/v1/tasks/status", task_id=task_id)

    async def result(self, task_id: str) -> Answer:
        return await self.get("/v1/tasks/result", task_id=task_id)

    async def history(self, task_id: str, **query: str) -> Answer:
        return await self.get("/v1/tasks/history", task_id=task_id, **query)

    async def attempt(self, task_id: str, attempt_id: str) -> Answer:
        return await self.get("/v1/attempts/inspect", task_id=task_id, attempt_id=attempt_id)

    async def list_tasks(self, **query: str) -> Answer:
        return await self.get("/v1/tasks", **query)

    async def cancel_task(self, task_id: str) -> Answer:
        return await self.post("/v1/tasks/cancel", {"scope": self.scope, "task_id": task_id})

    async def reasons(self, task_id: str) -> list[str]:
        """The reasons of the task's history, oldest first (up to one page)."""
        return [entry["event"]["reason"] for entry in (await self.history(task_id)).accepted()]

    async def task_until(self, task_id: str, *states: str, not_before_ms: int = 0) -> Any:
        """The status once it is in one of these states; another terminal state fails at once."""

        async def look() -> Any:
            return (await self.status(task_id)).accepted()

        final = words("task_state", "terminal")
        status = await self.lab.until(
            f"task in {'/'.join(states)}",
            look,
            lambda seen: seen["state"] in (*states, *final),
            not_before_ms=not_before_ms,
        )
        assert status["state"] in states, f"task is {status['state']}, expected {'/'.join(states)}"
        return status

    # Workflows

    async def workflow_status(self, workflow_id: str) -> Answer:
        return await self.get("/v1/workflows/status", workflow_id=workflow_id)

    async def workflow_result(self, workflow_id: str) -> Answer:
        return await self.get("/v1/workflows/result", workflow_id=workflow_id)

    async def cancel_workflow(self, workflow_id: str) -> Answer:
        return await self.post("/v1/workflows/cancel", {"scope": self.scope, "workflow_id": workflow_id})

    async def workflow_until(self, workflow_id: str, *states: str, revision: int | None = None) -> Any:
        """The snapshot once it is in one of these states (at this revision); another terminal state fails at once."""

        async def look() -> Any:
            return (await self.workflow_status(workflow_id)).accepted()

        def reached(seen: Any) -> bool:
            return seen["state"] in states and revision in (None, seen["revision"])

        final = words("workflow_state", "terminal")
        wanted = f"workflow in {'/'.join(states)}" + ("" if revision is None else f" at revision {revision}")
        snapshot = await self.lab.until(wanted, look, lambda seen: reached(seen) or seen["state"] in final)
        if not reached(snapshot):
            result = (await self.workflow_result(workflow_id)).accepted()
            raise AssertionError(f"{wanted} expected, it is {snapshot['state']}: {result['outcome']}")
        return snapshot

    async def outcome_until(self, workflow_id: str, state: str) -> Any:
        """The outcome of a workflow that ends in this state; status and result must show one snapshot (WF-033)."""
        snapshot = await self.workflow_until(workflow_id, state)
        result = (await self.workflow_result(workflow_id)).accepted()
        assert result["workflow"] == snapshot, "status and result show different terminal snapshots (WF-033)"
        return result["outcome"]

    # Events

    def event(self, **attributes: JsonValue) -> Any:
        """A minimal valid external event with a fresh identity; `attributes` replace or extend."""
        return {
            "specversion": "1.0",
            "id": self.lab.unique("evt"),
            "source": "urn:conformance:events",
            "type": "conformance.signal",
            "datacontenttype": "application/json",
            "data": None,
            **attributes,
        }

    async def send_event(self, workflow_id: str, key: str, event: JsonValue) -> Answer:
        command = {"scope": self.scope, "workflow_id": workflow_id, "key": key, "event": event}
        return await self.post("/v1/workflows/events", command)
