"""The commands that start what is judged: a program process, or a worker."""

from __future__ import annotations

import re
import shlex
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass

from protocol3_conformance.wire.faults import NotDetermined

PLACEHOLDER = re.compile(r"\{([a-z_]+)\}")
RUNTIME = ("package_root", "handler", "python_version", "protocol", "max_input_bytes", "max_output_bytes")
WORKER = ("server", "tenant", "namespace", "queue", "store", "cache", "concurrency", "acquire_wait_ms")
NEEDED_BY_WORKER = frozenset({"server", "tenant", "namespace", "queue", "store", "cache"})
OLDEST = (3, 11)
"""The Python that runs programs, at the least (RUN-001)."""
PROBE = "import sys; print('{}.{}'.format(*sys.version_info))"


class BadCommand(ValueError):
    """The command cannot be used; the message says why."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RuntimeCommand:
    """Starts a program process: words, and the `major.minor` of their interpreter.

    Words without placeholders get the arguments of RUN-002 and RUN-003 appended. Words with placeholders are a command
    line of the target's own: what only the published arguments can show is not determined then.
    """

    words: tuple[str, ...]
    python_version: str

    @classmethod
    def parse(cls, text: str, python_version: str | None = None) -> RuntimeCommand:
        """Raises BadCommand."""
        words = _words(text, RUNTIME, frozenset())
        return cls(words=words, python_version=python_version or _version_of(words[0]))

    def line(self, arguments: Mapping[str, str | None], extra: str = "") -> list[str]:
        """The command with these arguments; one that is None is left out. Raises NotDetermined."""
        given = {name: value for name, value in arguments.items() if value is not None}
        if not any(PLACEHOLDER.search(word) for word in self.words):
            flags = [word for name, value in given.items() for word in ("--" + name.replace("_", "-"), value)]
            return [*self.words, *flags, *shlex.split(extra)]
        values = {"protocol": given.pop("protocol_version", "1"), **given}
        if extra or not set(RUNTIME) <= set(values):
            raise NotDetermined("the command has arguments of its own; give one without placeholders to judge this")
        return [_filled(word, values) for word in self.words]


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerCommand:
    """Starts a worker: words with placeholders, and the `major.minor` of the interpreter that runs its programs."""

    words: tuple[str, ...]
    python_version: str

    @classmethod
    def parse(cls, text: str) -> WorkerCommand:
        """Raises BadCommand. The programs of the checks are for the Python of the first word, if it is one."""
        words = _words(text, WORKER, NEEDED_BY_WORKER)
        return cls(words=words, python_version=_version_of(words[0]))

    @property
    def placeholders(self) -> frozenset[str]:
        return frozenset(name for word in self.words for name in PLACEHOLDER.findall(word))

    def line(self, values: Mapping[str, str]) -> list[str]:
        return [_filled(word, values) for word in self.words]


def _words(text: str, known: tuple[str, ...], needed: frozenset[str]) -> tuple[str, ...]:
    try:
        words = tuple(shlex.split(text))
    except ValueError as error:
        raise BadCommand(f"{text!r}: {error}") from None
    if not words:
        raise BadCommand("the command is empty")
    named = [name for word in words for name in PLACEHOLDER.findall(word)]
    if unknown := [name for name in named if name not in known]:
        raise BadCommand(f"{{{unknown[0]}}} is no placeholder; there are {', '.join(f'{{{name}}}' for name in known)}")
    if missing := sorted(needed - set(named)):
        raise BadCommand(f"the command lacks {', '.join(f'{{{name}}}' for name in missing)}")
    return words


def _filled(word: str, values: Mapping[str, str]) -> str:
    return PLACEHOLDER.sub(lambda found: values[found[1]], word)


def _version_of(interpreter: str) -> str:
    """What the first word answers, if it is a Python interpreter; else the version of this one.

    Raises BadCommand for what cannot be started, and for a Python that is too old.
    """
    own = f"{sys.version_info.major}.{sys.version_info.minor}"
    try:
        asked = subprocess.run([interpreter, "-I", "-S", "-c", PROBE], capture_output=True, timeout=10, check=False)
    except subprocess.TimeoutExpired:
        return own
    except OSError as error:
        raise BadCommand(f"{interpreter} cannot be started: {error.strerror}") from None
    found = asked.stdout.decode("ascii", "replace").strip()
    if not re.fullmatch(r"[23]\.[0-9]+", found):
        return own
    if tuple(map(int, found.split("."))) < OLDEST:
        oldest = ".".join(map(str, OLDEST))
        raise BadCommand(
            f"{interpreter} is Python {found}; programs run on {oldest} or newer (RUN-001): name another one"
        )
    return found
