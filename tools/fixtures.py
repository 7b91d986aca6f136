"""Preparing the programs of `fixtures/programs` for the running interpreter and this host."""

from __future__ import annotations

import platform
import shutil
import subprocess
import sys
from pathlib import Path

PROGRAMS = Path(__file__).resolve().parent.parent / "fixtures" / "programs"
TEMPLATE = "ledgence-program.template.json"
SYSTEMS = {"Linux": "linux", "Darwin": "macos"}
MACHINES = {"x86_64": "x86_64", "arm64": "aarch64", "aarch64": "aarch64"}


def prepare(program: str, output: Path) -> None:
    """Write the publishable directory of a fixture program.

    The published example prepares itself (PKG-077); the others carry a manifest with `{python}`, `{os}` and `{arch}`
    to fill in. Raises CalledProcessError, or KeyError for a host that no package can be for.
    """
    source = PROGRAMS / program
    if (source / "prepare.py").exists():
        command = [sys.executable, str(source / "prepare.py"), str(output)]
        subprocess.run(command, check=True, stdin=subprocess.DEVNULL, stdout=sys.stderr)
        return
    shutil.copytree(source, output, ignore=shutil.ignore_patterns(TEMPLATE, "__pycache__", "*.md"))
    manifest = (source / TEMPLATE).read_text(encoding="utf-8")
    for place, value in {
        "{python}": f"{sys.version_info.major}.{sys.version_info.minor}",
        "{os}": SYSTEMS[platform.system()],
        "{arch}": MACHINES[platform.machine()],
    }.items():
        manifest = manifest.replace(place, value)
    (output / "ledgence-program.json").write_text(manifest, encoding="utf-8")
