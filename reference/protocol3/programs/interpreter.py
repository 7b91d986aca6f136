"""Asking a Python interpreter what it is."""

import json
import subprocess
from pathlib import Path
from typing import Final

from protocol3.programs.errors import ProgramError

_PROBE_SECONDS: Final = 5
_PROBE: Final = (
    "import json, platform, sys;print(json.dumps([platform.python_implementation(), '%d.%d' % sys.version_info[:2]]))"
)


def probe_python(python: Path) -> str:
    """The ``major.minor`` of a CPython interpreter, asked from the interpreter itself.

    Raises :class:`ProgramError`: ``incompatible`` if it is none, ``timed_out`` without an answer.
    """
    try:
        answer = subprocess.run(
            [python, "-I", "-S", "-B", "-c", _PROBE], capture_output=True, timeout=_PROBE_SECONDS, check=True
        )
        implementation, version = json.loads(answer.stdout)
    except subprocess.TimeoutExpired:
        raise ProgramError("timed_out", f"{python} did not answer within {_PROBE_SECONDS} s") from None
    except (OSError, subprocess.CalledProcessError, ValueError):
        raise ProgramError("incompatible", f"{python} is not a Python interpreter that can be started") from None
    if implementation != "CPython":
        raise ProgramError("incompatible", f"{python} is {implementation}; packages need CPython")
    return str(version)
