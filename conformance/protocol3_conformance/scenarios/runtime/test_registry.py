"""Registered entrypoints (chapter 23, Entrypoints)."""

from __future__ import annotations

from protocol3_conformance.runtime_lab import RuntimeLab
from protocol3_conformance.scenarios.runtime import runtime_check
from protocol3_conformance.wire.strict_json import same

PRELUDE = """
import inspect
from enum import Enum, StrEnum
class Entry(StrEnum):
    FIRST = "first"
    SECOND = "second"
class Other(StrEnum):
    FIRST = "first"
class Started(StrEnum):
    BEGIN = "start"
    SECOND = "second"
def make(entries=Entry, default=Entry.FIRST, handlers=None):
    workflow = Workflow(entries)
    for member in entries:
        def handler(event, ctx, member=member):
            return ctx.complete([member.name, ctx.entrypoint is member, ctx.continuation])
        workflow.entrypoint(member, default=member is default)((handlers or {}).get(member, handler))
    return workflow
"""
FORK = "fork = await ctx.fork('f', branches=[ctx.branch('x', entrypoint=MEMBER, queue='q', data=None)])\n"
ACTION = "ApprovalAction('n', version='1', arguments={})"
TARGETS = (
    "ctx.branch('b', entrypoint=TARGET, queue='q', data=None)",
    "ctx.join(fork, resume=TARGET, state=None)",
    "ctx.suspend(continuation=TARGET, state=None)",
    "ctx.continue_(continuation=TARGET, state=None)",
    "ctx.wait_event('k', continuation=TARGET, state=None)",
    "ctx.sleep('k', 1, continuation=TARGET, state=None)",
    f"ctx.request_approval('k', action={ACTION}, state=None, timeout_ms=1, resume=TARGET)",
    f"ctx.request_approval('k', action={ACTION}, state=None, timeout_ms=1, continuation=TARGET)",
)


@runtime_check("runtime-registry/enumerations", cites=["HLP-092", "HLP-023"])
async def test_enumerations(lab: RuntimeLab) -> None:
    """Entries are a StrEnum with members, without aliases, its values texts of 128 bytes."""
    bad = ("None", "'Entry'", "Entry.FIRST", "['first']", "Enum('E', {'A': 'a'})", "StrEnum", "StrEnum('E', {})",
           "StrEnum('E', {'A': 'a', 'B': 'a'})", "StrEnum('E', {'A': ''})", "StrEnum('E', {'A': 'x' * 129})",
           "StrEnum('E', {'A': 'a\\n'})", "str")  # fmt: skip
    await lab.raising([f"Workflow({entries})" for entries in bad], before=PRELUDE)
    good = ("StrEnum('E', {'A': 'a'})", "StrEnum('E', {'A': 'é' * 64})", "Entry")
    await lab.passing([f"Workflow({entries})" for entries in good], before=PRELUDE)


@runtime_check("runtime-registry/entrypoint", cites=["HLP-093", "HLP-094"])
async def test_entrypoint(lab: RuntimeLab) -> None:
    """A member of exactly that enumeration, a real boolean, a callable that comes back unchanged, once."""
    bad = ("'first'", "Other.FIRST", "None", "Entry", "Entry.FIRST, default=1", "Entry.FIRST, default=None")
    rows = [f"Workflow(Entry).entrypoint({given})(add)" for given in bad]
    rows += [f"Workflow(Entry).entrypoint(Entry.FIRST)({handler})" for handler in ("None", "'add'", "1")]
    rows += ["again(identity)"]
    before = PRELUDE + "registry = Workflow(Entry)\nagain = registry.entrypoint(Entry.FIRST)\nagain(add)\n"
    await lab.raising(rows, before=before)
    await lab.holds(PRELUDE + "return ctx.complete(Workflow(Entry).entrypoint(Entry.FIRST)(add) is add)", True)


@runtime_check("runtime-registry/build", cites=["HLP-095", "HLP-096", "HLP-097"])
async def test_build(lab: RuntimeLab) -> None:
    """A handler for every member, one default, `start` if it exists; building freezes and gives an async function."""
    before = (
        PRELUDE
        + """
half = Workflow(Entry)
half.entrypoint(Entry.FIRST, default=True)(add)
def two_defaults():
    registry = Workflow(Entry)
    registry.entrypoint(Entry.FIRST, default=True)(add)
    registry.entrypoint(Entry.SECOND, default=True)(add)
    registry.build()
frozen = Workflow(Entry)
frozen.entrypoint(Entry.FIRST, default=True)(add)
early = frozen.entrypoint(Entry.SECOND)
early(add)
built = frozen.build()
"""
    )
    rows = (
        "Workflow(Entry).build()",
        "half.build()",
        "two_defaults()",
        "make(default=None).build()",
        "make(Started, Started.SECOND).build()",
        "make(Started, None).build()",
        "frozen.entrypoint(Entry.SECOND)(add)",
        "early(add)",
    )
    await lab.raising(rows, before=before)
    await lab.passing(["make().build()", "make(Started, Started.BEGIN).build()", "frozen.build()"], before=before)
    code = before + "found = [frozen.build() is built, inspect.iscoroutinefunction(built)]\n"
    await lab.holds(code + "return ctx.complete([*found, len(inspect.signature(built).parameters)])", [True, True, 1])


