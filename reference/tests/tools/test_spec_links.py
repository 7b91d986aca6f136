"""tools/spec_links.py: each kind of fault is found, and nothing else."""

import sys
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).resolve().parents[3]


@pytest.fixture
def tool(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    monkeypatch.syspath_prepend(str(ROOT / "tools"))
    monkeypatch.delitem(sys.modules, "spec_links", raising=False)
    import spec_links

    return spec_links


def test_the_documents_hold(tool: ModuleType, capsys: pytest.CaptureFixture[str]) -> None:
    assert tool.main([]) == 0, capsys.readouterr().out


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("[a](missing.md)", "links"),
        ("[a](#nowhere)", "links"),
        ("[a](03-http.md#nowhere)", "links"),
        ("[a\n[b] c](missing.md)", "links"),
        ("see DLV-998", "IDs"),
        ("DLV-001 to DLV-999", "IDs"),
        ("`NO_SUCH_BYTES`", "limits"),
        ('<!-- schema: no-such -->\n```json\n{"a": 1}\n```\n', "schemas"),
        ('```json\n{"a": 1, "a": 2}\n```\n', "JSON"),
        ("```json\n{…}\n```\n", "JSON"),
    ],
)
def test_a_fault_is_found(
    tool: ModuleType, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, text: str, kind: str
) -> None:
    page = place(tool, monkeypatch, tmp_path, text)
    assert [name for name, found in tool.faults(page).items() if found] == [kind]


@pytest.mark.parametrize(
    "text",
    [
        "# A `b`: c\n[a](#a-b-c) [b](03-http.md#routes) [c](https://example.org/x#y) [d](missing-not.md)",
        '<a id="x-1"></a>\n[a](#x-1)',
        "# A\n# A\n[a](#a-1)",
        "`[a](missing.md)` and DLV-001, DLV-003 to DLV-005, `LEASE_MS`, `OTEL_SERVICE_NAME`",
        '<!-- schema: error -->\n```json\n{"code": "conflict"}\n```\n',
    ],
)
def test_what_exists_is_no_fault(tool: ModuleType, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, text: str) -> None:
    page = place(tool, monkeypatch, tmp_path, text)
    (page.parent / "missing-not.md").write_text("")
    assert {name: found for name, found in tool.faults(page).items() if found} == {}


def place(tool: ModuleType, monkeypatch: pytest.MonkeyPatch, folder: Path, text: str) -> Path:
    """A chapter with this text beside the real ones."""
    chapters = folder / "spec"
    chapters.mkdir()
    for chapter in (ROOT / "spec").glob("0[3-7]-*.md"):
        (chapters / chapter.name).symlink_to(chapter)
    monkeypatch.setattr(tool, "ROOT", folder)
    tool.catalogue.cache_clear()
    (chapters / "99-page.md").write_text(text + "\n")
    return chapters / "99-page.md"
