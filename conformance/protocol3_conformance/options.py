"""Command line options of the suite, and the target that they and the target file describe."""

from __future__ import annotations

import math
import secrets
import shlex
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import pytest

from protocol3_conformance import target_file
from protocol3_conformance.commands import BadCommand, RuntimeCommand, WorkerCommand
from protocol3_conformance.crashes.power import Power
from protocol3_conformance.revision import CURRENT
from protocol3_conformance.target import (
    COORDINATOR,
    FAULTS,
    NOWHERE,
    PROFILES,
    ROLES,
    RUNTIME,
    TESTING,
    WORKER,
    Patience,
    Target,
)
from protocol3_conformance.wire.peer import Endpoint

Command = TypeVar("Command", RuntimeCommand, WorkerCommand)
EXAMPLES, EXPORTS = 15, "protocol3-failures"
DEFAULT_PROGRAM = "mixed-workflow@1.0.1"
NO_TARGET = (
    "name the service to judge with --target http://HOST:PORT or --target-file FILE, a program process or a worker "
    "with --runtime-command or --worker-command "
    "(--list shows the checks, --explain REQ-ID a requirement, neither needs a target)"
)
OPTIONS: dict[str, dict[str, Any]] = {
    "--target": {"metavar": "URL", "help": "base URL of the service to judge"},
    "--target-file": {
        "metavar": "FILE",
        "help": "a description of the service; 'protocol3 conformance init' writes one",
    },
    "--target-name": {"metavar": "NAME", "help": "what is judged, for the reports"},
    "--target-version": {"metavar": "VERSION", "help": "its version, for the reports"},
    "--runtime-command": {
        "metavar": "COMMAND",
        "help": "judge the program process that this starts, such as 'python -I -S -B .../bootstrap.py'",
    },
    "--worker-command": {
        "metavar": "COMMAND",
        "help": "judge the worker that this starts, with {server} {tenant} {namespace} {queue} {store} {cache}",
    },
    "--profile": {
        "metavar": "NAMES",
        "help": f"profiles the service claims, separated by commas (default: {','.join(PROFILES)})",
    },
    "--scope": {"metavar": "TENANT/NAMESPACE", "help": "the one scope that the service serves, if it is bound"},
    "--program": {
        "metavar": "ID@VERSION",
        "help": f"a program that the service's store resolves (default: {DEFAULT_PROGRAM})",
    },
    "--store": {
        "metavar": "FOLDER",
        "help": "the folder of the service's program store, where checks of service and worker together may publish",
    },
    "--patience": {
        "metavar": "FACTOR",
        "type": float,
        "help": "multiplies every wait of the suite (default: 1.0)",
    },
    "--concurrency": {
        "metavar": "N",
        "type": int,
        "help": "checks at work at one time (default: 24, and 6 where each starts processes)",
    },
    "--seed": {"metavar": "N", "type": int, "help": "repeat the random choices of an earlier run"},
    "--shuffle": {"action": "store_true", "help": "run the checks in an order drawn from the seed"},
    "--smoke": {"action": "store_true", "help": "only a first look: some 30 checks of every subject, about 10 s"},
    "--no-smoke": {"action": "store_true", "help": "judge a target all the same that fails most of the first look"},
    "--check": {
        "metavar": "PATTERN",
        "action": "append",
        "default": [],
        "help": "run only checks whose ID matches, such as 'settlement/*' (may be given more than once)",
    },
    "--requirement": {
        "metavar": "REQ-ID",
        "action": "append",
        "default": [],
        "help": "run only checks that cite this requirement (may be given more than once)",
    },
    "--with-expiry": {
        "action": "store_true",
        "help": "also run the checks that wait for leases and deadlines to run out (about 100 s)",
    },
    "--examples": {
        "metavar": "N",
        "type": int,
        "default": EXAMPLES,
        "help": "generated histories of each stateful check (default: %(default)s)",
    },
    "--export-dir": {
        "metavar": "DIR",
        "default": EXPORTS,
        "help": "where scripts of failing histories are written (default: %(default)s)",
    },
    "--baseline": {"metavar": "FILE", "help": "known failures, one check ID a line; one that holds is an error"},
    "--known-flaky": {
        "metavar": "FILE",
        "help": "checks, one ID a line, that are run up to 3 times when they fail; one that held later is reported",
    },
    "--write-baseline": {"metavar": "FILE", "help": "write what fails now as the known failures"},
    "--revision": {
        "metavar": "NAME",
        "default": CURRENT,
        "help": "the revision of the specification whose checks score, or 'all' (default: %(default)s)",
    },
    "--report-json": {"metavar": "FILE", "help": "write the verdict of every check and requirement"},
    "--report-html": {"metavar": "FILE", "help": "write one page for people, complete in itself"},
    "--report-md": {"metavar": "FILE", "help": "write the verdict as Markdown"},
    "--report-badge": {"metavar": "FILE", "help": "write the verdict as an endpoint of shields.io badges"},
    "--list": {"action": "store_true", "dest": "list_checks", "help": "print the checks and stop"},
    "--list-crash-points": {
        "action": "store_true",
        "help": "print the crash points, with the way to each on the target if one is named, and stop",
    },
    "--explain": {"metavar": "REQ-ID", "help": "print a requirement and the checks that cite it, and stop"},
}


