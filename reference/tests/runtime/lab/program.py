"""Runs the code that a test sends in `event["data"]["code"]`, as the body of a handler.

An ordinary task is `def task(event, data)`, a controller `async def controller(event, ctx)`. `globals()` persist
between invocations, as in any program. The helpers below are in reach of the code.
"""

import asyncio
import inspect
import textwrap

from ledgence.worker import workflow
from ledgence.worker.workflow import *  # noqa: F403

memory = {}
calls = []


def add(x, y=0):
    calls.append(("add", x, y))
    return x + y


def identity(value):
    calls.append("identity")
    return value


async def later(value, turns=1):
    for _ in range(turns):
        await asyncio.sleep(0)
    return value


def boom(message="boom"):
    calls.append("boom")
    raise ValueError(message)


def refused(action, *arguments, **settings):
    """Call and report whether that raised WorkflowError."""
    try:
        action(*arguments, **settings)
    except workflow.WorkflowError:
        return True
    return False


async def refused_later(awaitable):
    """Await and report whether that raised WorkflowError."""
    try:
        await awaitable
    except workflow.WorkflowError:
        return True
    return False


def nested(depth, leaf=None):
    """`depth` lists around a leaf."""
    value = leaf
    for _ in range(depth):
        value = [value]
    return value


def handle(event):
    calls.clear()
    data = event["data"]
    context = None
    if "ldgactivationid" in event:
        context = workflow.workflow_context()
        head, arguments = "async def controller(event, ctx):\n", (event, context)
    else:
        head, arguments = "def task(event, data):\n", (event, data.get("data"))
    scope = {}
    exec(compile(head + textwrap.indent(textwrap.dedent(data["code"]), "    "), "<lab>", "exec"), globals(), scope)
    [function] = scope.values()
    assert inspect.isfunction(function)
    return function(*arguments)
