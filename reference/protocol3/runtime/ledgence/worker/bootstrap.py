"""Start a program process (RUN-001): `python -I -S -B bootstrap.py --package-root DIR --handler M:F ...`.

This file only makes the helper importable; everything else lives in importable modules, whose compiled form Python can
reuse from start to start.
"""

import os
import sys


def main() -> int:
    """Without bytecode files (RUN-012); `ledgence` stays open for other parts of the namespace (RUN-010)."""
    sys.dont_write_bytecode = True
    package = os.path.dirname(os.path.abspath(__file__))
    sys.path.insert(0, os.path.dirname(os.path.dirname(package)))
    from ledgence.worker._process import run

    return run(sys.argv[1:])


if __name__ == "__main__":
    sys.exit(main())
