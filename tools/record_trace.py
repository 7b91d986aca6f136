"""Record exchanges with a real coordinator: the transcripts of `fixtures/transcripts`.

    python tools/record_trace.py [--record [NAME ...] | --check]

`--record` makes the named transcripts anew, all by default. `mixed-workflow` is every exchange of one run with a real
worker: a proxy before the coordinator notes what passes, and one consumer keeps the order the same in every run. The
others are the stories of `transcripts/stories.py`, told by scripted senders with test controls. Ids get numbers, and
instants are moved to one beginning; measured durations stay as they were. The trace in `spec/42-stories.md` is written
from the first; the diagrams there are held against the others. `--check` writes nothing. Each way it fails if a message
breaks its schema or a story differs from its diagram, `--check` also if the trace in the chapter shows something else.
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
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, cast

from system import System, SystemFailure, temporary_folder
from transcripts import diagrams
from transcripts.form import Exchange, asked, folded, invalid, normalized, schemas_of
from transcripts.scripted import PROGRAM as SCRIPTED
from transcripts.stories import STORIES, played

ROOT = Path(__file__).resolve().parent.parent
TRANSCRIPTS = ROOT / "fixtures" / "transcripts"
MIXED = "mixed-workflow"
CHAPTER = ROOT / "spec" / "42-stories.md"
TRACE = re.compile(r"(?<=<!-- trace: written by tools/record_trace.py -->\n).*?(?=<!-- end of trace -->)", re.DOTALL)

PROGRAM = {"id": MIXED, "version": "1.0.1"}
DATA = {"values": [1, 2, 3], "queue": "workflows"}
CLIENT_PATHS = frozenset({"/v1/workflows", "/v1/workflows/status", "/v1/workflows/result"})
FINISH_SECONDS, RUNS = 60, 20

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


class Recorder(ThreadingHTTPServer):
    """Passes requests on to `target` (host:port) and notes them, with their replies, in the order of their arrival."""

    def __init__(self, target: str) -> None:
        super().__init__(("127.0.0.1", 0), _Passing)
        self.target = target
        self.exchanges: list[Exchange] = []
        self.lock = threading.Lock()

    def arrived(self, method: str, path: str, body: bytes) -> Exchange:
        """A reply of None stays where the sender went away before it came."""
        exchange = asked("client" if path.partition("?")[0] in CLIENT_PATHS else "worker", method, path, body)
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
        system.publish(MIXED)
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


def record_stories(names: list[str]) -> dict[str, list[Exchange]]:
    """Each story in a scope of its own, with test controls."""
    with temporary_folder("stories") as folder, System(folder) as system:
        system.publish(SCRIPTED["id"])
        system.start_coordinator("--test-controls")
        return {name: normalized(played(name, system.url.removeprefix("http://"))) for name in names}


def recorded(names: list[str]) -> dict[str, list[Exchange]]:
    found = record_stories(stories) if (stories := [name for name in names if name in STORIES]) else {}
    if MIXED in names:
        runs = (record() for _ in range(RUNS))
        found[MIXED] = normalized(next(run for run in runs if branches(run)[1] == "double"))
    return found


def stored(name: str) -> list[Exchange]:
    exchanges: list[Exchange] = json.loads(_file(name).read_text(encoding="utf-8"))["exchanges"]
    return exchanges


def _file(name: str) -> Path:
    return TRANSCRIPTS / f"{name}.json"


def write(name: str, exchanges: list[Exchange]) -> None:
    program = PROGRAM if name == MIXED else SCRIPTED
    whole = {"program": f"{program['id']} {program['version']}", "exchanges": exchanges}
    _file(name).write_text(folded(whole) + "\n", "utf-8")


def complaints(transcripts: dict[str, list[Exchange]], chapter: str) -> list[str]:
    """Messages that break their schema, exchanges without an explanation, stories that differ from their diagram."""
    found = [f"{name}: {fault}" for name, exchanges in transcripts.items() for fault in invalid(exchanges)]
    if len(transcripts[MIXED]) != len(ABOUT):
        found.append(f"{MIXED}: {len(transcripts[MIXED])} exchanges, {len(ABOUT)} explanations")
    shown = list(diagrams.linked(chapter))
    if [name for name, _ in shown] != list(STORIES):
        return [*found, f"{CHAPTER.name}: its diagrams link {[name for name, _ in shown]}, not {list(STORIES)}"]
    for name, diagram in shown:
        found += [f"{name}: {fault}" for fault in diagrams.differences(diagram, transcripts[name or ""])]
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


def main() -> int:
    names = [MIXED, *STORIES]
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    what = parser.add_mutually_exclusive_group()
    what.add_argument("--record", nargs="*", metavar="NAME", help=f"record anew first: {', '.join(names)}")
    what.add_argument("--check", action="store_true", help="write nothing")
    arguments = parser.parse_args()
    fresh = [] if arguments.record is None else arguments.record or names
    if unknown := set(fresh) - set(names):
        parser.error(f"no such transcript: {', '.join(sorted(unknown))}")
    made = recorded(fresh)
    transcripts = {name: made.get(name) or stored(name) for name in names}
    chapter = CHAPTER.read_text(encoding="utf-8")
    told = complaints(transcripts, chapter)
    if not told:
        shown = TRACE.sub(lambda _: rendered(transcripts[MIXED]), chapter)
        if arguments.check:
            told = [] if shown == chapter else [f"{CHAPTER.name} shows something else: run tools/record_trace.py"]
        else:
            for name, exchanges in transcripts.items():
                write(name, exchanges)
            CHAPTER.write_text(shown, "utf-8")
    count = sum(map(len, transcripts.values()))
    done = f"{count} exchanges in {len(names)} transcripts, each valid by its schema and in the order of its diagram\n"
    sys.stdout.write("".join(f"{one}\n" for one in told) or done)
    return 1 if told else 0


if __name__ == "__main__":
    raise SystemExit(main())
