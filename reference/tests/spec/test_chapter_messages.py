"""What the chapters show as JSON is JSON, and valid by the schema named above it (`<!-- schema: NAME -->`)."""

import re
from pathlib import Path

import pytest

from protocol3.contract.strict_json import decode
from protocol3_spec.validation import problems

SPEC = Path(__file__).parents[3] / "spec"
BLOCK = re.compile(r"(?:^<!-- schema: (\S+) -->\n)?^```json\n(.*?)^```", re.DOTALL | re.MULTILINE)
CHAPTERS = sorted(SPEC.glob("[0-9][0-9]-*.md"))


@pytest.mark.parametrize("chapter", CHAPTERS, ids=lambda chapter: chapter.stem)
def test_messages_of_a_chapter(chapter):
    for schema, text in BLOCK.findall(chapter.read_text(encoding="utf-8")):
        message = decode(text.encode())
        assert not schema or problems(schema, message) == [], (schema, text)


def test_there_are_some():
    shown = [schema for chapter in CHAPTERS for schema, _ in BLOCK.findall(chapter.read_text(encoding="utf-8"))]
    assert len([schema for schema in shown if schema]) > 50
