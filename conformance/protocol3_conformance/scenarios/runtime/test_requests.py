"""Requests of a running activation, and the replies to them (chapter 21)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from protocol3_conformance.bounds import bound
from protocol3_conformance.roles.program import accepted, activation, answered
from protocol3_conformance.runtime_lab import RuntimeLab
from protocol3_conformance.scenarios.runtime import runtime_check
from protocol3_conformance.wire.frames import Frame
from protocol3_conformance.wire.strict_json import encode, same

COMMIT = "return ctx.complete(await ctx.local('k', add, x=1))"
FORK = """
    branches = [ctx.branch(key, entrypoint="e", queue="q", data=None) for key in ("b", "a")]
    fork = await ctx.fork("f", branches=branches)
    return ctx.complete(list(fork.branch_keys))
"""
ONE_STEP = """
    from ledgence.worker.workflow import workflow_context
    def one():
        return 1
    async def handle(event):
        ctx = workflow_context()
        return ctx.complete(await ctx.local("k", one))
"""


def changed(**members: Any) -> Callable[[Frame], Frame]:
    return lambda frame: frame | members


def replaced(old: bytes, new: bytes) -> Callable[[Frame], bytes]:
    def change(frame: Frame) -> bytes:
        line = encode(frame) + b"\n"
        assert old in line
        return line.replace(old, new, 1)

    return change


BAD_REPLIES: dict[str, Callable[[Frame], Frame | bytes | None]] = {
    "committed 1": changed(result={"committed": 1}),
    "committed 1.0": changed(result={"committed": 1.0}),
    "committed false": changed(result={"committed": False}),
    "committed text": changed(result={"committed": "true"}),
    "extra result member": changed(result={"committed": True, "x": 1}),
    "empty result": changed(result={}),
    "null result": changed(result=None),
    "list result": changed(result=[True]),
    "no result": lambda frame: {name: value for name, value in frame.items() if name != "result"},
    "extra member": changed(extra=1),
    "id 2": changed(id=2),
    "id 0": changed(id=0),
    "id 1.0": changed(id=1.0),
    "id true": changed(id=True),
    "id text": changed(id="1"),
    "v 2": changed(v=2),
    "v 3.0": changed(v=3.0),
    "other type": changed(type="reply"),
    "other event": changed(event_id="other"),
    "event list": changed(event_id=["evt_1"]),
    "other attempt": changed(attempt_id="other"),
    "null attempt": changed(attempt_id=None),
    "no object": lambda frame: b"[" + encode(frame) + b"]\n",
    "no JSON": lambda frame: b"nonsense\n",
    "empty line": lambda frame: b"\n",
    "bad UTF-8": replaced(b'"att_1"', b'"\xff"'),
    "NaN": replaced(b"true", b"NaN"),
    "member twice": replaced(b'"v":3', b'"v":3,"v":3'),
    "result member twice": replaced(b":true", b':true,"committed":true'),
    "end of standard input": lambda frame: None,
}


@runtime_check("runtime-requests/commit", cites=["RUN-036", "RUN-071", "RUN-072", "RUN-079"])
async def test_commit(lab: RuntimeLab) -> None:
    """A local result leaves the process as `local_step.commit` with exactly the record."""
    await lab.holds(COMMIT, 1)
    [request] = lab.requests
    expected = {"key": "k", "callable": "program:add", "input": {"x": 1}, "output": 1}
    assert (request["id"], request["operation"]) == (1, "local_step.commit")
    assert same(request["payload"], expected)


@runtime_check("runtime-requests/fork", cites=["RUN-072", "RUN-080", "HLP-106"], profile="core forks")
async def test_fork(lab: RuntimeLab) -> None:
    """A fork leaves the process as `workflow.fork` with its branches in order, defaults filled in."""
    await lab.holds(FORK, ["b", "a"])
    [request] = lab.requests
    settings = {
        "entrypoint": "e",
        "queue": "q",
        "data": None,
        "retry_policy": {
            "max_attempts": bound("DEFAULT_MAX_ATTEMPTS"),
            "retry_delay_ms": bound("DEFAULT_RETRY_DELAY_MS"),
        },
        "attempt_timeout_ms": bound("DEFAULT_ATTEMPT_TIMEOUT_MS"),
    }
    assert request["operation"] == "workflow.fork"
    assert same(request["payload"], {"key": "f", "branches": [{"key": key} | settings for key in ("b", "a")]})


@runtime_check("runtime-requests/numbered-one-at-a-time", cites=["RUN-071", "HLP-059"])
async def test_numbered(lab: RuntimeLab) -> None:
    """Requests are numbered from 1 in every invocation, and none is sent before the reply to the one before."""
    code = "return ctx.complete(await ctx.gather(*[ctx.local(f'k{n}', later, value=n) for n in range(5)]))"
    for _ in range(2):
        await lab.holds(code, [0, 1, 2, 3, 4])
        assert [request["id"] for request in lab.requests] == [1, 2, 3, 4, 5]
    program = await lab.task_program()
    await program.send(program.invocation({"code": code}, payload=activation()))
    for number in range(1, 6):
        request = await program.frame()
        assert request is not None
        assert request["id"] == number
        assert await program.silent()
        await program.send(accepted(request))
    assert (await program.result())["status"] == "success"


@runtime_check("runtime-requests/work-goes-on", cites=["RUN-071", "HLP-059", "HLP-053"])
async def test_work_goes_on(lab: RuntimeLab) -> None:
    """While a request is open other local work goes on; the observer of the open one does not."""
    code = """
        import os
        first = asyncio.ensure_future(ctx.gather(ctx.local("first", add, x=1)))
        async def work():
            for _ in range(100):
                await asyncio.sleep(0)
            os.write(2, b"<early>" if first.done() else b"<worked>")
            return 2
        second = ctx.local("second", work)
        return ctx.complete([await first, await second])
    """
    program = await lab.task_program()
    await program.send(program.invocation({"code": code}, payload=activation()))
    request = await program.frame()
    assert request is not None
    await program.process.until("the second function", lambda: "<" in program.process.stderr())
    assert "<worked>" in program.process.stderr()
    await program.send(accepted(request))
    assert (await program.result())["output"]["output"] == [[1], 2]


@runtime_check("runtime-requests/reply-in-pieces", cites=["RUN-075"])
async def test_reply_in_pieces(lab: RuntimeLab) -> None:
    """A reply may come in pieces."""
    program = await lab.task_program()
    await program.send(program.invocation({"code": COMMIT}, payload=activation()))
    request = await program.frame()
    assert request is not None
    program.judge.sent(accepted(request))
    line = encode(accepted(request)) + b"\n"
    for start in range(0, len(line), 7):
        await program.send(line[start : start + 7])
    assert (await program.result())["output"]["output"] == 1


@runtime_check("runtime-requests/bad-replies-to-commits", cites=["RUN-075", "RUN-079", "HLP-112"])
async def test_bad_replies_to_commits(lab: RuntimeLab) -> None:
    """A reply that is not exactly the acknowledgement fails the activation."""
    for name, change in BAD_REPLIES.items():
        with lab.case(name):
            await lab.refused(COMMIT, reply=lambda request, change=change: change(accepted(request)))


@runtime_check("runtime-requests/bad-replies-to-forks", cites=["RUN-075", "RUN-080", "HLP-112"], profile="core forks")
async def test_bad_replies_to_forks(lab: RuntimeLab) -> None:
    """A reply with other keys, or one that is malformed, is no acknowledgement of a fork."""
    good = {"committed": True, "key": "f", "branch_keys": ["b", "a"]}
    for keys in (["a", "b"], ["b"], ["b", "b"], ["b", "a", "a"], ["b", 1], [], {"b": "a"}, None):
        with lab.case(f"branch_keys {keys}"):
            await lab.refused(FORK, reply=lambda request, keys=keys: answered(request, good | {"branch_keys": keys}))
    for result in (
        good | {"key": "g"},
        good | {"committed": 1},
        good | {"already_accepted": False},
        {"committed": True, "key": "f"},
        {"key": "f", "branch_keys": ["b", "a"]},
        {"committed": True},
    ):
        with lab.case(f"result {result}"):
            await lab.refused(FORK, reply=lambda request, result=result: answered(request, result))
    for name in ("id 1.0", "extra member", "other event", "member twice", "end of standard input"):
        with lab.case(name):
            await lab.refused(FORK, reply=lambda request, name=name: BAD_REPLIES[name](accepted(request)))


@runtime_check("runtime-requests/cut-and-long-replies", cites=["RUN-075"])
async def test_cut_and_long_replies(lab: RuntimeLab) -> None:
    """A reply without its LF, or longer than the input limit, is fatal to the activation."""
    limit = 4096
    for name, size in (("no LF", None), ("limit", limit), ("limit + 1", limit + 1)):
        with lab.case(name):
            program = await lab.start(ONE_STEP, limit=limit).ready()
            await program.send(program.invocation(payload=activation()))
            request = await program.frame()
            assert request is not None
            line = encode(accepted(request))
            program.judge.answered = True
            if size is None:
                await program.send(line)
                program.close_input()
            else:
                await program.send(line.replace(b"{", b"{" + b" " * (size - len(line) - 1), 1) + b"\n")
            assert (await program.result())["status"] == ("success" if size == limit else "runtime_error")


@runtime_check("runtime-requests/reply-too-many", cites=["RUN-026"])
async def test_reply_too_many(lab: RuntimeLab) -> None:
    """A reply that nobody waits for ends the process with 70 after the result."""
    program = await lab.task_program()
    await program.send(program.invocation({"code": COMMIT}, payload=activation()))
    request = await program.frame()
    assert request is not None
    program.judge.sent(accepted(request))
    await program.send((encode(accepted(request)) + b"\n") * 2)
    assert (await program.result())["status"] == "success"
    assert await program.ends() == 70
