"""All twelve points of "Easily got wrong" (ends of chapters 20 to 23), one named test each.

Nine are points that a program process shows; `ELSEWHERE` names the tests of the three others: leases and settlements
are the worker's, archives and the cache the packages'.
"""

import ast
import signal
from pathlib import Path

import pytest

ELSEWHERE = {
    9: {
        "worker/test_authority.py": [
            "test_the_lease_counts_from_the_start_of_the_request",
            "test_replies_by_their_sequence",
            "test_the_same_sequence_never_grants",
        ],
    },
    10: {
        "worker/live/test_exchanges.py": ["test_a_lost_reply_is_repeated_byte_by_byte"],
        "worker/test_settlement.py": ["test_a_settlement_that_is_too_large_loses_observations_first"],
    },
    12: {
        "programs/test_build.py": ["test_entries_are_ordered_by_component_with_fixed_times_and_modes"],
        "programs/test_publication.py": [
            "test_a_descriptor_with_other_bytes_is_a_conflict",
            "test_a_wrong_blob_under_the_digest_is_a_storage_error",
        ],
        "programs/test_cache.py": ["test_damage_is_found_on_every_hit_and_never_repaired"],
    },
}

TASK = "ctx.task('t', program='p', version='1', queue='q', data=None)\n"


def test_01_a_decision_made_before_a_failed_acknowledgement_is_refused(lab, reply_to):
    code = """
        decision = ctx.complete(1)
        try:
            await ctx.local("k", add, x=1)
        except Exception:
            pass
        return decision
    """
    assert lab.refused(code, reply=lambda request: reply_to(request, {"committed": 1}))


def test_02_local_starts_by_itself_fork_and_gather_do_not(lab):
    code = """
        branch = ctx.branch("b", entrypoint="e", queue="q", data=None)
        unawaited = [ctx.fork("f", branches=[branch]), ctx.gather(later(1))]
        ctx.local("k", add, x=1)
        for _ in range(5):
            await asyncio.sleep(0)
        for coroutine in unawaited:
            coroutine.close()
        return ctx.complete(None)
    """
    lab.completed(code)
    assert [request["payload"]["key"] for request in lab.host.requests] == ["k"]


def test_03_exact_types_in_workflow_values_behaviour_classes_in_task_output(lab):
    values = [
        "OperationKind.MODEL",
        "__import__('collections').OrderedDict(a=1)",
        "__import__('collections').namedtuple('P', 'x')(1)",
    ]
    for value in values:
        assert lab.completed(f"return ctx.complete(refused(ctx.complete, {value}))") is True
    assert lab.output(f"return [{', '.join(values)}]") == ["model", {"a": 1}, [1]]
    code = "return ctx.complete(refused(ctx.continue_, continuation=OperationKind.MODEL, state=None))"
    assert lab.completed(code) is True


def test_04_binding_identity_and_sorted_copies(lab):
    code = """
        ctx.local("k", identity, value=1)
        found = [refused(ctx.local, "k", identity, value=value) for value in (1.0, True, -0.0)]
        ctx.local("z", identity, value=0.0)
        found.append(refused(ctx.local, "z", identity, value=-0.0))
        copy = await ctx.local("c", identity, value={"b": (1,), "a": 2})
        return ctx.complete([found, list(copy.items())])
    """
    assert lab.completed(code) == [[True] * 4, [["a", 2], ["b", [1]]]]


def test_05_exceptions_are_workflow_errors_in_activations_and_business_errors_in_tasks(lab):
    lab.refused("raise ValueError('x')")
    lab.refused("return {1}")
    assert lab.task("raise ValueError('x')")["error"]["kind"] == "business_error"
    assert lab.task("return {1}")["error"]["kind"] == "invalid_output"


def test_06_exits_and_escaping_cancellations_kill_caught_step_cancellations_fail(lab, activation):
    for code, exit_code in (
        ("raise SystemExit(5)", 5),
        ("raise KeyboardInterrupt", -signal.SIGINT),
        ("raise asyncio.CancelledError", 1),
        ("def step():\n    raise SystemExit(6)\nawait ctx.local('k', step)", 6),
        ("def step():\n    raise asyncio.CancelledError\nreturn ctx.complete(await ctx.local('k', step))", 1),
    ):
        host = lab.host
        host.send(host.invoke_frame({"code": code}, payload=activation()))
        assert host.frame() is None
        assert host.wait() == exit_code
    caught = """
        def step():
            raise asyncio.CancelledError
        try:
            await ctx.local("k", step)
        except asyncio.CancelledError:
            return ctx.complete(None)
    """
    lab.refused(caught)


def test_07_exceeding_the_journal_raises_after_the_call_before_any_request_and_is_not_fatal(lab):
    code = """
        def text():
            calls.append("text")
            return "x" * 131072
        over = await refused_later(ctx.local("k", text))
        return ctx.complete([over, calls, await ctx.local("next", add, x=1)])
    """
    assert lab.completed(code) == [True, ["text", ["add", 1, 0]], 1]
    assert [request["payload"]["key"] for request in lab.host.requests] == ["next"]


def test_08_late_staging_invalidates_fail_drops_complete_refuses(lab):
    lab.refused(f"decision = ctx.continue_(continuation='c', state=None)\n{TASK}return decision")
    assert "commands" not in lab.decision(f"{TASK}return ctx.fail('k', 'm')")
    assert lab.decision(f"{TASK}return ctx.fail('k', str(refused(ctx.complete, 1)))")["error"]["message"] == "True"


def test_11_null_extension_exact_true_and_reply_types(lab, acknowledge):
    assert lab.output("return refused(workflow_context)", extension=None) is True
    assert "observations" not in lab.task("return 1", observe=1)
    assert "observations" in lab.task("return 1", observe=True)
    for change in ({"id": 1.0}, {"id": True}, {"v": 3.0}, {"event_id": ["ev"]}, {"attempt_id": None}):
        reply = lambda request, change=change: acknowledge(request) | change  # noqa: E731
        lab.refused("return ctx.complete(await ctx.local('k', add, x=1))", reply=reply)


def functions_of(file: Path) -> set[str]:
    kinds = (ast.FunctionDef, ast.AsyncFunctionDef)
    return {node.name for node in ast.walk(ast.parse(file.read_text())) if isinstance(node, kinds)}


@pytest.mark.parametrize("point", range(1, 13))
def test_every_point_has_a_named_test(point):
    here = [name for name in functions_of(Path(__file__)) if name.startswith(f"test_{point:02}_")]
    files = ELSEWHERE.get(point, {})
    for file, names in files.items():
        assert set(names) <= functions_of(Path(__file__).parents[1] / file)
    assert len(here) == (0 if files else 1)