def add_options(parser: pytest.Parser) -> None:
    """Raises UsageError when another plugin owns one of the names."""
    group = parser.getgroup("protocol3", "conformance with runtime protocol 3")
    for name, settings in OPTIONS.items():
        try:
            group.addoption(name, **settings)
        except ValueError as clash:
            sentence = f"{name} is also an option of another installed plugin ({clash}); add -p no:THAT_PLUGIN"
            raise pytest.UsageError(sentence) from None


def choose_seed(config: pytest.Config) -> None:
    """Draw the seed once, before other processes of the run copy the options."""
    if config.option.seed is None:
        config.option.seed = secrets.randbelow(2**31)


def target_of(config: pytest.Config) -> Target:
    """The target that options and target file describe. Raises UsageError in one sentence."""
    option, described = config.option, _described(config)
    url = given(config, COORDINATOR)
    runtime = _command("--runtime-command", given(config, RUNTIME), RuntimeCommand.parse)
    worker = _command("--worker-command", given(config, WORKER), WorkerCommand.parse)
    if not (url or runtime or worker):
        raise pytest.UsageError(NO_TARGET)
    patience = _first(option.patience, described.get("patience"), 1.0)
    concurrency = _first(option.concurrency, described.get("concurrency"), 24 if url else 6)
    if not 0 < patience < math.inf:
        raise pytest.UsageError("--patience must be a number above 0")
    if concurrency < 1:
        raise pytest.UsageError("--concurrency must be at least 1")
    if option.examples < 1:
        raise pytest.UsageError("--examples must be at least 1")
    try:
        endpoint = Endpoint.parse(url) if url else NOWHERE
    except ValueError as error:
        raise pytest.UsageError(f"--target {error}") from None
    waits = option.with_expiry or described.get("with_expiry", False) or bool(option.check or option.requirement)
    return Target(
        endpoint=endpoint,
        profiles=_profiles(option.profile.split(",") if option.profile else described.get("profiles", PROFILES)),
        scope=_scope(option.scope, described.get("scope", "free")),
        program=_pair("--program", option.program or described.get("program", DEFAULT_PROGRAM), "@", "ID@VERSION"),
        patience=Patience(factor=patience),
        seed=option.seed,
        with_expiry=waits,
        concurrency=concurrency,
        examples=option.examples,
        exports=Path(option.export_dir),
        queue=described.get("queue", "q"),
        name=option.target_name or described.get("name"),
        version=option.target_version or described.get("version"),
        commands=described.get("commands", {}),
        power=_power(config, described),
        store=_store(option.store or described.get("store")),
        runtime=runtime,
        worker=worker,
    )


def _store(folder: str | None) -> Path | None:
    if folder is not None and not Path(folder).is_dir():
        raise pytest.UsageError(f"--store {folder}: there is no such folder")
    return Path(folder).absolute() if folder is not None else None


def roles_of(config: pytest.Config) -> frozenset[str]:
    """The roles that something is named for; all of them when nothing is."""
    return frozenset(role for role in ROLES if given(config, role)) or frozenset(ROLES)


