"""The command line: `python tools/chaos [CAMPAIGN] [options]`; without a name, random kills."""

from __future__ import annotations

import argparse
import sys
import time
from pathlib import Path

# Run as a folder: what we import lies beside it, so it cannot be imported before (E402).
sys.path[0] = str(Path(__file__).resolve().parent.parent)

from chaos import kills, points, races, soak, workers  # noqa: E402
from system import SystemFailure, temporary_folder  # noqa: E402

CAMPAIGNS = {"kills": kills, "points": points, "races": races, "soak": soak, "workers": workers}


def main(words: list[str]) -> int:
    if not words or words[0] not in {*CAMPAIGNS, "-h", "--help"}:
        words = ["kills", *words]
    parser = argparse.ArgumentParser(prog="./dev chaos", epilog="Without a campaign: kills.")
    campaigns = parser.add_subparsers(dest="campaign", metavar="CAMPAIGN")
    for name, campaign in CAMPAIGNS.items():
        own = campaigns.add_parser(name, help=campaign.ABOUT, description=campaign.__doc__)
        own.add_argument("--seed", type=int, default=int(time.time()), help="the same seed makes the same choices")
        own.add_argument("--json", action="store_true", help="the account as one JSON document")
        campaign.add_options(own)
    options = parser.parse_args(words)
    print(f"seed {options.seed}", file=sys.stderr)
    try:
        with temporary_folder("chaos", keep_failed=True) as folder:
            report = CAMPAIGNS[options.campaign].run(options, folder)
            report.show(as_json=options.json)
            if report.faults:
                raise SystemFailure(f"{len(report.faults)} faults in the account")
    except SystemFailure as failure:
        print(f"chaos: {failure}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
