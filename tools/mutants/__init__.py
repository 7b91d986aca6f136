"""Broken implementations that the conformance suite must catch: `./dev mutants`, conformance/mutants/README.md."""
