"""Judge our own coordinator: export the fixture programs, start the server, run the suite, stop everything.

    python tools/run_conformance.py [--break NAME] [--bound] [--test-controls] [--orders] [--only-serve]
                                    [--database-url URL] [--processes N] [PYTEST ARGUMENTS …]
    python tools/run_conformance.py --restarts [--test-controls] [--worker HELPER] […]
    python tools/run_conformance.py --runtime HELPER [PYTEST ARGUMENTS …]
    python tools/run_conformance.py --worker HELPER [PYTEST ARGUMENTS …]

The exit code is pytest's. `--break` puts the breaking proxy in front, `--bound` binds the server to one scope,
`--test-controls` offers and claims the testing profiles, so that hardly anything waits in real time, `--only-serve`
prints the URL and serves until standard input ends. `--restarts` keeps the data in a folder and names commands that
kill the server and start it again, so that it really dies at the crash points; with `--worker` server and worker are
also judged together, on one program store. All checks score, those after the revision too.

`--database-url` judges a coordinator on a PostgreSQL that runs already, `--processes` several coordinators on one
database, behind an address that gives each new connection to the next of them; those do not claim faults.

`--runtime` judges program processes and `--worker` our worker instead, with our helper (`ours`) or with a published one
(`0.6.1`, from .envs/interop-0.6.1).

`--orders` proves that no check leans on another: the whole suite twice, shuffled, and each of its files alone, all
against the same server. Its last line counts the runs.
"""

from __future__ import annotations

import argparse
import json
import os
import shlex
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, nullcontext
from pathlib import Path

from protocol3 import __version__
from protocol3.store.embedded import EmbeddedPostgres
from system import System, temporary_folder

ROOT = Path(__file__).parent.parent
SUITE = ROOT / "conformance" / "protocol3_conformance" / "scenarios"
SCOPE = ("conformance", "bound")
CLAIMED = "core,forks,subworkflows,discovery,virtual-time"
PATHS = os.pathsep.join(str(ROOT / room) for room in ("reference", "conformance", "spec"))
ENVIRONMENT = {**os.environ, "PYTHONPATH": PATHS}


def protocol3(*arguments: str) -> list[str]:
    return [sys.executable, "-m", "protocol3.cli", *arguments]


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
def database(given: str | None, processes: int) -> Iterator[list[str]]:
    """The option that names the database: the one given, else one for all processes, else the coordinator's own."""
    if given is None and processes == 1:
        yield ["--ephemeral"]
        return
    with nullcontext(given) if given else postgres() as url:
        named = ["--database-url", url]
        migrate = protocol3("orchestrator", "migrate", *named)
        subprocess.run(migrate, check=True, env=ENVIRONMENT, stdout=subprocess.DEVNULL)
        yield named


@contextmanager
def postgres() -> Iterator[str]:
    """The URL of an embedded server that lives as long as the block."""
    # Held checks keep connections of every coordinator; the default of 100 is for one.
    server = EmbeddedPostgres(ephemeral=True, settings={"max_connections": "400"}).start()
    try:
        yield server.dsn
    finally:
        server.stop()


@contextmanager
def coordinator(arguments: argparse.Namespace) -> Iterator[str]:
    """The URL of a fresh coordinator, or of several behind one address, with the fixture programs."""
    with ExitStack() as stack:
        folder = stack.enter_context(tempfile.TemporaryDirectory(prefix="protocol3-conformance-"))
        export = protocol3("fixtures", "export", folder)
        subprocess.run(export, check=True, env=ENVIRONMENT, stdout=subprocess.DEVNULL)
        place = stack.enter_context(database(arguments.database_url, arguments.processes))
        scope = ["--tenant", SCOPE[0], "--namespace", SCOPE[1]] if arguments.bound else []
        testing = ["--test-controls"] if arguments.test_controls else []
        serve = ["orchestrator", "serve", *place, "--store", f"{folder}/store", "--listen", "127.0.0.1:0"]
        command = protocol3(*serve, "--log-level", "warning", *scope, *testing)
        urls = [json.loads(stack.enter_context(process(command)))["url"] for _ in range(arguments.processes)]
        forwarder = [sys.executable, str(ROOT / "tools" / "round_robin.py"), *urls]
        yield urls[0] if len(urls) == 1 else stack.enter_context(process(forwarder))


@contextmanager
def restartable(*, controls: bool, worker: str | None) -> Iterator[str]:
    """The target file of a fresh coordinator that can be killed and started again, and of a worker beside it."""
    with temporary_folder("conformance") as folder:
        export = protocol3("fixtures", "export", str(folder))
        subprocess.run(export, check=True, env=ENVIRONMENT, stdout=subprocess.DEVNULL)
        system = System(folder)
        testing = ["--test-controls"] if controls else []
        serve = protocol3(*system.coordinator("--log-level", "warning", *testing))
        served = [sys.executable, str(ROOT / "tools" / "served.py")]
        commands = {"start": [*served, "start", str(folder), *serve], "kill": [*served, "kill", str(folder)]}
        lines = {name: shlex.join(words) for name, words in commands.items()} | ({"worker": worker} if worker else {})
        told = [f"{name} = {json.dumps(line)}" for name, line in lines.items()]
        file = folder / "target.toml"
        file.write_text("\n".join([f'url = "{system.url}"', f'store = "{folder}/store"', "[commands]", *told, ""]))
        try:
            subprocess.run(commands["start"], check=True, env=ENVIRONMENT)
            yield str(file)
        finally:
            subprocess.run([*served, "stop", str(folder)], check=True)


