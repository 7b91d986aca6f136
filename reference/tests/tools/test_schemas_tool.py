"""tools/schemas.py: what it fills in, and what it refuses."""

import importlib.util
import json
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from protocol3.contract import limits

ROOT = Path(__file__).resolve().parents[3]


@pytest.fixture(scope="module")
def tool() -> ModuleType:
    spec = importlib.util.spec_from_file_location("schemas_tool", ROOT / "tools/schemas.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_files_are_in_step(
    tool: ModuleType, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "argv", ["schemas.py", "--check"])
    assert tool.main() == 0
    assert capsys.readouterr().out.endswith(" passed, 0 failed\n")


def test_drift_is_named_and_not_repaired(
    tool: ModuleType, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    schema = {"$id": f"{tool.BASE}one.json", "maxLength": 5, "x-limits": {"maxLength": "ID_BYTES"}}
    (tmp_path / "schemas").mkdir()
    (tmp_path / "schemas/one.json").write_text(json.dumps(schema))
    (tmp_path / "routes.json").write_text((ROOT / "spec/protocol3_spec/routes.json").read_text())
    (tmp_path / "openapi.json").write_text((ROOT / "spec/protocol3_spec/openapi.json").read_text())
    monkeypatch.setattr(tool, "SPEC", tmp_path)
    monkeypatch.setattr(tool, "ROOT", tmp_path)
    monkeypatch.setattr(sys, "argv", ["schemas.py", "--check"])
    assert tool.main() == 1
    assert "schemas/one.json is not what its sources say" in capsys.readouterr().out
    assert json.loads((tmp_path / "schemas/one.json").read_text()) == schema
    monkeypatch.setattr(sys, "argv", ["schemas.py"])
    assert tool.main() == 0
    assert json.loads((tmp_path / "schemas/one.json").read_text())["maxLength"] == limits.ID_BYTES


def test_numbers_and_words_come_from_the_data(tool: ModuleType) -> None:
    schema = {
        "maximum": 0,
        "default": {"max_attempts": 0},
        "x-limits": {"maximum": "MAX_ATTEMPTS", "default/max_attempts": "DEFAULT_MAX_ATTEMPTS"},
        "items": [{"enum": [], "x-words": "task_state.terminal"}],
    }
    filled = tool.filled(schema, "here")
    assert filled["maximum"] == limits.MAX_ATTEMPTS
    assert filled["default"] == {"max_attempts": limits.DEFAULT_MAX_ATTEMPTS}
    assert filled["items"][0]["enum"] == ["succeeded", "failed", "cancelled"]


@pytest.mark.parametrize(
    ("schema", "said"),
    [
        ({"maximum": 0, "x-limits": {"maximum": "NO_SUCH"}}, "limits.json has no NO_SUCH"),
        ({"x-limits": {"maximum": "ID_BYTES"}}, "names maximum, which is not there"),
        ({"enum": [], "x-words": "no_such"}, "states.json has no no_such"),
        ({"enum": [], "x-words": "task_state.odd"}, "states.json has no task_state.odd"),
        ({"properties": {"a": {"maxLength": 128}}}, "needs the name of its limit"),
    ],
)
def test_names_that_are_wrong_or_missing(tool: ModuleType, schema: dict[str, Any], said: str) -> None:
    with pytest.raises(SystemExit, match=said):
        tool.filled(schema, "here")
