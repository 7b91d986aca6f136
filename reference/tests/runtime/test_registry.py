"""Registered entrypoints (chapter 23, Entrypoints)."""

import pytest

PRELUDE = """
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


def registered(body):
    """A controller whose default entry runs the body."""
    return (
        PRELUDE
        + f"""
async def body(event, ctx):
{chr(10).join("    " + line for line in body.splitlines())}
return await make(handlers={{Entry.FIRST: body}}).build()(event)
"""
    )


def checked(lab, expression, prelude=PRELUDE):
    return lab.completed(f"{prelude}\nreturn ctx.complete({expression})")


@pytest.mark.parametrize(
    "entries",
    [
        "None",
        "'Entry'",
        "Entry.FIRST",
        "['first']",
        "Enum('E', {'A': 'a'})",
        "StrEnum",
        "StrEnum('E', {})",
        "StrEnum('E', {'A': 'a', 'B': 'a'})",
        "StrEnum('E', {'A': ''})",
        "StrEnum('E', {'A': 'x' * 129})",
        "StrEnum('E', {'A': 'a\\n'})",
        "str",
    ],
)
def test_refused_enumerations(lab, entries):
    """HLP-092."""
    assert checked(lab, f"refused(Workflow, {entries})") is True


@pytest.mark.parametrize("entries", ["StrEnum('E', {'A': 'a'})", "StrEnum('E', {'A': 'é' * 64})", "Entry"])
def test_accepted_enumerations(lab, entries):
    """HLP-092."""
    assert checked(lab, f"refused(Workflow, {entries})") is False


@pytest.mark.parametrize(
    "arguments",
    ["'first'", "Other.FIRST", "None", "Entry", "Entry.FIRST, default=1", "Entry.FIRST, default=None"],
)
def test_entrypoint_takes_a_member_and_a_boolean(lab, arguments):
    """HLP-093."""
    assert checked(lab, f"refused(lambda: Workflow(Entry).entrypoint({arguments})(add))") is True


@pytest.mark.parametrize("handler", ["None", "'add'", "1"])
def test_a_handler_is_callable(lab, handler):
    """HLP-093."""
    assert checked(lab, f"refused(Workflow(Entry).entrypoint(Entry.FIRST), {handler})") is True


def test_the_decorated_object_is_returned_unchanged(lab):
    """HLP-093."""
    assert checked(lab, "Workflow(Entry).entrypoint(Entry.FIRST)(add) is add") is True


def test_one_handler_per_member_and_one_default(lab):
    """HLP-094, HLP-095."""
    code = (
        PRELUDE
        + """
workflow = Workflow(Entry)
found = [refused(workflow.build)]
early = workflow.entrypoint(Entry.FIRST)
workflow.entrypoint(Entry.FIRST, default=True)(add)
found += [refused(early, identity), refused(workflow.build)]
def second_default():
    workflow.entrypoint(Entry.SECOND, default=True)(add)
    workflow.build()
found += [refused(second_default)]
return ctx.complete(found)
"""
    )
    assert lab.completed(code) == [True] * 4


@pytest.mark.parametrize(
    ("call", "held"),
    [
        ("make(default=None).build", True),
        ("make().build", False),
        ("make(Started, Started.BEGIN).build", False),
        ("make(Started, Started.SECOND).build", True),
        ("make(Started, None).build", True),
    ],
)
def test_build_needs_a_default_and_start_is_it(lab, call, held):
    """HLP-095."""
    assert checked(lab, f"refused({call})") is held


def test_build_freezes_the_registry(lab):
    """HLP-096."""
    code = (
        PRELUDE
        + """
workflow = Workflow(Entry)
workflow.entrypoint(Entry.FIRST, default=True)(add)
early = workflow.entrypoint(Entry.SECOND)
early(add)
built = workflow.build()
found = [workflow.build() is built, refused(lambda: workflow.entrypoint(Entry.SECOND)(add)), refused(early, add)]
return ctx.complete(found)
"""
    )
    assert lab.completed(code) == [True] * 3


def test_the_built_handler_is_an_async_function_of_the_event(lab):
    """HLP-097."""
    code = "[inspect.iscoroutinefunction(make().build()), list(inspect.signature(make().build()).parameters).__len__()]"
    assert checked(lab, code) == [True, 1]


@pytest.mark.parametrize("handler", ["def handler", "async def handler"])
def test_entry_handlers_are_called_with_event_and_context(lab, handler):
    """HLP-097."""
    code = (
        PRELUDE
        + f"""
{handler}(*arguments, **more):
    return ctx.complete([arguments[0] is event, arguments[1] is ctx is workflow_context(), len(arguments), len(more)])
