"""Without test controls every statement is what it always was."""

from __future__ import annotations

import inspect
import pkgutil
import re
from importlib import import_module

import pytest

from protocol3.coordinator.background import due, obligations
from protocol3.store import loads
from protocol3.store.clock import REAL, timed


def texts():
    """Every statement of the loads and the loops."""
    modules = [import_module(f"{loads.__name__}.{found.name}") for found in pkgutil.iter_modules(loads.__path__)]
    found = []
    for module in (*modules, due, obligations):
        for name, value in inspect.getmembers(module, lambda value: isinstance(value, str)):
            if re.match(r"_?[A-Z]", name) and ("select" in value or "update" in value):
                found.append(pytest.param(value, id=f"{module.__name__.rpartition('.')[2]}{name}"))
    return found


@pytest.mark.parametrize("text", texts())
def test_statements_without_test_controls(text):
    """No clock but the database's; no lock, no column and no table more than the rules need."""
    plain = re.sub(r"\{now\([^)]*\)\}", REAL, re.sub(r"\{clock\([^)]*\)\}", "", text)).replace("{real}", REAL)
    assert timed(text) == plain
    assert "offset" not in plain


def test_statements_with_test_controls():
    """The same ones have another clock: or the test above would show nothing."""
    with_clocks = [param.values[0] for param in texts() if "{now(" in param.values[0]]
    assert len(with_clocks) > 15
    assert all("clock_offset_ms" in timed(text, virtual=True) for text in with_clocks)
