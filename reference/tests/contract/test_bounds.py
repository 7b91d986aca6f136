"""Every bound of a message at its last accepted value and one beyond (LIM-020, LIM-021, JSON-055)."""

import copy
import json
from pathlib import Path
from typing import Any

import pytest

from protocol3.contract import limits
from protocol3.contract.models.activations import inputs_bytes, ledger_bytes
from protocol3.contract.models.decisions import DecisionInvalid, decode_decision
from protocol3.contract.models.delivery import (
    AcquireCommand,
    OpenSession,
    RenewCommand,
    SettleCommand,
)
from protocol3.contract.models.tasks import SubmitCommand, TaskStatus
from protocol3.contract.models.workflows import (
    ActivationContext,
    EventCommand,
    ForkCommand,
    LocalResultCommand,
    WorkflowSnapshot,
)
from protocol3.contract.refusal import Refusal
from protocol3.contract.strict_json import compact_size, encode

SAMPLES = json.loads((Path(__file__).parent / "messages.json").read_text(encoding="utf-8"))
READERS: dict[str, Any] = {
    "submit": SubmitCommand.from_json,
    "task-status": TaskStatus.from_json,
    "open-session": OpenSession.from_json,
    "acquire": AcquireCommand.from_json,
    "renew": RenewCommand.from_json,
    "settle-completed": SettleCommand.from_json,
    "workflow-snapshot": WorkflowSnapshot.from_json,
    "context": ActivationContext.from_json,
    "event": EventCommand.from_json,
    "local-result": LocalResultCommand.from_json,
    "fork": ForkCommand.from_json,
    "decision-suspend": decode_decision,
    "decision-wait-event": decode_decision,
    "decision-wait-timer": decode_decision,
    "decision-complete": decode_decision,
    "decision-fail": decode_decision,
}
REFUSED = (Refusal, DecisionInvalid)

