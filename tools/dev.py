"""The jobs of `./dev`: run stages and count them, hand over to a job, or to tox. Standard library only."""

import os
import re
import shlex
import signal
import subprocess
import sys
import time
import tomllib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import environment

ROOT = Path(__file__).resolve().parent.parent
ANSI = re.compile(r"\x1b\[[0-9;]*m")
COUNT = re.compile(r"(\d+) (passed|failed|skipped|errors?|xfailed|xpassed)\b")
CLOSING = re.compile(r"^(=+ )?(\w+: )?\d+ (passed|failed|skipped|errors?|deselected|xfailed|xpassed|warnings?)\b")


@dataclass(frozen=True, slots=True, kw_only=True)
class Counts:
    """Checks of one command, one stage or the whole run."""

    passed: int = 0
    failed: int = 0
    skipped: int = 0

    def __add__(self, other: "Counts") -> "Counts":
        return Counts(
            passed=self.passed + other.passed,
            failed=self.failed + other.failed,
            skipped=self.skipped + other.skipped,
        )

    def __str__(self) -> str:
        text = f"{self.passed} passed, {self.failed} failed"
        return f"{text}, {self.skipped} skipped" if self.skipped else text


def counts_of(output: list[str], exit_code: int) -> Counts:
    """What a command counted, read off its last closing line; one check when it counts nothing itself."""
    for line in reversed(output):
        if not CLOSING.match(line):
            continue
        found: dict[str, int] = {}
        for number, word in COUNT.findall(line):
            found[word.removesuffix("s")] = int(number)
        failed = found.get("failed", 0) + found.get("error", 0)
        return Counts(
            passed=found.get("passed", 0) + found.get("xpassed", 0),
            failed=max(failed, 1) if exit_code else failed,
            skipped=found.get("skipped", 0) + found.get("xfailed", 0),
        )
    return Counts(failed=1) if exit_code else Counts(passed=1)


def run_command(command: str) -> Counts:
    print(f"\n-- {command}", flush=True)
    # Output is both shown and read, so it is a pipe; say so to tools that would else drop their colours.
    colour = {"FORCE_COLOR": "1"} if sys.stdout.isatty() and "NO_COLOR" not in os.environ else {}
    try:
        process = subprocess.Popen(
            shlex.split(command),
            cwd=ROOT,
            env=os.environ | colour,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
        )
    except OSError as failure:
        print(f"cannot run it: {failure}", flush=True)
        return Counts(failed=1)
    assert process.stdout is not None
    output: list[str] = []
    for line in process.stdout:
        print(line, end="", flush=True)
        output.append(ANSI.sub("", line).strip())
    return counts_of(output, process.wait())


def run_stages(stages: dict[str, Any]) -> int:
    """Run every stage whatever the earlier ones said; the last line is the sum, in the plain form."""
    total, lines = Counts(), []
    for name, stage in stages.items():
        began = time.monotonic()
        print(f"\n== {name}: {stage['about']}", flush=True)
        counts = Counts()
        try:
            for wanted in stage.get("environments", []):
                environment.ensure(ROOT / ".envs" / wanted)
        except (environment.EnvironmentFailure, OSError) as failure:
            print(f"cannot make the environment: {failure}", flush=True)
            counts += Counts(failed=1)
        else:
            for command in stage["commands"]:
                counts += run_command(command)
        total += counts
        lines.append(f"{name}: {counts} ({time.monotonic() - began:.0f} s)")
    print("", *lines, total, sep="\n", flush=True)
    return 1 if total.failed else 0


def explain(table: dict[str, Any]) -> str:
    """The text of `./dev` alone, made from the table so that it cannot lie."""
    stages, jobs = table["stage"], table.get("job", {})
    tested = ", ".join(name for name, stage in stages.items() if stage.get("test"))
    entries = {"test": f"everything that must hold: {tested}"}
    entries |= {name: entry["about"] for name, entry in [*stages.items(), *jobs.items()]}
    lines = [f"  ./dev {name:<12} {about}" for name, about in entries.items()]
    return "\n".join(
        [
            "usage: ./dev WORD [more words]",
            "",
            *lines,
            f"  ./dev {'ENV':<12} a tox environment: py311, py312, py313",
            "",
            "The first call makes .venv from requirements/dev.txt (about a minute). The tools are then in .venv/bin:",
            "  .venv/bin/protocol3 --help",
            "  .venv/bin/pytest reference/tests",
        ]
    )


def main(words: list[str]) -> int:
    table = tomllib.loads((ROOT / "tools/stages.toml").read_text())
    stages, jobs = table["stage"], table.get("job", {})
    word, rest = (words[0], words[1:]) if words else ("help", [])
    if word == "help":
        print(explain(table))
        return 0
    os.environ["PATH"] = f"{environment.DEVELOPMENT / 'bin'}{os.pathsep}{os.environ.get('PATH', os.defpath)}"
    if word in jobs:
        command = [*shlex.split(jobs[word]["command"]), *rest]
        os.execvp(command[0], command)
    if re.fullmatch(r"py\d[\w.-]*", word):
        os.execvp("tox", ["tox", "run", "-e", word, *(["--", *rest] if rest else [])])
    if word != "test" and word not in stages:
        print(f"dev: there is no stage, job or environment {word!r}\n\n{explain(table)}", file=sys.stderr)
        return 2
    if rest:
        alone = stages.get(word, {}).get("alone")
        if alone is None:
            print(f"dev: {word} takes no further words", file=sys.stderr)
            return 2
        command = [*shlex.split(alone), *rest]
        os.execvp(command[0], command)
    return run_stages({n: s for n, s in stages.items() if n == word or (word == "test" and s.get("test"))})


def run() -> int:
    """`main` for a terminal or a pipe; a reader that has seen enough ends it quietly."""
    try:
        code = main(sys.argv[1:])
        sys.stdout.flush()
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # the flush at exit would fail again
        return 128 + signal.SIGPIPE
    return code


if __name__ == "__main__":
    sys.exit(run())
