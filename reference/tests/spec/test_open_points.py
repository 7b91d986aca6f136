"""`spec/52-open-points.md` is complete, what it cites is there, and what the other chapters cite of it."""

import json
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
TESTS = ROOT / "reference/tests"
CHAPTER = (ROOT / "spec/52-open-points.md").read_text()
ENTRIES = re.split(r"^### ", CHAPTER, flags=re.MULTILINE)[1:]
ANCHORS = {*re.findall(r'<a id="([^"]+)"></a>', CHAPTER)}
LINK = re.compile(r"52-open-points\.md(?:#([\w-]+))?")
PARTS = ("Question", "Choice", "Evidence", "Reference", "A test may judge")
CITATION = re.compile(r"`([\w/]+\.py)`\s+(test_\w+(?:,\s+test_\w+)*)")


@pytest.mark.parametrize("entry", ENTRIES, ids=lambda entry: entry.partition(":")[0])
def test_every_entry_is_whole(entry):
    assert re.findall(r"^- \*\*(.+?)\*\*: \S", entry, flags=re.MULTILINE) == [*PARTS]
    assert re.search(r"\*\*Evidence\*\*: (run|read|inferred)", entry)


@pytest.mark.parametrize("entry", ENTRIES, ids=lambda entry: entry.partition(":")[0])
def test_every_cited_test_exists(entry):
    for file, names in CITATION.findall(entry):
        text = (TESTS / file).read_text()
        for name in re.split(r",\s+", names):
            assert f"def {name}(" in text, (file, name)


def test_every_rule_that_calls_itself_open_has_an_entry():
    """As far as the rule itself says so."""
    rules = json.loads((ROOT / "spec/protocol3_spec/requirements.json").read_text())["requirements"]
    unsure = {rule["id"] for rule in rules if LINK.search(rule["text"])}
    named = set(re.findall(r"[A-Z]{2,4}-\d{3}", " ".join(entry.partition("\n")[0] for entry in ENTRIES)))
    assert unsure
    assert unsure <= named


def test_every_link_to_an_open_point_is_by_id():
    """Not by the anchor that a viewer makes of a heading, which changes with its words."""
    linked = {
        (path.name, anchor)
        for path in (ROOT / "spec").glob("*.md")
        for anchor in LINK.findall(path.read_text())
        if anchor
    }
    assert linked
    assert {link for link in linked if link[1] not in ANCHORS} == set()


def test_every_open_point_can_be_linked_to_by_its_id():
    named = {one.lower() for entry in ENTRIES for one in re.findall(r"[A-Z]{2,4}-\d{3}", entry.partition(":")[0])}
    assert named <= ANCHORS
