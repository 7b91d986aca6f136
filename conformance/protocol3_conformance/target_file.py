"""The description of a target: `--target-file target.toml`, checked by the published schema `target.schema.json`."""

from __future__ import annotations

import json
import tomllib
from importlib.resources import files
from pathlib import Path
from typing import Any

from jsonschema import Draft202012Validator
from jsonschema.exceptions import best_match

SCHEMA, TEMPLATE = "target.schema.json", "target_template.toml"


class BadDescription(ValueError):
    """The file cannot be used; the message says where and why."""


def schema() -> dict[str, Any]:
    """The JSON Schema of the file's content."""
    document: dict[str, Any] = json.loads(_text(SCHEMA))
    return document


def template() -> str:
    """A commented file to begin with: `protocol3 conformance init`."""
    return _text(TEMPLATE)


def read(path: Path) -> dict[str, Any]:
    """The members of the file. Raises BadDescription."""
    try:
        described = tomllib.loads(path.read_text(encoding="utf-8-sig"))  # some editors begin with a mark
    except OSError as error:
        raise BadDescription(f"{path}: {error.strerror}; `protocol3 conformance init` writes one") from None
    except ValueError as error:  # no UTF-8, or no TOML
        raise BadDescription(f"{path}: {error}") from None
    if found := best_match(Draft202012Validator(schema()).iter_errors(described)):
        place = ".".join(map(str, found.absolute_path)) or "the file"
        meant = found.schema.get("description") if isinstance(found.schema, dict) else None
        raise BadDescription(f"{path}: {place}: {found.message}{f' ({meant})' if meant else ''}")
    return described


def _text(name: str) -> str:
    return files(__package__).joinpath(name).read_text(encoding="utf-8")
