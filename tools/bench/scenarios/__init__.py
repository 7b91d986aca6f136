"""What is measured: one module for each scenario, with `ABOUT`, `METRICS` and `play`.

A scenario with `PEERS` takes an engine (`play(engine, options)`, one round); the others make their own system
(`play(folder, options)`, yielding a round at a time). Either way a round is a figure for each metric.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

Figures = dict[str, float]


@dataclass(frozen=True, slots=True, kw_only=True)
class Metric:
    """`better` says which side of a ratio is good; None where a figure is only reported."""

    unit: str
    better: Literal["more", "less"] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """`seconds` of load in a round, `rows` to fill tables with, `consumers` that wait, `timers` due at once, `slots` of
    our worker, each with a process of its own."""

    rounds: int = 5
    seconds: float = 3.0
    rows: int = 100_000
    consumers: int = 500
    timers: int = 1_000
    slots: int = 32


def in_turn(number: int, beside: Iterable[str]) -> list[str]:
    """What is measured side by side, by name, in the order of a round: every other round the other way round."""
    return list(beside)[:: -1 if number % 2 else 1]


def names() -> list[str]:
    """The scenarios in the order of the table."""
    found = {path.stem.replace("_", "-") for path in Path(__file__).parent.glob("[!_]*.py")}
    first = ["trivial-1", "trivial-32", "latency", "steps", "fan-tasks", "fan-forks", "memory"]
    return [*first, *sorted(found - {*first})]
