"""Record every exchange of the mixed workflow with a real coordinator and a real worker.

    python tools/record_trace.py [--record | --check]

`--record` makes `fixtures/transcripts/mixed-workflow.json` anew. A proxy before the coordinator notes what passes; a
worker with one consumer keeps the order the same in every run. Then ids get numbers, and instants are moved to one
beginning; measured durations stay as they were. The trace in `spec/42-stories.md` is written from that file; `--check`
writes nothing. Each way it fails if a message breaks its schema, `--check` also if the chapter shows something else.
"""

from __future__ import annotations

import argparse
import http.client
import json
import re
import select
import socket
import sys
import threading
import time
import urllib.parse
from datetime import UTC, datetime, timedelta
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, cast

from protocol3_spec import routes
from protocol3_spec.validation import problems
from system import System, SystemFailure, temporary_folder

ROOT = Path(__file__).resolve().parent.parent
TRANSCRIPT = ROOT / "fixtures" / "transcripts" / "mixed-workflow.json"
CHAPTER = ROOT / "spec" / "42-stories.md"
TRACE = re.compile(r"(?<=<!-- trace: written by tools/record_trace.py -->\n).*?(?=<!-- end of trace -->)", re.DOTALL)

PROGRAM = {"id": "mixed-workflow", "version": "1.0.1"}
DATA = {"values": [1, 2, 3], "queue": "workflows"}
CLIENT_PATHS = frozenset({"/v1/workflows", "/v1/workflows/status", "/v1/workflows/result"})
FINISH_SECONDS, RUNS = 60, 20
WIDTH = 118

#: What every transcript has in place of the moment, the process and the platform of its recording.
START_MS, PID, DIGEST, SIZE = 1_772_366_400_000, 4711, "sha256:" + "ab" * 32, 1927
IDS = re.compile(r"\b(att|evt|lease|run|task|wf|ws)_[0-9a-f]{32}\b")
LATEST_MS = 253_402_300_799_999

#: What happens in each exchange, in their order.
ABOUT = (
    "The client submits the workflow. Its first activation, `task_1`, is queued with it.",
    "The worker opens a session for one consumer.",
    "It asks for work and gets the first activation, with a lease but without permission to begin.",
    "It renews with intent `dispatch`: now the handler may run.",
    "It reads the context of the activation: nothing saved yet, nothing recorded.",
    "The handler forks two branches. Both are workflows of their own from here on.",
    "The local function has run. Its result is recorded before the handler sees it.",
    "The handler returned a decision: suspend until both branches have ended. The worker settles the attempt with it.",
    "The next assignment is the first branch, `double`.",
    "Permission for it.",
    "Its context: the continuation is the entrypoint of the branch.",
    "It sleeps for 100 ms under the key `ready:0`. Nothing of it runs while it sleeps.",
    "The next assignment is the other branch, `triple`.",
    "Permission for it.",
    "Its context.",
    "It completes with 18. The parent still waits for the other branch.",
    "The timer fired: the second activation of `double`.",
    "Permission for it.",
    "Its context: revision 1, the saved state 6, and the wake that chose it.",
    "It completes with 12. With that both branches have ended, and the parent goes on.",
    "The second activation of the parent.",
    "Permission for it.",
    "Its context: the saved state and both outcomes.",
    "It completes with the three results together.",
    "The worker asks for more. It is stopped while it waits, and goes away from this exchange.",
    "The client reads the snapshot: succeeded, at revision 2.",
    "The client reads the result.",
    "The stopping worker asks again with the same sequence and without waiting, to learn whether it owns anything.",
)

Exchange = dict[str, Any]


class Recorder(ThreadingHTTPServer):
    """Passes requests on to `target` (host:port) and notes them, with their replies, in the order of their arrival."""

    def __init__(self, target: str) -> None:
        super().__init__(("127.0.0.1", 0), _Passing)
        self.target = target
        self.exchanges: list[Exchange] = []
        self.lock = threading.Lock()

    def arrived(self, method: str, path: str, body: bytes) -> Exchange:
        """A reply of None stays where the sender went away before it came."""
        route, _, query = path.partition("?")
        sender = "client" if route in CLIENT_PATHS else "worker"
        asked: Exchange = {"query": dict(urllib.parse.parse_qsl(query))} if query else {"request": json.loads(body)}
        exchange = {"from": sender, "method": method, "path": route} | asked | {"status": None, "reply": None}
        with self.lock:
            self.exchanges.append(exchange)
        return exchange


