"""`protocol3 worker connect` with short pauses, and two places where it can be made to wait.

Standard input is one JSON object: `settings` and `pacing` as the worker's own, and `folder`, the test's. With a file
`fetch.gate` there a download never ends, with `clean-up.gate` no group of processes is gone.
"""

import asyncio
import json
import sys
from pathlib import Path
from typing import Any

from protocol3.contract.models.common import Scope
from protocol3.programs.stores import FilesystemStore
from protocol3.worker import process
from protocol3.worker.connect import run_worker
from protocol3.worker.diagnostics import Diagnostics
from protocol3.worker.orphans import Orphans
from protocol3.worker.settings import Pacing, WorkerSettings


def main(given: dict[str, Any]) -> int:
    folder = Path(given["folder"])
    wait_at_gates(folder)
    settings = given["settings"]
    settings["scope"], settings["cache"] = Scope(**settings["scope"]), Path(settings["cache"])
    worker = WorkerSettings(**settings, pacing=Pacing(**given["pacing"]), python=sys.executable)
    diagnostics = Diagnostics()
    delivery = asyncio.run(run_worker(worker, diagnostics=diagnostics, on_end=lambda _: None, orphans=Orphans()))
    diagnostics.close()
    return 0 if delivery.failure is None else 1


def wait_at_gates(folder: Path) -> None:
    fetch, gone = FilesystemStore.fetch, process.group_is_gone

    async def gated_fetch(self: FilesystemStore, descriptor: Any) -> bytes:
        while (folder / "fetch.gate").exists():
            (folder / "fetch.reached").touch()
            await asyncio.sleep(0.005)
        return await fetch(self, descriptor)

    def gated_gone(group: int) -> bool:
        return not (folder / "clean-up.gate").exists() and gone(group)

    FilesystemStore.fetch = gated_fetch
    process.group_is_gone = gated_gone


if __name__ == "__main__":
    sys.exit(main(json.load(sys.stdin)))
