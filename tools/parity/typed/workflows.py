"""Controllers, with the mistakes a type checker can see."""

from enum import StrEnum
from typing import Any

from ledgence.worker.workflow import (
    SCHEMA,
    Approval,
    ApprovalAction,
    ApprovalDecision,
    ApprovalStatus,
    BranchSpec,
    ForkRef,
    OperationKind,
    TaskRef,
    Workflow,
    WorkflowContext,
    WorkflowError,
    WorkflowRef,
    get_workflow_context,
    workflow_context,
)


class Entry(StrEnum):
    START = "start"
    PAID = "paid"


orders = Workflow(Entry)


def price(item: str) -> int:
    return len(item)


async def slow(item: str) -> str:
    return item


@orders.entrypoint(Entry.START, default=True)
async def start(event: dict[str, Any], ctx: WorkflowContext) -> Any:
    quote = await ctx.local("quote", price, item="book")
    text = await ctx.local("text", slow, item="book")
    both = await ctx.gather(ctx.local("a", price, item="a"), ctx.local("b", slow, item="b"))
    reply = await ctx.operation("op", price, kind=OperationKind.MODEL, version="1", arguments={"item": "x"})
    child: TaskRef = ctx.task("t", program="p", version="1", queue="q", data={"a": 1})
    flow: WorkflowRef = ctx.workflow("w", program="p", version="1", queue="q", data=None, attempt_timeout_ms=60_000)
    branch: BranchSpec = ctx.branch("b", entrypoint=Entry.PAID, queue="q", data=[1])
    fork: ForkRef = await ctx.fork("f", branches=[branch])
    keys: tuple[str, ...] = fork.branch_keys
    if ctx.revision > 3:
        return ctx.join(fork, resume=Entry.PAID, state=list(keys))
    if ctx.parent_workflow_id is not None:
        return ctx.suspend(continuation=Entry.PAID, state=[quote, text, both, reply], until=[child, flow, "other"])
    if ctx.wake is None:
        return ctx.wait_event("payment", continuation=Entry.PAID, state=None, timeout_ms=5)
    if ctx.state is None:
        return ctx.sleep("later", 5, continuation=Entry.PAID, state=None)
    if ctx.inputs:
        return ctx.continue_(continuation=Entry.PAID, state=ctx.get_result(child))
    return ctx.fail("kind", "message")


@orders.entrypoint(Entry.PAID)
def paid(event: dict[str, Any], ctx: WorkflowContext) -> Any:
    approval: Approval | None = ctx.approval
    if approval is not None and approval.status is ApprovalStatus.APPROVED:
        decision: ApprovalDecision | None = approval.decision
        return ctx.complete({"by": decision.reviewer if decision else None})
    action = ApprovalAction("a", version="1", arguments={})
    other = ApprovalAction.for_callable(price, version="1", arguments={"item": "x"})
    ctx.approved_local(price, version="1")
    ctx.wait_approval("k", action=other, state=None, timeout_ms=1, resume=Entry.PAID, proposed_arguments={"a": 1})
    return ctx.request_approval("k", action=action, state=None, timeout_ms=1, continuation=Entry.PAID)


handle = orders.build()


async def manual(event: dict[str, Any]) -> Any:
    ctx: WorkflowContext = workflow_context()
    same: WorkflowContext = get_workflow_context()
    if SCHEMA == "ledgence.workflow.activation.v1" and same is ctx:
        raise WorkflowError("said: x")
    return ctx.complete(None)


async def wrong(ctx: WorkflowContext) -> None:
    ctx.nothing()
    ctx.state = 1
    ctx.local()
    ctx.local("k")
    ctx.task("t", program="p")
    ctx.task("t", "p", "1", "q", None)
    ctx.sleep("k", continuation="c", state=None)
    ctx.complete()
    ctx.complete(1, 2)
    ctx.fail("kind")
    ctx.suspend("c", None)
    ctx.operation("op", price, kind="model", version="1", arguments={})
    ctx.operation("op", price, kind=OperationKind.OTHER, version="1", arguments={})
    ctx.operation("op", price, kind=OperationKind.TOOL, version=1, arguments={})
    ctx.operation("op", price, kind=OperationKind.TOOL, version="1", arguments=[])
    ctx.fork("f", branches=[])
    ctx.request_approval("k", action={})
    ApprovalAction("a")
    ApprovalStatus.UNKNOWN
    TaskRef("t").nothing
    Workflow()
    workflow_context(1)


async def unannotated_there(ctx: WorkflowContext) -> None:
    ctx.local(1, price)  # stricter
    ctx.local("k", 5)  # stricter
    ctx.task("t", program="p", version="1", queue="q", data=None, attempt_timeout_ms="5")  # stricter
    await ctx.task("t", program="p", version="1", queue="q", data=None)  # stricter
    ctx.sleep("k", "5", continuation="c", state=None)  # stricter
    ctx.fail("kind", 5)  # stricter
    ctx.join("f", resume="c", state=None)  # stricter
    ctx.get_result(5)  # stricter
    await ctx.fork("f", branches=["b"])  # stricter
    number: int = ctx.workflow_id  # stricter
    print(number)