class _Passing(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_POST(self) -> None:
        self._pass_on()

    def do_GET(self) -> None:
        self._pass_on()

    def _pass_on(self) -> None:
        recorder = cast(Recorder, self.server)
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        exchange = recorder.arrived(self.command, self.path, body)
        upstream = http.client.HTTPConnection(recorder.target, timeout=40)
        upstream.request(self.command, self.path, body or None, {"Content-Type": "application/json"} if body else {})
        reply = upstream.getresponse()
        told = reply.read()
        upstream.close()
        if self._left():
            self.close_connection = True
            return
        exchange |= {"status": reply.status, "reply": json.loads(told)}
        self.send_response(reply.status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(told)))
        self.end_headers()
        self.wfile.write(told)

    def _left(self) -> bool:
        """Whether the sender has closed its side: it would not read a reply."""
        readable, _, _ = select.select([self.connection], [], [], 0)
        return bool(readable) and self.connection.recv(1, socket.MSG_PEEK) == b""

    def log_message(self, format: str, *args: Any) -> None:
        """Nothing: the transcript is the log."""


def record() -> list[Exchange]:
    """One run: the worker connects after the submission, and stops when the result has been read."""
    with temporary_folder("trace") as folder, System(folder) as system:
        system.publish("mixed-workflow")
        system.start_coordinator()
        recorder = Recorder(system.url.removeprefix("http://"))
        threading.Thread(target=recorder.serve_forever, daemon=True).start()
        system.urls["recorder"] = f"http://127.0.0.1:{recorder.server_port}"
        scope = {"tenant_id": system.tenant, "namespace": system.namespace}
        submitted = scope | {"queue": system.queue, "program": PROGRAM, "data": DATA}
        command = {"idempotency_key": "numbers-1", "input": submitted}
        workflow = system.post("/v1/workflows", command, at="recorder")["workflow_id"]
        system.start_worker(at="recorder", concurrency=1)
        _until_terminal(system, workflow)
        system.get("/v1/workflows/status", workflow_id=workflow, at="recorder")
        system.get("/v1/workflows/result", workflow_id=workflow, at="recorder")
        system.stop("worker")
        recorder.shutdown()
        return recorder.exchanges


def _until_terminal(system: System, workflow: str) -> None:
    """Looks behind the recorder's back: how often it looks is no part of the story."""
    deadline = time.monotonic() + FINISH_SECONDS
    while system.get("/v1/workflows/status", workflow_id=workflow)["state"] not in ("succeeded", "failed", "cancelled"):
        if time.monotonic() > deadline:
            raise SystemFailure(f"workflow not over after {FINISH_SECONDS} s")
        time.sleep(0.05)


def branches(exchanges: list[Exchange]) -> list[str]:
    """Continuations in the order in which activations began. Two branches due at one instant go in either order."""
    return [one["reply"]["continuation"] for one in exchanges if one["path"].endswith("/activations/context")]


