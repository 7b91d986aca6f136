"""Registered entrypoints: which handler runs, which targets there are, and how a registry is put together (3.10)."""

from collections.abc import Iterator

from parity.case import Case, Step, activation, invoke, program

REGISTRY = """
from enum import StrEnum
from ledgence.worker.workflow import Workflow, WorkflowError, workflow_context

class Entry(StrEnum):
    FIRST = "first"
    SECOND = "second"

class Other(StrEnum):
    FIRST = "first"

flow = Workflow(Entry)

def refused(action, *a, **k):
    try:
        action(*a, **k)
    except WorkflowError:
        return True
    except Exception as error:
        return type(error).__name__
    return False

@flow.entrypoint(Entry.FIRST, default=True)
async def first(event, ctx):
    kinds = [refused(ctx.continue_, continuation=target, state=None) for target in ("second", "x", Other.FIRST, Entry.FIRST, None, Entry)]
    kinds += [refused(ctx.branch, "b", entrypoint=target, queue="q", data=None) for target in ("second", Other.FIRST, Entry.SECOND)]
    if event["data"] == "show":
        entry = ctx.entrypoint
        return ctx.complete([kinds, type(entry).__name__, entry is Entry.FIRST, ctx.continuation, ctx is workflow_context()])
    if event["data"] == "string":
        decision = ctx.continue_(continuation=Entry.SECOND, state=None)
        decision["continuation"] = "unknown"
        return decision
    if event["data"] == "known":
        decision = ctx.continue_(continuation=Entry.SECOND, state=None)
        decision["continuation"] = "first"
        return decision
    if event["data"] == "start":
        decision = ctx.continue_(continuation=Entry.SECOND, state=None)
        decision["continuation"] = "start"
        return decision
    if event["data"] == "member":
        decision = ctx.continue_(continuation=Entry.SECOND, state=None)
        decision["continuation"] = Entry.SECOND
        return decision
    if event["data"] == "again":
        return await handle(event)
    if event["data"] == "other":
        return await second_handle(event)
    return ctx.wait_event("k", continuation=Entry.SECOND, state={"a": 1})

@flow.entrypoint(Entry.SECOND)
def second(event, ctx):
    return ctx.complete([str(ctx.entrypoint), ctx.state])

handle = flow.build()
other = Workflow(Other)
other.entrypoint(Other.FIRST, default=True)(lambda event, ctx: ctx.complete("other"))
second_handle = other.build()
"""

REGISTRATIONS = """
import enum, inspect, json
from enum import StrEnum
from ledgence.worker.workflow import Workflow, WorkflowError

def tell(action):
    try:
        value = action()
        return "ok" if not isinstance(value, (str, bool)) else value
    except Exception as error:
        return type(error).__name__

def made(name, members, base=StrEnum):
    return base(name, members)

async def entry(event, ctx):
    return None

def built(members, default=None, register=None):
    def go():
        flow = Workflow(members)
        for member in members if register is None else register:
            flow.entrypoint(member, default=member is default)(entry)
        return flow.build()
    return go

A = made("A", {"X": "x", "Y": "y"})
S = made("S", {"X": "x", "START": "start"})
def late():
    flow = Workflow(A)
    decorate = flow.entrypoint(A.X)
    flow.entrypoint(A.X, default=True)(entry)
    flow.entrypoint(A.Y)(entry)
    first = flow.build()
    return [flow.build() is first, tell(lambda: flow.entrypoint(A.X)), tell(lambda: decorate(entry)), inspect.iscoroutinefunction(first), list(inspect.signature(first).parameters) != []]

def same():
    flow = Workflow(A)
    return flow.entrypoint(A.X)(entry) is entry

def pending():
    flow = Workflow(A)
    one, two = flow.entrypoint(A.X), flow.entrypoint(A.X)
    one(entry)
    return two(entry)

def two_defaults():
    flow = Workflow(A)
    flow.entrypoint(A.X, default=True)(entry)
    flow.entrypoint(A.Y, default=True)(entry)
    return flow.build()

class Sub(str, enum.Enum):
    X = "x"

found = [
    tell(lambda: Workflow(value))
    for value in (A, S, str, None, A.X, Sub, made("E", {}), enum.Enum("E", {"X": "x"}), made("L", {"X": "x" * 129}), made("M", {"X": ""}), made("C", {"X": "a\\n"}), StrEnum)
]
class Alias(StrEnum):
    X = "x"
    Z = "x"
found.append(tell(lambda: Workflow(Alias)))
found += [tell(lambda: Workflow(A).entrypoint(value)) for value in (A.X, "x", S.X, None, A)]
found += [tell(lambda: Workflow(A).entrypoint(A.X, default=value)) for value in (True, False, 1, 0, None, "x")]
found += [tell(lambda: Workflow(A).entrypoint(A.X)(value)) for value in (entry, print, 5, None, "x", int)]
found += [tell(built(A, A.X)), tell(built(A)), tell(built(A, A.X, [A.X])), tell(built(S, S.START)), tell(built(S, S.X)), tell(two_defaults)]
found += [tell(pending), same(), late()]

def handle(event):
    return found
"""


def cases() -> Iterator[Case]:
    for data in ("show", "string", "known", "start", "member", "again", "other", "plain"):
        yield program(f"registry/first/{data}", REGISTRY, Step(line=invoke(data, payload=activation())))
    steps = [
        Step(line=invoke("show", payload=activation(continuation=name, revision=1)))
        for name in ("first", "second", "third")
    ]
    yield program("registry/continuations", REGISTRY, *steps)
    yield program("registry/as-task", REGISTRY, Step(line=invoke("show")))
    yield program("registry/mistakes", REGISTRATIONS, Step(line=invoke()))
