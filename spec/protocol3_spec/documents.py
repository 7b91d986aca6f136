"""The schemas, the routes and the OpenAPI document as data, and the bundle that needs no other file."""

from collections.abc import Iterator, Mapping
from functools import cache
from importlib.resources import files
from types import MappingProxyType
from typing import Any, Final

from protocol3_spec.loader import read

Schema = Mapping[str, Any]

_SCALARS: Final = "scalars"
_COMPONENTS: Final = "#/components/schemas/"
_DEFINITIONS: Final = "#/$defs/"


@cache
def schemas() -> Mapping[str, Schema]:
    """Every schema by the name of its file, such as `submit-command`; `scalars` holds only definitions."""
    folder = files(__package__).joinpath("schemas")
    names = sorted(file.name.removesuffix(".json") for file in folder.iterdir() if file.name.endswith(".json"))
    return MappingProxyType({name: read(f"schemas/{name}.json") for name in names})


@cache
def member_names() -> frozenset[str]:
    """The name of every member of every message: words of the protocol, whoever wrote them."""
    return frozenset(_members([*schemas().values()]))


def _members(part: Any) -> Iterator[str]:
    if isinstance(part, Mapping):
        yield from part.get("properties", ())
        part = [*part.values()]
    if isinstance(part, list):
        for inner in part:
            yield from _members(inner)


@cache
def meta_schemas() -> Mapping[str, Schema]:
    """`dialect` and `vocabulary`: what a schema of this package may say, JSON Schema 2020-12 included."""
    return MappingProxyType({name: read(f"schemas/meta/{name}.json") for name in ("dialect", "vocabulary")})


@cache
def routes() -> tuple[Mapping[str, Any], ...]:
    """Every route that a coordinator is expected to offer, in the order of `routes.json`."""
    return tuple(read("routes.json")["routes"])


@cache
def optional_routes() -> tuple[Mapping[str, Any], ...]:
    """The routes of the profiles that a coordinator may leave out; each names its `profile`."""
    return tuple(read("routes.json")["optional"])


def openapi() -> dict[str, Any]:
    """The OpenAPI document; it refers to the schemas by their file names."""
    document: dict[str, Any] = read("openapi.json")
    return document


def target(reference: str) -> Schema:
    """The schema behind a `$ref` of a schema file: another file, or a definition of `scalars`."""
    file, _, pointer = reference.partition("#")
    found = schemas()[file.removesuffix(".json") or _SCALARS]
    for step in pointer.split("/")[1:]:
        found = found[step]
    return found


def component_name(reference: str) -> str:
    """The name of a referenced schema as a component: its title, or the name of its definition."""
    return reference.rpartition("/")[2] if "#" in reference else str(target(reference)["title"])


def bundle() -> dict[str, Any]:
    """The OpenAPI document with every schema as a component, for tools that want one file."""
    document: dict[str, Any] = _rebased(openapi(), _COMPONENTS, "schemas/")
    document["components"]["schemas"] = _definitions(_COMPONENTS)
    return document


def schema_bundle() -> dict[str, Any]:
    """Every schema as a definition of one JSON Schema, by title: `#/$defs/SubmitCommand`. It judges nothing itself."""
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "$id": "https://protocol3.example/schemas/1.0/bundle.json",
        "title": "Messages of runtime protocol 3",
        "$defs": _definitions(_DEFINITIONS),
    }


def _definitions(place: str) -> dict[str, Any]:
    """Every schema and every scalar by its name, with references among them at one place."""
    found: dict[str, Any] = {}
    for name, schema in schemas().items():
        if name == _SCALARS:
            found |= {key: _rebased(definition, place) for key, definition in schema["$defs"].items()}
        else:
            body = {key: value for key, value in schema.items() if key not in ("$schema", "$id")}
            found[schema["title"]] = _rebased(body, place)
    return dict(sorted(found.items()))


def _rebased(value: Any, place: str, folder: str = "") -> Any:
    """A copy in which references to schema files point to that place of the document."""
    if isinstance(value, list):
        return [_rebased(item, place, folder) for item in value]
    if not isinstance(value, dict):
        return value
    copy = {name: _rebased(item, place, folder) for name, item in value.items()}
    reference = value.get("$ref")
    if isinstance(reference, str) and not reference.startswith("#/components/"):
        copy["$ref"] = f"{place}{component_name(reference.removeprefix(folder))}"
    return copy
