"""A runtime helper under comparison: runs cases in processes of their own, or in shared ones."""

from __future__ import annotations

import tempfile
import textwrap
from pathlib import Path
from types import TracebackType

from parity.case import Case
from parity.child import Child, Conversation

ROOT = Path(__file__).resolve().parents[2]
LABORATORY = ROOT / "reference" / "tests" / "runtime" / "lab"
OURS = ROOT / "reference" / "protocol3" / "runtime" / "ledgence" / "worker" / "bootstrap.py"


class Runtime:
    """The helper of one bootstrap file."""

    def __init__(self, name: str, bootstrap: Path) -> None:
        self.name = name
        self.bootstrap = bootstrap
        self._temporary = tempfile.TemporaryDirectory(prefix="parity-")
        self._folder = Path(self._temporary.name)
        self._started = 0
        self._shared: dict[int, Child] = {}

    def __enter__(self) -> Runtime:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for child in self._shared.values():
            child.kill()
        self._temporary.cleanup()

    def converse(self, case: Case, *, alone: bool = False) -> Conversation:
        """Run the case. `alone` gives a laboratory case a process of its own as well."""
        if alone or not case.shared:
            return self._alone(case)
        heard = Conversation()
        child = self._shared.get(case.protocol)
        if child is None:
            child = self._start(case)
            opening = Conversation()
            child.start(opening)
            if opening.end is not None:
                return opening
            self._shared[case.protocol] = child
        child.run(case.steps, heard)
        if heard.end is not None:
            self._shared.pop(case.protocol).kill()
        return heard

    def _alone(self, case: Case) -> Conversation:
        heard = Conversation()
        child = self._start(case)
        try:
            child.start(heard)
            child.run(case.steps, heard)
            if heard.end is None:
                child.finish(heard)
        finally:
            child.kill()
        return heard

    def _start(self, case: Case) -> Child:
        self._started += 1
        folder = self._folder / str(self._started)
        package = folder / "package" if case.files else LABORATORY
        for name, text in case.files.items():
            path = package / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(textwrap.dedent(text))
        folder.mkdir(exist_ok=True)
        return Child(self.bootstrap, package, case, folder / "stderr")
