"""Decisions, and the check of what the handler returns (chapter 23, Decisions)."""

import pytest

COMMON = {"v": 1, "activation_id": "act", "revision": 3}
CHECKPOINT = {"continuation": "c", "state": {"s": 1}, "commands": []}
TASK = "ctx.task('t', program='p', version='1', queue='q', data=None)\n"
BUILDERS = {
    "ctx.suspend(continuation='c', state={'s': 1})": {"kind": "suspend", "until": []} | CHECKPOINT,
    "ctx.suspend(continuation='c', state={'s': 1}, until=['b', 'a'])": {
        "kind": "suspend",
        "until": ["b", "a"],
    }
    | CHECKPOINT,
    "ctx.continue_(continuation='c', state={'s': 1})": {"kind": "continue"} | CHECKPOINT,
    "ctx.wait_event('k', continuation='c', state={'s': 1})": {
        "kind": "wait",
        "wait": {"kind": "event", "key": "k", "timeout_ms": None},
    }
    | CHECKPOINT,
    "ctx.wait_event('k', continuation='c', state={'s': 1}, timeout_ms=0)": {
        "kind": "wait",
        "wait": {"kind": "event", "key": "k", "timeout_ms": 0},
    }
    | CHECKPOINT,
    "ctx.sleep('k', 31536000000, continuation='c', state={'s': 1})": {
        "kind": "wait",
        "wait": {"kind": "timer", "key": "k", "delay_ms": 31536000000},
    }
    | CHECKPOINT,
    "ctx.complete({'o': [1.0]})": {"kind": "complete", "output": {"o": [1.0]}},
    "ctx.fail('kind', 'message')": {"kind": "fail", "error": {"kind": "kind", "message": "message"}},
    "ctx.fail('k' * 128, '')": {"kind": "fail", "error": {"kind": "k" * 128, "message": ""}},
    "ctx.fail('k', 'a\\n\\x00')": {"kind": "fail", "error": {"kind": "k", "message": "a\n\x00"}},
    "ctx.fail('k', 'é' * 2048)": {"kind": "fail", "error": {"kind": "k", "message": "é" * 2048}},
}


@pytest.mark.parametrize("code", BUILDERS)
def test_decisions_have_exactly_these_members(lab, code):
    """Table of 3.13, HLP-117, HLP-119, HLP-121, HLP-123 (HLP-145)."""
    assert lab.decision(f"return {code}", revision=3) == COMMON | BUILDERS[code]
    assert lab.host.requests == []


@pytest.mark.parametrize(
    "code",
    [
        "ctx.suspend(continuation='', state=None)",
        "ctx.suspend(continuation='c' * 129, state=None)",
        "ctx.suspend(continuation=None, state=None)",
        "ctx.suspend(continuation='c', state=None, until='ab')",
        "ctx.suspend(continuation='c', state=None, until={'a'})",
        "ctx.suspend(continuation='c', state=None, until=iter(['a']))",
        "ctx.suspend(continuation='c', state=None, until=['a', 'a'])",
        "ctx.suspend(continuation='c', state=None, until=[''])",
        "ctx.suspend(continuation='c', state=None, until=[None])",
        "ctx.suspend(continuation='c', state=None, until=[memory['ref']])",
        "ctx.suspend(continuation='c', state=None, until=[f'k{n}' for n in range(65)])",
        "ctx.suspend(continuation='c', state='x' * 65535)",
        "ctx.suspend(continuation='c', state=nested(65))",
        "ctx.wait_event('', continuation='c', state=None)",
        "ctx.wait_event('k' * 129, continuation='c', state=None)",
        *(
            f"ctx.wait_event('k', continuation='c', state=None, timeout_ms={value})"
            for value in ("-1", "31536000001", "1.0", "True", "'1'")
        ),
        *(
            f"ctx.sleep('k', {value}, continuation='c', state=None)"
            for value in ("-1", "31536000001", "1.0", "False", "None")
        ),
        "ctx.sleep('', 1, continuation='c', state=None)",
        "ctx.complete(nested(65))",
        "ctx.complete('x' * 262144)",
        "ctx.complete(object())",
        "ctx.fail('', 'm')",
        "ctx.fail('k' * 129, 'm')",
        "ctx.fail(None, 'm')",
        "ctx.fail('k\\n', 'm')",
        "ctx.fail('k', 'x' * 4097)",
        "ctx.fail('k', 'é' * 2049)",
        "ctx.fail('k', None)",
        "ctx.fail('k', 1)",
        "ctx.fail(OperationKind.MODEL, 'm')",
        "ctx.fail('k', OperationKind.MODEL)",
    ],
)
def test_violations_raise_at_the_call(lab, code):
    """HLP-118, HLP-119, HLP-121 … HLP-123."""
    lab.decision(f"memory['ref'] = {TASK}return ctx.fail('k', 'm')")
    assert lab.completed(f"return ctx.complete(refused(lambda: {code}))") is True


