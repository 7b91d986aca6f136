"""`spec/open-points.md` is complete, and what it cites is there."""

import json
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
TESTS = ROOT / "reference/tests"
ENTRIES = re.split(r"^### ", (ROOT / "spec/open-points.md").read_text(), flags=re.MULTILINE)[1:]
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
    unsure = {rule["id"] for rule in rules if "UNSURE" in rule["text"]}
    named = set(re.findall(r"[A-Z]{2,4}-\d{3}", " ".join(entry.partition("\n")[0] for entry in ENTRIES)))
    assert unsure
    assert unsure <= named
