"""Chapter 06 and the submit rows of chapter 41, Tasks."""

from __future__ import annotations

import pytest

from protocol3.contract.models.common import Descriptor
from protocol3.contract.models.tasks import SubmitCommand
from protocol3.contract.strict_json import decode, encode
from protocol3.core import records as r
from protocol3.core.submission import Submitted, submit
from protocol3.core.verdict import QueueWake


def command(trace=None, **input):
    fields = {"tenant_id": "t", "namespace": "n", "queue": "q", "program": {"id": "p", "version": "1"}, "data": 1}
    return SubmitCommand.from_json({"idempotency_key": "k", "input": fields | input, "origin_trace": trace})


def decide(make, asked, submitted=None):
    descriptor = Descriptor.from_json(decode(make.descriptor))
    identity, data = asked.input.identity(), encode(asked.input.data)
    return submit(asked, identity, data, descriptor, submitted, scope_id=7, clock=make.clock(), fresh=make.fresh())


def test_first_acceptance(make, written, reasons):
    """TASK-100, TASK-101, TASK-229."""
    verdict = decide(make, command(correlation_key="c"))
    task, body, key = (written(verdict, kind) for kind in (r.Task, r.TaskBody, r.Submission))
    assert (task.state, task.submitted_at, task.available_at) == ("queued", make.now, make.now)
    assert (task.attempt_count, task.current_attempt_id, task.terminal_at, task.cancel_requested_at) == (
        0,
        None,
        None,
        None,
    )
    assert (task.max_attempts, task.retry_delay_ms, task.attempt_timeout_ms) == (3, 5_000, 300_000)
    assert (body.data, body.descriptor, body.origin_trace) == (b"1", make.descriptor, None)
    assert (key.scope_id, key.space, key.key, key.subject_id) == (7, "task", "k", task.id)
    assert reasons(verdict) == ["submitted"]
    assert verdict.guards == ()
    assert verdict.wakes == (QueueWake(scope_id=7, queue="q"),)
    assert verdict.reply == (task, body)


@pytest.mark.parametrize("state", ["queued", "active", "succeeded", "failed", "cancelled"])
def test_same_key_again(make, word, state):
    """TASK-104, TASK-105: replay of the current task or conflict, in every state."""
    task, body = make.task(state=state), make.body()
    first = Submitted(identity=command().input.identity(), task=task, body=body)
    replay = decide(make, command(trace={"traceparent": f"00-{'1' * 32}-{'2' * 16}-01"}), first)
    assert (word(replay), replay.reply) == ("replay", (task, body))  # TASK-108: the trace is no part of it
    assert word(decide(make, command(data=2), first)) == "conflict"


@pytest.mark.parametrize(
    "same",
    [
        {"retry_policy": {"max_attempts": 3, "retry_delay_ms": 5_000}},
        {"attempt_timeout_ms": 300_000},
        {"correlation_key": None},
    ],
)
def test_defaults_are_the_same(make, word, same):
    """TASK-106."""
    first = Submitted(identity=command().input.identity(), task=make.task(), body=make.body())
    assert word(decide(make, command(**same), first)) == "replay"


@pytest.mark.parametrize(
    "other",
    [
        {"queue": "r"},
        {"program": {"id": "p", "version": "2"}},
        {"data": 1.0},
        {"data": True},
        {"data": "1"},
        {"correlation_key": ""},
        {"retry_policy": {"max_attempts": 2, "retry_delay_ms": 5_000}},
        {"attempt_timeout_ms": 300_001},
    ],
)
def test_any_difference_is_a_conflict(make, word, other):
    """TASK-105 to TASK-107."""
    first = Submitted(identity=command().input.identity(), task=make.task(), body=make.body())
    assert word(decide(make, command(**other), first)) == "conflict"
