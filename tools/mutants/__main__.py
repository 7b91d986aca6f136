"""`./dev mutants`: does the suite catch broken implementations? conformance/mutants/README.md says what they are.

    ./dev mutants --check                what is wrong with the descriptions and with the committed matrix; a second
    ./dev mutants --id 'event-*'         run some: by ID or file; also --kind, --role, --changed, --missing, --sample N
    ./dev mutants --missing --write      run what is new or changed, and keep what it shows in the matrix
    ./dev mutants --page                 run nothing, write the matrix anew from what is kept
    ./dev mutants --random 20 --seed 1   edits that nobody thought of, in core and contract; with --clock 230

Each runs the checks that cite what it breaks until one fails (with --write until one has failed for each broken rule
that has checks), and a first look if none does. The last line counts the killed and the harmless as passed; the exit
code is 1 for any other, and 2 where no mutant is called as --id says.
"""

from __future__ import annotations

import argparse
import json
import signal
import sys
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from mutants import at_random, bounds, drawn, matrix, record, selection
from mutants.entries import KINDS, ROLES, BadEntry, Mutant, faults, read
from mutants.judging import Effort, Ruling, Verdict
from mutants.run import rulings


def options(words: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="./dev mutants", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--check", action="store_true", help="run nothing, look at descriptions and matrix")
    parser.add_argument("--page", action="store_true", help="run nothing, write docs/kill-matrix.md anew")
    parser.add_argument("--id", action="append", default=[], metavar="PATTERN", help="an ID, or a file without .toml")
    parser.add_argument("--kind", choices=KINDS)
    parser.add_argument("--role", choices=ROLES)
    parser.add_argument("--missing", action="store_true", help="without a good verdict in the matrix")
    parser.add_argument("--changed", action="store_true", help="of which description, files or checks were changed")
    parser.add_argument("--sample", type=int, metavar="N", help="N drawn by the seed, beside what --changed chooses")
    parser.add_argument("--seed", type=int, help="of the sample (default: drawn from the commit)")
    parser.add_argument("--random", type=int, metavar="N", help="N edits drawn by --seed, judged by every check")
    parser.add_argument("--only", type=at_random.numbers, metavar="3,40-59", help="these of the drawn, from 0 on")
    parser.add_argument("--budget", type=float, metavar="SECONDS", help="begin no further mutant after this time")
    parser.add_argument(
        "--clock", type=float, default=Effort().seconds, metavar="SECONDS", help="for one mutant's checks"
    )
    parser.add_argument("--full", action="store_true", help="every check of the role, and to the end")
    parser.add_argument("--all-killers", action="store_true", help="let every check end, whatever killed already")
    parser.add_argument("--jobs", type=int, default=2, metavar="N", help="mutants at one time (default: %(default)s)")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write every verdict")
    parser.add_argument("--write", action="store_true", help="keep the verdicts in the matrix, docs/kill-matrix.md")
    return parser.parse_args(words)


def check(mutants: Sequence[Mutant]) -> int:
    """Count the mutants whose description fits, and the matrix."""
    wrong = [*faults(mutants), *record.faults(record.read())]
    kept = matrix.load()
    try:
        about_matrix = [*matrix.stale(mutants, kept), *matrix.needless(mutants, kept), *bounds.faults(mutants)]
    except ValueError as error:
        about_matrix = [str(error)]
    for line in [*wrong, *about_matrix]:
        print(line)
    failed = len(wrong) + len(about_matrix)
    print(f"{max(len(mutants) + 1 - failed, 0)} passed, {failed} failed")
    return 1 if failed else 0


def chosen(mutants: Sequence[Mutant], asked: argparse.Namespace) -> list[Mutant]:
    """What the options choose, explained on standard output; touched ones first."""
    pool = selection.named(mutants, ids=asked.id, kind=asked.kind, role=asked.role)
    if asked.missing:
        pool = matrix.missing(pool, matrix.load())
    if not asked.changed and asked.sample is None:
        print(f"{len(pool)} of {len(mutants)} mutants")
        return pool
    picked: list[Mutant] = []
    if asked.changed:
        since, files = selection.changed_files()
        picked = list(selection.touched(pool, files))
        print(f"{since}: {len(picked)} mutants are touched")
    if asked.sample is not None:
        seed = selection.seed_of_commit() if asked.seed is None else asked.seed
        rest = [one for one in pool if one not in picked]
        drawn = selection.sample(rest, asked.sample, seed)
        print(f"{len(drawn)} of the other {len(rest)} by --seed {seed}")
        picked += drawn
    return picked


def line(ruling: Ruling) -> str:
    by = [f"{check} ({', '.join(rules)})" for check, rules in ruling.killers[:1]]
    told = f" by {by[0]}" if by else f": {ruling.detail.partition(chr(10))[0]}" if ruling.detail else ""
    return f"{ruling.verdict:14} {ruling.mutant.id}{told} [{ruling.checks} checks, {ruling.seconds:.1f} s]"


def ruled(mutants: Sequence[Mutant], asked: argparse.Namespace) -> Iterator[Ruling]:
    on = asked.full or asked.all_killers
    effort = Effort(seconds=asked.clock, every=asked.full, prove=asked.write, on=on)
    return rulings(mutants, effort, jobs=asked.jobs, budget=asked.budget) if mutants else iter(())


def told(rulings: Iterable[Ruling]) -> list[Ruling]:
    """All of them, a line each as they come."""
    found: list[Ruling] = []
    for ruling in rulings:
        print(line(ruling), flush=True)
        found.append(ruling)
    return found


def summary(found: Sequence[Ruling], left: int, seconds: float) -> int:
    """Tell again what went wrong, with its detail; the exit code."""
    for ruling in found:
        if not ruling.verdict.good:
            print(f"\n{ruling.verdict}: {ruling.mutant.id}: {ruling.mutant.sentence}")
            print(f"breaks {', '.join(ruling.mutant.breaks)}; {ruling.checks} checks ran. {ruling.detail}")
    counts = Counter(ruling.verdict for ruling in found)
    print(f"\n{', '.join(f'{counts[one]} {one}' for one in Verdict if counts[one]) or 'none run'}, {seconds:.0f} s")
    if left:
        print(f"{left} were left out: the budget was spent")
    good = sum(ruling.verdict.good for ruling in found)
    print(f"{good} passed, {len(found) - good} failed" + (f", {left} skipped" if left else ""))
    return 0 if good == len(found) else 1


def drawn_ones(asked: argparse.Namespace) -> int:
    """Draw, rule what --json does not hold yet, and tell what became of all that it holds then."""
    began = time.monotonic()
    drawn_now, kept = drawn.mutants(asked.random, asked.seed or 0), at_random.load(asked.json)
    found: list[Ruling] = []
    skipped = 0
    for role in [asked.role] if asked.role else at_random.PASSES:
        picked = at_random.left(drawn_now, asked.only, kept, role)
        print(f"{len(picked)} to be judged as {role}s")
        ruled_now = told(at_random.kept_as_they_come(ruled(picked, asked), kept, asked.json))
        found, skipped = found + ruled_now, skipped + len(picked) - len(ruled_now)
    code = summary(found, skipped, time.monotonic() - began)
    if asked.write:
        commit = selection.last_change(drawn.PACKAGE / room for room in drawn.ROOMS)
        record.write(at_random.made(drawn_now, kept, record.read().survivors, seed=asked.seed or 0, commit=commit))
        matrix.write(read(), matrix.load())
    print("in all:", ", ".join(f"{count} {name}" for name, count in at_random.counts(drawn_now, kept).items()))
    return code


def main(words: Sequence[str]) -> int:
    asked = options(words)
    if asked.random is not None:
        return drawn_ones(asked)
    try:
        mutants = read()
    except BadEntry as error:
        print(f"mutants: {error}\n0 passed, 1 failed")
        return 1
    if asked.check:
        return check(mutants)
    if unmet := selection.unmet(mutants, ids=asked.id, kind=asked.kind, role=asked.role):
        of = " and ".join(filter(None, [asked.kind, asked.role]))
        print(f"mutants: nothing{of and f' of {of}'} is called {' or '.join(unmet)}", file=sys.stderr)
        return 2
    if wrong := list(faults(mutants)):
        print(*wrong, f"0 passed, {len(wrong)} failed", sep="\n")
        return 1
    if asked.page:
        matrix.write(mutants, matrix.load())
        return 0
    began = time.monotonic()
    picked = chosen(mutants, asked)
    found = told(ruled(picked, asked))
    if asked.json:
        kept = matrix.merged({}, found)
        asked.json.write_text(json.dumps(kept, indent=1) + "\n", encoding="utf-8")
    if asked.write:
        matrix.write(mutants, matrix.merged(matrix.load(), found))
    return summary(found, len(picked) - len(found), time.monotonic() - began)


if __name__ == "__main__":
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.default_int_handler)  # what was started is ended on the way out
    sys.exit(main(sys.argv[1:]))
