"""Is the target ready to be judged? A few questions before a hundred scenarios fail for one reason."""

from __future__ import annotations

import time

from protocol3_conformance.lab import Lab
from protocol3_conformance.roles.answer import Answer
from protocol3_conformance.target import COORDINATOR, Target
from protocol3_conformance.wire.exchange import Exchange
from protocol3_conformance.wire.faults import TransportFault, Violation
from protocol3_conformance.wire.http import Connection
from protocol3_conformance.wire.peer import Endpoint

TLS_RECORDS = (b"\x15\x03", b"\x16\x03")
CLOCK_MS = 60_000
"""How far the clocks of target and suite may differ; what is written down of a run would mislead beyond it."""


class Unusable(Exception):
    """The run cannot begin; the message says what to do."""


class Foreign(Exception):
    """Something answers, but not as a service of the protocol does."""


async def readiness(target: Target) -> None:
    """Where a coordinator is judged: connect, open a session, submit and cancel a task. Raises Unusable or Foreign."""
    if COORDINATOR not in target.roles:
        return
    endpoint = target.endpoint
    try:
        (await Connection.open(endpoint.host, endpoint.port)).close()
    except TransportFault as fault:
        raise Unusable(f"{fault}. Start the server under test there, or correct --target {endpoint.url}.") from None
    async with Lab.open(target, "readiness/program") as lab:
        try:
            await _scope(lab)
            await _program(lab)
        except (Violation, TransportFault) as fault:
            if fix := _misdirected(endpoint, lab.peer.transcript.exchanges[-1]):
                raise Unusable(fix) from None
            shown = lab.peer.transcript.render()
            raise Foreign(f"{endpoint.url} does not speak the protocol: {fault}\n{shown}") from None


async def _scope(lab: Lab) -> None:
    """A service bound to one scope refuses a session in another one as not_found (HTTP-020)."""
    command = {"scope": lab.scope, "queue": lab.queue, "concurrency": 1}
    answer = Answer(await lab.peer.post("/v1/worker-sessions", command))
    _ready(lab, answer)
    if answer.code == "route_not_found":
        raise Unusable(_elsewhere(lab.target.endpoint))
    if answer.code == "not_found":
        scope = lab.target.scope
        fix = "name the one scope that it serves with --scope TENANT/NAMESPACE"
        if scope:
            fix = f"it is not --scope {'/'.join(scope)}; {fix}"
        raise Unusable(f"The target is bound to another scope: it refuses a worker session as not_found; {fix}.")


async def _program(lab: Lab) -> None:
    before = _wall_ms()
    answer = await lab.client.submit_task()
    after = _wall_ms()
    _ready(lab, answer)
    if answer.code == "not_found":
        raise Unusable(_unresolved(lab.target))
    if answer.code is not None:
        return  # wrong for a valid submission, and for the scenarios to say
    _clock(answer.value["submitted_at"], before, after)
    await lab.client.cancel_task(answer.value["task_id"])


def _wall_ms() -> int:
    return time.time_ns() // 1_000_000


def _ready(lab: Lab, answer: Answer) -> None:
    if answer.status == 503:
        url = lab.target.endpoint.url
        raise Unusable(
            f"{url} answers, but it is not ready: 503 {answer.code}. Wait for its database and program store."
        )


def _clock(submitted_at: int, before: int, after: int) -> None:
    ahead = max(submitted_at - after, 0) - max(before - submitted_at, 0)
    if abs(ahead) > CLOCK_MS:
        word = "ahead of" if ahead > 0 else "behind"
        raise Unusable(
            f"The target's clock is {abs(ahead) / 1000:.0f} s {word} this machine's (submitted_at {submitted_at}). "
            f"Synchronise both clocks; a service with virtual time begins at real time."
        )


def _misdirected(endpoint: Endpoint, exchange: Exchange) -> str | None:
    """What to correct where the answer is plainly not from a service of the protocol."""
    reply = exchange.reply
    if reply is None:
        speaks_tls = exchange.fault is not None and any(repr(record)[2:-1] in exchange.fault for record in TLS_RECORDS)
        return _tls(endpoint) if speaks_tls else None
    if reply.status in (401, 403, 407):
        return (
            f"{endpoint.url} asks for credentials ({reply.status}). The protocol has none: name an address behind "
            f"whatever asks for them, such as the service's own port."
        )
    if 300 <= reply.status < 400:
        goal = " ".join(reply.field("Location")) or "elsewhere"
        return f"{endpoint.url} redirects to {goal}. Name the final address with --target; redirects are not followed."
    body = reply.body.lstrip()[:2000].lower()
    if b"https port" in body or b"tls" in body[:200]:
        return _tls(endpoint)
    if body.startswith(b"<") or any("text/html" in value.lower() for value in reply.field("Content-Type")):
        return (
            f"{endpoint.url} answers {reply.status} with an HTML page: a web server or a proxy, not the service. "
            f"{_elsewhere(endpoint)}"
        )
    return None


def _tls(endpoint: Endpoint) -> str:
    return (
        f"{endpoint.host}:{endpoint.port} speaks TLS. The suite speaks plain HTTP: name the service's plain port, "
        f"or put a proxy that ends TLS before it (socat TCP-LISTEN:8081,fork OPENSSL:{endpoint.host}:{endpoint.port})."
    )


def _elsewhere(endpoint: Endpoint) -> str:
    below = f" below {endpoint.prefix}" if endpoint.prefix else ""
    return (
        f"There is no /v1/worker-sessions{below} at {endpoint.authority}. Correct host, port and path prefix of "
        f"--target {endpoint.url}."
    )


def _unresolved(target: Target) -> str:
    program = "@".join(target.program)
    return (
        f"The target refuses program {program} as not_found. Publish it into the target's program store, "
        f"name another published program with --program ID@VERSION, or give the target a store with it: "
        f"'protocol3 fixtures export DIR' writes one, 'protocol3 fixtures serve' serves one over HTTP."
    )
