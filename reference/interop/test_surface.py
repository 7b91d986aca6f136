"""Whether the other tests left anything of the published client unused, or saw an end of a call that nobody expects.

They run last. A run of only some of the tests leaves things unused, of course.
"""

from __future__ import annotations

import pytest
from surface import RECORD, models, network_calls, surface

READ = {
    "returned",
    "ClientClosed",
    "Unavailable",
    "TransportError",
    "RequestTimeout:dispatched",
    "RequestTimeout:not dispatched",
}
WAIT = {"returned", "NotFound", "InputError", "ClientClosed"}


def changing(uncertain: str) -> set[str]:
    """Ends of a call that changes something."""
    causes = ("TransportError", "Unavailable", "RequestTimeout")
    return {"returned", "ClientClosed", "RequestTimeout:not dispatched"} | {f"{uncertain}/{one}" for one in causes}


NO_COMPLETIONS = "completion notifications are an optional profile that our coordinator does not offer"
NO_APPROVALS = "approvals are an optional profile that our coordinator does not offer"

# Every call over the network, and every way in which it ended: no other, and none of these left out.
ENDS: dict[str, set[str]] = {
    "AsyncClient.close": {"returned"},
    "Tasks.submit": changing("SubmissionUncertain")
    | {"NotFound", "Conflict", "InputError", "ServiceError:invalid_input", "CancelledError"},
    "Tasks.list": READ | {"InputError", "ServiceError:invalid_input"},
    "TaskHandle.status": READ | {"NotFound"},
    "TaskHandle.outcome": READ | {"NotFound"},
    "TaskHandle.wait": WAIT | {"WaitTimeout"},
    "TaskHandle.result": WAIT | {"WaitTimeout", "TaskFailed", "TaskCancelled"},
    "TaskHandle.cancel": changing("CancellationUncertain") | {"NotFound"},
    "Workflows.submit": changing("SubmissionUncertain")
    | {"NotFound", "Conflict", "InputError", "ServiceError:invalid_input"},
    "WorkflowHandle.status": READ | {"NotFound"},
    "WorkflowHandle.outcome": READ | {"NotFound"},
    "WorkflowHandle.wait": WAIT | {"WorkflowWaitTimeout"},
    "WorkflowHandle.result": WAIT | {"WorkflowWaitTimeout", "WorkflowFailed", "WorkflowCancelled"},
    "WorkflowHandle.cancel": changing("WorkflowCancellationUncertain") | {"NotFound"},
    "WorkflowHandle.send_event": changing("WorkflowEventUncertain")
    | {
        "NotFound",
        "Conflict",
        "InputError",
        "ServiceError:busy",
        "ServiceError:invalid_input",
        "ServiceError:obsolete_operation",
    },
    # The optional profiles: see test_optional_profiles.py for why these are protocol errors.
    "TaskHandle.subscribe": {"CompletionSubscriptionUncertain/ProtocolError", "InputError"},
    "WorkflowHandle.subscribe": {"CompletionSubscriptionUncertain/ProtocolError", "InputError"},
    "Completions.subscribe": {"CompletionSubscriptionUncertain/ProtocolError", "InputError"},
    "CompletionSubscriptionHandle.status": {"ProtocolError", "ClientClosed"},
    "CompletionSubscriptionHandle.retry": {"CompletionRetryUncertain/ProtocolError", "InputError"},
    "WorkflowHandle.approval": {"ProtocolError", "InputError", "ClientClosed"},
    "WorkflowHandle.approvals": {"ProtocolError", "InputError", "ClientClosed"},
    "WorkflowHandle.decide_approval": {"ApprovalDecisionUncertain/ProtocolError", "InputError"},
}

# Classes and words that no call of these tests brought, and why.
UNSEEN: dict[str, str] = {
    "CompletionSubscription": NO_COMPLETIONS,
    **{f"CompletionState.{one}": NO_COMPLETIONS for one in ("WAITING", "PENDING", "DELIVERING", "RETRYING")},
    **{f"CompletionState.{one}": NO_COMPLETIONS for one in ("DELIVERED", "EXHAUSTED")},
    "ApprovalAction": NO_APPROVALS,
    "ApprovalDecision": NO_APPROVALS,
    "ApprovalDecisionReceipt": NO_APPROVALS,
    "ApprovalPage": NO_APPROVALS,
    "WorkflowApproval": NO_APPROVALS,
    **{f"ApprovalStatus.{one}": NO_APPROVALS for one in ("PENDING", "APPROVED", "REJECTED", "EXPIRED", "CANCELLED")},
    "LedgenceError": "the base class of all errors; never raised itself",
}


@pytest.mark.parametrize("call", sorted(surface()))
def test_every_public_call_is_used_with_every_parameter(call: str) -> None:
    assert call in RECORD.used, "never called"
    assert surface()[call] - RECORD.used[call] == set()


def test_the_table_of_ends_names_every_call_over_the_network() -> None:
    assert ENDS.keys() == network_calls()


@pytest.mark.parametrize("call", sorted(ENDS))
def test_every_call_ended_in_every_expected_way_and_in_no_other(call: str) -> None:
    """CLI-019, CLI-022: above all in no protocol error."""
    assert RECORD.ends[call] == ENDS[call]


def test_every_class_and_word_was_seen_or_has_a_reason() -> None:
    assert sorted(models() - RECORD.seen) == sorted(UNSEEN)
