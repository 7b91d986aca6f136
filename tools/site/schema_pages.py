"""A page for every schema: its members with types, bounds and rules, who uses it, its examples."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

from page_text import Linker

from protocol3_spec import limits, routes, schemas
from protocol3_spec.documents import optional_routes
from spec_tables import grouped

Schema = Mapping[str, Any]

#: Keywords that bound a value, with the words for them.
BOUNDS: Mapping[str, str] = {
    "minimum": "at least",
    "maximum": "at most",
    "minLength": "characters, at least",
    "maxLength": "characters, at most",
    "minItems": "items, at least",
    "maxItems": "items, at most",
    "minProperties": "members, at least",
    "maxProperties": "members, at most",
    "x-utf8-bytes": "UTF-8 bytes, at most",
    "x-compact-bytes": "compact bytes, at most",
    "x-normalized-bytes": "bytes in normal form, at most",
    "x-depth": "nested at most",
}
#: Keywords that are shown as they are, where they stand.
RULES = ("x-text", "x-unique-by", "x-equal", "x-differ", "x-ascending", "x-before", "x-span", "x-composed", "format")
LONG = 60
INDEX = """\
# Schemas

{count} JSON Schemas (2020-12), one per message; the [vocabulary](../spec/schema-vocabulary.md) explains
the keywords that begin with `x-`. All of them at once: `protocol3 schemas export DIR --bundle`.

