"""One page for people: complete in itself, for screen and phone, light and dark; nothing is loaded from elsewhere."""

from __future__ import annotations

import re
from collections import Counter
from html import escape
from importlib.resources import files
from typing import Any

from protocol3_conformance.report.timeline import diagram, kind_of
from protocol3_conformance.report.totals import NOT_RUN

STATES = ("failed", "known-failure", "harness-error", "not-determined", "passed", "not-claimed")
OF_REQUIREMENTS = (*STATES[:4], NOT_RUN, *STATES[4:])
INLINE = re.compile(r"`(?P<code>[^`]+)`|\*\*(?P<strong>[^*]+)\*\*|\*(?P<em>[^*\s](?:[^*]*[^*\s])?)\*")
POLICY = "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'"


def page(document: dict[str, Any]) -> str:
    """The whole page."""
    target = document["target"]
    name = escape(target["name"] or target["host"])
    body = "".join(
        [
            _head(document, name),
            _profiles(document),
            _findings(document),
            _totals(document),
            _measurements(document),
            _requirements(document),
            _checks(document),
            _races(document),
        ]
    )
    return (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f'<meta http-equiv="Content-Security-Policy" content="{POLICY}">\n'
        f"<title>{name}: {document['verdict']}</title>\n<style>\n{_asset('page.css')}</style>\n</head>\n"
        f"<body>\n<main>\n{body}</main>\n<script>\n{_asset('page.js')}</script>\n</body>\n</html>\n"
    )


def _asset(name: str) -> str:
    return files(__package__).joinpath(name).read_text(encoding="utf-8")


def prose(text: str) -> str:
    """Text of the contract or of a title, as the chapters are written: code, strong, emphasis; nothing within code."""

    def element(found: re.Match[str]) -> str:
        return f"<{found.lastgroup}>{found[str(found.lastgroup)]}</{found.lastgroup}>"

    return INLINE.sub(element, escape(text))


def _badge(state: str) -> str:
    return f'<span class="state {state.replace(" ", "-")}">{escape(state)}</span>'


def _head(document: dict[str, Any], name: str) -> str:
    target, limits = document["target"], document["limits"]
    claim = f"<p>The target {escape(document['claim'])}.</p>" if document["claim"] else ""
    bounds = (
        f"patience {limits['patience']:g}, an exchange {limits['exchange_seconds']:g} s, "
        f"a background step {limits['progress_seconds']:g} s, a check {limits['scenario_seconds']:g} s, "
        f"{limits['concurrency']} checks at one time"
    )
    scoring = document["revision"]["name"]
    scored = "all checks score" if scoring == "all" else f"revision {scoring}"
    if scoring != "all":
        scored += " (frozen)" if document["revision"]["frozen"] else " (draft)"
    facts = {
        "Target": " ".join(filter(None, [target["name"], target["version"]])) or "no name given",
        "Host": target["host"],
        "Date": document["began"].replace("T", " "),
        "Suite": f"protocol3 {document['suite']}",
        "Specification": scored,
        "Profiles claimed": ", ".join(target["profiles"]),
        "Scope": target["scope"] or "free",
        "Program": target["program"],
        "Seed": str(document["seed"]),
        "Limits": bounds,
    }
    rows = "".join(
        f"<div{' class=wide' if key == 'Limits' else ''}><dt>{key}</dt><dd>{escape(value)}</dd></div>"
        for key, value in facts.items()
    )
    kind = document["verdict"].replace(" ", "-")
    return (
        f'<header class="{kind}"><p class="kicker">Conformance with Ledgence runtime protocol 3</p><h1>{name}</h1>'
        f'<p class="verdict">{document["verdict"]}</p>{claim}</header><dl class="facts">{rows}'
        "<div class=wide><dt>Again, with the same random choices, against the same address</dt>"
        f"<dd><pre>{escape(document['reproduce'])}</pre></dd></div></dl>"
    )


def _profiles(document: dict[str, Any]) -> str:
    cards = "".join(_card(name, one) for name, one in document["profiles"].items())
    return f'<section><h2>Profiles</h2><div class="cards">{cards}</div></section>'


def _card(name: str, one: dict[str, Any]) -> str:
    counts = "".join(f"<li>{one['counts'][state]} {state}</li>" for state in STATES if state in one["counts"])
    left_out = f"<li>{len(one['left_out'])} left out</li>" if one["left_out"] else ""
    return f'<article class="card"><h3>{escape(name)}</h3>{_badge(one["verdict"])}<ul>{counts}{left_out}</ul></article>'


