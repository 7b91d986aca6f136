"""`./dev parity [RELEASE ...] [--seed N] [--examples N] [--sample N] [--case NAME] [--json] [--record FILE]`

Compares our runtime helper with published releases (default: all we have lock files of): conversations of written and
generated cases, the public API, and what mypy says of handlers. Exit code 1 for a difference that `explained.toml` does
not explain, or an explanation that nothing needs. Every conversation is recorded; `--case` runs one case again alone,
a generated one as the last recording holds it. Releases whose helpers are the same files are run once.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import sys
import zlib
from contextlib import ExitStack
from pathlib import Path

import environment
from parity import api, explanations, generated, handler_types, report, written
from parity.bench import Bench
from parity.case import Case
from parity.runtime import OURS, ROOT, Runtime

RECORDING = ROOT / "build" / "parity" / "conversations.jsonl"


def main(words: list[str]) -> int:
    options = _options(words)
    try:
        homes = _homes(options.releases or _releases())
        table = explanations.load()
    except (environment.EnvironmentFailure, explanations.TableError, OSError) as failure:
        print(f"parity: {failure}", file=sys.stderr)
        return 1
    with ExitStack() as stack:
        runtimes = [stack.enter_context(Runtime("ours", OURS))]
        runtimes += [stack.enter_context(Runtime(name, home)) for name, home in homes.items()]
        if options.case is None:
            options.record.parent.mkdir(parents=True, exist_ok=True)
            record = stack.enter_context(options.record.open("w"))
        else:
            record = None
        bench = stack.enter_context(Bench(runtimes, table, record))
        if options.case is not None:
            return _one(bench, _find(options.case, options.record), options.json)
        bench.run(_sampled(written.cases(), table, options.sample))
        generated.run(bench, seed=options.seed, examples=options.examples)
    apart = [*api.compare(homes), *handler_types.compare(homes)] if options.surface else []
    summary = report.Summary(bench.results, apart, table.unused())
    print(summary.as_json() if options.json else summary.text())
    return 0 if summary.passed else 1


def _options(words: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="./dev parity", description="Our runtime helper against the published ones.")
    parser.add_argument("releases", nargs="*", metavar="RELEASE")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--examples", type=int, default=300, help="generated cases")
    parser.add_argument(
        "--sample", type=int, default=1, help="of the written cases in processes of their own, one of N"
    )
    parser.add_argument("--case", help="only the case of this name, and its frames side by side")
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--record", type=Path, default=RECORDING, help="where conversations go, as JSON lines")
    parser.add_argument("--no-surface", dest="surface", action="store_false", help="leave out the API and the types")
    return parser.parse_args(words)


def _releases() -> list[str]:
    return [path.stem.removeprefix("interop-") for path in sorted(ROOT.glob("requirements/interop-*.txt"))]


def _homes(releases: list[str]) -> dict[str, Path]:
    """Bootstrap files by release; releases with the same files share one entry, named `0.5.0 = 0.6.1`."""
    alike: dict[str, list[tuple[str, Path]]] = {}
    for release in releases:
        home = _home(release)
        digest = hashlib.sha256()
        for path in sorted(home.parent.rglob("*")):
            if path.is_file() and path.suffix != ".pyc":
                digest.update(f"{path.relative_to(home.parent)}\n{path.stat().st_size}\n".encode() + path.read_bytes())
        alike.setdefault(digest.hexdigest(), []).append((release, home))
    return {" = ".join(release for release, _ in group): group[-1][1] for group in alike.values()}


def _sampled(cases: list[Case], table: explanations.Explanations, sample: int) -> list[Case]:
    """Cases in shared processes are cheap and all taken, as are those that an explanation names."""
    return [
        case
        for case in cases
        if case.shared or table.concern(case.name) or zlib.crc32(case.name.encode()) % sample == 0
    ]


def _home(release: str) -> Path:
    """The published bootstrap file, in an environment of its own."""
    folder = ROOT / ".envs" / f"interop-{release}"
    environment.ensure(folder)
    [found] = folder.glob("lib/python3.*/site-packages/ledgence/worker/bootstrap.py")
    return found


def _find(name: str, recording: Path) -> Case | None:
    for case in written.cases():
        if case.name == name:
            return case
    if recording.is_file():
        with recording.open() as lines:
            for line in lines:
                case = Case.from_json(json.loads(line)["case"])
                if case.name == name:
                    return case
    return None


def _one(bench: Bench, case: Case | None, as_json: bool) -> int:
    if case is None:
        print("parity: no written case and none of the last recording has this name", file=sys.stderr)
        return 2
    result = bench.examine(case, alone=True)
    print(json.dumps(result.as_json(), ensure_ascii=False) if as_json else report.side_by_side(result))
    return 0 if result.accepted else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
