"""One look at the target before a hundred scenarios fail for one reason."""

from __future__ import annotations

from protocol3_conformance.lab import Lab
from protocol3_conformance.target import Target
from protocol3_conformance.wire.faults import TransportFault, Violation
from protocol3_conformance.wire.http import Connection


class Unusable(Exception):
    """The run cannot begin; the message says what to do."""


class Foreign(Exception):
    """Something answers, but not as a service of the protocol does."""


async def preflight(target: Target) -> None:
    """Connect and submit one task. Raises Unusable or Foreign."""
    endpoint = target.endpoint
    try:
        (await Connection.open(endpoint.host, endpoint.port)).close()
    except TransportFault as fault:
        raise Unusable(f"{fault}. Start the server under test there, or correct --target {endpoint.url}.") from None
    async with Lab.open(target, "preflight/program") as lab:
        try:
            answer = await lab.client.submit_task()
            if answer.status == 200:
                await lab.client.cancel_task(answer.value["task_id"])
        except (Violation, TransportFault) as fault:
            shown = lab.peer.transcript.render()
            raise Foreign(f"{endpoint.url} does not speak the protocol: {fault}\n{shown}") from None
        if answer.code == "not_found":
            raise Unusable(_unresolved(target))


def _unresolved(target: Target) -> str:
    program = "@".join(target.program)
    bound_scope = "" if target.scope else ", or name the one scope the target serves with --scope TENANT/NAMESPACE"
    return (
        f"The target refuses program {program} as not_found. Publish it into the target's program store, "
        f"name another published program with --program ID@VERSION{bound_scope}."
    )
