"""No limit is forgotten: each has a recipe, or is named here with the test that is about it or the reason for none."""

import json
import re
from pathlib import Path

import pytest

from protocol3.contract.strict_json import decode
from protocol3_spec import boundaries, limits
from protocol3_spec.compact import depth

ROOT = Path(__file__).parents[4]
RECIPES = json.loads((ROOT / "fixtures/vectors/limits.json").read_text(encoding="utf-8"))["recipes"]

STATE = "reference/tests/coordinator/limits/test_limits_of_state.py"
TIME = "reference/tests/coordinator/controls/test_limits_of_time.py"
INPUTS = "reference/tests/coordinator/workflows/test_workflow_inputs.py"
SUBMISSION = "conformance/protocol3_conformance/scenarios/coordinator/test_submission.py"
POLLING = "reference/tests/coordinator/test_polling.py"
REPLIES = "reference/tests/contract/test_reply_bounds.py"

#: Limits that are no bound of one message: the test of each.
TESTED = {
    "REQUEST_DEPTH": f"{STATE}::test_depth_of_a_request",
    "REPLY_DEPTH": f"{REPLIES}::test_the_deepest_reply",
    "CURSOR_BYTES": "reference/tests/core/test_task_list.py::test_the_longest_id_fits",
    "REQUEST_ID_CHARS": "reference/tests/http/test_replies.py::test_headers_of_every_reply",
    "REPLY_BYTES": "reference/tests/http/test_replies.py::test_the_limit_of_a_reply",
    "TASK_STATUS_REPLY_BYTES": f"{REPLIES}::test_the_longest_status",
    "TASK_PAGE_REPLY_BYTES": f"{REPLIES}::test_the_longest_page",
    "CONTEXT_REPLY_BYTES": f"{REPLIES}::test_the_largest_context",
    "CONTEXT_BYTES": f"{REPLIES}::test_the_largest_context",
    "ERROR_MESSAGE_CHARS": "reference/tests/contract/test_limits_and_errors.py::test_message_is_cut",
    "HISTORY_PAGE": "conformance/protocol3_conformance/scenarios/coordinator/test_reads.py::test_history_pages",
    "DEFAULT_TASK_PAGE": f"{STATE}::test_a_page_of_tasks",
    "DEFAULT_MAX_ATTEMPTS": f"{SUBMISSION}::test_omission_is_default",
    "DEFAULT_RETRY_DELAY_MS": f"{SUBMISSION}::test_omission_is_default",
    "DEFAULT_ATTEMPT_TIMEOUT_MS": f"{SUBMISSION}::test_omission_is_default",
    "LEASE_MS": f"{TIME}::test_the_end_of_a_lease",
    "CLEANUP_GRACE_MS": f"{TIME}::test_the_grace_after_a_cancel",
    "SESSION_VALIDITY_MS": f"{TIME}::test_the_end_of_a_session",
    "WAIT_RESERVE_MS": f"{POLLING}::test_a_wait_leaves_time_to_answer_within_the_exchange",
    "EXCHANGE_MS": "reference/tests/http/test_budget.py::test_a_body_that_does_not_come_in_time_is_503",
    "INPUTS": f"{INPUTS}::test_continue_takes_64_at_most",
    "INPUTS_BYTES": f"{STATE}::test_bytes_of_the_inputs",
    "LOCAL_RECORDS": f"{STATE}::test_records_of_the_local_ledger",
    "LOCAL_LEDGER_BYTES": f"{STATE}::test_bytes_of_the_local_ledger",
    "FORKS": f"{STATE}::test_forks_and_new_children",
    "FORK_LEDGER_BYTES": f"{STATE}::test_bytes_of_the_fork_ledger",
    "NEW_CHILDREN": f"{STATE}::test_forks_and_new_children",
    "LIVE_SUBWORKFLOWS": f"{STATE}::test_live_subworkflows_of_a_decision",
    "WORKFLOW_DEPTH": f"{INPUTS}::test_seventeen_levels_and_no_more",
    "INBOX_EVENTS": f"{STATE}::test_events_of_the_inbox",
    "INBOX_BYTES": f"{STATE}::test_bytes_of_the_inbox",
    "APPLICATION_RETRY_MS": (
        "reference/tests/coordinator/workflows/controls/test_time_of_workflows.py::test_a_day_of_failed_applications"
    ),
    "RECOVERY_STALE_MS": "reference/tests/http/test_health.py::test_recovery_goes_stale_after_forty_seconds",
}
#: Limits that no message to a coordinator can show, with the reason.
UNREACHABLE = {
    "SUBMISSION_INPUT_BYTES": "follows from DATA_BYTES and the text limits",
    "OUTCOME_BYTES": "an outcome is smaller than the settlement that brings it (JSON-067)",
    "MAX_ATTEMPT_NUMBER": "MAX_ATTEMPTS ends a task long before",
    "WORKFLOW_REPLY_BYTES": "every valid snapshot is far smaller",
    "EVENT_REPLY_BYTES": "every valid receipt is far smaller",
    "LOCAL_RESULT_REPLY_BYTES": "every valid receipt is smaller (chapter 03, Routes)",
    "FORK_REPLY_BYTES": "64 keys of 128 bytes, escaped, are smaller",
    "ERROR_REPLY_BYTES": "bound of the client; ERROR_MESSAGE_CHARS keeps our replies far below",
    "CLIENT_COMMAND_DEPTH": "bound of the client",
    "CLIENT_VALUE_COMMAND_DEPTH": "bound of the client",
    "OUTCOME_DEPTH": "bound of the client; DATA_DEPTH keeps our replies below",
    "CONTROLLER_OUTCOME_DEPTH": "bound of the client; CONTROLLER_OUTPUT_DEPTH keeps our replies below",
    "CLIENT_EVENT_REPLY_BYTES": "bound of the client",
    "CLIENT_WORKFLOW_RESULT_REPLY_BYTES": "bound of the client",
    "WORKER_MAX_CONCURRENCY": "bound of the worker",
    "ACTION_NAME_BYTES": "approvals, an optional profile",
    "APPROVAL_BODY_BYTES": "approvals, an optional profile",
    "APPROVAL_REPLY_BYTES": "approvals, an optional profile",
    "APPROVAL_PAGE_REPLY_BYTES": "approvals, an optional profile",
    "APPROVAL_DECISION_REPLY_BYTES": "approvals, an optional profile",
    "LAST_FAILURE_BYTES": "completion notifications, an optional profile",
    "COMPLETION_BODY_BYTES": "completion notifications, an optional profile",
    "COMPLETION_REPLY_BYTES": "completion notifications, an optional profile",
    "CLAIM_BODY_BYTES": "targeted claims, an optional profile",
    "MAX_DISPATCH_GENERATION": "targeted claims, an optional profile",
    "RETENTION_DAYS": "retention, an optional profile",
}
#: Whole groups that are about the worker, packages or profiles that are not offered.
OTHER_GROUPS = {"approvals", "completions", "worker", "packages", "testing"}


