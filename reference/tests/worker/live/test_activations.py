"""Workflow activations: context, local steps, forks, lost acknowledgements (WRK-049, WRK-054, WRK-078…087)."""

from collections.abc import Awaitable, Callable
from typing import Any

import pytest

Start = Callable[..., Awaitable[Any]]
Publish = Callable[..., Any]

CONTEXTS, COMMITS, FORKS = (
    "/v1/workflows/activations/context",
    "/v1/workflows/local-results",
    "/v1/workflows/forks",
)

WORKFLOW = """\
import asyncio
from ledgence.worker.workflow import workflow_context

def price(*, sku):
    return {"sku": sku, "price": 12.5}

async def handle(event):
    ctx = workflow_context()
    data = event["data"]
    match data["do"]:
        case "context":
            return ctx.complete({"state": ctx.state, "steps": await ctx.local("price", price, sku="A1")})
        case "commit":
            first = await ctx.local("price", price, sku=data.get("sku", "A1"))
            second = await ctx.local("again", price, sku="B2")
            return ctx.complete([first, second])
        case "fork":
            fork = await ctx.fork("split", branches=[
                ctx.branch("left", entrypoint="left", queue="main", data={"n": 1.0}),
                ctx.branch("right", entrypoint="right", queue="main", data=None, attempt_timeout_ms=60_000),
            ])
            return ctx.join(fork, resume="joined", state=list(fork.branch_keys))
        case "fail":
            return ctx.fail("refused", "no stock")
        case "raise":
            raise ValueError("broken")
"""


def ended(report: dict[str, Any]) -> tuple[str, str, bool]:
    return report["error"]["kind"], report["phase"], report["execution_may_have_started"]


def raw(coordinator: Any, path: str) -> list[bytes]:
    return [exchange.raw for exchange in coordinator.exchanges if exchange.path == path]


async def test_the_context_is_read_with_the_owner_after_permission(
    coordinator: Any, start: Start, publish: Publish
) -> None:
    """WRK-078, WRK-079, WRK-087: recorded steps are not committed again; the decision is an ordinary output."""
    record = {
        "key": "price", "callable": "program:price", "input": {"sku": "A1"}, "output": {"sku": "A1", "price": 1e-7},
    }  # fmt: skip
    attempt = coordinator.activate(publish(WORKFLOW), {"do": "context"}, state={"n": 1.0}, local_steps=[record])
    await start()
    command = await attempt.end()
    output = command["report"]["report"]["outcome"]["output"]
    assert repr(output["output"]) == repr({"state": {"n": 1.0}, "steps": {"price": 1e-7, "sku": "A1"}})
    assert (output["activation_id"], output["kind"]) == (attempt.owner["task_id"], "complete")
    assert command["report"]["report"]["activation_id"] == attempt.owner["task_id"]
    assert coordinator.seen(CONTEXTS) == [attempt.owner]
    paths = [exchange.path for exchange in coordinator.exchanges]
    assert paths.index("/v1/renewals") < paths.index(CONTEXTS)
    assert not coordinator.seen(COMMITS)


async def test_standalone_tasks_read_no_context(coordinator: Any, start: Start, publish: Publish) -> None:
    """WRK-078: not even the child task of a workflow."""
    attempt = coordinator.assign(publish(), {"do": "echo"}, event={"ldgworkflowid": "wf_1"})
    await start()
    await attempt.end()
    assert not coordinator.seen(CONTEXTS)


async def test_local_steps_are_committed_in_order(coordinator: Any, start: Start, publish: Publish) -> None:
    """WRK-081: the host adds its owner."""
    attempt = coordinator.activate(publish(WORKFLOW), {"do": "commit"})
    await start()
    command = await attempt.end()
    assert command["report"]["report"]["outcome"]["output"]["output"] == [
        {"price": 12.5, "sku": "A1"},
        {"price": 12.5, "sku": "B2"},
    ]
    assert coordinator.seen(COMMITS) == [
        {"owner": attempt.owner, "record": {"key": key, "callable": "program:price", "input": {"sku": sku},
                                            "output": {"price": 12.5, "sku": sku}}}
        for key, sku in (("price", "A1"), ("again", "B2"))
    ]  # fmt: skip
    states = [step["state"] for step in command["report"]["report"]["observations"]["local_steps"]]
    assert states == ["returned", "returned"]


