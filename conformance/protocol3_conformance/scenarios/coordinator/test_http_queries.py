"""Query strings (chapter 03, Queries)."""

from __future__ import annotations

from urllib.parse import quote, urlencode

from protocol3_conformance.bounds import bound
from protocol3_conformance.lab import Lab
from protocol3_conformance.roles.answer import Answer
from protocol3_conformance.scenario import scenario
from protocol3_conformance.vectors import accepted, section


async def _get(lab: Lab, target: str) -> Answer:
    return Answer(await lab.peer.send("GET", target))


@scenario("query/vectors", cites=["HTTP-050", "HTTP-051", "HTTP-052", "HTTP-053", "TASK-010", "TASK-011"])
async def test_vectors(lab: Lab) -> None:
    """A query is split, decoded once and checked as the vectors say; a well-formed one reaches the lookup."""
    for case in section("query_string"):
        with lab.case(case["id"]):
            answer = await _get(lab, f"/v1/tasks/status?{case['raw']}")
            answer.refused("not_found") if accepted(case) else answer.refused("invalid_input")


@scenario("query/reaches-the-same-task", cites=["HTTP-051", "HTTP-052", "TXT-002"])
async def test_reaches_the_same_task(lab: Lab) -> None:
    """Every spelling of one name and value reads the same task."""
    task = await lab.client.task()
    named = {**lab.scope, "task_id": task["task_id"]}
    percent = "&".join(
        f"{''.join(f'%{byte:02x}' for byte in name.encode())}={''.join(f'%{byte:02X}' for byte in value.encode())}"
        for name, value in named.items()
    )
    spellings = {
        "usual": urlencode(named),
        "colons kept": urlencode(named, safe=":/@?"),
        "all encoded": percent,
        "other order": urlencode(list(reversed(named.items()))),
    }
    for name, query in spellings.items():
        with lab.case(name):
            answer = await _get(lab, f"/v1/tasks/status?{query}")
            assert answer.status == 200
            assert answer.value["task_id"] == task["task_id"]


@scenario(
    "query/values-that-look-like-syntax",
    cites=["HTTP-050", "HTTP-051", "HTTP-052", "TXT-002"],
    profile="core any-scope",
)
async def test_values_that_look_like_syntax(lab: Lab) -> None:
    """A value reaches the lookup as it was meant, with blanks, escapes and what separates elsewhere in it."""
    namespace = lab.unique("a b+c;d=e%41/:@?~\u00e9&#")
    scope = {"tenant_id": " %2541+", "namespace": namespace}
    task = (await lab.client_in(scope).submit_task()).accepted()
    literal = quote(namespace, safe="/:@?=;~")
    for name, spelled in {"escaped": quote(namespace, safe=""), "with +": literal.replace("%20", "+")}.items():
        with lab.case(name):
            query = f"tenant_id=+%252541%2B&namespace={spelled}&task_id={task['task_id']}"
            assert (await _get(lab, f"/v1/tasks/status?{query}")).accepted()["task_id"] == task["task_id"]


@scenario("query/names", cites=["HTTP-054", "HTTP-055", "HTTP-059", "TASK-011", "WF-002", "TXT-009"])
async def test_names(lab: Lab) -> None:
    """Missing, unknown and ill-valued names are refused on every GET route before any lookup."""
    scope = urlencode(lab.scope)
    absent = f"{scope}&task_id=absent"
    cases = {
        "/v1/tasks/status": [scope, f"{absent}&limit=1", f"{scope}&task_id=", f"{scope}&task_id={'x' * 129}"],
        "/v1/tasks/inspect": [scope, f"{absent}&workflow_id=w", f"{scope}&task_id=%00"],
        "/v1/tasks/result": [scope, f"{absent}&attempt_id=a", f"{scope}&task_id=%EF%BF%BE"],
        "/v1/tasks/history": [f"{absent}&after_sequence={value}" for value in ("", "-1", "+1", "1.0", "x", str(2**64))],
        "/v1/attempts/inspect": [absent, f"{absent}&attempt_id=", f"{scope}&attempt_id=a"],
        "/v1/workflows/status": [
            scope,
            absent,
            f"{scope}&workflow_id=w&task_id=t",
            f"{scope}&workflow_id=w&workflow_id=w",
        ],
        "/v1/workflows/result": [scope, f"{scope}&workflow_id=w&%77orkflow_id=w"],
    }
    for path, queries in cases.items():
        for query in queries:
            with lab.case(f"{path}?{query[:120]}"):
                (await _get(lab, f"{path}?{query}")).refused("invalid_input")
        named = (
            "workflow_id=w" if "workflows" in path else "task_id=t&attempt_id=a" if "attempts" in path else "task_id=t"
        )
        for name, value in lab.scope.items():
            with lab.case(f"{path} with {name} alone"):
                (await _get(lab, f"{path}?{urlencode({name: value})}&{named}")).refused("invalid_input")
        with lab.case(f"{path} without a query"):
            (await _get(lab, path)).refused("invalid_input")


@scenario("query/length-limits", cites=["HTTP-003", "HTTP-014", "TASK-009", "HTTP-056", "TASK-130"])
async def test_length_limits(lab: Lab) -> None:
    """The raw query may be exactly as long as the route allows; leading zeros are digits like others."""
    task = await lab.client.task()
    history = f"{urlencode({**lab.scope, 'task_id': task['task_id']})}&after_sequence="
    limit = bound("QUERY_BYTES")
    exact = await _get(lab, f"/v1/tasks/history?{history}{'0' * (limit - len(history))}")
    assert exact.accepted()[0]["sequence"] == 1
    over = await _get(lab, f"/v1/tasks/history?{history}{'0' * (limit - len(history) + 1)}")
    over.refused("invalid_input")


@scenario("query/list-length-limit", cites=["HTTP-003", "HTTP-014", "TASK-009", "HTTP-056"], profile="core discovery")
async def test_list_length_limit(lab: Lab) -> None:
    """The list takes 16 KiB of query, more than many HTTP servers read by default."""
    for _ in range(2):
        await lab.client.task()
    listing = f"{urlencode(lab.scope)}&limit="
    limit = bound("TASK_LIST_QUERY_BYTES")
    exact = await _get(lab, f"/v1/tasks?{listing}{'0' * (limit - len(listing) - 1)}1")
    assert len(exact.accepted()["items"]) == 1
    over = await _get(lab, f"/v1/tasks?{listing}{'0' * (limit - len(listing))}1")
    over.refused("invalid_input")
