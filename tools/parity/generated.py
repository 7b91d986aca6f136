"""Cases from a grammar of handlers, made and shrunk by hypothesis.

A handler is a list of statements, each with its own account of how it went, and an ending. What the written cases
explain (see explained.toml) is left out of the grammar, so that whatever is found here is new.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import replace

import hypothesis
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from parity.bench import Bench
from parity.case import Case, Frame, controller, task
from parity.written.activations import INPUTS
from parity.written.wakes import WAKES

KEYS = ["'k1'", "'k2'", "'k3'", "'ä𝄞'", "'x' * 128", "'x' * 129", "''", "'a\\x1fb'", "'_approval:k'", "1", "None"]
SCALARS = [
    "None",
    "True",
    "0",
    "1",
    "1.0",
    "-0.0",
    "-1",
    "2**63",
    "2**64 - 1",
    "2**64",
    "-2**63",
    "-2**63 - 1",
    "5e-324",
    "1e22",
    "0.1 + 0.2",
    "1e-07",
    "float('nan')",
    "float('inf')",
    "''",
    "'text'",
    "'ä€𝄞'",
    "'\\x00\\x1f\\u2028'",
    "'\\ud800'",
    "'x' * 70000",
    "'ä' * 40000",
    "b'x'",
    "{1}",
    "OperationKind.TOOL",
    "object()",
    "nested(63)",
    "nested(64)",
    "nested(65)",
    "ctx",
]
scalars = st.sampled_from(SCALARS)
names = st.sampled_from(["'a'", "'b'", "'ä'", "''", "1", "'a b'"])
values = st.recursive(
    scalars,
    lambda inner: (
        st.lists(inner, max_size=3).map(lambda items: f"[{', '.join(items)}]")
        | st.lists(inner, max_size=2).map(lambda items: f"({''.join(item + ', ' for item in items)})")
        | st.dictionaries(names, inner, max_size=3).map(
            lambda items: "{" + ", ".join(f"{key}: {value}" for key, value in items.items()) + "}"
        )
    ),
    max_leaves=5,
)
sane = st.sampled_from(["None", "1", "1.0", "True", "'v'", "[1, {'b': 2, 'a': (3,)}]", "{}"])
mostly_sane = sane | sane | values
keys = st.sampled_from(["'k1'", "'k2'", "'k3'"]) | st.sampled_from(KEYS)

FUNCTIONS = {
    "add": ["x=1", "x=1, y=2", "x='a', y='b'", "x=1.0", "", "x=None"],
    "identity": ["value=1", "value=[1, (2,)]", "value={'b': 1, 'a': 2.0}"],
    "later": ["value=5", "value=5, turns=3", "value=5, turns=7"],
    "boom": ["", "message='said: boom'"],
    "bad": [""],
    "inner": [""],
    "printing": [""],
    "stopped": [""],
}
# Functions of every generated handler beside those of the laboratory.
PRELUDE = """
def bad():
    return {1}
def inner():
    return [refused(ctx.local, 'z', add, x=1), refused(ctx.complete, 1), ctx.revision]
def printing():
    print('<<printed>>', flush=True)
async def stopped():
    raise asyncio.CancelledError
def tell(error):
    text = str(error)
    told.append([type(error).__name__, text if text.startswith('said:') else ''])
