"""tools/site/page_text.py: pages of the repository as the site's generator wants them."""

import importlib
import importlib.util
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[3]


@pytest.fixture
def linker(monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.syspath_prepend(str(ROOT / "tools"))
    spec = importlib.util.spec_from_file_location("page_text", ROOT / "tools/site/page_text.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    monkeypatch.setitem(sys.modules, "page_text", module)
    spec.loader.exec_module(module)
    return module.Linker(chapters={"DLV-031": "07-delivery.md", "TXT-001": "02-text-and-time.md"})


@pytest.mark.parametrize(
    ("path", "text", "page"),
    [
        ("docs/a.md", "see DLV-031.", "see [DLV-031](../spec/07-delivery.md#DLV-031)."),
        ("spec/02-a.md", "see DLV-031.", "see [DLV-031](07-delivery.md#DLV-031)."),
        ("README.md", "see DLV-031.", "see [DLV-031](spec/07-delivery.md#DLV-031)."),
        ("docs/a.md", "`LEASE_MS`", "[`LEASE_MS`](../spec/40-limits.md#LEASE_MS)"),
        ("docs/a.md", "`DLV-031` [DLV-031](x.md) DLV-0311 DLV-999", "`DLV-031` [DLV-031](x.md) DLV-0311 DLV-999"),
        ("docs/a.md", "# DLV-031", "# DLV-031"),
        ("docs/a.md", "```\nDLV-031\n```", "```\nDLV-031\n```"),
        (
            "spec/07-delivery.md",
            "- **DLV-031** (role: worker) A poll.",
            "- [DLV-031](../requirements/DLV.md#DLV-031){#DLV-031 .requirement} (role: worker) A poll.",
        ),
        (
            "spec/07-delivery.md",
            "| **DLV-031** | a | (= TXT-001) |",
            "| [DLV-031](../requirements/DLV.md#DLV-031){#DLV-031 .requirement} | a "
            "| (= [TXT-001](02-text-and-time.md#TXT-001)) |",
        ),
        ("spec/a.md", "[x](protocol3_spec/schemas/wait.json)", "[x](../schemas/wait.md)"),
        ("spec/a.md", "*role: worker · profile: core*", "*role: worker · profile: core*\n{: .attributes }"),
        ("spec/a.md", "text:\n- one\n  - two\n  three", "text:\n\n- one\n    - two\n    three"),
        ("spec/a.md", "- one\n  ```json\n  {\n    1}\n  ```", "- one\n    ```json\n    {\n      1}\n    ```"),
    ],
)
def test_page(linker: Any, path: str, text: str, page: str) -> None:
    assert linker.page(path, text) == f"{page}\n"


def test_a_diagram_can_be_wider_than_a_phone(linker: Any) -> None:
    page = linker.page("spec/a.md", "```mermaid\nstateDiagram-v2\n```")
    assert page == '<div class="diagram" markdown>\n\n```mermaid\nstateDiagram-v2\n```\n\n</div>\n'


def test_the_page_of_reports_says_how_to_make_them(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each run has its command, its report, its table as Markdown within the page, and no heading above its own."""
    spec = importlib.util.spec_from_file_location("report_pages", ROOT / "tools/site/report_pages.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    monkeypatch.setitem(sys.modules, "report_pages", module)
    spec.loader.exec_module(module)
    table = "## Conformance of x\n\n### failed\n\n<details><summary>all</summary>\n"
    page = module.page({run.name: table for run in module.RUNS})
    for run in module.RUNS:
        assert f"]({run.name}.html)" in page
        assert f"python tools/run_conformance.py {run.words[0]}" in page
    assert page.count("### Conformance of x\n") == page.count("#### failed\n") == len(module.RUNS)
    assert page.count("<details markdown><summary>") == len(module.RUNS)
    assert page.count("\n## ") == len(module.RUNS)


def test_each_requirement_leads_to_the_mutants_that_prove_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """Only rules that a killer shows count, not all that a mutant breaks; what is not there is left out of the data."""
    monkeypatch.syspath_prepend(str(ROOT / "tools"))
    monkeypatch.syspath_prepend(str(ROOT / "tools/site"))
    page = importlib.import_module("mutant_page")
    plain = {"role": "worker", "kind": "clock", "sentence": "S.", "seen": None}
    fault = SimpleNamespace(id="fault", breaks=("A-1", "A-2"), of=None, **plain)
    twin = SimpleNamespace(id="fault-twin", breaks=("A-1",), of="fault", **plain)
    kept = {"fault": {"digest": "0", "verdict": "killed", "by": {"a/b": ["A-1"], "c/d": ["A-1"]}}}
    rows = page.data([fault, twin], kept)
    assert "seen" not in rows[0]
    assert [row.get("verdict") for row in rows] == ["killed", None]
    assert page.proofs(rows) == {"A-1": ["fault"]}
    assert page.linked("text\n\n| kind |\n").count("(kill-matrix.json)") == 1