IDENTIFIERS = [
    ("submit", "input.tenant_id", limits.ID_BYTES),
    ("submit", "input.namespace", limits.ID_BYTES),
    ("submit", "input.queue", limits.ID_BYTES),
    ("submit", "idempotency_key", limits.IDEMPOTENCY_KEY_BYTES),
    ("acquire", "worker_session_id", limits.ID_BYTES),
    ("settle-completed", "operation_id", limits.ID_BYTES),
    ("settle-completed", "owner.task_id", limits.ID_BYTES),
    ("settle-completed", "owner.attempt_id", limits.ID_BYTES),
    ("settle-completed", "owner.lease_id", limits.ID_BYTES),
    ("settle-completed", "owner.worker_session_id", limits.ID_BYTES),
    ("event", "workflow_id", limits.ID_BYTES),
    ("event", "key", limits.ID_BYTES),
    ("event", "event.id", limits.ID_BYTES),
    ("local-result", "record.key", limits.ID_BYTES),
    ("local-result", "record.callable", limits.CALLABLE_BYTES),
    ("fork", "fork.key", limits.ID_BYTES),
    ("fork", "fork.branches.0.key", limits.ID_BYTES),
    ("fork", "fork.branches.0.entrypoint", limits.ID_BYTES),
    ("fork", "fork.branches.0.queue", limits.ID_BYTES),
    ("decision-suspend", "activation_id", limits.ID_BYTES),
    ("decision-suspend", "continuation", limits.ID_BYTES),
    ("decision-suspend", "commands.0.key", limits.ID_BYTES),
    ("decision-suspend", "commands.0.queue", limits.ID_BYTES),
    ("decision-suspend", "until.0", limits.ID_BYTES),
    ("decision-wait-event", "wait.key", limits.ID_BYTES),
    ("decision-wait-timer", "wait.key", limits.ID_BYTES),
    ("decision-fail", "error.kind", limits.ID_BYTES),
]
INTEGERS = [
    ("submit", "input.retry_policy.max_attempts", 1, limits.MAX_ATTEMPTS),
    ("submit", "input.retry_policy.retry_delay_ms", 0, limits.MAX_RETRY_DELAY_MS),
    ("submit", "input.attempt_timeout_ms", limits.MIN_ATTEMPT_TIMEOUT_MS, limits.MAX_ATTEMPT_TIMEOUT_MS),
    ("task-status", "submitted_at", 0, limits.MAX_TIMESTAMP_MS),
    ("task-status", "terminal_at", 0, limits.MAX_TIMESTAMP_MS),
    ("open-session", "concurrency", 1, limits.MAX_CONCURRENCY),
    ("acquire", "consumer_id", 0, limits.U32_MAX),
    ("acquire", "sequence", 0, limits.U64_MAX),
    ("acquire", "wait_ms", 0, limits.MAX_WAIT_MS),
    ("renew", "owner.generation", 0, limits.U32_MAX),
    ("renew", "sequence", 0, limits.U64_MAX),
    ("settle-completed", "report.report.process_id", 0, limits.U32_MAX),
    ("settle-completed", "report.report.elapsed_ms", 0, limits.U64_MAX),
    ("settle-completed", "report.report.attempt_no", 0, limits.U32_MAX),
    ("settle-completed", "report.report.observations.runtime_started_at_ms", 0, limits.MAX_TIMESTAMP_MS),
    ("settle-completed", "report.report.observations.process_cpu_user_us", 0, limits.U64_MAX),
    ("workflow-snapshot", "revision", 0, limits.U64_MAX),
    ("fork", "owner.generation", 1, limits.U32_MAX),
    ("fork", "fork.branches.1.attempt_timeout_ms", limits.MIN_ATTEMPT_TIMEOUT_MS, limits.MAX_ATTEMPT_TIMEOUT_MS),
    ("event", "event.flag", limits.ATTRIBUTE_INTEGER_MIN, limits.ATTRIBUTE_INTEGER_MAX),
    ("decision-suspend", "v", 1, 1),
    ("decision-suspend", "revision", 0, limits.U64_MAX),
    ("decision-suspend", "commands.0.retry_policy.max_attempts", 1, limits.MAX_ATTEMPTS),
    ("decision-wait-event", "wait.timeout_ms", 0, limits.MAX_WAIT_DURATION_MS),
    ("decision-wait-timer", "wait.delay_ms", 0, limits.MAX_WAIT_DURATION_MS),
]
SIZES = [
    ("submit", "input.data", "input.data", limits.DATA_BYTES),
    ("event", "event.data", "event", limits.EVENT_BYTES),
    ("local-result", "record.output", "record", limits.LOCAL_RECORD_BYTES),
    ("fork", "fork.branches.0.data", "fork", limits.FORK_REQUEST_BYTES),
    ("decision-suspend", "state", "state", limits.STATE_BYTES),
    ("decision-suspend", "commands.0.data", "", limits.DECISION_BYTES),
    ("decision-complete", "output", "", limits.DECISION_BYTES),
    ("context", "state", "state", limits.STATE_BYTES),
]
DEPTHS = [
    ("submit", "input.data", limits.DATA_DEPTH),
    ("event", "event.data", limits.DATA_DEPTH),
    ("local-result", "record.input", limits.DATA_DEPTH),
    ("local-result", "record.output", limits.DATA_DEPTH),
    ("fork", "fork.branches.0.data", limits.DATA_DEPTH),
    ("decision-suspend", "state", limits.DATA_DEPTH),
    ("decision-suspend", "commands.0.data", limits.DATA_DEPTH),
    ("decision-complete", "output", limits.DATA_DEPTH),
    ("context", "state", limits.DATA_DEPTH),
    ("settle-completed", "report.report.outcome.output", limits.CONTROLLER_OUTPUT_DEPTH),
]


def at_path(document: Any, path: str) -> Any:
    for step in path.split(".") if path else ():
        document = document[int(step)] if isinstance(document, list) else document[step]
    return document


def with_value(name: str, path: str, value: Any) -> Any:
    document = copy.deepcopy(SAMPLES[name]["document"])
    holder, _, last = path.rpartition(".")
    at = at_path(document, holder)
    at[int(last) if isinstance(at, list) else last] = value
    return document


def accept(name: str, document: Any) -> None:
    READERS[name](document)


def refuse(name: str, document: Any, place: str) -> None:
    with pytest.raises(REFUSED, match=place):
        READERS[name](document)


def nested(depth: int) -> list[Any]:
    value: list[Any] = []
    for _ in range(depth - 1):
        value = [value]
    return value


