"""The command line: `./dev bench [scenario ...] [--peers NAMES] [options]`."""

from __future__ import annotations

import argparse
import asyncio
import sys
from pathlib import Path

# Run as a folder: what we import lies beside it, so it cannot be imported before (E402).
sys.path[0] = str(Path(__file__).resolve().parent.parent)

from bench import running  # noqa: E402
from bench.peers import PEERS  # noqa: E402
from bench.plot import write_svg  # noqa: E402
from bench.report import as_json, table  # noqa: E402
from bench.scenarios import Options, names  # noqa: E402
from system import SystemFailure, temporary_folder  # noqa: E402

EPILOG = """\
examples:
  ./dev bench trivial-32 --rounds 3 --seconds 2         one row, our system alone
  ./dev bench trivial-32 steps --peers all              beside every peer that can be installed here
  ./dev bench trivial-1 --peers restate,absurd --plot build/bench.svg
  ./dev bench growth --rows 2000000                     the goal of docs/performance.md; minutes of filling

How to read it: every round measures all engines one after the other, in another order each time. A ratio is ours to
the peer's of the same round, so that what disturbs the machine disturbs both; its spread says what it is worth. Compare
figures of one run only. PostgreSQL runs with fsync on for everybody."""


def parser() -> argparse.ArgumentParser:
    made = argparse.ArgumentParser(
        prog="./dev bench",
        description="Figures of our system, beside those of its peers, on this machine.",
        epilog="scenarios:\n"
        + "\n".join(f"  {name:<12} {running.module(name).ABOUT}" for name in names())
        + "\n\npeers:\n"
        + "\n".join(f"  {name:<12} {peer.about}; {peer.durability}" for name, peer in PEERS.items())
        + f"\n\n{EPILOG}",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    defaults = Options()
    made.add_argument("scenario", nargs="*", metavar="SCENARIO", help="which; default: all")
    made.add_argument("--peers", default="", metavar="NAMES", help="comma-separated, or all; default: none")
    made.add_argument("--rounds", type=int, default=defaults.rounds, metavar="N", help="default %(default)s")
    made.add_argument("--seconds", type=float, default=defaults.seconds, metavar="S", help="of load, default 3")
    made.add_argument(
        "--rows", type=int, default=defaults.rows, metavar="N", help="in filled tables, default %(default)s"
    )
    made.add_argument("--consumers", type=int, default=defaults.consumers, metavar="N", help="default %(default)s")
    made.add_argument("--timers", type=int, default=defaults.timers, metavar="N", help="default %(default)s")
    made.add_argument("--json", type=Path, metavar="FILE", help="every figure of every round")
    made.add_argument("--plot", type=Path, metavar="FILE", help="an SVG with medians and spread")
    return made


def main(words: list[str]) -> int:
    made = parser()
    given = made.parse_args(words)
    wanted = given.scenario or names()
    peers = list(PEERS) if given.peers == "all" else [name for name in given.peers.split(",") if name]
    for unknown in [name for name in wanted if name not in names()] + [name for name in peers if name not in PEERS]:
        made.error(f"there is no scenario or peer {unknown!r}; see --help")
    options = Options(
        rounds=given.rounds,
        seconds=given.seconds,
        rows=given.rows,
        consumers=given.consumers,
        timers=given.timers,
    )
    try:
        with temporary_folder("bench", keep_failed=True) as folder:
            results = asyncio.run(running.run(wanted, peers, options, folder))
    except SystemFailure as failure:
        print(f"bench: {failure}", file=sys.stderr)
        return 1
    print(table(results))
    if given.json:
        given.json.write_text(as_json(results, options))
    if given.plot:
        write_svg(given.plot, results)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
