"""What a result tells about its invocation (chapter 21, Observations)."""

import json
import time

import pytest

MEMBERS = {
    "runtime_started_at_ms",
    "runtime_elapsed_us",
    "process_cpu_user_us",
    "process_cpu_system_us",
    "process_lifetime_peak_rss_bytes",
    "local_steps",
    "local_steps_truncated",
}
STEP_MEMBERS = {"key", "callable", "started_at_ms", "elapsed_us", "state"}


def observed(lab, code, **payload):
    result = lab.workflow(code, invoke={"observe": True}, **payload)
    return result["status"], result["observations"]


def steps(lab, code, **payload):
    return [(step["key"], step["state"]) for step in observed(lab, code, **payload)[1]["local_steps"]]


@pytest.mark.parametrize("value", [..., False, None, 1, 1.0, "true"])
def test_only_exactly_true_asks_for_observations(lab, value):
    """RUN-039."""
    assert "observations" not in lab.task("return 1", observe=value)


@pytest.mark.parametrize("code", ["return 1", "raise ValueError", "return {1}"])
@pytest.mark.parametrize("name", ["lab", "lab2"])
def test_every_result_carries_exactly_these_members(request, name, code):
    """RUN-086, RUN-088, RUN-089."""
    before = time.time_ns() // 1_000_000
    found = request.getfixturevalue(name).task(code, observe=True)["observations"]
    assert found.keys() == MEMBERS
    assert before <= found["runtime_started_at_ms"] <= time.time_ns() // 1_000_000
    assert all(type(found[member]) is int and found[member] >= 0 for member in MEMBERS if member.endswith("_us"))
    assert found["process_lifetime_peak_rss_bytes"] > 1_000_000
    assert (found["local_steps"], found["local_steps_truncated"]) == ([], False)


def test_protocol_1_observes_too(hosts, package):
    """RUN-039."""
    host = hosts(package("def handle(event):\n    return 1"), protocol=1).ready()
    assert host.invoke(observe=True)["observations"].keys() == MEMBERS


@pytest.mark.parametrize("payload", [{}, {"v": 2}])
def test_a_runtime_error_carries_observations_too(lab, payload):
    """RUN-086: also when the payload was refused."""
    status, found = observed(lab, "raise ValueError", **payload)
    assert status == "runtime_error"
    assert found.keys() == MEMBERS


def test_elapsed_time_covers_the_handler_and_cpu_time_its_work(lab):
    """RUN-087, RUN-088."""
    code = """
        import time
        end = time.process_time() + 0.03
        while time.process_time() < end: pass
        time.sleep(0.02)
        return 1
    """
    found = lab.task(code, observe=True)["observations"]
    assert found["runtime_elapsed_us"] >= 50_000
    assert found["process_cpu_user_us"] + found["process_cpu_system_us"] >= 25_000


def test_states_of_local_steps(lab):
    """RUN-090, RUN-095."""
    record = {"key": "old", "callable": "program:add", "input": {"x": 1}, "output": 1}
    code = """
        await ctx.gather(ctx.local("old", add, x=1), ctx.local("new", add, x=1), ctx.local("new", add, x=1))
        try:
            await ctx.local("bad", boom)
        except ValueError:
            pass
        return ctx.complete(None)
    """
    status, found = observed(lab, code, local_steps=[record])
    assert status == "success"
    assert [(step["key"], step["callable"], step["state"]) for step in found["local_steps"]] == [
        ("old", "program:add", "replayed"),
        ("new", "program:add", "returned"),
        ("bad", "program:boom", "failed"),
    ]
    assert all(step.keys() == STEP_MEMBERS for step in found["local_steps"])


def test_a_cancelled_step_is_told_as_cancelled(lab):
    """RUN-090: the handler failed while the step was running."""
    code = """
        ctx.local("slow", later, value=1, turns=1000000)
        await asyncio.sleep(0)
        raise ValueError
    """
    assert steps(lab, code) == [("slow", "cancelled")]


