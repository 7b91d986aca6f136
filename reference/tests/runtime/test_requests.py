"""`runtime_request` and `runtime_reply` (chapter 21, Requests of a running activation)."""

import json

import pytest

COMMIT = "return ctx.complete(await ctx.local('k', add, x=1))"
FORK = """
    branches = [ctx.branch(key, entrypoint="e", queue="q", data=None) for key in ("b", "a")]
    fork = await ctx.fork("f", branches=branches)
    return ctx.complete(list(fork.branch_keys))
"""


def line(frame):
    return json.dumps(frame).encode() + b"\n"


def test_a_commit_request_has_exactly_these_members(lab):
    """RUN-036, RUN-071, RUN-072, table of 1.7 (RUN-114, RUN-115)."""
    assert lab.completed(COMMIT) == 1
    assert lab.host.requests == [
        {
            "v": 3,
            "type": "runtime_request",
            "event_id": "ev",
            "attempt_id": "at",
            "id": 1,
            "operation": "local_step.commit",
            "payload": {"key": "k", "callable": "program:add", "input": {"x": 1}, "output": 1},
        }
    ]


def test_a_fork_request_has_exactly_these_members(lab):
    """RUN-072, table of 1.7 (RUN-115)."""
    assert lab.completed(FORK) == ["b", "a"]
    [request] = lab.host.requests
    settings = {
        "entrypoint": "e",
        "queue": "q",
        "data": None,
        "retry_policy": {"max_attempts": 3, "retry_delay_ms": 5000},
        "attempt_timeout_ms": 300000,
    }
    assert request["operation"] == "workflow.fork"
    assert request["payload"] == {"key": "f", "branches": [{"key": key} | settings for key in ("b", "a")]}


def test_requests_are_numbered_from_1_in_every_invocation_and_sent_one_at_a_time(lab, acknowledge):
    """RUN-071, HLP-059: no second request before the first reply."""
    code = """
        steps = [ctx.local(f"k{n}", later, value=n) for n in range(5)]
        return ctx.complete(await ctx.gather(*steps))
    """
    for _ in range(2):
        assert lab.completed(code) == [0, 1, 2, 3, 4]
        assert [request["id"] for request in lab.host.requests] == [1, 2, 3, 4, 5]
    host = lab.host

    def slowly(request):
        assert host.silent()
        return acknowledge(request)

    assert lab.completed(code, reply=slowly) == [0, 1, 2, 3, 4]


def test_local_work_goes_on_while_a_request_is_outstanding(lab, acknowledge):
    """RUN-071: the second function runs before the first reply."""
    code = """
        seen = []
        first = ctx.local("first", add, x=1)
        second = ctx.local("second", later, value=2, turns=5)
        async def watch():
            for _ in range(20):
                await asyncio.sleep(0)
            seen.extend(calls)
        await asyncio.gather(first, second, watch())
        return ctx.complete(seen)
    """
    assert lab.completed(code) == [["add", 1, 0]]
    assert [request["payload"]["key"] for request in lab.host.requests] == ["first", "second"]


def test_a_reply_may_arrive_in_pieces(lab, acknowledge):
    """RUN-075."""

    def pieces(request):
        whole = line(acknowledge(request))
        for start in range(0, len(whole) - 1, 7):
            lab.host.send(whole[start : min(start + 7, len(whole) - 1)])
        return whole[-1:]

    assert lab.completed(COMMIT, reply=pieces) == 1


def changed(**members):
    return lambda frame: frame | members


BAD_REPLIES = {
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
    "other type": changed(type="runtime_request"),
    "other event": changed(event_id="other"),
    "other attempt": changed(attempt_id="other"),
    "list": lambda frame: [frame],
    "not JSON": lambda frame: b"nonsense\n",
    "empty line": lambda frame: b"\n",
    "bad UTF-8": lambda frame: line(frame).replace(b'"at"', b'"\xff"'),
    "NaN": lambda frame: line(frame).replace(b"true", b"NaN"),
    "member twice": lambda frame: line(frame).replace(b'"v": 3', b'"v": 3, "v": 3'),
    "result member twice": lambda frame: line(frame).replace(b": true", b': true, "committed": true'),
    "end of stream": lambda frame: None,
}


@pytest.mark.parametrize("name", BAD_REPLIES)
@pytest.mark.parametrize("code", [COMMIT, FORK])
def test_a_reply_that_is_not_the_acknowledgement_is_fatal(lab, acknowledge, name, code):
    """RUN-075, RUN-079, vector 'commit replies'."""

    def reply(request):
        answer = BAD_REPLIES[name](acknowledge(request))
        return line(answer) if isinstance(answer, list) else answer

    assert lab.refused(code, reply=reply)


@pytest.mark.parametrize(
    "result",
    [
        {"committed": True, "key": "f", "branch_keys": ["a", "b"]},
        {"committed": True, "key": "f", "branch_keys": ["b"]},
        {"committed": True, "key": "f", "branch_keys": ["b", "b"]},
        {"committed": True, "key": "f", "branch_keys": ["b", "a", "a"]},
        {"committed": True, "key": "f", "branch_keys": ["b", 1]},
        {"committed": True, "key": "f", "branch_keys": {"b": "a"}},
        {"committed": True, "key": "f"},
        {"committed": True, "key": "g", "branch_keys": ["b", "a"]},
        {"committed": 1, "key": "f", "branch_keys": ["b", "a"]},
        {"committed": True, "key": "f", "branch_keys": ["b", "a"], "already_accepted": False},
        {"key": "f", "branch_keys": ["b", "a"]},
        {"committed": True},
    ],
)
def test_a_fork_reply_with_other_keys_is_fatal(lab, reply_to, result):
    """RUN-080, vector 'fork replies'."""
    assert lab.refused(FORK, reply=lambda request: reply_to(request, result))


def test_a_reply_without_line_end_is_fatal(hosts, package, acknowledge):
    """RUN-075: the last reply is cut short by the end of the stream."""
    host = hosts(package(WORKFLOW)).ready()

    def cut(request):
        host.send(line(acknowledge(request))[:-1])

    assert host.invoke(None, payload=PAYLOAD, reply=cut)["status"] == "runtime_error"
    assert host.wait() in (0, 70)  # the end of the stream, or what RUN-023 says of its last line


def test_a_reply_longer_than_the_input_limit_is_fatal(hosts, package, acknowledge):
    """RUN-075."""
    host = hosts(package(WORKFLOW), limit=4096).ready()

    def long(request):
        frame = acknowledge(request)
        return line(frame).replace(b"{", b"{" + b" " * 4096, 1)

    assert host.invoke(None, payload=PAYLOAD, reply=long)["status"] == "runtime_error"


WORKFLOW = """
    from ledgence.worker.workflow import workflow_context
    def one():
        return 1
    async def handle(event):
        ctx = workflow_context()
        return ctx.complete(await ctx.local("k", one))
"""
PAYLOAD = {
    "v": 1,
    "workflow_id": "wf",
    "activation_id": "act",
    "revision": 0,
    "continuation": "start",
    "state": None,
    "inputs": {},
    "local_steps": [],
}


def test_a_reply_nobody_waits_for_ends_the_child_after_the_result(lab, acknowledge):
    """RUN-026: between invocations only invoke and shutdown are known."""

    def twice(request):
        lab.host.send(acknowledge(request))
        return acknowledge(request)

    host = lab.host
    assert lab.completed(COMMIT, reply=twice) == 1
    assert host.frame() is None
    assert host.wait() == 70
