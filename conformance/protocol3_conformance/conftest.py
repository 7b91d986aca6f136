"""Loads the suite's plugin when a folder of the suite is named by its path."""

import pytest


def pytest_addoption(pluginmanager: pytest.PytestPluginManager) -> None:
    """Registering here is early enough for the plugin's own options."""
    pluginmanager.import_plugin("protocol3_conformance.plugin")
