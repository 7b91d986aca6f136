"""Keep the schemas and the OpenAPI document in step with limits.json, states.json, errors.json and routes.json.

    python tools/schemas.py            fill in numbers and words, lay the files out, write openapi.json
    python tools/schemas.py --check    change nothing; fail and name the files that are not as they would be written

In a schema `x-limits` names the limit behind each number beside it, `x-words` the closed set of words behind an enum.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from protocol3_spec import errors, limits, vocabularies
from protocol3_spec.loader import read

ROOT = Path(__file__).resolve().parent.parent
SPEC = ROOT / "spec/protocol3_spec"
BASE = "https://protocol3.example/schemas/1.0/"
WIDTH = 100

BOUNDS = {
    *("minimum", "maximum", "minLength", "maxLength", "minItems", "maxItems", "minProperties", "maxProperties"),
    *("x-utf8-bytes", "x-compact-bytes", "x-normalized-bytes", "x-depth"),
}
"""Keywords whose number is a rule of the contract: 0 and 1 may stand alone, any other has a name."""

TAGS = {
    "tasks": "Tasks: submission, observation, discovery, cancellation.",
    "delivery": "Delivery: worker sessions, acquisitions, leases, settlement.",
    "workflows": "Workflows: controllers, their journal, forks, events.",
    "health": "Whether the service runs and takes work.",
}
PROFILES = "Routes of the optional profile `{}`."
SUCCESSES = {200: "Done, or done before.", 201: "Done now."}
CACHE_CONTROL = {"$ref": "#/components/headers/CacheControl"}
PREAMBLE = """\
The routes of a coordinator of Ledgence runtime protocol 3. Made from data; the chapters of the specification decide.
An operation with `x-profile` belongs to that profile, any other to `core`; a coordinator that does not offer a profile
answers as HTTP-042 says.

- Bodies are strict JSON: no repeated member names, integer and float tokens kept apart, no unknown members. What JSON
  Schema cannot say stands in the `x-` keywords that schema-vocabulary.md describes.
- Every reply of `/v1` carries `Cache-Control: no-store` and a fresh `Request-Id`.
- Paths are compared as they come. An unknown one is 404 `{"code":"route_not_found"}`, another method is 405
  `{"code":"method_not_allowed"}` with `Allow`. Neither code belongs to an operation.
