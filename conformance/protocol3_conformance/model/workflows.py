"""One scope with workflows: each command and its answer (chapters 09 to 11 and 13 to 15).

After a command the coordinator goes on by itself; `progress` takes the model to where that ends.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from protocol3_conformance.model import decisions
from protocol3_conformance.model.delivery import Delivery
from protocol3_conformance.model.expected import SOME, Answer, accepted, by, exactly, fresh, refused
from protocol3_conformance.model.flows import Activation, Child, Event, Flow, upwards
from protocol3_conformance.model.tasks import Attempt, Policy

CANCELLED = by(exactly({"kind": "cancelled"}), "WF-060")


@dataclass(slots=True, kw_only=True)
class Workflows(Delivery):
    """Tasks and workflows of a scope."""

    flows: list[Flow] = field(default_factory=list)

    def begun(self, key: str) -> Flow | None:
        """The workflow submitted with this key; tasks have keys of their own (WF-011)."""
        return next((flow for flow in self.flows if flow.key == key), None)

    def start(
        self,
        key: str,
        binding: Any,
        policy: Policy,
        now: int,
        *,
        name: Any,
        activation: Any,
        others: Iterable[Any] = (),
    ) -> Answer:
        """WF-010, WF-013, WF-015, WF-020, WF-021; arguments as those of `submit`."""
        flow = self.begun(key)
        if flow is not None:
            same = flow.binding == binding
            return accepted(flow.snapshot, "WF-013") if same else refused("conflict", "WF-015")
        taken = [*(one.name for one in self.flows), *others]
        queue, data = binding["queue"], binding["data"]
        flow = Flow(data=data, queue=queue, policy=policy, key=key, binding=binding, name=name)
        self.flows.append(flow)
        self.tasks.append(decisions.activate(flow, now, "WF-021").task)
        flow.why = ("WF-010",)
        flow.activation.task.name = activation
        shown = dict(flow.snapshot["$exactly"])
        return accepted(exactly({**shown, "workflow_id": by(fresh(taken), "WF-011"), "activation_id": SOME}), "WF-020")

    # Under the lease of an activation

    def owned(self, attempt: Attempt) -> tuple[Flow, Activation]:
        flow = attempt.task.owner
        return flow, next(one for one in flow.activations if one.task is attempt.task)

    def current(self, attempt: Attempt, now: int) -> bool:
        """The live current owner (ACT-024)."""
        flow, activation = self.owned(attempt)
        runs = flow.state == "running" and flow.activation is activation
        open_ = attempt.command is None and not attempt.task.cancelling
        return runs and open_ and attempt.live(now) and now < attempt.deadline

    def context(self, attempt: Attempt, now: int) -> Answer:
        """ACT-024…027."""
        flow, _ = self.owned(attempt)
        able = self.current(attempt, now)
        return accepted(flow.context(), "ACT-049") if able else refused("ownership_lost", "ACT-024")

    def local(self, attempt: Attempt, record: Any, now: int) -> Answer:
        """LOC-004."""
        _, activation = self.owned(attempt)
        able = self.current(attempt, now) and attempt.started
        stored, author = activation.journal.get(record["key"], (None, None))
        if stored is not None and stored != record:
            return refused("conflict", "LOC-004")
        if author is not attempt and not able:
            return refused("ownership_lost", "LOC-004")
        activation.journal.setdefault(record["key"], (record, attempt))
        return accepted(
            exactly({"key": record["key"], "already_accepted": stored is not None}), "LOC-004" if able else "LOC-005"
        )

    def fork(self, attempt: Attempt, request: Any, policy: Policy, now: int) -> Answer:
        """FRK-010, FRK-002…006, FRK-014."""
        flow, _ = self.owned(attempt)
        able = self.current(attempt, now) and attempt.started
        stored, author = flow.forks.get(request["key"], (None, None))
        if stored is not None and stored != request:
            return refused("conflict", "FRK-010")
        if author is not attempt and not able:
            return refused("ownership_lost", "FRK-010")
        keys = [branch["key"] for branch in request["branches"]]
        if stored is None:
            if any(key in flow.children for key in keys):
                return refused("conflict", "CHD-010", "FRK-010")
            flow.forks[request["key"]] = (request, attempt)
            for branch in request["branches"]:
                inner = Flow(data=branch["data"], queue=branch["queue"], policy=policy, parent=flow)
                inner.checkpoint = (branch["entrypoint"], None)
                self._adopt(flow, branch["key"], Child(kind="branch", binding=branch, flow=inner), now)
        receipt = {"key": request["key"], "branch_keys": keys, "already_accepted": stored is not None}
        return accepted(exactly(receipt), "FRK-010" if stored is None or author is attempt else "FRK-014")

    def _adopt(self, flow: Flow, key: str, child: Child, now: int) -> None:
        flow.children[key] = child
        if child.task:
            child.task.available = now
            self.tasks.append(child.task)
        else:
            assert child.flow is not None
            self.flows.append(child.flow)
            rule = "FRK-004" if child.kind == "branch" else "CHD-022"
            self.tasks.append(decisions.activate(child.flow, now, rule).task)

    # Commands of clients

    def send(self, flow: Flow, key: str, event: Any, accepted_at: Any, now: int) -> Answer:
        """EVT-011; `accepted_at` names that of the receipt."""
        sent = Event(key=key, event=event, accepted_at=accepted_at)
        met = [one for one in flow.events if one.key == key or one.identity == sent.identity]
        if met:
            (first, *others) = met
            equal = not others and first.key == key and first.event == event
            return (
                accepted(_receipt(flow, first, repeated=True), "EVT-012") if equal else refused("conflict", "EVT-013")
            )
        if flow.state not in ("running", "waiting"):
            return refused("obsolete_operation", "EVT-013")
        wait = flow.waits.get(key)
        if wait and (wait.kind != "event" or wait.over(now)):
            return refused("obsolete_operation", "EVT-011")
        flow.events.append(sent)
        return accepted(_receipt(flow, sent, repeated=False), "EVT-011" if flow.waiting is wait else "EVT-015")

    def stop(self, flow: Flow, rule: str = "WF-060") -> Answer:
        """By a client; `rule` says why otherwise."""
        if flow.terminal or flow.state == "cancelling":
            return accepted(flow.snapshot, "WF-062")
        if flow.state == "failing":
            rule = "WF-061"
        else:
            flow.kept = flow.activation if flow.state == "running" else None
        flow.state, flow.why, flow.ending = "cancelling", (rule,), CANCELLED
        flow.drop_pending()
        return accepted(flow.snapshot, rule)

    # What goes on by itself

    def progress(self, now: int) -> None:
        """Until nothing is owed any more (chapter 17)."""
        while any(self._step(flow, now) for flow in list(self.flows)):
            pass

    def _step(self, flow: Flow, now: int) -> bool:
        """Whether something was done."""
        if flow.draining:
            return self._drain(flow, now)
        if flow.state == "waiting":
            resumed = decisions.resume(flow, now)
        elif flow.state == "running" and flow.activation.task.terminal and not flow.applied:
            flow.applied = True
            resumed, adopted = decisions.apply(flow, now)
            for key, child in adopted.items():
                self._adopt(flow, key, child, now)
            if resumed is None:
                return True
        else:
            return False
        if resumed is None:
            return False
        self.tasks.append(resumed.task)
        return True

    def _drain(self, flow: Flow, now: int) -> bool:
        """DRN-003…007."""
        tasks = [flow.activation.task, *(child.task for child in flow.children.values() if child.task)]
        for task in tasks:
            if not task.cancelling:
                self.cancel(task, now)
        owned = [child.flow for child in flow.children.values() if child.flow]
        stopped = [inner for inner in owned if not inner.terminal and inner.state != "cancelling"]
        for inner in stopped:
            self.stop(inner, "DRN-004")
        over = all(task.terminal for task in tasks) and all(inner.terminal for inner in owned)
        if over:
            flow.state, flow.why = "cancelled" if flow.state == "cancelling" else "failed", ("DRN-006",)
        return over or bool(stopped)

    def order_open(self, now: int) -> bool:
        """Does a lost lease end a workflow's activation, and time something below that workflow as well?"""
        lost = self.lost(now)
        over = [task.owner for task in lost if task.activation and not task.retries and not task.owner.draining]
        ends = [task.owner.parent if task.activation else task.owner for task in lost]
        wakes = [flow.parent for flow in self.flows if flow.waiting and flow.waiting.over(now)]
        return any(flow in over for owner in [*ends, *wakes] for flow in upwards(owner))

    def due(self) -> list[int]:
        waits = [flow.waiting.deadline for flow in self.flows if flow.waiting]
        return [*Delivery.due(self), *(instant for instant in waits if instant is not None)]


def _receipt(flow: Flow, event: Event, *, repeated: bool) -> Any:
    """EVT-012, EVT-023."""
    at = event.accepted_at if repeated else SOME
    return {"workflow_id": flow.name, "key": event.key, "accepted_at": at, "already_accepted": repeated}