told, kept = [], []
"""

calls = st.sampled_from([(fn, given) for fn, choices in FUNCTIONS.items() for given in choices])


@st.composite
def local_calls(draw: st.DrawFn) -> str:
    function, arguments = draw(calls)
    key = draw(keys)
    if draw(st.integers(0, 5)) == 0:
        return f"ctx.local({key}, identity, value={draw(mostly_sane)})"
    if draw(st.integers(0, 4)) == 0:
        version = draw(st.sampled_from(["'1'", "'1'", "''", "1"]))
        kind = draw(st.sampled_from(["OperationKind.TOOL", "OperationKind.MODEL", "'tool'"]))
        return f"ctx.operation({key}, {function}, kind={kind}, version={version}, arguments=dict({arguments}))"
    return f"ctx.local({key}, {function}{', ' + arguments if arguments else ''})"


policies = st.sampled_from(
    ["None"] * 6
    + ["{'max_attempts': 1, 'retry_delay_ms': 0}", "{'max_attempts': 1001, 'retry_delay_ms': 0}", "{'max_attempts': 1}"]
)
timeouts = st.sampled_from(["300000"] * 6 + ["60000", "59999", "86400000", "86400001", "60000.0", "True"])
child_keys = st.sampled_from(["'c1'", "'c2'", "'b1'", "'k'"]) | keys


@st.composite
def staging(draw: st.DrawFn) -> str:
    kind = draw(st.sampled_from(["task", "workflow"]))
    program = draw(st.sampled_from(["'p'"] * 5 + ["'P'", "'..'", "''"]))
    return (
        f"kept.append(ctx.{kind}({draw(child_keys)}, program={program}, version='1', queue='q', "
        f"data={draw(mostly_sane)}, retry_policy={draw(policies)}, attempt_timeout_ms={draw(timeouts)}))"
    )


@st.composite
def forks(draw: st.DrawFn) -> str:
    branch = st.builds(
        lambda key, data, policy: f"ctx.branch({key}, entrypoint='e', queue='q', data={data}, retry_policy={policy})",
        st.sampled_from(["'b1'", "'b2'", "'b3'", "'c1'"]),
        mostly_sane,
        policies,
    )
    branches = ", ".join(draw(st.lists(branch, max_size=3)))
    return f"ctx.fork({draw(st.sampled_from(['f1', 'f2', '']))!r}, branches=[{branches}])"


awaitables = st.one_of(local_calls(), local_calls(), forks(), st.just("later(1, 4)"), st.just("ctx.gather()"))


@st.composite
def statements(draw: st.DrawFn) -> str:
    kind = draw(st.integers(0, 11))
    if kind <= 3:
        body = f"told.append(plain(await {draw(awaitables)}))"
    elif kind == 4:
        good = ["ctx.local('k4', add, x=1)", "ctx.local('k5', later, value=2, turns=5)", "ctx.local('k6', printing)"]
        body = draw(st.sampled_from(good) | st.sampled_from(good) | local_calls())
    elif kind == 5:
        several = ", ".join(draw(st.lists(awaitables, max_size=4)))
        body = f"told.append([plain(v) for v in await ctx.gather({several})])"
    elif kind == 6:
        body = draw(staging())
    elif kind == 7:
        action = draw(st.sampled_from(["ctx.get_result('k')", "ctx.get_result('other')", "ctx.get_result(kept[0])"]))
        body = f"told.append({action})"
    elif kind == 8:
        seen = ["state", "inputs", "wake", "revision", "entrypoint", "continuation", "root_workflow_id"]
        body = f"told.append(ctx.{draw(st.sampled_from(seen))})"
    elif kind == 9:
        body = f"t = asyncio.create_task(wait({draw(local_calls())}))\nawait asyncio.sleep(0)\nt.cancel()\ntold.append(await asyncio.gather(t, return_exceptions=True) != [])"
    elif kind == 10:
        others = [
            "print('<<out>>', flush=True)",
            "told.append(await asyncio.to_thread(refused, ctx.complete, 1))",
            "import threading; h = threading.Thread(target=lambda: told.append(refused(ctx.complete, 1))); h.start(); h.join()",
            "import subprocess; subprocess.run(['echo', '<<sub>>'])",
            "for _ in range(12): await asyncio.sleep(0)",
            "raise ValueError('said: statement')",
        ]
        body = draw(st.sampled_from(others))
    else:
        body = f"kept.append({draw(decisions())})"
    lines = "\n".join(f"    {line}" for line in body.splitlines())
    return f"try:\n{lines}\nexcept Exception as error:\n    tell(error)"


@st.composite
def decisions(draw: st.DrawFn) -> str:
    state = draw(mostly_sane)
    target = draw(st.sampled_from(["'c'"] * 6 + ["''", "'x' * 129", "OperationKind.TOOL", "None"]))
    times = draw(st.sampled_from(["0", "5", "31536000000", "31536000001", "-1", "True", "None"]))
    rest = f"continuation={target}, state={state}"
    until = draw(st.sampled_from(["()", "['k']", "['k', 'k']", "kept[:1]", "['x', 'y']", "'x'"]))
    action = "ApprovalAction('a', version='1', arguments={'x': 1})"
    return draw(
        st.sampled_from(
            [
                "ctx.complete(told)",
                "ctx.complete(told)",
                f"ctx.complete({state})",
                f"ctx.continue_({rest})",
                f"ctx.suspend({rest}, until={until})",
                f"ctx.wait_event({draw(keys)}, {rest}, timeout_ms={times})",
                f"ctx.sleep({draw(keys)}, {times}, {rest})",
                f"ctx.request_approval({draw(keys)}, action={action}, timeout_ms={times}, {rest})",
                "ctx.fail('kind', 'said: ' + repr(told)[:2000])",
                "ctx.fail('kind', 'said: ' + repr(told)[:2000])",
            ]
        )
    )


@st.composite
def endings(draw: st.DrawFn) -> str:
    kind = draw(st.integers(0, 12))
    if kind <= 6:
        told = "ctx.fail('kind', 'said: ' + repr(told)[:2000])"
        return f"try:\n    return {draw(decisions())}\nexcept Exception as error:\n    tell(error)\n    return {told}"
    if kind == 7:
        return f"return {draw(decisions())}"
    if kind == 8:
        return "return kept[-1] if kept else ctx.fail('kind', 'said: ' + repr(told)[:2000])"
    if kind == 9:
        changes = [
            "d['revision'] = True",
            "d['v'] = 1.0",
            "d['x'] = 1",
            "d.popitem()",
            "d['kind'] = 'continue'",
            "d['activation_id'] = 'z'",
            "d = list(d)",
            "d = dict(reversed(d.items()))",
        ]
        return f"d = {draw(decisions())}\n{draw(st.sampled_from(changes))}\nreturn d"
    others = [
        "raise ValueError('said: end')",
        "return None",
        "return told",
        "raise SystemExit(3)",
        "import os; os._exit(4)",
        "raise asyncio.CancelledError",
    ]
    return draw(st.sampled_from(others))


records = st.lists(
    st.sampled_from(
        [
            {"key": "k1", "callable": "program:add", "input": {"x": 1}, "output": 7},
            {"key": "k2", "callable": "program:identity", "input": {"value": 1}, "output": [1.0, {"b": 1, "a": 2}]},
            {
                "key": "k3",
                "callable": "tool:program:add",
                "input": {"v": 1, "kind": "tool", "version": "1", "arguments": {"x": 1, "y": 0}},
                "output": None,
            },
        ]
    ),
    max_size=2,
    unique_by=json.dumps,
)
answers: st.SearchStrategy[list[Frame]] = st.lists(
    st.just({})
    | st.just({})
    | st.just({})
    | st.sampled_from([{"result": {"committed": 1}}, {"change": {"id": 9}}, {"result": None}, {"drop": ["v"]}]),
    max_size=4,
)
mostly_right: st.SearchStrategy[list[Frame]] = st.just([]) | st.just([]) | answers
HELPERS = """
def plain(value):
    return value if isinstance(value, (str, int, float, list, dict, type(None))) else type(value).__name__
