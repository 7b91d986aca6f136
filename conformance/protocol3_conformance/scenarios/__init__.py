"""The checks, by role and subject."""