| Schema | What it is |
|---|---|"""


def pages(linker: Linker) -> Iterator[tuple[str, str]]:
    """Path and text of every page, the list of them first."""
    users = used_by()
    lines = [INDEX.format(count=len(schemas()))]
    for name, schema in schemas().items():
        lines.append(f"| [{name}]({name}.md) | {linker.text('schemas/index.md', schema['description'])} |")
    yield "schemas/index.md", "\n".join(lines) + "\n"
    for name, schema in schemas().items():
        yield f"schemas/{name}.md", "\n".join(_page(linker, name, schema, users.get(name, []))) + "\n"


def used_by() -> dict[str, list[str]]:
    """The schemas and routes that refer to a schema, as links."""
    found: dict[str, list[str]] = {}
    for name, schema in schemas().items():
        for target in dict.fromkeys(_references(schema)):
            if target != name:
                found.setdefault(target, []).append(f"[{name}]({name}.md)")
    for route in [*routes(), *optional_routes()]:
        for role in ("request", "reply", "error"):
            if role in route:
                link = f"[{route['method']} {route['path']}](../routes/index.md#{route['operation']}) ({role})"
                found.setdefault(route[role], []).append(link)
    return found


def _references(part: Any) -> Iterator[str]:
    if isinstance(part, Mapping):
        if isinstance(part.get("$ref"), str):
            yield _linked(part["$ref"])[0]
        part = [*part.values()]
    if isinstance(part, list):
        for inner in part:
            yield from _references(inner)


def _linked(reference: str) -> tuple[str, str, str]:
    """The file, the anchor and the name of a `$ref`."""
    file, _, pointer = reference.partition("#")
    name = pointer.rpartition("/")[2]
    return (
        file.removesuffix(".json") or "scalars",
        f"#{name.lower()}" if name else "",
        name or file.removesuffix(".json"),
    )


def _page(linker: Linker, name: str, schema: Schema, users: list[str]) -> Iterator[str]:
    path = f"schemas/{name}.md"
    yield f"# {schema['title']}"
    yield ""
    yield linker.text(path, schema["description"])
    yield ""
    yield f"[`{name}.json`](../spec/protocol3_spec/schemas/{name}.json) · " + _ids(linker, path, schema)
    yield ""
    if users:
        yield f"Used by {', '.join(users)}."
        yield ""
    for title, definition in schema.get("$defs", {}).items():
        yield from ["", f"## {title}", "", linker.text(path, definition.get("description", "")), ""]
        yield from _described(linker, path, definition)
        yield from _examples(definition)
    if "$defs" not in schema or schema.get("type") or schema.get("oneOf"):
        yield from _described(linker, path, schema)
        yield from _examples(schema)


def _described(linker: Linker, path: str, schema: Schema) -> Iterator[str]:
    """Type, bounds and members; every form of a choice by itself."""
    for choice in ("oneOf", "anyOf"):
        if all("properties" in form for form in schema.get(choice, [])) and schema.get(choice):
            yield from ["", "One of these forms:", ""]
            for index, form in enumerate(schema[choice], 1):
                yield from ["", f"### {form.get('title', f'Form {index}')}", ""]
                yield from _described(linker, path, form)
            break
    else:
        if "properties" not in schema:
            yield from [f"**Type**: {kind(schema)}", ""]
    facts = [linker.text(path, fact) for fact in [*_bounds(schema), *_rules(schema)]]
    if facts and "properties" in schema:
        yield from ["As a whole: " + "; ".join(facts) + ".", ""]
    elif facts:
        yield from ["; ".join(facts) + ".", ""]
    if properties := schema.get("properties"):
        required = schema.get("required", [])
        yield from ["", "| Member | Type | Rules | |", "|---|---|---|---|"]
        for member, body in properties.items():
            yield _row(linker, path, member, body, member in required)
        closed = schema.get("additionalProperties") is False or schema.get("unevaluatedProperties") is False
        yield from ["", "No other members." if closed else "Further members are possible.", ""]


def _row(linker: Linker, path: str, member: str, body: Schema, required: bool) -> str:
    rules = [*_bounds(body), *_rules(body)]
    if "default" in body:
        rules.append(f"when left out: {_code(body['default'])}")
    about = body.get("description", "")
    ids = ", ".join(body.get("x-requirements", []))
    last = " ".join(part for part in (about, f"({ids})" if ids else "") if part)
    presence = "" if required else " <small>optional</small>"
    cells = [f"`{member}`{presence}", kind(body), linker.text(path, "; ".join(rules)), linker.text(path, last)]
    return "| " + " | ".join(cell.replace("|", "\\|").replace("\n", " ") for cell in cells) + " |"


def kind(schema: Schema | bool) -> str:
    """The type of a value in words, with a link to the schema that it refers to."""
    if not isinstance(schema, Mapping):
        return "any JSON" if schema else "nothing"
    if "$ref" in schema:
        file, anchor, name = _linked(schema["$ref"])
        return f"[{name}]({file}.md{anchor})"
    if "const" in schema:
        return _code(schema["const"])
    if "enum" in schema:
        return ", ".join(map(_code, schema["enum"]))
    for choice in ("anyOf", "oneOf"):
        if choice in schema:
            return " or ".join(kind(form) for form in schema[choice])
    match schema.get("type"):
        case "array":
            return f"array of {kind(schema.get('items', True))}"
        case "object" if properties := schema.get("properties"):
            return f"object with {', '.join(f'`{member}`' for member in properties)}"
        case str(word):
            return "null" if word == "null" else word
        case [*several]:
            return " or ".join(several)
    return "any JSON"


def _bounds(schema: Schema) -> Iterator[str]:
    named = schema.get("x-limits", {})
    for keyword, words in BOUNDS.items():
        if keyword in schema:
            limit = f" (`{named[keyword]}`)" if named.get(keyword) in limits() else ""
            yield f"{words} {grouped(schema[keyword])}{limit}"


def _rules(schema: Schema) -> Iterator[str]:
    for keyword in RULES:
        if keyword in schema:
            yield f"`{keyword}` {_code(schema[keyword])}"
    if schema.get("uniqueItems"):
        yield "all different"
    pattern = schema.get("pattern", "")
    if pattern and "x-text" not in schema:
        yield f"matches {_code(pattern)}"


def _code(value: Any) -> str:
    text = value if isinstance(value, str) and value else json.dumps(value)
    return f"`{text}`" if len(text) <= LONG else "a long pattern"


def _ids(linker: Linker, path: str, schema: Schema) -> str:
    return linker.text(path, ", ".join(schema.get("x-requirements", [])))


def _examples(schema: Schema) -> Iterator[str]:
    for index, example in enumerate(schema.get("examples", []), 1):
        several = len(schema["examples"]) > 1
        yield from ["", f"**Example{f' {index}' if several else ''}**", "", "```json"]
        yield json.dumps(example, indent=2, ensure_ascii=False)
        yield from ["```", ""]
