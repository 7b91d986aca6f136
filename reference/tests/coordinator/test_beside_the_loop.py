"""Long bodies are worked on beside the event loop: other exchanges must not wait for them."""

from __future__ import annotations

import threading

import pytest

from protocol3.contract.models.submission import SubmitInput
from protocol3.contract.models.tasks import SubmitCommand
from protocol3.contract.strict_json import encode
from protocol3.coordinator import budget
from protocol3.coordinator.operations import acceptance
from protocol3.core import creation
from protocol3.core.workflow import creation as workflow_creation


@pytest.mark.parametrize("operation", ["submit_task", "submit_workflow"])
async def test_a_long_submission(client, monkeypatch, operation):
    """Neither its identity nor its data are made on the loop, first or repeated."""
    command = SubmitCommand.from_json(client.submission(data=["x" * 1000] * 500) | {"origin_trace": None})
    loop, on_loop, beside = threading.get_ident(), [], []

    def noted(long, what):
        if long:
            (on_loop if threading.get_ident() == loop else beside).append(what)

    def encoded(value):
        text = encode(value)
        noted(len(text) > budget.THREAD_BYTES, "data")
        return text

    identity = SubmitInput.identity

    def identified(self):
        noted(True, "identity")
        return identity(self)

    for module in (acceptance, creation, workflow_creation):
        monkeypatch.setattr(module, "encode", encoded)
    monkeypatch.setattr(SubmitInput, "identity", identified)
    monkeypatch.setattr("protocol3.coordinator.operations.acceptance.FRESH_S", 60.0)  # on a machine without haste
    token = budget.body_bytes.set(500_000)
    try:
        first = await client.send(operation, command)
        assert await client.send(operation, command) == first
    finally:
        budget.body_bytes.reset(token)
    assert on_loop == []
    assert beside == ["identity", "data", "identity"]
