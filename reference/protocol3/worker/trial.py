"""A package started as a worker starts it, and ended before any task: its handler is loaded and never called."""

import tempfile
from pathlib import Path

from protocol3.programs.archive import Package
from protocol3.programs.cache import PackageCache
from protocol3.worker.pool import ProcessPool
from protocol3.worker.process import Launcher


async def try_start(package: Package, launcher: Launcher) -> None:
    """Unpack the verified bytes into a cache of their own, start a process, wait until it is ready (RUN-031…033).

    Raises ExecutionFailed where a worker would fail in phase ``startup``, ProgramError where in ``preparation``. What
    the program writes goes to the launcher's diagnostics; no process and no file of it stays.
    """
    with tempfile.TemporaryDirectory(prefix="protocol3-check-") as folder:
        cache = PackageCache(Path(folder) / "cache")
        pool = ProcessPool(launcher, 1, on_stuck=launcher.diagnostics.say)
        try:
            pin = cache.insert(package.descriptor, package.archive)
            process = await pool.spawn(pin)
            await process.ready()
        finally:
            await pool.abandon()
            cache.close()