- 503 says nothing about what was stored: repeat the identical command.
"""


def main() -> int:
    wanted = dict(schema_files())
    wanted[SPEC / "openapi.json"] = openapi(json.loads((SPEC / "routes.json").read_text()))
    texts = {path: pretty(document) + "\n" for path, document in wanted.items()}
    drifted = [path for path, text in texts.items() if not path.exists() or path.read_text() != text]
    if "--check" not in sys.argv[1:]:
        for path in drifted:
            path.write_text(texts[path])
            print(f"wrote {path.relative_to(ROOT)}")
        return 0
    for path in drifted:
        print(f"{path.relative_to(ROOT)} is not what its sources say: run python tools/schemas.py")
    print(f"{len(texts) - len(drifted)} passed, {len(drifted)} failed")
    return 1 if drifted else 0


def schema_files() -> Iterator[tuple[Path, Any]]:
    """Every schema file with its numbers and words filled in, and the routes, which only want their layout."""
    for path in sorted((SPEC / "schemas").glob("*.json")):
        schema = json.loads(path.read_text())
        if schema["$id"] != f"{BASE}{path.name}":
            sys.exit(f"{path.relative_to(ROOT)}: $id must be {BASE}{path.name}")
        yield path, filled(schema, path.name)
    for path in [*sorted((SPEC / "schemas/meta").glob("*.json")), SPEC / "routes.json"]:
        yield path, json.loads(path.read_text())


def filled(value: Any, at: str) -> Any:
    """The schema with every named number and set of words in place. Exits for a name that does not exist."""
    if isinstance(value, list):
        return [filled(item, f"{at}/{index}") for index, item in enumerate(value)]
    if not isinstance(value, dict):
        return value
    schema = {name: filled(item, f"{at}/{name}") for name, item in value.items()}
    named = schema.get("x-limits", {})
    for place, limit in named.items():
        if limit not in limits():
            sys.exit(f"{at}: limits.json has no {limit}")
        *way, last = place.split("/")
        holder = schema
        for step in way:
            holder = holder[step]
        if last not in holder:
            sys.exit(f"{at}: x-limits names {place}, which is not there")
        holder[last] = limits()[limit].value
    if "x-words" in schema:
        schema["enum"] = words(schema["x-words"], at)
    for name in BOUNDS & schema.keys() - named.keys():
        if isinstance(schema[name], int) and schema[name] not in (0, 1):
            sys.exit(f"{at}: {name} {schema[name]} needs the name of its limit in x-limits")
    return schema


def words(name: str, at: str) -> list[str]:
    """A set of states.json, one of its subsets (`task_state.terminal`), or the error codes by their message."""
    of, _, part = name.partition(".")
    if of == "error_code":
        return [code for code, error in errors().items() if error.message == (part == "with_message")]
    if of not in vocabularies() or (part and part not in vocabularies()[of].subsets):
        sys.exit(f"{at}: states.json has no {name}")
    return list(vocabularies()[of].subsets[part] if part else vocabularies()[of].values)


def openapi(table: dict[str, Any]) -> dict[str, Any]:
    """The OpenAPI document of the routes; it refers to the schema files."""
    paths: dict[str, Any] = {}
    every = [*table["routes"], *table["optional"]]
    for route in every:
        tag = route["profile"] if route in table["optional"] else tag_of(route["path"])
        paths.setdefault(route["path"], {})[route["method"].lower()] = operation(route, tag)
    paths["/health/live"] = {"get": probe("live", "health-live", ["HTTP-090", "HTTP-023"], {"200": "It serves."})}
    ready = {"200": "It takes work.", "503": "It does not take work, and says why."}
    paths["/health/ready"] = {"get": probe("ready", "health-ready", ["HTTP-091", "HTTP-023"], ready)}
    visible = {"type": "string", "pattern": "^[!-~]+$", "minLength": 1, "maxLength": limits()["REQUEST_ID_CHARS"].value}
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "Ledgence runtime protocol 3",
            "version": "1.0",
            "description": PREAMBLE,
            "license": {"name": "MIT", "identifier": "MIT"},
        },
        "servers": [{"url": "/", "description": "Wherever the service is; a path prefix is kept (HTTP-005)."}],
        "tags": [{"name": name, "description": text} for name, text in tags(table["optional"]).items()],
        "security": [],
        "paths": paths,
        "components": {
            "headers": {
                "RequestId": header("Fresh for every exchange (HTTP-062).", visible),
                "CacheControl": header("Replies are not for caches (HTTP-061, HTTP-093).", {"const": "no-store"}),
            },
            "parameters": {
                name: {
                    "name": name,
                    "in": "query",
                    "description": query["about"],
                    "required": any(name in route.get("query", ()) for route in every),
                    "schema": {"$ref": f"schemas/scalars.json#/$defs/{query['schema']}"},
                }
                for name, query in table["query"].items()
                if any(name in [*route.get("query", ()), *route.get("optional_query", ())] for route in every)
            },
        },
    }


def operation(route: dict[str, Any], tag: str) -> dict[str, Any]:
    made: dict[str, Any] = {
        "operationId": route["operation"],
        "tags": [tag],
        "summary": route["summary"],
        **({"x-profile": route["profile"]} if "profile" in route else {}),
        "x-requirements": route["requirements"],
    }
    if "request_limit" in route:
        made["x-request-bytes"] = limits()[route["request_limit"]].value
        made["requestBody"] = {"required": True, "content": content_of(route)}
    else:
        made["x-query-bytes"] = limits()[route["query_limit"]].value
    if given := [*parameters(route)]:
        made["parameters"] = given
    if "reply_limit" in route:
        made["x-reply-bytes"] = limits()[route["reply_limit"]].value
    schema = {"$ref": f"schemas/{route['reply']}.json"}
    replies = {str(status): reply(SUCCESSES[status], schema) for status in route.get("statuses", [200])}
    made["responses"] = replies | refusals(route)
    return made


def content_of(route: dict[str, Any]) -> dict[str, Any]:
    """What a body is: a message, or bytes of a media type of their own."""
    return json_of({"$ref": f"schemas/{route['request']}.json"}) if "request" in route else {route["media_type"]: {}}


def parameters(route: dict[str, Any]) -> Iterator[dict[str, Any]]:
    for name in [*route.get("query", ()), *route.get("optional_query", ())]:
        yield {"$ref": f"#/components/parameters/{name}"}
    for name, part in route.get("in_path", {}).items():
        schema = {"$ref": f"schemas/scalars.json#/$defs/{part['schema']}"}
        yield {"name": name, "in": "path", "description": part["about"], "required": True, "schema": schema}
    for name, field in route.get("headers", {}).items():
        yield {"name": name, "in": "header"} | header(field["about"], {"type": "string", "pattern": field["pattern"]})


def refusals(route: dict[str, Any]) -> dict[str, Any]:
    """A reply for every status that the route's error codes travel with; only a body can be too large or foreign."""
    known = {code: (error.statuses, error.meaning) for code, error in errors().items()}
    for code, error in read("errors.json")["publication"].items():
        known[code] = (tuple(error["statuses"]), error["meaning"])
    by_status: dict[int, list[str]] = {}
    for code in route["errors"]:
        statuses, _ = known[code]
        for status in statuses if "request_limit" in route else statuses[:1]:
            by_status.setdefault(status, []).append(code)
    return {
        str(status): reply(
            "; ".join(f"`{code}`: {known[code][1]}" for code in codes) + ".",
            {"$ref": f"schemas/{route.get('error', 'error')}.json", "properties": {"code": {"enum": codes}}},
        )
        for status, codes in sorted(by_status.items())
    }


