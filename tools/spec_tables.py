"""Write the tables of `spec/` that are made from data: limits, errors, routes, states.

    python tools/spec_tables.py            write every table anew
    python tools/spec_tables.py --check    change nothing; fail and name the tables that are not as their data say

A table stands between `<!-- from: WHAT -->` and `<!-- end -->`. WHAT is one of `limits.json`, `errors.json`,
`errors.json publication`, `routes.json`, `routes.json PATH` (those that begin so), `routes.json optional`,
`states.json transitions.MACHINE`, `states.json vocabularies`.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from protocol3_spec import Limit, errors, limits, routes, transitions, vocabularies
from protocol3_spec.documents import optional_routes
from protocol3_spec.loader import read

SPEC = Path(__file__).resolve().parent.parent / "spec"
MARKER = re.compile(r"^<!-- (?:from: .+|end) -->$", re.MULTILINE)
MARKED = re.compile(r"^<!-- from: (.+?) -->\n(.*?)^<!-- end -->$", re.MULTILINE | re.DOTALL)

#: Headings of the groups of limits.json that are more than the group's name.
GROUPS: Mapping[str, str] = {"documents": "JSON documents", "text": "Text and time", "worker": "Workers"}

#: The chapter of each optional profile.
PROFILES: Mapping[str, str] = {
    "approvals": "30-approvals.md",
    "completions": "31-completions.md",
    "dispatch-claims": "32-dispatch-claims.md",
    "retention": "33-retention.md",
    "package-upload": "34-package-upload.md",
    "virtual-time": "35-testing-profiles.md",
    "faults": "35-testing-profiles.md",
}
DURATIONS = ((86_400_000, "d"), (3_600_000, "h"), (60_000, "min"), (1000, "s"))


class Unknown(Exception):
    """A marker that names no table."""


def main(words: list[str], folder: Path = SPEC) -> int:
    checking = "--check" in words
    same = wrong = 0
    for path in sorted(folder.glob("*.md")):
        text = path.read_text(encoding="utf-8")
        try:
            written = MARKED.sub(_filled, text)
        except Unknown as unknown:
            print(f"{path.name}: {unknown}")
            wrong += 1
            continue
        if len(MARKER.findall(text)) != 2 * len(MARKED.findall(text)):
            print(f"{path.name}: a marker without its other half")
            wrong += 1
        pairs = zip(MARKED.finditer(text), MARKED.finditer(written), strict=True)
        drifted = [old[1] for old, new in pairs if old[0] != new[0]]
        same += len(MARKED.findall(text)) - len(drifted)
        if checking:
            wrong += len(drifted)
            for what in drifted:
                print(f"{path.name}: the table from {what} is not what the data say: run python tools/spec_tables.py")
        elif drifted:
            path.write_text(written, encoding="utf-8")
            same += len(drifted)
            print(f"wrote {path.name}: {', '.join(drifted)}")
    print(f"{same} passed, {wrong} failed")
    return 1 if wrong else 0


def _filled(marked: re.Match[str]) -> str:
    return f"<!-- from: {marked[1]} -->\n" + "".join(f"{line}\n" for line in table(marked[1])) + "<!-- end -->"


def table(what: str) -> Iterable[str]:
    """The lines of one table. Raises Unknown."""
    source, _, part = what.partition(" ")
    of, _, name = part.partition(".")
    match source, of:
        case "limits.json", "":
            return _limits()
        case "errors.json", "":
            return _errors()
        case "errors.json", "publication":
            return _publication_errors()
        case "routes.json", "optional":
            return _optional_routes()
        case "routes.json", prefix if found := [route for route in routes() if route["path"].startswith(prefix)]:
            return _routes(found)
        case "states.json", "transitions" if name in ("task", "workflow"):
            return _transitions(name)
        case "states.json", "vocabularies" if not name:
            return _vocabularies()
    raise Unknown(f"there is no table {what!r}")


def rows(head: Iterable[str], cells: Iterable[Iterable[str]]) -> Iterator[str]:
    """A Markdown table."""
    names = [*head]
    yield f"| {' | '.join(names)} |"
    yield "|" + "---|" * len(names)
    for row in cells:
        escaped = [cell.replace("|", r"\|") for cell in row]
        yield f"| {' | '.join(escaped)} |".replace("|  |", "| |")


def _limits() -> Iterator[str]:
    groups: dict[str, list[Limit]] = {}
    for limit in limits().values():
        groups.setdefault(limit.group, []).append(limit)
    yield ""
    for group, members in groups.items():
        yield f"### {GROUPS.get(group, group.capitalize())}"
        yield ""
        yield from rows(
            ("Name", "Number", "Of what", "Counted", "Said by"),
            (
                (
                    f"`{one.name}`",
                    number(one),
                    one.about + _within(one.profile),
                    one.counted,
                    ", ".join(one.requirements),
                )
                for one in members
            ),
        )
        yield ""


def _errors() -> Iterator[str]:
    return rows(
        ("Code", "Status", "`message`", "Meaning"),
        (
            (
                f"`{one.code}`",
                ", ".join(map(str, one.statuses)),
                "yes" if one.message else "no",
                one.meaning + (" (transport)" if one.level == "transport" else "") + _within(one.profile),
            )
            for one in errors().values()
        ),
    )


def _publication_errors() -> Iterator[str]:
    return rows(
        ("Code", "Status", "Meaning"),
        (
            (f"`{code}`", ", ".join(map(str, error["statuses"])), error["meaning"])
            for code, error in read("errors.json")["publication"].items()
        ),
    )


def _routes(found: Iterable[Mapping[str, Any]]) -> Iterator[str]:
    return rows(("Route", "Takes, at most", "Answers with, at most"), map(_route, found))


def _optional_routes() -> Iterator[str]:
    linked = {profile: f"[{profile}]({chapter})" for profile, chapter in PROFILES.items()}
    return rows(
        ("Route", "Profile", "Takes, at most", "Answers with, at most"),
        ((path, linked[route["profile"]], *sizes) for route in optional_routes() for path, *sizes in [_route(route)]),
    )


def _route(route: Mapping[str, Any]) -> tuple[str, str, str]:
    takes = [_taken(route), bound(route.get("request_limit") or route["query_limit"])]
    answers = [_schema(route["reply"]), *([bound(route["reply_limit"])] if "reply_limit" in route else [])]
    return f"`{route['method']} {route['path']}`", ", ".join(filter(None, takes)), ", ".join(answers)


def _taken(route: Mapping[str, Any]) -> str:
    if "request" in route:
        return _schema(route["request"])
    if "media_type" in route:
        return f"`{route['media_type']}`"
    asked = words_of(route["query"])
    optional = words_of(route["optional_query"])
    return " ".join([*(["query", asked] if asked else []), *(["and perhaps", optional] if optional else [])])


def _schema(name: str) -> str:
    return f"[{name}](protocol3_spec/schemas/{name}.json)"


def _transitions(machine: str) -> Iterator[str]:
    return rows(
        ("From", "Event", "To"),
        ((f"`{one.source}`" if one.source else "", one.event, f"`{one.target}`") for one in transitions(machine)),
    )


def _vocabularies() -> Iterator[str]:
    return rows(
        ("Set", "Words", "Parts", "Said by"),
        (
            (
                f"`{one.name}`" + _within(one.profile),
                words_of(one.values),
                "; ".join(f"*{name}*: {words_of(part)}" for name, part in one.subsets.items()),
                ", ".join(one.requirements),
            )
            for one in vocabularies().values()
        ),
    )


def _within(profile: str | None) -> str:
    return f" ([{profile}]({PROFILES[profile]}))" if profile else ""


def words_of(values: Iterable[str]) -> str:
    return ", ".join(f"`{value}`" for value in values)


def bound(name: str) -> str:
    """A size with the name of its limit."""
    return f"{size(limits()[name].value)} (`{name}`)"


def number(limit: Limit) -> str:
    """The exact number with its unit, and in larger units where that is exact too."""
    if limit.unit == "integer":
        return grouped(limit.value)
    exact = f"{grouped(limit.value)} {limit.unit}"
    shown = {"bytes": size, "ms": duration}.get(limit.unit, lambda _: exact)(limit.value)
    return exact if shown == exact else f"{exact} ({shown})"


def grouped(value: int) -> str:
    """Digits in groups of three from five digits on, held together by no-break spaces."""
    return f"{value:,}".replace(",", "\u00a0") if abs(value) >= 10_000 else str(value)


def size(value: int) -> str:
    for factor, unit in ((1 << 30, "GiB"), (1 << 20, "MiB"), (1 << 10, "KiB")):
        if value >= factor and value % factor == 0:
            return f"{value // factor} {unit}"
    return f"{grouped(value)} bytes"


def duration(value: int) -> str:
    for factor, unit in DURATIONS:
        if value >= factor and value % factor == 0:
            return f"{value // factor} {unit}"
    return f"{grouped(value)} ms"


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
