"""`./dev docs`: the specification and the documents as a static web site that needs no network.

    python tools/site/build.py [--out DIR] [--no-reports] [--serve [--port N]]

Pages are prepared below `build/site` (what `page_text.py` does to those of the repository, and pages made of schemas,
routes, requirements, troubles, mutants and runs of the conformance suite), then mkdocs-material makes the site. Needs
npm once, for the scripts that draw diagrams and that search in pages opened as files; without it diagrams are text.
"""

from __future__ import annotations

import argparse
import functools
import http.server
import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "tools"), str(ROOT / "conformance"), str(ROOT / "spec")]

import mutant_page  # noqa: E402
import report_pages  # noqa: E402
import requirement_pages  # noqa: E402
import route_pages  # noqa: E402
import schema_pages  # noqa: E402
import trouble_page  # noqa: E402
from page_text import Linker  # noqa: E402

import environment  # noqa: E402  # of tools/, which is no package
import npm_packages  # noqa: E402
from chapters import SPEC, extract  # noqa: E402
from protocol3_spec import schemas  # noqa: E402

WORK = ROOT / "build/site"
PAGES = WORK / "pages"
COVERAGE = "docs/coverage-reference.md"
HERE = Path(__file__).parent
FETCHED = re.compile(
    r'<(?:script|img|iframe)[^>]+src="?https?:|<link[^>]+rel="?(?:stylesheet|preconnect)"?[^>]+https?:'
)
CHAPTERS = (
    ("Foundations", "00", "05"),
    ("Tasks and delivery", "06", "08"),
    ("Workflows", "09", "18"),
    ("Programs, workers, clients", "19", "24"),
    ("Optional profiles", "30", "35"),
    ("Reference", "40", "42"),
    ("Around the protocol", "50", "60"),
)


def documents() -> list[str]:
    """The pages of the repository, by their paths."""
    found = [ROOT / "README.md", ROOT / "CHANGELOG.md", *ROOT.glob("docs/*.md"), *ROOT.glob("spec/*.md")]
    return [path.relative_to(ROOT).as_posix() for path in sorted([*found, *ROOT.glob("fixtures/**/README.md")])]


def prepare(diagrams: bool) -> None:
    """Write every page and everything that pages link to."""
    shutil.rmtree(PAGES, ignore_errors=True)
    requirements: list[dict[str, Any]] = extract(SPEC)
    linker = Linker(chapters={one["id"]: one["chapter"] for one in requirements})
    made = dict(schema_pages.pages(linker)) | dict([route_pages.page(linker), trouble_page.page()])
    rows = mutant_page.read()
    made |= dict(requirement_pages.pages(linker, requirements, mutant_page.proofs(rows)))
    made |= {path: linker.page(path, (ROOT / path).read_text(encoding="utf-8")) for path in documents()}
    made[COVERAGE] = f"{requirement_pages.FRONT}{made[COVERAGE]}"
    made[mutant_page.PAGE] = mutant_page.linked(made[mutant_page.PAGE])
    for path, text in made.items():
        page = PAGES / path
        page.parent.mkdir(parents=True, exist_ok=True)
        page.write_text(text if diagrams else text.replace("```mermaid", "```text"), encoding="utf-8")
    (PAGES / mutant_page.DATA).write_text(json.dumps(rows, indent=1) + "\n", encoding="utf-8")
    for folder in ("spec/protocol3_spec", "fixtures"):
        for file in (ROOT / folder).rglob("*.json"):
            (PAGES / file.relative_to(ROOT)).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(file, PAGES / file.relative_to(ROOT))
    for drawing in ROOT.glob("docs/*.svg"):
        shutil.copy(drawing, PAGES / "docs")
    shutil.copy(ROOT / "LICENSE", PAGES)
    shutil.copytree(HERE / "assets", PAGES / "assets")


