"""The reference implementation: coordinator, worker and runtime helper of Ledgence runtime protocol 3."""

__version__ = "0.1.0"
