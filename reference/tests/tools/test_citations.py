"""How citations are read: the forms of ranges, and the function that a citation stands at."""

import importlib.util
import sys
from pathlib import Path
from types import ModuleType

import pytest

TOOLS = Path(__file__).parents[3] / "tools"


@pytest.fixture(scope="module")
def citations() -> ModuleType:
    spec = importlib.util.spec_from_file_location("protocol3_citations", TOOLS / "citations.py")
    assert spec is not None
    assert spec.loader is not None
    module = sys.modules["protocol3_citations"] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


KNOWN = ["DLV-010", "DLV-011", "DLV-012", "DLV-040", "HLP-A01", "HLP-A02", "JSON-040", "JSON-041", "WF-013", "WF-015"]


@pytest.mark.parametrize(
    ("text", "named"),
    [
        ("see DLV-011.", ["DLV-011"]),
        ("DLV-010..012", ["DLV-010", "DLV-011", "DLV-012"]),
        ("DLV-010...012", ["DLV-010", "DLV-011", "DLV-012"]),
        ("DLV-010…DLV-012", ["DLV-010", "DLV-011", "DLV-012"]),
        ("DLV-010 to 012", ["DLV-010", "DLV-011", "DLV-012"]),
        ("DLV-011\N{EN DASH}040", ["DLV-011", "DLV-012", "DLV-040"]),
        ("DLV-010/012", ["DLV-010", "DLV-012"]),
        ("WF-013/WF-015", ["WF-013", "WF-015"]),
        ("DLV-010, 011 and 040", ["DLV-010", "DLV-011", "DLV-040"]),
        ("DLV-010, 011..040", ["DLV-010", "DLV-011", "DLV-012", "DLV-040"]),
        ("HLP-A01..A02", ["HLP-A01", "HLP-A02"]),
        ("DLV-010, JSON-040", ["DLV-010", "JSON-040"]),
        ("DLV-010, 12 times", ["DLV-010"]),
        ("DLV-010 and 2026", ["DLV-010"]),
        ("DLV-999", ["DLV-999"]),
        ("xDLV-010, DLV-1, WF-0131", []),
    ],
)
def test_ranges_are_written_out(citations: ModuleType, text: str, named: list[str]) -> None:
    assert [one.identifier for one in citations.Catalogue(KNOWN).named(text)] == named


def test_a_range_says_how_wide_it_is(citations: ModuleType) -> None:
    assert [one.width for one in citations.Catalogue(KNOWN).named("DLV-010..012, 040")] == [3, 3, 3, 1]


SOURCE = '''\
"""The module. DLV-010."""

LIMIT = 1
"""Of a constant. DLV-011."""


# Above a function: DLV-012.
def first() -> None:
    """Its docstring. DLV-040."""
    count = 1  # in its line: WF-013
    print("a string: WF-015", count)


class Outer:
    async def inner(self) -> None:
        """JSON-040."""


# Above nothing: JSON-041.

second = "HLP-A01"
'''


def test_a_citation_belongs_to_what_it_stands_at(citations: ModuleType, tmp_path: Path) -> None:
    (tmp_path / "module.py").write_text(SOURCE)
    read = citations.places(citations.Catalogue(KNOWN), tmp_path, tmp_path / "module.py", strings=True)
    assert {place.identifier: (place.line, place.holder) for place in read} == {
        "DLV-010": (1, ""),
        "DLV-011": (4, "LIMIT"),
        "DLV-012": (7, "first"),
        "DLV-040": (9, "first"),
        "WF-013": (10, "first"),
        "WF-015": (11, "first"),
        "JSON-040": (16, "Outer.inner"),
        "JSON-041": (19, "(comment)"),
        "HLP-A01": (21, "second"),
    }
    without = citations.places(citations.Catalogue(KNOWN), tmp_path, tmp_path / "module.py")
    assert {"WF-015", "HLP-A01"}.isdisjoint(place.identifier for place in without)


def test_checks_of_the_suite_are_read_with_what_they_cite(citations: ModuleType, tmp_path: Path) -> None:
    source = (
        '@scenario("tasks/submit", cites=["DLV-010", "WF-013"])\nasync def submit(): ...\n\n@other("x")\ndef y(): ...\n'
    )
    (tmp_path / "tasks.py").write_text(source)
    (read,) = citations.checks(tmp_path, tmp_path / "tasks.py")
    assert (read.check_id, read.path, read.cites) == ("tasks/submit", "tasks.py", ("DLV-010", "WF-013"))
