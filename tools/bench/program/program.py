"""The workflows that `./dev bench` runs on our system; the drivers of the peers have the same ones.

Input: `{"do": "trivial"}`, `{"do": "steps", "count": int}`, or `{"do": "tasks" | "forks", "width": int, "queue": str}`.
"""

from enum import StrEnum

from ledgence.worker.workflow import Workflow


class Entry(StrEnum):
    START = "start"
    BRANCH = "branch"
    JOINED = "joined"


workflow = Workflow(Entry)


def step():
    return {"ok": True}


@workflow.entrypoint(Entry.START, default=True)
async def start(event, ctx):
    match event["data"]:
        case {"do": "trivial"}:
            return ctx.complete(await ctx.local("step", step))
        case {"do": "steps", "count": count}:
            for number in range(count):
                last = await ctx.local(f"step:{number}", step)
            return ctx.complete(last)
        case {"do": "tasks", "width": width, "queue": queue}:
            children = [
                ctx.task(f"child:{n}", program="echo", version="1.0.0", queue=queue, data={"n": n})
                for n in range(width)
            ]
            return ctx.suspend(continuation=Entry.JOINED, state=None, until=children)
        case {"do": "forks", "width": width, "queue": queue}:
            branches = [
                ctx.branch(f"branch:{n}", entrypoint=Entry.BRANCH, queue=queue, data={"n": n}) for n in range(width)
            ]
            return ctx.join(await ctx.fork("fan", branches=branches), resume=Entry.JOINED, state=None)
    return ctx.fail("invalid_input", "no such work")


@workflow.entrypoint(Entry.BRANCH)
async def branch(event, ctx):
    return ctx.complete(await ctx.local("step", step))


@workflow.entrypoint(Entry.JOINED)
def joined(event, ctx):
    return ctx.complete(len(ctx.inputs))


handle = workflow.build()
