"""Groups of workflow states and the reason of a refusal that fails a workflow."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from protocol3.core.records import Workflow
from protocol3.core.verdict import Guard

#: A workflow in these states accepts events and schedules activations.
OPEN: Final = frozenset({"running", "waiting"})
#: A workflow in these states only waits for what it owns to end (DRN-013).
DRAINING: Final = frozenset({"failing", "cancelling"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Problem:
    """Why a decision cannot be applied; it becomes the message of the workflow's error (DEC-040)."""

    message: str


def changed(workflow: Workflow) -> Guard:
    """The guard of a transition that changes the workflow or what belongs to it."""
    return Guard(kind="workflow", id=workflow.id, version=workflow.version)


def seen(workflow: Workflow) -> Guard:
    """The guard of a decision that relied on the workflow and leaves it as it is."""
    return Guard(kind="workflow", id=workflow.id, version=workflow.version, seen=True)
