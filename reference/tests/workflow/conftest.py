"""Builders for the pure rules of workflows: records with sensible defaults, states of decisions around them."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from protocol3.contract.models.common import LeaseOwner, ProgramRef, RetryPolicy, Scope
from protocol3.contract.models.decisions import decode_decision
from protocol3.contract.models.tasks import SubmitInput
from protocol3.contract.strict_json import JsonValue, decode, encode
from protocol3.core import records as r
from protocol3.core.verdict import Accepted, Clock, Fresh, ObligationWake, Verdict
from protocol3.core.workflow.completion import ChildState, WaitState
from protocol3.core.workflow.decision import DecisionState, decide_application
from protocol3.core.workflow.inputs import OwnedChild
from protocol3.core.workflow.judgement import Judged
from protocol3.core.workflow.owner import Named
from protocol3.core.workflow.waits import Buffered

NOW = 1_700_000_000_000
SCOPE = Scope(tenant_id="north", namespace="ledger")
PROGRAM = ProgramRef(id="close-books", version="2.0.1")
DESCRIPTOR = b'{"program":{"id":"close-books","version":"2.0.1"},"digest":"sha256:' + b"0" * 64 + b'","size":9}'
OTHER_DESCRIPTOR = b'{"program":{"id":"rates","version":"1"},"digest":"sha256:' + b"1" * 64 + b'","size":9}'


class Make:
    """Every builder takes the fields that matter to a test and fills in the rest."""

    now, scope, program, descriptor, other_descriptor = NOW, SCOPE, PROGRAM, DESCRIPTOR, OTHER_DESCRIPTOR

    def fresh(self) -> Fresh:
        return Fresh(b"seed", NOW)

    def clock(self, now: int = NOW) -> Clock:
        return Clock(now=now)

    def input(self, **changes: Any) -> SubmitInput:
        fields = {
            "tenant_id": "north",
            "namespace": "ledger",
            "queue": "flows",
            "program": PROGRAM,
            "data": {"month": 3},
            "correlation_key": "books",
            "retry_policy": RetryPolicy(max_attempts=4, retry_delay_ms=0),
            "attempt_timeout_ms": 120_000,
        }
        return SubmitInput(**(fields | changes))

    def workflow(self, **changes: Any) -> r.Workflow:
        fields: dict[str, Any] = {
            "id": "wf_1",
            "scope_id": 1,
            "state": "running",
            "revision": 3,
            "activation_id": "task_a",
            "submitted_at": NOW - 1000,
            "terminal_at": None,
            "correlation_key": "books",
            "parent_id": None,
            "root_id": None,
            "owner_key": None,
            "depth": 0,
            "wait_key": None,
            "inbox_count": 0,
            "inbox_bytes": 0,
            "version": 7,
        }
        return r.Workflow(**(fields | changes))

    def waiting(self, **changes: Any) -> r.Workflow:
        return self.workflow(**({"state": "waiting", "activation_id": None} | changes))

    def body(self, **changes: Any) -> r.WorkflowBody:
        fields: dict[str, Any] = {
            "workflow_id": "wf_1",
            "idempotency_key": "k",
            "input": encode(replace(self.input(), data=None).to_json()),
            "data": encode(self.input().data),
            "descriptor": DESCRIPTOR,
            "origin_trace": None,
            "entrypoint": "start",
        }
        return r.WorkflowBody(**(fields | changes))

    def activation(self, **changes: Any) -> r.Activation:
        fields: dict[str, Any] = {
            "task_id": "task_a",
            "workflow_id": "wf_1",
            "revision": 3,
            "local_count": 0,
            "local_bytes": 0,
            "fork_count": 0,
            "fork_bytes": 0,
            "new_children": 0,
        }
        return r.Activation(**(fields | changes))

    def task(self, **changes: Any) -> r.Task:
        fields: dict[str, Any] = {
            "id": "task_a",
            "scope_id": 1,
            "queue": "flows",
            "run_id": "run_a",
            "state": "active",
            "submitted_at": NOW - 900,
            "available_at": NOW - 900,
            "terminal_at": None,
            "cancel_requested_at": None,
            "attempt_count": 1,
            "current_attempt_id": "att_1",
            "latest_attempt_id": "att_1",
            "history_length": 3,
            "max_attempts": 4,
            "retry_delay_ms": 0,
            "attempt_timeout_ms": 120_000,
            "correlation_key": "books",
            "workflow_id": "wf_1",
            "activation": True,
            "parent_workflow_id": None,
            "root_workflow_id": None,
            "version": 5,
        }
        return r.Task(**(fields | changes))

    def attempt(self, **changes: Any) -> r.Attempt:
        fields: dict[str, Any] = {
            "id": "att_1",
            "task_id": "task_a",
            "number": 1,
            "lease_id": "lease_1",
            "session_id": "ws_1",
            "consumer_id": 0,
            "event_id": "evt_1",
            "claimed_at": NOW - 500,
            "deadline": NOW + 90_000,
            "authority_deadline": NOW + 120_000,
            "lease_expires_at": NOW + 60_000,
            "state": "active",
            "may_have_started": True,
            "renew_sequence": 1,
            "renew_intent": "dispatch",
            "quiescence": "unconfirmed",
            "settled_at": None,
            "verdict": None,
            "finished_at": None,
        }
        return r.Attempt(**(fields | changes))

    def owner(self, **changes: Any) -> LeaseOwner:
        fields: dict[str, Any] = {
            "scope": SCOPE,
            "task_id": "task_a",
            "attempt_id": "att_1",
            "lease_id": "lease_1",
            "generation": 1,
            "worker_session_id": "ws_1",
            "consumer_id": 0,
        }
        return LeaseOwner(**(fields | changes))

    def named(self, **changes: Any) -> Named:
        fields: dict[str, Any] = {
            "scope_id": 1,
            "activation": self.activation(),
            "workflow": self.workflow(),
            "task": self.task(),
            "attempt": self.attempt(),
        }
        return Named(**(fields | changes))

    def obligation(self, kind: str = "decision", subject: str = "task_a", **changes: Any) -> r.Obligation:
        fields: dict[str, Any] = {
            "id": f"obl_{kind}",
            "scope_id": 1,
            "kind": kind,
            "workflow_id": "wf_1",
            "subject": subject,
            "created_at": NOW,
            "ready_real": NOW,
            "tries": 0,
        }
        return r.Obligation(**(fields | changes))

    def child(self, key: str, *, ended: int | None = None, **changes: Any) -> OwnedChild:
        """A child as `command(key)` registers it; `ended` is its terminal time."""
        fields: dict[str, Any] = {
            "workflow_id": "wf_1",
            "key": key,
            "kind": "task",
            "child_id": f"child_{key}",
            "fork_key": None,
            "identity": self.child_input().identity(),
            "delivered_in": None,
        }
        return OwnedChild(child=r.Child(**(fields | changes)), terminal_at=ended)

    def child_input(self, **changes: Any) -> SubmitInput:
        fields: dict[str, Any] = {
            "tenant_id": "north",
            "namespace": "ledger",
            "queue": "rates",
            "program": ProgramRef(id="rates", version="1"),
            "data": {"day": 2},
            "correlation_key": "books",
        }
        return SubmitInput(**(fields | changes))

    def command(self, key: str, **changes: JsonValue) -> dict[str, JsonValue]:
        program: JsonValue = {"id": "rates", "version": "1"}
        return {"key": key, "program": program, "queue": "rates", "data": {"day": 2}, **changes}

    def decision(self, kind: str, **members: JsonValue) -> dict[str, JsonValue]:
        """A decision of the activation task_a at revision 3; checkpoint kinds get their members by default."""
        head: dict[str, JsonValue] = {"v": 1, "activation_id": "task_a", "revision": 3, "kind": kind}
        if kind in ("suspend", "continue", "wait"):
            head |= {"state": {"batch": 4}, "continuation": "next", "commands": []}
        if kind == "suspend":
            head["until"] = []
        return head | members

    def judged(self, document: dict[str, JsonValue], processing_trace: bytes | None = None) -> Judged:
        descriptors = {ProgramRef(id="rates", version="1"): OTHER_DESCRIPTOR, PROGRAM: DESCRIPTOR}
        return Judged(decision=decode_decision(document), descriptors=descriptors, processing_trace=processing_trace)

    def decision_state(self, **changes: Any) -> DecisionState:
        fields: dict[str, Any] = {
            "obligation": self.obligation(),
            "drain": None,
            "workflow": self.workflow(),
            "body": self.body(),
            "activation": self.activation(),
            "children": {},
            "pending": (),
            "results": {},
            "live_tasks": 0,
            "live_workflows": 0,
            "owned_end": NOW - 10,
            "used": None,
            "event": None,
            "clock": self.clock(),
        }
        return DecisionState(**(fields | changes))

    def apply(
        self, document: dict[str, JsonValue], *, processing_trace: bytes | None = None, **changes: Any
    ) -> Accepted:
        """The verdict on a decision of task_a."""
        verdict = decide_application(
            self.decision_state(**changes), self.obligation(), self.judged(document, processing_trace), self.fresh()
        )
        assert isinstance(verdict, Accepted)
        return verdict

    def child_state(self, **changes: Any) -> ChildState:
        fields: dict[str, Any] = {
            "obligations": (self.obligation("child", "child_a"),),
            "drain": None,
            "workflow": self.waiting(),
            "live": False,
            "body": self.body(),
            "checkpoint": self.checkpoint(until=["a"]),
            "awaited": (self.child("a", ended=NOW - 5),),
            "results": {"a": b'{"task_id":"child_a","state":"cancelled","outcome":{"kind":"cancelled"}}'},
            "clock": self.clock(),
        }
        return ChildState(**(fields | changes))

    def wait_state(self, **changes: Any) -> WaitState:
        fields: dict[str, Any] = {
            "obligation": None,
            "workflow": self.waiting(wait_key="signal"),
            "body": self.body(),
            "checkpoint": self.checkpoint(),
            "wait": self.wait(),
            "event": None,
            "clock": self.clock(),
        }
        return WaitState(**(fields | changes))

    def checkpoint(self, **changes: Any) -> r.Checkpoint:
        fields: dict[str, Any] = {"workflow_id": "wf_1", "continuation": "next", "state": b'{"batch":4}', "until": None}
        return r.Checkpoint(**(fields | changes))

    def wait(self, key: str = "signal", *, kind: str = "event", deadline: int | None = None) -> r.Wait:
        return r.Wait(workflow_id="wf_1", key=key, kind=kind, deadline=deadline)

    def event(self, **changes: JsonValue) -> dict[str, JsonValue]:
        return {
            "specversion": "1.0",
            "id": "e1",
            "source": "/desk",
            "type": "signed",
            "datacontenttype": "application/json",
            "data": None,
            **changes,
        }

    def buffered(self, key: str = "signal", accepted_at: int = NOW - 50) -> Buffered:
        body = encode(self.event())
        receipt = r.Inbox(
            workflow_id="wf_1",
            key=key,
            source="/desk",
            event_id="e1",
            identity=b"identity",
            size=len(body),
            accepted_at=accepted_at,
        )
        return Buffered(receipt=receipt, body=r.InboxBody(workflow_id="wf_1", key=key, event=body))


@pytest.fixture
def make() -> Make:
    return Make()


@pytest.fixture
def written() -> Callable[[Verdict, type[Any]], list[Any]]:
    """The records of one type that a verdict writes; the later one counts where a record is written twice."""

    def of(verdict: Verdict, kind: type[Any]) -> list[Any]:
        assert isinstance(verdict, Accepted)
        latest = {_identity(record): record for record in verdict.records if isinstance(record, kind)}
        return list(latest.values())

    return of


@pytest.fixture
def failure(written: Callable[[Verdict, type[Any]], list[Any]]) -> Callable[[Verdict], str]:
    """The error kind of a verdict that makes the workflow fail and leaves nothing else (DEC-041)."""

    def of(verdict: Verdict) -> str:
        (workflow,) = written(verdict, r.Workflow)
        assert workflow.state == "failing"
        assert {type(record) for record in verdict.records} == {r.Workflow, r.Outcome, r.Obligation}
        (drain,) = [wake.obligation for wake in verdict.wakes if isinstance(wake, ObligationWake)]
        assert drain.kind == "drain"
        (outcome,) = written(verdict, r.Outcome)
        error = decode(outcome.body)
        assert outcome.kind == "failed"
        assert isinstance(error, dict)
        return str(error["kind"])

    return of


def _identity(record: Any) -> tuple[Any, ...]:
    names = ("id", "workflow_id", "task_id", "key", "ref", "activation_id", "sequence")
    return (type(record), *(getattr(record, name, None) for name in names))
