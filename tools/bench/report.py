"""The results of a run as a table for people and as JSON."""

from __future__ import annotations

import json
import os
import platform
import statistics
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

from bench.scenarios import Figures, Metric, Options


@dataclass(slots=True, kw_only=True)
class Row:
    """All rounds of a scenario on one engine."""

    scenario: str
    engine: str
    metrics: Mapping[str, Metric]
    rounds: list[Figures] = field(default_factory=list)

    def values(self, metric: str) -> list[float]:
        return [figures[metric] for figures in self.rounds if metric in figures]


@dataclass(slots=True, kw_only=True)
class Results:
    """`left_out` has the peers that could not be measured, with the reason."""

    left_out: dict[str, str]
    rows: list[Row]

    def ours(self, scenario: str) -> Row | None:
        return next((row for row in self.rows if row.scenario == scenario and row.engine == "ours"), None)


def ratios(ours: list[float], theirs: list[float]) -> list[float]:
    """Ours to theirs, round by round; nothing where a peer's figure is zero."""
    return [mine / other for mine, other in zip(ours, theirs, strict=False) if other]


def table(results: Results) -> str:
    """A line for each scenario, metric and engine: median, spread, and ours to the peer's."""
    lines = [f"{'scenario':<12} {'engine':<8} {'metric':<23} {'median':>10}  {'(min to max)':<22} ours : peer"]
    for row in results.rows:
        lines += _lines(row, results.ours(row.scenario))
    lines += [f"left out: {name}: {reason}" for name, reason in results.left_out.items()]
    return "\n".join(lines)


def _lines(row: Row, ours: Row | None) -> Iterator[str]:
    for name, metric in row.metrics.items():
        values = row.values(name)
        if not values:
            continue
        spread = f"({_number(min(values))} to {_number(max(values))})"
        line = f"{row.scenario:<12} {row.engine:<8} {name:<23} {_number(statistics.median(values)):>10}  {spread:<22}"
        if ours is not None and row is not ours and metric.better and (shares := ratios(ours.values(name), values)):
            line += (
                f" {statistics.median(shares):.2f} ({min(shares):.2f} to {max(shares):.2f}), {metric.better} is better"
            )
        else:
            line += f" {metric.unit}"
        yield line


def _number(value: float) -> str:
    return f"{value:.0f}" if value >= 100 else f"{value:.1f}" if value >= 10 else f"{value:.2f}"


def as_json(results: Results, options: Options) -> str:
    machine = {"cpus": os.cpu_count(), "load": os.getloadavg(), "python": platform.python_version()}
    document: dict[str, Any] = {"machine": machine, "options": asdict(options), **asdict(results)}
    return json.dumps(document, indent=1) + "\n"
