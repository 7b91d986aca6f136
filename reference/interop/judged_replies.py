"""What the installed client makes of every vector of a reply: python judged_replies.py, one JSON object on stdout.

A process of its own, because a call that ends with ProtocolError is what `test_surface.py` forbids everywhere else.
A small server answers each call with the text of the vector; the call is one that the reply would belong to.
"""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

from aiohttp import web
from ledgence.client import (
    ApprovalAction,
    ApprovalStatus,
    AsyncClient,
    InputError,
    LedgenceError,
    ProtocolError,
    RetryPolicy,
    WorkflowApproval,
)

MESSAGES = Path(__file__).parents[2] / "fixtures/vectors/messages"
ERRORS = json.loads((Path(__file__).parents[2] / "spec/protocol3_spec/errors.json").read_text())["errors"]

Call = Callable[[AsyncClient, Any], Awaitable[Any]]


def member(message: Any, path: str, default: Any) -> Any:
    """What the reply names, if it is a text; else what it should name."""
    for step in path.split("/"):
        if isinstance(message, list) and message and step == "0":
            message = message[0]
        else:
            message = message.get(step) if isinstance(message, dict) else None
    return message if isinstance(message, str) else default


async def submit(client: AsyncClient, message: Any) -> Any:
    said = message.get("input") if isinstance(message, dict) else None
    given = said if isinstance(said, dict) else {}
    policy = given.get("retry_policy")
    options: dict[str, Any] = {
        "program": member(message, "input/program/id", "monthly"),
        "version": member(message, "input/program/version", "2.1.0"),
        "queue": member(message, "input/queue", "py"),
        "data": given.get("data"),
        "idempotency_key": member(message, "idempotency_key", "report:2031-04"),
        "correlation_key": given.get("correlation_key"),
        "retry_policy": RetryPolicy(**policy) if isinstance(policy, dict) and len(policy) == 2 else RetryPolicy(2, 0),
        "attempt_timeout_ms": given.get("attempt_timeout_ms", 60_000),
    }
    return await client.tasks.submit(**options)


async def decide(client: AsyncClient, message: Any) -> Any:
    """With a view made by hand of what was asked for."""
    said = message.get("approval") if isinstance(message, dict) else None
    approval = said if isinstance(said, dict) else {}
    action = approval.get("action")
    names = [
        member(approval, *named) for named in (("workflow_id", "wf_9"), ("key", "release"), ("activation_id", "task_3"))
    ]
    revision = approval.get("revision")
    view = WorkflowApproval(
        client.scope,
        *names,
        revision if type(revision) is int else 3,
        ApprovalAction(
            member(action, "name", "stock:release"),
            member(action, "version", "1"),
            json.dumps(action.get("arguments") if isinstance(action, dict) else {}).encode(),
        ),
        5,
        10,
        ApprovalStatus.PENDING,
        None,
        None,
        b"null",
        client.base_url,
    )
    decision = approval.get("decision")
    words = {name: member(decision, name, usual) for name, usual in DECISION.items()}
    handle = client.workflows.handle(names[0])
    reason = decision.get("reason") if isinstance(decision, dict) else None
    command = handle.prepare_approval_decision(view, **words, reason=reason if isinstance(reason, str) else None)
    return await handle.decide_approval(command)


async def send_event(client: AsyncClient, message: Any) -> Any:
    event = {
        "specversion": "1.0",
        "id": member(message, "event_id", "p-1"),
        "source": member(message, "event_source", "/till/4"),
        "type": "interop.sent",
        "datacontenttype": "application/json",
        "data": None,
    }
    handle = client.workflows.handle(member(message, "workflow_id", "wf_1"))
    return await handle.send_event(key=member(message, "key", "paid:1"), event=event)


DECISION = {"decision_id": "dec-1", "decision": "reject", "reviewer": "kim"}

CALLS: dict[str, Call] = {
    "task-snapshot": submit,
    "task-status": lambda client, told: client.tasks.handle(member(told, "task_id", "task_7")).status(),
    "task-result": lambda client, told: client.tasks.handle(member(told, "task/task_id", "task_7")).outcome(),
    "task-state": lambda client, _: client.tasks.handle("task_7").cancel(),
    "task-page": lambda client, _: client.tasks.list(),
    "workflow-snapshot": lambda client, told: client.workflows.handle(member(told, "workflow_id", "wf_1")).status(),
    "workflow-result": lambda client, told: client.workflows.handle(
        member(told, "workflow/workflow_id", "wf_1")
    ).outcome(),
    "event-receipt": send_event,
    "approval": lambda client, told: client.workflows.handle(member(told, "workflow_id", "wf_9")).approval(
        member(told, "key", "release")
    ),
    "approval-page": lambda client, told: client.workflows.handle(
        member(told, "items/0/workflow_id", "wf_9")
    ).approvals(),
    "approval-receipt": decide,
    "completion-subscription": lambda client, told: client.completions.handle(
        member(told, "subscription_id", "sub_5")
    ).status(),
    "error": lambda client, _: client.tasks.handle("task_7").status(),
}
#: Where a reply names its scope.
SCOPES = {"task-snapshot": "input", "task-result": "task/scope", "workflow-result": "workflow/scope"}
SCOPES |= {"completion-subscription": "command/scope", "approval-receipt": "approval/scope"}
SCOPES |= {"task-page": "items/0/scope", "approval-page": "items/0/scope"}


def loosely(text: str) -> Any:
    """The message as far as any reader would read it."""
    try:
        return json.loads(text, parse_int=lambda digits: -0.0 if digits == "-0" else int(digits))
    except ValueError:
        return None


async def accepted(url: str, schema: str, message: Any) -> bool:
    """Whether the call ends as it should for this reply. Names that the client would not send are replaced."""
    where = SCOPES.get(schema, "scope")
    names = [
        member(message, f"{where}/{name}", usual) for name, usual in (("tenant_id", "north"), ("namespace", "reports"))
    ]
    for told, scope in ((message, names), (None, ["north", "reports"])):
        try:
            async with AsyncClient(url, tenant=scope[0], namespace=scope[1]) as client:
                await CALLS[schema](client, told)
        except InputError:
            continue
        except LedgenceError as error:
            cause = getattr(error, "cause", None) or error
            return schema == "error" and not isinstance(cause, ProtocolError)
        return True
    raise AssertionError(f"{schema}: the client does not even send the call")


async def main() -> None:
    reply: list[Any] = [200, ""]

    async def answer(_: web.Request) -> web.Response:
        return web.Response(status=reply[0], body=reply[1].encode(), headers={"Content-Type": "application/json"})

    application = web.Application()
    application.router.add_route("*", "/{any:.*}", answer)
    runner = web.AppRunner(application)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    verdicts = {}
    for schema in CALLS:
        file = json.loads((MESSAGES / f"{schema}.json").read_text(encoding="utf-8"))
        for vector in [*file["valid"], *file["invalid"]]:
            message = loosely(vector["text"])
            code = ERRORS.get(member(message, "code", ""), {"statuses": [400]})
            reply[:] = [code["statuses"][0] if schema == "error" else 200, vector["text"]]
            verdicts[f"{schema} {vector['id']}"] = await accepted(str(site.name), schema, message)
    await runner.cleanup()
    json.dump(verdicts, sys.stdout)


if __name__ == "__main__":
    asyncio.run(main())
