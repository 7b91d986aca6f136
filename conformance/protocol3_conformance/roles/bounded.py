"""Messages of the limit vectors as the scripted client and worker send them, and how what was accepted is read back."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from protocol3_conformance.bounds import bound
from protocol3_conformance.roles import reports
from protocol3_conformance.roles.activation import Activation
from protocol3_conformance.roles.answer import Answer
from protocol3_conformance.roles.claim import Claim
from protocol3_conformance.vectors import limit_messages
from protocol3_conformance.wire.strict_json import same
from protocol3_spec import boundaries
from protocol3_spec.compact import compact

if TYPE_CHECKING:
    from protocol3_conformance.lab import Lab

RETRY_AT_ONCE = {"max_attempts": 3, "retry_delay_ms": 0}
TRACEPARENT = f"00-{'1' * 32}-{'2' * 16}-00"
RAW = {
    "/v1/settlements": "SETTLEMENT_BODY_BYTES",
    "/v1/workflows/events": "EVENT_BODY_BYTES",
    "/v1/workflows/forks": "FORK_BODY_BYTES",
}
DECISION_INVALID = "decision_invalid"


@dataclass(slots=True, kw_only=True)
class World:
    """What must stand before a message. `bindings` are what its placeholders stand for."""

    lab: Lab
    bindings: dict[str, Any]
    claim: Claim | None = None

    @property
    def children(self) -> str:
        return str(self.bindings["children"])

    @property
    def held(self) -> Claim:
        assert self.claim is not None
        return self.claim

    @classmethod
    async def prepared(cls, lab: Lab, needs: str) -> World:
        """`needs`: nothing, task, attempt, settled attempt or activation."""
        program_id, version = lab.target.program
        queue, key = lab.unique("q"), lab.unique("key")
        bindings: dict[str, Any] = {
            "tenant": lab.scope["tenant_id"],
            "namespace": lab.scope["namespace"],
            "key": key,
            "queue": queue,
            "children": f"{queue}:c",
            "program": {"id": program_id, "version": version},
            "traceparent": TRACEPARENT,
        }
        world = cls(lab=lab, bindings=bindings)
        if needs != "nothing":
            await world._prepare(needs)
        return world

    async def _prepare(self, needs: str) -> None:
        lab, bindings = self.lab, self.bindings
        submission = {"queue": bindings["queue"], "retry_policy": RETRY_AT_ONCE, "key": bindings["key"]}
        made = await (lab.client.workflow if needs == "activation" else lab.client.task)(**submission)
        worker = await lab.worker(queue=bindings["queue"], concurrency=bound("MAX_CONCURRENCY"))
        if needs == "task":
            bindings |= {"task_id": made["task_id"], "session": worker.session["id"]}
            return
        self.claim = await (worker.activation() if needs == "activation" else worker.claim())
        bindings |= {
            "owner": self.claim.owner,
            "identity": reports.identity(self.claim.assignment),
            "task_id": self.claim.task_id,
        }
        if needs == "activation":
            bindings |= {
                "workflow_id": made["workflow_id"],
                "activation_id": self.claim.task_id,
                "revision": 0,
            }
        if needs == "settled attempt":
            await self.claim.succeed(quiescence="unconfirmed")


def expected_code(case: boundaries.Case) -> str | None:
    """The code of a message within the bound, None if it is accepted."""
    code = case.recipe.get("fits", limit_messages()[case.recipe["message"]].get("reply"))
    found: str | None = code[str(case.units)] if isinstance(code, dict) else code
    return found


async def send(world: World, recipe: Any, case: boundaries.Case | None = None) -> tuple[Answer, Any]:
    """The answer, and what was sent; the plain message if no case is given."""
    message = limit_messages()[recipe["message"]]
    if "query" in message:
        return await _send_query(world, message, case)
    base, bindings, path = message["body"], world.bindings, message["path"]
    sent = boundaries.filled(base, bindings) if case is None else boundaries.document(case, base, bindings)
    plain = compact(sent).encode()
    if case is None:
        body = plain
    elif recipe["unit"] == "raw":
        body = plain + b" " * (case.units - len(plain))
    else:
        body = boundaries.spelled(sent, case.spelling, max(0, bound(RAW.get(path, "BODY_BYTES")) - len(plain)))
    return await world.lab.client.post(path, body), sent


async def _send_query(world: World, message: Any, case: boundaries.Case | None) -> tuple[Answer, Any]:
    query = boundaries.filled(message["query"], world.bindings)
    if case is None or case.recipe["unit"] != "query":
        query = query if case is None else boundaries.document(case, message["query"], world.bindings)
        return Answer(await world.lab.peer.get(message["path"], query)), query
    field, number = case.recipe["field"], query.pop(case.recipe["field"], "0")
    shorter = "&".join(f"{name}={value}" for name, value in query.items()) + f"&{field}="
    raw = shorter + number.rjust(case.units - len(shorter), "0")
    return Answer(await world.lab.peer.get(message["path"], raw)), query


async def seen(world: World) -> dict[str, Any]:
    """Everything that a client and the owner can see of a world, authority apart."""
    client, found = world.lab.client, {}
    if "task_id" in world.bindings:
        found["task"] = (await client.inspect(world.bindings["task_id"])).accepted()
        found["history"] = (await client.history(world.bindings["task_id"])).accepted()
    if "workflow_id" in world.bindings:
        found["workflow"] = (await client.workflow_status(world.bindings["workflow_id"])).accepted()
        found["context"] = (await world.held.context()).accepted()
    elif world.claim is not None:
        found["attempt"] = await world.claim.inspect()
    return found


async def read_back(world: World, name: str, sent: Any, reply: Any) -> None:
    """What was accepted is there as it was sent."""
    if name in READERS:
        await READERS[name](world, sent, reply)


async def _task(world: World, sent: Any, reply: Any) -> None:
    scope = {name: sent["input"][name] for name in ("tenant_id", "namespace")}
    stored = (await world.lab.client_in(scope).inspect(reply["task_id"])).accepted()
    assert stored["idempotency_key"] == sent["idempotency_key"]
    assert same(stored["input"], sent["input"])
    assert same(stored["origin_trace"], sent["origin_trace"])


async def _workflow(world: World, sent: Any, reply: Any) -> None:
    scope = {name: sent["input"][name] for name in ("tenant_id", "namespace")}
    stored = (await world.lab.client_in(scope).inspect(reply["activation_id"])).accepted()["input"]
    for name in ("queue", "program", "data", "retry_policy", "attempt_timeout_ms"):
        assert same(stored[name], sent["input"][name]), f"{name} changed"


async def _acquisition(_: World, sent: Any, reply: Any) -> None:
    assert reply["disposition"] == "assigned"
    assert reply["assignment"]["lease"]["owner"]["consumer_id"] == sent["consumer_id"]


async def _renewal(world: World, sent: Any, _: Any) -> None:
    assert (await world.held.inspect())["last_renewal"] == sent


async def _settlement(world: World, sent: Any, _: Any) -> None:
    if "workflow_id" in world.bindings:
        output = (await world.lab.client.result(world.held.task_id)).accepted()["outcome"]["output"]
        assert same(output, sent["report"]["report"]["outcome"]["output"])
        return
    stored = (await world.held.inspect())["settlement"]["command"]
    for command in (sent, stored):
        command["processing_trace"].setdefault("tracestate", None)
    assert same(stored, sent)


async def _event(world: World, sent: Any, reply: Any) -> None:
    assert not reply["already_accepted"]
    assert isinstance(world.claim, Activation)
    await world.claim.wait_event(sent["key"])
    woken = await (await world.lab.worker(queue=world.bindings["queue"])).activation()
    assert same(woken.wake("event")["event"], sent["event"])


async def _record(world: World, sent: Any, _: Any) -> None:
    assert same((await world.held.context()).accepted()["local_steps"], [sent["record"]])


async def _fork(world: World, sent: Any, reply: Any) -> None:
    branches = {branch["key"]: branch for branch in sent["fork"]["branches"]}
    assert reply == {"key": sent["fork"]["key"], "branch_keys": [*branches], "already_accepted": False}
    first = next(iter(branches.values()))
    if first["queue"] != world.children:
        return  # a queue at its bound, where branches of other runs may wait as well
    branch = await (await world.lab.worker(queue=world.children)).activation()
    assert same(branch.event["data"], first["data"])
    assert branch.frozen["continuation"] == first["entrypoint"]
    stored = (await world.lab.client.inspect(branch.task_id)).accepted()["input"]
    for name in ("retry_policy", "attempt_timeout_ms"):
        assert name not in first or same(stored[name], first[name]), f"{name} changed"


READERS: dict[str, Callable[[World, Any, Any], Awaitable[None]]] = {
    "task-submission": _task,
    "workflow-submission": _workflow,
    "acquisition": _acquisition,
    "renewal": _renewal,
    "settlement": _settlement,
    "observed-settlement": _settlement,
    "failure": _settlement,
    "controller-settlement": _settlement,
    "event": _event,
    "local-result": _record,
    "fork": _fork,
    "fork-with-defaults": _fork,
}


async def decide(world: World, case: boundaries.Case) -> None:
    """Settle the activation with the decision of the case: it is applied, or fails its workflow and leaves no trace."""
    recipe, client, workflow_id = case.recipe, world.lab.client, world.bindings["workflow_id"]
    decision = boundaries.document(case, limit_messages()[recipe["message"]]["decision"], world.bindings)
    body = boundaries.spelled(world.held.success(decision), case.spelling, bound("SETTLEMENT_BODY_BYTES") // 2)
    answer = await client.post("/v1/settlements", body)
    if "refused" not in recipe and not case.fits:
        answer.refused("invalid_input")
        assert (await world.held.inspect())["settlement"] is None
        return
    assert answer.accepted()["task_state"] == "succeeded"
    code = expected_code(case) if case.fits else DECISION_INVALID
    if code is not None:
        error = (await client.outcome_until(workflow_id, "failed"))["error"]
        assert error["kind"] == code, f"the workflow failed by {error}, expected {code}"
        ended = (await client.workflow_status(workflow_id)).accepted()
        assert ended["revision"] == 0, "a decision that was refused counted"
        await (await world.lab.worker(queue=world.children)).nothing()
        return
    states = {"complete": ("succeeded",), "fail": ("failed",), "continue": ("running",)}
    await client.workflow_until(workflow_id, *states.get(decision["kind"], ("waiting", "running")), revision=1)
    await _decided(world, decision)


async def _decided(world: World, decision: Any) -> None:
    client, workflow_id = world.lab.client, world.bindings["workflow_id"]
    if decision["kind"] == "continue":
        context = (await (await world.lab.worker(queue=world.bindings["queue"])).activation()).frozen
        assert same(context["state"], decision["state"])
        assert context["continuation"] == decision["continuation"]
    elif decision["kind"] in ("complete", "fail"):
        outcome = (await client.workflow_result(workflow_id)).accepted()["outcome"]
        name = "output" if decision["kind"] == "complete" else "error"
        assert same(outcome[name], decision[name])
    for command in decision.get("commands", [])[:1]:
        if command["queue"] == world.children:
            task_id = (await (await world.lab.worker(queue=world.children)).claim()).task_id
            child = (await client.inspect(task_id)).accepted()["input"]
            for name in ("program", "queue", "data", "retry_policy", "attempt_timeout_ms"):
                assert name not in command or same(child[name], command[name]), f"{name} changed"