@runtime_check("runtime-registry/entry-handlers", cites=["HLP-097", "HLP-032"])
async def test_entry_handlers(lab: RuntimeLab) -> None:
    """Entry handlers, sync or async, are called with the event and the one context."""
    for head in ("def handler", "async def handler"):
        with lab.case(head):
            code = (
                PRELUDE
                + f"""
{head}(*given, **more):
    return ctx.complete([given[0] is event, given[1] is ctx is workflow_context(), len(given), len(more)])
return await make(handlers={{Entry.FIRST: handler}}).build()(event)
"""
            )
            await lab.holds(code, [True, True, 2, 0])


@runtime_check("runtime-registry/selection", cites=["HLP-098", "HLP-103", "HLP-038"])
async def test_selection(lab: RuntimeLab) -> None:
    """`start` selects the default, every other continuation the member of that value; an unknown one raises."""
    for continuation, entries, expected in (
        ("start", "", ["FIRST", True, "start"]),
        ("first", "", ["FIRST", True, "first"]),
        ("second", "", ["SECOND", True, "second"]),
        ("start", "Started, Started.BEGIN", ["BEGIN", True, "start"]),
        ("second", "Started, Started.BEGIN", ["SECOND", True, "second"]),
    ):
        with lab.case(f"{continuation} of {entries or 'Entry'}"):
            code = PRELUDE + f"return await make({entries}).build()(event)"
            await lab.holds(code, expected, continuation=continuation)
    for continuation in ("third", "FIRST", "Entry.FIRST", "START"):
        with lab.case(continuation):
            await lab.refused(PRELUDE + "return await make().build()(event)", continuation=continuation)


def registered(body: str) -> str:
    """A controller whose default entry runs the body."""
    rows = "\n".join(f"    {row}" for row in body.splitlines())
    entered = "return await make(handlers={Entry.FIRST: body}).build()(event)"
    return f"{PRELUDE}\nasync def body(event, ctx):\n{rows}\n{entered}"


def targeting(target: str, refused: tuple[str, ...], accepted: str) -> str:
    """Code that tells whether each target is refused, and what the accepted one made."""
    rows = ", ".join(f"refused(lambda: {target.replace('TARGET', other)})" for other in refused)
    made = f"made = {target.replace('TARGET', accepted)}\n"
    told = "made['continuation'] if isinstance(made, dict) else made.key"
    return f"found = [{rows}]\n{made}return ctx.complete([all(found), {told}])"


@runtime_check("runtime-registry/targets", cites=["HLP-099", "HLP-100"], profile="core forks")
async def test_targets(lab: RuntimeLab) -> None:
    """Targets are members in a registered workflow and exact strings of 128 bytes in a manual one."""
    strings = ("'second'", "'start'", "Other.FIRST", "None", "'third'", "Entry")
    members = ("Entry.SECOND", "None", "''", "'x' * 129", "1")
    for target in TARGETS:
        with lab.case(target):
            branch = "branch" in target
            body = FORK.replace("MEMBER", "Entry.SECOND") + targeting(target, strings, "Entry.SECOND")
            await lab.holds(registered(body), [True, "b" if branch else "second"])
            body = PRELUDE + FORK.replace("MEMBER", "'e'") + targeting(target, members, "'any text'")
            await lab.holds(body, [True, "b" if branch else "any text"])


@runtime_check("runtime-registry/unknown-entrypoints-of-a-fork", cites=["HLP-105", "HLP-124"], profile="core forks")
async def test_unknown_entrypoints(lab: RuntimeLab) -> None:
    """A branch or decision made before the registry was entered is checked by it."""
    code = (
        PRELUDE
        + """
known = ctx.branch("a", entrypoint="second", queue="q", data=None)
unknown = ctx.branch("b", entrypoint="third", queue="q", data=None)
async def first(event, ctx):
    found = [await refused_later(ctx.fork("f", branches=[unknown]))]
    return ctx.complete([*found, await refused_later(ctx.fork("g", branches=[known]))])
return await make(handlers={Entry.FIRST: first}).build()(event)
"""
    )
    await lab.holds(code, [True, False])
    for target, status in (("second", "success"), ("third", "runtime_error"), ("start", "runtime_error")):
        with lab.case(f"decision for {target}"):
            code = (
                PRELUDE
                + f"""
decision = ctx.continue_(continuation="{target}", state=None)
return await make(handlers={{Entry.FIRST: lambda event, ctx: decision}}).build()(event)
"""
            )
            assert (await lab.workflow(code))["status"] == status


@runtime_check("runtime-registry/only-one", cites=["HLP-101"])
async def test_only_one(lab: RuntimeLab) -> None:
    """A second built handler in the same activation raises."""
    code = (
        PRELUDE
        + """
second = make().build()
async def first(event, ctx):
    return ctx.complete(await refused_later(second(event)))
return await make(handlers={Entry.FIRST: first}).build()(event)
"""
    )
    assert same(await lab.completed(code), True)
