"""``protocol3 program``: publish, check and start packages."""

import asyncio
import sys
from collections.abc import Iterator
from pathlib import Path

import click

from protocol3.cli.ending import cancelled_by_signals
from protocol3.cli.failure import CliFailure, Rejected
from protocol3.cli.output import emit
from protocol3.programs.archive import Package
from protocol3.programs.build import build_package
from protocol3.programs.errors import ProgramError, PublicationError
from protocol3.programs.example import write_example
from protocol3.programs.manifest import Manifest, host_platform, require_platform
from protocol3.programs.publish import publish_directory
from protocol3.worker.diagnostics import Diagnostics
from protocol3.worker.failures import ExecutionFailed
from protocol3.worker.orphans import Orphans
from protocol3.worker.process import Launcher
from protocol3.worker.settings import InvalidSetting, ProgramSettings
from protocol3.worker.trial import try_start

_REJECTED = ("invalid_input", "integrity", "incompatible")

#: What to do, by the code of a publication or the kind of any other failure.
_ADVICE = {
    "invalid_input": "correct what is named; nothing was written",
    "integrity": "correct the package; `protocol3 program check DIRECTORY` looks at it without publishing",
    "incompatible": "name a CPython 3.11 or newer with --python, or correct runtime and platform of the manifest",
    "timed_out": "see whether the interpreter of --python starts by itself, then try again",
    "io": "check permissions and free space, then run the same command again",
    "immutable_conflict": "a published version never changes: give the manifest a new version",
    "publication_storage": "check permissions and free space of --store, then run the same command again",
    "publication_outcome_unknown": "run the same command again: the same content is published once",
}
_START_ADVICE = "correct the package: a worker would fail every task of it in phase startup; see what it wrote above"
_TRY_AGAIN = "run the same command again"


@click.group(name="program")
def group() -> None:
    """Program packages: create, check and publish them."""


@group.command()
@click.option("--source", type=click.Path(path_type=Path), required=True, help="Package directory with its manifest.")
@click.option("--store", type=click.Path(path_type=Path), required=True, help="Store directory; created when missing.")
def publish(source: Path, store: Path) -> None:
    """Pack a directory and publish it. Prints the descriptor."""
    try:
        publication = publish_directory(source, store)
    except ProgramError as error:
        raise _failure(error) from error
    if publication.already_published:
        click.echo("already published with the same content", err=True)
    emit(publication.descriptor.to_json())


@group.command()
@click.argument("directory", type=click.Path(path_type=Path))
@click.option("--python", default=sys.executable, show_default="this one", help="Interpreter of the worker.")
@click.option("--no-start", is_flag=True, help="Run nothing of the package, not even the import of its handler.")
def check(directory: Path, python: str, no_start: bool) -> None:
    """Validate a package directory without publishing it, and start it once as a worker would.

    Prints its descriptor, its manifest, and whether it came to "ready": its handler is imported, not called; what the
    program writes meanwhile is on standard error. A package for another machine or Python is valid, but not started;
    standard error says why a worker here would refuse it.
    """
    settings = ProgramSettings(store="", cache=Path(), python=python)
    try:
        package = build_package(directory)
        misfits = list(_misfits(package.manifest, settings.version()))
    except ProgramError as error:
        raise _failure(error) from error
    except InvalidSetting as error:
        raise Rejected(str(error), code="invalid_input", advice="see --python") from None
    ready = not misfits and not no_start
    if ready:
        _start(package, settings)
    emit({"descriptor": package.descriptor.to_json(), "manifest": package.manifest.to_json(), "ready": ready})
    for reason in misfits:
        click.echo(f"a worker on this machine would refuse it: {reason}", err=True)


def _start(package: Package, settings: ProgramSettings) -> None:
    """What a worker would say before the first task (RUN-014…020, RUN-031…033, WRK-057)."""
    diagnostics = Diagnostics()
    try:
        launcher = Launcher.of(settings, diagnostics, Orphans())
        asyncio.run(cancelled_by_signals(try_start(package, launcher)))
    except ExecutionFailed as failed:
        raise Rejected(failed.message, code=failed.kind, advice=_START_ADVICE) from None
    except ProgramError as error:
        raise _failure(error) from error
    finally:
        diagnostics.close()


def _misfits(manifest: Manifest, here: str) -> Iterator[str]:
    """RUN-016, WRK-048."""
    try:
        require_platform(manifest, host_platform())
    except ProgramError as error:
        yield error.message
    if manifest.python != here:
        yield f"the package is for Python {manifest.python}, this one is {here}; a worker may name another by --python"


@group.command()
@click.option("--directory", type=click.Path(path_type=Path), required=True, help="New directory to create.")
@click.option("--python", type=click.Path(path_type=Path), default=Path(sys.executable), help="Interpreter it is for.")
def example(directory: Path, python: Path) -> None:
    """Write a small package and two tasks for it."""
    try:
        written = write_example(directory.absolute(), python)
    except ProgramError as error:
        raise _failure(error) from error
    emit({"program": str(written.program), "tasks": str(written.tasks), "python": str(written.python)})


def _failure(error: ProgramError) -> CliFailure:
    """Exit 2 when the input is to blame, 1 when the store is (a conflict included)."""
    rejected = error.kind in _REJECTED and not isinstance(error, PublicationError)
    advice = _ADVICE.get(error.code if isinstance(error, PublicationError) else error.kind, _TRY_AGAIN)
    return (Rejected if rejected else CliFailure)(error.message, code=error.kind, advice=advice)
