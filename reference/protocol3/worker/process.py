"""One program process: start, frames, idle watch, shutdown, certain end (host side of RUN; WRK-037…042)."""

import asyncio
import contextlib
import os
import signal
import subprocess
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from protocol3.programs.cache import Pin
from protocol3.worker.diagnostics import Diagnostics
from protocol3.worker.failures import ExecutionFailed
from protocol3.worker.frames import Frame, check_ready, decode_frame, is_closing, shutdown_frame, violation
from protocol3.worker.groups import ExitWatch, follow_worker, group_is_gone
from protocol3.worker.logs import ProgramLog, is_log
from protocol3.worker.orphans import Orphans
from protocol3.worker.pipes import FrameWriter, LineReader
from protocol3.worker.settings import ProgramSettings
from protocol3.worker.working_directory import WorkingDirectory

_LOGS_IN_A_ROW: Final = 16
_STDERR_WAIT_S: Final = 0.2
_EXIT_WAIT_S: Final = 0.2
"""Between the end of the frames and that of the process that is ending: only the message depends on it."""
_STDERR_CHUNK: Final = 64 * 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class Launcher:
    """How program processes are started; paths are canonical and absolute."""

    python: str
    bootstrap: Path
    frame_bytes: int
    startup_ms: int
    shutdown_ms: int
    diagnostics: Diagnostics
    orphans: Orphans | None = None

    @classmethod
    def of(cls, settings: ProgramSettings, diagnostics: Diagnostics, orphans: Orphans | None) -> "Launcher":
        """Raises InvalidSetting."""
        return cls(
            python=settings.interpreter(),
            bootstrap=settings.bootstrap_file(),
            frame_bytes=settings.frame_bytes,
            startup_ms=settings.pacing.startup_ms,
            shutdown_ms=settings.pacing.shutdown_ms,
            diagnostics=diagnostics,
            orphans=orphans,
        )

    def command(self, pin: Pin) -> list[str]:
        """RUN-001…003."""
        manifest = pin.manifest
        command = [self.python, "-I", "-S", "-B", str(self.bootstrap)]
        command += ["--package-root", str(pin.content), "--handler", manifest.handler]
        command += ["--python-version", manifest.python]
        command += ["--max-input-bytes", str(self.frame_bytes), "--max-output-bytes", str(self.frame_bytes)]
        if manifest.protocol > 1:
            command += ["--protocol-version", str(manifest.protocol)]
        return command