async def test_forks_are_completed_with_defaults(coordinator: Any, start: Start, publish: Publish) -> None:
    """WRK-082, WRK-084."""
    attempt = coordinator.activate(publish(WORKFLOW), {"do": "fork"})
    await start()
    output = (await attempt.end())["report"]["report"]["outcome"]["output"]
    assert (output["kind"], output["state"]) == ("suspend", ["left", "right"])
    policy = {"max_attempts": 3, "retry_delay_ms": 5_000}
    assert coordinator.seen(FORKS) == [
        {
            "owner": attempt.owner,
            "fork": {
                "key": "split",
                "branches": [
                    {"key": "left", "entrypoint": "left", "queue": "main", "data": {"n": 1.0},
                     "retry_policy": policy, "attempt_timeout_ms": 300_000},
                    {"key": "right", "entrypoint": "right", "queue": "main", "data": None,
                     "retry_policy": policy, "attempt_timeout_ms": 60_000},
                ],
            },
        }
    ]  # fmt: skip


@pytest.mark.parametrize(("do", "path"), [("context", CONTEXTS), ("commit", COMMITS), ("fork", FORKS)])
async def test_lost_acknowledgements_are_replayed_byte_by_byte(
    coordinator: Any, start: Start, publish: Publish, lost: Any, refuse: Any, reply: Any, do: str, path: str
) -> None:
    """WRK-078, WRK-083: lost, unavailable, busy and malformed replies."""
    attempt = coordinator.activate(publish(WORKFLOW), {"do": do})
    coordinator.script(path, lost, refuse("unavailable", 503, "later"), refuse("busy", 409), lost)
    if path != CONTEXTS:
        coordinator.script(path, reply([1]))
    await start()
    command = await attempt.end()
    assert command["report"]["kind"] == "completed"
    sent = raw(coordinator, path)
    assert len(sent) >= 5
    assert len(set(sent[:5])) == 1


async def test_already_accepted_counts_as_acceptance(
    coordinator: Any, start: Start, publish: Publish, reply: Any
) -> None:
    """WRK-083."""
    attempt = coordinator.activate(publish(WORKFLOW), {"do": "commit"})
    again = reply(lambda body: {"key": body["record"]["key"], "already_accepted": True})
    coordinator.script(COMMITS, again, again)
    await start()
    assert (await attempt.end())["report"]["kind"] == "completed"


REFUSALS = [
    ("ownership_lost", 409, "cancelled"),
    ("invalid_input", 400, "protocol"),
    ("conflict", 409, "protocol"),
    ("not_found", 404, "protocol"),
    ("obsolete_operation", 409, "unavailable"),
]


@pytest.mark.parametrize(("do", "path"), [("context", CONTEXTS), ("commit", COMMITS), ("fork", FORKS)])
async def test_definite_refusals_by_code(
    coordinator: Any, start: Start, publish: Publish, refuse: Any, do: str, path: str
) -> None:
    """WRK-054, WRK-080, RUN-078: no reply reaches the program; its process is retired."""
    program = publish(WORKFLOW)
    await start()
    for code, status, kind in REFUSALS:
        coordinator.script(path, refuse(code, status, "no" if code == "invalid_input" else None))
        attempt = coordinator.activate(program, {"do": do})
        await attempt.end()
        place = ("admission", False) if path == CONTEXTS else ("execution", True)
        assert ended(attempt.report) == (kind, *place), code
    after = coordinator.activate(program, {"do": "fail"})
    assert (await after.end())["report"]["report"]["reused_process"] is False


@pytest.mark.parametrize(
    ("path", "do", "wrong"),
    [
        (COMMITS, "commit", {"key": "other", "already_accepted": False}),
        (FORKS, "fork", {"key": "other", "branch_keys": ["left", "right"], "already_accepted": False}),
        (FORKS, "fork", {"key": "split", "branch_keys": ["right", "left"], "already_accepted": False}),
        (FORKS, "fork", {"key": "split", "branch_keys": ["left"], "already_accepted": False}),
    ],
)
async def test_a_receipt_for_something_else_is_not_acknowledged(
    coordinator: Any, start: Start, publish: Publish, reply: Any, path: str, do: str, wrong: dict[str, Any]
) -> None:
    """WRK-084: protocol, and not retried."""
    attempt = coordinator.activate(publish(WORKFLOW), {"do": do})
    coordinator.script(path, reply(wrong))
    await start()
    await attempt.end()
    assert ended(attempt.report) == ("protocol", "execution", True)
    assert len(coordinator.seen(path)) == 1


