"""The command line of a program process (RUN-002 … RUN-004, RUN-014)."""

from __future__ import annotations

import sys

from ._limits import FRAME_BYTES

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import NoReturn

_REQUIRED = ("--package-root", "--handler", "--python-version")
_OPTIONAL = ("--protocol-version", "--max-input-bytes", "--max-output-bytes")


class Arguments:
    """`package_root`, `handler`, `python_version`, `protocol` (1, 2 or 3), `max_input_bytes`, `max_output_bytes`."""

    __slots__ = ("handler", "max_input_bytes", "max_output_bytes", "package_root", "protocol", "python_version")

    def __init__(self, given: dict[str, str]) -> None:
        self.package_root = given["--package-root"]
        self.handler = given["--handler"]
        self.python_version = given["--python-version"]
        self.protocol = _integer(given, "--protocol-version", 1)
        self.max_input_bytes = _integer(given, "--max-input-bytes", FRAME_BYTES)
        self.max_output_bytes = _integer(given, "--max-output-bytes", FRAME_BYTES)
        if self.protocol not in (1, 2, 3):
            _usage("--protocol-version is 1, 2 or 3")


def parse(words: list[str]) -> Arguments:
    """Read `--name value` and `--name=value` pairs; anything else ends the process with exit code 2."""
    given: dict[str, str] = {}
    remaining = iter(words)
    for word in remaining:
        name, joined, value = word.partition("=")
        if name not in _REQUIRED and name not in _OPTIONAL:
            _usage(f"unknown argument {word!r}")
        if not joined:
            following = next(remaining, None)
            value = _usage(f"{name} needs a value") if following is None else following
        given[name] = value
    for name in _REQUIRED:
        if name not in given:
            _usage(f"{name} is missing")
    return Arguments(given)


def _integer(given: dict[str, str], name: str, default: int) -> int:
    if name not in given:
        return default
    try:
        return int(given[name])
    except ValueError:
        _usage(f"{name} takes an integer")


def _usage(problem: str) -> NoReturn:
    sys.stderr.write(f"ledgence.worker: {problem}\n")
    raise SystemExit(2)
