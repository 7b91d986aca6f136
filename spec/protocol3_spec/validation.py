"""Judges decoded messages by the schemas and by the keywords that JSON Schema lacks (spec/schema-vocabulary.md).

Values must come from a decoder that keeps integer and float tokens apart and refuses what chapter 01 refuses.
"""

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any, Final
from urllib.parse import quote

from jsonschema import Draft202012Validator
from jsonschema.exceptions import ValidationError, best_match
from jsonschema.validators import extend
from referencing import Registry
from referencing.jsonschema import DRAFT202012

from protocol3_spec.compact import compact_bytes, depth, same
from protocol3_spec.documents import Schema, schemas, target
from protocol3_spec.texts import CLASSES

Errors = Iterator[ValidationError]
Keyword = Callable[[Any, Any, Any, Schema], Errors]


@dataclass(frozen=True, slots=True, kw_only=True)
class Problem:
    """One broken rule: `at` a JSON pointer into the message, the keyword, its value in the schema.

    Never quotes the message. `requirements`: the statements that the schema names at that place, often none.
    """

    at: str
    keyword: str
    expected: Any
    requirements: tuple[str, ...]

    def __str__(self) -> str:
        return f"{self.at or '/'}: breaks {self.keyword} {self.expected!r:.200}"


def problems(name: str, message: Any) -> list[Problem]:
    """What is wrong with a message by the schema `name`, or by a definition such as `scalars#/$defs/Identifier`.

    Empty for a valid message. Raises KeyError if there is no such schema.
    """
    found = []
    for error in _validator(name).iter_errors(message):
        deepest = best_match([error])
        assert deepest is not None
        rule: Schema = deepest.schema if isinstance(deepest.schema, dict) else {}
        found.append(
            Problem(
                at="".join(f"/{_escaped(step)}" for step in deepest.absolute_path),
                keyword=str(deepest.validator),
                expected=deepest.validator_value,
                requirements=tuple(rule.get("x-requirements", ())),
            )
        )
    return found


def is_valid(name: str, message: Any) -> bool:
    """Whether `problems` has nothing to say."""
    return next(_validator(name).iter_errors(message), None) is None


def normalized(schema: Schema, value: Any) -> Any:
    """The value with defaults filled in, and without the optional members whose null stands for absence (LIM-011)."""
    if "$ref" in schema:
        value = normalized(target(schema["$ref"]), value)
    if isinstance(value, list):
        return [normalized(schema.get("items", {}), item) for item in value]
    if not isinstance(value, dict):
        return value
    result = dict(value)
    for name, member in schema.get("properties", {}).items():
        if name not in value:
            result |= {name: member["default"]} if "default" in member else {}
        elif value[name] is None and name not in schema.get("required", ()) and _takes_null(member):
            del result[name]
        else:
            result[name] = normalized(member, value[name])
    return result


def _takes_null(schema: Schema) -> bool:
    return {"type": "null"} in schema.get("anyOf", ())


# The keywords. Each looks only at the kinds of values that it is about, as JSON Schema's own do.


def _text(_: Any, word: str, value: Any, __: Schema) -> Errors:
    judge = CLASSES[word]
    if isinstance(value, str) and judge is not None and not judge(value):
        yield ValidationError(f"is no {word}")


def _utf8_bytes(_: Any, most: int, value: Any, __: Schema) -> Errors:
    if isinstance(value, str) and len(value.encode("utf-8", "surrogatepass")) > most:
        yield ValidationError(f"is longer than {most} bytes")


def _compact_bytes(_: Any, most: int, value: Any, __: Schema) -> Errors:
    if compact_bytes(value) > most:
        yield ValidationError(f"is more than {most} bytes of compact JSON")


def _normalized_bytes(_: Any, most: int, value: Any, schema: Schema) -> Errors:
    if compact_bytes(normalized(schema, value)) > most:
        yield ValidationError(f"is more than {most} bytes of compact JSON with defaults filled in")


def _depth(_: Any, most: int, value: Any, __: Schema) -> Errors:
    if depth(value) > most:
        yield ValidationError(f"nests deeper than {most}")


def _integer_token(_: Any, wanted: bool, value: Any, __: Schema) -> Errors:
    if wanted and isinstance(value, float):
        yield ValidationError("is a float token")


