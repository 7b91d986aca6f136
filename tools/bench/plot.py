"""Medians and spread as an SVG: one panel for each scenario and metric that engines can be compared by."""

from __future__ import annotations

import statistics
from html import escape
from pathlib import Path

from bench.report import Results, Row

WIDTH, LABEL, BAR, GAP, PANEL = 720, 110, 18, 6, 34
COLOURS = {"ours": "#1f6f8b"}
OTHER = "#b8b8b8"


def write_svg(file: Path, results: Results) -> None:
    """One bar for each engine to its median, a line from the least to the greatest figure."""
    panels = [
        (scenario, metric, rows)
        for scenario in dict.fromkeys(row.scenario for row in results.rows)
        for metric in next(row for row in results.rows if row.scenario == scenario).metrics
        if (rows := [row for row in results.rows if row.scenario == scenario and row.values(metric)])
    ]
    parts, top = list[str](), 10.0
    for scenario, metric, rows in panels:
        drawn, top = _panel(scenario, metric, rows, top)
        parts += drawn
    style = "text{font:12px system-ui,sans-serif;fill:#222}.h{font-weight:600}"
    head = f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {top:.0f}" width="{WIDTH}">'
    background = f'<rect width="{WIDTH}" height="{top:.0f}" fill="#fff"/>'
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text("\n".join([head, f"<style>{style}</style>", background, *parts, "</svg>"]) + "\n")


def _panel(scenario: str, metric: str, rows: list[Row], top: float) -> tuple[list[str], float]:
    shown = rows[0].metrics[metric]
    note = f", {shown.better} is better" if shown.better else ""
    parts = [f'<text class="h" x="8" y="{top + 14:.0f}">{escape(f"{scenario}: {metric}, {shown.unit}{note}")}</text>']
    most = max(max(row.values(metric)) for row in rows) or 1.0
    scale = (WIDTH - LABEL - 90) / most
    top += PANEL - 10
    for row in rows:
        values = row.values(metric)
        middle, median = top + BAR / 2, statistics.median(values)
        colour = COLOURS.get(row.engine, OTHER)
        low, high = LABEL + min(values) * scale, LABEL + max(values) * scale
        parts += [
            f'<text x="8" y="{middle + 4:.1f}">{escape(row.engine)}</text>',
            f'<rect x="{LABEL}" y="{top:.1f}" width="{median * scale:.1f}" height="{BAR}" fill="{colour}"/>',
            f'<path d="M{low:.1f} {middle:.1f}H{high:.1f}" stroke="#222"/>',
            f'<text x="{max(high, LABEL + median * scale) + 6:.1f}" y="{middle + 4:.1f}">{median:.4g}</text>',
        ]
        top += BAR + GAP
    return parts, top + 12
