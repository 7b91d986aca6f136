"""`protocol3 workflow`: submit, observe and cancel workflows, send them events."""

import sys
import uuid

import click

from protocol3.cli import options, tree
from protocol3.cli.client import Client
from protocol3.cli.observing import report
from protocol3.cli.output import emit
from protocol3.cli.subject import Subject, subject
from protocol3.cli.submission import submission
from protocol3.contract.strict_json import JsonValue


@click.group()
def group() -> None:
    """Workflows: submit, observe, send events, cancel."""


@group.command()
@options.server
@submission
def submit(client: Client, command: JsonValue, repeat: str) -> None:
    """Submit a workflow; prints its snapshot."""
    emit(client.post("/v1/workflows", command, repeat=repeat))


@group.command()
@subject("workflow")
def status(subject: Subject) -> None:
    """The state of a workflow."""
    emit(subject.client.get("/v1/workflows/status", subject.query()))


@group.command()
@subject("workflow")
@options.wait
def result(subject: Subject, wait: float) -> None:
    """The outcome of a workflow; null while it is unfinished. A workflow that failed is a successful answer."""
    report(subject.client, "/v1/workflows", subject.query(), wait)


@group.command()
@subject("workflow")
def cancel(subject: Subject) -> None:
    """Ask for a workflow's end, and its children's; prints its snapshot. Repeating it is safe."""
    emit(subject.client.post("/v1/workflows/cancel", subject.command(), repeat="run the same command again"))


@group.command()
@subject("workflow")
@click.option("--key", required=True, help="The wait that the event is for; each key takes one event.")
@click.option("--file", callback=options.json_file, help="The whole CloudEvent as JSON, - for standard input.")
@click.option(
    "--data", metavar="JSON", callback=options.json_text, help="Data of an event made here: JSON, @FILE or @-."
)
@click.option("--id", "event_id", callback=options.not_empty, help="Id of an event made here.  [default: a new one]")
@click.option("--source", default="/protocol3/cli", show_default=True, help="Source of an event made here.")
@click.option("--type", "event_type", default="protocol3.cli.event", show_default=True, help="Its type.")
def events(
    subject: Subject,
    key: str,
    file: JsonValue,
    data: JsonValue,
    event_id: str | None,
    source: str,
    event_type: str,
) -> None:
    """Send an event to a workflow; prints the receipt. It may arrive before its wait exists."""
    repeat, event = "run the same command again", file
    if "file" not in options.given():
        event_id = event_id or str(uuid.uuid4())
        repeat = f"run it again with --id {event_id}"
        event = {
            "specversion": "1.0",
            "id": event_id,
            "source": source,
            "type": event_type,
            "datacontenttype": "application/json",
            "data": data,
        }
    emit(subject.client.post("/v1/workflows/events", subject.command(key=key, event=event), repeat=repeat))


@group.command()
@subject("workflow")
@click.option("--json", "as_json", is_flag=True, help="The same as JSON (always so when the output is no terminal).")
def show(subject: Subject, as_json: bool) -> None:
    """A workflow with its activations, tasks and child workflows, as a tree."""
    found = tree.collect(subject.client, subject.tenant, subject.namespace, subject.id)
    if as_json or not sys.stdout.isatty():
        emit(found.to_json())
    else:
        click.echo("\n".join(tree.lines(found)))
