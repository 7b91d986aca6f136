"""The wire contract in code: strict JSON, value rules, errors, limits, messages. Imports nothing of the reference."""
