"""The built wheel, alone in an empty folder: the same checks under the same IDs, fixtures and schemas included."""

from __future__ import annotations

import os
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from protocol3_conformance import catalogue

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel's content as an installer would lay it out, entry points included."""
    pytest.importorskip("hatchling")
    folder = tmp_path_factory.mktemp("wheel")
    build = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(folder)]
    subprocess.run(build, cwd=ROOT, check=True, capture_output=True)
    (built,) = folder.glob("*.whl")
    site = folder / "site"
    with zipfile.ZipFile(built) as archive:
        archive.extractall(site)
    return site


def run(site: Path, folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    environment = {key: value for key, value in os.environ.items() if key != "PYTEST_DISABLE_PLUGIN_AUTOLOAD"}
    environment["PYTHONPATH"] = str(site)
    command = [sys.executable, *words]
    return subprocess.run(
        command, cwd=folder, env=environment, capture_output=True, text=True, check=False, timeout=120
    )


@pytest.mark.parametrize(
    "command",
    [
        ["-m", "pytest", "--pyargs", "protocol3_conformance", "-p", "no:cacheprovider"],
        ["-m", "protocol3.cli", "conformance"],
    ],
)
def test_the_same_checks_as_in_the_checkout(wheel: Path, tmp_path: Path, command: list[str]) -> None:
    listed = run(wheel, tmp_path, *command, "--list", "-q")
    assert listed.returncode == 0, listed.stderr
    found = {line.partition(" ")[0] for line in listed.stdout.splitlines() if "/" in line.partition(" ")[0]}
    assert found == set(catalogue.everything())
    assert list(tmp_path.iterdir()) == []


def test_its_data_is_there(wheel: Path, tmp_path: Path) -> None:
    """Vectors, fixture programs, revisions, schemas and the parts of the page."""
    program = (
        "from protocol3_conformance import revision, target_file, vectors;"
        "from protocol3_conformance.report import document, html_report;"
        "assert vectors.documents('decode') and revision.names() and target_file.template() and target_file.schema();"
        "assert document.schema() and html_report._asset('page.css') and html_report._asset('page.js');"
        "assert document.suite_version() != 'checkout', document.suite_version()"
    )
    done = run(wheel, tmp_path, "-c", program)
    assert done.returncode == 0, done.stderr
    exported = run(wheel, tmp_path, "-m", "protocol3.cli", "fixtures", "export", "out")
    assert exported.returncode == 0, exported.stderr
    assert (tmp_path / "out/store/programs/mixed-workflow/1.0.1/descriptor.json").exists()
