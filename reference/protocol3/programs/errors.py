"""The one error type of the programs room."""

from typing import Literal

ProgramErrorKind = Literal[
    "invalid_input", "not_found", "integrity", "incompatible", "unavailable", "timed_out", "capacity", "io"
]

PublicationCode = Literal["immutable_conflict", "publication_storage", "publication_outcome_unknown"]


class ProgramError(Exception):
    """A package, store or cache operation failed. ``kind`` is one of the attempt error kinds of WRK-064."""

    def __init__(self, kind: ProgramErrorKind, message: str) -> None:
        super().__init__(message)
        self.kind: ProgramErrorKind = kind
        self.message = message


class PublicationError(ProgramError):
    """A verified artifact could not be published. ``code`` is the publication vocabulary of PKG-053…059 (PKG-088)."""

    def __init__(self, code: PublicationCode, message: str) -> None:
        super().__init__("integrity" if code == "immutable_conflict" else "io", message)
        self.code: PublicationCode = code
