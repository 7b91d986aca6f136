"""What `tools/npm/package-lock.json` names, installed below `.envs/npm`: mermaid, openapi-typescript, typescript."""

from __future__ import annotations

import hashlib
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
SOURCE = ROOT / "tools/npm"
PLACE = ROOT / ".envs/npm"


def ensure() -> Path | None:
    """The `node_modules` folder, made from the lock file when it changed; None, and a line that says so, without npm.

    Raises CalledProcessError when npm fails, for instance because its registry cannot be reached.
    """
    if shutil.which("npm") is None or shutil.which("node") is None:
        print("SKIPPED: this machine has no node and npm", file=sys.stderr, flush=True)
        return None
    lock = SOURCE / "package-lock.json"
    wanted = hashlib.sha256(lock.read_bytes()).hexdigest()
    stamp = PLACE / "stamp"
    if not stamp.exists() or stamp.read_text() != wanted:
        print("dev: installing npm packages from tools/npm/package-lock.json (once)", file=sys.stderr, flush=True)
        PLACE.mkdir(parents=True, exist_ok=True)
        stamp.unlink(missing_ok=True)
        for file in (SOURCE / "package.json", lock):
            shutil.copy(file, PLACE)
        subprocess.run(["npm", "ci", "--ignore-scripts", "--no-audit", "--no-fund", "--silent"], cwd=PLACE, check=True)
        stamp.write_text(wanted)
    return PLACE / "node_modules"
