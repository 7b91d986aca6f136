"""Imported before anything that asserts: pytest then tells the two sides of a bare `assert` that failed.

An installed wheel has this by its entry point; a checkout, and a process without foreign plugins, have it by this.
"""

from __future__ import annotations

import pytest
from _pytest.assertion import util

from protocol3_conformance.assertions import comparison

ASSERTING = ("lab", "runtime_lab", "worker_lab", "publication", "roles", "scenarios")


def explained(op: str, left: object, right: object) -> str | None:
    """As pytest itself tells it while an item runs; scenarios run when they like, in a thread."""
    lines = comparison(op, left, right)
    return None if lines is None else "\n~".join(line.replace("\n", "\\n") for line in lines).replace("%", "%%")


setattr(util, "_reprcompare", explained)  # noqa: B010  # private: without it a message is shorter, nothing else

pytest.register_assert_rewrite(*(f"{__package__}.{name}" for name in ASSERTING))
