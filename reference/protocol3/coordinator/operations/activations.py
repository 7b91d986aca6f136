"""Activations as their owners see them: context, local results, forks (chapters 10, 11 and 14)."""

from __future__ import annotations

from protocol3.contract.models.common import LeaseOwner
from protocol3.contract.models.workflows import ForkCommand, ForkReceipt, LocalResultCommand, LocalResultReceipt
from protocol3.contract.strict_json import JsonValue
from protocol3.coordinator.services import Services
from protocol3.core.workflow import context, fork, local
from protocol3.store.loads import activations as loads


async def activation_context(services: Services, owner: LeaseOwner) -> bytes:
    """The encoded ActivationContext, for the live owner alone (ACT-020..028)."""
    scope_id = await services.scopes.find(owner.scope)
    reply: bytes = await services.transitions.run(
        ("task", owner.task_id),
        loads.context(services.transitions.sql, scope_id, owner),
        lambda state, fresh: context.decide_context(state, owner, fresh),
    )
    return reply


async def commit_local_result(services: Services, command: LocalResultCommand) -> JsonValue:
    """The receipt of a local record, whatever it is a record of (LOC-012)."""
    scope_id = await services.scopes.find(command.owner.scope)
    receipt: LocalResultReceipt = await services.transitions.run(
        ("task", command.owner.task_id),
        loads.local(services.transitions.sql, scope_id, command),
        lambda state, fresh: local.decide_local(state, command, fresh),
        recall=loads.recalled_local(scope_id, command),
    )
    return receipt.to_json()


async def accept_fork(services: Services, command: ForkCommand) -> JsonValue:
    """The receipt of a fork and all its branches (FRK-001..020)."""
    scope_id = await services.scopes.find(command.owner.scope)
    receipt: ForkReceipt = await services.transitions.run(
        ("task", command.owner.task_id),
        loads.fork(services.transitions.sql, scope_id, command),
        lambda state, fresh: fork.decide_fork(state, command, fresh),
    )
    return receipt.to_json()
