"""Publishing packages into a store of the suite's own: the layout and the archive of chapter 20."""

from __future__ import annotations

import hashlib
import io
import json
import platform
import textwrap
import zipfile
from collections.abc import Mapping
from importlib.resources import files
from pathlib import Path
from typing import Any

EPOCH = (1980, 1, 1, 0, 0, 0)
SYSTEMS = {"Linux": "linux", "Darwin": "macos"}
MACHINES = {"arm64": "aarch64"}


def host() -> dict[str, str]:
    """The platform member of a manifest for this machine."""
    machine = platform.machine()
    return {"os": SYSTEMS.get(platform.system(), "linux"), "arch": MACHINES.get(machine, machine)}


def archive(contents: Mapping[str, str]) -> bytes:
    """A package of files without folders, in order (PKG-043 to PKG-045)."""
    target = io.BytesIO()
    with zipfile.ZipFile(target, "w", zipfile.ZIP_DEFLATED) as package:
        for name in sorted(contents):
            entry = zipfile.ZipInfo(name, EPOCH)
            entry.create_system, entry.external_attr = 3, 0o100644 << 16
            entry.compress_type = zipfile.ZIP_DEFLATED
            package.writestr(entry, textwrap.dedent(contents[name]))
    return target.getvalue()


def manifest(number: int, python: str, protocol: int = 3) -> dict[str, Any]:
    """A valid manifest of the program with this number."""
    return {
        "schema_version": 1,
        "program": {"id": f"laboratory-{number}", "version": "1.0.0"},
        "runtime": {"kind": "python", "python": python, "protocol": protocol},
        "handler": "program:handle",
        "platform": host(),
    }


def laboratory() -> str:
    """The source of the program that runs the code which a check sends it."""
    return files(__package__).joinpath("fixtures/laboratory/program.py").read_text(encoding="utf-8")


def publish(store: Path, source: str, document: Mapping[str, Any]) -> dict[str, Any]:
    """Publish a package of this manifest and one module; its descriptor."""
    content = archive({"ledgence-program.json": json.dumps(document), "program.py": source})
    return put(store, content, document["program"])


def put(store: Path, content: bytes, program: Mapping[str, str]) -> dict[str, Any]:
    """Write an archive, whatever is in it, into the store; its descriptor."""
    hexadecimal = hashlib.sha256(content).hexdigest()
    descriptor = {"program": dict(program), "digest": f"sha256:{hexadecimal}", "size": len(content)}
    blob = store / "blobs" / f"{hexadecimal}.zip"
    label = store / "programs" / program["id"] / program["version"] / "descriptor.json"
    for path, data in ((blob, content), (label, json.dumps(descriptor, separators=(",", ":")).encode())):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)
    return descriptor
