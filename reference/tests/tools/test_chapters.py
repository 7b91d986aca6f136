"""The tool that reads requirements out of the chapters: what it takes, what it refuses."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[3] / "tools"))

from chapters import SPEC, WORDS, Fault, counts, extract, level

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
        "profiles": ["core"],
        "observed": "wire",
        "owned_by": ["DLV-002"],
        "text": "A poll waits at most its time. (= DLV-002)",
    }
    assert (second["role"], second["profiles"], second["observed"]) == ("worker", ["core"], "process")
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


def test_a_rule_may_belong_to_several_profiles(tmp_path: Path) -> None:
    text = HEAD + "- **AA-001** (virtual-time or faults) x\n- **AA-002** y\n"
    found = extract(chapters(tmp_path, c01=text))
    assert [one["profiles"] for one in found] == [["virtual-time", "faults"], ["core"]]
    assert counts(found).splitlines() == [
        "2 requirements",
        "level: MUST 2",
        "role: coordinator 2",
        "profiles: virtual-time 1, faults 1, core 1",
        "observed: wire 2",
    ]


def test_a_range_of_owners_is_written_out(tmp_path: Path) -> None:
    """Only the IDs that exist; those of another prefix do not lie between."""
    text = HEAD + "".join(f"- **{one}** x\n" for one in ("AA-001", "AA-004", "AA-002", "AB-002"))
    text += "- **AA-009** y (= AA-001 to AA-004, AB-002)\n"
    assert extract(chapters(tmp_path, c01=text))[-1]["owned_by"] == ["AA-001", "AA-002", "AA-004", "AB-002"]


def test_every_requirement_of_the_specification_has_its_attributes() -> None:
    for one in extract(SPEC):
        assert one["level"] in ("MUST", "SHOULD", "MAY", "INFORMATIVE")
        assert one["role"] in WORDS["role"]
        assert one["observed"] in WORDS["observed"]
        profiles = one["profiles"]
        assert isinstance(profiles, list)
        assert profiles
        assert WORDS["profile"].issuperset(profiles)
        assert one["text"]
        assert one["section"]


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        (HEAD + "- **AA-001** a\n- **AA-001** b\n", "stated twice"),
        (HEAD + "- **AA-001** a (= AA-009)\n", "does not exist"),
        ("# No attributes\n- **AA-001** a\n", "has no role, profile, observed"),
        (HEAD + "- **AA-001** a (= AA-001 to AA-009)\n", "AA-009, which does not exist"),
        (HEAD + "- **AA-001** a (= the rule above)\n", "the rule above, which does not exist"),
        (HEAD + "- **AA-001** (role: cook) a\n", "no attribute"),
        (HEAD + "- **AA-001** (worker or client) a\n", "one role"),
        (HEAD + "- **AA-001** (core or cook) a\n", "no attribute"),
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
