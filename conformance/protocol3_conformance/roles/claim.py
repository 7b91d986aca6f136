"""One assigned attempt in the hands of the scripted worker."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from protocol3_conformance.roles import reports
from protocol3_conformance.roles.answer import Answer
from protocol3_conformance.wire.strict_json import JsonValue

if TYPE_CHECKING:
    from protocol3_conformance.lab import Lab


@dataclass(slots=True)
class Claim:
    """The assignment as it was acquired. `renewed` is the last accepted renewal sequence."""

    lab: Lab = field(repr=False)
    assignment: dict[str, Any]
    renewed: int = 0

    @property
    def event(self) -> dict[str, Any]:
        event: dict[str, Any] = self.assignment["event"]
        return event

    @property
    def owner(self) -> dict[str, Any]:
        owner: dict[str, Any] = self.assignment["lease"]["owner"]
        return owner

    @property
    def task_id(self) -> str:
        return str(self.owner["task_id"])

    @property
    def attempt_id(self) -> str:
        return str(self.owner["attempt_id"])

    @property
    def operation_id(self) -> str:
        return f"op:{self.attempt_id}"[:128]

    async def _post(self, path: str, body: JsonValue) -> Answer:
        return Answer(await self.lab.peer.post(path, body))

    # Renewal

    async def renew(self, intent: str = "keep_alive", *, sequence: int | None = None, **owner: Any) -> Answer:
        """A renewal; the next sequence unless given. `owner` replaces members of the lease owner."""
        number = self.renewed + 1 if sequence is None else sequence
        command = {"owner": {**self.owner, **owner}, "sequence": number, "intent": intent}
        answer = await self._post("/v1/renewals", command)
        if answer.status == 200:
            self.renewed = max(self.renewed, number)
        return answer

    async def dispatch(self) -> Any:
        """The authority after a dispatch renewal, which must be accepted."""
        return (await self.renew("dispatch")).accepted()

    # Settlement

    def settlement(self, report: JsonValue, *, quiescence: str = "confirmed", **members: JsonValue) -> dict[str, Any]:
        """A complete settlement command; `members` replace or extend."""
        return {
            "owner": self.owner,
            "operation_id": self.operation_id,
            "report": report,
            "quiescence": quiescence,
            **members,
        }

    async def settle(self, command: JsonValue) -> Answer:
        return await self._post("/v1/settlements", command)

    def success(self, output: JsonValue = None, **members: Any) -> dict[str, Any]:
        """The command that reports success with `output`."""
        return self.settlement(reports.success(self.assignment, output), **members)

    def failure(self, kind: str = "declined", message: str = "by the program", **members: Any) -> dict[str, Any]:
        """The command that reports a failure of the program's own."""
        return self.settlement(reports.application_failure(self.assignment, kind, message), **members)

    def breakdown(self, kind: str = "unavailable", *, quiescence: str = "confirmed", **members: Any) -> dict[str, Any]:
        """The command that reports a failed execution; `members` are those of the report."""
        report = reports.execution_failure(self.assignment, kind, **members)
        return self.settlement(report, quiescence=quiescence)

    async def succeed(self, output: JsonValue = None, **members: Any) -> Any:
        """The settle reply of an accepted success."""
        return (await self.settle(self.success(output, **members))).accepted()

    async def break_down(self, kind: str = "unavailable") -> Any:
        """The settle reply of an accepted execution failure."""
        return (await self.settle(self.breakdown(kind))).accepted()

    async def confirm(self, **owner: Any) -> Answer:
        """Quiescence confirmation."""
        return await self._post("/v1/quiescence-confirmations", {**self.owner, **owner})

    # Workflow activations

    async def context(self, **owner: Any) -> Answer:
        return await self._post("/v1/workflows/activations/context", {**self.owner, **owner})

    async def local(self, key: str, output: JsonValue = None, **members: Any) -> Answer:
        """Commit a local result; `members` are those of the record."""
        record = {"key": key, "callable": "conformance:step", "input": None, "output": output, **members}
        return await self._post("/v1/workflows/local-results", {"owner": self.owner, "record": record})

    async def fork(self, key: str, branches: list[Any], **members: Any) -> Answer:
        command = {"owner": self.owner, "fork": {"key": key, "branches": branches}, **members}
        return await self._post("/v1/workflows/forks", command)

    def branch(self, key: str, entrypoint: str = "branch", **members: Any) -> dict[str, Any]:
        """One branch of a fork; `members` replace or extend."""
        return {"key": key, "entrypoint": entrypoint, "queue": self.lab.queue, "data": None, **members}

    # What the service shows of it

    async def inspect(self) -> Any:
        """The attempt as attempt inspection shows it."""
        return (await self.lab.client.attempt(self.task_id, self.attempt_id)).accepted()