def test_until_takes_64_references_and_keys(lab):
    """HLP-119."""
    code = """
        refs = [ctx.task("t", program="p", version="1", queue="q", data=None),
                ctx.workflow("w", program="p", version="1", queue="q", data=None)]
        return ctx.suspend(continuation="c", state=None, until=(*refs, *(f"k{n}" for n in range(62))))
    """
    assert lab.decision(code)["until"] == ["t", "w", *(f"k{n}" for n in range(62))]


def test_a_decision_of_256_kib_is_the_largest(lab):
    """HLP-118."""
    code = """
        room = 262144 - len('{"activation_id":"act","kind":"complete","output":"","revision":0,"v":1}')
        return ctx.complete([refused(ctx.complete, "x" * (room + n)) for n in (0, 1)])
    """
    assert lab.completed(code) == [False, True]
    assert len(lab.completed("return ctx.complete('x' * 262000)")) == 262000


def test_complete_is_refused_while_commands_are_staged_and_fail_drops_them(lab):
    """HLP-122, HLP-123; easily got wrong 8."""
    stage = TASK
    assert lab.decision(stage + "return ctx.fail('k', str(refused(ctx.complete, None)))") == {
        "v": 1,
        "activation_id": "act",
        "revision": 0,
        "kind": "fail",
        "error": {"kind": "k", "message": "True"},
    }


@pytest.mark.parametrize("made", ["ctx.continue_(continuation='c', state=None)", "ctx.complete(1)"])
def test_staging_after_a_decision_was_made_invalidates_it(lab, made):
    """HLP-124; vector 'late staging'; easily got wrong 8."""
    stage = TASK
    assert lab.refused(f"decision = {made}\n{stage}return decision")
    assert lab.decision(f"decision = ctx.fail('k', 'm')\n{stage}return decision")["kind"] == "fail"


def test_a_decision_made_with_the_command_may_be_returned_after_staging_it_again(lab):
    """HLP-075, HLP-124."""
    stage = TASK
    code = f"{stage}decision = ctx.continue_(continuation='c', state=None)\n{stage}return decision"
    assert len(lab.decision(code)["commands"]) == 1


SUSPEND = "decision = ctx.suspend(continuation='c', state=None, until=['a'])\n"


@pytest.mark.parametrize(
    "change",
    [
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
        "decision['commands'] = [{'key': 'k', 'program': {'id': 'p', 'version': '1'}, 'queue': 'q', 'data': None,"
        " 'retry_policy': {'max_attempts': 3, 'retry_delay_ms': 5000}, 'attempt_timeout_ms': 300000}]",
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
    ],
)
def test_a_changed_decision_is_refused_on_return(lab, change):
    """HLP-124, HLP-125."""
    lab.decision("memory['decision'] = ctx.complete(1)\nreturn memory['decision']", activation_id="act", revision=9)
    assert lab.refused(f"{SUSPEND}{change}\nreturn decision")


