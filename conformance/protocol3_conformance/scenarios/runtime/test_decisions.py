"""Decisions, and what is checked when one is returned (chapter 23, Decisions)."""

from __future__ import annotations

from protocol3_conformance.bounds import bound
from protocol3_conformance.roles.program import activation
from protocol3_conformance.runtime_lab import RuntimeLab
from protocol3_conformance.scenarios.runtime import runtime_check
from protocol3_conformance.wire.frames import Frame
from protocol3_conformance.wire.strict_json import compact_size, same

COMMON: Frame = {"v": 1, "activation_id": "task_1", "revision": 3}
CHECKPOINT: Frame = {"continuation": "c", "state": {"s": 1}, "commands": []}
TASK = "ctx.task('t', program='p', version='1', queue='q', data=None)\n"
YEAR = bound("MAX_WAIT_DURATION_MS")
MESSAGE = bound("FREE_TEXT_BYTES")
MADE: dict[str, Frame] = {
    "ctx.suspend(continuation='c', state={'s': 1})": {"kind": "suspend", "until": []} | CHECKPOINT,
    "ctx.suspend(continuation='c', state={'s': 1}, until=['b', 'a'])": {"kind": "suspend", "until": ["b", "a"]}
    | CHECKPOINT,
    "ctx.continue_(continuation='c', state={'s': 1})": {"kind": "continue"} | CHECKPOINT,
    **{
        f"ctx.wait_event('k', continuation='c', state={{'s': 1}}, timeout_ms={timeout})": {
            "kind": "wait",
            "wait": {"kind": "event", "key": "k", "timeout_ms": timeout},
        }
        | CHECKPOINT
        for timeout in (None, 0, YEAR - 1, YEAR)
    },
    **{
        f"ctx.sleep('k', {delay}, continuation='c', state={{'s': 1}})": {
            "kind": "wait",
            "wait": {"kind": "timer", "key": "k", "delay_ms": delay},
        }
        | CHECKPOINT
        for delay in (0, YEAR)
    },
    "ctx.complete({'o': [1.0]})": {"kind": "complete", "output": {"o": [1.0]}},
    "ctx.fail('kind', 'message')": {"kind": "fail", "error": {"kind": "kind", "message": "message"}},
    "ctx.fail('k' * 128, '')": {"kind": "fail", "error": {"kind": "k" * 128, "message": ""}},
    "ctx.fail('k', 'a\\n\\x00')": {"kind": "fail", "error": {"kind": "k", "message": "a\n\x00"}},
    f"ctx.fail('k', 'é' * {MESSAGE // 2})": {"kind": "fail", "error": {"kind": "k", "message": "é" * (MESSAGE // 2)}},
}
REFUSED = (
    "ctx.suspend(continuation='', state=None)",
    "ctx.suspend(continuation='c' * 129, state=None)",
    "ctx.suspend(continuation=None, state=None)",
    *(
        f"ctx.suspend(continuation='c', state=None, until={until})"
        for until in (
            "'ab'",
            "{'a'}",
            "iter(['a'])",
            "['a', 'a']",
            "['']",
            "[None]",
            "[memory['ref']]",
            "['k' * 129]",
            "[f'k{n}' for n in range(65)]",
        )
    ),
    "ctx.suspend(continuation='c', state='x' * 65535)",
    "ctx.suspend(continuation='c', state=nested(65))",
    "ctx.wait_event('', continuation='c', state=None)",
    "ctx.wait_event('k' * 129, continuation='c', state=None)",
    *(
        f"ctx.wait_event('k', continuation='c', state=None, timeout_ms={value})"
        for value in ("-1", YEAR + 1, "1.0", "True", "'1'")
    ),
    *(f"ctx.sleep('k', {value}, continuation='c', state=None)" for value in ("-1", YEAR + 1, "1.0", "False", "None")),
    "ctx.sleep('', 1, continuation='c', state=None)",
    "ctx.complete(nested(65))",
    "ctx.complete('x' * 262144)",
    "ctx.complete(object())",
    "ctx.fail('', 'm')",
    "ctx.fail('k' * 129, 'm')",
    "ctx.fail(None, 'm')",
    "ctx.fail('k\\n', 'm')",
    f"ctx.fail('k', 'x' * {MESSAGE + 1})",
    f"ctx.fail('k', 'é' * {MESSAGE // 2} + 'x')",
    "ctx.fail('k', None)",
    "ctx.fail('k', 1)",
    "ctx.fail(OperationKind.MODEL, 'm')",
    "ctx.fail('k', OperationKind.MODEL)",
)
SUSPEND = "decision = ctx.suspend(continuation='c', state=None, until=['a'])\n"
WAIT = "decision = ctx.wait_event('k', continuation='c', state=None)\n"
STAGED = (
    "[{'key': 'k', 'program': {'id': 'p', 'version': '1'}, 'queue': 'q', 'data': None,"
    " 'retry_policy': {'max_attempts': 3, 'retry_delay_ms': 5000}, 'attempt_timeout_ms': 300000}]"
)
CHANGED = [
    *(
        SUSPEND + change
        for change in (
            "decision['v'] = 2",
            "decision['v'] = True",
            "decision['v'] = 1.0",
            "decision['revision'] = 1",
            "decision['revision'] = False",
            "decision['revision'] = 0.0",
            "decision['activation_id'] = 'other'",
            "decision['activation_id'] = OperationKind.MODEL",
            "decision['kind'] = 'continue'",
            "decision['kind'] = 'unknown'",
            "decision['kind'] = None",
            "decision['extra'] = 1",
            "del decision['state']",
            "del decision['until']",
            "del decision['v']",
            "decision['commands'] = None",
            "decision['commands'] = [{}]",
            f"decision['commands'] = {STAGED}",
            "decision['continuation'] = ''",
            "decision['continuation'] = None",
            "decision['state'] = 'x' * 65535",
            "decision['state'] = object()",
            "decision = list(decision.items())",
            "decision = __import__('collections').OrderedDict(decision)",
            "decision = None",
            "decision = 'suspend'",
            "decision = ctx",
            "decision = {}",
            "decision = memory['decision']",
        )
    ),
    *(
        WAIT + change
        for change in (
            "decision['wait']['kind'] = 'other'",
            "decision['wait']['timeout_ms'] = -1",
            "decision['wait']['extra'] = 1",
            "del decision['wait']['timeout_ms']",
            "decision['wait']['key'] = ''",
            "decision['wait'] = None",
            "decision['wait'] = {'kind': 'timer', 'key': 'k', 'delay_ms': None}",
            "decision['wait'] = {'kind': 'approval', 'key': 'k', 'action': {}, 'timeout_ms': 1}",
        )
    ),
]


@runtime_check("runtime-decisions/members", cites=["HLP-145", "HLP-117", "HLP-119", "HLP-121", "HLP-123"])
async def test_members(lab: RuntimeLab) -> None:
    """Every method makes a decision of its kind with exactly its members; making one sends nothing."""
    for call, members in MADE.items():
        with lab.case(call):
            assert same(await lab.decision(f"return {call}", revision=3), COMMON | members)
            assert lab.requests == []


@runtime_check("runtime-decisions/violations-raise", cites=["HLP-118", "HLP-119", "HLP-121", "HLP-122", "HLP-123"])
async def test_violations_raise(lab: RuntimeLab) -> None:
    """What a method does not take raises at the call."""
    await lab.decision(f"memory['ref'] = {TASK}return ctx.fail('k', 'm')")
    await lab.raising(REFUSED)


@runtime_check("runtime-decisions/until", cites=["HLP-119"])
async def test_until(lab: RuntimeLab) -> None:
    """`until` takes references and keys, 64 of them."""
    code = """
        refs = [ctx.task("t", program="p", version="1", queue="q", data=None),
                ctx.workflow("w", program="p", version="1", queue="q", data=None)]
        return ctx.suspend(continuation="c", state=None, until=(*refs, *(f"k{n}" for n in range(62))))
    """
    assert (await lab.decision(code))["until"] == ["t", "w", *(f"k{n}" for n in range(62))]


@runtime_check("runtime-decisions/size", cites=["HLP-118"])
async def test_size(lab: RuntimeLab) -> None:
    """A decision has at most 256 KiB."""
    most = bound("DECISION_BYTES")
    room = most - compact_size({"v": 1, "activation_id": "task_1", "revision": 0, "kind": "complete", "output": ""})
    for size in (room - 1, room):
        decision = await lab.decision(f"return ctx.complete('x' * {size})")
        assert compact_size(decision) == most - room + size
    await lab.raising([f"ctx.complete('x' * {room + 1})"])


@runtime_check("runtime-decisions/staged-commands", cites=["HLP-122", "HLP-123", "HLP-124", "HLP-075"])
async def test_staged_commands(lab: RuntimeLab) -> None:
    """`complete` refuses staged commands, `fail` drops them; staging after a decision was made invalidates it."""
    expected: Frame = {"kind": "fail", "error": {"kind": "k", "message": "True"}}
    decision = await lab.decision(TASK + "return ctx.fail('k', str(refused(ctx.complete, None)))")
    assert same(decision, COMMON | {"revision": 0} | expected)
    for made in ("ctx.continue_(continuation='c', state=None)", "ctx.complete(1)"):
        with lab.case(made):
            await lab.refused(f"decision = {made}\n{TASK}return decision")
    assert (await lab.decision(f"decision = ctx.fail('k', 'm')\n{TASK}return decision"))["kind"] == "fail"
    again = f"{TASK}decision = ctx.continue_(continuation='c', state=None)\n{TASK}return decision"
    assert len((await lab.decision(again))["commands"]) == 1


@runtime_check("runtime-decisions/checked-on-return", cites=["HLP-124", "HLP-125", "RUN-064"])
async def test_checked_on_return(lab: RuntimeLab) -> None:
    """A decision that was changed against the rules, or is none, ends the activation as `runtime_error`."""
    await lab.decision("memory['decision'] = ctx.complete(1)\nreturn memory['decision']", revision=9)
    for code in CHANGED:
        with lab.case(code):
            await lab.refused(f"{code}\nreturn decision")
    for value in ("None", "1", "'complete'", "ctx.complete", "[ctx.complete(1)]", "True"):
        with lab.case(value):
            await lab.refused(f"return {value}")


@runtime_check("runtime-decisions/plain-dicts", cites=["HLP-117", "HLP-124"])
async def test_plain_dicts(lab: RuntimeLab) -> None:
    """A decision is a dict that may be changed within the rules; only the one that is returned counts."""
    for change in ("['state'] = [1]", "['until'] = ['b', 'c']", "['continuation'] = 'd'"):
        with lab.case(change):
            assert (await lab.decision(f"{SUSPEND}decision{change}\nreturn decision"))["kind"] == "suspend"
    made = "ctx.complete(1)\nctx.fail('k', 'm')\nctx.sleep('k', 1, continuation='c', state=None)\n"
    await lab.holds(made + "return ctx.complete(2)", 2)
    assert lab.requests == []


@runtime_check("runtime-decisions/synchronous-controller", cites=["HLP-117", "RUN-052"])
async def test_synchronous_controller(lab: RuntimeLab) -> None:
    """A plain function is a controller too."""
    source = """
        from ledgence.worker.workflow import workflow_context
        def handle(event):
            return workflow_context().complete(event["data"])
    """
    program = await lab.start(source).ready()
    assert (await program.invoke(7, payload=activation()))["output"]["output"] == 7