@pytest.mark.parametrize(("name", "path", "limit"), IDENTIFIERS)
def test_identifiers(name: str, path: str, limit: int) -> None:
    """TXT-001…003: measured in UTF-8 bytes."""
    last = path.rpartition(".")[2]
    place = "until" if last == "0" else last
    for accepted in ("x", "x" * limit, "é" * (limit // 2), "\u2028", " "):
        accept(name, with_value(name, path, accepted))
    for refused in ("", "x" * (limit + 1), "é" * (limit // 2 + 1), "a\x00", "a\x9f", "a\ufdd0", "a\U0010ffff"):
        refuse(name, with_value(name, path, refused), place)


@pytest.mark.parametrize(("name", "path", "low", "high"), INTEGERS)
def test_integers(name: str, path: str, low: int, high: int) -> None:
    """JSON-027, TXT-040, TASK-212."""
    place = path.rpartition(".")[2]
    for accepted in {low, high}:
        accept(name, with_value(name, path, accepted))
    for refused in (low - 1, high + 1, float(high)):
        refuse(name, with_value(name, path, refused), place)
    if place != "flag":  # an event attribute may be a string or a boolean
        for wrong in (str(low), True):
            refuse(name, with_value(name, path, wrong), place)


def test_attempt_count() -> None:
    """CLI-031."""
    accept("task-status", with_value("task-status", "attempt_count", limits.MAX_ATTEMPTS))
    refuse("task-status", with_value("task-status", "attempt_count", limits.MAX_ATTEMPTS + 1), "attempt_count")


@pytest.mark.parametrize(("name", "path", "measured", "limit"), SIZES)
def test_sizes(name: str, path: str, measured: str, limit: int) -> None:
    """Compact bytes of the normalised object (LIM-010, LIM-011, JSON-060, JSON-063): exactly the limit fits."""
    empty = compact_size(at_path(with_value(name, path, ""), measured))
    accept(name, with_value(name, path, "x" * (limit - empty)))
    refuse(name, with_value(name, path, "x" * (limit - empty + 1)), f"{limit} bytes")


@pytest.mark.parametrize(("name", "path", "limit"), DEPTHS)
def test_depths(name: str, path: str, limit: int) -> None:
    """JSON-031, JSON-032, JSON-085."""
    accept(name, with_value(name, path, nested(limit)))
    refuse(name, with_value(name, path, nested(limit + 1)), f"deeper than {limit}")


def test_output_depth_of_an_ordinary_task() -> None:
    """DLV-071: 64 unless the report carries activation_id."""
    document = with_value("settle-completed", "report.report.outcome.output", nested(limits.DATA_DEPTH))
    del document["report"]["report"]["activation_id"]
    accept("settle-completed", document)
    document["report"]["report"]["outcome"]["output"] = nested(limits.DATA_DEPTH + 1)
    refuse("settle-completed", document, "output")


@pytest.mark.parametrize("traced", [True, False])
def test_settlement_size(traced: bool) -> None:
    """JSON-067: judged by check_size, not while reading; a trace that is not there costs nothing (LIM-011)."""
    document = with_value("settle-completed", "report.report.outcome.output", "")
    if not traced:
        del document["processing_trace"]
    room = limits.SETTLEMENT_BODY_BYTES - compact_size(document)
    outcome = document["report"]["report"]["outcome"]
    outcome["output"] = "x" * room
    SettleCommand.from_json(document).check_size()
    outcome["output"] += "x"
    too_large = SettleCommand.from_json(document)
    with pytest.raises(Refusal, match="8388608 bytes"):
        too_large.check_size()


def test_decision_is_measured_as_received_and_normalised() -> None:
    """DEC-010: defaults that are written out can push a decision over its limit."""
    document = with_value("decision-suspend", "commands.0.data", "")
    del document["commands"][0]["retry_policy"], document["commands"][0]["attempt_timeout_ms"]
    room = limits.DECISION_BYTES - compact_size(document)
    document["commands"][0]["data"] = "x" * room
    assert compact_size(document) == limits.DECISION_BYTES
    refuse("decision-suspend", document, "262144 bytes")
    defaults: dict[str, Any] = {
        "retry_policy": {"max_attempts": 3, "retry_delay_ms": 5000},
        "attempt_timeout_ms": 300000,
    }
    document["commands"][0]["data"] = "x" * (room - compact_size(defaults) + 1)
    accept("decision-suspend", document)


@pytest.mark.parametrize("count", [0, limits.COMMANDS])
def test_commands(count: int) -> None:
    """DEC-011, DEC-012."""
    command = SAMPLES["decision-suspend"]["document"]["commands"][0]
    commands = [command | {"key": str(number)} for number in range(count)]
    accept("decision-suspend", with_value("decision-suspend", "commands", commands))
    if count:
        refuse("decision-suspend", with_value("decision-suspend", "commands", [*commands, command]), "commands")
        refuse("decision-suspend", with_value("decision-suspend", "commands", [command, command]), "twice")


@pytest.mark.parametrize("count", [0, limits.UNTIL_KEYS])
def test_until(count: int) -> None:
    """DEC-011, DEC-012."""
    keys = [str(number) for number in range(count)]
    accept("decision-suspend", with_value("decision-suspend", "until", keys))
    if count:
        refuse("decision-suspend", with_value("decision-suspend", "until", [*keys, "one more"]), "until")
        refuse("decision-suspend", with_value("decision-suspend", "until", ["a", "a"]), "twice")


def test_branches() -> None:
    """FRK-010."""
    branch = SAMPLES["fork"]["document"]["fork"]["branches"][0]
    branches = [branch | {"key": str(number)} for number in range(limits.BRANCHES)]
    accept("fork", with_value("fork", "fork.branches", branches))
    refuse("fork", with_value("fork", "fork.branches", [*branches, branch]), "branches")
    refuse("fork", with_value("fork", "fork.branches", []), "branches")
    refuse("fork", with_value("fork", "fork.branches", [branch, branch]), "twice")


def test_context_parts() -> None:
    """ACT-021…023, LIM-013."""
    child = SAMPLES["context"]["document"]["inputs"]["rates:4"]
    inputs = {str(number): child for number in range(limits.INPUTS)}
    accept("context", with_value("context", "inputs", inputs))
    refuse("context", with_value("context", "inputs", inputs | {"one more": child}), "inputs")
    big = copy.deepcopy(child)
    big["outcome"]["output"] = "x" * limits.INPUTS_BYTES
    refuse("context", with_value("context", "inputs", {"big": big}), "inputs")
    step = SAMPLES["context"]["document"]["local_steps"][0]
    steps = [step | {"key": str(number)} for number in range(limits.LOCAL_RECORDS)]
    accept("context", with_value("context", "local_steps", steps))
    refuse("context", with_value("context", "local_steps", [*steps, step]), "local_steps")
    refuse("context", with_value("context", "local_steps", [step, step]), "twice")
    long = [step | {"key": str(number), "output": "x" * 100_000} for number in range(3)]
    refuse("context", with_value("context", "local_steps", long), "local_steps")


def test_observations() -> None:
    """DLV-091: 128 steps of distinct keys, 128 KiB."""
    path = "report.report.observations.local_steps"
    step = SAMPLES["settle-completed"]["document"]["report"]["report"]["observations"]["local_steps"][0]
    steps = [step | {"key": str(number)} for number in range(limits.OBSERVED_STEPS)]
    accept("settle-completed", with_value("settle-completed", path, steps))
    refuse("settle-completed", with_value("settle-completed", path, [*steps, step]), "local_steps")
    refuse("settle-completed", with_value("settle-completed", path, [step, step]), "twice")
    wide = [step | {"key": str(number), "callable": '"' * limits.CALLABLE_BYTES} for number in range(128)]
    refuse("settle-completed", with_value("settle-completed", path, wide), "131072 bytes")
    for key in ("", "a\n", "k" * 129):
        refuse("settle-completed", with_value("settle-completed", path, [step | {"key": key}]), "key")
    accept("settle-completed", with_value("settle-completed", path, [step | {"key": "\uffff"}]))


def test_texts_without_a_lower_bound() -> None:
    """TXT-004, TXT-007: correlation keys and error messages may be empty; messages may hold anything."""
    for accepted in ("", "x" * limits.CORRELATION_KEY_BYTES, "\ufdd0"):
        accept("submit", with_value("submit", "input.correlation_key", accepted))
    for refused in ("x" * (limits.CORRELATION_KEY_BYTES + 1), "a\n"):
        refuse("submit", with_value("submit", "input.correlation_key", refused), "correlation_key")
    for accepted in ("", "\x00", "é" * (limits.FREE_TEXT_BYTES // 2)):
        accept("decision-fail", with_value("decision-fail", "error.message", accepted))
    refuse("decision-fail", with_value("decision-fail", "error.message", "x" * (limits.FREE_TEXT_BYTES + 1)), "message")


def test_event_source() -> None:
    """TXT-023, TXT-026."""
    accept("event", with_value("event", "event.source", "/" + "x" * (limits.EVENT_SOURCE_BYTES - 1)))
    refuse("event", with_value("event", "event.source", "/" + "x" * limits.EVENT_SOURCE_BYTES), "source")
    refuse("event", with_value("event", "event.source", "a b"), "source")


def test_small_float_at_the_event_limit() -> None:
    """LIM-030: the service's own spelling of 2.9802322387695312e-8 counts."""
    document = with_value("event", "event.data", [2.9802322387695312e-8, ""])
    room = limits.EVENT_BYTES - compact_size(document["event"])
    document["event"]["data"][1] = "x" * room
    assert b"[2.9802322387695312e-8," in encode(document["event"])
    accept("event", document)
    document["event"]["data"][1] += "x"
    refuse("event", document, "65536 bytes")


@pytest.mark.parametrize("sizes", [[], [2], [3, 4], [5] * 128])
def test_ledger_bytes(sizes: list[int]) -> None:
    """LIM-012."""
    assert ledger_bytes(sizes) == compact_size(["x" * (size - 2) for size in sizes])


def test_inputs_bytes() -> None:
    """LIM-013."""
    assert inputs_bytes({"a": 1}) == len('{"a":1}')
    assert inputs_bytes({}, {"kind": "timer"}) == len('{"inputs":{},"wake":{"kind":"timer"}}')
