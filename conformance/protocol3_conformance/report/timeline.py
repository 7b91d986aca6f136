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
    rows = "".join(_row(one, first, last, span, beside=_beside(one, shown, last)) for one in shown)
    return (
        f'<figure class="timeline"><ol>{rows}</ol>'
        f"<figcaption>{len(shown)} exchanges in {span:.0f} ms{note}; marked ones ran side by side</figcaption></figure>"
    )


def _beside(one: dict[str, Any], others: list[dict[str, Any]], last: float) -> bool:
    """Whether another exchange was under way at the same time."""

    def end(moments: dict[str, Any]) -> float:
        return last if moments["ended_ms"] is None else float(moments["ended_ms"])

    return any(other is not one and one["began_ms"] < end(other) and other["began_ms"] < end(one) for other in others)


def _row(one: dict[str, Any], first: float, last: float, span: float, *, beside: bool) -> str:
    ended = last if one["ended_ms"] is None else one["ended_ms"]
    left = 100 * (one["began_ms"] - first) / span
    width = max(100 * (ended - one["began_ms"]) / span, NARROWEST)
    status = one["status"]
    kind = "none" if status is None else f"s{status // 100}"
    shown = "no reply" if status is None else str(status)
    title = f"{one['began_ms']:.0f} to {ended:.0f} ms"
    mark = f"{kind} beside" if beside else kind
    place = f"left:{min(left, 100 - NARROWEST):.2f}%;width:{width:.2f}%"
    return (
        f'<li title="{title}"><code>{escape(one["request"])}</code>'
        f'<span class="track"><i class="{mark}" style="{place}"></i></span>'
        f'<span class="code {kind}">{shown}</span></li>'
    )
