"""Settlement: one command, frozen before its first send, repeated until it is resolved (WRK-069…076)."""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Final, Literal, TypeVar

from protocol3.contract import limits
from protocol3.contract.models.common import TraceContext
from protocol3.contract.models.delivery import Assignment, Report, SettleCommand, SettleReply
from protocol3.contract.refusal import Refusal
from protocol3.contract.strict_json import JsonValue, encode
from protocol3.contract.vocabulary import Quiescence, task_state
from protocol3.worker.failures import ExecutionFailed
from protocol3.worker.reports import EXECUTION, failed
from protocol3.worker.transport import Coordinator, Refused, Uncertain

OPERATION_ID: Final = "worker-result-v1"
_SETTLE_PATH: Final = "/v1/settlements"
_CONFIRM_PATH: Final = "/v1/quiescence-confirmations"

T = TypeVar("T")
Resolution = Literal["accepted", "ownership_lost"]


class Unresolved(Exception):
    """A definite answer that resolves nothing: fatal for the worker, and the report stays pending (WRK-075)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FrozenSettlement:
    """The bytes that are sent, again and again if need be (WRK-073)."""

    assignment: Assignment
    body: bytes


def freeze(
    assignment: Assignment, report: Report, quiescence: Quiescence, trace: TraceContext | None = None
) -> FrozenSettlement:
    """The settlement that fits: whole, else without observations, else a `protocol` failure (WRK-072)."""
    body = _body(assignment, report, quiescence, trace)
    if len(body) > limits.SETTLEMENT_BODY_BYTES:
        body = _body(assignment, replace(report, observations=None), quiescence, trace)
    if len(body) > limits.SETTLEMENT_BODY_BYTES:
        excess = ExecutionFailed("protocol", "the report cannot be settled: it is too large")
        body = _body(assignment, failed(report.identity, excess, EXECUTION), quiescence, trace)
    return FrozenSettlement(assignment=assignment, body=body)


def _body(assignment: Assignment, report: Report, quiescence: Quiescence, trace: TraceContext | None) -> bytes:
    """The command in compact form. Its parts are valid: each was read by a model of the contract."""
    command = SettleCommand(
        owner=assignment.lease.owner,
        operation_id=OPERATION_ID,
        report=report,
        quiescence=quiescence,
        processing_trace=trace,
    )
    members = command.to_json()
    if trace is None:
        del members["processing_trace"]  # tracing is off (WRK-069)
    return encode(members)


class Settler:
    """Sends settlements and confirmations of one worker."""

    def __init__(self, coordinator: Coordinator, *, retry_delay_ms: int) -> None:
        self._coordinator = coordinator
        self._retry_delay_s = retry_delay_ms / 1000

    async def settle(self, settlement: FrozenSettlement) -> Resolution:
        """Until a matching receipt or lost ownership (WRK-074). Raises :class:`Unresolved`."""
        reply = await self._resolved(_SETTLE_PATH, settlement.body, SettleReply.from_json)
        if reply is None:
            return "ownership_lost"
        owner, receipt = settlement.assignment.lease.owner, reply.receipt
        if (receipt.operation_id, receipt.task_id, receipt.attempt_id) != (
            OPERATION_ID,
            owner.task_id,
            owner.attempt_id,
        ):
            raise Unresolved("the receipt of a settlement names another attempt or operation")
        return "accepted"

    async def confirm(self, assignment: Assignment) -> Resolution:
        """Say that local clean-up is finished after an unconfirmed settlement (WRK-071). Raises :class:`Unresolved`."""
        reply = await self._resolved(_CONFIRM_PATH, encode(assignment.lease.owner.to_json()), task_state)
        return "ownership_lost" if reply is None else "accepted"

    async def _resolved(self, path: str, body: bytes, read: Callable[[JsonValue, str], T]) -> T | None:
        """The reply; None for lost ownership. A malformed reply is no answer (DLV-207)."""
        while True:
            try:
                return read(await self._coordinator.post(path, body), "reply")
            except (Uncertain, Refusal):
                pass
            except Refused as refused:
                if refused.code == "ownership_lost":
                    return None
                if refused.code != "busy":
                    raise Unresolved(f"the coordinator refused a report: {refused.code}") from None
            await asyncio.sleep(self._retry_delay_s)