def test_every_limit_has_its_place() -> None:
    """LIM-020, LIM-021: exactly one of recipe, test, reason."""
    recipes = {recipe["limit"] for recipe in RECIPES if "limit" in recipe}
    for name, limit in limits().items():
        places = [name in recipes, name in TESTED, name in UNREACHABLE, limit.group in OTHER_GROUPS]
        assert places.count(True) == 1, (name, places)
    assert recipes | TESTED.keys() | UNREACHABLE.keys() <= limits().keys()


@pytest.mark.parametrize("node", sorted(set(TESTED.values())))
def test_the_tests_that_are_named_exist(node: str) -> None:
    path, _, name = node.partition("::")
    text = (ROOT / path).read_text(encoding="utf-8")
    assert re.search(rf"^(async )?def {name}\(", text, re.MULTILINE), node


@pytest.mark.parametrize("flavour", [*boundaries.SPELLINGS, "quotes"])
@pytest.mark.parametrize("size", [2, 3, 100, 1001, 65_537])
def test_values_have_the_size_that_was_asked_for(flavour: str, size: int) -> None:
    """JSON-050…054: whatever it is written like, it is the same value of the same size."""
    made = boundaries.value(flavour, size)
    assert boundaries.compact_bytes(made) == size
    for spelling in (*boundaries.SPELLINGS.values(), "compact"):
        raw = boundaries.spelled([made], spelling, 10_000)
        assert boundaries.compact(decode(raw)) == boundaries.compact([made])


@pytest.mark.parametrize("recipe", RECIPES, ids=lambda recipe: f"{recipe['message']}-{recipe['field']}")
def test_every_recipe_has_three_cases_of_each_flavour(recipe: boundaries.Recipe) -> None:
    made = list(boundaries.cases(recipe))
    for flavour in boundaries.flavours(recipe):
        verdicts = [case.fits for case in made if case.flavour == flavour]
        upper = [True, True, False]
        assert verdicts == upper if recipe.get("bound") != "least" else verdicts in ([False, True, True], [True, True])
    assert depth(dict(recipe)) <= 6
