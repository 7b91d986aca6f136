"""A service and a worker together, when one of them dies: effects are counted outside of both."""

from __future__ import annotations

import signal

from protocol3_conformance.bounds import bound
from protocol3_conformance.lab import Lab
from protocol3_conformance.roles.deployment import Deployment
from protocol3_conformance.roles.disturbance import die
from protocol3_conformance.scenario import scenario
from protocol3_conformance.scenarios.effects import EXPECTED, code

CITES = ["LOC-001", "LOC-009", "HLP-053", "HLP-056", "WRK-081", "WRK-084"]
MARK = "pathlib.Path({mark!r}).write_text(str(os.getpid()))"
STAYS = f"{MARK}; time.sleep(600)"
WAITS = f"{MARK}; exec({{loop!r}})"
WHILE_IT_ANSWERS = """
import socket, time
while True:
    try:
        socket.create_connection(({host!r}, {port}), 1).close()
    except OSError:
        break
    time.sleep(0.005)
"""
"""Until the service is down: what the handler does next meets nobody."""


@scenario("together/worker-dies", cites=[*CITES, "DLV-050"], profile="core together expiry")
async def test_worker_dies(lab: Lab) -> None:
    """The worker dies before an effect, after it, or after its record: the effect happens once, twice, once."""
    async with Deployment.open(lab) as deployed:
        first = deployed.worker(len(EXPECTED))
        workflows = {}
        for place in EXPECTED:
            stays = STAYS.format(mark=str(deployed.mark(place)))
            workflows[place] = await deployed.workflow(code(deployed.effects, place, **{place: stays}))
        for place in EXPECTED:
            await deployed.reached(first, place)
        first.signal(signal.SIGKILL)
        await first.ended()
        deployed.kill_programs()
        await lab.pass_time(bound("LEASE_MS"))
        deployed.worker(len(EXPECTED))
        await _paid(lab, workflows)
        assert {place: deployed.effects.of(place) for place in EXPECTED} == EXPECTED


@scenario("together/service-dies", cites=[*CITES, "DLV-120", "WRK-083"], profile="core together restart")
async def test_service_dies(lab: Lab) -> None:
    """The service dies before an effect, before its record is sent, after the record: each happens once, at once."""
    endpoint = lab.target.endpoint
    loop = WHILE_IT_ANSWERS.format(host=endpoint.host, port=endpoint.port)
    async with Deployment.open(lab) as deployed:
        worker = deployed.worker(len(EXPECTED))
        workflows = {}
        for place in EXPECTED:
            waits = WAITS.format(mark=str(deployed.mark(place)), loop=loop)
            workflows[place] = await deployed.workflow(code(deployed.effects, place, **{place: waits}))

        async def everywhere() -> None:
            for place in EXPECTED:
                await deployed.reached(worker, place)

        await die(lab, everywhere)
        await _paid(lab, workflows)
        assert {place: deployed.effects.of(place) for place in EXPECTED} == {place: {1: 1} for place in EXPECTED}


async def _paid(lab: Lab, workflows: dict[str, str]) -> None:
    """Every one of them succeeds with the value that its step gave."""
    for place, workflow_id in workflows.items():
        with lab.case(place):
            outcome = await lab.client.outcome_until(workflow_id, "succeeded")
            assert outcome["output"] == "paid"
