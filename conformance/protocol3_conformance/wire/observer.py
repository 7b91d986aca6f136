"""What may never go backwards between two observations of one task or workflow, whatever the scenario does.

Only exchanges that did not overlap are compared: the later one began after the earlier one had ended.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from protocol3_conformance.wire.exchange import Exchange
from protocol3_conformance.wire.faults import Violation
from protocol3_conformance.wire.strict_json import same
from protocol3_conformance.wire.tasks import TERMINAL as TASK_TERMINAL
from protocol3_conformance.wire.workflows import TERMINAL as WORKFLOW_TERMINAL

TASK_CONSTANT = ("run_id", "submitted_at")
WORKFLOW_CONSTANT = ("submitted_at", "correlation_key", "parent_workflow_id", "root_workflow_id")
LINEAR = {"running": 0, "waiting": 0, "failing": 1, "cancelling": 2, "succeeded": 3, "failed": 3, "cancelled": 3}
"""Workflow states never go back to a lower number (WF-050)."""


@dataclass(slots=True)
class Observer:
    """Remembers the newest finished observation of every task and workflow of a scenario."""

    tasks: dict[str, tuple[float, dict[str, Any]]] = field(default_factory=dict)
    workflows: dict[str, tuple[float, dict[str, Any]]] = field(default_factory=dict)

    def look(self, exchange: Exchange) -> None:
        """Compare a judged exchange with what was seen before. Raises Violation."""
        reply = exchange.reply
        if reply is None or reply.status != 200:
            return
        for snapshot in _snapshots(exchange.value):
            if "task_id" in snapshot:
                self._compare(self.tasks, snapshot["task_id"], snapshot, exchange, _task_rules)
            else:
                self._compare(self.workflows, snapshot["workflow_id"], snapshot, exchange, _workflow_rules)

    def _compare(
        self,
        seen: dict[str, tuple[float, dict[str, Any]]],
        identifier: str,
        now: dict[str, Any],
        exchange: Exchange,
        rules: Any,
    ) -> None:
        ended, before = seen.get(identifier, (0.0, {}))
        if before and ended <= exchange.started_ms:
            rules(before, now)
        if exchange.ended_ms is not None and exchange.ended_ms >= ended:
            seen[identifier] = (exchange.ended_ms, now)


def _snapshots(value: Any) -> list[dict[str, Any]]:
    """The task and workflow snapshots of a reply, wherever they stand."""
    if not isinstance(value, dict):
        return []
    nested = [value.get("task"), value.get("workflow"), *(value.get("items") or [])]
    candidates = [value, *(item for item in nested if isinstance(item, dict))]
    return [item for item in candidates if "state" in item and "submitted_at" in item]


def _constant(before: dict[str, Any], now: dict[str, Any], names: tuple[str, ...], at: str, *rules: str) -> None:
    for name in names:
        if not same(before.get(name), now.get(name)):
            raise Violation(f"{at}.{name}", f"was {before.get(name)!r}, is now {now.get(name)!r}", *rules)


def _task_rules(before: dict[str, Any], now: dict[str, Any]) -> None:
    at = f"task {now['task_id']}"
    _constant(before, now, TASK_CONSTANT, at, "DLV-117", "CLI-039")
    if before["state"] in TASK_TERMINAL:
        members = tuple(
            name for name in ("state", "terminal_at", "attempt_count", "cancel_requested_at") if name in now
        )
        _constant(before, now, members, at, "TASK-209", "TASK-240")
    if now["attempt_count"] < before["attempt_count"]:
        raise Violation(at, f"attempt_count fell from {before['attempt_count']} to {now['attempt_count']}", "DLV-117")


def _workflow_rules(before: dict[str, Any], now: dict[str, Any]) -> None:
    at = f"workflow {now['workflow_id']}"
    _constant(before, now, WORKFLOW_CONSTANT, at, "WF-033")
    if before["state"] in WORKFLOW_TERMINAL:
        _constant(before, now, tuple(before), at, "WF-033")
    if now["revision"] < before["revision"]:
        raise Violation(at, f"revision fell from {before['revision']} to {now['revision']}", "WF-033")
    if LINEAR[now["state"]] < LINEAR[before["state"]] or (before["state"], now["state"]) == ("cancelling", "failed"):
        raise Violation(at, f"state went from {before['state']} to {now['state']}", "WF-050")
