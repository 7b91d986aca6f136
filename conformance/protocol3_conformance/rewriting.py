"""Imported before anything that asserts: pytest then tells the two sides of a bare `assert` that failed.

An installed wheel has this by its entry point; a checkout, and a process without foreign plugins, have it by this.
"""

from __future__ import annotations

import pytest

ASSERTING = ("lab", "runtime_lab", "worker_lab", "publication", "roles", "scenarios")

pytest.register_assert_rewrite(*(f"{__package__}.{name}" for name in ASSERTING))
