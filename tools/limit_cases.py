"""The cases of the limit recipes: how many units, which verdict, how many bytes: fixtures/vectors/limit-cases.json.

    python tools/limit_cases.py            write them
    python tools/limit_cases.py --check    change nothing; fail if the file is not as it would be written

For authors who expand the recipes in another language: `compact_bytes` and `sha256` of the compact text say whether
they came to the same message.
"""

from __future__ import annotations

import hashlib
import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

from protocol3.contract import strict_json
from protocol3_spec import boundaries, schemas

VECTORS: Final = Path(__file__).resolve().parent.parent / "fixtures/vectors"
CASES: Final = VECTORS / "limit-cases.json"
OWNER: Final = schemas()["lease-owner"]["examples"][0]
REPORT: Final = schemas()["completed-report"]["examples"][0]
BINDINGS: Final[dict[str, Any]] = {
    "tenant": "north",
    "namespace": "reports",
    "queue": "py",
    "children": "children",
    "key": "key-1",
    "program": {"id": "monthly", "version": "2.1.0"},
    "traceparent": "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
    "task_id": "task_7",
    "workflow_id": "wf_7",
    "activation_id": "task_7",
    "revision": 0,
    "session": "ws_1",
    "owner": OWNER,
    "identity": {
        name: value
        for name, value in REPORT.items()
        if name not in ("process_id", "reused_process", "elapsed_ms", "outcome")
    },
}


def rows() -> Iterator[dict[str, Any]]:
    """A case each, in the order of `protocol3_spec.boundaries.cases`."""
    vectors = json.loads((VECTORS / "limits.json").read_text(encoding="utf-8"))
    for number, recipe in enumerate(vectors["recipes"]):
        message = vectors["messages"][recipe["message"]]
        template = next(message[name] for name in ("body", "query", "decision") if name in message)
        for case in boundaries.cases(recipe):
            row = {"recipe": number, "flavour": case.flavour, "units": case.units, "fits": case.fits}
            if recipe["unit"] not in ("raw", "query"):
                text = strict_json.encode(boundaries.document(case, template, BINDINGS))
                row |= {"compact_bytes": len(text), "sha256": hashlib.sha256(text).hexdigest()}
            yield row


def main() -> int:
    lines = ",\n".join(f"  {json.dumps(row)}" for row in rows())
    text = f'{{\n "format": 1,\n "bindings": {json.dumps(BINDINGS)},\n "cases": [\n{lines}\n ]\n}}\n'
    if "--check" not in sys.argv[1:]:
        CASES.write_text(text, encoding="utf-8")
        return 0
    same = CASES.exists() and CASES.read_text(encoding="utf-8") == text
    print(f"{int(same)} passed, {int(not same)} failed")
    return 0 if same else 1


if __name__ == "__main__":
    sys.exit(main())