def _findings(document: dict[str, Any]) -> str:
    """What speaks against the target or stayed open, the worst first."""
    wanted = STATES[: STATES.index("passed")]
    found = sorted(
        (one for one in document["checks"] if one["state"] in wanted), key=lambda one: wanted.index(one["state"])
    )
    stale = "".join(f"<li><code>{escape(check)}</code></li>" for check in document["stale_baseline"])
    notes = (
        f"<p>Known failures that did not fail, to be taken out of the baseline:</p><ul>{stale}</ul>" if stale else ""
    )
    if not found:
        return f"<section><h2>Findings</h2><p>No check of this run failed or stayed open.</p>{notes}</section>"
    known = document["requirements"]
    entries = "".join(_finding(one, known, opened=number < 3) for number, one in enumerate(found))
    return f"<section><h2>Findings ({len(found)})</h2>{notes}{entries}</section>"


def _finding(check: dict[str, Any], known: dict[str, Any], *, opened: bool) -> str:
    broken = check["broken"] or check["requirements"]
    rules = "".join(f"<p class=rule><b>{name}</b> {prose(known[name]['text'])}</p>" for name in broken if name in known)
    why = f"<p>Known: {escape(check['known'])}</p>" if check["known"] else ""
    scored = "" if check["scored"] else "<p>This check came after the revision and does not score.</p>"
    rerun = f"<h4>This check alone</h4><pre>{escape(check['rerun'])}</pre>" if check["rerun"] else ""
    return (
        f"<details{' open' if opened else ''} class=finding><summary>{_badge(check['state'])} "
        f"<code>{escape(check['id'])}</code> {prose(check['title'])}</summary>{why}{scored}"
        f"<h4>Expected</h4>{rules}<h4>What came</h4><pre>{escape(check['detail'])}</pre>"
        f"{_exchanges(check)}{rerun}</details>"
    )


def _exchanges(check: dict[str, Any]) -> str:
    if not check["exchanges_shown"]:
        return ""
    rows = "".join(_exchange(one) for one in check["exchanges_shown"])
    return (
        f"<h4>Exchanges</h4>{diagram(check['timeline'])}<details><summary>{len(check['exchanges_shown'])} of "
        f"{check['exchanges']} exchanges, with times</summary>{rows}</details>"
    )


def _exchange(one: dict[str, Any]) -> str:
    ended = "" if one["ended_ms"] is None else f" to {one['ended_ms']:.0f}"
    kind, came = kind_of(one)
    came = f"{came}: {one['fault'] or 'not awaited'}" if kind == "none" else came
    parts = [("&gt;", one["sent"]), ("&lt;", "\n".join(one["headers"])), ("&lt;", one["received"])]
    shown = "".join(f"<pre><b>{mark}</b> {escape(text)}</pre>" for mark, text in parts if text)
    return (
        f'<div class="exchange"><p><span class=ms>{one["began_ms"]:.0f}{ended} ms</span> '
        f'<code>{escape(one["request"])}</code> <span class="code {kind}">{escape(came)}</span></p>{shown}</div>'
    )


def _races(document: dict[str, Any]) -> str:
    """Races that held; failed ones are among the findings."""
    races = [one for one in document["checks"] if one["state"] == "passed" and one["timeline"]]
    entries = "".join(
        f"<details><summary><code>{escape(one['id'])}</code> {prose(one['title'])}</summary>"
        f"{diagram(one['timeline'])}</details>"
        for one in races
    )
    if not races:
        return ""
    about = "<p>Checks of races that held, drawn by their exchanges. Bars over the same stretch ran side by side.</p>"
    return f"<section><h2>Races ({len(races)})</h2>{about}{entries}</section>"


def _totals(document: dict[str, Any]) -> str:
    """Requirements by role, profile and state; checks that were expected against those that were made."""
    coverage, tables = document["coverage"], document["totals"]
    seen = [state for state in OF_REQUIREMENTS if any(state in counts for counts in tables["roles"].values())]
    head = "".join(f"<th>{state}</th>" for state in seen)
    rows = "".join(
        f"<tr><td>{kind} {escape(name)}</td>{''.join(f'<td>{counts.get(state, 0)}</td>' for state in seen)}"
        f"<td>{sum(counts.values())}</td></tr>"
        for kind in ("role", "profile")
        for name, counts in tables[f"{kind}s"].items()
    )
    made = f"<p>{coverage['made']} of the {coverage['expected']} checks that this target owes were made.</p>"
    return (
        f'<section class="totals"><h2>Totals</h2>{made}'
        f"{_listed(coverage['left_out'], 'left out; those that wait for leases run with --with-expiry')}"
        f"{_listed(coverage['silent'], 'passed without any exchange')}"
        f'<div class="wide"><table><caption>Requirements by role and profile</caption>'
        f"<thead><tr><th></th>{head}<th>all</th></tr></thead><tbody>{rows}</tbody></table></div></section>"
    )


