"""The tool that reads requirements out of the chapters: what it takes, what it refuses."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[3] / "tools"))

from chapters import Fault, extract, level

HEAD = "# Waiting\n*role: coordinator · profile: core · observed: wire*\n\n"


def chapters(folder: Path, **texts: str) -> Path:
    for name, text in texts.items():
        (folder / f"{name.removeprefix('c')}-some.md").write_text(text, encoding="utf-8")
    return folder


def test_bullets_and_rows(tmp_path: Path) -> None:
    text = HEAD + (
        "- **DLV-001** A poll waits\n  at most its time. (= DLV-002)\n\n"
        "| ID | rule |\n|---|---|\n| **DLV-002** (role: worker, process) | A \\| b | c |\n"
    )
    first, second = extract(chapters(tmp_path, c07=text))
    assert first == {
        "id": "DLV-001",
        "chapter": "07-some.md",
        "section": "Waiting",
        "level": "MUST",
        "role": "coordinator",
        "profile": "core",
        "observed": "wire",
        "owned_by": ["DLV-002"],
        "text": "A poll waits at most its time. (= DLV-002)",
    }
    assert (second["role"], second["profile"], second["observed"]) == ("worker", "core", "process")
    assert second["text"] == "A | b | c"


def test_attributes_hold_below_their_heading_only(tmp_path: Path) -> None:
    text = HEAD + (
        "## One\n*observed: time*\n\n### Deep\n- **AA-001** x\n\n"
        "## Two\n- **AA-002** y\n\n### Own\n*role: worker*\n- **AA-003** z\n"
    )
    found = extract(chapters(tmp_path, c01=text))
    assert [(one["role"], one["observed"]) for one in found] == [
        ("coordinator", "time"),
        ("coordinator", "wire"),
        ("worker", "wire"),
    ]


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        (HEAD + "- **AA-001** a\n- **AA-001** b\n", "stated twice"),
        (HEAD + "- **AA-001** a (= AA-009)\n", "does not exist"),
        ("# No attributes\n- **AA-001** a\n", "has no role, profile, observed"),
        (HEAD + "- **AA-001** (role: cook) a\n", "no attribute"),
        (HEAD + "- AA-001: a\n", "written like no requirement"),
        (HEAD + "**AA-001** a\n", "written like no requirement"),
        (HEAD + "| AA-001 | a |\n", "written like no requirement"),
        ("# Nothing\n", "no chapters"),
    ],
)
def test_what_is_refused(tmp_path: Path, text: str, complaint: str) -> None:
    with pytest.raises(Fault, match=complaint):
        extract(chapters(tmp_path, c01=text))


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("It waits.", "MUST"),
        ("It MUST NOT wait, and MAY tell.", "MUST"),
        ("It SHOULD NOT wait.", "SHOULD"),
        ("It MAY wait.", "MAY"),
        ("*Informative.* It waits, and MUST.", "INFORMATIVE"),
    ],
)
def test_the_level_is_the_keyword(text: str, expected: str) -> None:
    assert level(text) == expected
