"""The program of these tests: a workflow that writes every effect down and waits where a test wants it to.

It is published as it stands. `data` is the folder of the test: `ledger` gets a line for each execution of a local
function; a file `NAME.gate` makes the program touch `NAME.reached` and wait at NAME until the gate is gone, a file
`NAME.crash` makes it end there, once.
"""

import os
import time
from enum import StrEnum
from pathlib import Path

from ledgence.worker.workflow import Workflow


class Entry(StrEnum):
    START = "start"
    BRANCH = "branch"
    JOINED = "joined"


def pass_by(folder, name):
    crash, gate = Path(folder, f"{name}.crash"), Path(folder, f"{name}.gate")
    if crash.exists():
        crash.unlink()
        os._exit(3)
    if gate.exists():
        Path(folder, f"{name}.reached").touch()
    while gate.exists():
        time.sleep(0.005)


def effect(folder, name):
    with Path(folder, "ledger").open("a") as ledger:
        ledger.write(f"{name}\n")
    return name


workflow = Workflow(Entry)


@workflow.entrypoint(Entry.START, default=True)
async def start(event, ctx):
    folder = event["data"]
    pass_by(folder, "handler")
    first = await ctx.local("first", effect, folder=folder, name="first")
    branches = [ctx.branch(key, entrypoint=Entry.BRANCH, queue="main", data=[folder, key]) for key in ("left", "right")]
    fork = await ctx.fork("split", branches=branches)
    return ctx.join(fork, resume=Entry.JOINED, state=[folder, first])


@workflow.entrypoint(Entry.BRANCH)
async def branch(event, ctx):
    folder, key = event["data"]
    return ctx.complete(await ctx.local("effect", effect, folder=folder, name=key))


@workflow.entrypoint(Entry.JOINED)
async def joined(event, ctx):
    folder, first = ctx.state
    last = await ctx.local("last", effect, folder=folder, name="last")
    return ctx.complete([first, ctx.get_result("left"), ctx.get_result("right"), last])


handle = workflow.build()

if "RECOVERY_IMPORT" in os.environ:
    pass_by(os.environ["RECOVERY_IMPORT"], "import")
