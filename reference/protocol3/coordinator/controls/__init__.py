"""Test controls: virtual time and faults per scope (spec/35-testing-profiles.md).

Served only with `--test-controls`; without it no module of this package is imported. Nothing else knows of them: the
process is put together from other parts (`coordinator.parts`), the routes of `/testing/v1` among them.
"""
