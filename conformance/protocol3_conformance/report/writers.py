"""The reports of a run, each written from the one document."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from protocol3_conformance.report import html_report, markdown

Document = dict[str, Any]
COLOURS = {"conformant": "brightgreen", "not conformant": "red", "not determined": "lightgrey"}


def as_json(document: Document) -> str:
    return json.dumps(document, indent=2, ensure_ascii=False) + "\n"


def as_badge(document: Document) -> str:
    """The JSON of a shields.io endpoint badge."""
    verdict = document["verdict"]
    profiles = ", ".join(name for name, one in document["profiles"].items() if one["verdict"] == "conformant")
    message = f"{document['revision']['name']}: {profiles}" if document["claim"] else verdict
    badge = {
        "schemaVersion": 1,
        "label": "protocol 3",
        "message": message,
        "color": COLOURS[verdict] if document["claim"] or verdict != "conformant" else "lightgrey",
    }
    return json.dumps(badge) + "\n"


WRITERS: Mapping[str, Callable[[Document], str]] = {
    "json": as_json,
    "html": html_report.page,
    "md": markdown.text,
    "badge": as_badge,
}


def probe(path: str) -> None:
    """Raises OSError where no file can be written. What is there stays as it is, and nothing new is left."""
    new = not os.path.lexists(path)
    Path(path).open("ab").close()
    if new:
        Path(path).unlink()


def write(document: Document, paths: Mapping[str, str | None]) -> None:
    """Write the reports that have a path. Raises OSError when a file cannot be written."""
    for name, path in paths.items():
        if path:
            Path(path).write_text(WRITERS[name](document), encoding="utf-8")