@contextmanager
def target(arguments: argparse.Namespace) -> Iterator[str]:
    with coordinator(arguments) as url:
        if arguments.breaking is None:
            yield url
            return
        proxy = [sys.executable, "-m", "protocol3_conformance.breaker", arguments.breaking, "--target", url]
        with process(proxy) as broken:
            yield broken


@contextmanager
def bootstrap_of(helper: str) -> Iterator[Path]:
    """The start file of our helper, or of a published release, in an import root of its own as a worker brings it."""
    if helper == "ours":
        yield ROOT / "reference" / "protocol3" / "runtime" / "ledgence" / "worker" / "bootstrap.py"
        return
    found = sorted(ROOT.glob(f".envs/interop-{helper}/lib/python3.*/site-packages/ledgence/worker/bootstrap.py"))
    if not found:
        raise SystemExit(f"there is no helper {helper}: python tools/environment.py .envs/interop-{helper}")
    with tempfile.TemporaryDirectory(prefix="protocol3-helper-") as folder:
        shutil.copytree(found[0].parent, Path(folder) / "ledgence" / "worker")
        yield Path(folder) / "ledgence" / "worker" / "bootstrap.py"


def runtime_command(bootstrap: Path) -> str:
    return shlex.join([sys.executable, "-I", "-S", "-B", str(bootstrap)])


def worker_command(bootstrap: Path) -> str:
    places = ("server", "tenant", "namespace", "queue", "store", "cache", "concurrency", "acquire_wait_ms")
    flags = [word for place in places for word in (f"--{place.replace('_', '-')}", f"{{{place}}}")]
    connect = protocol3("worker", "connect", "--runner", str(bootstrap), *flags)
    return " ".join(connect)


def identity(breaking: str | None) -> list[str]:
    """What the reports call the target."""
    name = "protocol3 reference coordinator"
    return ["--target-name", f"{name}, broken: {breaking}" if breaking else name, "--target-version", __version__]


def judge(place: Path, *arguments: str) -> int:
    """Run the suite, or a file of it; pytest's exit code."""
    command = [sys.executable, "-m", "pytest", str(place), "--revision", "all", *arguments]
    return subprocess.run(command, env=ENVIRONMENT, cwd=ROOT, check=False).returncode


def in_every_order(arguments: list[str]) -> int:
    """1 if any run was not green. A file may hold nothing but checks that the arguments leave out (5)."""
    whole, nothing_there = ROOT / "conformance", 5
    codes = {"shuffled": judge(whole, "--shuffle", *arguments), "shuffled again": judge(whole, "--shuffle", *arguments)}
    for file in sorted(SUITE.rglob("test_*.py")):
        codes[file.name] = judge(file, *arguments)
    bad = {name: code for name, code in codes.items() if code not in (0, nothing_there)}
    for name, code in bad.items():
        print(f"{name}: exit code {code}")
    print(f"{len(codes) - len(bad)} passed, {len(bad)} failed")
    return 1 if bad else 0


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--break", dest="breaking", metavar="NAME", help="a breaking of protocol3_conformance.breaker")
    parser.add_argument("--bound", action="store_true", help="bind the server to one scope")
    parser.add_argument(
        "--test-controls", action=argparse.BooleanOptionalAction, help="offer and claim virtual-time and faults"
    )
    parser.add_argument("--database-url", metavar="URL", help="a PostgreSQL that runs already; it is migrated")
    parser.add_argument("--processes", metavar="N", type=int, default=1, help="so many coordinators on one database")
    parser.add_argument("--restarts", action="store_true", help="let the server be killed and started again")
    parser.add_argument("--only-serve", action="store_true", help="print the URL, serve until standard input ends")
    parser.add_argument("--orders", action="store_true", help="twice, shuffled, each file alone")
    parser.add_argument("--runtime", metavar="HELPER", help="judge program processes: ours, or a release")
    parser.add_argument("--worker", metavar="HELPER", help="judge our worker with this helper: ours, or a release")
    arguments, pytest_arguments = parser.parse_known_args()
    # Rules strike in the process that received them (TST-020), so several behind one address cannot claim them.
    claimed = CLAIMED if arguments.processes > 1 else f"{CLAIMED},faults"
    profile = ["--profile", claimed, "--with-expiry"] if arguments.test_controls else []
    if arguments.restarts:
        with ExitStack() as stack:
            helper = arguments.worker
            worker = worker_command(stack.enter_context(bootstrap_of(helper))) if helper else None
            file = stack.enter_context(restartable(controls=arguments.test_controls, worker=worker))
            described = ["--target-file", file, *identity(None)]
            return judge(ROOT / "conformance", *described, *profile, *pytest_arguments)
    if helper := arguments.runtime or arguments.worker:
        with bootstrap_of(helper) as bootstrap:
            runtime = ["--runtime-command", runtime_command(bootstrap)] if arguments.runtime else []
            worker = ["--worker-command", worker_command(bootstrap)] if arguments.worker else []
            return judge(ROOT / "conformance", *runtime, *worker, *pytest_arguments)
    with target(arguments) as url:
        if arguments.only_serve:
            sys.stdout.write(f"{url}\n")
            sys.stdout.flush()
            sys.stdin.read()
            return 0
        scope = ["--scope", "/".join(SCOPE)] if arguments.bound else []
        common = ["--target", url, *identity(arguments.breaking), *scope, *profile, *pytest_arguments]
        return in_every_order(common) if arguments.orders else judge(ROOT / "conformance", *common)


if __name__ == "__main__":
    raise SystemExit(main())
