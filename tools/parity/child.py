"""One program process, spoken to as a host would. What it writes is recorded line by line."""

from __future__ import annotations

import json
import os
import re
import select
import signal
import subprocess
import sys
import time
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from parity.case import FRAME_LIMIT, Case, Frame, Step, compact, encoded

PATIENCE_SECONDS = 20.0
MARK = re.compile(rb"<<[^<>]*>>")  # what handlers print to be found again


@dataclass
class Conversation:
    """Lines of the child, with the end of the process ("exit 70", "signal 9", "silent"; None while it lives).

    `marks` are the texts in << >> and the word Traceback found on stderr, in order; `pid` is the child's.
    """

    lines: list[str] = field(default_factory=list)
    end: str | None = None
    marks: list[str] = field(default_factory=list)
    pid: int = 0


class Child:
    """A process and the host's ends of its pipes."""

    def __init__(self, bootstrap: Path, package: Path, case: Case, stderr: Path) -> None:
        self._received = b""
        self._stderr = stderr
        self._read = 0
        with stderr.open("wb") as sink:
            self._process = subprocess.Popen(
                _command(bootstrap, package, case),
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=sink,
                bufsize=0,
                cwd=stderr.parent,
                env={"PATH": os.environ.get("PATH", os.defpath), "LC_ALL": "C.UTF-8"},
                start_new_session=True,
            )

    def start(self, heard: Conversation) -> None:
        """Wait for the first frame."""
        heard.pid = self._process.pid
        self._listen(heard, ())

    def run(self, steps: tuple[Step, ...], heard: Conversation) -> None:
        """Send each line and hear the child out, until it ends."""
        heard.pid = self._process.pid
        for step in steps:
            if heard.end is None:
                self._send(encoded(step))
                if step.close:
                    self._close()
                self._listen(heard, step.answers)
                while step.until_log is not None and heard.end is None and not _logged(heard, step.until_log):
                    self._line_heard(heard)
        heard.marks += self._marks()

    def finish(self, heard: Conversation) -> None:
        """Close stdin and hear the child out to its end."""
        self._close()
        while heard.end is None:
            self._listen(heard, ())
        heard.marks += self._marks()

    def kill(self) -> None:
        with suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()
        self._close()
        if self._process.stdout is not None:
            self._process.stdout.close()

    def _listen(self, heard: Conversation, answers: tuple[Frame, ...]) -> None:
        """Up to the next `ready`, `result`, `closing`, or the end; requests on the way are answered."""
        left = list(answers)
        while heard.end is None:
            frame = self._line_heard(heard)
            if heard.end is not None:
                return
            if frame.get("type") == "runtime_request":
                self._answer(frame, left.pop(0) if left else {})
            elif frame.get("type") != "log":
                return

    def _line_heard(self, heard: Conversation) -> Frame:
        """Record one line more, or the end."""
        line = self._line()
        if not line:
            heard.end = self._end() if line == b"" else "silent"
            return {}
        heard.lines.append(line.decode("utf-8", "backslashreplace"))
        return _frame(line)

    def _answer(self, request: Frame, answer: Frame) -> None:
        if answer.get("eof"):
            self._close()
        elif "raw" in answer:
            self._send(answer["raw"].encode("utf-8", "surrogateescape"))
        else:
            self._send(compact(reply_to(request, answer)))

    def _line(self) -> bytes | None:
        """The next line with its end, b"" at the end of the stream, None when the child stays silent."""
        assert self._process.stdout is not None
        deadline = time.monotonic() + PATIENCE_SECONDS
        while b"\n" not in self._received:
            left = deadline - time.monotonic()
            if left <= 0 or not select.select([self._process.stdout], [], [], left)[0]:
                return None
            chunk = os.read(self._process.stdout.fileno(), 1 << 20)
            if not chunk:
                line, self._received = self._received, b""
                return line
            self._received += chunk
        line, _, self._received = self._received.partition(b"\n")
        return line + b"\n"

    def _send(self, line: bytes) -> None:
        assert self._process.stdin is not None
        rest = memoryview(line)
        with suppress(BrokenPipeError, ValueError):  # it ended, or stdin was closed: the stream says what came of it
            while rest:
                rest = rest[self._process.stdin.write(rest) or 0 :]

    def _close(self) -> None:
        assert self._process.stdin is not None
        with suppress(BrokenPipeError):
            self._process.stdin.close()

    def _end(self) -> str:
        try:
            code = self._process.wait(PATIENCE_SECONDS)
        except subprocess.TimeoutExpired:
            return "silent"
        return f"exit {code}" if code >= 0 else f"signal {-code}"

    def _marks(self) -> list[str]:
        text = self._stderr.read_bytes()
        fresh, self._read = text[self._read :], len(text)
        return [mark.decode("utf-8", "backslashreplace") for mark in MARK.findall(fresh)]


def reply_to(request: Frame, answer: Frame) -> Frame:
    """The reply that accepts a request (RUN-079, RUN-080), with the answer's changes."""
    result: Any = {"committed": True}
    if request["operation"] == "workflow.fork":
        payload = request["payload"]
        result |= {"key": payload["key"], "branch_keys": [branch["key"] for branch in payload["branches"]]}
    reply = {name: request[name] for name in ("v", "event_id", "attempt_id", "id")}
    reply |= {"type": "runtime_reply", "result": answer.get("result", result)} | answer.get("change", {})
    return {name: value for name, value in reply.items() if name not in answer.get("drop", ())}


def _logged(heard: Conversation, message: str) -> bool:
    frames = (_frame(line.encode()) for line in reversed(heard.lines))
    return any(frame.get("type") == "log" and frame.get("message") == message for frame in frames)


def _frame(line: bytes) -> Frame:
    try:
        frame = json.loads(line)
    except ValueError:
        return {}
    return frame if isinstance(frame, dict) else {}


def _command(bootstrap: Path, package: Path, case: Case) -> list[str]:
    arguments: dict[str, str | None] = {
        "--package-root": str(package),
        "--handler": "program:handle",
        "--python-version": f"{sys.version_info.major}.{sys.version_info.minor}",
        "--max-input-bytes": str(FRAME_LIMIT),
        "--max-output-bytes": str(FRAME_LIMIT),
        "--protocol-version": None if case.protocol == 1 else str(case.protocol),
    }
    command = [sys.executable, "-I", "-S", "-B", str(bootstrap)]
    for name, value in (arguments | case.arguments).items():
        command += [] if value is None else [name, value]
    return command