@pytest.mark.parametrize("until", ["['a', 'a']", "'a'", "[1]", "[f'k{n}' for n in range(65)]"])
def test_a_changed_until_is_refused_on_return(lab, until, own_helper):
    """HLP-124, HLP-119: the bounds apply again."""
    if not own_helper:
        pytest.skip("the published helper leaves these to the server (DEC-011)")
    assert lab.refused(f"{SUSPEND}decision['until'] = {until}\nreturn decision")


def test_a_lone_surrogate_in_a_failure_message_is_a_workflow_error(lab, own_helper):
    """HLP-023, HLP-123."""
    if not own_helper:
        pytest.skip("the published helper raises UnicodeEncodeError")
    assert lab.completed("return ctx.complete(refused(ctx.fail, 'k', '\\ud800'))") is True


@pytest.mark.parametrize("change", ["['state'] = [1]", "['until'] = ['b', 'c']", "['continuation'] = 'd'"])
def test_a_change_within_the_rules_is_accepted(lab, change):
    """HLP-117, HLP-124: a decision is a plain dict."""
    assert lab.decision(f"{SUSPEND}decision{change}\nreturn decision")["kind"] == "suspend"


def test_commands_may_come_back_as_a_tuple(lab):
    """HLP-124: byte-equal to what is staged, and a tuple equals the list (HLP-029)."""
    code = f"{SUSPEND}decision['commands'] = tuple(decision['commands'])\nreturn decision"
    assert lab.decision(code) == lab.decision(f"{SUSPEND}return decision")


def test_null_proposed_arguments_are_absent_ones(lab):
    """HLP-085, HLP-124: in a returned decision as in the call."""
    code = """
        action = ApprovalAction("a", version="1", arguments={})
        decision = ctx.request_approval("k", action=action, state=None, timeout_ms=1, continuation="c")
        decision["wait"]["proposed_arguments"] = None
        return decision
    """
    assert lab.decision(code)["wait"]["proposed_arguments"] is None


@pytest.mark.parametrize(
    "change",
    [
        "decision['wait']['kind'] = 'other'",
        "decision['wait']['timeout_ms'] = -1",
        "decision['wait']['extra'] = 1",
        "del decision['wait']['timeout_ms']",
        "decision['wait']['key'] = ''",
        "decision['wait'] = None",
        "decision['wait'] = {'kind': 'timer', 'key': 'k', 'delay_ms': None}",
        "decision['wait'] = {'kind': 'approval', 'key': 'k', 'action': {}, 'timeout_ms': 1}",
        "decision['wait'] = {'kind': 'approval', 'key': 'k', 'action': {'name': 'n', 'version': '1', 'arguments': {}},"
        " 'timeout_ms': None}",
    ],
)
def test_a_changed_wait_is_refused_on_return(lab, change):
    """HLP-124."""
    assert lab.refused(f"decision = ctx.wait_event('k', continuation='c', state=None)\n{change}\nreturn decision")


@pytest.mark.parametrize("value", ["None", "1", "'complete'", "ctx.complete", "[ctx.complete(1)]", "True"])
def test_a_handler_returns_a_decision(lab, value):
    """HLP-125."""
    assert lab.refused(f"return {value}")


def test_making_a_decision_has_no_effect(lab):
    """HLP-117: any number may be made; only the returned one counts."""
    code = "ctx.complete(1)\nctx.fail('k', 'm')\nctx.sleep('k', 1, continuation='c', state=None)\n"
    assert lab.completed(code + "return ctx.complete(2)") == 2
    assert lab.host.requests == []


def test_a_synchronous_controller_returns_its_decision(hosts, package, activation):
    """HLP-117, RUN-052."""
    source = """
        from ledgence.worker.workflow import workflow_context
        def handle(event):
            return workflow_context().complete(event["data"])
    """
    assert hosts(package(source)).ready().invoke(7, payload=activation())["output"]["output"] == 7
