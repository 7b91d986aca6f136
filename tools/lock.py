"""Write the lock files anew: exact versions with hashes, for every platform and Python from 3.11."""

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
COMPILE = ["uv", "pip", "compile", "--quiet", "--universal", "--generate-hashes", "--python-version=3.11"]


def main() -> int:
    sources = {"dev": ["pyproject.toml", "--extra=server", "--extra=otel", "--group=dev"]}
    sources |= {path.stem: [f"requirements/{path.name}"] for path in sorted((ROOT / "requirements").glob("*.in"))}
    for name, source in sources.items():
        lock = f"requirements/{name}.txt"
        print(lock)
        done = subprocess.run([*COMPILE, "--no-header", *source, *sys.argv[1:], "-o", lock], cwd=ROOT, check=False)
        if done.returncode != 0:
            return done.returncode
    return 0


if __name__ == "__main__":
    sys.exit(main())
