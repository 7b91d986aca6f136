"""Command line options of the suite, and the target they describe."""

from __future__ import annotations

import secrets
from typing import Any

import pytest

from protocol3_conformance.target import PROFILES, Patience, Target
from protocol3_conformance.wire.peer import Endpoint

DEFAULT_PROGRAM = "mixed-workflow@1.0.1"
NO_TARGET = (
    "name the service to judge with --target http://HOST:PORT "
    "(--list shows the checks, --explain REQ-ID a requirement, neither needs a target)"
)


def add_options(parser: pytest.Parser) -> None:
    """Raises UsageError when another plugin owns one of the names."""
    group = parser.getgroup("protocol3", "conformance with runtime protocol 3")
    options: dict[str, dict[str, Any]] = {
        "--target": {"metavar": "URL", "help": "base URL of the service to judge"},
        "--profile": {
            "metavar": "NAMES",
            "default": ",".join(PROFILES),
            "help": "profiles the service claims, separated by commas (default: %(default)s)",
        },
        "--scope": {"metavar": "TENANT/NAMESPACE", "help": "the one scope that the service serves, if it is bound"},
        "--program": {
            "metavar": "ID@VERSION",
            "default": DEFAULT_PROGRAM,
            "help": "a program that the service's store resolves (default: %(default)s)",
        },
        "--patience": {
            "metavar": "FACTOR",
            "type": float,
            "default": 1.0,
            "help": "multiplies every wait of the suite (default: %(default)s)",
        },
        "--seed": {"metavar": "N", "type": int, "help": "repeat the random choices of an earlier run"},
        "--check": {
            "metavar": "PATTERN",
            "action": "append",
            "default": [],
            "help": "run only checks whose ID matches, such as 'settlement/*' (may be given more than once)",
        },
        "--with-expiry": {
            "action": "store_true",
            "help": "also run the checks that wait for leases and deadlines to run out (about 100 s)",
        },
        "--report-json": {"metavar": "FILE", "help": "write the verdict of every check and requirement"},
        "--list": {"action": "store_true", "dest": "list_checks", "help": "print the checks and stop"},
        "--explain": {"metavar": "REQ-ID", "help": "print a requirement and the checks that cite it, and stop"},
    }
    for name, settings in options.items():
        try:
            group.addoption(name, **settings)
        except ValueError as clash:
            sentence = f"{name} is also an option of another installed plugin ({clash}); add -p no:THAT_PLUGIN"
            raise pytest.UsageError(sentence) from None


def target_of(config: pytest.Config) -> Target:
    """The target that the options describe. Raises UsageError in one sentence."""
    option = config.option
    if not option.target:
        raise pytest.UsageError(NO_TARGET)
    try:
        endpoint = Endpoint.parse(option.target)
    except ValueError as error:
        raise pytest.UsageError(f"--target {error}") from None
    if not option.patience > 0:
        raise pytest.UsageError("--patience must be a number above 0")
    return Target(
        endpoint=endpoint,
        profiles=_profiles(option.profile),
        scope=None if option.scope is None else _pair("--scope", option.scope, "/", "TENANT/NAMESPACE"),
        program=_pair("--program", option.program, "@", "ID@VERSION"),
        patience=Patience(factor=option.patience),
        seed=secrets.randbelow(2**31) if option.seed is None else option.seed,
        with_expiry=option.with_expiry or bool(option.check),
    )


def rerun_command(config: pytest.Config, target: Target, check_id: str) -> str:
    """The command that runs one check again, with everything that differs from the defaults."""
    option = config.option
    words = [
        "pytest",
        "--pyargs protocol3_conformance" if option.pyargs else "conformance",
        f"--target {option.target}",
    ]
    if option.profile != ",".join(PROFILES):
        words.append(f"--profile {option.profile}")
    if option.scope:
        words.append(f"--scope '{option.scope}'")
    if option.program != DEFAULT_PROGRAM:
        words.append(f"--program {option.program}")
    return " ".join([*words, f"--seed {target.seed}", f"--check {check_id}"])


def _profiles(names: str) -> frozenset[str]:
    claimed = frozenset(name.strip() for name in names.split(",") if name.strip())
    if unknown := claimed - set(PROFILES):
        raise pytest.UsageError(f"--profile: {', '.join(sorted(unknown))} is not one of {', '.join(PROFILES)}")
    if "core" not in claimed:
        raise pytest.UsageError("--profile: core is not optional; name it beside the others")
    return claimed


def _pair(name: str, value: str, separator: str, form: str) -> tuple[str, str]:
    first, found, second = value.partition(separator)
    if not (first and found and second):
        raise pytest.UsageError(f"{name} {value}: expected {form}")
    return first, second
