"""Why an execution failed: the one error of the worker that becomes a `failed` report."""

from protocol3.contract.vocabulary import ErrorKind


class ExecutionFailed(Exception):
    """``kind`` is an error kind of WRK-064; the message never holds application data."""

    def __init__(self, kind: ErrorKind, message: str) -> None:
        super().__init__(message)
        self.kind: ErrorKind = kind
        self.message = message
