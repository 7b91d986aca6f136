"""`protocol3 task`: submit, observe and cancel tasks."""

import click

from protocol3.cli import options
from protocol3.cli.client import Client
from protocol3.cli.observing import report
from protocol3.cli.output import emit
from protocol3.cli.subject import Subject, subject
from protocol3.cli.submission import submission
from protocol3.contract import limits
from protocol3.contract.strict_json import JsonValue

STATES = ("queued", "active", "succeeded", "failed", "cancelled")

FILTERS = ("state", "queue", "correlation_key", "submitted_from", "submitted_until")  # in the order of CLI-003


@click.group()
def group() -> None:
    """Tasks: submit, observe, cancel."""


@group.command()
@options.server
@submission
def submit(client: Client, command: JsonValue, repeat: str) -> None:
    """Submit a task; prints its snapshot.

    Acceptance says nothing about the outcome: ask for it with `protocol3 task result`.
    """
    emit(client.post("/v1/tasks", command, repeat=repeat))


@group.command("list")
@options.server
@options.scope(required=True)
@click.option("--state", type=click.Choice(STATES), help="Only tasks in this state.")
@click.option("--queue", help="Only tasks of this queue.")
@click.option("--correlation-key", help="Only tasks with exactly this correlation key.")
@click.option("--submitted-from", type=int, help="Earliest submission, Unix milliseconds.")
@click.option("--submitted-until", type=int, help="First instant after the last submission, Unix milliseconds.")
@click.option("--limit", type=int, default=limits.DEFAULT_TASK_PAGE, show_default=True, help="Tasks of one page.")
@click.option("--cursor", help="next_cursor of the page before, with unchanged filters.")
def list_(
    client: Client, tenant: str, namespace: str, limit: int, cursor: str | None, **filters: str | int | None
) -> None:
    """List tasks, newest first, one page a call."""
    ordered = {name: filters[name] for name in FILTERS}
    emit(client.get("/v1/tasks", options.scope_query(tenant, namespace, limit=limit, **ordered, cursor=cursor)))


@group.command()
@subject("task")
def inspect(subject: Subject) -> None:
    """The snapshot of a task, with its input."""
    emit(subject.client.get("/v1/tasks/inspect", subject.query()))


@group.command()
@subject("task")
def status(subject: Subject) -> None:
    """The state of a task, without its input."""
    emit(subject.client.get("/v1/tasks/status", subject.query()))


@group.command()
@subject("task")
@options.wait
def result(subject: Subject, wait: float) -> None:
    """The outcome of a task; null while it is unfinished. A task that failed is a successful answer."""
    report(subject.client, "/v1/tasks", subject.query(), wait)


@group.command()
@subject("task")
@click.option("--attempt", required=True, help="Id of the attempt.")
def attempt(subject: Subject, attempt: str) -> None:
    """One attempt at a task: its worker, its lease, what was settled."""
    emit(subject.client.get("/v1/attempts/inspect", subject.query(attempt_id=attempt)))


@group.command()
@subject("task")
@click.option("--after", type=int, help="Only records after this sequence.")
def history(subject: Subject, after: int | None) -> None:
    """What happened to a task, at most 100 records a call."""
    emit(subject.client.get("/v1/tasks/history", subject.query(after_sequence=after)))


@group.command()
@subject("task")
def cancel(subject: Subject) -> None:
    """Ask for a task's end; prints its state. Repeating it is safe."""
    emit(subject.client.post("/v1/tasks/cancel", subject.command(), repeat="run the same command again"))
