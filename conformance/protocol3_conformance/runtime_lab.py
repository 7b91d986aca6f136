"""What a scenario of the runtime role works with: packages, program processes, and code that runs inside one."""

from __future__ import annotations

import shutil
import tempfile
import textwrap
import time
from collections.abc import AsyncIterator, Iterable, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from protocol3_conformance import publication
from protocol3_conformance.bounds import bound
from protocol3_conformance.roles.program import Program, Reply, accepted, activation
from protocol3_conformance.target import Target
from protocol3_conformance.wire.frame_transcript import FrameTranscript
from protocol3_conformance.wire.frames import Frame, Judge
from protocol3_conformance.wire.pipes import Process
from protocol3_conformance.wire.strict_json import JsonValue, same

LIMIT = bound("FRAME_BYTES")


@contextmanager
def _case(name: str) -> Iterator[None]:
    try:
        yield
    except AssertionError as failure:
        failure.add_note(f"in the case: {name}")
        raise


def fresh_folder() -> Path:
    """A temporary folder by its canonical path."""
    return Path(tempfile.mkdtemp(prefix="conformance-")).resolve()


@dataclass(slots=True, kw_only=True)
class RuntimeLab:
    """One scenario's view of the runtime under test. Every process and folder is its own and ends with it."""

    target: Target
    check_id: str
    folder: Path
    transcript: FrameTranscript
    began: float = field(default_factory=time.monotonic)
    _started: list[Program] = field(default_factory=list)
    _warm: dict[int, Program] = field(default_factory=dict)

    @classmethod
    @asynccontextmanager
    async def open(cls, target: Target, check_id: str) -> AsyncIterator[RuntimeLab]:
        folder = fresh_folder()
        lab = cls(target=target, check_id=check_id, folder=folder, transcript=FrameTranscript())
        try:
            yield lab
        finally:
            for program in lab._started:
                program.process.kill()
            shutil.rmtree(folder, ignore_errors=True)

    @staticmethod
    def case(name: str) -> Any:
        """Name the case of a table in the failure message."""
        return _case(name)

    @property
    def python_version(self) -> str:
        """`major.minor` of the interpreter under test."""
        assert self.target.runtime is not None
        return self.target.runtime.python_version

    def package(self, source: str | None = None, contents: Mapping[str, str] | None = None) -> Path:
        """Write a package: the text of `program.py`, and other files by their path."""
        root = self.folder / f"package-{len(list(self.folder.iterdir()))}"
        root.mkdir()
        for name, text in {**(contents or {}), **({} if source is None else {"program.py": source})}.items():
            path = root / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(textwrap.dedent(text), encoding="utf-8")
        return root

    def start(
        self,
        package: Path | str | None = None,
        *,
        contents: Mapping[str, str] | None = None,
        protocol: int = 3,
        limit: int = LIMIT,
        handler: str = "program:handle",
        directory: Path | None = None,
        arguments: Mapping[str, str | None] | None = None,
        extra: str = "",
        omitted: str = "",
    ) -> Program:
        """A new process, not yet heard. `package` is a folder or the text of `program.py`.

        `arguments` replaces some of the command line, named with `_`; None leaves one out. The words of `extra` are
        appended, the word `omitted` is taken out of the command.
        """
        root = package if isinstance(package, Path) else self.package(package, contents)
        usual: dict[str, str | None] = {
            "package_root": str(root),
            "handler": handler,
            "python_version": self.python_version,
            "max_input_bytes": str(limit),
            "max_output_bytes": str(limit),
            "protocol_version": None if protocol == 1 else str(protocol),
        }
        runtime = self.target.runtime
        assert runtime is not None
        process = Process(
            [word for word in runtime.line(usual | dict(arguments or {}), extra) if word != omitted or not omitted],
            stderr=self.folder / f"stderr-{len(self._started)}",
            directory=directory or self.folder,
            seconds=self.target.patience.progress,
        )
        judge = Judge(protocol=protocol, pid=process.pid, python_version=self.python_version)
        program = Program(
            process=process, protocol=protocol, judge=judge, limit=limit, transcript=self.transcript, began=self.began
        )
        self._started.append(program)
        return program

    async def task_program(self, protocol: int = 3) -> Program:
        """A warm process that runs the code that is sent; a new one when the last has ended."""
        program = self._warm.get(protocol)
        if program is None or not program.process.usable:
            program = self.start(publication.laboratory(), protocol=protocol)
            self._warm[protocol] = await program.ready()
        return program

    @property
    def requests(self) -> list[Frame]:
        """The requests of the last activation."""
        return self._warm[3].requests

    def keys(self) -> list[str]:
        """The keys of its requests in order."""
        return [request["payload"]["key"] for request in self.requests]

    async def task(self, code: str, data: JsonValue = None, *, protocol: int = 3, **changes: Any) -> Frame:
        """Run the body of an ordinary task `(event, data)`; its result frame."""
        return await (await self.task_program(protocol)).invoke({"code": code, "data": data}, **changes)

    async def output(self, code: str, data: JsonValue = None, **changes: Any) -> JsonValue:
        """The output of an ordinary task that must succeed."""
        result = await self.task(code, data, **changes)
        assert result["status"] == "success", f"the task failed: {result.get('error')}"
        return result["output"]

    async def failure(self, code: str, kind: str, **changes: Any) -> str:
        """The message of an ordinary task that must fail as this kind."""
        result = await self.task(code, **changes)
        found = result.get("error", {}).get("kind", result["status"])
        assert found == kind, f"expected {kind}, came {found}"
        return str(result["error"]["message"])

    async def workflow(
        self, code: str, *, reply: Reply = accepted, invoke: Frame | None = None, **payload: Any
    ) -> Frame:
        """Run the body of an async controller `(event, ctx)` in an activation; its result frame."""
        program = await self.task_program()
        return await program.invoke({"code": code}, payload=activation(**payload), reply=reply, **(invoke or {}))

    async def decision(self, code: str, **settings: Any) -> Frame:
        """The decision that the code returned."""
        result = await self.workflow(code, **settings)
        assert result["status"] == "success", f"the activation failed: {result.get('error')}"
        decision: Frame = result["output"]
        return decision

    async def completed(self, code: str, **settings: Any) -> JsonValue:
        """The output of the `complete` that the code returned."""
        decision = await self.decision(code, **settings)
        assert decision["kind"] == "complete", f"the decision is {decision['kind']}"
        return decision["output"]

    async def holds(self, code: str, expected: JsonValue, **settings: Any) -> None:
        """The code completes with exactly this value; 1, 1.0 and true differ."""
        found = await self.completed(code, **settings)
        assert same(found, expected), f"expected {expected!r}, came {found!r}"

    async def refused(self, code: str, **settings: Any) -> str:
        """The message of an activation that must end as `runtime_error`."""
        result = await self.workflow(code, **settings)
        assert result["status"] == "runtime_error", f"expected runtime_error, came {result['status']}"
        return str(result["error"]["message"])

    async def raising(self, expressions: Iterable[str], *, before: str = "", **settings: Any) -> None:
        """Every expression raises WorkflowError. `before` is code that runs first."""
        await self._judged(expressions, before, refused=True, settings=settings)

    async def passing(self, expressions: Iterable[str], *, before: str = "", **settings: Any) -> None:
        """No expression raises WorkflowError."""
        await self._judged(expressions, before, refused=False, settings=settings)

    async def _judged(self, expressions: Iterable[str], before: str, *, refused: bool, settings: Frame) -> None:
        rows = [
            f"    if refused(lambda: {expression}) is not {refused}:\n        wrong.append({expression!r})"
            for expression in expressions
        ]
        body = textwrap.dedent(before) + "\nwrong = []\nif True:\n" + "\n".join(rows)
        found = await self.decision(f"{body}\nreturn ctx.fail('k', repr(wrong)[:2000])", **settings)
        word = "do not raise WorkflowError" if refused else "raise WorkflowError"
        assert found["error"]["message"] == "[]", f"these {word}: {found['error']['message']}"
