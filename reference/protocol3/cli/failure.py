"""Expected errors: an exit code, a code word, a sentence, and what to do next. Never a traceback."""

import json
import sys
from typing import IO, Any

import click


class CliFailure(click.ClickException):
    """A service or a transport failed: exit code 1. Shown as one JSON object, on a terminal as readable lines."""

    exit_code = 1

    def __init__(self, message: str, *, code: str, status: int | None = None, advice: str | None = None) -> None:
        super().__init__(message)
        self.code = code
        self.status = status
        self.advice = advice

    def show(self, file: IO[Any] | None = None) -> None:
        stream = file or sys.stderr
        if stream.isatty():
            click.echo(f"{click.style(self.code, fg='red', bold=True)}: {printable(self.message)}", file=stream)
            if self.advice:
                click.echo(f"{click.style('next', bold=True)}: {self.advice}", file=stream)
            return
        shown = {"code": self.code, "status": self.status, "message": self.message, "next": self.advice}
        found = {name: value for name, value in shown.items() if value is not None}
        click.echo(json.dumps(found, ensure_ascii=False), file=stream)


class Rejected(CliFailure):
    """The usage or the input was refused, and will be refused again: exit code 2."""

    exit_code = 2


def missing_extra(command: str, package: str) -> Rejected:
    """For a command that needs what the base installation leaves out."""
    return Rejected(
        f"`protocol3 {command}` needs the package {package}, which is not installed",
        code="missing_extra",
        advice="pip install 'protocol3[server]'",
    )


def printable(text: str) -> str:
    """The text without anything a terminal would obey."""
    return "".join(char if char.isprintable() else repr(char)[1:-1] for char in text)
