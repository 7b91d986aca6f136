"""The reports: one document with a published schema, and what is written from it."""

from __future__ import annotations

import dataclasses
import datetime as dt
import json
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft202012Validator

from protocol3_conformance import catalogue
from protocol3_conformance.conductor import Progress
from protocol3_conformance.progress import line
from protocol3_conformance.report import document, html_report, markdown, writers
from protocol3_conformance.report.timeline import diagram, lanes
from protocol3_conformance.requirements import requirements
from protocol3_conformance.revision import revision
from protocol3_conformance.target import PROFILES, Patience, Target
from protocol3_conformance.verdict import Outcome, State
from protocol3_conformance.wire.actors import Actors, mark_of
from protocol3_conformance.wire.exchange import Exchange
from protocol3_conformance.wire.http import Reply
from protocol3_conformance.wire.peer import Endpoint
from protocol3_conformance.wire.strict_json import encode

EVIL = "<script>alert(1)</script> & \"quoted\" `code` | # 'x'"
MOMENTS: dict[str, Any] = {"began_ms": 1.0, "ended_ms": 4.5, "request": f"GET /v1/{EVIL}", "status": 200}
LANE: dict[str, Any] = {"actor": EVIL, "mark": "hold"}


def exchange(**more: Any) -> dict[str, Any]:
    return {**MOMENTS, "sent": EVIL, "headers": [EVIL], "received": EVIL, "fault": None, **more}


def outcomes(*states: State) -> list[Outcome]:
    return [
        Outcome(
            check_id=f"sample/n{number}",
            title=EVIL,
            state=state,
            cites=("TASK-100", "RACE-01"),
            broken=("TASK-100",) if state is State.FAILED else (),
            profiles=("core",),
            detail=EVIL,
            rerun=EVIL,
            timeline=[MOMENTS | LANE, {**MOMENTS, **LANE, "began_ms": 2.0, "ended_ms": None, "status": None}],
            measurements=[{"name": EVIL, "value": 2.5, "unit": EVIL}],
            exchanges_shown=[exchange(), exchange(status=None, ended_ms=None, fault=EVIL)],
            exchanges=2,
        )
        for number, state in enumerate(states)
    ]


def made(found: list[Outcome], *, suite: bool = False, name: str | None = EVIL) -> dict[str, Any]:
    target = Target(
        endpoint=Endpoint.parse("http://127.0.0.1:1/base"),
        profiles=frozenset(PROFILES),
        scope=None,
        program=("p", "1"),
        patience=Patience(),
        seed=9,
        name=name,
        version="1.2",
    )
    return document.document(
        target,
        found,
        revision=revision("1.0"),
        suite=[*catalogue.everything().values()] if suite else [],
        began=dt.datetime(2026, 1, 2, tzinfo=dt.UTC),
        command="pytest conformance --seed 9",
        stale=["sample/old"],
    )


@pytest.fixture
def report() -> dict[str, Any]:
    return made(outcomes(*State))


def test_the_document_is_as_its_schema_says(report: dict[str, Any]) -> None:
    Draft202012Validator.check_schema(document.schema())
    Draft202012Validator(document.schema()).validate(json.loads(writers.as_json(report)))
    assert [Outcome.from_json(one) for one in report["checks"]] == outcomes(*State)


class Page(HTMLParser):
    """What a browser would load or run, and whether the tags fit together."""

    VOID = frozenset({"meta", "br", "input", "img", "link", "hr"})

    def __init__(self) -> None:
        super().__init__()
        self.loads: list[str] = []
        self.open: list[str] = []
        self.count: dict[str, int] = {}
        self.text = ""

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.count[tag] = self.count.get(tag, 0) + 1
        self.loads += [str(value) for name, value in attrs if name in ("src", "href", "action")]
        if tag not in self.VOID:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.text += data


def test_the_page_is_complete_in_itself(report: dict[str, Any]) -> None:
    """Nothing is loaded, tags are balanced, nothing that came from the target becomes markup."""
    text = html_report.page(report)
    page = Page()
    page.feed(text)
    assert page.open == []
    assert page.loads == []
    assert page.count["script"] == page.count["style"] == 1
    assert "url(" not in text
    assert "@import" not in text
    assert "<script>alert" not in text
    for shown in ("not conformant", "TASK-100", "sample/old", "pytest conformance --seed 9", "127.0.0.1:1", "1.2"):
        assert shown in page.text
    for state in State:
        assert f'data-state="{state}"' in text


