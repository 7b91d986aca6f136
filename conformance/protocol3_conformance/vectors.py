"""The vector files, readable from a checkout and from a wheel alike."""

from __future__ import annotations

import json
from functools import cache
from importlib.resources import files
from typing import Any

Case = dict[str, Any]


@cache
def _file(name: str) -> Any:
    return json.loads(files(__package__).joinpath("fixtures", "vectors", name).read_text(encoding="utf-8"))


def documents(group: str) -> list[Case]:
    """One list of json-profile.json: decode, depth, numeric_identity, typed_integer_fields, byte_budget."""
    cases: list[Case] = _file("json-profile.json")[group]
    return cases


def section(name: str) -> list[Case]:
    """The cases of one section of text-and-time.json."""
    cases: list[Case] = _file("text-and-time.json")["sections"][name]["cases"]
    return cases


def document_bytes(case: Case) -> bytes:
    """The document of a json-profile case."""
    return bytes.fromhex(case["raw_hex"]) if "raw_hex" in case else case["raw"].encode("utf-8", "surrogatepass")


def accepted(case: Case) -> bool:
    return bool(case["verdict"] == "accept")


def limit_messages() -> dict[str, Case]:
    """The base messages of limits.json."""
    messages: dict[str, Case] = _file("limits.json")["messages"]
    return messages


def limit_recipes() -> list[Case]:
    """The bounds of their fields."""
    recipes: list[Case] = _file("limits.json")["recipes"]
    return recipes
