"""Which codes a check asserts is read from its source: status, race or scenario, and what stands in `unchanged`."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from types import ModuleType

import pytest

TOOLS = Path(__file__).parents[3] / "tools"
SOURCE = """
@scenario("a/b", cites=["X-001"])
async def test_a(lab):
    (await lab.one()).refused("conflict")
    async with unchanged(lab.client):
        with lab.case("two"):
            (await lab.two()).refused("invalid_input", 413)
    async with lab.controls.holding("x"):
        (await lab.three()).refused("busy")


@race("meeting", cites=[])
async def meeting(lab):
    async def judge(sent, _):
        sent.refused("ownership_lost")


async def helper(lab):
    (await lab.one()).refused("not_found")
"""


@pytest.fixture(scope="module")
def tool() -> ModuleType:
    spec = importlib.util.spec_from_file_location("protocol3_asserted_codes", TOOLS / "asserted_codes.py")
    assert spec is not None
    assert spec.loader is not None
    module = sys.modules["protocol3_asserted_codes"] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_what_is_asserted(tool: ModuleType, tmp_path: Path) -> None:
    module = tmp_path / "test_module.py"
    module.write_text(SOURCE)
    assert [(one.check, one.code, one.status, one.read_back) for one in tool.asserted(module)] == [
        ("a/b", "conflict", 409, False),
        ("a/b", "invalid_input", 413, True),
        ("a/b", "busy", 409, False),
        ("contests/meeting", "ownership_lost", 409, False),
    ]