def test_the_page_of_a_run_without_findings() -> None:
    page = html_report.page(made(outcomes(State.PASSED), name=None))
    assert "No check of this run failed or stayed open." in page
    assert "<h1>127.0.0.1:1</h1>" in page


def test_the_diagram_lies_on_one_axis() -> None:
    """The second request begins where the first is half over, and has no reply."""
    both = [
        moments(100, 200, "client", request="POST /a", status=409),
        moments(150, None, "worker 1", request="POST /b", status=None),
    ]
    drawn = diagram(both)
    assert 'class="s4 beside" style="left:0.00%;width:100.00%"' in drawn
    assert 'class="none beside" style="left:50.00%;width:50.00%"' in drawn
    assert "2 exchanges in 100 ms" in drawn
    assert diagram([]) == ""
    apart = [both[0], {**both[1], "began_ms": 200.0, "ended_ms": 210.0}]
    assert 'beside"' not in diagram(apart)


def moments(began: float, ended: float | None, actor: str, **more: Any) -> dict[str, Any]:
    return {
        "request": "GET /",
        "status": 200,
        "mark": None,
        "began_ms": began,
        "ended_ms": ended,
        "actor": actor,
    } | more


def test_every_actor_has_a_lane_and_a_further_one_for_what_it_does_at_once() -> None:
    timeline = [
        moments(0, 5, "controls", mark="hold"),
        moments(1, 9, "client"),
        moments(2, 4, "client"),
        moments(3, None, "worker 1"),
        moments(9, 10, "client"),
    ]
    drawn = lanes(timeline, 10.0)
    assert [(name, [one["began_ms"] for one in own]) for name, own in drawn] == [
        ("client", [1, 9]),
        ("client (2)", [2]),
        ("worker 1", [3]),
        ("controls", [0]),
    ]
    page = diagram(timeline)
    assert page.count('<b class="hold" style="left:50.00%">') == len(drawn)
    assert 'class="s2" style="left:0.00%;width:50.00%"' in page  # the controls are no party of the race


def test_lines_on_a_pipe_lack_no_reply() -> None:
    line = moments(1, 1, "process 7", request="< process 7", status=None)
    assert "no reply" not in diagram([line])


def request(path: str, body: Any, *, value: Any = None, method: str = "POST") -> Exchange:
    reply = Reply(status=200, headers=(), body=b"", keeps_connection=True)
    sent = body if isinstance(body, bytes) else encode(body)
    made = Exchange(method=method, target=path, headers=(), body=sent, started_ms=0.0)
    made.reply, made.value = reply, value
    return made


def test_actors_are_read_off_the_requests() -> None:
    owner = {"worker_session_id": "s2", "consumer_id": 4, "scope": {}}
    actors = Actors()
    told = [
        actors.of(one)
        for one in (
            request("/v1/worker-sessions", {"queue": "q"}, value={"id": "s1"}),
            request("/v1/tasks", {"input": {}}),
            request("/v1/settlements", {"owner": owner}),
            request("/v1/workflows/activations/context", owner),
            request("/v1/acquisitions", {"worker_session_id": "s1", "consumer_id": 0}),
            request("/v1/tasks", b"{no JSON"),
            request("/v1/tasks/status?task_id=t", b"", method="GET"),
            request("/testing/v1/clock", b"", method="GET"),
        )
    ]
    worker = "worker 2 consumer 4"
    assert told == ["worker 1", "client", worker, worker, "worker 1 consumer 0", "client", "client", "controls"]


@pytest.mark.parametrize(
    ("path", "body", "mark"),
    [
        ("/testing/v1/faults", {"act": {"kind": "hold"}}, "hold"),
        ("/testing/v1/faults", {"act": {"kind": "fail"}}, None),
        ("/testing/v1/faults/clear", {}, "release"),
        ("/testing/v1/faults/release", {"id": "f"}, "release"),
        ("/testing/v1/clock", {"advance_ms": 1}, "clock"),
        ("/v1/tasks", {"act": {"kind": "hold"}}, None),
    ],
)
def test_controls_leave_their_mark(path: str, body: Any, mark: str | None) -> None:
    assert mark_of(request(path, body)) == mark


def test_sentences_are_shown_as_they_are_written() -> None:
    shown = html_report.prose("A *lease* is **not** `a * b` < 2 * 3 * 4; `*x*` and *two words*.")
    assert shown == (
        "A <em>lease</em> is <strong>not</strong> <code>a * b</code> &lt; 2 * 3 * 4; <code>*x*</code> "
        "and <em>two words</em>."
    )


