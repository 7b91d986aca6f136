"""tools/spec_tables.py: tables made from data, and that drift is found and not repaired by a check."""

import importlib.util
import re
from pathlib import Path
from types import ModuleType

import pytest

from protocol3_spec import limits, routes
from protocol3_spec.documents import optional_routes
from protocol3_spec.loader import read

ROOT = Path(__file__).resolve().parents[3]


@pytest.fixture(scope="module")
def tool() -> ModuleType:
    spec = importlib.util.spec_from_file_location("spec_tables", ROOT / "tools/spec_tables.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_every_limit_and_every_route_has_its_row(tool: ModuleType) -> None:
    written = "\n".join(tool.table("limits.json"))
    assert all(written.count(f"| `{name}` |") == 1 for name in limits())
    written = "\n".join(tool.table("routes.json"))
    assert all(f"| `{route['method']} {route['path']}` |" in written for route in routes())
    written = "\n".join(tool.table("routes.json optional"))
    assert all(
        f"| `{route['method']} {route['path']}` | [{route['profile']}](" in written for route in optional_routes()
    )
    assert "/v1/tasks`" not in "\n".join(tool.table("routes.json /v1/workflows"))


def test_drift_is_named_and_only_repaired_when_asked(
    tool: ModuleType, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    chapter = tmp_path / "41-states.md"
    old = "before\n<!-- from: states.json transitions.task -->\n| by hand |\n<!-- end -->\nafter\n"
    chapter.write_text(old)
    assert tool.main(["--check"], tmp_path) == 1
    assert "41-states.md: the table from states.json transitions.task" in capsys.readouterr().out
    assert chapter.read_text() == old
    assert tool.main([], tmp_path) == 0
    assert "| `queued` | claim | `active` |" in chapter.read_text()
    assert chapter.read_text().startswith("before\n")
    assert chapter.read_text().endswith("<!-- end -->\nafter\n")
    assert tool.main(["--check"], tmp_path) == 0


@pytest.mark.parametrize("what", ["limits.jsn", "routes.json /v2", "states.json transitions.wait", "states.json"])
def test_a_marker_that_names_no_table_fails(
    tool: ModuleType, tmp_path: Path, capsys: pytest.CaptureFixture[str], what: str
) -> None:
    (tmp_path / "40-limits.md").write_text(f"<!-- from: {what} -->\n<!-- end -->\n")
    assert tool.main([], tmp_path) == 1
    assert f"there is no table '{what}'" in capsys.readouterr().out


def test_numbers_are_exact_and_shown_larger_only_where_exact(tool: ModuleType) -> None:
    shown = {name: tool.number(limits()[name]).replace("\u00a0", " ") for name in limits()}
    assert shown["BODY_BYTES"] == "2 097 152 bytes (2 MiB)"
    assert shown["MAX_TIMESTAMP_MS"] == "253 402 300 799 999 ms"
    assert shown["LEASE_MS"] == "60 000 ms (1 min)"
    assert shown["ID_BYTES"] == "128 bytes"
    assert shown["U32_MAX"] == "4 294 967 295"


def test_a_bar_does_not_end_a_cell(tool: ModuleType) -> None:
    assert [*tool.rows(("a",), [("x|y",)])][-1] == "| x\\|y |"


@pytest.mark.parametrize("left", ["<!-- from: errors.json -->\n| Code |\n", "| Code |\n<!-- end -->\n"])
def test_half_a_marker_fails(tool: ModuleType, tmp_path: Path, capsys: pytest.CaptureFixture[str], left: str) -> None:
    """A table whose other marker was lost would be nobody's any more."""
    (tmp_path / "04-errors.md").write_text(left, encoding="utf-8")
    assert tool.main(["--check"], tmp_path) == 1
    assert "04-errors.md: a marker without its other half" in capsys.readouterr().out


def test_every_table_that_can_be_written_stands_in_a_chapter(tool: ModuleType) -> None:
    found = {marked[1] for path in tool.SPEC.glob("*.md") for marked in tool.MARKED.finditer(path.read_text("utf-8"))}
    assert found >= {
        *("limits.json", "errors.json", "errors.json publication", "routes.json", "routes.json optional"),
        *("states.json transitions.task", "states.json transitions.workflow", "states.json vocabularies"),
    }


@pytest.mark.parametrize("machine", ["task", "workflow"])
def test_diagrams_have_the_transitions_of_the_data(tool: ModuleType, machine: str) -> None:
    """The diagram before the table of a machine: every arrow with its states and its event, and no other."""
    text = (tool.SPEC / "41-states.md").read_text("utf-8")
    text, marker, _ = text.partition(f"<!-- from: states.json transitions.{machine} -->")
    assert marker
    diagram = text.rpartition("stateDiagram-v2")[2].partition("```")[0]
    drawn = re.findall(r"^ +(\S+) --> (\w+) : (?:T\d+ )?(.+)$", diagram, re.MULTILINE)
    assert sorted(drawn) == sorted(
        (one["from"] or "[*]", one["to"], one["event"]) for one in read("states.json")["transitions"][machine]
    )
