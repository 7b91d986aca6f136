"""The run as one JSON document; every report is written from it. Its schema is published: `report.schema.json`."""

from __future__ import annotations

import datetime as dt
import json
from collections import Counter
from collections.abc import Sequence
from importlib.metadata import PackageNotFoundError, version
from importlib.resources import files
from typing import Any
from urllib.parse import urlsplit

from protocol3_conformance import judgement
from protocol3_conformance.report import totals
from protocol3_conformance.requirements import requirements
from protocol3_conformance.revision import ALL, Revision
from protocol3_conformance.scenario import Scenario
from protocol3_conformance.target import Target
from protocol3_conformance.verdict import Outcome
from protocol3_spec.loader import limits

FORMAT = 3


def schema() -> dict[str, Any]:
    """The JSON Schema of the document."""
    text = files(__package__).joinpath("report.schema.json").read_text(encoding="utf-8")
    content: dict[str, Any] = json.loads(text)
    return content


def suite_version() -> str:
    """Of the installed distribution; a bare checkout has none."""
    try:
        return version("protocol3")
    except PackageNotFoundError:
        return "checkout"


def document(
    target: Target,
    outcomes: Sequence[Outcome],
    *,
    revision: Revision,
    suite: Sequence[Scenario],
    began: dt.datetime,
    command: str,
    stale: Sequence[str],
) -> dict[str, Any]:
    """The whole report. `suite` are all checks that score, `command` repeats the run, `stale` see baseline."""
    profiles = judgement.by_profile(outcomes, suite, target)
    due = [one for one in suite if judgement.demanded(one, target)]
    made = [outcome.check_id for outcome in outcomes]
    judged = totals.with_left_out(judgement.by_requirement(outcomes), due, made)
    known = requirements()
    cited = {name: {**entry, **_sentence(name)} for name, entry in judged.items() if name in known}
    return {
        "format": FORMAT,
        "suite": suite_version(),
        "revision": {"name": revision.name, "frozen": revision.frozen},
        "began": began.isoformat(timespec="seconds"),
        "target": {
            "url": target.place,
            "host": urlsplit(target.endpoint.url).netloc or target.place,
            "name": target.name,
            "version": target.version,
            "profiles": sorted(target.profiles),
            "scope": None if target.scope is None else "/".join(target.scope),
            "program": "@".join(target.program),
        },
        "seed": target.seed,
        "limits": {
            "patience": target.patience.factor,
            "exchange_seconds": target.patience.exchange,
            "progress_seconds": target.patience.progress,
            "scenario_seconds": target.patience.scenario,
            "concurrency": target.concurrency,
            "contract": {name: limit.value for name, limit in limits().items()},
        },
        "reproduce": command,
        "verdict": judgement.overall(profiles),
        "claim": None if revision.name == ALL else judgement.claim(profiles, revision.name, target.roles),
        "profiles": {
            one.profile: {"verdict": one.verdict, "counts": dict(one.counts), "left_out": list(one.left_out)}
            for one in profiles
        },
        "counts": dict(Counter(str(outcome.state) for outcome in outcomes)),
        "coverage": totals.coverage(outcomes, due),
        "totals": totals.totals(cited),
        "measurements": _measurements(outcomes, began),
        "stale_baseline": list(stale),
        "checks": [outcome.to_json() for outcome in outcomes],
        "requirements": cited,
        "requirements_without_check": sorted(
            name for name, rule in known.items() if any(map(rule.judged_at, target.roles)) and name not in cited
        ),
    }


def _sentence(identifier: str) -> dict[str, Any]:
    rule = requirements()[identifier]
    profiles = list(rule.profiles)
    return {"level": rule.level, "role": rule.role, "profiles": profiles, "place": rule.place, "text": rule.text}


def _measurements(outcomes: Sequence[Outcome], began: dt.datetime) -> list[dict[str, Any]]:
    """What is reported and not judged: of the whole run, then what checks measured."""
    seconds = round((dt.datetime.now(dt.UTC) - began).total_seconds(), 1)
    whole = {"name": "duration of the run", "value": seconds, "unit": "s", "check": None}
    return [whole, *({**one, "check": outcome.check_id} for outcome in outcomes for one in outcome.measurements)]
