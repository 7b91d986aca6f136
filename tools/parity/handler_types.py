"""What `mypy --strict` says of handler files against ours and against a release: the same codes on the same lines.

Most published functions carry no annotations. So what mypy says there for this reason alone is left out, and a line
marked `# stricter` is one where only ours can be judged; a mark that no release needs is a difference as well.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

from parity.runtime import OURS, ROOT

FILES = Path(__file__).with_name("typed")
MESSAGE = re.compile(r"(?P<file>[\w.]+):(?P<line>\d+): error: .*\[(?P<code>[\w-]+)\]$")
UNTYPED = frozenset({"no-untyped-call", "untyped-decorator"})
MARK = "# stricter"

Place = tuple[str, int]


def compare(homes: dict[str, Path]) -> list[str]:
    """One sentence for every line that is judged otherwise; `homes` are bootstrap files by release."""
    ours = _judge(OURS)
    marked = _marked()
    found = []
    for release, bootstrap in homes.items():
        theirs = _judge(bootstrap)
        for place in sorted(ours.keys() | theirs.keys() | marked):
            mine, other = ours.get(place, set()), theirs.get(place, set())
            if (place in marked) if mine == other else not (place in marked and mine > other):
                where = f"{place[0]}:{place[1]}"
                found.append(f"types of {release}, {where}: ours {sorted(mine)}, theirs {sorted(other)}")
    return found


def _marked() -> set[Place]:
    return {
        (path.name, number)
        for path in FILES.glob("*.py")
        for number, line in enumerate(path.read_text().splitlines(), start=1)
        if line.endswith(MARK)
    }


def _judge(bootstrap: Path) -> dict[Place, set[str]]:
    """Error codes by line, for handlers that find the helper of `bootstrap`."""
    root = bootstrap.parents[2]
    cache = ROOT / "build" / "parity" / "mypy" / ("ours" if bootstrap == OURS else bootstrap.parents[5].name)
    command = [sys.executable, "-m", "mypy", "--config-file=", "--strict", "--no-error-summary", f"--cache-dir={cache}"]
    if bootstrap == OURS:
        command.append("--no-site-packages")
        variables = {"MYPYPATH": str(root)}
    else:
        command.append(f"--python-executable={bootstrap.parents[5] / 'bin' / 'python'}")
        variables = {"MYPYPATH": ""}
    files = [path.name for path in sorted(FILES.glob("*.py"))]
    done = subprocess.run(
        [*command, *files], cwd=FILES, env=os.environ | variables, check=False, capture_output=True, text=True
    )
    found: dict[Place, set[str]] = {}
    for line in done.stdout.splitlines():
        match = MESSAGE.match(line)
        if match and match["code"] not in UNTYPED:
            found.setdefault((match["file"], int(match["line"])), set()).add(match["code"])
    if done.returncode not in (0, 1) or not found:  # the files have mistakes, so silence is a failure of mypy
        raise RuntimeError(f"mypy failed: {done.stdout}{done.stderr}")
    return found
