"""The schema files, the routes and the OpenAPI document as documents: valid, complete, in step with the reference."""

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft202012Validator
from jsonschema_specifications import REGISTRY
from openapi_spec_validator import validate
from referencing import Resource

from protocol3.contract import limits
from protocol3.coordinator.http.routes import ROUTES
from protocol3_spec import bundle, documents, errors, openapi, routes, schemas, validation
from protocol3_spec.loader import limits as bounds
from protocol3_spec.loader import read

RULES = {row["id"]: row["text"] for row in read("requirements.json")["requirements"]}
IDS = {*RULES}
RULE = re.compile(r"^(?:- |\| )\*\*([A-Z]{2,4}-\d{3})\*\*", re.MULTILINE)
CHAPTERS = (Path(__file__).parents[3] / "spec").glob("[0-9][0-9]-*.md")
IDS |= {rule for chapter in CHAPTERS for rule in RULE.findall(chapter.read_text(encoding="utf-8"))}
EXAMPLES = [(name, example) for name, schema in schemas().items() for example in schema.get("examples", ())]


def parts(value: Any) -> Iterator[dict[str, Any]]:
    """Every object inside a document, itself included."""
    if isinstance(value, dict):
        yield value
    for child in value.values() if isinstance(value, dict) else value if isinstance(value, list) else ():
        yield from parts(child)


@pytest.fixture(scope="module")
def dialect() -> Draft202012Validator:
    known = [(str(schema["$id"]), Resource.from_contents(schema)) for schema in documents.meta_schemas().values()]
    return Draft202012Validator(documents.meta_schemas()["dialect"], registry=REGISTRY.with_resources(known))


@pytest.mark.parametrize("name", schemas())
def test_schema_is_valid(name: str, dialect: Draft202012Validator) -> None:
    """By JSON Schema 2020-12 and by our vocabulary; it names only requirements that exist."""
    schema = schemas()[name]
    assert [error.json_path for error in dialect.iter_errors(schema)] == []
    assert all(schema.get(member) for member in ("$id", "title", "description", "x-requirements"))
    assert name == "scalars" or schema["examples"]
    named = {requirement for part in parts(schema) for requirement in part.get("x-requirements", ())}
    assert named <= IDS


@pytest.mark.parametrize("change", [{"x-unheard-of": 1}, {"x-depth": "64"}, {"x-text": "name"}, {"maximum": "1"}])
def test_dialect_refuses(change: dict[str, Any], dialect: Draft202012Validator) -> None:
    """At any depth of a schema."""
    broken = json.loads(json.dumps(schemas()["fork-request"]))
    broken["properties"]["key"] |= change
    assert not dialect.is_valid(broken)


@pytest.mark.parametrize(("name", "example"), EXAMPLES, ids=[name for name, _ in EXAMPLES])
def test_example_is_valid(name: str, example: Any) -> None:
    assert validation.problems(name, example) == []


@pytest.mark.parametrize("name", schemas()["scalars"]["$defs"])
def test_examples_of_scalars_are_valid(name: str) -> None:
    examples = schemas()["scalars"]["$defs"][name]["examples"]
    assert examples
    assert [validation.problems(f"scalars#/$defs/{name}", example) for example in examples] == [[]] * len(examples)


def test_objects_are_closed_or_say_so() -> None:
    """JSON-080, DLV-073: whether further members are allowed is never left open."""
    for name, schema in schemas().items():
        for part in parts(schema):
            if part.get("type") == "object" and "required" in part and "properties" in part and "if" not in part:
                condition = len(part["properties"]) == 1 and "additionalProperties" not in part
                assert "additionalProperties" in part or condition, (name, part)


def test_problems_name_place_and_rule() -> None:
    """And never quote the message, which may hold application data."""
    command = json.loads(json.dumps(schemas()["submit-command"]["examples"][0]))
    command["input"]["queue"] = "secret" * 30
    (problem, *_) = validation.problems("submit-command", command)
    assert problem.at == "/input/queue"
    assert "secret" not in str(problem)


def test_openapi_is_valid() -> None:
    """In one piece, which every tool can read."""
    validate(bundle())


def test_bundle_needs_no_other_file() -> None:
    document = bundle()
    names = {f"#/components/schemas/{name}" for name in document["components"]["schemas"]}
    references = {part["$ref"] for part in parts(document) if isinstance(part.get("$ref"), str)}
    assert {reference for reference in references if "schemas" in reference} <= names
    assert all(reference.startswith("#/components/") for reference in references)


