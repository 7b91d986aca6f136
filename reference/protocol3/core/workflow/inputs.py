"""Child results and the inputs frozen for an activation (chapter 13)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from protocol3.contract.limits import INPUTS_BYTES
from protocol3.contract.strict_json import encode
from protocol3.core.records import Attempt, Child, Settlement, Task
from protocol3.core.task_views import outcome
from protocol3.core.verdict import Draft
from protocol3.core.workflow.activation import inputs_fit
from protocol3.core.workflow.compact import compact_object
from protocol3.core.workflow.states import Problem


@dataclass(frozen=True, slots=True, kw_only=True)
class OwnedChild:
    """A child as its owner sees it: `terminal_at` is None until it ended (CHD-030)."""

    child: Child
    terminal_at: int | None


def task_result(task: Task, attempt: Attempt | None, settlement: Settlement | None) -> bytes:
    """The encoded ChildResult of a task that ended (CHD-040 to CHD-042); arguments as for `outcome`."""
    return compact_object(
        {
            "task_id": encode(task.id),
            "state": encode(task.state),
            "outcome": outcome(task, attempt, settlement),
        }
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Delivery:
    """The children whose results an activation gets, with its inputs."""

    children: tuple[OwnedChild, ...]
    inputs: bytes

    @property
    def latest_end(self) -> int | None:
        """No activation starts before the children it was given ended (WF-055)."""
        return max((end for owned in self.children if (end := owned.terminal_at) is not None), default=None)


def deliver(chosen: Sequence[OwnedChild], results: Mapping[str, bytes | None]) -> Delivery | Problem:
    """The inputs of exactly these children, all or nothing (CHD-056).

    A result that is None is larger than any inputs may be; it was not even loaded.
    """
    members: dict[str, bytes] = {}
    for owned in chosen:
        result = results[owned.child.key]
        if result is None:
            return Problem(message=f"the inputs of the next activation exceed {INPUTS_BYTES} bytes")
        members[owned.child.key] = result
    inputs = compact_object(members)
    return inputs_fit(inputs) or Delivery(children=tuple(chosen), inputs=inputs)


def mark_delivered(draft: Draft, delivery: Delivery, activation_id: str) -> None:
    """Remember the activation whose applied decision will have consumed these children (CHD-053)."""
    draft.write(*(replace(owned.child, delivered_in=activation_id) for owned in delivery.children))
