"""What can be wrong, or just right, at each place of a message, by the keywords of its schema: for vectors.py."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from copy import deepcopy
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

from protocol3.contract import strict_json
from protocol3_spec import schemas, validation
from protocol3_spec.compact import compact
from protocol3_spec.documents import Schema

#: The longest text of a derived vector; longer ones are the limit vectors' business.
LONGEST: Final = 600
_GAP: Final = "\uf8ffgap\uf8ff"

#: For each class of text: what is wrong with which text, and the rule it breaks.
_TEXTS: Final[Mapping[str, tuple[tuple[str, str, str], ...]]] = {
    "identifier": (
        ("TXT-001", "A control character is no identifier text.", '"a\\u0000b"'),
        ("TXT-001", "A noncharacter is no identifier text.", '"a\\uFDD0"'),
        ("TXT-001", "U+009F is a control character too.", '"\\u009f"'),
        ("TXT-001", "The last code point of plane 1 is a noncharacter.", '"\\ud83f\\udfff"'),
    ),
    "correlation": (("TXT-004", "A control character is no correlation text.", '"\\n"'),),
    "uncontrolled": (("DLV-091", "A control character.", '"a\\tb"'),),
    "attribute": (
        ("TXT-021", "A control character is no attribute text.", '"a\\u007f"'),
        ("TXT-021", "A noncharacter is no attribute text.", '"\\uffff"'),
    ),
    "program-name": (
        ("TXT-005", "An upper-case letter.", '"Monthly"'),
        ("TXT-005", "`..` is no name.", '".."'),
        ("TXT-005", "A line feed at the end.", '"monthly\\n"'),
        ("TXT-005", "A character beyond ASCII.", '"m\\u00f6nthly"'),
    ),
    "digest": (
        ("TXT-006", "Upper-case digits.", f'"sha256:{"AB" * 32}"'),
        ("TXT-006", "One digit is missing.", f'"sha256:{"a" * 63}"'),
        ("TXT-006", "Without its algorithm.", f'"{"ab" * 32}"'),
    ),
    "traceparent": (
        ("TRC-001", "The trace id is all zero.", f'"00-{"0" * 32}-b7ad6b7169203331-01"'),
        ("TRC-001", "Upper-case digits.", '"00-0AF7651916CD43DD8448EB211C80319C-b7ad6b7169203331-01"'),
        ("TRC-001", "Another version.", '"01-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"'),
    ),
    "tracestate": (
        ("TRC-003", "A key occurs twice.", '"a=1,a=2"'),
        ("TRC-002", "33 members.", json.dumps(",".join(f"k{n}=1" for n in range(33)))),
        ("TRC-003", "An upper-case key.", '"A=1"'),
    ),
    "uri-reference": (
        ("TXT-030", "A percent sign without two digits.", '"/a%2"'),
        ("TXT-030", "A space.", '"a b"'),
        ("TXT-031", "A colon in the first segment.", '"1:relative"'),
        ("TXT-030", "Not ASCII.", '"/caf\\u00e9"'),
    ),
    "absolute-uri": (
        ("TXT-024", "A fragment.", '"urn:s:1#x"'),
        ("TXT-024", "No scheme.", '"/schema"'),
    ),
    "time": (
        ("TXT-041", "A space instead of the T.", '"2025-02-19 21:20:00Z"'),
        ("TXT-042", "The 29th of February of no leap year.", '"2025-02-29T00:00:00Z"'),
        ("TXT-044", "A leap second that is no end of a month.", '"2016-12-30T23:59:60Z"'),
        ("TXT-041", "No offset.", '"2025-02-19T21:20:00"'),
    ),
    "percent-correlation": (("CMP-036", "Lower-case hexadecimal digits.", '"%ef%b7%90"'),),
}


class Edit(NamedTuple):
    """JSON text for a place; an empty one removes it."""

    at: str
    put: str


class Break(NamedTuple):
    """An edit that makes a message invalid."""

    kind: str
    edit: Edit
    why: str
    breaks: str


@dataclass(frozen=True, slots=True)
class Place:
    """A value in a message, with every subschema that applies to it unconditionally."""

    at: str
    value: Any
    rules: tuple[Schema, ...]
    where: tuple[tuple[str, str], ...]
    optional: bool = False

    @classmethod
    def of(cls, file: str, pointer: str, at: str, value: Any, *, optional: bool = False) -> Place:
        where = tuple(_applying(file, pointer, value))
        return cls(at, value, tuple(_schema(*one) for one in where), where, optional)

    def keyword(self, name: str) -> Any:
        """What the first subschema with this keyword says."""
        return next((rule[name] for rule in self.rules if name in rule), None)

    def requirement(self) -> str | None:
        return next((rule["x-requirements"][0] for rule in self.rules if "x-requirements" in rule), None)


class Rules:
    """Which requirement each kind of break is about: said in the source file, or by the schema itself."""

    def __init__(self, name: str, said: Mapping[str, str]) -> None:
        self._said = said
        self._own = schemas()[name]["x-requirements"][0]

    def of(self, kind: str, place: Place | None, general: str | None) -> str:
        own = place.requirement() if place is not None else None
        return self._said.get(kind) or general or self._said.get("*") or own or str(self._own)

    def shape(self, kind: str) -> str:
        """Of what is no object or no array: the rule about the members that it lacks."""
        return self._said.get(kind) or self._said.get("*") or self._said.get("unknown") or "JSON-080"


def decoded(text: str) -> Any:
    """The value of a JSON text; ValueError for what is none."""
    return strict_json.decode(text.encode())


def places(name: str, example: Any) -> Iterator[Place]:
    """Every place of a message that its schema describes, application values left closed."""
    yield from _inside(Place.of(name, "", "", example))


def _inside(place: Place) -> Iterator[Place]:
    yield place
    for file, pointer in place.where:
        rule = _schema(file, pointer)
        if isinstance(place.value, dict):
            for member, value in place.value.items():
                if isinstance(rule.get("properties", {}).get(member), dict):
                    optional = member not in rule.get("required", ())
                    step = f"{pointer}/properties/{member}"
                    yield from _inside(Place.of(file, step, f"{place.at}/{member}", value, optional=optional))
        if isinstance(place.value, list) and isinstance(rule.get("items"), dict):
            for number, value in enumerate(place.value[:1]):
                yield from _inside(Place.of(file, f"{pointer}/items", f"{place.at}/{number}", value))


def _applying(file: str, pointer: str, value: Any) -> Iterator[tuple[str, str]]:
    """The subschema itself, what it refers to, and the alternative that the value belongs to."""
    yield file, pointer
    rule = _schema(file, pointer)
    if "$ref" in rule:
        other, _, inside = rule["$ref"].partition("#")
        yield from _applying(other.removesuffix(".json") or file, inside, value)
    for word in ("oneOf", "anyOf"):
        for number, option in enumerate(rule.get(word, ())):
            step = f"{pointer}/{word}/{number}"
            if option.keys() != {"required"} and validation.is_valid(f"{file}#{step}", value):
                yield from _applying(file, step, value)
                break


def _schema(file: str, pointer: str) -> Schema:
    found: Any = schemas()[file]
    for step in pointer.split("/")[1:]:
        found = found[int(step)] if isinstance(found, list) else found[step]
    return found  # type: ignore[no-any-return]  # only called for subschemas


def breaks(place: Place, rules: Rules) -> Iterator[Break]:
    """Everything that its keywords forbid here, and no alternative at this place allows."""
    alternatives = [f"{file}#{pointer}" for file, pointer in place.where if "anyOf" in _schema(file, pointer)]
    for found in _breaks(place, rules):
        if found.edit.at != place.at or not any(_takes(where, found.edit.put) for where in alternatives):
            yield found


def _takes(where: str, text: str) -> bool:
    try:
        return validation.is_valid(where, decoded(text))
    except ValueError:
        return False


def _breaks(place: Place, rules: Rules) -> Iterator[Break]:
    if isinstance(place.value, dict):
        yield from _members(place, rules)
    elif isinstance(place.value, list):
        yield from _elements(place, rules)
    elif isinstance(place.value, str):
        yield from _text(place, rules)
    elif isinstance(place.value, bool):
        if place.keyword("type") == "boolean":
            for put in ("1", '"true"'):
                yield Break("type", Edit(place.at, put), "Not a boolean.", rules.of("type", place, None))
    elif isinstance(place.value, int):
        yield from _integer(place, rules)
    nullable = any({"type": "null"} in rule.get("anyOf", ()) for rule in place.rules)
    if place.at and place.optional and place.keyword("type") and not nullable and not _any_value(place):
        why = "May be left out, but not null."
        yield Break("null", Edit(place.at, "null"), why, rules.of("null", None, "JSON-082"))


def _any_value(place: Place) -> bool:
    return place.keyword("type") is None and place.keyword("const") is None and place.keyword("enum") is None


def _members(place: Place, rules: Rules) -> Iterator[Break]:
    required = {name for rule in place.rules for name in rule.get("required", ())}
    for name in place.value:
        if name in required:
            why = f"`{name}` is missing."
            yield Break("missing", Edit(f"{place.at}/{name}", ""), why, rules.of("missing", None, "JSON-081"))
    if place.keyword("additionalProperties") is False:
        for name in ("unheard_of", *[next(iter(place.value)).upper()] * bool(place.value)):
            why = f"`{name}` is no member."
            yield Break("unknown", Edit(f"{place.at}/{name}", "null"), why, rules.of("unknown", None, "JSON-080"))
    if place.keyword("type") == "object":
        yield Break("type", Edit(place.at, '"{}"'), "A text, not an object.", rules.shape("type"))


def _elements(place: Place, rules: Rules) -> Iterator[Break]:
    if place.keyword("type") == "array":
        yield Break("type", Edit(place.at, "{}"), "An object, not an array.", rules.shape("type"))
    if place.value and (place.keyword("uniqueItems") or place.keyword("x-unique-by")):
        put = compact([*place.value, place.value[0]])
        what = place.keyword("x-unique-by") or "An element"
        yield Break("twice", Edit(place.at, put), f"{what} occurs twice.", rules.of("twice", place, None))
    if place.keyword("minItems"):
        yield Break("bound", Edit(place.at, "[]"), "Empty.", rules.of("bound", place, None))


def _text(place: Place, rules: Rules) -> Iterator[Break]:
    words = place.keyword("enum")
    if words:
        yield Break(
            "word",
            Edit(place.at, compact(place.value.upper())),
            "Words are exact, upper case is another one.",
            rules.of("word", None, "JSON-083"),
        )
        yield Break("word", Edit(place.at, '"unheard_of"'), "An unknown word.", rules.of("word", None, "JSON-083"))
    elif place.keyword("const") is not None:
        yield Break(
            "word",
            Edit(place.at, compact(f"{place.value} ")),
            "Another text than this one.",
            rules.of("word", place, None),
        )
    if place.keyword("type") != "string":
        return
    general = "TXT-001" if place.keyword("x-text") == "identifier" else None
    yield Break("type", Edit(place.at, "7"), "A number, not a text.", rules.of("type", place, general))
    if place.keyword("minLength"):
        yield Break("bound", Edit(place.at, '""'), "Empty.", rules.of("empty", None, general or place.requirement()))
    most = place.keyword("x-utf8-bytes") or place.keyword("maxLength")
    if most and most < LONGEST:
        unit = "\u00e9" if place.keyword("x-utf8-bytes") and place.keyword("x-text") != "uri-reference" else "x"
        long = unit * (most // len(unit.encode())) + "x" * (1 + most % len(unit.encode()))
        general = "TXT-003" if general else place.requirement()
        yield Break(
            "bound", Edit(place.at, compact(long)), f"{most + 1} bytes, one too many.", rules.of("long", None, general)
        )
    for requirement, why, put in _TEXTS.get(place.keyword("x-text"), ()):
        yield Break("text", Edit(place.at, put), why, rules.of("text", None, requirement))


def _integer(place: Place, rules: Rules) -> Iterator[Break]:
    if not place.keyword("x-integer-token"):
        return
    for put, why in (
        (f"{place.value}.0", "A float token."),
        (f'"{place.value}"', "A text."),
        ("true", "A boolean."),
        ("-0", "`-0` is a float token."),
    ):
        yield Break("integer", Edit(place.at, put), why, rules.of("integer", None, "JSON-027"))
    low = [rule["minimum"] for rule in place.rules if "minimum" in rule]
    high = [rule["maximum"] for rule in place.rules if "maximum" in rule]
    if low:
        yield Break("bound", Edit(place.at, str(max(low) - 1)), f"Below {max(low)}.", rules.of("bound", place, None))
    if high and min(high) < 2**64 - 1:
        yield Break("bound", Edit(place.at, str(min(high) + 1)), f"Above {min(high)}.", rules.of("bound", place, None))
    if high and min(high) == 2**64 - 1:
        yield Break(
            "bound",
            Edit(place.at, str(2**64)),
            "Beyond the integers of JSON documents.",
            rules.of("range", None, "JSON-020"),
        )


def edges(place: Place) -> Iterator[tuple[str, Edit]]:
    """What is just right here: bounds, and optional members left out."""
    if place.optional and place.at:
        yield "Left out", Edit(place.at, "")
    if any({"type": "null"} in rule.get("anyOf", ()) for rule in place.rules):
        yield "Null", Edit(place.at, "null")
    if isinstance(place.value, bool) and place.keyword("type") == "boolean":
        yield "The other truth value", Edit(place.at, compact(not place.value))
    if isinstance(place.value, int) and not isinstance(place.value, bool) and place.keyword("x-integer-token"):
        for word, pick, what in (("maximum", min, "The greatest"), ("minimum", max, "The least")):
            bounds = [rule[word] for rule in place.rules if word in rule]
            if bounds:
                yield what, Edit(place.at, str(pick(bounds)))
    if isinstance(place.value, str) and place.keyword("type") == "string":
        most = place.keyword("x-utf8-bytes")
        if most and most < LONGEST and not place.keyword("format"):
            unit = "\U0001f600" if place.keyword("x-text") else "\x00"
            text = unit * (most // len(unit.encode()))
            yield f"All {most} bytes", Edit(place.at, compact(text + "x" * (most - len(text.encode()))))
        for word in (place.keyword("enum") or [])[:3]:
            yield "Another word", Edit(place.at, compact(word))


def rewritten(example: Any) -> Iterator[Any]:
    """The same message written otherwise: order, whitespace, escapes."""
    from vectors import Vector  # the tool that imports this module

    if isinstance(example, dict) and len(example) > 1:
        text = compact(dict(reversed(example.items())))
        yield Vector(id="reversed", why="The order of members means nothing.", text=text)
    text = json.dumps(example, ensure_ascii=True, indent=1)
    yield Vector(id="indented", why="Whitespace between tokens means nothing.", text=f"\t{text}\r\n")
    plain = compact(example)
    mark = plain.find('"') + 1
    if mark and plain[mark] != '"':
        text = f"{plain[:mark]}\\u{ord(plain[mark]):04X}{plain[mark + 1 :]}"
        yield Vector(id="escaped", why="An escaped letter is that letter, in names too.", text=text)


def applied(example: Any, edits: list[Edit]) -> str:
    """The compact text of a message after edits, their texts left as they are."""
    message: Any = [deepcopy(example)]
    puts: dict[str, str] = {}
    for number, edit in enumerate(edits):
        *way, last = ["0", *edit.at.split("/")[1:]]
        holder = message
        for step in way:
            holder = holder[int(step)] if isinstance(holder, list) else holder[step]
        key: Any = int(last) if isinstance(holder, list) else last.replace("~1", "/").replace("~0", "~")
        if not edit.put:
            del holder[key]
            continue
        gap = f"{_GAP}{number}"
        puts[f'"{gap}"'] = edit.put
        if isinstance(holder, list) and key == len(holder):
            holder.append(gap)
        else:
            holder[key] = gap
    text = compact(message[0])
    for gap, put in puts.items():
        text = text.replace(gap, put)
    return text
