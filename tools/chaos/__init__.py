"""`./dev chaos`: campaigns against real processes, each with an account in the end.

A campaign is a module with `ABOUT` (one line), `add_options(parser)` and `run(options, folder) -> Report`, listed in
`__main__.py`. `options` has `seed` and `json` besides the module's own.
"""

import sys
from pathlib import Path

# The tables of races and of stages belong to the tests; they are found behind everything that is installed.
sys.path.append(str(Path(__file__).resolve().parents[2] / "reference" / "tests"))