class ProgramProcess:
    """A process, its pipes and its private working directory. It owns ``pin`` until :meth:`clean_up` is done (RUN-117).

    The directory is new, outside the package, and kept for all invocations (RUN-006). The environment is the worker's
    (RUN-007), the group its own (RUN-008).
    """

    def __init__(self, launcher: Launcher, pin: Pin) -> None:
        """Spawns. Raises ``runtime`` when the interpreter cannot be started; the caller then still owns ``pin``."""
        self.pin = pin
        self.invocations = 0
        self.trouble: ExecutionFailed | None = None
        self._launcher = launcher
        self._killed = False
        try:
            self._directory: WorkingDirectory | None = WorkingDirectory()
        except OSError as error:
            raise ExecutionFailed("io", f"there is no working directory for a program: {error.strerror}") from None
        try:
            self._process = subprocess.Popen(
                launcher.command(pin),
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                cwd=self._directory.path,
                bufsize=0,
                process_group=0,
                preexec_fn=follow_worker(),
            )
        except OSError as error:
            self._directory.remove()
            raise ExecutionFailed("runtime", f"the interpreter cannot be started: {error.strerror}") from None
        if launcher.orphans is not None:
            launcher.orphans.started(self._process.pid)
        stdin, stdout, stderr = self._process.stdin, self._process.stdout, self._process.stderr
        if stdin is None or stdout is None or stderr is None:
            raise RuntimeError("the pipes were asked for")
        self._pipes = (stdin, stdout, stderr)
        self._writer = FrameWriter(stdin.fileno())
        self._reader = LineReader(stdout.fileno(), launcher.frame_bytes)
        self._log = ProgramLog(launcher.diagnostics, pin.manifest.protocol)
        self._stderr_ended = asyncio.Event()
        os.set_blocking(stderr.fileno(), False)
        asyncio.get_running_loop().add_reader(stderr.fileno(), self._drain_stderr, stderr.fileno())
        self._exit = ExitWatch(self._process, self._ended)

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def protocol(self) -> int:
        return self.pin.manifest.protocol

    async def ready(self) -> None:
        """Wait for the ready frame. Raises ``timed_out``, ``runtime`` or ``protocol`` (RUN-031…033)."""
        try:
            async with asyncio.timeout(self._launcher.startup_ms / 1000):
                frame, _ = await self.frame()
        except TimeoutError:
            raise ExecutionFailed(
                "timed_out", f"the program was not ready within {self._launcher.startup_ms} ms"
            ) from None
        check_ready(frame, protocol=self.protocol, pid=self.pid, python=self.pin.manifest.python)

    def begin_invocation(self) -> None:
        """The process leaves the pool: its log allowance is whole again."""
        self.invocations += 1
        self._log.refill()

    async def send(self, frame: bytes) -> None:
        """Raises ``runtime`` when the program has gone."""
        if not await self._writer.write(frame):
            raise ExecutionFailed("runtime", "the program closed its input; its result is not available")

    async def frame(self) -> tuple[Frame, bytes]:
        """The next frame that is no log frame, and its line. Raises ``runtime`` or ``protocol`` (RUN-028, RUN-029)."""
        logs = 0
        while True:
            line = await self._reader.line()
            if line is None:
                raise await self._no_result()
            frame = decode_frame(line)
            if not is_log(frame, self.protocol):
                return frame, line
            self._log.frame(line, frame)
            logs += 1
            if logs % _LOGS_IN_A_ROW == 0:
                await asyncio.sleep(0)  # a stop must get through a flood of log frames (RUN-105)

    async def _no_result(self) -> ExecutionFailed:
        """What to say of the end of the frames: an exit, a signal, or only a closed stream (RUN-029)."""
        how = await self._exit.how(_EXIT_WAIT_S) or "closed its frame stream"
        return ExecutionFailed("runtime", f"the program {how}; its result is not available")

    def watch_idle(self, broken: Callable[[], None]) -> None:
        """Call ``broken`` once when the idle process ends or sends anything but log frames (WRK-037)."""
        self._reader.notify(lambda: self._look_while_idle(broken))
        self._look_while_idle(broken)  # log frames may have come with the result

    def end_idle(self) -> None:
        self._reader.notify(None)

    def _look_while_idle(self, broken: Callable[[], None]) -> None:
        try:
            for line in self._reader.lines_now():
                frame = decode_frame(line)
                if not is_log(frame, self.protocol):
                    raise violation("a frame arrived while the process was idle")
                self._log.frame(line, frame)
        except ExecutionFailed:
            self._reader.notify(None)
            broken()

    async def shut_down(self) -> None:
        """Ask an idle process to close and wait for it, but not for long (WRK-042, RUN-113)."""
        with contextlib.suppress(ExecutionFailed, TimeoutError):
            async with asyncio.timeout(self._launcher.shutdown_ms / 1000):
                await self.send(shutdown_frame(self.protocol))
                frame, _ = await self.frame()
                if not is_closing(frame, self.protocol):
                    raise violation("the answer to shutdown is not closing")

    def kill(self) -> None:
        """KILL the group, exactly once and before the process is reaped (WRK-038, WRK-040).

        The process itself as well: a program can move to another group of its session.
        """
        if not self._killed:
            self._killed = True
            for kill in (os.killpg, os.kill):
                with contextlib.suppress(ProcessLookupError, PermissionError):
                    kill(self._process.pid, signal.SIGKILL)

    def discard(self) -> None:
        """Kill, and remove the working directory without making sure of either."""
        self.kill()
        if self._directory is not None:
            with contextlib.suppress(OSError):
                self._directory.remove()

    async def clean_up(self) -> None:
        """Everything after the kill, in order; can be repeated. Raises ``io`` or ``timed_out`` while something stays.

        Once it returns the group and what left it are gone, the child reaped, the directory removed, the pin released
        (WRK-041).
        """
        self.kill()
        await self._exit.reap()
        await self._close_pipes()
        if not group_is_gone(self._process.pid):
            raise ExecutionFailed("timed_out", "processes of the program's group are still alive")
        if (orphans := self._launcher.orphans) is not None:
            orphans.reaped(self._process.pid)
            if not orphans.end():
                raise ExecutionFailed("timed_out", "processes that the program left behind are still alive")
        if self._directory is not None:
            try:
                await asyncio.to_thread(self._directory.remove)
            except OSError as error:
                raise ExecutionFailed("io", f"the working directory stays: {error.strerror}") from None
            self._directory = None
        self.pin.release()

    def _ended(self) -> None:
        """Children of the process may live and hold its pipes: its own end is the end of the streams (WRK-059)."""
        self._reader.finish()
        self._writer.finish()

    def _drain_stderr(self, descriptor: int) -> None:
        try:
            chunk = os.read(descriptor, _STDERR_CHUNK)
        except BlockingIOError:
            return
        except OSError:
            chunk = b""
        if chunk:
            self._log.stderr(chunk)
        else:
            asyncio.get_running_loop().remove_reader(descriptor)
            self._stderr_ended.set()

    async def _close_pipes(self) -> None:
        if self._pipes[2].closed:
            return
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(_STDERR_WAIT_S):
                await self._stderr_ended.wait()
        self._exit.close()
        self._reader.close()
        asyncio.get_running_loop().remove_reader(self._pipes[2].fileno())
        for pipe in self._pipes:
            pipe.close()
