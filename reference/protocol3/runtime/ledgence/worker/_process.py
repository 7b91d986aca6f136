"""Life of a program process: start-up, invocations, shutdown (RUN-009 … RUN-020, RUN-110 … RUN-112)."""

from __future__ import annotations

import os
import sys
from importlib import import_module

from . import _arguments, _invocation, _loader, _results
from ._frames import FrameReader, FrameWriter, ProtocolViolation, compact
from ._limits import MIN_FRAME_BYTES
from ._registrations import REGISTRATIONS

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from ._invocation import Invocation
    from ._results import Results

EXIT_FAILED = 70

# Loaded when a program first needs them, or at once if the package has a module that they would find instead of theirs.
_LAZY_MODULES = ("ledgence.worker._identity", "ledgence.worker._logging", "hashlib")
_LAZY_MODULES_OF_WORKFLOWS = ("ledgence.worker.workflow", "ledgence.worker._exchange")


class _CannotStart(Exception):
    """This interpreter, package or limit cannot serve the host."""


def run(words: list[str]) -> int:
    """Serve the host on the standard pipes; returns the exit code (RUN-019).

    `SystemExit` of application code passes through (RUN-020).
    """
    arguments = _arguments.parse(words)
    try:
        reader_end, writer_end = _take_pipes()
        _check(arguments)
        child = _Child(arguments, FrameReader(reader_end, arguments.max_input_bytes), FrameWriter(writer_end))
        child.start()
        return child.serve()
    except (ProtocolViolation, _CannotStart, _loader.HandlerRefused) as problem:
        sys.stderr.write(f"ledgence.worker: {problem}\n")
    except Exception as error:  # noqa: BLE001 - the last line of defence of the process
        _results.report(error)
    return EXIT_FAILED


def _take_pipes() -> tuple[int, int]:
    """Keep private duplicates of descriptors 0 and 1: no application read or write can touch a frame (RUN-013)."""
    reader_end, writer_end = os.dup(0), os.dup(1)
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.close(nothing)
    os.dup2(2, 1)
    sys.stdout = sys.stderr
    for end in (reader_end, writer_end):
        os.set_blocking(end, True)
    return reader_end, writer_end


def _check(arguments: _arguments.Arguments) -> None:
    """RUN-015, RUN-016, RUN-017."""
    if min(arguments.max_input_bytes, arguments.max_output_bytes) < MIN_FRAME_BYTES:
        raise _CannotStart(f"a frame limit is below {MIN_FRAME_BYTES} bytes")
    if sys.implementation.name != "cpython" or sys.version_info < (3, 11):
        raise _CannotStart("this helper needs CPython 3.11 or newer")
    if arguments.python_version != _python_version():
        raise _CannotStart(f"this is Python {_python_version()}, not {arguments.python_version}")
    if not os.path.isdir(arguments.package_root):
        raise _CannotStart("the package root is not a directory")


def _python_version() -> str:
    return f"{sys.version_info.major}.{sys.version_info.minor}"


class _Child:
    __slots__ = ("_arguments", "_handler", "_protocol", "_reader", "_run", "_writer")

    def __init__(self, arguments: _arguments.Arguments, reader: FrameReader, writer: FrameWriter) -> None:
        self._arguments = arguments
        self._protocol = arguments.protocol
        self._reader = reader
        self._writer = writer
        self._handler: Callable[..., Any]
        self._run: Callable[[Callable[..., Any], Invocation, Results], bytes]

    def start(self) -> None:
        """Load the handler and say `ready` (RUN-009, RUN-011, RUN-031).

        From then on the package imports what it likes of itself and of the standard library (RUN-047).
        """
        if self._protocol >= 3:
            from ._interactive import Runner

            self._run = Runner(self._reader, self._writer, self._arguments.max_output_bytes).run
        else:
            from . import _tasks

            self._run = _tasks.run
        if self._protocol >= 2:
            from ._log_sink import LogSink

            REGISTRATIONS.log_sink = LogSink(self._writer, self._protocol, self._arguments.max_output_bytes)
        root = os.path.realpath(self._arguments.package_root)
        _load_shadowed_modules(root, workflows=self._protocol >= 3)
        sys.path.insert(0, root)
        self._handler = _loader.load(self._arguments.handler, root, allow_coroutine=self._protocol >= 3)
        self._send({"v": self._protocol, "type": "ready", "pid": os.getpid(), "python_version": _python_version()})
        if REGISTRATIONS.log_sink is not None:
            REGISTRATIONS.log_sink.open()

    def serve(self) -> int:
        """Take invocations until the host says shutdown or closes the pipe (RUN-025)."""
        while (line := self._reader.read()) is not None:
            invocation = _invocation.read(line, self._protocol)
            if invocation is None:
                self._shut_down()
                break
            results = _results.Results(self._protocol, invocation, self._arguments.max_output_bytes)
            self._writer.write(self._run(self._handler, invocation, results))
        return 0

    def _shut_down(self) -> None:
        """RUN-110, RUN-111."""
        if self._protocol >= 2:
            for callback in list(REGISTRATIONS.shutdown_callbacks):
                try:
                    callback()
                except Exception as error:  # noqa: BLE001 - RUN-112
                    _results.report(error)
        self._send({"v": self._protocol, "type": "closing"}, last=True)
        while self._reader.read() is not None:
            pass

    def _send(self, frame: dict[str, object], *, last: bool = False) -> None:
        self._writer.write(compact(frame) + b"\n", last=last)


def _load_shadowed_modules(root: str, *, workflows: bool) -> None:
    """A `token.py` in the package must not break `logging`, whichever way application code comes to load it."""
    names = {name.partition(".")[0] for name in os.listdir(root)}
    if names & sys.stdlib_module_names:
        for name in _LAZY_MODULES + (_LAZY_MODULES_OF_WORKFLOWS if workflows else ()):
            import_module(name)
