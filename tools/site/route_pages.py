"""The routes as one page: what each takes, answers and refuses."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from page_text import Linker

from protocol3_spec import errors, routes
from protocol3_spec.documents import optional_routes
from protocol3_spec.loader import read
from spec_tables import bound

PATH = "routes/index.md"
GROUPS = (("/v1/workflows", "Workflows"), ("/v1/tasks", "Tasks"), ("/v1/attempts", "Tasks"), ("/v1/", "Delivery"))
HEAD = """\
# Routes

Made from the same data as [openapi.json](../spec/protocol3_spec/openapi.json). [HTTP](../spec/03-http.md) says in which
order a request is judged, [Errors](../spec/04-errors.md) what each code means. `GET /health/live` and
`GET /health/ready` are [there](../spec/03-http.md#health), too.
"""


def page(linker: Linker) -> tuple[str, str]:
    groups: dict[str, list[Mapping[str, Any]]] = {}
    for route in routes():
        title = next(title for prefix, title in GROUPS if route["path"].startswith(prefix))
        groups.setdefault(title, []).append(route)
    for route in optional_routes():
        groups.setdefault(f"Profile {route['profile']}", []).append(route)
    lines = [HEAD]
    for title in sorted(groups, key=lambda title: title.startswith("Profile")):
        lines += [f"## {title}", ""]
        for route in groups[title]:
            lines += [*_route(linker, route), ""]
    return PATH, "\n".join(lines) + "\n"


def _route(linker: Linker, route: Mapping[str, Any]) -> Iterator[str]:
    yield f"### `{route['method']} {route['path']}` {{#{route['operation']}}}"
    yield ""
    yield linker.text(PATH, f"{route['summary']}. {', '.join(route['requirements'])}")
    yield ""
    if "request" in route:
        yield f"- takes {_schema(route['request'])}, at most {linker.text(PATH, bound(route['request_limit']))}"
    elif "media_type" in route:
        yield f"- takes `{route['media_type']}`, at most {linker.text(PATH, bound(route['request_limit']))}"
    else:
        yield f"- takes a query of at most {linker.text(PATH, bound(route['query_limit']))}"
    reply = f", at most {linker.text(PATH, bound(route['reply_limit']))}" if "reply_limit" in route else ""
    yield f"- answers with {_schema(route['reply'])}{reply}"
    refusals = ", ".join(map(_refusal, route["errors"])) or "none"
    yield f"- refuses with {_schema(route.get('error', 'error'))}: {refusals}"
    query = read("routes.json")["query"]
    names = [*route.get("query", []), *route.get("optional_query", [])]
    if names:
        yield from ["", "| Member of the query | Type | |", "|---|---|---|"]
        for name in names:
            optional = "" if name in route["query"] else " <small>optional</small>"
            schema = query[name]["schema"]
            kind = f"[{schema}](../schemas/scalars.md#{schema.lower()})"
            yield f"| `{name}`{optional} | {kind} | {linker.text(PATH, query[name]['about'])} |"


def _refusal(code: str) -> str:
    statuses = errors()[code].statuses if code in errors() else read("errors.json")["publication"][code]["statuses"]
    return f"{'/'.join(map(str, statuses))} `{code}`"


def _schema(name: str) -> str:
    return f"[{name}](../schemas/{name}.md)"
