"""Which rules that can be seen over the wire no check of the conformance suite cites.

    python tools/conformance_gaps.py [--counts]

It looks at every MUST of the role coordinator in the profiles that the suite judges. A rule is checked if a check cites
it, or if the wire layer, which judges every exchange, names it in a violation. `tools/conformance_gaps.toml` has the
reasons for rules that no check can show; one that is checked all the same is an error. Ends with 1 if a rule is left.
"""

from __future__ import annotations

import argparse
import sys
import tomllib
from collections.abc import Iterator, Sequence
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT / "conformance"), str(ROOT / "spec")]

from citations import Catalogue, Module, sources  # noqa: E402 - the path above
from protocol3_conformance import catalogue as suite  # noqa: E402 - the path above
from protocol3_conformance.requirements import Requirement, requirements  # noqa: E402 - the path above

REASONS = ROOT / "tools" / "conformance_gaps.toml"
ROLES = ("coordinator", "everyone")
PROFILES = {"core", "workflows", "forks", "subworkflows", "discovery", "virtual-time", "faults"}
OBSERVED = ("wire", "time")


def due() -> list[Requirement]:
    """The rules that need a check: those that decide, not their repetitions."""
    return [
        rule
        for rule in requirements().values()
        if rule.level == "MUST"
        and rule.role in ROLES
        and rule.observed in OBSERVED
        and PROFILES.intersection(rule.profiles)
        and not rule.owned_by
    ]


def judged_always() -> Iterator[str]:
    """The rules that violations found by the wire layer name: strings of its code, not of its documentation."""
    known = Catalogue(list(requirements()))
    for path in sources(ROOT / "conformance/protocol3_conformance/wire"):
        for text in Module(path).strings():
            yield from (named.identifier for named in known.named(text.value))


def main(words: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--counts", action="store_true", help="only the last line")
    arguments = parser.parse_args(words)
    checks = suite.everything().values()
    cited = {identifier for check in checks for identifier in check.cites}
    checked = cited | set(judged_always())
    reasons: dict[str, str] = tomllib.loads(REASONS.read_text(encoding="utf-8"))["cannot"]
    rules = {rule.id: rule for rule in due()}
    gaps = [rule for rule in rules.values() if rule.id not in checked and rule.id not in reasons]
    needless = [name for name in reasons if name in checked or name not in rules]
    if not arguments.counts:
        for rule in gaps:
            print(f"{rule.id} ({', '.join(rule.profiles)}; {rule.observed}) {rule.text}")
        for name in needless:
            print(f"{REASONS.name}: {name} is checked, or needs no check")
    print(
        f"{len(checks)} checks cite {len(cited)} rules; of {len(rules)} rules of a coordinator that can be seen "
        f"{len(rules.keys() & checked)} are checked, {len(reasons)} have a reason, {len(gaps)} are left"
    )
    return 1 if gaps or needless else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