def test_returned_does_not_mean_accepted(lab, reply_to):
    """RUN-091."""
    result = lab.workflow(
        "return ctx.complete(await ctx.local('k', add, x=1))",
        reply=lambda request: reply_to(request, {"committed": False}),
        invoke={"observe": True},
    )
    assert result["status"] == "runtime_error"
    assert [step["state"] for step in result["observations"]["local_steps"]] == ["returned"]


def test_a_value_that_is_not_json_is_a_failed_step(lab):
    """RUN-091: `returned` means a valid value."""
    assert steps(lab, "await ctx.local('k', identity, value={'a': 1}) \nctx.local('k2', object)\nreturn 1") == [
        ("k", "returned"),
        ("k2", "failed"),
    ]


def test_a_value_too_long_for_a_record_is_a_failed_step(lab):
    """RUN-091, HLP-058: what no record can hold is no valid value; a full journal says nothing about the value."""
    too_long = "await refused_later(ctx.local('k', lambda: 'x' * 140000))\nreturn ctx.complete(1)"
    assert steps(lab, too_long) == [("k", "failed")]
    full = "for n in range(4):\n    await refused_later(ctx.local(str(n), lambda: 'x' * 80000))\nreturn ctx.complete(1)"
    assert steps(lab, full) == [(str(n), "returned") for n in range(4)]


def test_a_step_that_never_began_is_not_told(lab):
    """RUN-090: the handler failed before the loop came to it."""
    record = {"key": "old", "callable": "program:add", "input": {"x": 1}, "output": 1}
    code = "ctx.local('new', add, x=1)\nctx.local('old', add, x=1)\nraise ValueError"
    assert observed(lab, code, local_steps=[record])[1]["local_steps"] == []


def test_steps_are_told_in_the_order_of_their_calls(lab):
    """RUN-090: replayed ones among the others."""
    record = {"key": "old", "callable": "program:add", "input": {"x": 1}, "output": 1}
    code = "ctx.local('a', add, x=1)\nctx.local('old', add, x=1)\nctx.local('b', add, x=1)\nreturn ctx.complete(1)"
    found = observed(lab, code, local_steps=[record])[1]["local_steps"]
    assert [step["key"] for step in found] == ["a", "old", "b"]


def test_elapsed_time_of_a_step_covers_its_function(lab):
    """RUN-090."""
    code = "await ctx.local('k', nap)\nreturn ctx.complete(None)"
    [step] = observed(lab, "def nap():\n    import time\n    time.sleep(0.02)\n" + code)[1]["local_steps"]
    assert step["elapsed_us"] >= 20_000
    assert step["callable"].endswith("nap")


def test_no_application_data_appears(lab):
    """RUN-092."""
    code = """
        ctx.local("k", identity, value="SECRET-INPUT")
        try:
            await ctx.local("bad", boom, message="SECRET-ERROR")
        except ValueError:
            pass
        return ctx.complete(None)
    """
    assert "SECRET" not in json.dumps(observed(lab, code)[1])


def test_too_many_bytes_drop_steps_from_the_end(lab):
    """RUN-092: keys full of characters that are escaped twice their length."""
    code = """
        for n in range(128):
            key = f"{n:03d}".ljust(128, '"')
            await ctx.local(key, add, x=n)
        return ctx.complete(None)
    """
    code = (
        "add.__qualname__ = '\\\\' * 500\ntry:\n"
        + "\n".join("    " + row for row in code.splitlines())
        + ("\nfinally:\n    add.__qualname__ = 'add'")
    )
    _, found = observed(lab, code)
    assert found["local_steps_truncated"] is True
    numbers = [int(step["key"][:3]) for step in found["local_steps"]]
    assert numbers == list(range(len(numbers)))
    size = len(json.dumps(found, separators=(",", ":")))
    step = len(json.dumps(found["local_steps"][0], separators=(",", ":"))) + 1
    assert 131072 - 2 * step < size <= 131072


def test_observations_that_do_not_fit_the_frame_are_dropped(hosts, package):
    """RUN-093: the output is sent."""
    host = hosts(package("def handle(event):\n    return 'x' * event['data']\n"), limit=700).ready()
    found = host.invoke(10, observe=True)
    assert "observations" in found
    found = host.invoke(600 - 90, observe=True)
    assert len(found["output"]) == 510
    assert "observations" not in found
