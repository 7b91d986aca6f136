"""The wire contract in code: strict JSON, value rules, errors, limits and typed messages. Imports nothing of the reference."""
