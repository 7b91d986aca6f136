"""`protocol3 fixtures`: the fixture programs as a store in a folder or over HTTP, and the vectors."""

import ipaddress
import platform
import shutil
import subprocess
import sys
import tempfile
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, Final

import click

from protocol3.cli.conformance import suite_folder
from protocol3.cli.failure import CliFailure, Rejected
from protocol3.cli.output import emit
from protocol3.programs.errors import ProgramError
from protocol3.programs.publish import publish_directory

TEMPLATE: Final = "ledgence-program.template.json"
SYSTEMS: Final = {"Linux": "linux", "Darwin": "macos"}
MACHINES: Final = {"x86_64": "x86_64", "arm64": "aarch64", "aarch64": "aarch64"}


@click.group(name="fixtures")
def group() -> None:
    """The fixture programs and vectors of the conformance suite."""


@group.command()
@click.argument("directory", metavar="DIR", type=click.Path(path_type=Path, file_okay=False))
def export(directory: Path) -> None:
    """Write DIR/store, a program store for a service under test, and DIR/vectors, test data for any language.

    The programs are for this interpreter and host; a service only resolves them. Prints what was written.
    """
    store, vectors = directory / "store", directory / "vectors"
    published = publish_all(store)
    try:
        shutil.copytree(_fixtures() / "vectors", vectors, dirs_exist_ok=True)
    except OSError as failure:
        raise CliFailure(f"cannot write to {vectors}: {failure.strerror}", code="io") from failure
    emit({"store": str(store.absolute()), "programs": [*published], "vectors": str(vectors.absolute())})


@group.command()
@click.option(
    "--listen", default="127.0.0.1:8090", show_default=True, metavar="IP:PORT", help="Port 0 takes a free one."
)
def serve(listen: str) -> None:
    """Serve a store with the fixture programs over HTTP until interrupted. Prints its URL.

    Plain HTTP stores are allowed on a loopback address only (PKG-039).
    """
    address = _loopback(listen)
    with tempfile.TemporaryDirectory(prefix="protocol3-fixtures-") as folder:
        published = publish_all(Path(folder))
        try:
            server = ThreadingHTTPServer(address, partial(_Store, directory=folder))
        except OSError as failure:
            raise CliFailure(f"cannot listen on {listen}: {failure.strerror}", code="io") from failure
        with server:
            host, port = server.server_address[:2]
            emit({"url": f"http://{host!s}:{port}", "programs": [*published]})
            try:
                server.serve_forever()
            except KeyboardInterrupt:
                click.echo("stopped", err=True)


class _Store(SimpleHTTPRequestHandler):
    """Regular files of the store's layout and nothing else (PKG-032)."""

    protocol_version = "HTTP/1.1"

    def list_directory(self, path: Any) -> None:
        self.send_error(404)

    def log_message(self, format: str, *args: Any) -> None:
        pass


def publish_all(store: Path) -> list[str]:
    """Publish every fixture program into a store; their `id@version`, sorted. The same again changes nothing."""
    programs = sorted(entry.name for entry in (_fixtures() / "programs").iterdir() if (entry / "program.py").exists())
    published = []
    with tempfile.TemporaryDirectory(prefix="protocol3-fixtures-") as scratch:
        for program in programs:
            prepare(program, Path(scratch) / program)
            try:
                descriptor = publish_directory(Path(scratch) / program, store).descriptor
            except ProgramError as failure:
                raise CliFailure(failure.message, code=failure.kind, advice="name another directory") from failure
            published.append(f"{descriptor.program.id}@{descriptor.program.version}")
    return published


def prepare(program: str, output: Path) -> None:
    """Write the publishable directory of a fixture program.

    The published example prepares itself (PKG-077); the others carry a manifest with `{python}`, `{os}` and `{arch}`
    to fill in. Raises CalledProcessError, or Rejected for a host that no package can be for.
    """
    source = _fixtures() / "programs" / program
    if (source / "prepare.py").exists():
        command = [sys.executable, str(source / "prepare.py"), str(output)]
        subprocess.run(command, check=True, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL)
        return
    system, machine = SYSTEMS.get(platform.system()), MACHINES.get(platform.machine())
    if system is None or machine is None:
        raise Rejected(f"no packages for {platform.system()} on {platform.machine()}", code="incompatible")
    shutil.copytree(source, output, ignore=shutil.ignore_patterns(TEMPLATE, "__pycache__", "*.md"))
    manifest = (source / TEMPLATE).read_text(encoding="utf-8")
    python = f"{sys.version_info.major}.{sys.version_info.minor}"
    for place, value in {"{python}": python, "{os}": system, "{arch}": machine}.items():
        manifest = manifest.replace(place, value)
    (output / "ledgence-program.json").write_text(manifest, encoding="utf-8")


def _fixtures() -> Path:
    return suite_folder() / "fixtures"


def _loopback(listen: str) -> tuple[str, int]:
    host, _, port = listen.rpartition(":")
    try:
        address, number = ipaddress.ip_address(host), int(port)
    except ValueError:
        address, number = None, -1
    if address is None or not address.is_loopback or address.version != 4 or not 0 <= number < 65536:
        raise Rejected(f"--listen {listen}: expected a literal IPv4 loopback address and a port", code="invalid_input")
    return str(address), number
