"""What a `package-lock.json` of ours names, installed below `.envs`.

`tools/npm` has mermaid, openapi-typescript and typescript; `tools/bench/npm` a peer that we measure ourselves against.
"""

from __future__ import annotations

import hashlib
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
SOURCE = ROOT / "tools/npm"
PLACE = ROOT / ".envs/npm"


def ensure(source: Path = SOURCE, place: Path = PLACE) -> Path | None:
    """The `node_modules` folder, made from the lock file when it changed; None, and a line that says so, without npm.

    Raises CalledProcessError when npm fails, for instance because its registry cannot be reached.
    """
    if shutil.which("npm") is None or shutil.which("node") is None:
        print("SKIPPED: this machine has no node and npm", file=sys.stderr, flush=True)
        return None
    lock = source / "package-lock.json"
    wanted = hashlib.sha256(lock.read_bytes()).hexdigest()
    stamp = place / "stamp"
    if not stamp.exists() or stamp.read_text() != wanted:
        print(f"dev: installing npm packages from {lock.relative_to(ROOT)} (once)", file=sys.stderr, flush=True)
        place.mkdir(parents=True, exist_ok=True)
        stamp.unlink(missing_ok=True)
        for file in (source / "package.json", lock):
            shutil.copy(file, place)
        subprocess.run(["npm", "ci", "--ignore-scripts", "--no-audit", "--no-fund", "--silent"], cwd=place, check=True)
        stamp.write_text(wanted)
    return place / "node_modules"
