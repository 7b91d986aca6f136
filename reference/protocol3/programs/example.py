"""The example package of ``program example`` (PKG-081)."""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from protocol3.contract.models.common import ProgramRef
from protocol3.contract.strict_json import JsonValue, encode
from protocol3.programs.errors import ProgramError
from protocol3.programs.interpreter import probe_python
from protocol3.programs.manifest import MANIFEST_NAME, Manifest, host_platform, parse_manifest

_PROGRAM: Final = ProgramRef(id="hello", version="1.0.0")
_NAMES: Final = ("Ada", "Grace")
_SOURCE: Final = '''\
"""A program that greets. The worker calls handle() once per attempt."""

from ledgence.worker import get_logger

log = get_logger(__name__)


def handle(event):
    """The event is the CloudEvent of the invocation; its data is what was submitted, the return value the output."""
    name = event["data"]["name"]
    log.info("greeting", extra={"attributes": {"length": len(name)}})
    return {"greeting": f"Hello, {name}!"}
'''


@dataclass(frozen=True, slots=True, kw_only=True)
class Example:
    """Paths of what was written: the package directory and the task list; and the interpreter it is for."""

    program: Path
    tasks: Path
    python: Path


def write_example(directory: Path, python: Path) -> Example:
    """Create ``directory`` with a package for ``python`` that can be published as it is, and two tasks for it.

    Raises :class:`ProgramError`: ``invalid_input`` when the directory exists, ``incompatible`` for an interpreter or
    host that cannot run packages, ``io`` when files cannot be written.
    """
    if directory.exists() or directory.is_symlink():
        raise ProgramError("invalid_input", f"{directory} exists already; name a new directory")
    manifest = Manifest(
        program=_PROGRAM,
        python=probe_python(python),
        protocol=2,
        handler="program:handle",
        platform=host_platform(),
    )
    raw = json.dumps(manifest.to_json(), indent=2).encode() + b"\n"
    parse_manifest(raw)  # an unsupported host or version fails here, before anything is written
    example = Example(program=directory / "program", tasks=directory / "tasks.json", python=python)
    try:
        example.program.mkdir(parents=True)
        (example.program / MANIFEST_NAME).write_bytes(raw)
        (example.program / "program.py").write_text(_SOURCE, encoding="utf-8")
        example.tasks.write_bytes(encode([_task(number, name) for number, name in enumerate(_NAMES, start=1)]) + b"\n")
    except OSError as error:
        raise ProgramError("io", f"cannot write {error.filename}: {error.strerror}") from None
    return example


def _task(number: int, name: str) -> JsonValue:
    """One entry of the task list that ``worker run`` reads (WRK-095)."""
    return {
        "program": {"id": _PROGRAM.id, "version": _PROGRAM.version},
        "event": {
            "specversion": "1.0",
            "id": f"event-{number}",
            "source": "urn:example:tasks",
            "type": "com.ledgence.task.invocation.requested.v1",
            "subject": f"tasks/task-{number}",
            "datacontenttype": "application/json",
            "ldgtenantid": "example",
            "ldgnamespace": "default",
            "ldgrunid": f"run-{number}",
            "ldgtaskid": f"task-{number}",
            "ldgattemptid": f"attempt-{number}",
            "ldgattemptno": 1,
            "data": {"name": name},
        },
    }
