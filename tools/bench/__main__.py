"""The command line: `./dev bench [scenario ...] [--peers NAMES] [options]`."""

from __future__ import annotations

import argparse
import asyncio
import os
import sys
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from difflib import get_close_matches
from pathlib import Path

# Run as a folder: what we import lies beside it, so it cannot be imported before (E402).
sys.path[0] = str(Path(__file__).resolve().parent.parent)

from bench import running  # noqa: E402
from bench.peers import PEERS  # noqa: E402
from bench.plot import write_svg  # noqa: E402
from bench.report import as_json, table  # noqa: E402
from bench.scenarios import Options, names  # noqa: E402
from system import SystemFailure, temporary_folder  # noqa: E402

#: Each is a process.
MOST_SLOTS = 256
#: Of load in a round; a driver answers a command within two minutes.
LONGEST_S = 100.0

EPILOG = """\
examples:
  ./dev bench trivial-32 --rounds 3 --seconds 2         one row, our system alone
  ./dev bench trivial-32 steps --peers all              beside every peer that can be installed here
  ./dev bench trivial-1 --peers restate,absurd --plot build/bench.svg
  ./dev bench memory --slots 4                          of a worker with four processes
  ./dev bench idle                                      100,000 that wait beside an empty system
  ./dev bench tasks --seconds 60 --rounds 1             the goal of docs/performance.md, a minute long
  ./dev bench growth --rows 2000000                     another goal; minutes of filling

How to read it: every round measures all engines one after the other, in another order each time. A ratio is ours to
the peer's of the same round, so that what disturbs the machine disturbs both; its spread says what it is worth. Compare
figures of one run only. growth and idle run our system twice, with few and with many rows, and measure both in turns
the same way; what takes long says so on stderr. PostgreSQL runs with fsync on for everybody."""


def whole(most: int | None = None) -> Callable[[str], int]:
    """The type of an option that counts something: at least 1."""

    def counted(text: str) -> int:
        number = int(text)
        if number < 1 or (most is not None and number > most):
            raise argparse.ArgumentTypeError(f"{text} is not " + ("at least 1" if most is None else f"1 to {most}"))
        return number

    counted.__name__ = "whole number"  # as argparse names it for what is none
    return counted


def seconds(text: str) -> float:
    """The type of an option that is a time."""
    number = float(text)
    if not 0 < number <= LONGEST_S:
        raise argparse.ArgumentTypeError(f"{text} is not above 0 and up to {LONGEST_S:.0f}")
    return number


def _nearest(unknown: str, known: Collection[str]) -> str:
    near = get_close_matches(unknown, known, n=1)
    return f"did you mean {near[0]}?" if near else f"there are {', '.join(known)}"


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
    made.add_argument("--rounds", type=whole(), default=defaults.rounds, metavar="N", help="default %(default)s")
    made.add_argument("--seconds", type=seconds, default=defaults.seconds, metavar="S", help="of load, default 3")
    made.add_argument(
        "--rows", type=whole(), default=defaults.rows, metavar="N", help="in filled tables, default %(default)s"
    )
    made.add_argument("--consumers", type=whole(), default=defaults.consumers, metavar="N", help="default %(default)s")
    made.add_argument("--timers", type=whole(), default=defaults.timers, metavar="N", help="default %(default)s")
    made.add_argument(
        "--slots", type=whole(MOST_SLOTS), default=defaults.slots, metavar="N",
        help="of our worker, a program process each; default %(default)s (Absurd 32 at a time, DBOS 64)",
    )  # fmt: skip
    made.add_argument("--json", type=Path, metavar="FILE", help="every figure of every round")
    made.add_argument("--plot", type=Path, metavar="FILE", help="an SVG with medians and spread")
    return made


@contextmanager
def bytecode_in(folder: Path) -> Iterator[None]:
    """Sources are compiled once, as an installation does it; or every start would do it, where bytecode is not kept."""
    kept = {name: os.environ.pop(name, None) for name in ("PYTHONDONTWRITEBYTECODE", "PYTHONPYCACHEPREFIX")}
    os.environ["PYTHONPYCACHEPREFIX"] = str(folder)
    try:
        yield
    finally:
        del os.environ["PYTHONPYCACHEPREFIX"]
        os.environ.update({name: value for name, value in kept.items() if value is not None})


def main(words: list[str]) -> int:
    made = parser()
    given = made.parse_args(words)
    wanted = given.scenario or names()
    peers = list(PEERS) if given.peers == "all" else [name for name in given.peers.split(",") if name]
    for what, given_names, known in (("scenario", wanted, names()), ("peer", peers, PEERS)):
        for unknown in (name for name in given_names if name not in known):
            made.error(f"there is no {what} {unknown!r}; {_nearest(unknown, known)}")
    options = Options(
        rounds=given.rounds,
        seconds=given.seconds,
        rows=given.rows,
        consumers=given.consumers,
        timers=given.timers,
        slots=given.slots,
    )
    try:
        with temporary_folder("bench", keep_failed=True) as folder, bytecode_in(folder / "bytecode"):
            results = asyncio.run(running.run(wanted, peers, options, folder))
    except SystemFailure as failure:
        print(f"bench: {failure}", file=sys.stderr)
        return 1
    print(table(results))
    if given.json:
        given.json.parent.mkdir(parents=True, exist_ok=True)
        given.json.write_text(as_json(results, options))
    if given.plot:
        write_svg(given.plot, results)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
