"""The published packages against our system: their client on our coordinator, their runtime helper under our worker.

One database, two coordinators: an ordinary one, with two workers (queue `ours` runs programs with our helper, queue
`published` with the bootstrap of the installed `ledgence-worker`), and one with test controls, which the tests disturb,
crash and start again themselves. For each release the tests in reference/interop run in that release's environment.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

from protocol3.store.embedded import EmbeddedPostgres
from system import PROTOCOL3, ROOT, System, SystemFailure, migrate, temporary_folder

PROGRAMS = ("mixed-workflow", "locals-and-events", "hello", "echo", "failing", "crasher", "sleeper")


def bootstrap_of(environment: Path) -> Path:
    """The published helper's start file inside an environment."""
    found = sorted(environment.glob("lib/python3.*/site-packages/ledgence/worker/bootstrap.py"))
    if not found:
        raise SystemFailure(f"{environment} holds no ledgence-worker; run ./dev interop")
    return found[0]


def run(release: str, folder: Path, selected: list[str]) -> int:
    environment = ROOT / ".envs" / f"interop-{release}"
    postgres = EmbeddedPostgres(folder / "database")
    postgres.start()
    try:
        migrate(postgres.dsn)
        with System(folder, tenant="interop", namespace="peers", database_url=postgres.dsn) as system:
            for program in PROGRAMS:
                system.publish(program)
            system.start_coordinator()
            system.start_worker("ours", queue="ours")
            system.start_worker("published", queue="published", runner=bootstrap_of(environment))
            return _judge(system, environment, selected)
    finally:
        postgres.stop()


def _judge(system: System, environment: Path, selected: list[str]) -> int:
    """Run the tests; what they need to know is in their environment."""
    disturbed = [*PROTOCOL3, *system.coordinator("--test-controls", name="disturbed")]
    variables = {
        "PROTOCOL3_URL": system.url,
        "PROTOCOL3_SCOPE": f"{system.tenant}/{system.namespace}",
        "PROTOCOL3_QUEUES": "ours,published",
        "PROTOCOL3_DISTURBED_URL": system.urls["disturbed"],
        "PROTOCOL3_DISTURBED_COMMAND": json.dumps(disturbed),
        "PROTOCOL3_DISTURBED_LOG": str(system.log("disturbed")),
    }
    command = [environment / "bin/python", "-m", "pytest", "-q", "--rootdir=reference/interop"]
    modes = ["-o", "asyncio_mode=auto", "-o", "asyncio_default_fixture_loop_scope=function"]
    everything = [] if any(Path(word.partition("::")[0]).exists() for word in selected) else ["reference/interop"]
    flags = ["-c", os.devnull, *modes, "-p", "no:cacheprovider", *everything, *selected]
    return subprocess.run([*command, *flags], cwd=ROOT, env=os.environ | variables, check=False).returncode


def main() -> int:
    if len(sys.argv) < 2:
        print("usage: python tools/interop.py RELEASE [PYTEST ARGUMENTS]", file=sys.stderr)
        return 2
    try:
        with temporary_folder("interop", keep_failed=True) as folder:
            return run(sys.argv[1], folder, sys.argv[2:])
    except SystemFailure as failure:
        print(f"interop: {failure}", file=sys.stderr)
        return 1


if __name__ == "__main__":
    sys.exit(main())
