"""What a workflow is made of, and what reads show of it (chapters 09, 10, 13 and 16)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from protocol3_conformance.model.expected import ABSENT, SOME, by, exactly, fresh, known
from protocol3_conformance.model.tasks import TERMINAL, Attempt, Policy, Task


@dataclass(slots=True, eq=False, kw_only=True)
class Child:
    """An owned task or workflow. `binding` is the command or branch it is bound to (CHD-011)."""

    kind: str
    binding: Any
    task: Task | None = None
    flow: Flow | None = None
    consumed: bool = False

    @property
    def state(self) -> str:
        owned = self.task or self.flow
        assert owned is not None
        return owned.state

    @property
    def terminal(self) -> bool:
        return self.state in TERMINAL

    @property
    def result(self) -> Any:
        """CHD-040, CHD-041, CHD-060."""
        if self.task:
            ended = {"task_id": known(self.task.name), "state": self.task.state, "outcome": self.task.outcome}
            return by(exactly(ended), "CHD-060")
        assert self.flow is not None
        ended = {"workflow_id": known(self.flow.name), "state": self.flow.state, "outcome": self.flow.outcome}
        return by(exactly({"kind": "workflow", **ended}), "CHD-060")


@dataclass(slots=True, eq=False, kw_only=True)
class Activation:
    """What was frozen when it was scheduled, by `why`, and its journal: record and the attempt that stored it."""

    task: Task
    revision: int
    continuation: str
    state: Any
    inputs: Mapping[str, Any]
    consumes: Iterable[Child] = ()
    wake: Any = None
    why: tuple[str, ...] = ("WF-021",)
    journal: dict[str, tuple[Any, Attempt]] = field(default_factory=dict)

    @property
    def begins(self) -> tuple[str, ...]:
        """By what its continuation and state are what they are."""
        return ("ACT-020",) if self.revision else self.why


@dataclass(slots=True, eq=False, kw_only=True)
class Wait:
    """`key` and `deadline` as in TMR-002 and TMR-003."""

    key: str
    kind: str
    deadline: int | None
    open: bool = True

    def over(self, now: int) -> bool:
        return not self.open or (self.deadline is not None and now >= self.deadline)


@dataclass(slots=True, eq=False, kw_only=True)
class Event:
    """An accepted event; `accepted_at` names the instant in its receipt."""

    key: str
    event: Any
    accepted_at: Any
    pending: bool = True

    @property
    def identity(self) -> tuple[Any, Any]:
        return self.event["source"], self.event["id"]


@dataclass(slots=True, eq=False, kw_only=True)
class Flow:
    """A workflow, in its state by `why`. `kept` is the activation that `failing` and `cancelling` show (WF-031)."""

    data: Any
    queue: str
    policy: Policy
    key: str | None = None
    binding: Any = None
    name: Any = None
    parent: Flow | None = None
    state: str = "running"
    why: tuple[str, ...] = ("WF-010",)
    revision: int = 0
    activations: list[Activation] = field(default_factory=list)
    applied: bool = False
    kept: Activation | None = None
    children: dict[str, Child] = field(default_factory=dict)
    forks: dict[str, tuple[Any, Attempt]] = field(default_factory=dict)
    waits: dict[str, Wait] = field(default_factory=dict)
    waiting: Wait | None = None
    until: tuple[str, ...] | None = None
    events: list[Event] = field(default_factory=list)
    checkpoint: tuple[str, Any] = ("start", None)
    ending: Any = None

    @property
    def activation(self) -> Activation:
        return self.activations[-1]

    @property
    def draining(self) -> bool:
        return self.state in ("failing", "cancelling")

    @property
    def terminal(self) -> bool:
        return self.state in TERMINAL

    @property
    def lineage(self) -> Any:
        """WF-032."""
        if self.parent is None:
            return {"parent_workflow_id": by(ABSENT, "WF-032"), "root_workflow_id": by(ABSENT, "WF-032")}
        *_, root = upwards(self.parent)
        parent, topmost = by(known(self.parent.name), "WF-032"), by(known(root.name), "WF-032")
        return {"parent_workflow_id": parent, "root_workflow_id": topmost}

    @property
    def snapshot(self) -> Any:
        """WF-030…034."""
        shown = {"running": self.activation, "failing": self.kept, "cancelling": self.kept}.get(self.state)
        return exactly(
            {
                "workflow_id": known(self.name),
                "scope": SOME,
                "state": by(self.state, *self.why),
                "revision": by(self.revision, "WF-051"),
                "activation_id": by(shown and self.named(shown), "WF-031"),
                "submitted_at": SOME,
                "terminal_at": by(SOME if self.terminal else None, "WF-030"),
                "correlation_key": None,
                **self.lineage,
            }
        )

    def named(self, activation: Activation) -> Any:
        """Its id: one that no activation before it had, where it is not known yet (ACT-009)."""
        if activation.task.name is not None:
            return activation.task.name
        return fresh(one.task.name for one in self.activations)

    @property
    def outcome(self) -> Any:
        """WF-040, WF-066."""
        return self.ending if self.terminal else by(None, "WF-040")

    def context(self) -> Any:
        """ACT-049, ACT-021, ACT-022, ACT-028."""
        one = self.activation
        return exactly(
            {
                "v": 1,
                "workflow_id": known(self.name),
                "activation_id": one.task.name,
                "revision": by(one.revision, "ACT-020"),
                "continuation": by(one.continuation, *one.begins),
                "state": by(one.state, *one.begins),
                "inputs": by(exactly(dict(one.inputs)), *one.why),
                "local_steps": by([exactly(one.journal[key][0]) for key in sorted(one.journal)], "ACT-021"),
                "wake": by(ABSENT, "TMR-022", "ACT-022") if one.wake is None else by(one.wake, *one.why),
                **self.lineage,
            }
        )

    def unfinished(self) -> list[Child]:
        """Owned and not terminal."""
        return [child for child in self.children.values() if not child.terminal]

    def drop_pending(self) -> None:
        """DRN-001, DEC-050."""
        for event in self.events:
            event.pending = False
        if self.waiting:
            self.waiting.open = False
        self.waiting, self.until = None, None


def upwards(flow: Flow | None) -> Iterator[Flow]:
    """The workflow, its parent, and so on to the root."""
    while flow is not None:
        yield flow
        flow = flow.parent
