"""A failing history as a script that runs anywhere: the source of `replay` with the calls in it."""

from __future__ import annotations

import json
import textwrap
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from protocol3_conformance.stateful import replay
from protocol3_conformance.stateful.history import Call

PLACE = "CALLS: list[dict[str, Any]] = []\n"
HEAD = '''#!/usr/bin/env python3
"""{title}

{told}

    python3 {name} http://127.0.0.1:8080

prints the calls and the first answer that differs, and ends with 1 then, with 0 when all are as expected. Each run has
names of its own. How the calls below are written is told behind them.
"""

'''


def export(folder: Path, check_id: str, title: str, told: str, calls: list[Call]) -> Path:
    """Write the script; its path. The name is that of the check. Raises OSError."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{check_id.replace('/', '-')}.py"
    path.write_text(text_of(path.name, title, told, needed(calls)), encoding="utf-8")
    return path


def text_of(name: str, title: str, told: str, calls: list[Call]) -> str:
    source = Path(replay.__file__).read_text(encoding="utf-8")
    listed = ",\n".join(json.dumps(call, ensure_ascii=True) for call in calls)
    assert PLACE in source
    literal = f'CALLS: list[dict[str, Any]] = json.loads(r"""[\n{listed}\n]""")\n'
    safe = ascii(told)[1:-1].replace("\\n", "\n").replace('"', "'")
    docstring, _, rest = source.partition("from __future__")
    about = textwrap.indent(docstring.strip().strip('"'), "# ").strip()
    head = HEAD.format(title=title, told=textwrap.indent(safe, "    "), name=name)
    return f"{head}{'from __future__'}{rest.replace(PLACE, literal)}".replace("CALLS: list", f"{about}\nCALLS: list", 1)


def needed(calls: list[Call]) -> list[Call]:
    """The calls without reads that nothing depends on: they change nothing (TASK-120, WF-041)."""
    kept: list[Call] = []
    used: set[int] = set()
    for call in reversed(calls):
        if call is calls[-1] or call["method"] != "GET" or call.get("until") or call["number"] in used:
            kept.insert(0, call)
            used.update(number for number in _references([call["query"], call["body"], call["expect"]]))
    return kept


def _references(value: Any) -> Iterator[int]:
    if isinstance(value, list):
        for item in value:
            yield from _references(item)
    elif isinstance(value, dict):
        for name, item in value.items():
            if name in ("$ref", "$optional"):
                yield item[0]
            else:
                yield from _references(item)
