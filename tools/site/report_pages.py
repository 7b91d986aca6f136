"""Reports of the conformance suite as pages of the site: two runs, made while the site is built.

The figures are those of the tree that the site is made of, and nobody has to remember to write them anew.
"""

from __future__ import annotations

import shlex
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
FOLDER = "conformance"


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """`words` go to tools/run_conformance.py; `code` is its exit code where all is as it should be."""

    name: str
    title: str
    about: str
    words: tuple[str, ...]
    code: int


RUNS = (
    Run(
        name="reference",
        title="Our coordinator",
        about="The whole suite against the coordinator of this repository, with virtual time and forced races.",
        words=("--test-controls", "--seed", "1", "--revision", "1.0"),
        code=0,
    ),
    Run(
        name="broken",
        title="The same coordinator behind a proxy that breaks a rule",
        about="What a failure looks like: the proxy delivers an event to two activations.",
        words=("--break", "event-twice", "--test-controls", "--seed", "1", "--check=events/*", "--check=contests/*"),
        code=1,
    ),
)


class ReportFailure(Exception):
    """A run did not end as it should; the message has its last lines."""


def write(pages: Path) -> None:
    """Make the runs and put their reports and a page about them below `pages`. Raises ReportFailure."""
    folder = pages / FOLDER
    folder.mkdir(parents=True, exist_ok=True)
    for run in RUNS:
        reports = [f"--report-html={folder / run.name}.html", f"--report-md={folder / run.name}-table.md"]
        command = [sys.executable, "tools/run_conformance.py", *run.words, "-q", *reports]
        done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
        if done.returncode != run.code:
            told = "\n".join((done.stdout + done.stderr).splitlines()[-15:])
            raise ReportFailure(f"{shlex.join(command)} ended with {done.returncode}, not {run.code}:\n{told}")
    tables = {run.name: folder / f"{run.name}-table.md" for run in RUNS}
    text = page({name: path.read_text(encoding="utf-8") for name, path in tables.items()})
    for path in tables.values():
        path.unlink()
    (folder / "index.md").write_text(text, encoding="utf-8")


def page(tables: dict[str, str]) -> str:
    """The page about all runs; `tables` are their Markdown reports by name."""
    about = "Two runs of the [suite](../docs/conformance.md), made while this site was built."
    lines = ["# Conformance reports", "", about]
    for run in RUNS:
        again = shlex.join(["python", "tools/run_conformance.py", *run.words, "--report-html", "report.html"])
        lines += ["", f"## {run.title}", "", run.about, "", f"[The report for people]({run.name}.html). Again:"]
        lines += ["", "```", again, "```", "", _within(tables[run.name])]
    return "\n".join(lines) + "\n"


def _within(table: str) -> str:
    """A report as a part of a page: its headings two steps lower, its folded part Markdown too."""
    lowered = [f"#{line}" if line.startswith("##") else line for line in table.splitlines()]
    return "\n".join(lowered).replace("<details>", "<details markdown>")
