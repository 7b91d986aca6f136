"""Replies made of parts that respect their own bounds respect the bounds of the whole."""

import copy
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

from protocol3.contract import limits
from protocol3.contract.models.activations import LocalRecord, WorkflowChildResult, inputs_bytes
from protocol3.contract.models.common import Scope
from protocol3.contract.models.delivery import AttemptSnapshot
from protocol3.contract.models.outcomes import WorkflowSucceeded
from protocol3.contract.models.tasks import TaskPage, TaskStatus
from protocol3.contract.models.workflows import ActivationContext
from protocol3.contract.strict_json import compact_size, depth

SAMPLES = json.loads((Path(__file__).parent / "messages.json").read_text(encoding="utf-8"))
LONG = '"' * limits.ID_BYTES  # written as two bytes each
STATUS = TaskStatus(
    scope=Scope(tenant_id=LONG, namespace=LONG),
    task_id=LONG,
    run_id=LONG,
    queue=LONG,
    correlation_key='"' * limits.CORRELATION_KEY_BYTES,
    state="active",
    attempt_count=limits.MAX_ATTEMPTS,
    current_attempt_id=LONG,
    latest_attempt_id=LONG,
    submitted_at=limits.MAX_TIMESTAMP_MS,
    available_at=limits.MAX_TIMESTAMP_MS,
    terminal_at=limits.MAX_TIMESTAMP_MS,
    cancel_requested_at=limits.MAX_TIMESTAMP_MS,
    workflow_id=LONG,
    workflow_activation_id=LONG,
)


def test_the_longest_status() -> None:
    """TASK-059."""
    assert compact_size(STATUS.to_json()) <= limits.TASK_STATUS_REPLY_BYTES


def test_the_longest_page() -> None:
    """DISC-022."""
    page = TaskPage(items=(STATUS,) * limits.TASK_PAGE, next_cursor='"' * limits.CURSOR_BYTES)
    assert compact_size(page.to_json()) <= limits.TASK_PAGE_REPLY_BYTES


def test_the_largest_context() -> None:
    """LIM-022, LIM-023, ACT-023: state, inputs and journal at their limits at the same time, ids at theirs."""
    child = WorkflowChildResult(workflow_id=LONG, outcome=WorkflowSucceeded(output=""))
    room = limits.INPUTS_BYTES - inputs_bytes({LONG: child.to_json()})
    child = replace(child, outcome=WorkflowSucceeded(output="x" * room))
    steps = [LocalRecord(key=str(n), callable="c", input=None, output="") for n in range(3)]
    room = limits.LOCAL_LEDGER_BYTES - compact_size([step.to_json() for step in steps])
    steps = [replace(step, output="x" * (room // 3)) for step in steps]
    steps[0] = replace(steps[0], output="x" * (room // 3 + room % 3))
    context = ActivationContext(
        workflow_id=LONG,
        activation_id=LONG,
        revision=limits.U64_MAX,
        continuation=LONG,
        state="x" * (limits.STATE_BYTES - 2),
        inputs={LONG: child},
        local_steps=tuple(steps),
        parent_workflow_id="p" * limits.ID_BYTES,
        root_workflow_id="r" * limits.ID_BYTES,
    )
    context.check()
    assert inputs_bytes(context.to_json()["inputs"]) == limits.INPUTS_BYTES
    assert compact_size(context.to_json()["local_steps"]) == limits.LOCAL_LEDGER_BYTES
    assert compact_size(context.to_json()) <= limits.CONTEXT_BYTES


def test_the_deepest_reply() -> None:
    """JSON-034: the attempt of a controller whose output is as deep as a settlement may bring it."""
    document: dict[str, Any] = copy.deepcopy(SAMPLES["attempt"]["document"])
    output: Any = 1
    for _ in range(limits.CONTROLLER_OUTPUT_DEPTH):
        output = [output]
    report = document["settlement"]["command"]["report"]["report"]
    report["activation_id"] = report["task_id"]
    report["outcome"] = {"status": "success", "output": output}
    attempt = AttemptSnapshot.from_json(document)
    assert limits.CONTROLLER_OUTPUT_DEPTH < depth(attempt.to_json()) <= limits.REPLY_DEPTH
