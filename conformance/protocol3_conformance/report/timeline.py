"""The exchanges of one check as a small diagram: one row each, side by side where they ran side by side."""

from __future__ import annotations

from html import escape
from typing import Any

ROWS = 30
NARROWEST = 0.6
"""Percent: a bar that is still seen."""


def diagram(timeline: list[dict[str, Any]]) -> str:
    """A list whose bars lie on one common time axis. Empty for no exchange."""
    shown = timeline[-ROWS:]
    if not shown:
        return ""
    first = min(one["began_ms"] for one in shown)
    last = max(max(one["began_ms"], one["ended_ms"] or 0.0) for one in shown)
    span = max(last - first, 1.0)
    left_out = len(timeline) - len(shown)
    note = f", {left_out} earlier ones left out" if left_out else ""
    rows = "".join(_row(one, first, last, span) for one in shown)
    return (
        f'<figure class="timeline"><ol>{rows}</ol>'
        f"<figcaption>{len(shown)} exchanges in {span:.0f} ms{note}</figcaption></figure>"
    )


def _row(one: dict[str, Any], first: float, last: float, span: float) -> str:
    ended = last if one["ended_ms"] is None else one["ended_ms"]
    left = 100 * (one["began_ms"] - first) / span
    width = max(100 * (ended - one["began_ms"]) / span, NARROWEST)
    status = one["status"]
    kind = "none" if status is None else f"s{status // 100}"
    shown = "no reply" if status is None else str(status)
    title = f"{one['began_ms']:.0f} to {ended:.0f} ms"
    place = f"left:{min(left, 100 - NARROWEST):.2f}%;width:{width:.2f}%"
    return (
        f'<li title="{title}"><code>{escape(one["request"])}</code>'
        f'<span class="track"><i class="{kind}" style="{place}"></i></span>'
        f'<span class="code {kind}">{shown}</span></li>'
    )
