"""The closed sets of words of the contract as types, each with its reader; `states.json` holds the same sets."""

from collections.abc import Callable
from typing import Final, Literal, TypeAlias, TypeVar, get_args

from protocol3.contract.refusal import invalid
from protocol3.contract.strict_json import JsonValue

TaskState: TypeAlias = Literal["queued", "active", "succeeded", "failed", "cancelled"]
AttemptState: TypeAlias = Literal["active", "succeeded", "failed", "cancelled", "lost"]
WorkflowState: TypeAlias = Literal["running", "waiting", "failing", "cancelling", "succeeded", "failed", "cancelled"]
Quiescence: TypeAlias = Literal["confirmed", "unconfirmed"]
RenewalIntent: TypeAlias = Literal["keep_alive", "dispatch"]
AcquireDisposition: TypeAlias = Literal["empty", "assigned", "ownership_lost"]
ReportKind: TypeAlias = Literal["completed", "failed"]
ReportStatus: TypeAlias = Literal["success", "failure"]
ErrorKind: TypeAlias = Literal[
    "invalid_input",
    "not_found",
    "integrity",
    "incompatible",
    "unavailable",
    "cancelled",
    "timed_out",
    "runtime",
    "protocol",
    "io",
    "capacity",
]
Phase: TypeAlias = Literal["admission", "preparation", "startup", "execution", "cleanup"]
StepState: TypeAlias = Literal["returned", "failed", "cancelled", "replayed"]
HistoryReason: TypeAlias = Literal[
    "submitted",
    "claimed",
    "dispatch_authorized",
    "cancel_requested",
    "report_accepted",
    "cleanup_confirmed",
    "lease_expired",
    "succeeded",
    "failed",
    "retry_scheduled",
    "cancelled",
]
OutcomeKind: TypeAlias = Literal["succeeded", "failed", "cancelled"]
FailureKind: TypeAlias = Literal["application", "execution", "attempt_lost"]
ChildKind: TypeAlias = Literal["task", "workflow"]
DecisionKind: TypeAlias = Literal["suspend", "continue", "wait", "complete", "fail"]
WaitKind: TypeAlias = Literal["event", "timer"]
WakeKind: TypeAlias = Literal["event", "timeout", "timer"]
WorkflowErrorKind: TypeAlias = Literal[
    "decision_invalid",
    "decision_application_failed",
    "workflow_activation_failed",
    "workflow_activation_cancelled",
    "workflow_application_timeout",
]

Word = TypeVar("Word", bound=str)


def word_reader(words: tuple[Word, ...]) -> Callable[[JsonValue, str], Word]:
    """A reader that takes one of the words, exact and case-sensitive (JSON-083)."""
    by_text: Final = {str(word): word for word in words}
    expected: Final = "must be one of " + ", ".join(by_text)

    def read(value: JsonValue, at: str) -> Word:
        word = by_text.get(value) if isinstance(value, str) else None
        if word is None:
            raise invalid(at, expected)
        return word

    return read


TASK_STATES: Final[tuple[TaskState, ...]] = get_args(TaskState)
ATTEMPT_STATES: Final[tuple[AttemptState, ...]] = get_args(AttemptState)
WORKFLOW_STATES: Final[tuple[WorkflowState, ...]] = get_args(WorkflowState)
ERROR_KINDS: Final[tuple[ErrorKind, ...]] = get_args(ErrorKind)

TERMINAL: Final[frozenset[str]] = frozenset(get_args(OutcomeKind))
"""The terminal states of tasks and workflows."""
RETRYABLE: Final[frozenset[ErrorKind]] = frozenset(
    {"unavailable", "io", "capacity", "runtime", "timed_out", "cancelled"}
)
"""The error kinds of a failed report that are retried while attempts remain (DLV-087)."""

_QUIESCENCES: Final[tuple[Quiescence, ...]] = get_args(Quiescence)
_INTENTS: Final[tuple[RenewalIntent, ...]] = get_args(RenewalIntent)
_DISPOSITIONS: Final[tuple[AcquireDisposition, ...]] = get_args(AcquireDisposition)
_REPORT_KINDS: Final[tuple[ReportKind, ...]] = get_args(ReportKind)
_REPORT_STATUSES: Final[tuple[ReportStatus, ...]] = get_args(ReportStatus)
_PHASES: Final[tuple[Phase, ...]] = get_args(Phase)
_STEP_STATES: Final[tuple[StepState, ...]] = get_args(StepState)
_REASONS: Final[tuple[HistoryReason, ...]] = get_args(HistoryReason)
_OUTCOME_KINDS: Final[tuple[OutcomeKind, ...]] = get_args(OutcomeKind)
_FAILURE_KINDS: Final[tuple[FailureKind, ...]] = get_args(FailureKind)
_CHILD_KINDS: Final[tuple[ChildKind, ...]] = get_args(ChildKind)
_DECISION_KINDS: Final[tuple[DecisionKind, ...]] = get_args(DecisionKind)
_WAIT_KINDS: Final[tuple[WaitKind, ...]] = get_args(WaitKind)
_WAKE_KINDS: Final[tuple[WakeKind, ...]] = get_args(WakeKind)

task_state: Final = word_reader(TASK_STATES)
attempt_state: Final = word_reader(ATTEMPT_STATES)
workflow_state: Final = word_reader(WORKFLOW_STATES)
quiescence: Final = word_reader(_QUIESCENCES)
renewal_intent: Final = word_reader(_INTENTS)
acquire_disposition: Final = word_reader(_DISPOSITIONS)
report_kind: Final = word_reader(_REPORT_KINDS)
report_status: Final = word_reader(_REPORT_STATUSES)
error_kind: Final = word_reader(ERROR_KINDS)
phase: Final = word_reader(_PHASES)
step_state: Final = word_reader(_STEP_STATES)
history_reason: Final = word_reader(_REASONS)
outcome_kind: Final = word_reader(_OUTCOME_KINDS)
failure_kind: Final = word_reader(_FAILURE_KINDS)
child_kind: Final = word_reader(_CHILD_KINDS)
decision_kind: Final = word_reader(_DECISION_KINDS)
wait_kind: Final = word_reader(_WAIT_KINDS)
wake_kind: Final = word_reader(_WAKE_KINDS)