def test_no_sentence_of_the_specification_is_shown_raw() -> None:
    raw = [name for name, rule in requirements().items() if "`" in html_report.prose(rule.text)]
    assert raw == []


def test_what_was_expected_and_not_made_is_seen(report: dict[str, Any]) -> None:
    """A run of nothing owes every check; a check that passed without an exchange asserted nothing of the target."""
    owed = made(outcomes(State.PASSED), suite=True)
    assert (owed["coverage"]["made"], owed["coverage"]["expected"]) == (0, len(owed["coverage"]["left_out"]))
    assert "submission/first-acceptance" in owed["coverage"]["left_out"]
    rule = owed["requirements"]["TASK-104"]
    assert (rule["state"], rule["checks"]) == ("not-run", [])
    assert rule["left_out"]
    assert owed["totals"]["roles"]["coordinator"]["passed"] == 2  # TASK-100, RACE-01
    for shown in (html_report.page(owed), markdown.text(owed)):
        assert f"0 of the {owed['coverage']['expected']} checks that this target owes were made" in shown
        assert "not-run" in shown
    silent = made([dataclasses.replace(one, exchanges=0) for one in outcomes(State.PASSED)])
    assert silent["coverage"]["silent"] == ["sample/n0"]
    assert "passed without any exchange" in markdown.text(silent)
    assert report["coverage"]["silent"] == []


def test_measurements_are_told_with_their_check(report: dict[str, Any]) -> None:
    assert report["measurements"][0].items() >= {"name": "duration of the run", "unit": "s", "check": None}.items()
    assert report["measurements"][1] == {"name": EVIL, "value": 2.5, "unit": EVIL, "check": "sample/n0"}
    assert "2.5 &lt;script&gt;" in html_report.page(report)
    assert "| 2.5 \\<script\\>" in markdown.text(report)


def test_markdown_keeps_its_tables(report: dict[str, Any]) -> None:
    text = markdown.text(report)
    for state in ("failed", "known-failure", "harness-error", "not-determined"):
        assert f"### {state}\n" in text
    rows = [row for row in text.splitlines() if row.startswith("| `sample/")]
    assert len(rows) == 4
    assert all(row.replace("\\|", "").count("|") == 4 for row in rows)
    checks = ", ".join(f"`sample/n{n}`{'' if state is State.PASSED else f' {state}'}" for n, state in enumerate(State))
    assert f"| TASK-100 | coordinator | failed | {checks} |" in text
    assert "<script>" not in text.replace("\\<script\\>", "")


@pytest.mark.parametrize(
    ("found", "suite", "message", "colour"),
    [
        (outcomes(State.PASSED), False, "1.0: core, forks, subworkflows, discovery", "brightgreen"),
        (outcomes(State.PASSED), True, "not determined", "lightgrey"),
        (outcomes(State.FAILED), False, "not conformant", "red"),
    ],
)
def test_the_badge(found: list[Outcome], suite: bool, message: str, colour: str) -> None:
    """Green only with the claim."""
    badge = json.loads(writers.as_badge(made(found, suite=suite)))
    assert badge == {"schemaVersion": 1, "label": "protocol 3", "message": message, "color": colour}


def test_only_what_is_asked_for_is_written(report: dict[str, Any], tmp_path: Path) -> None:
    writers.write(report, {"json": str(tmp_path / "a"), "html": None, "md": str(tmp_path / "b"), "badge": None})
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a", "b"]


@pytest.mark.parametrize(
    ("seen", "seconds", "shown"),
    [
        (Progress(total=200, slow=0, ended=5, ended_slow=0, failed=0), 1, "5/200 checks, …"),
        (
            Progress(total=200, slow=0, ended=100, ended_slow=0, failed=3),
            30,
            "100/200 checks, 3 failed, about 30 s left",
        ),
        (Progress(total=200, slow=9, ended=191, ended_slow=0, failed=0), 40, "191/200 checks, about 60 s left"),
        (Progress(total=9, slow=9, ended=9, ended_slow=9, failed=0), 100, "9/9 checks, about 1 s left"),
        (
            Progress(total=200, slow=0, ended=100, ended_slow=0, failed=0, dying=50),
            20,
            "100/200 checks, about 40 s left",
        ),
        (
            Progress(total=200, slow=0, ended=150, ended_slow=0, failed=0, dying=50),
            20,
            "150/200 checks, about 31 s left",
        ),
    ],
)
def test_the_live_line(seen: Progress, seconds: float, shown: str) -> None:
    assert line(seen, seconds) == shown