def _code(name: str) -> str:
    return f"<code>{escape(name)}</code>"


def _listed(checks: list[str], what: str) -> str:
    listed = " ".join(map(_code, checks))
    return f"<details><summary>{len(checks)} checks: {what}</summary>{listed}</details>" if checks else ""


def _measurements(document: dict[str, Any]) -> str:
    rows = "".join(
        f"<tr><td>{escape(one['name'])}</td><td>{one['value']:g} {escape(one['unit'])}</td>"
        f"<td>{_code(one['check']) if one['check'] else 'the whole run'}</td></tr>"
        for one in document["measurements"]
    )
    return (
        '<section class="totals"><h2>Measurements</h2><p>Reported, not judged.</p><div class="wide"><table><thead><tr>'
        f"<th>What</th><th>Value</th><th>Check</th></tr></thead><tbody>{rows}</tbody></table></div></section>"
    )


def _filter(what: str, states: Counter[str]) -> str:
    buttons = "".join(
        f'<button type="button" data-state="{state}" aria-pressed="false">{states[state]} {state}</button>'
        for state in OF_REQUIREMENTS
        if states[state]
    )
    search = f'<input type="search" placeholder="Filter {what}" aria-label="Filter {what}">'
    return f'<div class="filter">{search}{buttons}</div>'


def _requirements(document: dict[str, Any]) -> str:
    rules = document["requirements"]
    states = {check["id"]: check["state"] for check in document["checks"]}
    rows = "".join(
        f'<tr data-state="{one["state"]}"><td><b>{name}</b><br>{escape(one["level"])}</td>'
        f"<td>{_badge(one['state'])}</td>"
        f"<td>{prose(one['text'])}<br><small>{escape(one['place'])}</small></td>"
        f"<td>{'<br>'.join(_judging(one, states))}</td></tr>"
        for name, one in rules.items()
    )
    return (
        f'<section class="table"><h2>Requirements ({len(rules)})</h2>'
        f"{_unchecked(document)}"
        f"{_filter('requirements', Counter(one['state'] for one in rules.values()))}"
        "<table><thead><tr><th>Requirement</th><th>State</th><th>Text</th><th>Checks</th></tr></thead>"
        f"<tbody>{rows}</tbody></table></section>"
    )


def _judging(rule: dict[str, Any], states: dict[str, str]) -> list[str]:
    """Its checks; the state of each where it is not the ordinary one."""
    made = ((check, states[check]) for check in rule["checks"])
    shown = [f"<code>{escape(check)}</code>{'' if state == 'passed' else f' {state}'}" for check, state in made]
    return shown + [f"<code>{escape(check)}</code> {NOT_RUN}" for check in rule["left_out"]]


def _unchecked(document: dict[str, Any]) -> str:
    names = document["requirements_without_check"]
    listed = " ".join(f"<code>{name}</code>" for name in names)
    about = f"{len(names)} further rules for what was judged could be seen from outside and have no check in this suite"
    return f"<details><summary>{about}</summary>{listed}</details>"


def _checks(document: dict[str, Any]) -> str:
    checks = document["checks"]
    rows = "".join(
        f'<tr data-state="{one["state"]}"><td><code>{escape(one["id"])}</code></td><td>{_badge(one["state"])}</td>'
        f"<td>{prose(one['title'])}<br><small>{' '.join(one['requirements'])}</small></td>"
        f"<td>{one['seconds']:.1f} s, {one['exchanges']} exchanges{'' if one['scored'] else ', not scored'}</td></tr>"
        for one in checks
    )
    return (
        f'<section class="table"><h2>Checks ({len(checks)})</h2>'
        f"{_filter('checks', Counter(one['state'] for one in checks))}"
        "<table><thead><tr><th>Check</th><th>State</th><th>About</th><th>Took</th></tr></thead>"
        f"<tbody>{rows}</tbody></table></section>"
    )
