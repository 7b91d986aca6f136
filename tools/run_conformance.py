"""Judge our own coordinator: publish the fixture programs, start the server, run the suite, stop everything.

    python tools/run_conformance.py [--break NAME] [--bound] [--only-serve] [PYTEST ARGUMENTS …]

The exit code is pytest's. `--break` puts the breaking proxy in front, `--bound` binds the server to one scope,
`--only-serve` prints the URL and serves until standard input ends.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

ROOT = Path(__file__).parent.parent
PROGRAM_SOURCE = ROOT / "fixtures" / "programs" / "mixed-workflow"
SCOPE = ("conformance", "bound")
PATHS = os.pathsep.join(str(ROOT / room) for room in ("reference", "conformance", "spec"))
ENVIRONMENT = {**os.environ, "PYTHONPATH": PATHS}


def protocol3(*arguments: str) -> list[str]:
    return [sys.executable, "-m", "protocol3.cli", *arguments]


def publish(store: Path, scratch: Path) -> None:
    """Prepare and publish the default program of the suite."""
    prepared = scratch / "mixed-workflow"
    subprocess.run([sys.executable, str(PROGRAM_SOURCE / "prepare.py"), str(prepared)], check=True, env=ENVIRONMENT)
    command = protocol3("program", "publish", "--source", str(prepared), "--store", str(store))
    subprocess.run(command, check=True, env=ENVIRONMENT, stdout=subprocess.DEVNULL)


@contextmanager
def process(command: list[str]) -> Iterator[str]:
    """Start a server and yield the first line it prints; stop it in the end."""
    with subprocess.Popen(command, env=ENVIRONMENT, stdout=subprocess.PIPE, text=True) as running:
        assert running.stdout is not None
        try:
            line = running.stdout.readline().strip()
            if not line:
                raise SystemExit(f"{' '.join(command)} ended with code {running.wait()} before it served")
            yield line
        finally:
            running.terminate()


@contextmanager
def coordinator(*, bound: bool) -> Iterator[str]:
    """The URL of a fresh coordinator with the fixture program."""
    with tempfile.TemporaryDirectory(prefix="protocol3-conformance-") as folder:
        scratch = Path(folder)
        publish(scratch / "store", scratch)
        scope = ["--tenant", SCOPE[0], "--namespace", SCOPE[1]] if bound else []
        serve = ["orchestrator", "serve", "--ephemeral", "--store", str(scratch / "store"), "--listen", "127.0.0.1:0"]
        with process(protocol3(*serve, "--log-level", "warning", *scope)) as line:
            yield json.loads(line)["url"]


@contextmanager
def target(arguments: argparse.Namespace) -> Iterator[str]:
    with coordinator(bound=arguments.bound) as url:
        if arguments.breaking is None:
            yield url
            return
        proxy = [sys.executable, "-m", "protocol3_conformance.breaker", arguments.breaking, "--target", url]
        with process(proxy) as broken:
            yield broken


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--break", dest="breaking", metavar="NAME", help="a breaking of protocol3_conformance.breaker")
    parser.add_argument("--bound", action="store_true", help="bind the server to one scope")
    parser.add_argument("--only-serve", action="store_true", help="print the URL, serve until standard input ends")
    arguments, pytest_arguments = parser.parse_known_args()
    with target(arguments) as url:
        if arguments.only_serve:
            sys.stdout.write(f"{url}\n")
            sys.stdout.flush()
            sys.stdin.read()
            return 0
        scope = ["--scope", "/".join(SCOPE)] if arguments.bound else []
        command = [sys.executable, "-m", "pytest", str(ROOT / "conformance"), "--target", url, *scope]
        return subprocess.run([*command, *pytest_arguments], env=ENVIRONMENT, cwd=ROOT, check=False).returncode


if __name__ == "__main__":
    raise SystemExit(main())
