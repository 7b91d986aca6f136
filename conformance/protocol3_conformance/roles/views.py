"""Everything that can be read of tasks, attempts and workflows, and the claim that none of it changed."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

from protocol3_conformance.roles.activation import Activation
from protocol3_conformance.roles.claim import Claim
from protocol3_conformance.wire.shapes import brief
from protocol3_conformance.wire.strict_json import same

if TYPE_CHECKING:
    from protocol3_conformance.roles.client import Client


async def view(client: Client, tasks: Sequence[str], workflows: Sequence[str], claims: Sequence[Claim]) -> Any:
    """Every read of these by its name. Of a claim its attempt and task, of a live activation its context as well."""
    found: dict[str, Any] = {}
    for task_id in dict.fromkeys([*tasks, *(claim.task_id for claim in claims)]):
        for read in (client.inspect, client.status, client.result, client.history):
            found[f"{read.__name__} of {task_id}"] = (await read(task_id)).accepted()
    for workflow_id in workflows:
        for look in (client.workflow_status, client.workflow_result):
            found[f"{look.__name__} of {workflow_id}"] = (await look(workflow_id)).accepted()
    for claim in claims:
        found[f"attempt {claim.attempt_id}"] = await claim.inspect()
        if isinstance(claim, Activation):
            context = await claim.context()
            found[f"context of {claim.attempt_id}"] = context.value
    return found


@asynccontextmanager
async def unchanged(
    client: Client,
    *,
    tasks: Sequence[str] = (),
    workflows: Sequence[str] = (),
    claims: Sequence[Claim] = (),
    rule: str = "TASK-016",
) -> AsyncIterator[None]:
    """What happens within the block, such as a refusal, must leave everything that can be read of these as it was."""
    before = await view(client, tasks, workflows, claims)
    yield
    after = await view(client, tasks, workflows, claims)
    for name, seen in before.items():
        assert same(after[name], seen), f"{name} changed from {brief(seen, 300)} to {brief(after[name], 300)} ({rule})"