def given(config: pytest.Config, role: str) -> str | None:
    """The URL or command of what is judged in this role. One that is named as an option stands alone."""
    option, described = config.option, _described(config)
    options = {COORDINATOR: option.target, RUNTIME: option.runtime_command, WORKER: option.worker_command}
    in_file = {**described.get("commands", {}), COORDINATOR: described.get("url")}
    given: str | None = (options if any(options.values()) else in_file).get(role)
    return given


def _command(name: str, text: str | None, parse: Callable[[str], Command]) -> Command | None:
    try:
        return None if text is None else parse(text)
    except BadCommand as error:
        raise pytest.UsageError(f"{name}: {error}") from None


def _power(config: pytest.Config, described: dict[str, Any]) -> Power | None:
    """What kills and starts the target; nothing where several processes share the run, for each would kill the others'.

    Raises UsageError.
    """
    if hasattr(config, "workerinput"):
        return None
    claimed = config.option.profile.split(",") if config.option.profile else described.get("profiles", ())
    try:
        return Power.of(described.get("commands", {}), dies_at_command=FAULTS in claimed)
    except ValueError as error:
        raise pytest.UsageError(f"--target-file {config.option.target_file}: commands: {error}") from None


def with_expiry(config: pytest.Config) -> bool:
    """Whether options or target file ask for the checks that wait for leases."""
    return bool(config.option.with_expiry or _described(config).get("with_expiry", False))


def base_command(config: pytest.Config) -> str:
    """The command of this run, with what names the target and with its seed, without what selects checks."""
    option = config.option
    words = ["pytest", "--pyargs", "protocol3_conformance"] if option.pyargs else ["pytest", "conformance"]
    commands = ("--runtime-command", "--worker-command")
    for name in (
        "--target",
        "--target-file",
        *commands,
        "--profile",
        "--scope",
        "--program",
        "--store",
        "--patience",
        "--baseline",
        "--known-flaky",
    ):
        value = getattr(option, name[2:].replace("-", "_"))
        words += [] if value is None else [name, str(value)]
    words += [] if option.examples == EXAMPLES else ["--examples", str(option.examples)]
    return shlex.join([*words, "--seed", str(option.seed)])


def whole_command(config: pytest.Config) -> str:
    """The command of this run, the choice of its checks included."""
    option = config.option
    switches = ("smoke", "no_smoke", "with_expiry", "shuffle")
    chosen = [f"--{name.replace('_', '-')}" for name in switches if getattr(option, name)]
    for name in ("check", "requirement"):
        chosen += [word for value in getattr(option, name) for word in (f"--{name}", value)]
    revision = [] if option.revision == CURRENT else ["--revision", option.revision]
    concurrency = [] if option.concurrency is None else ["--concurrency", str(option.concurrency)]
    return " ".join(filter(None, [base_command(config), shlex.join([*revision, *concurrency, *chosen])]))


def rerun_command(config: pytest.Config, check_id: str) -> str:
    """The command that runs one check again, with everything that differs from the defaults."""
    return f"{base_command(config)} --check {check_id}"


def _described(config: pytest.Config) -> dict[str, Any]:
    if not config.option.target_file:
        return {}
    try:
        return target_file.read(Path(config.option.target_file))
    except target_file.BadDescription as error:
        raise pytest.UsageError(f"--target-file {error}") from None


def _first(*values: Any) -> Any:
    return next(value for value in values if value is not None)


def _scope(option: str | None, described: Any) -> tuple[str, str] | None:
    if option is not None:
        return _pair("--scope", option, "/", "TENANT/NAMESPACE")
    return None if described == "free" else (described["tenant"], described["namespace"])


def _profiles(names: Any) -> frozenset[str]:
    claimed = frozenset(stripped for name in names if (stripped := name.strip()))
    known = (*PROFILES, *TESTING)
    if unknown := claimed - set(known):
        raise pytest.UsageError(f"--profile: {', '.join(sorted(unknown))} is not one of {', '.join(known)}")
    if "core" not in claimed:
        raise pytest.UsageError("--profile: core is not optional; name it beside the others")
    return claimed


def _pair(name: str, value: str, separator: str, form: str) -> tuple[str, str]:
    first, found, second = value.partition(separator)
    if not (first and found and second):
        raise pytest.UsageError(f"{name} {value}: expected {form}")
    return first, second
