"""The options of `task submit` and `workflow submit`, and the command they make."""

import uuid
from collections.abc import Callable
from functools import wraps
from typing import Any

import click

from protocol3.cli.options import Command, given, json_file, json_text, not_empty, scope
from protocol3.contract import limits
from protocol3.contract.strict_json import JsonValue


def program_ref(context: click.Context, parameter: click.Parameter, value: str | None) -> JsonValue:
    """`ID@VERSION`; neither part can hold an @ (TXT-005)."""
    if value is None:
        return None
    name, at, version = value.partition("@")
    if not (name and at and version):
        raise click.BadParameter(f"{value!r} must look like hello@1.0.0")
    return {"id": name, "version": version}


OPTIONS: list[Callable[[Any], Any]] = [
    click.option(
        "--file", callback=json_file, help="The whole command as JSON, - for standard input; replaces the rest."
    ),
    scope(required=False),
    click.option("--queue", help="Queue whose workers shall run it."),
    click.option("--program", metavar="ID@VERSION", callback=program_ref, help="Program to run."),
    click.option(
        "--data", metavar="JSON", callback=json_text, help="Input of the program: JSON, @FILE or @-.  [default: null]"
    ),
    click.option(
        "--key",
        callback=not_empty,
        help="Idempotency key: repeating a command with its key is safe.  [default: a new one]",
    ),
    click.option("--correlation-key", help="Your own name for it, to find it again."),
    click.option("--max-attempts", type=int, help=f"Attempts at most.  [default: {limits.DEFAULT_MAX_ATTEMPTS}]"),
    click.option("--retry-delay-ms", type=int, help=f"Pause between.  [default: {limits.DEFAULT_RETRY_DELAY_MS}]"),
    click.option(
        "--attempt-timeout-ms",
        type=int,
        help=f"Time of one attempt.  [default: {limits.DEFAULT_ATTEMPT_TIMEOUT_MS}]",
    ),
]


def submission(command: Command) -> Command:
    """Give a command these options and the two arguments `command` (JSON) and `repeat` (advice) in their place."""

    @wraps(command)
    def composed(*, file: JsonValue, tenant: str | None, namespace: str | None, client: object, **members: Any) -> Any:
        if "file" in given():
            if more := sorted(given() - {"file", "client"}):
                raise click.UsageError(f"--file holds the whole command: leave out --{more[0].replace('_', '-')}")
            return command(client=client, command=file, repeat="run the same command again")
        made = compose(tenant_id=tenant, namespace=namespace, **members)
        return command(client=client, command=made, repeat=f"run it again with --key {made['idempotency_key']}")

    for option in reversed(OPTIONS):
        composed = option(composed)
    return composed  # type: ignore[return-value]  # click wrapped it: no longer the type that came in


def compose(
    *,
    key: str | None,
    data: JsonValue,
    max_attempts: int | None,
    retry_delay_ms: int | None,
    **members: JsonValue,
) -> dict[str, JsonValue]:
    """A SubmitCommand (chapter 06) from options; unset ones are left out, never null (CLI-050)."""
    for name in ("tenant_id", "namespace", "queue", "program"):
        if members[name] is None:
            raise click.UsageError(f"--{name.removesuffix('_id')} is missing (or give the whole command with --file)")
    task: dict[str, JsonValue] = {name: value for name, value in members.items() if value is not None}
    task["data"] = data
    if max_attempts is not None or retry_delay_ms is not None:
        task["retry_policy"] = {
            "max_attempts": limits.DEFAULT_MAX_ATTEMPTS if max_attempts is None else max_attempts,
            "retry_delay_ms": limits.DEFAULT_RETRY_DELAY_MS if retry_delay_ms is None else retry_delay_ms,
        }
    return {"idempotency_key": key or f"cli:{uuid.uuid4()}", "input": task}
