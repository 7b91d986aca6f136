"""Stores that a worker fetches packages from: a folder, or one over HTTP (chapters 20 and 22)."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from protocol3_conformance.bounds import bound
from protocol3_conformance.roles import store
from protocol3_conformance.roles.coordinator import ACQUISITIONS, SESSIONS
from protocol3_conformance.roles.store import Store, answer
from protocol3_conformance.scenarios.worker import worker_check
from protocol3_conformance.worker_lab import WorkerLab

HANDLER = "def handle(event): return 1\n"


@asynccontextmanager
async def over_http(lab: WorkerLab) -> AsyncIterator[Store]:
    """The lab's store over HTTP."""
    served = await Store(folder=lab.store).start()
    try:
        yield served
    finally:
        served.stop()


async def ends(lab: WorkerLab, kind: str, name: str) -> None:
    """A task of a package of its own fails in preparation."""
    attempt = await lab.coordinator.assign(lab.publish(f"{HANDLER}# {name}\n"))
    assert await lab.coordinator.settled(attempt) == (kind, "preparation", False)


@worker_check("worker-store/over-http", cites=["WRK-002", "WRK-056", "PKG-032", "PKG-038", "PKG-039", "PKG-040"])
async def test_over_http(lab: WorkerLab) -> None:
    """A package comes by one GET of its blob below the prefix; each failure of the store has its kind."""
    async with over_http(lab) as served:
        worker = lab.worker(store=served.url)
        descriptor = lab.publish(HANDLER)
        assert await lab.coordinator.settled(await lab.coordinator.assign(descriptor)) == ("success", 1)
        [(target, fields)] = served.requests
        assert target == f"{store.PREFIX}/blobs/{descriptor['digest'].removeprefix('sha256:')}.zip"
        assert fields.get("accept-encoding") == "identity"
        for name, kind, reply in (
            ("absent", "not_found", lambda content: answer(404)),
            ("moved", "unavailable", lambda content: answer(302, b"", f"Location: {served.url}/elsewhere")),
            ("broken", "unavailable", lambda content: answer(500)),
            ("forbidden", "unavailable", lambda content: answer(403)),
            ("one byte more", "invalid_input", lambda content: answer(200, content + b"x")),
            ("one byte less", "integrity", lambda content: answer(200, content[:-1])),
            ("other bytes", "integrity", lambda content: answer(200, b"x" * len(content))),
            ("more than is said", "invalid_input", lambda content: answer(200, content, length=len(content) + 1)),
        ):
            with lab.case(name):
                served.answer = reply
                await ends(lab, kind, name)
        await lab.stopped(worker)


@worker_check("worker-store/refused-urls", cites=["PKG-039", "PKG-035"])
async def test_refused_urls(lab: WorkerLab) -> None:
    """A host name without TLS, user info, a query or a fragment is refused, and so is a folder that is not there."""
    async with over_http(lab) as served:
        plain = f"127.0.0.1:{served.port}"
        for number, url in enumerate(
            (
                f"http://localhost:{served.port}/",
                f"http://user@{plain}/",
                f"http://{plain}/?a=1",
                f"http://{plain}/#a",
                str(lab.folder / "nowhere"),
            )
        ):
            with lab.case(url):
                assert await lab.worker(store=url, cache=number).ended() != 0
                assert (lab.coordinator.sent(SESSIONS), served.requests) == ([], [])


@worker_check("worker-store/slow-download", cites=["WRK-046", "WRK-056", "WRK-070"], slow=True)
async def test_slow_download(lab: WorkerLab) -> None:
    """Beyond the fetch timeout the attempt ends as `timed_out`; its slot is free when the download has really ended."""
    async with over_http(lab) as served:
        served.gate.clear()
        worker = lab.worker(store=served.url)
        attempt = await lab.coordinator.assign(lab.publish(HANDLER))
        seconds = bound("FETCH_MS") / 1000
        assert await lab.coordinator.settled(attempt, seconds + 25) == ("timed_out", "preparation", False)
        await asyncio.sleep(0.5)  # a slot that is free asks at once
        assert len(lab.coordinator.sent(ACQUISITIONS)) == 1
        served.gate.set()
        await lab.polling(2)
        assert len(served.requests) == 1
        await lab.stopped(worker)


@worker_check("worker-store/no-regular-file", cites=["PKG-037", "PKG-038"])
async def test_no_regular_file(lab: WorkerLab) -> None:
    """A blob that is a link out of the store, a folder or a pipe is `integrity`, and opening it blocks nobody."""
    worker = lab.worker()
    for name in ("link", "folder", "pipe"):
        with lab.case(name):
            descriptor = lab.publish(f"{HANDLER}# {name}\n")
            blob = lab.blob(descriptor)
            outside = blob.rename(lab.folder / name)
            if name == "link":
                blob.symlink_to(outside)
            elif name == "folder":
                blob.mkdir()
            else:
                os.mkfifo(blob)
            attempt = await lab.coordinator.assign(descriptor)
            assert await lab.coordinator.settled(attempt) == ("integrity", "preparation", False)
    with lab.case("cut short"):
        descriptor = lab.publish(f"{HANDLER}# short\n")
        lab.blob(descriptor).write_bytes(lab.blob(descriptor).read_bytes()[:-1])
        attempt = await lab.coordinator.assign(descriptor)
        assert await lab.coordinator.settled(attempt) == ("integrity", "preparation", False)
    await lab.stopped(worker)
