"""The form of a transcript: what stands for an exchange, what is made the same for every run, how it is written."""

from __future__ import annotations

import json
import re
import urllib.parse
from datetime import UTC, datetime, timedelta
from typing import Any, cast

from protocol3_spec import routes
from protocol3_spec.documents import optional_routes
from protocol3_spec.validation import problems

WIDTH = 118

#: What every transcript has in place of the moment, the process and the platform of its recording.
START_MS, PID, DIGEST, SIZE = 1_772_366_400_000, 4711, "sha256:" + "ab" * 32, 1927
IDS = re.compile(r"\b(?:(att|evt|lease|run|task|wf|ws)_[0-9a-f]{44}|(fault|held)_[0-9]+)\b")
LATEST_MS = 253_402_300_799_999

Exchange = dict[str, Any]


def asked(sender: str, method: str, path: str, body: bytes) -> Exchange:
    """An exchange without its reply. That stays None where the sender never read one."""
    route, _, query = path.partition("?")
    content: Exchange = {"query": dict(urllib.parse.parse_qsl(query))} if query else {"request": json.loads(body)}
    return {"from": sender, "method": method, "path": route} | content | {"status": None, "reply": None}


def normalized(exchanges: list[Exchange]) -> list[Exchange]:
    """The same for every run, but for instants (all later than the first by as much as they were) and durations."""
    numbers: dict[str, int] = {}
    names: dict[str, str] = {}

    def name(found: re.Match[str]) -> str:
        kind = found[1] or found[2]
        if found[0] not in names:
            numbers[kind] = numbers.get(kind, 0) + 1
            names[found[0]] = f"{kind}_{numbers[kind]}"
        return names[found[0]]

    text = IDS.sub(name, json.dumps(exchanges))
    first = exchanges[0]["reply"]["submitted_at"]

    def moved(value: Any, member: str = "") -> Any:
        if isinstance(value, dict):
            return {key: moved(one, key) for key, one in value.items()}
        if isinstance(value, list):
            return [moved(one) for one in value]
        match member:
            case "digest":
                return DIGEST
            case "size":
                return SIZE
            case "process_id":
                return PID
            case "time":
                instant = datetime.fromisoformat(value) + timedelta(milliseconds=START_MS - first)
                return instant.astimezone(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
        is_instant = type(value) is int and first <= value <= LATEST_MS
        return value - first + START_MS if is_instant else value

    return cast(list[Exchange], moved(json.loads(text)))


def schemas_of(one: Exchange) -> tuple[str | None, str]:
    """Names of the schemas of request and reply."""
    known = {(route["method"], route["path"]): route for route in (*routes(), *optional_routes())}
    route = known[one["method"], one["path"]]
    return route.get("request"), route["reply"] if one["status"] in (200, None) else "error"


def invalid(exchanges: list[Exchange]) -> list[str]:
    """Messages that break their schema."""
    found = []
    for number, one in enumerate(exchanges, 1):
        for schema, told in zip(schemas_of(one), (one.get("request"), one["reply"]), strict=True):
            if schema is not None and told is not None:
                found += [f"{number} {schema}: {problem}" for problem in problems(schema, told)]
    return found


def folded(value: Any, indent: int = 0, lead: int = 0) -> str:
    """JSON that stays on one line where it fits beside `lead` characters, else one member or item a line."""
    line = json.dumps(value, ensure_ascii=False)
    if len(line) + lead + indent <= WIDTH or not isinstance(value, dict | list) or not value:
        return line
    inside = indent + 2
    if isinstance(value, dict):
        keys = {key: f"{json.dumps(key)}: " for key in value}
        parts = [shown + folded(value[key], inside, len(shown) + 1) for key, shown in keys.items()]
    else:
        parts = [folded(one, inside, 1) for one in value]
    opening, closing = "{}" if isinstance(value, dict) else "[]"
    between = ",\n" + " " * inside
    return f"{opening}\n{' ' * inside}{between.join(parts)}\n{' ' * indent}{closing}"