def navigation(requirement_files: list[str]) -> list[Any]:
    def numbered(first: str, last: str) -> list[str]:
        files = sorted(path.name for path in SPEC.glob("[0-9][0-9]-*.md"))
        return [f"spec/{name}" for name in files if first <= name[:2] <= last]

    by_title = [f"schemas/{name}.md" for name, schema in sorted(schemas().items(), key=lambda one: one[1]["title"])]
    chapters = [{title: numbered(first, last)} for title, first, last in CHAPTERS]
    return [
        {"Home": "README.md"},
        {"Specification": ["spec/README.md", *chapters, {"Schema vocabulary": "spec/schema-vocabulary.md"}]},
        {"Requirements": ["requirements/index.md", {"By prefix": requirement_files}]},
        {"Routes": "routes/index.md"},
        {"Schemas": ["schemas/index.md", *by_title]},
        {"Reference": [*_below("docs"), *_found(), "CHANGELOG.md"]},
        {"Fixtures": [path for path in documents() if path.startswith("fixtures/")]},
    ]


def _found() -> list[Any]:
    """What real engines got wrong, and what the suite says of ours."""
    return [{"What real engines got wrong": trouble_page.PATH}, *_below(report_pages.FOLDER, index=True)]


def _below(folder: str, *, index: bool = False) -> list[str]:
    found = sorted((PAGES / folder).glob("*.md"))
    return [path.relative_to(PAGES).as_posix() for path in found if (path.stem == "index") == index]


def build(out: Path, *, reports: bool) -> None:
    """Make the site. Raises CalledProcessError where a link leads nowhere, ReportFailure."""
    environment.ensure(ROOT / ".envs/site")
    modules = npm_packages.ensure()
    prepare(diagrams=modules is not None)
    if reports:
        report_pages.write(PAGES)
    scripts = ["assets/requirements.js"]
    if modules is not None:
        shutil.copy(modules / "mermaid/dist/mermaid.min.js", PAGES / "assets")
        shutil.copy(modules / "iframe-worker/shim/index.js", PAGES / "assets/iframe-worker.js")
        scripts = ["assets/mermaid.min.js", "assets/diagrams.js", *scripts]
    settings = {
        "INHERIT": str(HERE / "mkdocs.yml"),
        "docs_dir": str(PAGES),
        "site_dir": str(out.absolute()),
        "extra_javascript": scripts,
        # Search in pages that were opened as files; the generator would fetch it from elsewhere.
        "extra": {"polyfills": ["assets/iframe-worker.js"]},
        "nav": navigation(_below("requirements")),
    }
    (WORK / "mkdocs.yml").write_text(json.dumps(settings, indent=1))  # JSON is YAML
    command = [ROOT / ".envs/site/bin/mkdocs", "build", "--strict", "--quiet", "--clean", "-f", WORK / "mkdocs.yml"]
    subprocess.run(command, check=True, env=os.environ | {"NO_MKDOCS_2_WARNING": "1"})


def foreign(out: Path) -> Iterator[str]:
    """Pages that would fetch something from elsewhere."""
    for page in out.rglob("*.html"):
        if found := FETCHED.search(page.read_text(encoding="utf-8")):
            yield f"{page.relative_to(out)}: {found[0]}"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, default=ROOT / "site", help="folder of the site; replaced")
    parser.add_argument(
        "--reports",
        action=argparse.BooleanOptionalAction,
        default=True,
        help="run the conformance suite for its page (about a minute)",
    )
    parser.add_argument("--serve", action="store_true", help="show it on this machine afterwards")
    parser.add_argument("--port", type=int, default=8000)
    arguments = parser.parse_args()
    try:
        build(arguments.out, reports=arguments.reports)
    except (subprocess.CalledProcessError, environment.EnvironmentFailure, report_pages.ReportFailure) as failure:
        print(f"docs: {failure}", file=sys.stderr)
        return 1
    for fault in (faults := [*foreign(arguments.out)]):
        print(f"docs: fetches from elsewhere: {fault}", file=sys.stderr)
    pages = sum(1 for _ in arguments.out.rglob("*.html"))
    print(f"{pages} pages in {arguments.out}", flush=True)
    if arguments.serve:
        handler = functools.partial(http.server.SimpleHTTPRequestHandler, directory=arguments.out)
        with http.server.ThreadingHTTPServer(("127.0.0.1", arguments.port), handler) as server:
            print(f"http://127.0.0.1:{server.server_port}/ (Ctrl-C ends it)", flush=True)
            try:
                server.serve_forever()
            except KeyboardInterrupt:
                return 0
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
