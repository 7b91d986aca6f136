"""The exchanges of one check as a small diagram: a lane for each actor on one time axis, then each in a row."""

from __future__ import annotations

from html import escape
from typing import Any

ROWS = 30
NARROWEST = 0.6
"""Percent: a bar that is still seen."""
MARKS = {"hold": "a step of the target is held", "release": "it goes on", "clock": "its clock is moved"}

Moments = dict[str, Any]


def diagram(timeline: list[Moments]) -> str:
    """Bars of all actors on one common time axis. Empty for no exchange."""
    shown = timeline[-ROWS:]
    if not shown:
        return ""
    first = min(one["began_ms"] for one in shown)
    last = max(max(one["began_ms"], one["ended_ms"] or 0.0) for one in shown)
    span = max(last - first, 1.0)
    left_out = len(timeline) - len(shown)
    note = f", {left_out} earlier ones left out" if left_out else ""
    marks = "".join(_mark(one, first, span) for one in shown if one["mark"])
    drawn = "".join(
        _lane(name, [_bar(one, first, last, span, beside=_beside(one, shown, last)) for one in own], marks)
        for name, own in lanes(shown, last)
    )
    rows = "".join(_row(one, first) for one in shown)
    return (
        f'<figure class="timeline"><div class="lanes">{drawn}</div>{_legend(shown)}'
        f"<figcaption>{len(shown)} exchanges in {span:.0f} ms{note}; marked ones ran side by side with those of "
        f"others</figcaption><details><summary>One by one</summary><ol>{rows}</ol></details></figure>"
    )


def lanes(shown: list[Moments], last: float) -> list[tuple[str, list[Moments]]]:
    """The exchanges of each actor, in the order in which they appear.

    One that has several under way at once, such as a client on two connections, gets a further lane: `client (2)`.
    """
    ends: dict[str, list[float]] = {}
    found: dict[str, list[Moments]] = {}
    for one in shown:
        own = ends.setdefault(one["actor"], [])
        number = next((n for n, until in enumerate(own) if until <= one["began_ms"]), len(own))
        own[number : number + 1] = [_end(one, last)]
        name = one["actor"] if number == 0 else f"{one['actor']} ({number + 1})"
        found.setdefault(name, []).append(one)
    return sorted(found.items(), key=lambda lane: lane[0] == "controls")


def _end(one: Moments, last: float) -> float:
    return last if one["ended_ms"] is None else float(one["ended_ms"])


def _beside(one: Moments, others: list[Moments], last: float) -> bool:
    """Whether another exchange was under way at the same time; the suite's own controls are no party of a race."""
    if one["actor"] == "controls":
        return False
    return any(
        other is not one
        and other["actor"] != "controls"
        and one["began_ms"] < _end(other, last)
        and other["began_ms"] < _end(one, last)
        for other in others
    )


def _lane(name: str, bars: list[str], marks: str) -> str:
    return f'<span>{escape(name)}</span><span class="track">{"".join(bars)}{marks}</span>'


def kind_of(one: Moments) -> tuple[str, str]:
    """The class of its colour, and what stands for its reply. A line on a pipe has none."""
    status = one["status"]
    if one["request"][:2] in ("> ", "< "):
        return "line", ""
    return ("none", "no reply") if status is None else (f"s{status // 100}", str(status))


def _bar(one: Moments, first: float, last: float, span: float, *, beside: bool) -> str:
    left = 100 * (one["began_ms"] - first) / span
    width = max(100 * (_end(one, last) - one["began_ms"]) / span, NARROWEST)
    kind, shown = kind_of(one)
    title = f"{one['request']} {shown}, {one['began_ms']:.0f} to {_end(one, last):.0f} ms"
    place = f"left:{min(left, 100 - NARROWEST):.2f}%;width:{width:.2f}%"
    return f'<i class="{kind}{" beside" if beside else ""}" style="{place}" title="{escape(title)}"></i>'


def _mark(one: Moments, first: float, span: float) -> str:
    """Where the control took hold: when its reply came."""
    moment = one["began_ms"] if one["ended_ms"] is None else one["ended_ms"]
    return f'<b class="{one["mark"]}" style="left:{100 * (moment - first) / span:.2f}%"></b>'


def _legend(shown: list[Moments]) -> str:
    there = [name for name in MARKS if any(one["mark"] == name for one in shown)]
    entries = "".join(f'<span><b class="{name}"></b> {MARKS[name]}</span>' for name in there)
    return f'<p class="legend">{entries}</p>' if there else ""


def _row(one: Moments, first: float) -> str:
    kind, shown = kind_of(one)
    ended = "" if one["ended_ms"] is None else f" to {one['ended_ms'] - first:.0f}"
    return (
        f'<li><span class="ms">{one["began_ms"] - first:.0f}{ended} ms</span><small>{escape(one["actor"])}</small>'
        f'<code>{escape(one["request"])}</code><span class="code {kind}">{shown}</span></li>'
    )
