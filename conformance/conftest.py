"""Loads the suite's plugin for `pytest conformance`; the suite's own tests run by name only."""

import sys
from pathlib import Path

import pytest

collect_ignore = ["tests", "mutants"]


def pytest_addoption(pluginmanager: pytest.PytestPluginManager) -> None:
    """Register the plugin; a bare checkout finds the packages beside this file and in spec/."""
    here = Path(__file__).parent
    for folder in (here, here.parent / "spec"):
        if str(folder) not in sys.path:
            sys.path.append(str(folder))
    pluginmanager.import_plugin("protocol3_conformance.plugin")
