"""A copy of the reference with the edits of one mutant; the reference knows nothing of it."""

from __future__ import annotations

import shutil
from importlib.util import cache_from_source
from pathlib import Path

from mutants.entries import ROOT, Mutant, patched


def copy(mutant: Mutant, folder: Path, root: Path = ROOT) -> None:
    """Make `folder` an import root that goes before the reference's. Raises BadEdit.

    The caches of modules are copied too and stay valid, because copies keep the time of their source.
    """
    texts = patched(mutant, root)
    shutil.copytree(root / "reference" / "protocol3", folder / "protocol3")
    if any(path.startswith("protocol3_spec/") for path in texts):
        shutil.copytree(root / "spec" / "protocol3_spec", folder / "protocol3_spec")
    for path, text in texts.items():
        (folder / path).write_text(text, encoding="utf-8")
        # An edit of the same length within the same second would look like the cached source.
        Path(cache_from_source(str(folder / path))).unlink(missing_ok=True)