def test_component_names_are_distinct() -> None:
    titles = [schema["title"] for name, schema in schemas().items() if name != "scalars"]
    names = [*titles, *schemas()["scalars"]["$defs"]]
    assert len(names) == len(set(names))


def test_routes_are_the_reference_s() -> None:
    """Chapter 03, Routes: paths, limits and operations of routes.json and of our coordinator."""

    def limit(route: Any, name: str) -> int:
        return int(getattr(limits, route[name])) if name in route else 0

    described = {
        (route["method"], route["path"]): (
            route["operation"],
            limit(route, "request_limit"),
            limit(route, "query_limit"),
            limit(route, "reply_limit"),
        )
        for route in routes()
    }
    assert described == {
        (route.method, route.path): (route.operation, route.request_limit, route.query_limit, route.reply_limit)
        for route in ROUTES
    }


def test_routes_name_what_exists() -> None:
    for route in routes():
        assert set(route["errors"]) <= errors().keys()
        assert set(route["requirements"]) <= IDS
        assert {route["reply"], route.get("request", "error")} <= schemas().keys()


def test_optional_routes_name_what_exists() -> None:
    """HTTP-042: each belongs to a profile; paths differ from those that everybody has."""
    codes = errors().keys() | read("errors.json")["publication"].keys()
    ordinary = {(route["method"], route["path"]) for route in routes()}
    for route in documents.optional_routes():
        assert route["profile"] not in ("", "core")
        assert (route["method"], route["path"]) not in ordinary
        assert set(route["errors"]) <= codes
        assert set(route["requirements"]) <= IDS
        named = {route["reply"], route.get("request", "error"), route.get("error", "error")}
        assert named <= schemas().keys()
        limits_named = {value for name, value in route.items() if name.endswith("_limit")}
        assert all(hasattr(limits, name) for name in limits_named)


def test_every_route_is_in_the_openapi_document() -> None:
    """With every status that its codes travel with, and its profile; the health routes beside them."""
    every = [*routes(), *documents.optional_routes()]
    statuses_of = {code: error.statuses for code, error in errors().items()}
    statuses_of |= {code: tuple(error["statuses"]) for code, error in read("errors.json")["publication"].items()}
    described = {
        (method.upper(), path): operation
        for path, methods in openapi()["paths"].items()
        for method, operation in methods.items()
    }
    probes = {("GET", "/health/live"), ("GET", "/health/ready")}
    assert described.keys() == {(route["method"], route["path"]) for route in every} | probes
    for route in every:
        operation = described[route["method"], route["path"]]
        statuses = {status for code in route["errors"] for status in statuses_of[code]}
        if route["method"] == "GET":
            statuses -= {413, 415}
        assert set(operation["responses"]) == {*map(str, route.get("statuses", [200])), *map(str, statuses)}
        assert operation.get("x-profile") == route.get("profile")
        assert operation["operationId"] == route["operation"]


def test_every_value_of_a_path_is_described() -> None:
    for path, methods in openapi()["paths"].items():
        for operation in methods.values():
            given = [parameter for parameter in operation.get("parameters", ()) if parameter.get("in") == "path"]
            assert [parameter["name"] for parameter in given] == re.findall(r"\{(\w+)\}", path)


def test_numbers_of_limits_stand_nowhere_else() -> None:
    """Every large number of a bound has the name of its limit beside it; tools/schemas.py fills it in."""
    for schema in schemas().values():
        for part in parts(schema):
            for keyword in ("maximum", "maxLength", "maxItems", "x-utf8-bytes", "x-compact-bytes", "x-depth"):
                if isinstance(part.get(keyword), int) and part[keyword] > 1:
                    assert re.fullmatch("[A-Z0-9_]+", part["x-limits"][keyword])


def test_limits_cite_a_rule_that_names_them() -> None:
    """Where any rule gives a limit by its name; the others stand in tables near the rules that they cite."""
    for limit in bounds().values():
        naming = {rule for rule, text in RULES.items() if f"`{limit.name}`" in text}
        assert not naming or naming & set(limit.requirements), limit.name


def test_rules_about_members_stand_in_their_schemas() -> None:
    """A rule that links the schema whose members it lists is among those that the schema cites."""
    for rule, text in RULES.items():
        for name in re.findall(r"\(protocol3_spec/schemas/([a-z-]+)\.json\)", text):
            assert rule in schemas()[name]["x-requirements"], (rule, name)