def reply(description: str, schema: dict[str, Any]) -> dict[str, Any]:
    headers = {"Request-Id": {"$ref": "#/components/headers/RequestId"}, "Cache-Control": CACHE_CONTROL}
    return {"description": description, "headers": headers, "content": json_of(schema)}


def probe(name: str, schema: str, requirements: list[str], statuses: dict[str, str]) -> dict[str, Any]:
    """A health route: no scope, no Request-Id; HEAD mirrors it without a body."""
    headers = {"Cache-Control": CACHE_CONTROL}
    content = json_of({"$ref": f"schemas/{schema}.json"})
    return {
        "operationId": f"health_{name}",
        "tags": ["health"],
        "summary": f"Whether the service is {'alive' if name == 'live' else name}",
        "x-requirements": requirements,
        "responses": {
            status: {"description": text, "headers": headers, "content": content} for status, text in statuses.items()
        },
    }


def header(description: str, schema: dict[str, Any]) -> dict[str, Any]:
    return {"description": description, "required": True, "schema": schema}


def json_of(schema: dict[str, Any]) -> dict[str, Any]:
    return {"application/json": {"schema": schema}}


def tags(optional: list[dict[str, Any]]) -> dict[str, str]:
    """Every tag with what it says: the parts of the protocol, then the optional profiles."""
    return TAGS | {route["profile"]: PROFILES.format(route["profile"]) for route in optional}


def tag_of(path: str) -> str:
    if path.startswith("/v1/workflows"):
        return "workflows"
    return "tasks" if path.startswith(("/v1/tasks", "/v1/attempts")) else "delivery"


def pretty(value: Any, indent: str = "") -> str:
    """JSON text in which whatever fits a line stands on one."""
    line = json.dumps(value)
    if not isinstance(value, dict | list) or not value or len(indent) + len(line) <= WIDTH:
        return line
    inner = indent + "  "
    if isinstance(value, dict):
        parts = [f"{inner}{json.dumps(name)}: {pretty(item, inner)}" for name, item in value.items()]
        return "{\n" + ",\n".join(parts) + f"\n{indent}}}"
    return "[\n" + ",\n".join(inner + pretty(item, inner) for item in value) + f"\n{indent}]"


if __name__ == "__main__":
    sys.exit(main())