return await make(handlers={{Entry.FIRST: handler}}).build()(event)
"""
    )
    assert lab.completed(code) == [True, True, 2, 0]


@pytest.mark.parametrize(
    ("continuation", "entries", "expected"),
    [
        ("start", "", ["FIRST", True, "start"]),
        ("first", "", ["FIRST", True, "first"]),
        ("second", "", ["SECOND", True, "second"]),
        ("start", "Started, Started.BEGIN", ["BEGIN", True, "start"]),
        ("second", "Started, Started.BEGIN", ["SECOND", True, "second"]),
    ],
)
def test_the_continuation_selects_the_handler(lab, continuation, entries, expected):
    """HLP-098, HLP-103, HLP-038."""
    code = PRELUDE + f"return await make({entries}).build()(event)"
    assert lab.completed(code, continuation=continuation) == expected


@pytest.mark.parametrize("continuation", ["third", "FIRST", "Entry.FIRST", "START"])
def test_an_unknown_continuation_raises(lab, continuation):
    """HLP-098."""
    assert lab.refused(PRELUDE + "return await make().build()(event)", continuation=continuation)


ACTION = "ApprovalAction('n', version='1', arguments={})"
TARGETS = [
    "ctx.branch('b', entrypoint=TARGET, queue='q', data=None)",
    "ctx.join(fork, resume=TARGET, state=None)",
    "ctx.suspend(continuation=TARGET, state=None)",
    "ctx.continue_(continuation=TARGET, state=None)",
    "ctx.wait_event('k', continuation=TARGET, state=None)",
    "ctx.sleep('k', 1, continuation=TARGET, state=None)",
    f"ctx.request_approval('k', action={ACTION}, state=None, timeout_ms=1, resume=TARGET)",
    f"ctx.request_approval('k', action={ACTION}, state=None, timeout_ms=1, continuation=TARGET)",
]
WITH_FORK = "fork = await ctx.fork('f', branches=[ctx.branch('x', entrypoint=MEMBER, queue='q', data=None)])\n"


@pytest.mark.parametrize("target", TARGETS)
def test_targets_of_a_registered_workflow_are_members(lab, target):
    """HLP-099."""
    others = ["'second'", "'start'", "Other.FIRST", "None", "'third'", "Entry"]
    body = WITH_FORK.replace("MEMBER", "Entry.SECOND")
    body += f"found = [{', '.join('refused(lambda: ' + target.replace('TARGET', other) + ')' for other in others)}]\n"
    body += f"made = {target.replace('TARGET', 'Entry.SECOND')}\n"
    body += "return ctx.complete([found, made.get('continuation') if isinstance(made, dict) else made.key])"
    assert lab.completed(registered(body)) == [[True] * len(others), "b" if "branch" in target else "second"]


@pytest.mark.parametrize("target", TARGETS)
def test_targets_of_a_manual_workflow_are_exact_strings(lab, target):
    """HLP-100; easily got wrong 3."""
    others = ["Entry.SECOND", "None", "''", "'x' * 129", "1"]
    body = PRELUDE + WITH_FORK.replace("MEMBER", "'e'")
    body += f"found = [{', '.join('refused(lambda: ' + target.replace('TARGET', other) + ')' for other in others)}]\n"
    body += f"made = {target.replace('TARGET', repr('any text'))}\n"
    body += "return ctx.complete([found, made.get('continuation') if isinstance(made, dict) else made.key])"
    assert lab.completed(body) == [[True] * len(others), "b" if "branch" in target else "any text"]


def test_a_branch_made_before_the_registry_was_entered_is_checked_by_fork(lab):
    """HLP-105."""
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
    assert lab.completed(code) == [True, False]


@pytest.mark.parametrize(("target", "held"), [("second", False), ("third", True), ("start", True)])
def test_the_continuation_of_a_returned_decision_is_checked(lab, target, held):
    """HLP-124: whoever made the decision."""
    code = (
        PRELUDE
        + f"""
decision = ctx.continue_(continuation="{target}", state=None)
return await make(handlers={{Entry.FIRST: lambda event, ctx: decision}}).build()(event)
"""
    )
    status = lab.workflow(code)["status"]
    assert status == ("runtime_error" if held else "success")


def test_only_one_registry_is_entered_per_activation(lab):
    """HLP-101."""
    code = (
        PRELUDE
        + """
second = make().build()
async def first(event, ctx):
    return ctx.complete(await refused_later(second(event)))
return await make(handlers={Entry.FIRST: first}).build()(event)
"""
    )
    assert lab.completed(code) is True
