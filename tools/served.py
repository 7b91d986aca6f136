"""Start, or kill, the coordinator that a conformance run judges across its deaths.

    python tools/served.py start FOLDER WORDS …     the command in the background, until it is ready; FOLDER/pid
    python tools/served.py kill FOLDER              kill -9
    python tools/served.py stop FOLDER              ask it to stop, and wait

`tools/run_conformance.py --restarts` writes the first two into the target file of its run.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path
from urllib.request import urlopen

SECONDS = 30


def start(folder: Path, words: list[str]) -> None:
    """Raises SystemExit with the end of its log when it is not ready in time."""
    with (folder / "log").open("ab") as log:
        running = subprocess.Popen(words, stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True)
    (folder / "pid").write_text(str(running.pid))
    ready = f"http://{words[words.index('--listen') + 1]}/health/ready"
    deadline = time.monotonic() + SECONDS
    while time.monotonic() < deadline and running.poll() is None:
        with suppress(OSError), urlopen(ready, timeout=5):
            return
        time.sleep(0.02)
    raise SystemExit((folder / "log").read_text()[-2000:])


def stop(folder: Path) -> None:
    pid = int((folder / "pid").read_text())
    with suppress(ProcessLookupError):
        os.kill(pid, signal.SIGTERM)
        deadline = time.monotonic() + SECONDS
        while time.monotonic() < deadline:
            os.kill(pid, 0)
            time.sleep(0.02)
        os.kill(pid, signal.SIGKILL)


if __name__ == "__main__":
    action, place, *words = sys.argv[1:]
    folder = Path(place)
    if action == "start":
        start(folder, words)
    elif action == "stop":
        stop(folder)
    else:
        os.kill(int((folder / "pid").read_text()), signal.SIGKILL)
