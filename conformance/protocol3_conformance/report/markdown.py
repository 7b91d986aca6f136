"""The report for a pull request or a job summary: verdicts, what failed and what stayed open, as Markdown."""

from __future__ import annotations

from collections import Counter
from typing import Any

OPEN = ("failed", "known-failure", "harness-error", "not-determined")


def text(document: dict[str, Any]) -> str:
    """The whole report."""
    target = document["target"]
    counts = Counter(one["state"] for one in document["requirements"].values())
    lines = [
        f"## Conformance of {cell(target['name'] or target['host'])}: {document['verdict']}",
        "",
        *([f"The target {document['claim']}.", ""] if document["claim"] else []),
        "| Profile | Verdict | Checks | Left out |",
        "|---|---|---|---|",
    ]
    for name, one in document["profiles"].items():
        shown = ", ".join(f"{number} {state}" for state, number in one["counts"].items())
        lines.append(f"| {name} | {one['verdict']} | {shown} | {len(one['left_out'])} |")
    lines += ["", f"Requirements: {', '.join(f'{number} {state}' for state, number in sorted(counts.items()))}.", ""]
    for state in OPEN:
        if checks := [one for one in document["checks"] if one["state"] == state]:
            lines += [f"### {state}", "", "| Check | Requirements | What came |", "|---|---|---|"]
            lines += [
                f"| `{one['id']}` | {' '.join(one['broken'] or one['requirements'])} | {_why(one)} |" for one in checks
            ]
            lines.append("")
    lines += [
        f"Suite {document['suite']}, revision {document['revision']['name']}, {document['began']}, "
        f"`{target['host']}`{' ' + cell(target['version']) if target['version'] else ''}, seed {document['seed']}.",
        "",
        "```",
        document["reproduce"],
        "```",
        "",
    ]
    return "\n".join(lines)


def _why(check: dict[str, Any]) -> str:
    return cell(check["detail"].partition("\n")[0][:200])


def cell(value: str) -> str:
    """Text that stays in its table cell and is no markup."""
    escaped = "".join(f"\\{char}" if char in "\\`*_[]<>|#" else char for char in value)
    return escaped.replace("\n", " ")