def _unique_by(_: Any, member: str, value: Any, __: Schema) -> Errors:
    if isinstance(value, list):
        keys = [item[member] for item in value if isinstance(item, dict) and member in item]
        if any(same(key, other) for index, key in enumerate(keys) for other in keys[:index]):
            yield ValidationError(f"names a {member} twice")


def _pairs(pointers: list[list[str]], message: Any, broken: Callable[[Any, Any], bool]) -> Errors:
    """An error for every pair of places that both hold something other than null and are in the broken relation."""
    for first, second in pointers:
        a, b = _at(message, first), _at(message, second)
        if a is not None and b is not None and broken(a, b):
            yield ValidationError(f"{first} and {second} do not fit")


def _equal(_: Any, pointers: list[list[str]], value: Any, __: Schema) -> Errors:
    yield from _pairs(pointers, value, lambda a, b: not same(a, b))


def _differ(_: Any, pointers: list[list[str]], value: Any, __: Schema) -> Errors:
    yield from _pairs(pointers, value, same)


def _ascending(_: Any, pointers: list[list[str]], value: Any, __: Schema) -> Errors:
    yield from _pairs(pointers, value, lambda a, b: isinstance(a, int) and isinstance(b, int) and a > b)


def _before(_: Any, pointers: list[list[str]], value: Any, __: Schema) -> Errors:
    yield from _pairs(pointers, value, lambda a, b: isinstance(a, int) and isinstance(b, int) and a >= b)


def _span(_: Any, span: Schema, value: Any, __: Schema) -> Errors:
    """From one place to the other it is 0 to `most`."""
    pair = [[span["from"], span["to"]]]
    yield from _pairs(
        pair, value, lambda a, b: isinstance(a, int) and isinstance(b, int) and not 0 <= b - a <= span["most"]
    )


def _composed(_: Any, texts: Mapping[str, str], value: Any, __: Schema) -> Errors:
    """Where the place and all parts hold texts, the place holds the template with its parts filled in."""

    def part(found: re.Match[str]) -> str:
        text = str(_at(value, found[2]))
        return quote(text, safe="") if found[1] else text

    for place, template in texts.items():
        named = [place, *(pointer for _, pointer in _PART.findall(template))]
        if all(isinstance(_at(value, pointer), str) for pointer in named) and _PART.sub(part, template) != _at(
            value, place
        ):
            yield ValidationError(f"{place} is not made of its parts")


def _pattern(_: Any, pattern: str, value: Any, __: Schema) -> Errors:
    """As in ECMAScript, where `$` is the end of the text; to Python it is also the place before a last line feed."""
    if isinstance(value, str) and not re.search(_END.sub(r"\\Z", pattern), value):
        yield ValidationError("does not match the pattern")


_PART: Final = re.compile(r"\{(%?)(/[^}]*)\}")
_END: Final = re.compile(r"(?<!\\)\$")

_KEYWORDS: Final[dict[str, Keyword]] = {
    "pattern": _pattern,
    "x-text": _text,
    "x-utf8-bytes": _utf8_bytes,
    "x-compact-bytes": _compact_bytes,
    "x-normalized-bytes": _normalized_bytes,
    "x-depth": _depth,
    "x-integer-token": _integer_token,
    "x-unique-by": _unique_by,
    "x-equal": _equal,
    "x-differ": _differ,
    "x-ascending": _ascending,
    "x-before": _before,
    "x-span": _span,
    "x-composed": _composed,
}


def _at(message: Any, pointer: str) -> Any:
    """What stands at a JSON pointer, None for nothing."""
    for step in pointer.split("/")[1:]:
        message = message.get(step) if isinstance(message, dict) else None
    return message


def _escaped(step: str | int) -> str:
    return str(step).replace("~", "~0").replace("/", "~1")


@cache
def _registry() -> Registry[Schema]:
    """The schemas by `$id`, without `$schema`: at one that has it the library falls back to its own keywords."""
    bare = [{name: value for name, value in schema.items() if name != "$schema"} for schema in schemas().values()]
    return Registry[Schema]().with_resources((schema["$id"], DRAFT202012.create_resource(schema)) for schema in bare)


@cache
def _validator(name: str) -> Draft202012Validator:
    file, mark, pointer = name.partition("#")
    judge: Any = extend(Draft202012Validator, _KEYWORDS)  # type: ignore[no-untyped-call]
    made: Draft202012Validator = judge({"$ref": f"{schemas()[file]['$id']}{mark}{pointer}"}, registry=_registry())
    return made
