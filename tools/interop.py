"""The published packages against our system: their client on our coordinator, their runtime helper under our worker.

One system, two workers: queue `ours` runs programs with our helper, queue `published` with the bootstrap of the
installed `ledgence-worker`. For each release the tests in reference/interop run in that release's environment.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from system import ROOT, System, SystemFailure, temporary_folder

PROGRAMS = ("mixed-workflow", "hello")


def bootstrap_of(environment: Path) -> Path:
    """The published helper's start file inside an environment."""
    found = sorted(environment.glob("lib/python3.*/site-packages/ledgence/worker/bootstrap.py"))
    if not found:
        raise SystemFailure(f"{environment} holds no ledgence-worker; run ./dev interop")
    return found[0]


def run(release: str, folder: Path) -> int:
    environment = ROOT / ".envs" / f"interop-{release}"
    with System(folder, tenant="interop", namespace="peers") as system:
        for program in PROGRAMS:
            system.publish(program)
        system.start_coordinator()
        system.start_worker("ours", queue="ours")
        system.start_worker("published", queue="published", runner=bootstrap_of(environment))
        variables = {
            "PROTOCOL3_URL": system.url,
            "PROTOCOL3_SCOPE": f"{system.tenant}/{system.namespace}",
            "PROTOCOL3_QUEUES": "ours,published",
        }
        command = [environment / "bin/python", "-m", "pytest", "-q", "--rootdir=reference/interop"]
        modes = ["-o", "asyncio_mode=auto", "-o", "asyncio_default_fixture_loop_scope=function"]
        flags = ["-c", os.devnull, *modes, "-p", "no:cacheprovider", "reference/interop"]
        return subprocess.run([*command, *flags], cwd=ROOT, env=os.environ | variables, check=False).returncode


def main() -> int:
    if len(sys.argv) != 2:
        print("usage: python tools/interop.py RELEASE", file=sys.stderr)
        return 2
    try:
        with temporary_folder("interop", keep_failed=True) as folder:
            return run(sys.argv[1], folder)
    except SystemFailure as failure:
        print(f"interop: {failure}", file=sys.stderr)
        return 1


if __name__ == "__main__":
    sys.exit(main())
