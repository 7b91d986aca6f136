"""The command line: one JSON result on standard output, diagnostics on standard error, exit codes 0, 1 and 2."""

from protocol3.cli.root import main

__all__ = ["main"]
