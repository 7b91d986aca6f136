"""What the installed runtime helper makes of every vector of a frame that a host sends: python judged_frames.py.

Prints one JSON object on stdout: whether the helper accepts each. Each gets a process of its own. Frames are lines, so
texts of several lines are left out; so are replies to another request than the one that is asked here.
"""

from __future__ import annotations

import json
import subprocess
import sys
import sysconfig
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

MESSAGES = Path(__file__).parents[2] / "fixtures/vectors/messages"
PROGRAM = """
def handle(event):
    if "ldgworkflowid" not in event:
        return None
    from ledgence.worker.workflow import workflow_context

    return workflow_context().complete(None)


async def step(event):
    from ledgence.worker.workflow import workflow_context

    ctx = workflow_context()
    return ctx.complete(await ctx.local("step", work))


def work():
    return 1
"""


def bootstrap() -> Path:
    found = Path(sysconfig.get_paths()["purelib"]) / "ledgence/worker/bootstrap.py"
    return Path(sys.argv[1]) if len(sys.argv) > 1 else found


def loosely(text: str) -> dict[str, Any]:
    """The members of the frame as far as any reader would read them."""
    try:
        frame = json.loads(text)
    except ValueError:
        return {}
    return frame if isinstance(frame, dict) else {}


def written(folder: str, lines: list[str], *, handler: str, protocol: int) -> list[dict[str, Any]]:
    """The frames of a process that is handed the lines and then the end of its input."""
    command = [sys.executable, "-I", "-S", "-B", str(bootstrap()), "--package-root", folder]
    command += ["--handler", f"program:{handler}", "--python-version", f"3.{sys.version_info.minor}"]
    command += ["--max-input-bytes", "2097152", "--max-output-bytes", "2097152"]
    command += ["--protocol-version", str(protocol)] if protocol > 1 else []
    given = "".join(f"{line}\n" for line in lines)
    done = subprocess.run(command, input=given.encode(), capture_output=True, check=False, timeout=60)
    return [json.loads(line) for line in done.stdout.splitlines()]


def protocol_of(frame: dict[str, Any]) -> int:
    version = frame.get("v")
    return version if type(version) is int and version in (1, 2, 3) else 3


def invoke(folder: str, text: str) -> bool:
    """Accepted: the handler was called, and what it returned came back."""
    frames = written(folder, [text], handler="handle", protocol=protocol_of(loosely(text)))
    return any(frame["type"] == "result" and frame["status"] == "success" for frame in frames)


def shutdown(folder: str, text: str) -> bool:
    frames = written(folder, [text], handler="handle", protocol=protocol_of(loosely(text)))
    return frames[-1]["type"] == "closing"


def reply(folder: str, text: str) -> bool | None:
    """The reply to the one request of a running activation. None: it would answer another one."""
    said = loosely(text)
    number, result = said.get("id"), said.get("result")
    of_fork = isinstance(result, dict) and bool(result.keys() & {"key", "branch_keys"})
    if of_fork or (type(number) is int and number > 1):
        return None
    start = next(frame for frame in examples() if "extension" in frame)
    start["extension"]["payload"]["local_steps"] = []
    for name, attribute, usual in (("event_id", "id", "evt_5"), ("attempt_id", "ldgattemptid", "att_9")):
        value = said.get(name)
        start[name] = start["event"][attribute] = value if isinstance(value, str) and value else usual
    frames = written(folder, [json.dumps(start), text], handler="step", protocol=3)
    return any(frame["type"] == "result" and frame["status"] == "success" for frame in frames)


def examples() -> list[dict[str, Any]]:
    file = json.loads((MESSAGES / "frame-invoke.json").read_text(encoding="utf-8"))
    return [json.loads(vector["text"]) for vector in file["valid"] if vector["id"].startswith("example")]


JUDGES = {"frame-invoke": invoke, "frame-shutdown": shutdown, "frame-runtime-reply": reply}


def main() -> None:
    with tempfile.TemporaryDirectory() as folder, ThreadPoolExecutor(2) as pool:
        (Path(folder) / "program.py").write_text(PROGRAM, encoding="utf-8")
        asked = {}
        for schema, judge in JUDGES.items():
            file = json.loads((MESSAGES / f"{schema}.json").read_text(encoding="utf-8"))
            for vector in [*file["valid"], *file["invalid"]]:
                if "\n" not in vector["text"]:
                    asked[f"{schema} {vector['id']}"] = pool.submit(judge, folder, vector["text"])
        verdicts = {name: future.result() for name, future in asked.items()}
    json.dump({name: verdict for name, verdict in verdicts.items() if verdict is not None}, sys.stdout)


if __name__ == "__main__":
    main()
