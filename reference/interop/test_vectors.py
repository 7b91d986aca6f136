"""The published client and helper give the message vectors the verdicts they state, wherever they have an opinion."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

HERE = Path(__file__).parent
MESSAGES = HERE.parents[1] / "fixtures/vectors/messages"

DIFFERENCES: dict[str, dict[str, str]] = {
    "judged_replies.py": {
        "task-snapshot null /input/correlation_key": (
            "a service leaves an absent key out; the client takes null for absence there (CLI-052)"
        ),
        "error good 3": "a code of no operation: the client knows those of operations alone (CLI-017)",
        "error bad 3": "the bound of a message binds the service; the client has one for the whole body (CLI-012)",
    },
    "judged_frames.py": {
        "frame-invoke bad 7": "the published helper takes 3.0 for the version 3; no host sends it (RUN-026)",
        "frame-shutdown bad 2": "the published helper takes 3.0 for the version 3; no host sends it (RUN-026)",
        "frame-invoke null /observe": "anything but true means no (RUN-039)",
        "frame-invoke word /event/specversion": "the helper does not judge the event beyond its identity (RUN-035)",
    },
}
"""Vectors to which a release gives another verdict, and why each may stay so."""
LEAST = {"judged_replies.py": 350, "judged_frames.py": 70}


@pytest.mark.parametrize("script", DIFFERENCES)
def test_verdicts_of_the_release(script: str) -> None:
    """CLI-015, CLI-016, CLI-023, RUN-026, RUN-035, RUN-061, RUN-075: every difference is one of the table, and used."""
    done = subprocess.run([sys.executable, HERE / script], capture_output=True, text=True, check=True)
    verdicts: dict[str, bool] = json.loads(done.stdout)
    assert len(verdicts) >= LEAST[script]
    wrong = {name for name, accepted in verdicts.items() if accepted is not stated(name)}
    assert wrong == DIFFERENCES[script].keys()


def stated(name: str) -> bool:
    schema, _, identity = name.partition(" ")
    file: Any = json.loads((MESSAGES / f"{schema}.json").read_text(encoding="utf-8"))
    return any(vector["id"] == identity for vector in file["valid"])