async def wait(awaitable):
    return await awaitable
"""


@st.composite
def controllers(draw: st.DrawFn) -> Case:
    body = "\n".join([HELPERS, PRELUDE, *draw(st.lists(statements(), max_size=6)), draw(endings())])
    payload = {
        "state": draw(st.sampled_from([None, 1, {"b": [1.0], "a": "ä"}])),
        "inputs": draw(
            st.sampled_from([{}, {"k": INPUTS["task"]}, {"k": INPUTS["workflow"]}, {"k": INPUTS["task-cancelled"]}])
        ),
        "local_steps": draw(records),
        "revision": draw(st.sampled_from([0, 3, 2**64 - 1])),
        "wake": draw(st.sampled_from([None, WAKES["timer"], WAKES["timeout"]])),
    }
    case = controller("", body, answers=tuple(draw(mostly_right)), frame={"observe": draw(st.booleans())}, **payload)
    return _named(case)


@st.composite
def tasks(draw: st.DrawFn) -> Case:
    value = draw(values).replace("ctx", "event")
    kind = draw(st.integers(0, 7))
    protocol = draw(st.sampled_from([1, 2, 3]))
    body = {
        0: f"raise ValueError({draw(st.sampled_from(['', repr('said: a'), repr('said: ä𝄞' * 200)]))})",
        1: f"print('<<out>>', flush=True)\nreturn {value}",
        2: f"async def f():\n    await asyncio.sleep(0)\n    return {value}\nreturn f()",
        3: f"import threading\nfound = []\nt = threading.Thread(target=lambda: found.append({value}))\nt.start()\nt.join()\nreturn found",
        4: f"return ['x' * {draw(st.sampled_from([2_096_900, 2_097_000, 2_097_200, 5_000_000]))}, {value}]",
    }.get(kind, f"return {value}")
    return _named(task("", body, protocol=protocol, observe=draw(st.booleans())))


def _named(case: Case) -> Case:
    """A name made of the contents: the same case has the same one in every run."""
    digest = hashlib.sha256(json.dumps(case.as_json(), sort_keys=True).encode()).hexdigest()[:12]
    return replace(case, name=f"generated/{digest}")


class _Unexplained(Exception):
    """Makes hypothesis look for a smaller case."""


def run(bench: Bench, *, seed: int, examples: int) -> None:
    """Compare `examples` cases. Of the differences found, the smallest stays among the results of the bench."""
    found: list[str] = []

    @hypothesis.seed(seed)
    @settings(
        max_examples=examples,
        database=None,
        deadline=None,
        phases=[Phase.generate, Phase.shrink],
        suppress_health_check=list(HealthCheck),
        report_multiple_bugs=False,
        print_blob=False,
    )
    @given(st.one_of(controllers(), controllers(), controllers(), tasks()))
    def compare(case: Case) -> None:
        result = bench.examine(case)
        if not result.accepted:
            found.append(case.name)
            raise _Unexplained

    try:
        compare()
    except _Unexplained:
        for name in found[:-1]:  # each is a bigger form of the last
            if name != found[-1]:
                bench.results.pop(name, None)