@pytest.mark.parametrize(
    "change",
    [
        {"activation_id": "task_9"},
        {"workflow_id": "wf_2"},
        {"parent_workflow_id": "wf_0", "root_workflow_id": "wf_0"},
        {"v": 2},
        {"revision": -1},
        {"wake": {"kind": "unheard_of"}},
        {"state": "x" * 65_535},
        {"extra": 1},
    ],
)
async def test_a_context_that_does_not_match_is_protocol(
    coordinator: Any, start: Start, publish: Publish, change: dict[str, Any]
) -> None:
    """WRK-054, WRK-079, RUN-066."""
    attempt = coordinator.activate(publish(WORKFLOW), {"do": "context"}, **change)
    await start()
    await attempt.end()
    assert ended(attempt.report) == ("protocol", "admission", False)


async def test_a_nested_workflow_carries_its_lineage(coordinator: Any, start: Start, publish: Publish) -> None:
    """WRK-079."""
    attempt = coordinator.activate(
        publish(WORKFLOW), {"do": "fail"}, parent_workflow_id="wf_p", root_workflow_id="wf_r"
    )
    attempt.assignment["event"].update(ldgparentworkflowid="wf_p", ldgrootworkflowid="wf_r")
    await start()
    report = (await attempt.end())["report"]["report"]
    assert report["outcome"]["output"]["kind"] == "fail"
    assert (report["parent_workflow_id"], report["root_workflow_id"]) == ("wf_p", "wf_r")


@pytest.mark.parametrize("protocol", [1, 2])
async def test_an_activation_needs_protocol_3(coordinator: Any, start: Start, publish: Publish, protocol: int) -> None:
    """WRK-049, RUN-067: before a process is started, and before a warm one is used."""
    program = publish(protocol=protocol)
    cold = coordinator.activate(program, {"do": "echo"})
    task = coordinator.assign(program, {"do": "pid"})
    warm = coordinator.activate(program, {"do": "echo"})
    again = coordinator.assign(program, {"do": "pid"})
    await start()
    for attempt in (cold, warm):
        await attempt.end()
        assert ended(attempt.report) == ("incompatible", "preparation", False)
    first, second = (await task.end())["report"]["report"], (await again.end())["report"]["report"]
    assert first["outcome"] == second["outcome"]
    assert second["reused_process"] is True


async def test_an_exception_is_a_runtime_failure(coordinator: Any, start: Start, publish: Publish) -> None:
    """WRK-060: retried by the activation's policy; the process is retired; observations stay."""
    program = publish(WORKFLOW)
    attempt, after = coordinator.activate(program, {"do": "raise"}), coordinator.activate(program, {"do": "fail"})
    await start()
    await attempt.end()
    assert ended(attempt.report) == ("runtime", "execution", True)
    assert attempt.report["error"]["message"].startswith("workflow_error: ")
    assert attempt.report["observations"]["local_steps"] == []
    assert (await after.end())["report"]["report"]["reused_process"] is False


async def test_the_end_of_permission_ends_a_pending_request(
    coordinator: Any, start: Start, publish: Publish, quick: Any, refuse: Any
) -> None:
    """WRK-085, RUN-076: no acknowledgement; reported as cancelled."""
    attempt = coordinator.activate(publish(WORKFLOW), {"do": "commit"})
    coordinator.script(COMMITS, *[refuse("unavailable", 503, "later")] * 1_000)
    bench = await start(pacing=quick(renew_interval_ms=20))
    await coordinator.until(lambda: len(coordinator.seen(COMMITS)) > 2)
    coordinator.cancelled.add(attempt.owner["attempt_id"])
    await attempt.end()
    assert ended(attempt.report) == ("cancelled", "execution", True)
    assert attempt.settlements[-1]["quiescence"] == "confirmed"
    sent = len(coordinator.seen(COMMITS))
    await bench.stop()
    assert len(coordinator.seen(COMMITS)) == sent
