"""Crash points of the suite: where the target dies, or a connection does, and how either is brought about."""
