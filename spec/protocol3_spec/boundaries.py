"""Messages at the very edge of a bound: what the recipes of `fixtures/vectors/limits.json` expand to.

A recipe names a message, a field of it, a bound and its unit. A case of it is one number of units (one below, at or
one above the bound) in one flavour, with the verdict. `fixtures/vectors/README.md` says what the members mean.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from copy import deepcopy
from dataclasses import dataclass
from typing import Any, Final

from protocol3_spec.compact import compact, compact_bytes
from protocol3_spec.loader import limits

Recipe = Mapping[str, Any]

#: The text that each flavour repeats. In an `escaped` one every character is sent as \uXXXX.
CHARACTERS: Final[dict[str, dict[str, str]]] = {
    "identifier": {"ascii": "x", "two": "é", "three": "€", "four": "😀", "escaped": '"\\/\u2028'},
    "correlation": {"ascii": "x", "two": "é", "three": "\ufdd0", "four": "\U0010ffff", "escaped": '"\\/\u2028'},
    "free": {"ascii": "x", "two": "\x85", "three": "\uffff", "four": "😀", "escaped": '"\\\n\b\x00\x1f\x7f\u2028'},
    "program": {"ascii": "x", "portable": "a-0._"},
    "uri": {"ascii": "x", "percent": "%C3%A9"},
}
#: Floats whose contract spelling is not Python's, and integers written as floats (JSON-054).
FLOATS: Final = (
    1e16,
    1e-07,
    5e-324,
    1.0,
    1e5,
    -0.0,
    2.9802322387695312e-08,
    1e-05,
    1.7976931348623157e308,
    100.0,
    1e22,
)
#: How each flavour of a value is written on the wire, unless the recipe says otherwise.
SPELLINGS: Final = {
    "ascii": "padded",
    "two": "escaped",
    "three": "compact",
    "four": "escaped",
    "escaped": "escaped",
    "floats": "long floats",
    "short floats": "short floats",
    "nested": "padded",
    "keys": "escaped",
}
_GROUPS: Final = 200
_NEST: Final = 40


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """One message of a recipe: `units` of its unit in one flavour; `fits` is the verdict."""

    recipe: Recipe
    flavour: str
    units: int
    fits: bool

    @property
    def spelling(self) -> str:
        return str(self.recipe.get("spelling") or SPELLINGS.get(self.flavour, "compact"))


def bound(recipe: Recipe) -> int:
    """The number behind a recipe: `value`, or that of its limit, less `less` units."""
    value = recipe["value"] if "value" in recipe else limits()[recipe["limit"]].value
    return int(value) - int(recipe.get("less", 0))


def flavours(recipe: Recipe) -> tuple[str, ...]:
    """The flavours of a recipe: its own list, or all that its unit has."""
    if "flavours" in recipe:
        return tuple(recipe["flavours"])
    match recipe["unit"]:
        case "text":
            return tuple(CHARACTERS[recipe.get("text", "identifier")])
        case "compact":
            return tuple(SPELLINGS)
        case "depth":
            return ("arrays", "objects")
    return ("plain",)


def cases(recipe: Recipe) -> Iterator[Case]:
    """One below, at and one above the bound, in every flavour; a negative number of anything but an integer is none."""
    edge, least = bound(recipe), recipe.get("bound") == "least"
    for flavour in flavours(recipe):
        for units in (edge - 1, edge, edge + 1):
            if units >= 0 or recipe["unit"] == "integer":
                yield Case(recipe=recipe, flavour=flavour, units=units, fits=units >= edge if least else units <= edge)


def filled(template: Any, bindings: Mapping[str, Any]) -> Any:
    """A template with its placeholders replaced: `"$name"` by a value, `"..."` by the members of an object.

    `{"$repeat": n, "of": item}` is an array of n items, in whose texts `$i` is the number.
    """
    if isinstance(template, str) and template.startswith("$"):
        return deepcopy(bindings[template[1:]])
    if isinstance(template, list):
        return [filled(item, bindings) for item in template]
    if not isinstance(template, dict):
        return template
    if "$repeat" in template:
        return filled(numbered(template["of"], template["$repeat"]), bindings)
    members = {name: filled(value, bindings) for name, value in template.items() if name != "..."}
    return (filled(template["..."], bindings) if "..." in template else {}) | members


def numbered(item: Any, count: int) -> list[Any]:
    """Copies of an item in whose texts `$i` is the number."""
    text = json.dumps(item)
    return [json.loads(text.replace("$i", str(number))) for number in range(count)]


def document(case: Case, template: Any, bindings: Mapping[str, Any]) -> Any:
    """The message with the field of the case filled to its number of units; `also` names fields that follow."""
    recipe, result = case.recipe, filled(template, bindings)
    if recipe["unit"] == "raw":
        return result
    if recipe["unit"] == "compact":
        places = _places(result, recipe["field"])
        for place in places:
            _put(result, place, "")
        room = case.units - counted(recipe, result) + 2 * len(places)
        for number, place in enumerate(places):
            share = room - room // len(places) * (len(places) - 1) if number == 0 else room // len(places)
            _put(result, place, value(case.flavour, share))
        return result
    found = filled(_value(case), bindings) if recipe["unit"] == "items" else _value(case)
    for path in (recipe["field"], *recipe.get("also", ())):
        _put(result, path, found)
    return result


def counted(recipe: Recipe, message: Any) -> int:
    """Units of the recipe in a message: for `compact` the bytes of what is measured, defaults written out."""
    message = deepcopy(message)
    for path, defaults in recipe.get("written_out", {}).items():
        for place in _places(message, path):
            holder = at(message, place)
            holder |= defaults | holder
    found = at(message, recipe.get("measured", recipe["field"]))
    match recipe["unit"]:
        case "compact":
            return compact_bytes(found)
        case "text":
            return len(found.encode())
        case "items":
            return len(found)
        case "integer":
            return int(found)
    raise ValueError(f"{recipe['unit']} is not counted in a message")


def value(flavour: str, size: int) -> Any:
    """A value of exactly so many bytes in the compact encoding; a text where that is too little for the flavour."""
    if flavour in ("floats", "short floats"):
        some = [*FLOATS] * min(_GROUPS, size // 2 // compact_bytes([*FLOATS]))
        return _padded(size, lambda pad: [pad, *some]) if some else value("ascii", size)
    if flavour == "nested" and size > 1000:
        nest: Any = {"é": [None, True]}
        for level in range(_NEST):
            nest = [nest] if level % 2 else {"n": nest}
        nests = [nest] * min(_GROUPS, size // 2 // compact_bytes(nest))
        return _padded(size, lambda pad: [*nests, pad])
    if flavour == "keys" and size > 1000:
        members = {f"é{number}\u2028": -number for number in range(min(_GROUPS, size // 40))}
        return _padded(size, lambda pad: {**members, "pad": pad})
    unit = '"' if flavour == "quotes" else CHARACTERS["free"].get(flavour, "x")
    many = max(0, (size - 2) // (compact_bytes(unit) - 2))
    return _padded(size, lambda pad: pad + unit * many)


def text(unit: str, size: int) -> str:
    """A text of exactly so many UTF-8 bytes that repeats a unit."""
    many, rest = divmod(size, len(unit.encode()))
    return unit * many + "x" * rest


def spelled(message: Any, how: str, room: int) -> bytes:
    """The message as it is sent: another number of bytes than is counted, up to `room` more.

    `padded` has whitespace, `escaped` \\uXXXX for the letter x and whatever is not ASCII or punctuation in a string,
    `long floats` and `short floats` other digits for the same floats.
    """
    plain = compact(message)
    match how:
        case "padded":
            blanks = min(room, 4096) // 2
            return f"{plain[0]}{' ' * blanks}{plain[1:]}{chr(10) * blanks}".encode()
        case "escaped":
            return _ESCAPABLE.sub(lambda found: _escaped(found[0]), plain, count=room // 8 or -1).encode()
        case "long floats":
            return _FLOAT.sub(lambda found: f"{float(found[0]):.20e}", plain, count=room // 24 or -1).encode()
        case "short floats":
            return _FLOAT.sub(lambda found: _shortest(float(found[0])), plain).encode()
    return plain.encode()


def at(message: Any, path: str) -> Any:
    """What stands at a dotted path; the empty one is the message."""
    for step in path.split(".") if path else ():
        message = message[int(step)] if isinstance(message, list) else message[step]
    return message


_ESCAPABLE: Final = re.compile(r"\\[^u]|[^\x00-\x7e]|x|/")
#: Float tokens after a bracket, a comma or a colon and before another one; texts of the recipes hold no such thing.
_FLOAT: Final = re.compile(r"(?<=[\[,:])-?\d+(?:\.\d+(?:e[+-]\d+)?|e[+-]\d+)(?=[\],}])")


def _escaped(found: str) -> str:
    character = json.loads(f'"{found}"')
    units = character.encode("utf-16-be").hex().upper()
    return "".join(f"\\u{units[start : start + 4]}" for start in range(0, len(units), 4))


def _shortest(number: float) -> str:
    if number == 0:
        return "-0" if str(number).startswith("-") else "0e0"
    digits, _, exponent = f"{number!r}".partition("e")
    whole, _, fraction = digits.partition(".")
    fraction = fraction.rstrip("0")
    return f"{whole}{fraction}".lstrip("0") + f"e{int(exponent or 0) - len(fraction)}"


def _padded(size: int, build: Any) -> Any:
    missing = size - compact_bytes(build(""))
    if missing < 0:
        raise ValueError(f"{size} bytes are too few")
    return build("x" * missing)


def _value(case: Case) -> Any:
    recipe, units = case.recipe, case.units
    match recipe["unit"]:
        case "integer":
            return str(units) if recipe.get("digits") else units
        case "text":
            return text(CHARACTERS[recipe.get("text", "identifier")][case.flavour], units)
        case "items":
            return numbered(recipe["item"], units)
        case "depth":
            nest: Any = {} if case.flavour == "objects" else []
            for _ in range(units - 1):
                nest = {"x": nest} if case.flavour == "objects" else [nest]
            return nest
        case "tracestate bytes":
            return f"a={'x' * 200},b={'x' * 200},c={'x' * (units - 408)}"
        case "tracestate members":
            return ",".join(f"m{number}=x" for number in range(units))
        case "tracestate value":
            return f"a={'x' * units}"
        case "tracestate key":
            return f"{'a' * units}=x"
        case "tracestate tenant":
            return f"{'0' * units}@x=x"
        case "tracestate system":
            return f"0@{'x' * units}=x"
    raise ValueError(f"unknown unit {recipe['unit']}")


def _places(message: Any, path: str) -> list[str]:
    """The paths that a path with `*` stands for."""
    head, star, tail = path.partition("*")
    if not star:
        return [path]
    return [f"{head}{number}{tail}" for number in range(len(at(message, head.rstrip("."))))]


def _put(message: Any, path: str, found: Any) -> None:
    holder, _, last = path.rpartition(".")
    target = at(message, holder)
    target[int(last) if isinstance(target, list) else last] = found
