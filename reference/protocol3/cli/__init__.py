"""The command line: one JSON result on standard output, diagnostics on standard error, exit codes 0, 1 and 2."""