def normalized(exchanges: list[Exchange]) -> list[Exchange]:
    """The same for every run, but for instants (all later than the first by as much as they were) and durations."""
    numbers: dict[str, int] = {}
    names: dict[str, str] = {}

    def name(found: re.Match[str]) -> str:
        if found[0] not in names:
            numbers[found[1]] = numbers.get(found[1], 0) + 1
            names[found[0]] = f"{found[1]}_{numbers[found[1]]}"
        return names[found[0]]

    text = IDS.sub(name, json.dumps(exchanges))
    first = exchanges[0]["reply"]["submitted_at"]

    def moved(value: Any, member: str = "") -> Any:
        if isinstance(value, dict):
            return {key: moved(one, key) for key, one in value.items()}
        if isinstance(value, list):
            return [moved(one) for one in value]
        match member:
            case "digest":
                return DIGEST
            case "size":
                return SIZE
            case "process_id":
                return PID
            case "time":
                instant = datetime.fromisoformat(value) + timedelta(milliseconds=START_MS - first)
                return instant.astimezone(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
        is_instant = type(value) is int and first <= value <= LATEST_MS
        return value - first + START_MS if is_instant else value

    return cast(list[Exchange], moved(json.loads(text)))


def schemas_of(one: Exchange) -> tuple[str | None, str]:
    """Names of the schemas of request and reply."""
    known = {(route["method"], route["path"]): route for route in routes()}
    route = known[one["method"], one["path"]]
    return route.get("request"), route["reply"]


def complaints(exchanges: list[Exchange]) -> list[str]:
    """Messages that break their schema, and exchanges that nothing is said about."""
    found = [] if len(exchanges) == len(ABOUT) else [f"{len(exchanges)} exchanges, {len(ABOUT)} explanations"]
    for number, one in enumerate(exchanges, 1):
        for schema, told in zip(schemas_of(one), (one.get("request"), one["reply"]), strict=True):
            if schema is not None and told is not None:
                found += [f"{number} {schema}: {problem}" for problem in problems(schema, told)]
    return found


def rendered(exchanges: list[Exchange]) -> str:
    """The trace as it stands in the chapter."""
    blocks = []
    for number, (one, about) in enumerate(zip(exchanges, ABOUT, strict=True), 1):
        query = f"?{urllib.parse.urlencode(one['query'])}" if "query" in one else ""
        request, reply = schemas_of(one)
        block = f"**{number}. {one['from']}: `{one['method']} {one['path']}{query}`**\n\n{about}\n\n"
        block += f"{_shown(request, one['request'])}\n" if request else ""
        block += f"{one['status']}:\n\n{_shown(reply, one['reply'])}" if one["reply"] else "No reply is read.\n"
        blocks.append(block)
    return "\n" + "\n".join(blocks) + "\n"


def _shown(schema: str, message: Any) -> str:
    return f"<!-- schema: {schema} -->\n```json\n{folded(message)}\n```\n"


def folded(value: Any, indent: int = 0, lead: int = 0) -> str:
    """JSON that stays on one line where it fits beside `lead` characters, else one member or item a line."""
    line = json.dumps(value, ensure_ascii=False)
    if len(line) + lead + indent <= WIDTH or not isinstance(value, dict | list) or not value:
        return line
    inside = indent + 2
    if isinstance(value, dict):
        keys = {key: f"{json.dumps(key)}: " for key in value}
        parts = [shown + folded(value[key], inside, len(shown) + 1) for key, shown in keys.items()]
    else:
        parts = [folded(one, inside, 1) for one in value]
    opening, closing = "{}" if isinstance(value, dict) else "[]"
    between = ",\n" + " " * inside
    return f"{opening}\n{' ' * inside}{between.join(parts)}\n{' ' * indent}{closing}"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    what = parser.add_mutually_exclusive_group()
    what.add_argument("--record", action="store_true", help="record anew first")
    what.add_argument("--check", action="store_true", help="write nothing")
    arguments = parser.parse_args()
    if arguments.record:
        exchanges = normalized(next(run for run in (record() for _ in range(RUNS)) if branches(run)[1] == "double"))
    else:
        exchanges = json.loads(TRANSCRIPT.read_text(encoding="utf-8"))["exchanges"]
    chapter = CHAPTER.read_text(encoding="utf-8")
    told = complaints(exchanges)
    if not told:
        shown = TRACE.sub(lambda _: rendered(exchanges), chapter)
        if arguments.check:
            told = [] if shown == chapter else [f"{CHAPTER.name} shows something else: run tools/record_trace.py"]
        else:
            TRANSCRIPT.write_text(folded({"program": "mixed-workflow 1.0.1", "exchanges": exchanges}) + "\n", "utf-8")
            CHAPTER.write_text(shown, "utf-8")
    sys.stdout.write("".join(f"{one}\n" for one in told) or f"{len(exchanges)} exchanges, each valid by its schema\n")
    return 1 if told else 0


if __name__ == "__main__":
    raise SystemExit(main())
