"""An activation in the hands of the scripted worker: the decisions it can settle with (chapter 12)."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from protocol3_conformance.roles.claim import Claim
from protocol3_conformance.wire.strict_json import JsonValue


@dataclass(slots=True)
class Activation(Claim):
    """A dispatched activation with the context it was given."""

    frozen: dict[str, Any] = field(default_factory=dict)

    @property
    def workflow_id(self) -> str:
        return str(self.frozen["workflow_id"])

    def wake(self, kind: str) -> dict[str, Any]:
        """The wake of the context, which must be of this kind."""
        wake: dict[str, Any] | None = self.frozen.get("wake")
        assert wake is not None, f"the context has no wake, expected one of kind {kind}"
        assert wake["kind"] == kind, f"the wake is of kind {wake['kind']}, expected {kind}"
        return wake

    def child(self, key: str) -> dict[str, Any]:
        """The result of a child in the inputs, where it must be."""
        inputs: dict[str, dict[str, Any]] = self.frozen["inputs"]
        assert key in inputs, f"inputs hold {sorted(inputs)}, expected {key}"
        return inputs[key]

    def output_of(self, key: str) -> Any:
        """The output of a child that must have succeeded."""
        outcome = self.child(key)["outcome"]
        assert outcome["kind"] == "succeeded", f"child {key} ended {outcome}"
        return outcome["output"]

    def decision(self, kind: str, **members: JsonValue) -> dict[str, Any]:
        """A decision of this activation; `members` replace or extend."""
        common = {"v": 1, "activation_id": self.task_id, "revision": self.frozen["revision"], "kind": kind}
        return {**common, **members}

    def checkpoint(self, kind: str, members: dict[str, Any], **disposition: JsonValue) -> dict[str, Any]:
        saved: dict[str, Any] = {"state": None, "continuation": "next", "commands": []}
        return self.decision(kind, **{**saved, **disposition, **members})

    def command(self, key: str, *, kind: str | None = None, **members: JsonValue) -> dict[str, Any]:
        """A child command: a task with the target's program on the lab's child queue, unless said otherwise."""
        program_id, version = self.lab.target.program
        command: dict[str, Any] = {
            "key": key,
            "program": {"id": program_id, "version": version},
            "queue": self.lab.child_queue,
            "data": None,
            **members,
        }
        return command if kind is None else {"kind": kind, **command}

    async def decide(self, decision: JsonValue) -> Any:
        """Settle a success whose output is the decision."""
        return await self.succeed(decision)

    async def suspend(self, *until: str, **members: Any) -> Any:
        return await self.decide(self.checkpoint("suspend", members, until=list(until)))

    async def go_on(self, **members: Any) -> Any:
        """A `continue` decision."""
        return await self.decide(self.checkpoint("continue", members))

    async def wait_event(self, key: str, timeout_ms: int | None = None, **members: Any) -> Any:
        wait = {"kind": "event", "key": key, "timeout_ms": timeout_ms}
        return await self.decide(self.checkpoint("wait", members, wait=wait))

    async def wait_timer(self, key: str, delay_ms: int, **members: Any) -> Any:
        wait = {"kind": "timer", "key": key, "delay_ms": delay_ms}
        return await self.decide(self.checkpoint("wait", members, wait=wait))

    async def complete(self, output: JsonValue = None) -> Any:
        return await self.decide(self.decision("complete", output=output))

    async def fail(self, kind: str = "given_up", message: str = "by the controller") -> Any:
        return await self.decide(self.decision("fail", error={"kind": kind, "message": message}))
