"""Which checks score for a revision of the specification: `spec/protocol3_spec/revisions/NAME.json`.

    python tools/revisions.py [NAME]             what is wrong with the set, and the checks that do not score
    python tools/revisions.py [NAME] --write     take all checks there are into the set of a draft
    python tools/revisions.py [NAME] --freeze    the same for the last time: the set never changes again

A frozen set is not written; make the next revision with --write NAME.
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
FOLDER = ROOT / "spec" / "protocol3_spec" / "revisions"
sys.path[:0] = [str(ROOT / "conformance"), str(ROOT / "spec")]

from protocol3_conformance import catalogue, revision  # noqa: E402 - after the path


def write(name: str, *, freeze: bool) -> None:
    """Raises SystemExit for a frozen set."""
    path = FOLDER / f"{name}.json"
    if path.exists() and json.loads(path.read_text(encoding="utf-8"))["status"] == "frozen":
        raise SystemExit(f"revision {name} is frozen; later checks belong to the next one")
    checks = revision.sets_of(catalogue.everything().values())
    content = {
        "format": 1,
        "revision": name,
        "status": "frozen" if freeze else "draft",
        "digest": revision.digest(checks),
        "checks": checks,
    }
    FOLDER.mkdir(exist_ok=True)
    path.write_text(json.dumps(content, indent=1) + "\n", encoding="utf-8")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("name", nargs="?", default=revision.CURRENT)
    parser.add_argument("--write", action="store_true")
    parser.add_argument("--freeze", action="store_true")
    arguments = parser.parse_args()
    if arguments.write or arguments.freeze:
        write(arguments.name, freeze=arguments.freeze)
    suite = catalogue.everything()
    found = revision.faults(arguments.name, suite)
    later = sorted(check_id for check_id in suite if not revision.revision(arguments.name).scores(check_id))
    for fault in found:
        print(fault)
    for check_id in later:
        print(f"not scored: {check_id}")
    print(f"revision {arguments.name}: {len(suite) - len(later)} checks score, {len(later)} do not")
    return 1 if found else 0


if __name__ == "__main__":
    raise SystemExit(main())
